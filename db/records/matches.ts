// Finds the record of an upsert, so that two concurrent upserts agree on it.
import type { Fragment } from 'postgres';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { MatchedField } from '../../domain/records/match.ts';
import { markUnprepared, type Sql } from '../client/pipeline.ts';
import { lockValues } from '../client/value-locks.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { type Column, getRecordTable, type RecordTable } from './columns.ts';
import { canBe, chooseValueType, toExpression } from './filter.ts';
import { belongsToTenant } from './reached.ts';
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
 * Looks up all sets of a batch in one statement, and sends it immediately. The values of each field
 * are also passed as a separate array, by which an index finds the records. So PostgreSQL does not
 * read the whole object, even with outdated statistics, as after an import.
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
  const rows = await markUnprepared(
    sql`
      with wanted as materialized (
        select * from unnest(${possible.map(([place]) => place)}::int[], ${commas(
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
      order by r.match_place, r.match_rank`.values(),
  );
  const found = new Map<number, StoredRecord[]>();
  for (const row of rows as unknown as Row[]) {
    const place = Number(readFurtherColumns(table, row)[0]);
    found.set(place, [...(found.get(place) ?? []), toRecord(table, row)]);
  }
  return found;
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
