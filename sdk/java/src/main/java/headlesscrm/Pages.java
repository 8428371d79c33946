package headlesscrm;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.BiFunction;
import java.util.function.Function;

/** Iterators over lists. They fetch the next page on demand. */
final class Pages {
    private static final long FEED_WAIT_SECONDS = 30;
    private static final Duration FEED_PAUSE = Duration.ofSeconds(1);

    /**
     * Every item of a list, over all pages.
     *
     * @param fetch takes a cursor, null for the first page
     */
    static <Page extends Structure, Item> Iterable<Item> items(
            Function<String, Page> fetch, Function<Page, List<Item>> itemsIn) {
        return () -> new Iterator<>() {
            private final ArrayDeque<Item> left = new ArrayDeque<>();
            private String cursor;
            private boolean isLast;

            @Override
            public boolean hasNext() {
                while (left.isEmpty() && !isLast) {
                    var page = fetch.apply(cursor);
                    left.addAll(itemsIn.apply(page));
                    cursor = (String) page.getProperty("next_cursor");
                    isLast = cursor == null;
                }
                return !left.isEmpty();
            }

            @Override
            public Item next() {
                if (!hasNext()) throw new NoSuchElementException();
                return left.remove();
            }
        };
    }

    /** Every page of an endless list. Waits for news, and retries through outages. */
    static <Page extends Structure> Iterable<Page> follow(
            String from, Long wait, BiFunction<String, Long, Page> fetch) {
        var held = wait == null ? FEED_WAIT_SECONDS : wait;
        return () -> new Iterator<>() {
            private String cursor = from;

            @Override
            public boolean hasNext() {
                return true;
            }

            @Override
            public Page next() {
                while (true) {
                    var asked = System.nanoTime();
                    // The first call returns immediately, so that the caller can store where the feed starts.
                    var isBegun = cursor != null && !cursor.equals("now");
                    var page = fetch.apply(cursor, isBegun ? held : 0L);
                    var next = (String) page.getProperty("next_cursor");
                    var isNew = !next.equals(cursor);
                    cursor = next;
                    if (isNew) return page;
                    if (System.nanoTime() - asked < FEED_PAUSE.toNanos()) Transport.sleep(FEED_PAUSE);
                }
            }
        };
    }

    /** Options of the calls of {@link #follow}. */
    static CallOptions patient(CallOptions options, Long wait) {
        var held = Duration.ofSeconds(wait == null ? FEED_WAIT_SECONDS : wait);
        return (options == null ? new CallOptions() : options).patient(held);
    }

    private Pages() {}
}
