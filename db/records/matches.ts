// Finds the record of an upsert, so that two concurrent upserts agree on it.
import type { Fragment } from 'postgres';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { MatchedField } from '../../domain/records/match.ts';
import { markUnprepared, type Sql } from '../client/pipeline.ts';
import { lockValues } from '../client/value-locks.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { type Column, getRecordTable, type RecordTable } from './columns.ts';
import { canBe, chooseValueType, toExpression } from './filter.ts';
import { belongsToTenant, selectById } from './reached.ts';
import { type Row, readFurtherColumns, selectColumns, toRecord } from './rows.ts';

/**
 * Returns the oldest visible records that have all the values. Locks the values until the
 * transaction ends, so call it in the transaction that stores the record.
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

/**
 * Does the same for many sets, in the given order.
 * @param sets values of the same fields, in the same order
 */
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
  // A separate statement: it must see what the locks' last holders committed.
  const [, found] = await Promise.all([locking, selectMatches(sql, scope, getRecordTable(object), sets, limit)]);
  return sets.map((_, index) => found.get(index) ?? []);
}

/** A field to match, with its values in all sets. */
interface Matched {
  field: string;
  column: Column | undefined;
  values: (string | number)[];
}

/**
 * Looks up all sets of a batch in one statement, and sends it immediately.
 * @returns the oldest records of each set that has any, by the index of the set
 */
async function selectMatches(
  sql: Sql,
  scope: Scope,
  table: RecordTable,
  sets: readonly (readonly MatchedField[])[],
  limit: number,
): Promise<Map<number, StoredRecord[]>> {
  const columns = (sets[0] ?? []).map(({ field }) => table.columns.get(field));
  // A value that its column cannot hold matches nothing.
  const possible = [...sets.entries()].filter(([, fields]) =>
    fields.every(({ value }, index) => canBe(columns[index], value)),
  );
  if (possible.length === 0) return new Map();
  const matched: Matched[] = columns.map((column, index) => ({
    column,
    field: sets[0]?.[index]?.field ?? '',
    values: possible.map(([, fields]) => fields[index]?.value ?? ''),
  }));
  const places = possible.map(([place]) => place);
  const [only, ...others] = matched;
  const isOneByOne = only && others.length === 0 && hasIndex(only);
  const rows = await markUnprepared(
    (isOneByOne
      ? selectEach(sql, scope, table, places, only, limit)
      : selectTogether(sql, scope, table, places, matched, limit)
    ).values(),
  );
  const found = new Map<number, StoredRecord[]>();
  for (const row of rows as unknown as Row[]) {
    const place = Number(readFurtherColumns(table, row)[0]);
    found.set(place, [...(found.get(place) ?? []), toRecord(table, row)]);
  }
  return found;
}

/** Returns true if an index finds the records with one value of the field. */
function hasIndex({ column }: Matched): boolean {
  return !column || column.name === 'id' || [column.indexed, column.hashed, column.byAge].includes(true);
}

/**
 * Looks up the values of one field one by one, each by the index of the field, whatever PostgreSQL
 * knows of the rows: a range in the order of the index leaves no other. With an equality, it may
 * read all rows of the company for each value if it has no statistics of them, as after an import.
 */
function selectEach(
  sql: Sql,
  scope: Scope,
  table: RecordTable,
  places: readonly number[],
  matched: Matched,
  limit: number,
): Fragment {
  const { field, column } = matched;
  const visible = isVisibleTo(sql, scope, table.assigned);
  const key = column?.hashed ? sql`r.${sql(`${column.name}_hash`)}` : column && toExpression(sql, column);
  const value = column?.hashed ? sql`hashtextextended(w.value_0, 0)` : sql`w.value_0`;
  const found = key
    ? sql`
        select r.* from ${sql(table.name)} r
        where ${belongsToTenant(sql, scope, table)} and ${key} >= ${value} and ${key} <= ${value}
          and ${isWanted(sql, matched, 0)} and ${visible}
        order by ${key} offset 0`
    : sql`
        select r.* from (
          select h.record_id from custom_value_hashes h
          where h.company_id = ${scope.companyId} and h.test_mode = ${scope.testMode}
            and h.hash = custom_value_hash(${table.object ?? table.name}::text, ${field}::text, w.value_0)
          offset 0
        ) h
        cross join lateral (${selectById(sql, scope, table, sql`h.record_id`)}) r
        where ${isWanted(sql, matched, 0)} and ${visible}`;
  return sql`
    select ${selectColumns(sql, table)}, r.match_place
    from (
      select r.*, w.place as match_place
      from unnest(${[...places]}::int[], ${toTypedArray(sql, matched)}) as w (place, value_0)
      cross join lateral (select r.* from (${found}) r order by r.created_at, r.id limit ${limit}) r
    ) r
    order by r.match_place, r.created_at, r.id`;
}

/**
 * Looks up the values of several fields, or of one without an index. The values of each field are
 * also passed as a separate array, by which an index finds the records of all sets together.
 */
function selectTogether(
  sql: Sql,
  scope: Scope,
  table: RecordTable,
  places: readonly number[],
  matched: readonly Matched[],
  limit: number,
): Fragment {
  return sql`
    with wanted as materialized (
      select * from unnest(${[...places]}::int[], ${commas(
        sql,
        matched.map((each) => toTypedArray(sql, each)),
      )})
        as w (place, ${commas(
          sql,
          matched.map((_, index) => sql`${sql(`value_${index}`)}`),
        )})
    )
    select ${selectColumns(sql, table)}, r.match_place
    from (
      select r.*, w.place as match_place, row_number() over (partition by w.place order by r.created_at, r.id) as match_rank
      from ${sql(table.name)} r
      join wanted w on ${joined(
        sql,
        matched.map((each, index) => isWanted(sql, each, index)),
      )}
      where ${belongsToTenant(sql, scope, table)} and ${isVisibleTo(sql, scope, table.assigned)}
        and ${joined(
          sql,
          matched.map((each) => isAmong(sql, scope, table, each)),
        )}
    ) r
    where r.match_rank <= ${limit}
    order by r.match_place, r.match_rank`;
}

/**
 * Returns the values of a field as an array of its type. Values of custom fields are compared as
 * texts.
 */
function toTypedArray(sql: Sql, { column, values }: Matched): Fragment {
  return sql`${values.map(String)}::text[]::${chooseValueType(sql, column, ...values)}[]`;
}

/** Returns a condition for a row `r` with the value of a set `w`. */
function isWanted(sql: Sql, { field, column }: Matched, index: number): Fragment {
  const value = sql`w.${sql(`value_${index}`)}`;
  return column ? sql`${toExpression(sql, column)} = ${value}` : sql`(r.custom ->> ${field}::text) = ${value}`;
}

/**
 * Returns a condition for a row `r` with one of the values, in a form that an index serves if there
 * is one.
 */
function isAmong(sql: Sql, { companyId, testMode }: Scope, table: RecordTable, matched: Matched): Fragment {
  const { field, column, values } = matched;
  if (!column)
    return sql`r.id = any(array(
      select h.record_id from custom_value_hashes h
      where h.company_id = ${companyId} and h.test_mode = ${testMode} and h.hash = any(array(
        select custom_value_hash(${table.object ?? table.name}::text, ${field}::text, value)
        from unnest(${values.map(String)}::text[]) value
      ))
    ))`;
  const isOneOf = sql`${toExpression(sql, column)} = any(${toTypedArray(sql, matched)})`;
  if (!column.hashed) return isOneOf;
  const hashes = sql`array(select hashtextextended(value, 0) from unnest(${toTypedArray(sql, matched)}) value)`;
  return sql`r.${sql(`${column.name}_hash`)} = any(${hashes}) and ${isOneOf}`;
}

const commas = (sql: Sql, parts: readonly Fragment[]): Fragment =>
  sql`${parts.map((part, index) => (index === 0 ? part : sql`, ${part}`))}`;

const joined = (sql: Sql, conditions: readonly Fragment[]): Fragment =>
  sql`${conditions.map((condition, index) => (index === 0 ? condition : sql` and ${condition}`))}`;
