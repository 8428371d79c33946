// Finds the record that a new one would duplicate, even if both are created at the same time.
import type { Fragment } from 'postgres';
import type { DuplicateField } from '../../domain/records/duplicates.ts';
import type { Sql } from '../client/pool.ts';
import { lockValues } from '../client/value-locks.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';

export interface Duplicate {
  id: string;
  /** True if the caller can see it. */
  visible: boolean;
  /** API names of the fields with the same value. */
  matchedFields: string[];
}

/**
 * Finds a record that has the same values in all fields of one of the sets. Locks the values until
 * the transaction ends, so call it in the transaction that stores the record.
 * @returns undefined also if there are no sets; then no statement is sent
 */
export async function findDuplicate(
  sql: Sql,
  scope: Scope,
  object: 'leads' | 'deals',
  sets: readonly (readonly DuplicateField[])[],
): Promise<Duplicate | undefined> {
  if (sets.length === 0) return undefined;
  const locking = lockFields(sql, scope, object, sets.flat());
  const [, found] = await Promise.all([locking, findMatching(sql, scope, object, sets)]);
  return found;
}

/**
 * Does the same for many new records: locks all values in one statement, so that two callers never
 * wait for each other.
 * @param records the sets of each record
 */
export async function findDuplicates(
  sql: Sql,
  scope: Scope,
  object: 'leads' | 'deals',
  records: readonly (readonly (readonly DuplicateField[])[])[],
): Promise<(Duplicate | undefined)[]> {
  const all = records.flat(2);
  if (all.length === 0) return records.map(() => undefined);
  const locking = lockFields(sql, scope, object, all);
  const finding = records.map((sets) => (sets.length === 0 ? undefined : findMatching(sql, scope, object, sets)));
  const [, ...found] = await Promise.all([locking, ...finding]);
  return found;
}

/** Sends its statement immediately. */
async function findMatching(
  sql: Sql,
  scope: Scope,
  object: 'leads' | 'deals',
  sets: readonly (readonly DuplicateField[])[],
): Promise<Duplicate | undefined> {
  const { companyId, testMode } = scope;
  const equal = (field: DuplicateField) => sameValue(sql, scope, object, field);
  const conditions = sets.map((set) => set.map(equal).reduce((all, one) => sql`${all} and ${one}`));
  const anyOf = conditions.reduce((all, one) => sql`${all} or ${one}`);
  const matches = conditions.map((one) => sql`coalesce(${one}, false)`).reduce((all, one) => sql`${all}, ${one}`);
  // A separate statement: it must see what the locks' last holder committed.
  const [row] = await sql<{ id: string; visible: boolean; matches: boolean[] }[]>`
    with matching as materialized (
      select id, created_at, ${isVisibleTo(sql, scope)} as visible, array[${matches}] as matches
      from ${sql(object)}
      where company_id = ${companyId} and test_mode = ${testMode} and (${anyOf})
      limit 20
    )
    select id, visible, matches from matching order by visible desc, created_at, id limit 1`;
  if (!row) return undefined;
  const matched = sets.filter((_, index) => row.matches[index]).flat();
  return { id: row.id, visible: row.visible, matchedFields: [...new Set(matched.map((each) => each.field))] };
}

/**
 * Returns a condition for records with the value, in a form that an index serves for every field.
 */
function sameValue(sql: Sql, { companyId, testMode }: Scope, object: string, field: DuplicateField): Fragment {
  const { field: name, value } = field;
  if (field.custom) {
    const json = sql.json(value);
    return sql`(
      id in (
        select record_id from custom_value_hashes
        where company_id = ${companyId} and test_mode = ${testMode}
          and hash = custom_value_hash(${object}::text, ${name}::text, ${json} #>> '{}')
      ) and custom -> ${name}::text = ${json}
    )`;
  }
  const column = getRecordTable(object).columns.get(name);
  if (!column) throw new Error(`${object} have no column for ${name}`);
  const own = sql`${sql(column.name)}`;
  if (column.type !== 'text') return sql`${own} = ${value}`;
  const isHashed = column.hashed
    ? sql`${sql(`${column.name}_hash`)} = hashtextextended(${String(value)}::text, 0) and`
    : sql``;
  // The indexes sort texts by their bytes.
  return sql`(${isHashed} ${own} collate "C" = ${value})`;
}

/** Two records can only be duplicates if they share a value, so each value is locked. */
function lockFields(
  sql: Sql,
  { companyId, testMode }: Scope,
  object: string,
  fields: readonly DuplicateField[],
): Promise<unknown> {
  return lockValues(
    sql,
    companyId,
    fields.map(({ field, value }) => JSON.stringify(['duplicate', testMode, object, field, value])),
  );
}
