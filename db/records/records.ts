// Records of all objects: read, locked and listed, as values by the fields' API names.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { type Sql, setPlanning, unprepared } from '../client/pipeline.ts';
import type { TenantScope } from '../client/tenant.ts';
import { inReach, type Scope } from '../client/visibility.ts';
import { type RecordTable, recordTable } from './columns.ts';
import { filterCondition } from './filter.ts';
import { type Page, singleValue, usualPage } from './pages.ts';
import { ageOf, belongs, firstInReach, recordsInReach } from './reached.ts';
import { fromRow, type Row, restOfRow, selection } from './rows.ts';
import { type KeyValue, orderOf } from './sort.ts';

/** One record within reach, or undefined. */
export function findRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql``);
}

/** Those of the records that are within reach, in no order. */
export function findRecords(sql: Sql, scope: Scope, object: string, ids: readonly string[]): Promise<StoredRecord[]> {
  return selectMany(sql, scope, object, ids, sql``);
}

/** One record, locked until the transaction ends, so that no other change comes between reading and writing it. */
export function lockRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql`for no key update`);
}

/** Those that are within reach, locked until the transaction ends; in the order of their ids, so that no two calls wait for each other. */
export function lockRecords(sql: Sql, scope: Scope, object: string, ids: readonly string[]): Promise<StoredRecord[]> {
  return selectMany(sql, scope, object, ids, sql`for no key update`);
}

/** True when there is such a record within reach. */
export async function hasRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<boolean> {
  return exists(sql, scope, object, id, sql``);
}

/** The same, and the record cannot be deleted until the transaction ends: for what is hung on it. */
export async function holdRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<boolean> {
  return exists(sql, scope, object, id, sql`for key share`);
}

async function exists(sql: Sql, scope: Scope, object: string, id: string, lock: Fragment): Promise<boolean> {
  const table = recordTable(object);
  const rows = await sql`
    select r.id
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = ${id} and ${inReach(sql, scope, table.assigned)}
    ${lock}`;
  return rows.length > 0;
}

async function selectOne(sql: Sql, scope: Scope, object: string, id: string, lock: Fragment) {
  const table = recordTable(object);
  const [row] = await sql`
    select ${selection(sql, table)}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = ${id} and ${inReach(sql, scope, table.assigned)}
    ${lock}`.values();
  return row && fromRow(table, row);
}

async function selectMany(sql: Sql, scope: Scope, object: string, ids: readonly string[], lock: Fragment) {
  const table = recordTable(object);
  const rows = await sql`
    select ${selection(sql, table)}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${inReach(sql, scope, table.assigned)}
    order by r.id
    ${lock}`.values();
  return rows.map((row) => fromRow(table, row));
}

/** Records by their ids, whoever may see them; for what follows from a write. */
export async function findRecordsBeyondReach(
  sql: Sql,
  scope: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<StoredRecord[]> {
  const table = recordTable(object);
  const rows = await sql`
    select ${selection(sql, table)}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = any(${[...ids]}::uuid[])`.values();
  return rows.map((row) => fromRow(table, row));
}

/** Records within reach that pass the filter, in order, each with its key values for a cursor. */
export async function listRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  page: Page,
): Promise<{ record: StoredRecord; keys: KeyValue[] }[]> {
  const table = recordTable(object);
  const usual = usualPage(table, scope, page);
  if (usual) {
    const query = sql.unsafe(usual.text, usual.parameters, { prepare: true }).values();
    return listed(table, await (setPlanning(query, 'in order') ? query : unprepared(query)));
  }
  const [key] = page.sort;
  const isWhole = scope.reach.kind === 'company';
  const isCommon = page.sort.length === 1 && !page.filter && key && table.columns.has(key.field);
  const order = orderOf(sql, table, page.sort, page.after);
  const all = isInOrderOfEach(table, scope, page) ? undefined : await recordsInReach(sql, scope, table);
  const rows: Row[] = [];
  for (const part of order.parts) {
    const wanted = sql`
      ${page.filter ? sql`and ${filterCondition(sql, table, page.filter)}` : sql``}
      ${page.where ? sql`and ${page.where}` : sql``}
      ${part.where}`;
    const most = page.limit - rows.length;
    const first = (): Fragment => sql`${wanted} order by ${part.orderBy} limit ${most + (page.offset ?? 0)}`;
    const source = all ?? (await firstInReach(sql, scope, table, first()));
    const query = sql`
      select ${selection(sql, table)}, ${order.columns}
      from ${source.rows} ${order.joins}
      where ${source.where} ${wanted}
      order by ${part.orderBy}
      limit ${most} ${page.offset ? sql`offset ${page.offset}` : sql``}`.values();
    const isKept = singleValue(table, scope, page)
      ? setPlanning(query, 'anew')
      : isCommon && (isWhole || (source.isOfEach && setPlanning(query, 'once')));
    rows.push(...(await (isKept ? query : unprepared(query))));
    if (rows.length === page.limit) break;
  }
  return listed(table, rows);
}

const listed = (table: RecordTable, rows: readonly Row[]) =>
  rows.map((row) => ({ record: fromRow(table, row), keys: restOfRow(table, row) }));

/** True where indexes have the records of each person in the order of a page. */
function isInOrderOfEach(table: RecordTable, { reach }: Scope, { sort }: Page): boolean {
  return reach.kind !== 'company' && sort.length === 1 && sort[0]?.field === ageOf(table);
}

/** How many records within reach pass the filter. @param most counts no further than one more than this */
export async function countRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  filter: Filter | undefined,
  most?: number,
): Promise<number> {
  const table = recordTable(object);
  const source = await recordsInReach(sql, scope, table);
  const [row] = await unprepared(sql<{ total: number }[]>`
    select count(*) as total
    from (
      select 1
      from ${source.rows}
      where ${source.where}
        ${filter ? sql`and ${filterCondition(sql, table, filter)}` : sql``}
      ${most === undefined ? sql`` : sql`limit ${most + 1}`}
    ) found`);
  return row?.total ?? 0;
}
