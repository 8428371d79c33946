// Plans how a page of records is read, from its parameters, before any statement is built.
import type { SortKey } from '../../domain/objects/sort.ts';
import type { Scope } from '../client/visibility.ts';
import type { Column, RecordTable } from './columns.ts';
import { buildCommonPage, type CommonPage, findSingleValue, type KeyValue, type Page } from './pages.ts';
import { getAgeColumn } from './reached.ts';

export interface OrderedKey {
  /** undefined for custom fields. */
  column: Column | undefined;
  field: string;
  descending: boolean;
  /** Never null. */
  filled: boolean;
  /** The index of the key in the order, from 0. */
  place: number;
}

/**
 * Rows that one statement reads in the order of an index. Parts are read one after the other until
 * the page is full.
 */
export interface ListPart {
  /** Only the rows with a value in a column, or only those without; undefined for all rows. */
  only: { column: string; hasValue: boolean } | undefined;
  keys: readonly OrderedKey[];
  /** The values of `keys` in the row after which the part begins. */
  after: readonly KeyValue[] | undefined;
}

/**
 * How PostgreSQL plans the statements. `forValues`: they stay prepared and are planned for their
 * values each time. `kept`: they stay prepared. `onceIfPerUser`: they stay prepared with one plan if
 * rows are read user by user, else they do not. `unprepared`: they do not, since their text depends
 * on the request.
 */
export type ListPlanning = 'forValues' | 'kept' | 'onceIfPerUser' | 'unprepared';

export type ListPlan =
  /** A statement with few variants, whose text is complete. */
  | ({ kind: 'common' } & CommonPage)
  | {
      kind: 'composed';
      /** The values that identify a row in a cursor: the keys of the sort, and the id. */
      keys: readonly OrderedKey[];
      parts: readonly ListPart[];
      /**
       * `visibleRows`: one source for all parts. `firstOfEach`: indexes have the records of each
       * user in the order of the page, so each part reads the first rows of each visible user.
       */
      source: 'visibleRows' | 'firstOfEach';
      planning: ListPlanning;
    };

/** Plans the statements of a page, without database access. */
export function planList(table: RecordTable, scope: Scope, page: Page): ListPlan {
  const common = buildCommonPage(table, scope, page);
  if (common) return { kind: 'common', ...common };
  const keys = orderedKeys(table, page.sort);
  return {
    kind: 'composed',
    keys,
    parts: splitIntoParts(keys, page.after),
    source: isInOrderOfEach(table, scope, page) ? 'firstOfEach' : 'visibleRows',
    planning: choosePlanning(table, scope, page),
  };
}

/** Returns the keys of a sort. The id decides between equals, in the direction of the last key. */
function orderedKeys(table: RecordTable, sort: readonly SortKey[]): OrderedKey[] {
  const id = { field: 'id', descending: sort.at(-1)?.descending ?? true };
  const all = sort.some(({ field }) => field === 'id') ? sort : [...sort, id];
  return all.map(({ field, descending }, place) => {
    const column = table.columns.get(field);
    return { column, field, descending, filled: column?.filled === true, place };
  });
}

/**
 * Rows without a value come last in both directions. If an index has the rows with a value in
 * order, they are read alone, and those without a value only after them.
 */
function splitIntoParts(keys: readonly OrderedKey[], after: readonly KeyValue[] | undefined): ListPart[] {
  const [first, ...rest] = keys;
  if (!first?.column?.indexed || first.filled) return [{ only: undefined, keys, after }];
  const column = first.column.name;
  const withoutValue = { only: { column, hasValue: false }, keys: rest };
  if (after?.[0] === null) return [{ ...withoutValue, after: after.slice(1) }];
  return [
    { only: { column, hasValue: true }, keys: [{ ...first, filled: true }, ...rest], after },
    { ...withoutValue, after: undefined },
  ];
}

const alwaysIndexed: readonly string[] = ['id', 'created_at', 'updated_at'];

/** Returns true if an index has the rows of the part in its order, or at least in that of its first key. */
export function isInIndexOrder({ keys: [first] }: ListPart): boolean {
  const isIndexed = first?.column?.indexed || alwaysIndexed.includes(first?.field ?? '');
  return first?.filled === true && isIndexed;
}

/** Returns true if indexes have the records of each user in the order of the page. */
function isInOrderOfEach(table: RecordTable, { reach }: Scope, { sort }: Page): boolean {
  return reach.kind !== 'company' && sort.length === 1 && sort[0]?.field === getAgeColumn(table);
}

function choosePlanning(table: RecordTable, scope: Scope, page: Page): ListPlanning {
  if (findSingleValue(table, scope, page)) return 'forValues';
  const [key] = page.sort;
  const isFixedText = page.sort.length === 1 && !page.filter && key && table.columns.has(key.field);
  if (!isFixedText) return 'unprepared';
  return scope.reach.kind === 'company' ? 'kept' : 'onceIfPerUser';
}
