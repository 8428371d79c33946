// Records of all objects: read, locked and listed, as values by the fields' API names.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { markUnprepared, type Sql, type Statement, setPlanning } from '../client/pipeline.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable, type RecordTable } from './columns.ts';
import { buildFilterCondition } from './filter.ts';
import { isInIndexOrder, type ListPart, type ListPlanning, planList } from './list-plan.ts';
import type { KeyValue, Page } from './pages.ts';
import { belongsToTenant, findFirstVisible, findVisibleRecords, type Source } from './reached.ts';
import { type Row, readFurtherColumns, selectColumns, toRecord } from './rows.ts';
import { buildKeyColumns, buildOrderBy, buildPartCondition, listJoins } from './sort.ts';
import { selectAllTagged, selectTagged, splitTagFilter, type TagFilter } from './tagged.ts';

/** Returns one visible record, or undefined. */
export function findRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql``);
}

/** Returns those of the records that are visible, in no order. */
export function findRecords(sql: Sql, scope: Scope, object: string, ids: readonly string[]): Promise<StoredRecord[]> {
  return selectMany(sql, scope, object, ids, sql``);
}

/** Returns one visible record, locked until the transaction ends. */
export function lockRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql`for no key update`);
}

/**
 * Returns the visible ones, locked until the transaction ends. They are locked in the order of
 * their ids, which prevents deadlocks.
 */
export function lockRecords(sql: Sql, scope: Scope, object: string, ids: readonly string[]): Promise<StoredRecord[]> {
  return selectMany(sql, scope, object, ids, sql`for no key update`);
}

/**
 * Does the same, with the lock of a deletion: until the transaction ends, nothing can refer to
 * them.
 */
export function lockForMerge(sql: Sql, scope: Scope, object: string, ids: readonly string[]): Promise<StoredRecord[]> {
  return selectMany(sql, scope, object, ids, sql`for update`);
}

/** Returns true if the record exists and is visible. */
export async function hasRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<boolean> {
  return exists(sql, scope, object, id, sql``);
}

/**
 * Does the same, with a lock that prevents its deletion until the transaction ends, for rows that
 * will belong to it.
 */
export async function holdRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<boolean> {
  return exists(sql, scope, object, id, sql`for key share`);
}

async function exists(sql: Sql, scope: Scope, object: string, id: string, lock: Fragment): Promise<boolean> {
  const table = getRecordTable(object);
  const rows = await sql`
    select r.id
    from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.id = ${id} and ${isVisibleTo(sql, scope, table.assigned)}
    ${lock}`;
  return rows.length > 0;
}

async function selectOne(sql: Sql, scope: Scope, object: string, id: string, lock: Fragment) {
  const table = getRecordTable(object);
  const [row] = await sql`
    select ${selectColumns(sql, table)}
    from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.id = ${id} and ${isVisibleTo(sql, scope, table.assigned)}
    ${lock}`.values();
  return row && toRecord(table, row);
}

async function selectMany(sql: Sql, scope: Scope, object: string, ids: readonly string[], lock: Fragment) {
  const table = getRecordTable(object);
  const rows = await sql`
    select ${selectColumns(sql, table)}
    from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${isVisibleTo(sql, scope, table.assigned)}
    order by r.id
    ${lock}`.values();
  return rows.map((row) => toRecord(table, row));
}

/** Returns records by their ids, regardless of visibility, for effects of a write. */
export async function findRecordsBeyondReach(
  sql: Sql,
  scope: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<StoredRecord[]> {
  const table = getRecordTable(object);
  const rows = await sql`
    select ${selectColumns(sql, table)}
    from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.id = any(${[...ids]}::uuid[])`.values();
  return rows.map((row) => toRecord(table, row));
}

/**
 * Returns visible records that pass the filter, in order, each with its key values for a cursor.
 */
export async function listRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  page: Page,
): Promise<{ record: StoredRecord; keys: KeyValue[] }[]> {
  const table = getRecordTable(object);
  const plan = planList(table, scope, page);
  if (plan.kind === 'common') {
    const query = sql.unsafe(plan.text, plan.parameters, { prepare: true }).values();
    return listed(table, await (setPlanning(query, 'in order') ? query : markUnprepared(query)));
  }
  const tagged = scope.reach.kind === 'company' ? splitTagFilter(table, page.filter) : undefined;
  const asked = tagged ? { ...page, filter: tagged.rest } : page;
  const visible = plan.source === 'visibleRows' && !tagged ? await findVisibleRecords(sql, scope, table) : undefined;
  const rows: Row[] = [];
  for (const part of plan.parts) {
    const most = page.limit - rows.length;
    const wanted = wantedRows(sql, scope, table, asked, part);
    const first = firstOfPart(sql, wanted, part, page, most);
    const source = tagged
      ? selectTagged(
          sql,
          scope,
          table,
          tagged,
          isInIndexOrder(part) ? 'page' : 'whole',
          listJoins(sql, plan.keys),
          first,
        )
      : (visible ?? (await findFirstVisible(sql, scope, table, first)));
    const query = sql`
      select ${selectColumns(sql, table)}, ${buildKeyColumns(sql, plan.keys)}
      from ${source.rows} ${listJoins(sql, plan.keys)}
      where ${source.where} ${wanted}
      order by ${buildOrderBy(sql, part.keys)}
      limit ${most} ${page.offset ? sql`offset ${page.offset}` : sql``}`.values();
    rows.push(...(await (isKept(query, plan.planning, source) ? query : markUnprepared(query))));
    if (rows.length === page.limit) break;
  }
  return listed(table, rows);
}

/** Returns the conditions of a page for the rows of a part, each with a leading `and`. */
function wantedRows(sql: Sql, scope: Scope, table: RecordTable, { filter, where }: Page, part: ListPart): Fragment {
  return sql`
      ${filter ? sql`and ${buildFilterCondition(sql, scope, table, filter)}` : sql``}
      ${where ? sql`and ${where}` : sql``}
      ${buildPartCondition(sql, part)}`;
}

/** Returns what a part reads of the rows of each user: at least as much as it reads in total. */
function firstOfPart(sql: Sql, wanted: Fragment, part: ListPart, { offset }: Page, most: number): Fragment {
  return sql`${wanted} order by ${buildOrderBy(sql, part.keys)} limit ${most + (offset ?? 0)}`;
}

/** Sets how a statement is planned. @returns false if it must not stay prepared */
function isKept(query: Statement, planning: ListPlanning, { isOfEach }: Source): boolean {
  switch (planning) {
    case 'forValues':
      return setPlanning(query, 'custom');
    case 'kept':
      return true;
    case 'onceIfPerUser':
      return isOfEach && setPlanning(query, 'once');
    case 'unprepared':
      return false;
  }
}

const listed = (table: RecordTable, rows: readonly Row[]) =>
  rows.map((row) => ({ record: toRecord(table, row), keys: readFurtherColumns(table, row) }));

/**
 * Counts visible records that pass the filter.
 * @param most counting stops at one more than this
 */
export async function countRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  filter: Filter | undefined,
  most?: number,
): Promise<number> {
  const table = getRecordTable(object);
  const tagged = scope.reach.kind === 'company' && most !== undefined ? splitTagFilter(table, filter) : undefined;
  const others = tagged ? tagged.rest : filter;
  const asked = others ? sql`and ${buildFilterCondition(sql, scope, table, others)}` : sql``;
  const limit = most === undefined ? sql`` : sql`limit ${most + 1}`;
  const source = tagged
    ? countTagged(sql, scope, table, tagged, asked, most ?? 0)
    : await findVisibleRecords(sql, scope, table);
  const [row] = await markUnprepared(sql<{ total: number }[]>`
    select count(*) as total
    from (
      select 1
      from ${source.rows}
      where ${source.where} ${asked}
      ${limit}
    ) found`);
  return row?.total ?? 0;
}

/** Returns the source of a count of records with tags. */
function countTagged(
  sql: Sql,
  scope: Scope,
  table: RecordTable,
  tagged: TagFilter,
  asked: Fragment,
  most: number,
): Source {
  const [ids, ...further] = tagged.tags;
  return tagged.rest || further.length > 0
    ? selectTagged(sql, scope, table, tagged, 'whole', sql``, sql`${asked} limit ${most + 1}`)
    : selectAllTagged(sql, scope, table, ids, most + 1);
}
