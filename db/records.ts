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

/** The same, locked until the transaction ends, so that no other change comes between reading and writing it. */
export function lockRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql`for no key update`);
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

/** Records by their ids, whoever may see them; for what follows from a write. */
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
    where ${belongs(sql, scope, table)} and r.id = any(${[...ids]}::uuid[])`.values();
  return rows.map((row) => fromRow(table, row));
}

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
      ${page.where ? sql`and ${page.where}` : sql``}
      ${page.after ? order.after(page.after) : sql``}
    order by ${order.orderBy}
    limit ${page.limit} ${page.offset ? sql`offset ${page.offset}` : sql``}`.values();
  const [key] = page.sort;
  const isCommon = page.sort.length === 1 && !page.filter && key && table.columns.has(key.field);
  const rows = await (isCommon ? query : unprepared(query));
  return rows.map((row) => ({ record: fromRow(table, row), keys: restOfRow(table, row) }));
}

/** How many records within reach pass the filter. */
export async function countRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  filter: Filter | undefined,
): Promise<number> {
  const table = recordTable(object);
  const [row] = await unprepared(sql<{ total: number }[]>`
    select count(*) as total
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and ${inReach(sql, scope, table.assigned)}
      ${filter ? sql`and ${filterCondition(sql, table, filter)}` : sql``}`);
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
    insert into ${sql(table.name)} (${columns})
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
  const table = recordTable(object);
  const columns = writableColumns(sql, table);
  // A call that waited for the lock began before the change it waited for; time does not go back for that.
  const updatedAt = now > record.updatedAt ? now : record.updatedAt;
  const next = { ...toRow(table, record.values, record.custom), version: record.version + 1, updated_at: updatedAt };
  const [row] = await sql`
    update ${sql(table.name)} r
    set (${columns}) = (select ${columns} from jsonb_populate_record(null::${sql(table.name)}, ${sql.json(next as never)}))
    where ${belongs(sql, scope, table)} and r.id = ${record.id}
    returning ${selection(sql, table)}`.values();
  if (!row) throw new Error('a locked record has gone');
  return fromRow(table, row);
}

/** How much of what belonged to a deleted record went with it. */
export interface GoneWithIt {
  activities: number;
  tasks: number;
  notes: number;
  attachments: number;
}

/**
 * Deletes a record with what belongs to it alone: the activities logged on it, its tasks, tags, notes, messages and attachments,
 * and what hangs on those activities and tasks. Other records that refer to it stay, without the reference.
 * @returns undefined when there is no such record within reach
 */
export async function deleteRecord(
  sql: Sql,
  scope: Scope,
  object: string,
  id: string,
): Promise<{ record: StoredRecord; gone: GoneWithIt } | undefined> {
  const table = recordTable(object);
  const { companyId, testMode } = scope;
  const [row] = await sql`
    delete from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = ${id} and ${inReach(sql, scope, table.assigned)}
    returning ${selection(sql, table)}`.values();
  if (!row) return undefined;
  // A statement of its own: it sees what others attached until the record was locked.
  const entityType = entityTypes[object] ?? null;
  const [gone] = await sql<{ activities: string[]; tasks: string[] }[]>`
    with gone_activities as (
      delete from activities
      where company_id = ${companyId} and test_mode = ${testMode} and entity_type = ${entityType} and entity_id = ${id}
      returning id
    ), gone_tasks as (
      delete from tasks
      where company_id = ${companyId} and test_mode = ${testMode}
        and (object = ${object} and record_id = ${id} or object = 'activities' and record_id in (select id from gone_activities))
      returning id
    ), gone_tags as (
      delete from record_tags
      where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = ${id}
    )
    select array(select id from gone_activities) as activities, array(select id from gone_tasks) as tasks`;
  const { activities, tasks } = gone ?? { activities: [], tasks: [] };
  const hung = await deleteChildren(sql, scope, [
    ...[{ object, id }],
    ...activities.map((activity) => ({ object: 'activities', id: activity })),
    ...tasks.map((task) => ({ object: 'tasks', id: task })),
  ]);
  return { record: fromRow(table, row), gone: { activities: activities.length, tasks: tasks.length, ...hung } };
}

/** Deletes what hangs on records that are gone. A statement of its own, for the reason above. */
async function deleteChildren(
  sql: Sql,
  { companyId, testMode }: Scope,
  records: readonly { object: string; id: string }[],
): Promise<{ notes: number; attachments: number }> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and (object, record_id) in (select object, id from gone)`;
  const [hung] = await sql<{ notes: number; attachments: number }[]>`
    with gone as (
      select object, id from jsonb_to_recordset(${sql.json(records as never)}) as r (object text, id uuid)
    ), gone_notes as (
      delete from notes where ${own} returning id
    ), gone_messages as (
      delete from messages where ${own}
    ), gone_attachments as (
      delete from attachments where ${own} returning id
    )
    select (select count(*) from gone_notes) as notes, (select count(*) from gone_attachments) as attachments`;
  return hung ?? { notes: 0, attachments: 0 };
}

/** The condition that a row `r` is the tenant's, in the caller's mode, and of this object. */
export function belongs(sql: Sql, scope: Scope, table: RecordTable) {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  return table.object === undefined ? own : sql`${own} and r.object = ${table.object}`;
}

/** What activities call the objects that they are logged on. */
const entityTypes: Readonly<Record<string, string>> = { leads: 'lead', deals: 'deal' };
