// Pages that are asked for all the time: a statement each, of which one plan is good for whatever values.
import type { Scope } from '../reach.ts';
import type { Column, RecordTable } from './columns.ts';
import { canBe } from './filter.ts';
import type { Page } from './records.ts';
import { selectedNames } from './rows.ts';

type Value = string | number | boolean | null;

/** Rows of the usual pages, with the one that tells whether there are more: few, since each makes a statement of its own. */
const usualLimits = new Set([10, 25, 50, 100].map((size) => size + 1));

/**
 * The statement of a page by age of a whole company, of all records or of those with one value; undefined for any other page. Its rows are
 * the columns of the record, and then the key values of the sort. As a text: from fragments it took a fifth of the time of such a call.
 */
export function usualPage(
  table: RecordTable,
  scope: Scope,
  page: Page,
): { text: string; parameters: Value[] } | undefined {
  const single = singleValue(table, scope, page);
  const [key] = page.sort;
  if (!key || !(single || isWhole(scope, page)) || !usualLimits.has(page.limit)) return undefined;

  const parameters: Value[] = [];
  const parameter = (value: Value): string => `$${parameters.push(value)}`;
  const own = `r.company_id = ${parameter(scope.companyId)} and r.test_mode = ${parameter(scope.testMode)}`;
  const ofObject = table.object === undefined ? '' : `and r.object = ${parameter(table.object)}`;
  const keys = [`r."${key.field}"`, 'r."id"'];
  const [beyond, within, direction] = key.descending ? ['<', '>=', 'desc'] : ['>', '<=', 'asc'];
  // No column of the order is ever empty. The value leads it and lies between bounds: of one that is equal PostgreSQL knows that it orders
  // nothing, and takes an index on the age alone for as good where companies have few records.
  const order = single ? [`r."${single.column.name}"`, ...keys] : keys;
  const value = single && parameter(single.value);
  // One bound on each side, so that the scan begins at the row after which the page goes on.
  const after = page.after?.map(parameter);
  if (value) after?.unshift(value);
  const begin = after
    ? `and (${order.join(', ')}) ${beyond} (${after.join(', ')})`
    : value
      ? `and ${order[0]} ${beyond}= ${value}`
      : '';
  const end = value ? `and ${order[0]} ${within} ${value}` : '';
  return {
    text: `
      select ${selectedNames(table)}, ${keys.join(', ')}
      from ${table.name} r
      where ${own} ${ofObject} ${begin} ${end}
      order by ${order.map((column) => `${column} ${direction}`).join(', ')}
      limit ${page.limit}`,
    parameters,
  };
}

/** True where the index on an age alone has the rows of a page in their order. */
function isWhole({ reach }: Scope, { sort, filter, where, offset }: Page): boolean {
  const isByAge = sort.length === 1 && (sort[0]?.field === 'created_at' || sort[0]?.field === 'updated_at');
  return isByAge && !filter && !where && !offset && reach.kind === 'company';
}

/** The value that a page by age asks for, of a field that has an index for that: such pages are common, and few statements. */
export function singleValue(
  table: RecordTable,
  { reach }: Scope,
  { sort, filter, where, offset }: Page,
): { column: Column; value: string | number } | undefined {
  const isByAge = sort.length === 1 && sort[0]?.field === 'created_at' && !where && !offset && reach.kind === 'company';
  if (!isByAge || !filter || !('op' in filter) || filter.op !== 'eq') return undefined;
  const { field, value } = filter;
  const column = table.columns.get(field);
  return column?.byAge && canBe(column, value) ? { column, value } : undefined;
}
