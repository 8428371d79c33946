// Dry runs: the whole work runs in the transaction and is rolled back.
import type { WriteCall } from './record-target.ts';

/**
 * Runs work and rolls back what it wrote. Its audit rows and events are dropped. Its locks stay until
 * the transaction ends.
 * @throws what the work throws
 */
export async function rehearse<T>(call: WriteCall, work: (call: WriteCall) => Promise<T>): Promise<T> {
  const { sql } = call.db;
  const sent: Promise<unknown>[] = [];
  await sql`savepoint rehearsal`;
  const result = await work({
    caller: call.caller,
    now: call.now,
    currentTime: () => call.currentTime(),
    db: { sql, record: () => {}, awaitAtCommit: (statement) => void sent.push(statement) },
  });
  await Promise.all(sent);
  await sql`rollback to savepoint rehearsal`;
  return result;
}
