// Filters as SQL: every value is a parameter, every column comes from the table of columns.
import type { Fragment } from 'postgres';
import type { Sql } from './connect.ts';
import type { Column, RecordTable } from './record-columns.ts';

/** A comparison as the filter grammar gives it, with its values in stored form. */
export type Condition =
  | { field: string; op: Comparison | 'contains'; value: string | number }
  | { field: string; op: 'in'; values: readonly (string | number)[] }
  | { field: string; op: 'is_null'; isNull: boolean };

export type Filter = Condition | { and: readonly Filter[] } | { or: readonly Filter[] };

type Comparison = 'eq' | 'neq' | 'gt' | 'gte' | 'lt' | 'lte';

/** The condition that a row `r` fulfils when it passes the filter. */
export function filterCondition(sql: Sql, table: RecordTable, filter: Filter): Fragment {
  if ('and' in filter) return joined(sql, table, filter.and, sql`and`);
  if ('or' in filter) return joined(sql, table, filter.or, sql`or`);
  const column = table.columns.get(filter.field);
  const expression = column ? sql`r.${sql(column.name)}` : sql`(r.custom ->> ${filter.field}::text)`;
  if (filter.op === 'is_null') return filter.isNull ? sql`${expression} is null` : sql`${expression} is not null`;
  // Without collate "C" here: equality is the same under any collation, and indexes can serve it.
  if (filter.op === 'in') {
    const values = filter.values.filter((value) => canBe(column, value));
    return sql`${expression} = any(${values}::${listType(sql, column)})`;
  }
  const { op, value } = filter;
  if (op === 'contains') {
    const pattern = `%${String(value).replace(/[\\%_]/g, '\\$&')}%`;
    return sql`${expression}${column?.type === 'uuid' ? sql`::text` : sql``} ilike ${pattern}::text`;
  }
  if (op === 'eq' || op === 'neq') {
    // An id is published as text; what is no id equals none.
    if (!canBe(column, value)) return op === 'eq' ? sql`false` : sql`true`;
    const parameter = sql`${value}::${valueType(sql, column, value)}`;
    return op === 'eq' ? sql`${expression} = ${parameter}` : sql`${expression} is distinct from ${parameter}`;
  }
  const ordered = { gt: sql`>`, gte: sql`>=`, lt: sql`<`, lte: sql`<=` }[op];
  return !column || column.type === 'text' || column.type === 'uuid'
    ? sql`${expression}::text collate "C" ${ordered} ${value}::text`
    : sql`${expression} ${ordered} ${value}::${valueType(sql, column, value)}`;
}

function joined(sql: Sql, table: RecordTable, members: readonly Filter[], by: Fragment): Fragment {
  const conditions = members.map((member, index) =>
    index === 0 ? filterCondition(sql, table, member) : sql`${by} ${filterCondition(sql, table, member)}`,
  );
  return sql`(${conditions})`;
}

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** False for a text that a column of ids cannot hold. */
function canBe(column: Column | undefined, value: string | number): boolean {
  return column?.type !== 'uuid' || uuidPattern.test(String(value));
}

/** The SQL type that a value is compared as; a fraction or a number beyond bigint must not be cut to the column's type. */
function valueType(sql: Sql, column: Column | undefined, value: string | number): Fragment {
  switch (column?.type) {
    case 'uuid':
      return sql`uuid`;
    case 'number':
      return Number.isSafeInteger(value) ? sql`bigint` : sql`numeric`;
    case 'date':
      return sql`date`;
    case 'timestamp':
      return sql`timestamptz`;
    default:
      return sql`text`;
  }
}

function listType(sql: Sql, column: Column | undefined): Fragment {
  return column?.type === 'number' ? sql`numeric[]` : sql`${valueType(sql, column, '')}[]`;
}
