// Converts filters to SQL. Values are parameters, and columns come from the table of columns.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { Condition, Related } from '../../domain/objects/filter-tree.ts';
import type { PartOperator, Reading } from '../../domain/objects/filter-values.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';
import { type Column, findFilterColumn, getRecordTable, type RecordTable } from './columns.ts';
import { selectRelatedRows } from './related.ts';

/**
 * Returns the condition that a row `r` passes the filter.
 * @param scope of the caller, who finds no record by related records that they cannot see
 */
export function buildFilterCondition(sql: Sql, scope: Scope, table: RecordTable, filter: Filter): Fragment {
  return treeCondition({ sql, scope, table, row: sql`r` }, filter, false);
}

/** The rows that conditions are about. */
interface Rows {
  sql: Sql;
  scope: Scope;
  table: RecordTable;
  /** Their alias in the statement. */
  row: Fragment;
}

/** @param isOneOfSeveral true in an `or`: no index can serve a part of it alone */
function treeCondition(rows: Rows, filter: Filter, isOneOfSeveral: boolean): Fragment {
  const { sql } = rows;
  if ('and' in filter) return joined(rows, filter.and, sql`and`, isOneOfSeveral);
  if ('or' in filter) return joined(rows, filter.or, sql`or`, true);
  // Unknown is not true either, so that a record passes either a filter or its negation.
  if ('not' in filter) return sql`(${treeCondition(rows, filter.not, true)}) is not true`;
  if ('quantifier' in filter) return relatedCondition(rows, filter, isOneOfSeveral);
  // A name that no field of a record can have.
  if (filter.field === 'tags') return tagsCondition(rows, filter);
  // A reserved name, too.
  if (filter.field === 'sla_due_at') return deadlineCondition(rows, filter);
  if (filter.as) return readCondition(rows, filter, filter.as);
  return comparison(rows, filter, isOneOfSeveral);
}

/**
 * Returns the condition that at least one of the related records passes the filter, or that none
 * does.
 */
function relatedCondition(
  { sql, scope, table, row }: Rows,
  { path, object, isVisible, quantifier, filter }: Related<Condition>,
  isOneOfSeveral: boolean,
): Fragment {
  const isNone = quantifier === 'none';
  if (!isVisible) return isNone ? sql`true` : sql`false`;
  const related = { sql, scope, table: getRecordTable(object), row: sql`related` };
  const { from, where } = selectRelatedRows(sql, scope, { table, row }, related.table, path);
  const passes = treeCondition(related, filter, isNone || isOneOfSeveral);
  return sql`${isNone ? sql`not` : sql``} exists (select from ${from} where ${where} and ${passes})`;
}

function comparison(rows: Rows, filter: Condition, isOneOfSeveral: boolean): Fragment {
  const { sql, table, row } = rows;
  const column = findFilterColumn(table, filter.field);
  const expression = column ? toExpression(sql, column, row) : customValue(rows, filter.field);
  switch (filter.op) {
    case 'is_null':
      return filter.isNull ? sql`${expression} is null` : sql`${expression} is not null`;
    case 'in':
    case 'not_in': {
      const values = filter.values.filter((value) => canBe(column, value));
      const isOneOf = sql`${expression} = any(${values}::${chooseValueType(sql, column, ...values)}[])`;
      if (filter.op === 'not_in') return sql`(${isOneOf}) is not true`;
      return column || isOneOfSeveral ? isOneOf : sql`${hasHash(rows, filter.field, values)} and ${isOneOf}`;
    }
    case 'contains':
    case 'starts_with':
    case 'ends_with':
      return hasPart(rows, column, expression, filter.op, String(filter.value));
    case 'eq':
    case 'neq': {
      const { op, value } = filter;
      // An id is published as text. A text that is not an id equals no id.
      if (!canBe(column, value)) return op === 'eq' ? sql`false` : sql`true`;
      const parameter = sql`${value}::${chooseValueType(sql, column, value)}`;
      if (op === 'neq') return sql`${expression} is distinct from ${parameter}`;
      const isEqual = sql`${expression} = ${parameter}`;
      if (column?.hashed)
        return sql`(${row}.${sql(`${column.name}_hash`)} = hashtextextended(${parameter}, 0) and ${isEqual})`;
      return column || isOneOfSeveral ? isEqual : sql`${hasHash(rows, filter.field, [value])} and ${isEqual}`;
    }
    case 'between': {
      const { low, high } = filter;
      return sql`(${isOrdered(sql, column, expression, 'gte', low)} and ${isOrdered(sql, column, expression, 'lte', high)})`;
    }
    default:
      return isOrdered(sql, column, expression, filter.op, filter.value);
  }
}

/** Returns the value of a custom field. */
const customValue = ({ sql, row }: Rows, field: string): Fragment => sql`(${row}.custom ->> ${field}::text)`;

const ordering = (sql: Sql) => ({ gt: sql`>`, gte: sql`>=`, lt: sql`<`, lte: sql`<=` });

/** Returns the condition that a text contains a part, ignoring case. */
function hasPart(
  { sql, row }: Rows,
  column: Column | undefined,
  expression: Fragment,
  op: PartOperator,
  part: string,
): Fragment {
  if (op === 'starts_with' && column?.caseless) return begins(sql, expression, part.toLowerCase());
  const escaped = part.replace(/[\\%_]/g, '\\$&');
  const pattern = `${op === 'starts_with' ? '' : '%'}${escaped}${op === 'ends_with' ? '' : '%'}`;
  // Under the database's own collation, which knows the case of all letters.
  const searched = column ? sql`${row}.${sql(column.name)}` : expression;
  return sql`${searched}${column?.type === 'uuid' ? sql`::text` : sql``} ilike ${pattern}::text`;
}

/**
 * Returns a condition for a text with this beginning in byte order, as a range that its index
 * serves. LIKE would not work: row-level security keeps conditions that are not leakproof out of
 * indexes.
 */
function begins(sql: Sql, expression: Fragment, beginning: string): Fragment {
  const after = firstAfter([...beginning]);
  const isBelow = after === undefined ? sql`` : sql`and ${expression} < ${after}::text`;
  return sql`(${expression} >= ${beginning}::text ${isBelow})`;
}

/**
 * Returns the first text in byte order that is greater than all texts with this beginning;
 * undefined if there is none.
 */
function firstAfter(characters: readonly string[]): string | undefined {
  const last = characters.at(-1)?.codePointAt(0);
  if (last === undefined) return undefined;
  const before = characters.slice(0, -1);
  if (last === 0x10ffff) return firstAfter(before);
  // The code points between are halves of surrogate pairs, which no text has.
  return before.join('') + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1);
}

function isOrdered(
  sql: Sql,
  column: Column | undefined,
  expression: Fragment,
  op: 'gt' | 'gte' | 'lt' | 'lte',
  value: string | number,
): Fragment {
  const operator = ordering(sql)[op];
  if (column?.type === 'text') return sql`${expression} ${operator} ${value}::text`;
  return !column || column.type === 'uuid'
    ? sql`${expression}::text collate "C" ${operator} ${value}::text`
    : sql`${expression} ${operator} ${value}::${chooseValueType(sql, column, value)}`;
}

const blanks = '[ \\t\\r\\n]*';
const numeral = '-?[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]{1,3})?';
/** A date that exists. PostgreSQL would reject the whole statement for any other. */
const calendarDate =
  '(?!0000)([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))' +
  '|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)';
const timeOfDay = '([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,9})?)?';
const offset = '(z|[+-](0[0-9]|1[0-5]):?[0-5][0-9])';

/** Converts a text to a number or a time, if it is one; otherwise to null. */
function readText(sql: Sql, text: Fragment, as: Reading): Fragment {
  const reads = (pattern: string): Fragment => sql`${text} ~* ${`^${blanks}${pattern}${blanks}$`}::text`;
  if (as === 'number') return sql`(case when ${reads(numeral)} then ${text}::numeric end)`;
  const trimmed = sql`upper(btrim(${text}, E' \\t\\r\\n'))`;
  return sql`(case
    when ${reads(calendarDate)} then (${trimmed} || 'T00:00:00Z')::timestamptz
    when ${reads(`${calendarDate}[t ]${timeOfDay}${offset}`)} then ${trimmed}::timestamptz end)`;
}

/**
 * Returns a condition that reads a custom field as a number or a time. A text that is neither never
 * matches.
 */
function readCondition(rows: Rows, filter: Condition, as: Reading): Fragment {
  const { sql } = rows;
  const text = customValue(rows, filter.field);
  const read = readText(sql, text, as);
  const type = as === 'number' ? sql`numeric` : sql`timestamptz`;
  switch (filter.op) {
    case 'is_null':
      return filter.isNull ? sql`${text} is null` : sql`${read} is not null`;
    case 'in':
      return sql`${read} = any(${[...filter.values]}::${type}[])`;
    case 'not_in':
      return sql`(${text} is null or ${read} <> all(${[...filter.values]}::${type}[]))`;
    case 'eq':
      return sql`${read} = ${filter.value}::${type}`;
    case 'neq':
      return sql`(${text} is null or ${read} <> ${filter.value}::${type})`;
    case 'between':
      return sql`${read} between ${filter.low}::${type} and ${filter.high}::${type}`;
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return sql`${read} ${ordering(sql)[filter.op]} ${filter.value}::${type}`;
    default:
      throw new Error(`numbers and dates have no ${filter.op}`);
  }
}

function joined(rows: Rows, members: readonly Filter[], by: Fragment, isOneOfSeveral: boolean): Fragment {
  const { sql } = rows;
  const conditions = members.map((member, index) => {
    const condition = treeCondition(rows, member, isOneOfSeveral);
    return index === 0 ? condition : sql`${by} ${condition}`;
  });
  return sql`(${conditions})`;
}

/**
 * Returns a condition for records with one of the tags, with none of them, with any tag or without
 * tags.
 */
function tagsCondition({ sql, table, row }: Rows, filter: Condition): Fragment {
  const isAbsent = filter.op === 'not_in' || (filter.op === 'is_null' && filter.isNull);
  const ids = 'values' in filter ? filter.values.map(String) : undefined;
  if (isAbsent) return sql`not ${hasTag(sql, table, row, ids)}`;
  return sql`exists (${selectTagsOfRow(sql, table, row, ids)})`;
}

/**
 * Returns a condition for a record with one of the tags, or with any. It is looked up record by
 * record and not as a join, for which PostgreSQL may compare each record with each tag of a record
 * if it has no statistics of them, as after an import.
 */
export function hasTag(sql: Sql, table: RecordTable, row: Fragment, ids: readonly string[] | undefined): Fragment {
  return sql`exists (${selectTagsOfRow(sql, table, row, ids)} offset 0)`;
}

const selectTagsOfRow = (
  sql: Sql,
  table: RecordTable,
  row: Fragment,
  ids: readonly string[] | undefined,
): Fragment => sql`
  select from record_tags t
  where t.company_id = ${row}.company_id and t.test_mode = ${row}.test_mode and t.object = ${table.name} and t.record_id = ${row}.id
    ${ids ? sql`and t.tag_id = any(${ids as string[]}::uuid[])` : sql``}`;

/**
 * Returns a condition for records by the running SLA clock that is due first. A record without one
 * has no deadline. For ranges, the clocks of records are only asked whether there is one that is due
 * before a time, for which an index exists.
 */
function deadlineCondition(rows: Rows, filter: Condition): Fragment {
  const { sql } = rows;
  const isDue = (operator: 'lt' | 'lte', value: string | number): Fragment =>
    hasClock(rows, sql`and c.due_at ${ordering(sql)[operator]} ${value}::timestamptz`);
  // One look-up of each record's deadline, however many values there are.
  const isAtAny = (values: readonly (string | number)[]): Fragment =>
    sql`coalesce((${selectClocks(rows, sql`min(c.due_at)`)}) = any(${values.map(String)}::text[]::timestamptz[]), false)`;
  switch (filter.op) {
    case 'is_null':
      return filter.isNull ? sql`not ${hasClock(rows)}` : hasClock(rows);
    case 'lt':
    case 'lte':
      return isDue(filter.op, filter.value);
    case 'gt':
      return sql`(${hasClock(rows)} and not ${isDue('lte', filter.value)})`;
    case 'gte':
      return sql`(${hasClock(rows)} and not ${isDue('lt', filter.value)})`;
    case 'between':
      return sql`(${isDue('lte', filter.high)} and not ${isDue('lt', filter.low)})`;
    case 'eq':
      return isAtAny([filter.value]);
    case 'neq':
      return sql`not ${isAtAny([filter.value])}`;
    case 'in':
      return isAtAny(filter.values);
    case 'not_in':
      return sql`not ${isAtAny(filter.values)}`;
    default:
      throw new Error(`deadlines have no ${filter.op}`);
  }
}

/** Returns a condition for a row with a running SLA clock that passes a condition on `c`. */
const hasClock = (rows: Rows, more = rows.sql``): Fragment =>
  rows.sql`exists (${selectClocks(rows, rows.sql``)} ${more})`;

/** Returns a query of the running SLA clocks of a row. */
const selectClocks = ({ sql, table, row }: Rows, columns: Fragment): Fragment => sql`
  select ${columns} from sla_clocks c
  where c.company_id = ${row}.company_id and c.test_mode = ${row}.test_mode and c.object = ${table.name} and c.record_id = ${row}.id
    and c.ended_at is null`;

/**
 * Returns the condition that one of the values has the hash of the row's value in a custom field.
 * Only hashes of custom fields have an index.
 */
function hasHash({ sql, table, row }: Rows, field: string, values: readonly (string | number)[]): Fragment {
  return sql`exists (
    select from custom_value_hashes h
    where h.company_id = ${row}.company_id and h.test_mode = ${row}.test_mode and h.record_id = ${row}.id
      and h.hash in (select custom_value_hash(${table.object ?? table.name}::text, ${field}::text, value) from unnest(${values.map(String)}::text[]) value)
  )`;
}

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The indexes sort texts by their bytes. */
export function toExpression(sql: Sql, { name, type }: Column, row: Fragment = sql`r`): Fragment {
  return type === 'text' ? sql`${row}.${sql(name)} collate "C"` : sql`${row}.${sql(name)}`;
}

/**
 * Returns false for a value that a column cannot hold: a text in a column of ids, a fraction in one
 * of integers.
 */
export function canBe(column: Column | undefined, value: string | number): boolean {
  if (column?.type === 'number') return Number.isInteger(value);
  return column?.type !== 'uuid' || uuidPattern.test(String(value));
}

/**
 * Returns the SQL type for comparisons. A fraction or a number beyond bigint must not be converted
 * to the column's type.
 */
export function chooseValueType(
  sql: Sql,
  column: Column | undefined,
  ...values: readonly (string | number)[]
): Fragment {
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
