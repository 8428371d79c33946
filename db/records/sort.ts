// Sort orders as SQL, and the conditions that continue a page after a row, without an offset.
import type { Fragment } from 'postgres';
import type { Sql } from '../client/pool.ts';
import type { Column } from './columns.ts';
import type { ListPart, OrderedKey } from './list-plan.ts';
import type { KeyValue } from './pages.ts';

/** Characters of a text that determine the order, so that a cursor stays short. */
const orderedCharacters = 255;

/** Returns the key values of a row, as columns key_0, key_1 and so on. */
export function buildKeyColumns(sql: Sql, keys: readonly OrderedKey[]): Fragment {
  return commas(
    sql,
    keys.map((key) => sql`${buildExpression(sql, key)} as ${sql(`key_${key.place}`)}`),
  );
}

/** Returns the joins of the lists from which keys take their values. */
export function listJoins(sql: Sql, keys: readonly OrderedKey[]): Fragment {
  return sql`${keys.map(({ column, place }) => listJoin(sql, column, place))}`;
}

/** Returns the rows of a part, as conditions with a leading `and`. */
export function buildPartCondition(sql: Sql, { only, keys, after }: ListPart): Fragment {
  // The column itself: for an expression on it, the planner does not know that the index lacks rows
  // without a value.
  const condition = only ? sql`and r.${sql(only.column)} ${only.hasValue ? sql`is not null` : sql`is null`}` : sql``;
  return sql`${condition} ${after ? sql`and ${afterKeys(sql, keys, after)}` : sql``}`;
}

/**
 * A key that is never null is ordered without "nulls last", because its index does not have that
 * order.
 */
export function buildOrderBy(sql: Sql, keys: readonly OrderedKey[]): Fragment {
  return commas(
    sql,
    keys.map(
      (key) =>
        sql`${buildExpression(sql, key)} ${key.descending ? sql`desc` : sql`asc`} ${key.filled ? sql`` : sql`nulls last`}`,
    ),
  );
}

/** Returns the join of the list that a column refers to. Rows are ordered by the names in it. */
function listJoin(sql: Sql, column: Column | undefined, place: number): Fragment {
  if (!column?.names) return sql``;
  const list = sql(`list_${place}`);
  return sql`left join ${sql(column.names)} ${list} on ${list}.company_id = r.company_id and ${list}.id = r.${sql(column.name)}`;
}

function buildExpression(sql: Sql, { column, field, place }: OrderedKey): Fragment {
  if (!column) return sql`left(r.custom ->> ${field}::text, ${orderedCharacters}::int) collate "C"`;
  const value = sql`r.${sql(column.name)}`;
  if (column.names) return sql`${sql(`list_${place}`)}.name collate "C"`;
  if (column.type !== 'text') return value;
  return column.long ? sql`left(${value}, ${orderedCharacters}::int) collate "C"` : sql`${value} collate "C"`;
}

/** Returns the type as which a value of a cursor is compared with the key. */
function keyType(sql: Sql, { column }: OrderedKey): Fragment {
  if (!column || column.names) return sql`text`;
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
  const parameters = keys.map((key, index) => sql`${values[index] ?? null}::${keyType(sql, key)}`);
  // A single comparison of rows, if the order allows it: an index can seek to it.
  if (keys.every((key) => key.filled && key.descending === first.descending)) {
    const left = commas(
      sql,
      keys.map((key) => buildExpression(sql, key)),
    );
    return sql`(${left}) ${first.descending ? sql`<` : sql`>`} (${commas(sql, parameters)})`;
  }
  const exact = afterEach(sql, keys, parameters, values);
  // The leading bound is redundant, but an index on the first key can seek to it.
  return first.filled
    ? sql`${buildExpression(sql, first)} ${first.descending ? sql`<=` : sql`>=`} ${parameters[0] as Fragment} and ${exact}`
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
  const expression = buildExpression(sql, key);
  const inner = afterEach(sql, rest, later, values.slice(1));
  if (values[0] === null) return sql`(${expression} is null and ${inner})`;
  const beyond = sql`${expression} ${key.descending ? sql`<` : sql`>`} ${parameter}`;
  const missing = key.filled ? sql`` : sql`or ${expression} is null`;
  return sql`(${beyond} ${missing} or ${expression} = ${parameter} and ${inner})`;
}

function commas(sql: Sql, parts: readonly Fragment[]): Fragment {
  return sql`${parts.map((part, index) => (index === 0 ? part : sql`, ${part}`))}`;
}
