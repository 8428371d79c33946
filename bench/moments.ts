// Times that processes of this machine agree on, and when writes were answered.

/** Returns milliseconds since 1970, with fractions. */
export const moment = (): number => performance.timeOrigin + performance.now();

/** Records when the response about each record arrived. */
export class Answered {
  /** By the id of the record. */
  readonly at = new Map<string, number>();

  /** Receives the response to a create or a batch of creates. */
  readonly note = (answer: Buffer): void => {
    const now = moment();
    const { data } = JSON.parse(answer.toString('utf8', answer.indexOf('\r\n\r\n') + 4));
    const records: { record: { id: string } }[] = data.succeeded ?? [data];
    for (const { record } of records) this.at.set(record.id, now);
  };

  /**
   * Returns the milliseconds from each response to the arrival of its record; 0 if it arrived
   * earlier.
   * @throws Error if a record did not arrive, or if one arrived that was not written
   */
  delays(arrivals: ReadonlyMap<string, number>): number[] {
    const missing = [...this.at.keys()].filter((id) => !arrivals.has(id));
    if (missing.length > 0) throw new Error(`${missing.length} of ${this.at.size} writes did not arrive`);
    return [...this.at].map(([id, at]) => Math.max(0, (arrivals.get(id) as number) - at));
  }
}
