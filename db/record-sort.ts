// Sort orders as SQL, and the condition that continues a page after a row: by key values, never by offset.
import type { Fragment } from 'postgres';
import type { Sql } from './connect.ts';
import type { Column, RecordTable } from './record-columns.ts';

export interface SortKey {
  field: string;
  descending: boolean;
}

/** A value of a sort key as a cursor carries it. */
export type KeyValue = string | number | boolean | null;

/** Characters of a text that count for the order, so that a cursor stays short. */
const orderedCharacters = 255;

interface OrderedKey {
  expression: Fragment;
  /** How a value of a cursor is compared with the expression. */
  type: Fragment;
  descending: boolean;
  /** Never null. */
  filled: boolean;
}

export interface Order {
  /** The key values of a row, as columns key_0, key_1 and so on; the id comes last. */
  columns: Fragment;
  orderBy: Fragment;
  /** The condition `and …` for the rows that come after these key values. */
  after(values: readonly KeyValue[]): Fragment;
}

/** The order of a query. Rows without a value come last in both directions; the id decides between equals, in the direction of the last key. */
export function orderOf(sql: Sql, table: RecordTable, sort: readonly SortKey[]): Order {
  const keys = sort.map((key) => orderedKey(sql, table, key));
  if (!sort.some((key) => key.field === 'id'))
    keys.push(orderedKey(sql, table, { field: 'id', descending: sort[sort.length - 1]?.descending ?? true }));
  return {
    columns: commas(
      sql,
      keys.map((key, index) => sql`${key.expression} as ${sql(`key_${index}`)}`),
    ),
    // A column that is never null is ordered without "nulls last", which its index does not promise.
    orderBy: commas(
      sql,
      keys.map(
        (key) =>
          sql`${key.expression} ${key.descending ? sql`desc` : sql`asc`} ${key.filled ? sql`` : sql`nulls last`}`,
      ),
    ),
    after: (values) => sql`and ${afterKeys(sql, keys, values)}`,
  };
}

function orderedKey(sql: Sql, table: RecordTable, { field, descending }: SortKey): OrderedKey {
  const column = table.columns.get(field);
  const filled = column?.filled === true;
  if (!column) {
    const expression = sql`left(r.custom ->> ${field}::text, ${orderedCharacters}::int) collate "C"`;
    return { expression, type: sql`text`, descending, filled };
  }
  return { expression: columnOrder(sql, column), type: keyType(sql, column), descending, filled };
}

function columnOrder(sql: Sql, column: Column): Fragment {
  const value = sql`r.${sql(column.name)}`;
  if (column.names) {
    return sql`(select named.name from ${sql(column.names)} named where named.company_id = r.company_id and named.id = ${value}) collate "C"`;
  }
  if (column.type !== 'text') return value;
  return column.long ? sql`left(${value}, ${orderedCharacters}::int) collate "C"` : sql`${value} collate "C"`;
}

function keyType(sql: Sql, column: Column): Fragment {
  if (column.names) return sql`text`;
  switch (column.type) {
    case 'uuid':
      return sql`uuid`;
    case 'number':
      return sql`bigint`;
    case 'date':
      return sql`date`;
    case 'timestamp':
      return sql`timestamptz`;
    case 'text':
      return sql`text`;
  }
}

function afterKeys(sql: Sql, keys: readonly OrderedKey[], values: readonly KeyValue[]): Fragment {
  const [first] = keys;
  if (!first) return sql`false`;
  const parameters = keys.map((key, index) => sql`${values[index] ?? null}::${key.type}`);
  // One comparison of rows where that says it all: an index seeks to it.
  if (keys.every((key) => key.filled && key.descending === first.descending)) {
    const left = commas(
      sql,
      keys.map((key) => key.expression),
    );
    return sql`(${left}) ${first.descending ? sql`<` : sql`>`} (${commas(sql, parameters)})`;
  }
  const exact = afterEach(sql, keys, parameters, values);
  // The leading bound adds nothing to the meaning; it is what an index on the first key can seek to.
  return first.filled
    ? sql`${first.expression} ${first.descending ? sql`<=` : sql`>=`} ${parameters[0] as Fragment} and ${exact}`
    : exact;
}

function afterEach(
  sql: Sql,
  keys: readonly OrderedKey[],
  parameters: readonly Fragment[],
  values: readonly KeyValue[],
): Fragment {
  const [key, ...rest] = keys;
  const [parameter, ...later] = parameters;
  if (!key || !parameter) return sql`false`;
  const inner = afterEach(sql, rest, later, values.slice(1));
  if (values[0] === null) return sql`(${key.expression} is null and ${inner})`;
  const beyond = sql`${key.expression} ${key.descending ? sql`<` : sql`>`} ${parameter}`;
  const missing = key.filled ? sql`` : sql`or ${key.expression} is null`;
  return sql`(${beyond} ${missing} or ${key.expression} = ${parameter} and ${inner})`;
}

function commas(sql: Sql, parts: readonly Fragment[]): Fragment {
  return sql`${parts.map((part, index) => (index === 0 ? part : sql`, ${part}`))}`;
}
