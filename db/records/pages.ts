// Pages of records: their parameters, and the statements of the most common ones.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { SortKey } from '../../domain/objects/sort.ts';
import type { Scope } from '../client/visibility.ts';
import type { Column, RecordTable } from './columns.ts';
import { canBe } from './filter.ts';
import { getSelectedNames } from './rows.ts';

/** A value of a sort key in a cursor. */
export type KeyValue = string | number | boolean | null;

export interface Page {
  sort: readonly SortKey[];
  filter: Filter | undefined;
  /** An additional condition on the row `r`. */
  where?: Fragment;
  /** The key values of the last row of the previous page. */
  after: readonly KeyValue[] | undefined;
  /** The maximum number of rows. */
  limit: number;
  /** Rows to skip. For old clients; otherwise pages continue after a row. */
  offset?: number | undefined;
}

/** A complete statement. */
export interface CommonPage {
  text: string;
  parameters: KeyValue[];
}

/**
 * Limits of common pages, with one more row that shows if there is another page. There are few,
 * because each is a separate statement.
 */
const commonLimits = new Set([10, 25, 50, 100].map((size) => size + 1));

/**
 * Returns the statement of a page by age, of all records of a company or of those with one value,
 * for which one plan fits any values; undefined for any other page. The rows contain the columns of
 * the record, then the key values of the sort. It is a text, because building it from fragments
 * takes a twentieth of such a call.
 */
export function buildCommonPage(table: RecordTable, scope: Scope, page: Page): CommonPage | undefined {
  const age = ageAsked(scope, page);
  const single = findSingleValue(table, scope, page);
  if (!age || (page.filter && !single) || !commonLimits.has(page.limit)) return undefined;

  const parameters: KeyValue[] = [];
  const parameter = (value: KeyValue): string => `$${parameters.push(value)}`;
  const own = `r.company_id = ${parameter(scope.companyId)} and r.test_mode = ${parameter(scope.testMode)}`;
  const ofObject = table.object === undefined ? '' : `and r.object = ${parameter(table.object)}`;
  const keys = [`r."${age}"`, 'r."id"'];
  const [beyond, within, direction] = page.sort[0]?.descending ? ['<', '>=', 'desc'] : ['>', '<=', 'asc'];
  // No column of the order is ever null. The value is the first column and is limited by bounds.
  // With an equality, PostgreSQL would know that it does not affect the order, and would consider
  // an index on the age alone as good if companies have few records.
  const order = single ? [`r."${single.column.name}"`, ...keys] : keys;
  const value = single && parameter(single.value);
  // One bound on each side, so that the scan begins at the row after which the page continues.
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
      select ${getSelectedNames(table)}, ${keys.join(', ')}
      from ${table.name} r
      where ${own} ${ofObject} ${begin} ${end}
      order by ${order.map((column) => `${column} ${direction}`).join(', ')}
      limit ${page.limit}`,
    parameters,
  };
}

/**
 * Returns the value that a page by age filters by, of a field with an index for that. Such pages
 * are common, and need few statements.
 */
export function findSingleValue(
  table: RecordTable,
  scope: Scope,
  page: Page,
): { column: Column; value: string | number } | undefined {
  const { filter } = page;
  if (ageAsked(scope, page) !== 'created_at' || !filter || !('op' in filter) || filter.op !== 'eq') return undefined;
  const { field, value } = filter;
  const column = table.columns.get(field);
  return column?.byAge && canBe(column, value) ? { column, value } : undefined;
}

/** Returns the time that orders a page of a whole company, if nothing but a filter restricts it. */
function ageAsked({ reach }: Scope, { sort, where, offset }: Page): 'created_at' | 'updated_at' | undefined {
  const [field] = sort.map((key) => key.field);
  if (sort.length !== 1 || where || offset || reach.kind !== 'company') return undefined;
  return field === 'created_at' || field === 'updated_at' ? field : undefined;
}
