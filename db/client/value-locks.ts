// Locks on values that are not stored yet, so that calls of a company about one take turns.
import { createHash } from 'node:crypto';
import type { Sql } from './pool.ts';

/**
 * Locks what each text says in a company until the transaction ends; sent at once, before whatever is asked next. In one order everywhere,
 * so that no two calls wait for each other.
 * @throws Error when the transaction does not see the company: nothing would be locked
 */
export async function lockValues(sql: Sql, companyId: string, texts: readonly string[]): Promise<void> {
  const locks = texts.map((text) => createHash('sha256').update(`${companyId} ${text}`).digest().readBigInt64BE(0));
  const sorted = [...new Set(locks)].sort((a, b) => (a < b ? -1 : 1));
  // Taken by way of the company's row: a lock holds on the machine where it is taken, and all calls of a company meet where its rows are.
  const locked = await sql`
    select pg_advisory_xact_lock(lock)
    from (select unnest(${`{${sorted.join(',')}}`}::bigint[]) as lock from companies where id = ${companyId}) locks`.execute();
  if (locked.count !== sorted.length) throw new Error('values are locked in a company that does not exist');
}
