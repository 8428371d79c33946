// Finding the record that an upsert means, so that two that arrive together agree on it.
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { MatchedField } from '../../domain/records/match.ts';
import type { Sql } from '../connect.ts';
import type { Scope } from '../reach.ts';
import { lockValues } from '../value-locks.ts';
import { listRecords } from './records.ts';

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

/** The same for many at once, in the order given. */
export async function findMatchesOfEach(
  sql: Sql,
  scope: Scope,
  object: string,
  sets: readonly (readonly MatchedField[])[],
  limit: number,
): Promise<StoredRecord[][]> {
  if (sets.length === 0) return [];
  const { companyId, testMode } = scope;
  const texts = sets.map((fields) => {
    const values = fields.map(({ field, value }) => [field, value]).sort();
    return JSON.stringify(['upsert', testMode, object, values]);
  });
  const locking = lockValues(sql, companyId, texts);
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
