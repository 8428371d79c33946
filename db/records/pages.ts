// Pages of records: what can be asked for, and the statements of what is asked for all the time.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { SortKey } from '../../domain/objects/sort.ts';
import type { Scope } from '../client/visibility.ts';
import type { Column, RecordTable } from './columns.ts';
import { canBe } from './filter.ts';
import { selectedNames } from './rows.ts';

/** A value of a sort key as a cursor carries it. */
export type KeyValue = string | number | boolean | null;

export interface Page {
  sort: readonly SortKey[];
  filter: Filter | undefined;
  /** A further condition on the row `r`. */
  where?: Fragment;
  /** The key values of the row before the page. */
  after: readonly KeyValue[] | undefined;
  /** How many rows at most. */
  limit: number;
  /** Rows to leave out at the beginning; for old clients, pages continue after a row instead. */
  offset?: number | undefined;
}

/** A complete statement. */
export interface CommonPage {
  text: string;
  parameters: KeyValue[];
}

/** Rows of common pages, with the one that says whether there are more: few, since each makes a statement of its own. */
const commonLimits = new Set([10, 25, 50, 100].map((size) => size + 1));

/**
 * The statement of a page by age of a whole company, of all records or of those with one value, of which one plan is good for whatever
 * values; undefined for any other page. Its rows are the columns of the record, and then the key values of the sort. It is a text, since to put
 * it together from fragments takes a twentieth of such a call.
 */
export function commonPage(table: RecordTable, scope: Scope, page: Page): CommonPage | undefined {
  const age = ageAsked(scope, page);
  const single = singleValue(table, scope, page);
  if (!age || (page.filter && !single) || !commonLimits.has(page.limit)) return undefined;

  const parameters: KeyValue[] = [];
  const parameter = (value: KeyValue): string => `$${parameters.push(value)}`;
  const own = `r.company_id = ${parameter(scope.companyId)} and r.test_mode = ${parameter(scope.testMode)}`;
  const ofObject = table.object === undefined ? '' : `and r.object = ${parameter(table.object)}`;
  const keys = [`r."${age}"`, 'r."id"'];
  const [beyond, within, direction] = page.sort[0]?.descending ? ['<', '>=', 'desc'] : ['>', '<=', 'asc'];
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

/** The value that a page by age asks for, of a field that has an index for that: such pages are common, and few statements. */
export function singleValue(
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

/** The time that orders a page of a whole company, where nothing but a filter narrows it. */
function ageAsked({ reach }: Scope, { sort, where, offset }: Page): 'created_at' | 'updated_at' | undefined {
  const [field] = sort.map((key) => key.field);
  if (sort.length !== 1 || where || offset || reach.kind !== 'company') return undefined;
  return field === 'created_at' || field === 'updated_at' ? field : undefined;
}
