// Moments that processes of this machine agree on, and which writes were answered when.

/** Milliseconds since 1970, with their fractions. */
export const moment = (): number => performance.timeOrigin + performance.now();

/** Notes when each record that an answer shows was known to be committed. */
export class Answered {
  /** By the id of the record. */
  readonly at = new Map<string, number>();

  /** Takes the answer to a create or to a batch of creates. */
  readonly note = (answer: Buffer): void => {
    const now = moment();
    const { data } = JSON.parse(answer.toString('utf8', answer.indexOf('\r\n\r\n') + 4));
    const records: { record: { id: string } }[] = data.succeeded ?? [data];
    for (const { record } of records) this.at.set(record.id, now);
  };

  /**
   * Milliseconds from each answer to the arrival of what it told; 0 for what arrived before its answer.
   * @throws Error when something did not arrive, or arrived that nobody wrote
   */
  delays(arrivals: ReadonlyMap<string, number>): number[] {
    const missing = [...this.at.keys()].filter((id) => !arrivals.has(id));
    if (missing.length > 0) throw new Error(`${missing.length} of ${this.at.size} writes did not arrive`);
    return [...this.at].map(([id, at]) => Math.max(0, (arrivals.get(id) as number) - at));
  }
}
