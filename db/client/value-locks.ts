// Locks on values that are not stored yet: calls of a company with the same value take turns.
import { createHash } from 'node:crypto';
import type { Sql } from './pool.ts';

/**
 * Locks texts within a company until the transaction ends. Sends its statement immediately, before
 * any later one. The locks have one order everywhere, which prevents deadlocks.
 * @throws Error if the transaction cannot see the company, because nothing would be locked
 */
export async function lockValues(sql: Sql, companyId: string, texts: readonly string[]): Promise<void> {
  const locks = texts.map((text) => createHash('sha256').update(`${companyId} ${text}`).digest().readBigInt64BE(0));
  const sorted = [...new Set(locks)].sort((a, b) => (a < b ? -1 : 1));
  // Reads the company's row: a lock is local to one machine, and all calls of a company meet on the
  // machine that has its rows.
  const locked = await sql`
    select pg_advisory_xact_lock(lock)
    from (select unnest(${`{${sorted.join(',')}}`}::bigint[]) as lock from companies where id = ${companyId}) locks`.execute();
  if (locked.count !== sorted.length) throw new Error('values are locked in a company that does not exist');
}
