// The clock of a database, estimated from the times in its responses.

/**
 * Milliseconds for which a sample is used. Clocks that drift by 100 µs a second differ by 6 ms
 * then.
 */
const maxSampleAge = 60_000;
/**
 * Milliseconds after which any newer sample replaces it, even a slower one. Much less than
 * `maxSampleAge`: a transaction that has noted a sample must still know the time when it commits.
 */
const preferredSampleAge = 30_000;
/**
 * Milliseconds by which this machine's two clocks may drift apart. More means that the machine
 * slept, or that its clock was set.
 */
const maxClockDrift = 20;

interface Sample {
  /**
   * Milliseconds by which the database's clock is ahead of performance.now(), at least: the
   * response took time to arrive.
   */
  ahead: number;
  at: number;
  /** The difference between Date.now() and performance.now() at that time. */
  clockDifference: number;
}

export class DatabaseClock {
  #sample: Sample | undefined;

  /** Adds a time from a response of the database. The fastest of the recent responses is used. */
  note(database: Date): void {
    const at = performance.now();
    const ahead = database.getTime() - at;
    const best = this.#usableSample(at);
    if (!best || at - best.at > preferredSampleAge || ahead >= best.ahead)
      this.#sample = { ahead, at, clockDifference: Date.now() - at };
  }

  /**
   * Returns the database's time at a timestamp, as ISO 8601. It may be too early, by at most the
   * time that the response took, but is never too late. Returns undefined if no recent response is
   * known.
   * @param timestamp by performance.now()
   */
  at(timestamp: number): string | undefined {
    const sample = this.#usableSample(performance.now());
    return sample && new Date(Math.floor(timestamp + sample.ahead)).toISOString();
  }

  #usableSample(now: number): Sample | undefined {
    const sample = this.#sample;
    if (
      !sample ||
      now - sample.at > maxSampleAge ||
      Math.abs(Date.now() - now - sample.clockDifference) > maxClockDrift
    )
      return undefined;
    return sample;
  }
}
