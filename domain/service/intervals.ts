// Time intervals: union, intersection, difference, and search for overlaps.

/** Milliseconds since 1970. The end is exclusive. */
export interface Interval {
  start: number;
  end: number;
}

/** Returns the union in order of start, without empty, overlapping or adjacent intervals. */
export function unite(list: readonly Interval[]): Interval[] {
  const joined: Interval[] = [];
  for (const { start, end } of sortByStart(list)) {
    const last = joined.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else joined.push({ start, end });
  }
  return joined;
}

/** Returns the intersection of two lists. */
export function intersect(first: readonly Interval[], second: readonly Interval[]): Interval[] {
  const [a, b] = [unite(first), unite(second)];
  const common: Interval[] = [];
  for (let [i, j] = [0, 0]; ; ) {
    const [one, other] = [a[i], b[j]];
    if (!one || !other) return common;
    const [start, end] = [Math.max(one.start, other.start), Math.min(one.end, other.end)];
    if (start < end) common.push({ start, end });
    if (one.end < other.end) i += 1;
    else j += 1;
  }
}

/** Returns the parts of the first list that are not in the second. */
export function subtract(from: readonly Interval[], taken: readonly Interval[]): Interval[] {
  const gaps: Interval[] = [];
  let free = Number.NEGATIVE_INFINITY;
  for (const { start, end } of unite(taken)) {
    gaps.push({ start: free, end: start });
    free = end;
  }
  return intersect(from, [...gaps, { start: free, end: Number.POSITIVE_INFINITY }]);
}

/** Extends each interval by this many milliseconds before and after. The results may overlap. */
export function widen(list: readonly Interval[], before: number, after: number): Interval[] {
  return list.map(({ start, end }) => ({ start: start - before, end: end + after }));
}

/**
 * A search for intervals that overlap with a slot. The intervals may overlap each other. Fast if
 * the queries come in order of time.
 */
export class Occupied<Entry extends Interval> {
  readonly #entries: readonly Entry[];
  /** The latest end of an entry and all entries before it, so it never decreases. */
  readonly #latestEnds: readonly number[];
  /** The position of the last result. The next one is usually near it. */
  #index = 0;

  constructor(entries: readonly Entry[]) {
    this.#entries = sortByStart(entries);
    let latest = Number.NEGATIVE_INFINITY;
    this.#latestEnds = this.#entries.map(({ end }) => {
      latest = Math.max(latest, end);
      return latest;
    });
  }

  /**
   * Returns the entry with the earliest start that overlaps with the interval from start to end.
   */
  firstMeeting(start: number, end: number): Entry | undefined {
    const ends = this.#latestEnds;
    let index = this.#index;
    while (index > 0 && (ends[index - 1] as number) > start) index -= 1;
    while (index < ends.length && (ends[index] as number) <= start) index += 1;
    this.#index = index;
    // The first entry that raises the latest end above start ends after start itself, and all
    // before it have ended.
    const entry = this.#entries[index];
    return entry && entry.start < end ? entry : undefined;
  }
}

/** Sorts by start, and removes empty intervals. */
function sortByStart<Entry extends Interval>(list: readonly Entry[]): Entry[] {
  return list.filter(({ start, end }) => start < end).sort((a, b) => a.start - b.start);
}
