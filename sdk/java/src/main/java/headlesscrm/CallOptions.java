package headlesscrm;

import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

/** Options of a single call. */
public final class CallOptions {
    final Map<String, String> headers = new LinkedHashMap<>();
    String idempotencyKey;
    Duration timeout;
    Duration longestWait;
    Integer retries;
    Consumer<HttpResponse<byte[]>> onResponse = response -> {};

    /** Replaces the random Idempotency-Key of an operation that takes one. */
    public CallOptions idempotencyKey(String key) {
        idempotencyKey = key;
        return this;
    }

    /** Changes a record only if it still has this ETag. Otherwise the call fails: CONFLICT, version_mismatch. */
    public CallOptions ifMatch(String etag) {
        return header("If-Match", etag);
    }

    public CallOptions header(String name, String value) {
        headers.put(name, value);
        return this;
    }

    /** Limits each attempt. */
    public CallOptions timeout(Duration limit) {
        timeout = limit;
        return this;
    }

    /** Retries after a failed attempt. */
    public CallOptions retries(int count) {
        retries = count;
        return this;
    }

    /** A failure with a longer Retry-After is thrown immediately. */
    public CallOptions longestWait(Duration longest) {
        longestWait = longest;
        return this;
    }

    /** Receives every response, including those of failed attempts: {@code response.headers().firstValue("etag")}. */
    public CallOptions onResponse(Consumer<HttpResponse<byte[]>> see) {
        onResponse = see;
        return this;
    }

    /** Returns a copy for a call that the server may hold, and that is retried until it succeeds. */
    CallOptions patient(Duration held) {
        var copy = new CallOptions();
        copy.headers.putAll(headers);
        copy.onResponse = onResponse;
        copy.timeout = timeout == null ? held.plusSeconds(15) : timeout;
        copy.retries = retries == null ? Integer.MAX_VALUE : retries;
        copy.longestWait = longestWait == null ? Duration.ofDays(365) : longestWait;
        return copy;
    }
}
