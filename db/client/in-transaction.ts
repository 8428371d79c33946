// A transaction for work that is no call: of jobs, pages, and providers that report something.
//
// Calls get theirs from the runtime. It is not part of the jobs' runner, since services, integrations and pages need it as well; jobs use the
// runner's, which adds the job's connections and timeout.
import { responsiveNow, startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';
import type { AuditRow, EventRow } from './change-log.ts';
import type { Pool, Sql } from './pool.ts';
import type { Scope } from './preconditions.ts';
import { WriteTransaction } from './write-transaction.ts';

/** Work of a transaction: gets the statements' function, and two that note events for the outbox and rows for the audit log. */
export type TransactionWork<Result> = (
  sql: Sql,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
) => Promise<Result>;

/**
 * Runs work in a transaction of its own; what it throws undoes all of it.
 * @param milliseconds after which the connection is given up: a database that hangs does not say so
 * @returns what the work returned, once it is committed
 */
export async function inTransaction<Result>(
  pool: Pool,
  scope: Scope,
  milliseconds: number,
  work: TransactionWork<Result>,
): Promise<Result> {
  const transaction = await WriteTransaction.open(pool, scope);
  const cancel = startResponsiveTimeout(() => transaction.destroy(), milliseconds);
  // On the same clock: time in which this process was blocked is not the database's.
  const end = responsiveNow() + milliseconds;
  const events: EventRow[] = [];
  const audit: AuditRow[] = [];
  try {
    const result = await work(
      transaction.sql,
      (event) => events.push(event),
      (row) => audit.push(row),
    );
    await transaction.commit(audit, events, undefined, new Date(), end - responsiveNow());
    return result;
  } catch (error) {
    transaction.abandon();
    throw error;
  } finally {
    cancel();
  }
}
