// Filters as SQL: every value is a parameter, every column comes from the table of columns.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { Sql } from '../client/pool.ts';
import type { Column, RecordTable } from './columns.ts';

/**
 * The condition that a row `r` fulfils when it passes the filter.
 * @param isOneOfSeveral in an `or`, where no index can serve a part alone
 */
export function filterCondition(sql: Sql, table: RecordTable, filter: Filter, isOneOfSeveral = false): Fragment {
  if ('and' in filter) return joined(sql, table, filter.and, sql`and`, isOneOfSeveral);
  if ('or' in filter) return joined(sql, table, filter.or, sql`or`, true);
  const column = table.columns.get(filter.field);
  const expression = column ? expressionOf(sql, column) : sql`(r.custom ->> ${filter.field}::text)`;
  if (filter.op === 'is_null') return filter.isNull ? sql`${expression} is null` : sql`${expression} is not null`;
  if (filter.op === 'in') {
    const values = filter.values.filter((value) => canBe(column, value));
    const isOneOf = sql`${expression} = any(${values}::${valueType(sql, column, ...values)}[])`;
    return column || isOneOfSeveral ? isOneOf : sql`${hasHash(sql, table, filter.field, values)} and ${isOneOf}`;
  }
  const { op, value } = filter;
  if (op === 'contains') {
    const pattern = `%${String(value).replace(/[\\%_]/g, '\\$&')}%`;
    // Under the database's own collation, which knows the case of all letters.
    const searched = column ? sql`r.${sql(column.name)}` : expression;
    return sql`${searched}${column?.type === 'uuid' ? sql`::text` : sql``} ilike ${pattern}::text`;
  }
  if (op === 'eq' || op === 'neq') {
    // An id is published as text; what is no id equals none.
    if (!canBe(column, value)) return op === 'eq' ? sql`false` : sql`true`;
    const parameter = sql`${value}::${valueType(sql, column, value)}`;
    if (op === 'neq') return sql`${expression} is distinct from ${parameter}`;
    const isEqual = sql`${expression} = ${parameter}`;
    if (column?.hashed)
      return sql`(r.${sql(`${column.name}_hash`)} = hashtextextended(${parameter}, 0) and ${isEqual})`;
    return column || isOneOfSeveral ? isEqual : sql`${hasHash(sql, table, filter.field, [value])} and ${isEqual}`;
  }
  const ordered = { gt: sql`>`, gte: sql`>=`, lt: sql`<`, lte: sql`<=` }[op];
  if (column?.type === 'text') return sql`${expression} ${ordered} ${value}::text`;
  return !column || column.type === 'uuid'
    ? sql`${expression}::text collate "C" ${ordered} ${value}::text`
    : sql`${expression} ${ordered} ${value}::${valueType(sql, column, value)}`;
}

function joined(
  sql: Sql,
  table: RecordTable,
  members: readonly Filter[],
  by: Fragment,
  isOneOfSeveral: boolean,
): Fragment {
  const conditions = members.map((member, index) => {
    const condition = filterCondition(sql, table, member, isOneOfSeveral);
    return index === 0 ? condition : sql`${by} ${condition}`;
  });
  return sql`(${conditions})`;
}

/** One of the values has the hash of what the row `r` holds in the tenant's own field: what an index finds, where nothing else could. */
function hasHash(sql: Sql, table: RecordTable, field: string, values: readonly (string | number)[]): Fragment {
  return sql`exists (
    select from custom_value_hashes h
    where h.company_id = r.company_id and h.test_mode = r.test_mode and h.record_id = r.id
      and h.hash in (select custom_value_hash(${table.object ?? table.name}::text, ${field}::text, value) from unnest(${values.map(String)}::text[]) value)
  )`;
}

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Texts in the order of their bytes, which is what indexes have them in. */
export function expressionOf(sql: Sql, { name, type }: Column): Fragment {
  return type === 'text' ? sql`r.${sql(name)} collate "C"` : sql`r.${sql(name)}`;
}

/** False for what a column cannot hold: a text in one of ids, a fraction in one of whole numbers. */
export function canBe(column: Column | undefined, value: string | number): boolean {
  if (column?.type === 'number') return Number.isInteger(value);
  return column?.type !== 'uuid' || uuidPattern.test(String(value));
}

/** The SQL type that values are compared as; a fraction or a number beyond bigint must not be cut to the column's type. */
export function valueType(sql: Sql, column: Column | undefined, ...values: readonly (string | number)[]): Fragment {
  switch (column?.type) {
    case 'uuid':
      return sql`uuid`;
    case 'number':
      return values.every(Number.isSafeInteger) ? sql`bigint` : sql`numeric`;
    case 'date':
      return sql`date`;
    case 'timestamp':
      return sql`timestamptz`;
    default:
      return sql`text`;
  }
}
