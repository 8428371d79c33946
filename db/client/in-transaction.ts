// A transaction for work outside of calls: of jobs, pages, and inbound reports of providers.
//
// Calls get their transaction from the runtime. Jobs use the function of their runner, which adds
// the job's connections and timeout. This one is here because services, integrations and pages need
// it, too.
import { readResponsiveClock, startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';
import type { AuditRow, EventRow } from './change-log.ts';
import type { Pool, Sql } from './pool.ts';
import type { Scope } from './preconditions.ts';
import { WriteTransaction } from './write-transaction.ts';

/**
 * The work of a transaction. It gets the function for statements, and two that add events to the
 * outbox and rows to the audit log.
 */
export type TransactionWork<Result> = (
  sql: Sql,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
) => Promise<Result>;

/**
 * Runs work in its own transaction. If the work throws, the transaction is rolled back.
 * @param milliseconds after which the connection is closed, because a database that hangs does not
 * respond
 * @returns what the work returned, after the commit
 */
export async function inTransaction<Result>(
  pool: Pool,
  scope: Scope,
  milliseconds: number,
  work: TransactionWork<Result>,
): Promise<Result> {
  const transaction = await WriteTransaction.open(pool, scope);
  const cancel = startResponsiveTimeout(() => transaction.destroy(), milliseconds);
  // On the same clock: time in which this process was blocked does not count.
  const end = readResponsiveClock() + milliseconds;
  const events: EventRow[] = [];
  const audit: AuditRow[] = [];
  try {
    const result = await work(
      transaction.sql,
      (event) => events.push(event),
      (row) => audit.push(row),
    );
    await transaction.commit(audit, events, undefined, new Date(), end - readResponsiveClock());
    return result;
  } catch (error) {
    transaction.abandon();
    throw error;
  } finally {
    cancel();
  }
}
