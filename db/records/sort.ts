// Sort orders as SQL, and the conditions that continue a page after a row: never by offset.
import type { Fragment } from 'postgres';
import type { SortKey } from '../../domain/objects/sort.ts';
import type { Sql } from '../client/pool.ts';
import type { Column, RecordTable } from './columns.ts';

/** A value of a sort key as a cursor carries it. */
export type KeyValue = string | number | boolean | null;

/** Characters of a text that count for the order, so that a cursor stays short. */
const orderedCharacters = 255;

interface OrderedKey {
  /** undefined for the tenant's own fields. */
  column: Column | undefined;
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
  /** Tables that the keys take their values from, beside the records' own. */
  joins: Fragment;
  /** The rows to ask for, one part after the other until there are enough. */
  parts: readonly OrderPart[];
}

interface OrderPart {
  /** Conditions, each with a leading `and`. */
  where: Fragment;
  orderBy: Fragment;
}

/**
 * The order of a query. Rows without a value come last in both directions; the id decides between equals, in the direction of the last key.
 * @param after the key values of the row after which it begins
 */
export function orderOf(
  sql: Sql,
  table: RecordTable,
  sort: readonly SortKey[],
  after: readonly KeyValue[] | undefined,
): Order {
  const keys = sort.map((key, index) => orderedKey(sql, table, key, index));
  if (!sort.some((key) => key.field === 'id')) {
    const id = { field: 'id', descending: sort[sort.length - 1]?.descending ?? true };
    keys.push(orderedKey(sql, table, id, sort.length));
  }
  return {
    columns: commas(
      sql,
      keys.map((key, index) => sql`${key.expression} as ${sql(`key_${index}`)}`),
    ),
    joins: sql`${sort.map((key, index) => listJoin(sql, table.columns.get(key.field), index))}`,
    parts: partsOf(sql, keys, after),
  };
}

/** Where an index has the rows with a value in order, they are asked for alone, and those without a value only after them. */
function partsOf(sql: Sql, keys: readonly OrderedKey[], after: readonly KeyValue[] | undefined): OrderPart[] {
  const [first, ...rest] = keys;
  const part = (condition: Fragment, order: readonly OrderedKey[], values = after): OrderPart => ({
    where: sql`${condition} ${values ? sql`and ${afterKeys(sql, order, values)}` : sql``}`,
    orderBy: orderBy(sql, order),
  });
  const { column } = first ?? {};
  if (!first || !column?.indexed || first.filled) return [part(sql``, keys)];
  // The column itself: of an expression on it, the planner does not know that the index has no rows without it.
  const value = sql`r.${sql(column.name)}`;
  const isMissing = sql`and ${value} is null`;
  if (after?.[0] === null) return [part(isMissing, rest, after.slice(1))];
  return [
    part(sql`and ${value} is not null`, [{ ...first, filled: true }, ...rest]),
    { where: isMissing, orderBy: orderBy(sql, rest) },
  ];
}

/** A column that is never null is ordered without "nulls last", which its index does not promise. */
function orderBy(sql: Sql, keys: readonly OrderedKey[]): Fragment {
  return commas(
    sql,
    keys.map(
      ({ expression, descending, filled }) =>
        sql`${expression} ${descending ? sql`desc` : sql`asc`} ${filled ? sql`` : sql`nulls last`}`,
    ),
  );
}

function orderedKey(sql: Sql, table: RecordTable, { field, descending }: SortKey, place: number): OrderedKey {
  const column = table.columns.get(field);
  const filled = column?.filled === true;
  if (!column) {
    const expression = sql`left(r.custom ->> ${field}::text, ${orderedCharacters}::int) collate "C"`;
    return { column, expression, type: sql`text`, descending, filled };
  }
  return { column, expression: columnOrder(sql, column, place), type: keyType(sql, column), descending, filled };
}

/** The list that a column takes its values from; rows are ordered by the names in it. */
function listJoin(sql: Sql, column: Column | undefined, place: number): Fragment {
  if (!column?.names) return sql``;
  const list = sql(`list_${place}`);
  return sql`left join ${sql(column.names)} ${list} on ${list}.company_id = r.company_id and ${list}.id = r.${sql(column.name)}`;
}

function columnOrder(sql: Sql, column: Column, place: number): Fragment {
  const value = sql`r.${sql(column.name)}`;
  if (column.names) return sql`${sql(`list_${place}`)}.name collate "C"`;
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
