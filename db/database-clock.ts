// The clock of a database, told without asking: from what a connection saw of it last.

/** Milliseconds for which what was seen is good: clocks that run apart by 100 µs a second are 6 ms apart then. */
const goodFor = 60_000;
/** Milliseconds by which this machine's two clocks may part meanwhile: more is a machine that slept, or a clock that was set. */
const mostParted = 20;

export class DatabaseClock {
  #seen: { database: number; steady: number; parted: number } | undefined;

  /** Notes a time that the database has just answered with. */
  note(database: Date): void {
    const steady = performance.now();
    this.#seen = { database: database.getTime(), steady, parted: Date.now() - steady };
  }

  /**
   * The database's time at a moment, or a time that is up to one round trip before it: never one that comes later.
   * @param moment by performance.now()
   * @returns as ISO 8601; undefined: it was not seen of late
   */
  at(moment: number): string | undefined {
    const seen = this.#seen;
    const steady = performance.now();
    if (!seen || steady - seen.steady > goodFor) return undefined;
    if (Math.abs(Date.now() - steady - seen.parted) > mostParted) return undefined;
    return new Date(seen.database + Math.floor(moment - seen.steady)).toISOString();
  }
}
