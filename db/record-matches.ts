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
  const { companyId, testMode } = scope;
  const values = fields.map(({ field, value }) => [field, value]).sort();
  const text = JSON.stringify(['upsert', companyId, testMode, object, values]);
  const lock = createHash('sha256').update(text).digest().readBigInt64BE(0);
  const locking = sql`select pg_advisory_xact_lock(${String(lock)}::bigint)`.execute();
  // A statement of its own: it must see what the lock's last holder committed.
  const finding = listRecords(sql, scope, object, {
    sort: [{ field: 'created_at', descending: false }],
    filter: { and: fields.map(({ field, value }) => ({ field, op: 'eq', value })) },
    after: undefined,
    limit,
  });
  const [, rows] = await Promise.all([locking, finding]);
  return rows.map(({ record }) => record);
}
