// Records of all objects: read, listed, written and deleted, as values by the fields' API names.
import type { Fragment } from 'postgres';
import { type Sql, unprepared } from './connect.ts';
import { inReach, type Scope } from './reach.ts';
import { type RecordTable, recordTable } from './record-columns.ts';
import { type Filter, filterCondition } from './record-filter.ts';
import {
  fromRow,
  insertedColumns,
  restOfRow,
  type StoredRecord,
  type StoredValue,
  selection,
  toRow,
  writableColumns,
} from './record-rows.ts';
import { type KeyValue, orderOf, type SortKey } from './record-sort.ts';

export type { StoredRecord, StoredValue };

/** One record within reach, or undefined. */
export function findRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql``);
}

/** Those of the records that are within reach, in no order. */
export async function findRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
): Promise<StoredRecord[]> {
  const table = recordTable(object);
  const rows = await sql`
    select ${selection(sql, table)}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${inReach(sql, scope, table.assigned)}`.values();
  return rows.map((row) => fromRow(table, row));
}

/** One record, locked until the transaction ends, so that no other change comes between reading and writing it. */
export function lockRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql`for no key update`);
}

/** Those that are within reach, locked until the transaction ends; in the order of their ids, so that no two calls wait for each other. */
export async function lockRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
): Promise<StoredRecord[]> {
  const table = recordTable(object);
  const rows = await sql`
    select ${selection(sql, table)}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${inReach(sql, scope, table.assigned)}
    order by r.id
    for no key update`.values();
  return rows.map((row) => fromRow(table, row));
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

/** Records by their ids, whoever may see them; for what follows from a write. */
export async function findRecordsBeyondReach(
  sql: Sql,
  scope: Scope,
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

export interface Page {
  sort: readonly SortKey[];
  filter: Filter | undefined;
  /** The key values of the row before the page. */
  after: readonly KeyValue[] | undefined;
  /** How many rows at most. */
  limit: number;
  /** Rows to leave out at the beginning; for old clients, pages continue after a row instead. */
  offset?: number | undefined;
}

/** Records within reach that pass the filter, in order, each with its key values for a cursor. */
export async function listRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  page: Page,
): Promise<{ record: StoredRecord; keys: KeyValue[] }[]> {
  const table = recordTable(object);
  const order = orderOf(sql, table, page.sort);
  const query = sql`
    select ${selection(sql, table)}, ${order.columns}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and ${inReach(sql, scope, table.assigned)}
      ${page.filter ? sql`and ${filterCondition(sql, table, page.filter)}` : sql``}
      ${page.after ? order.after(page.after) : sql``}
    order by ${order.orderBy}
    limit ${page.limit} ${page.offset ? sql`offset ${page.offset}` : sql``}`.values();
  const [key] = page.sort;
  const isCommon = page.sort.length === 1 && !page.filter && key && table.columns.has(key.field);
  const rows = await (isCommon ? query : unprepared(query));
  return rows.map((row) => ({ record: fromRow(table, row), keys: restOfRow(table, row) }));
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
  const [row] = await unprepared(sql<{ total: number }[]>`
    select count(*) as total
    from (
      select 1
      from ${sql(table.name)} r
      where ${belongs(sql, scope, table)} and ${inReach(sql, scope, table.assigned)}
        ${filter ? sql`and ${filterCondition(sql, table, filter)}` : sql``}
      ${most === undefined ? sql`` : sql`limit ${most + 1}`}
    ) found`);
  return row?.total ?? 0;
}

export interface NewRecord {
  id: string;
  values: Record<string, StoredValue>;
  custom: Record<string, StoredValue>;
}

/** Inserts records in one statement. @returns them as they are stored, in the order given */
export async function insertRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  records: readonly NewRecord[],
  now: Date,
): Promise<StoredRecord[]> {
  if (records.length === 0) return [];
  const table = recordTable(object);
  const keys = {
    company_id: scope.companyId,
    test_mode: scope.testMode,
    ...(table.object === undefined ? {} : { object: table.object }),
  };
  const origin = {
    created_by_kind: scope.actor.kind,
    created_by_id: scope.actor.id,
    created_by_name: scope.actor.name,
    created_by_user: scope.userId,
    created_at: now,
  };
  const rows = records.map((record) => ({
    ...toRow(table, record.values, record.custom),
    ...keys,
    ...origin,
    id: record.id,
    version: 1,
    updated_at: now,
  }));
  const columns = insertedColumns(sql, table);
  // All rows in one parameter, so that any number of them is the same prepared statement.
  const inserted = await sql`
    insert into ${sql(table.name)} as r (${columns})
    select ${columns} from jsonb_populate_recordset(null::${sql(table.name)}, ${sql.json(rows as never)})
    returning ${selection(sql, table)}`.values();
  const stored = inserted.map((row) => fromRow(table, row));
  const byId = new Map(stored.map((record) => [record.id, record]));
  return records.flatMap((record) => byId.get(record.id) ?? []);
}

/** Writes a record that is locked, with its next version. @returns it as it is stored */
export async function updateRecord(
  sql: Sql,
  scope: Scope,
  object: string,
  record: StoredRecord,
  now: Date,
): Promise<StoredRecord> {
  const [updated] = await updateRecords(sql, scope, object, [record], now);
  if (!updated) throw new Error('an updated record was not returned');
  return updated;
}

/** Writes records that are locked, each with its next version, in one statement. @returns them as they are stored, in the order given */
export async function updateRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  records: readonly StoredRecord[],
  now: Date,
): Promise<StoredRecord[]> {
  if (records.length === 0) return [];
  const table = recordTable(object);
  const columns = writableColumns(sql, table);
  const next = records.map((record) => ({
    ...toRow(table, record.values, record.custom),
    id: record.id,
    version: record.version + 1,
    // A call that waited for the lock began before the change it waited for; time does not go back for that.
    updated_at: now > record.updatedAt ? now : record.updatedAt,
  }));
  const rows = await sql`
    update ${sql(table.name)} r
    set (${columns}) = (select ${columns} from (select next.*) as row)
    from jsonb_populate_recordset(null::${sql(table.name)}, ${sql.json(next as never)}) as next
    where ${belongs(sql, scope, table)} and r.id = next.id
    returning ${selection(sql, table)}`.values();
  const stored = new Map(rows.map((row) => fromRow(table, row)).map((record) => [record.id, record]));
  if (stored.size < records.length) throw new Error('a locked record has gone');
  return records.flatMap((record) => stored.get(record.id) ?? []);
}

export interface DeletedRecord extends StoredRecord {
  /** How many of each went with it. */
  activities: number;
  tasks: number;
}

/**
 * Deletes a record with what belongs to it alone: the activities logged on it, its tasks and its tags. Other records that
 * refer to it stay, without the reference.
 * @returns undefined when there is no such record within reach
 */
export async function deleteRecord(
  sql: Sql,
  scope: Scope,
  object: string,
  id: string,
): Promise<DeletedRecord | undefined> {
  const [gone] = await deleteRecords(sql, scope, object, [id]);
  return gone;
}

/** The same for many. @returns those that were there, in no order */
export async function deleteRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
): Promise<DeletedRecord[]> {
  const table = recordTable(object);
  const { companyId, testMode } = scope;
  const wanted = sql`
    ${belongs(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${inReach(sql, scope, table.assigned)}`;
  // In the order of the ids, so that no two calls wait for each other.
  if (ids.length > 1) await sql`select r.id from ${sql(table.name)} r where ${wanted} order by r.id for update`;
  const rows = await sql`delete from ${sql(table.name)} r where ${wanted} returning ${selection(sql, table)}`.values();
  const records = rows.map((row) => fromRow(table, row));
  if (records.length === 0) return [];
  const gone = records.map((record) => record.id);
  // A statement of its own: it sees what others attached until the records were locked.
  const entityType = entityTypes[object] ?? null;
  const counts = await sql<{ id: string; activities: number; tasks: number }[]>`
    with gone_activities as (
      delete from activities
      where company_id = ${companyId} and test_mode = ${testMode} and entity_type = ${entityType} and entity_id = any(${gone}::uuid[])
      returning id, entity_id
    ), gone_tasks as (
      delete from tasks
      where company_id = ${companyId} and test_mode = ${testMode}
        and (object = ${object} and record_id = any(${gone}::uuid[])
          or object = 'activities' and record_id in (select id from gone_activities))
      returning record_id
    ), gone_tags as (
      delete from record_tags
      where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = any(${gone}::uuid[])
    )
    select record.id,
      (select count(*) from gone_activities a where a.entity_id = record.id) as activities,
      (select count(*) from gone_tasks t
        where t.record_id = record.id or t.record_id in (select a.id from gone_activities a where a.entity_id = record.id)) as tasks
    from unnest(${gone}::uuid[]) record (id)`;
  const byId = new Map(counts.map(({ id, activities, tasks }) => [id, { activities, tasks }]));
  return records.map((record) => ({ activities: 0, tasks: 0, ...record, ...byId.get(record.id) }));
}

/** The condition that a row `r` is the tenant's, in the caller's mode, and of this object. */
export function belongs(sql: Sql, scope: Scope, table: RecordTable) {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  return table.object === undefined ? own : sql`${own} and r.object = ${table.object}`;
}

/** What activities call the objects that they are logged on. */
const entityTypes: Readonly<Record<string, string>> = { leads: 'lead', deals: 'deal' };
