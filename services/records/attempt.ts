// Work inside a transaction that may fail, and is then rolled back on its own.
import type { Change } from '../../runtime/handler.ts';
import type { WriteCall } from './record-target.ts';

/**
 * Runs work that may fail after it has written, and rolls back only what it wrote if it fails.
 * @throws what the work throws; the transaction can go on
 */
export async function attempt<T>(call: WriteCall, work: (call: WriteCall) => Promise<T>): Promise<T> {
  const { sql } = call.db;
  await sql`savepoint attempt`;
  try {
    const { result, changes } = await runApart(call, work);
    await sql`release savepoint attempt`;
    for (const change of changes) call.db.record(change);
    return result;
  } catch (error) {
    await sql`rollback to savepoint attempt`;
    throw error;
  }
}

/** Runs work, keeps its audit rows and events apart, and waits for its statements. */
async function runApart<T>(
  { caller, now, currentTime, db: { sql } }: WriteCall,
  work: (call: WriteCall) => Promise<T>,
): Promise<{ result: T; changes: Change[] }> {
  const changes: Change[] = [];
  const sent: Promise<unknown>[] = [];
  const db = {
    sql,
    record: (change: Change) => void changes.push(change),
    awaitAtCommit(statement: Promise<unknown>) {
      statement.catch(() => undefined);
      sent.push(statement);
    },
  };
  const result = await work({ caller, now, currentTime, db });
  await Promise.all(sent);
  return { result, changes };
}
