// Finding the record that an upsert means, so that two that arrive together agree on it.
import { createHash } from 'node:crypto';
import type { Sql } from './connect.ts';
import type { Scope } from './reach.ts';
import { listRecords, type StoredRecord } from './records.ts';

/** A field and the value that it must have, in stored form. */
export interface MatchedField {
  field: string;
  value: string | number;
}

/**
 * The oldest records within reach that have all the values. Until the transaction ends, nobody else who asks for the same values
 * is answered; call it in the transaction that then stores the record.
 */
export async function findMatches(
  sql: Sql,
  scope: Scope,
  object: string,
  fields: readonly MatchedField[],
  limit: number,
): Promise<StoredRecord[]> {
  const [found = []] = await findMatchesOfEach(sql, scope, object, [fields], limit);
  return found;
}

/** The same for many at once, in the order given. The locks are taken in their own order, so that no two calls wait for each other. */
export async function findMatchesOfEach(
  sql: Sql,
  scope: Scope,
  object: string,
  sets: readonly (readonly MatchedField[])[],
  limit: number,
): Promise<StoredRecord[][]> {
  if (sets.length === 0) return [];
  const { companyId, testMode } = scope;
  const locks = sets.map((fields) => {
    const values = fields.map(({ field, value }) => [field, value]).sort();
    const text = JSON.stringify(['upsert', companyId, testMode, object, values]);
    return createHash('sha256').update(text).digest().readBigInt64BE(0);
  });
  const sorted = [...new Set(locks)].sort((a, b) => (a < b ? -1 : 1)).map(String);
  const locking = sql`select pg_advisory_xact_lock(id) from unnest(${sorted}::bigint[]) locks (id)`.execute();
  // Statements of their own: they must see what the locks' last holders committed.
  const finding = sets.map((fields) =>
    listRecords(sql, scope, object, {
      sort: [{ field: 'created_at', descending: false }],
      filter: { and: fields.map(({ field, value }) => ({ field, op: 'eq', value })) },
      after: undefined,
      limit,
    }),
  );
  const [, ...found] = await Promise.all([locking, ...finding]);
  return found.map((rows) => rows.map(({ record }) => record));
}
