// Stretches of time: joined, cut, and searched for what meets a moment or a slot.

/** Milliseconds since 1970; the end is not part of it. */
export interface Interval {
  start: number;
  end: number;
}

/** In order of start, none empty, none meeting or touching another. */
export function union(list: readonly Interval[]): Interval[] {
  const joined: Interval[] = [];
  for (const { start, end } of inOrder(list)) {
    const last = joined.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else joined.push({ start, end });
  }
  return joined;
}

/** What lies in both lists. */
export function intersect(first: readonly Interval[], second: readonly Interval[]): Interval[] {
  const [a, b] = [union(first), union(second)];
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

/** What lies in the first list and not in the second. */
export function subtract(from: readonly Interval[], taken: readonly Interval[]): Interval[] {
  const gaps: Interval[] = [];
  let free = Number.NEGATIVE_INFINITY;
  for (const { start, end } of union(taken)) {
    gaps.push({ start: free, end: start });
    free = end;
  }
  return intersect(from, [...gaps, { start: free, end: Number.POSITIVE_INFINITY }]);
}

/** Each made longer by so many milliseconds before and after; they may overlap then. */
export function widened(list: readonly Interval[], before: number, after: number): Interval[] {
  return list.map(({ start, end }) => ({ start: start - before, end: end + after }));
}

/** Intervals that may overlap, arranged to be asked which one meets a slot: quick where questions come in order of time. */
export class Occupied<Entry extends Interval> {
  readonly #entries: readonly Entry[];
  /** The latest end among an entry and all before it, so that it never falls. */
  readonly #latestEnds: readonly number[];
  /** Where the last question was answered: the next one is mostly answered near it. */
  #index = 0;

  constructor(entries: readonly Entry[]) {
    this.#entries = inOrder(entries);
    let latest = Number.NEGATIVE_INFINITY;
    this.#latestEnds = this.#entries.map(({ end }) => {
      latest = Math.max(latest, end);
      return latest;
    });
  }

  /** The entry with the earliest start that shares a moment with the interval from start to end. */
  firstMeeting(start: number, end: number): Entry | undefined {
    const ends = this.#latestEnds;
    let index = this.#index;
    while (index > 0 && (ends[index - 1] as number) > start) index -= 1;
    while (index < ends.length && (ends[index] as number) <= start) index += 1;
    this.#index = index;
    // The first that raises the latest end above start ends after start itself, and all before it have ended.
    const entry = this.#entries[index];
    return entry && entry.start < end ? entry : undefined;
  }
}

/** By start, and without those that are empty. */
function inOrder<Entry extends Interval>(list: readonly Entry[]): Entry[] {
  return list.filter(({ start, end }) => start < end).sort((a, b) => a.start - b.start);
}
