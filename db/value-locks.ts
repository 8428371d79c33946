// Locks on values that are not stored yet, so that two calls that ask about the same one come after each other.
import { createHash } from 'node:crypto';
import type { Sql } from './connect.ts';

/**
 * Locks what each text says until the transaction ends; sent at once, before whatever is asked next. In one order everywhere, so that no
 * two calls wait for each other.
 */
export function lockValues(sql: Sql, texts: readonly string[]): Promise<unknown> {
  const locks = texts.map((text) => createHash('sha256').update(text).digest().readBigInt64BE(0));
  const sorted = [...new Set(locks)].sort((a, b) => (a < b ? -1 : 1)).map(String);
  return sql`select pg_advisory_xact_lock(id) from unnest(${sorted}::bigint[]) locks (id)`.execute();
}
