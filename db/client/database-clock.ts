// The clock of a database, estimated from the times with which it answered.

/** Milliseconds for which an answer is used. Clocks that drift apart by 100 µs a second differ by 6 ms then. */
const goodFor = 60_000;
/**
 * Milliseconds after which any newer answer replaces it, even a slower one. Much less than `goodFor`: a transaction that has
 * noted an answer must still know the time when it commits.
 */
const replacedAfter = 30_000;
/** Milliseconds by which this machine's two clocks may part meanwhile: more is a machine that slept, or a clock that was set. */
const mostParted = 20;

interface Seen {
  /** Milliseconds by which the database's clock is ahead of performance.now(), or less: the answer took its time. */
  ahead: number;
  at: number;
  /** Of this machine's own two clocks. */
  parted: number;
}

export class DatabaseClock {
  #seen: Seen | undefined;

  /** Notes a time with which the database answered. The fastest of recent answers is used. */
  note(database: Date): void {
    const at = performance.now();
    const ahead = database.getTime() - at;
    const best = this.#good(at);
    if (!best || at - best.at > replacedAfter || ahead >= best.ahead)
      this.#seen = { ahead, at, parted: Date.now() - at };
  }

  /**
   * The database's time at a timestamp, or one before it, by as much as that answer took at most: never one that comes later.
   * @param timestamp by performance.now()
   * @returns as ISO 8601; undefined: it was not seen of late
   */
  at(timestamp: number): string | undefined {
    const seen = this.#good(performance.now());
    return seen && new Date(Math.floor(timestamp + seen.ahead)).toISOString();
  }

  #good(now: number): Seen | undefined {
    const seen = this.#seen;
    if (!seen || now - seen.at > goodFor || Math.abs(Date.now() - now - seen.parted) > mostParted) return undefined;
    return seen;
  }
}
