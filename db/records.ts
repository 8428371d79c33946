// Records of all objects: read, listed, written and deleted, as values by the fields' API names.
import type { Fragment } from 'postgres';
import { type Sql, unprepared } from './connect.ts';
import { inReach, type Scope } from './reach.ts';
import { type RecordTable, recordTable } from './record-columns.ts';
import { type Filter, filterCondition } from './record-filter.ts';
import { type KeyValue, orderOf, type SortKey } from './record-sort.ts';

export type StoredValue = string | number | boolean | null;

/** A record as it is stored. Values are by API name: ids for configured lists, ISO 8601 for times. */
export interface StoredRecord {
  id: string;
  version: number;
  createdAt: Date;
  updatedAt: Date;
  /** Built-in fields, read-only ones included. */
  values: Record<string, StoredValue>;
  /** The tenant's own fields; what has no value is absent. */
  custom: Record<string, StoredValue>;
}

interface Row {
  id: string;
  version: number;
  created_at: Date;
  updated_at: Date;
  custom: Record<string, StoredValue>;
  [column: string]: unknown;
}

/** One record within reach, or undefined. */
export function findRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql``);
}

/** The same, locked until the transaction ends, so that no other change comes between reading and writing it. */
export function lockRecord(sql: Sql, scope: Scope, object: string, id: string): Promise<StoredRecord | undefined> {
  return selectOne(sql, scope, object, id, sql`for no key update`);
}

async function selectOne(sql: Sql, scope: Scope, object: string, id: string, lock: Fragment) {
  const table = recordTable(object);
  const [row] = await sql<Row[]>`
    select ${sql(selected(table))}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = ${id} and ${inReach(sql, scope, table.assigned)}
    ${lock}`;
  return row && fromRow(table, row);
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
  const query = sql<Row[]>`
    select ${sql(selected(table))}, ${order.columns}
    from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and ${inReach(sql, scope, table.assigned)}
      ${page.filter ? sql`and ${filterCondition(sql, table, page.filter)}` : sql``}
      ${page.after ? order.after(page.after) : sql``}
    order by ${order.orderBy}
    limit ${page.limit} ${page.offset ? sql`offset ${page.offset}` : sql``}`;
  const [key] = page.sort;
  const isCommon = page.sort.length === 1 && !page.filter && key && table.columns.has(key.field);
  const rows = await (isCommon ? query : unprepared(query));
  return rows.map((row) => ({ record: fromRow(table, row), keys: keysOf(row) }));
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
  const columns = sql([...Object.keys(keys), 'id', ...Object.keys(origin), ...writable(table)]);
  // All rows in one parameter, so that any number of them is the same prepared statement.
  const inserted = await sql<Row[]>`
    insert into ${sql(table.name)} (${columns})
    select ${columns} from jsonb_populate_recordset(null::${sql(table.name)}, ${sql.json(rows as never)})
    returning ${sql(selected(table))}`;
  const byId = new Map(inserted.map((row) => [row.id, fromRow(table, row)]));
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
  const columns = sql(writable(table));
  // A call that waited for the lock began before the change it waited for; time does not go back for that.
  const updatedAt = now > record.updatedAt ? now : record.updatedAt;
  const next = { ...toRow(table, record.values, record.custom), version: record.version + 1, updated_at: updatedAt };
  const [row] = await sql<Row[]>`
    update ${sql(table.name)} r
    set (${columns}) = (select ${columns} from jsonb_populate_record(null::${sql(table.name)}, ${sql.json(next as never)}))
    where ${belongs(sql, scope, table)} and r.id = ${record.id}
    returning ${sql(selected(table))}`;
  if (!row) throw new Error('a locked record has gone');
  return fromRow(table, row);
}

/**
 * Deletes a record with what belongs to it alone: the activities logged on it, its tasks and its tags. Other records that
 * refer to it stay, without the reference.
 * @returns how many of each went with it; undefined when there is no such record within reach
 */
export async function deleteRecord(
  sql: Sql,
  scope: Scope,
  object: string,
  id: string,
): Promise<(StoredRecord & { activities: number; tasks: number }) | undefined> {
  const table = recordTable(object);
  const { companyId, testMode } = scope;
  const [row] = await sql<Row[]>`
    delete from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} and r.id = ${id} and ${inReach(sql, scope, table.assigned)}
    returning ${sql(selected(table))}`;
  if (!row) return undefined;
  // A statement of its own: it sees what others attached until the record was locked.
  const entityType = entityTypes[object] ?? null;
  const [gone] = await sql<{ activities: number; tasks: number }[]>`
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
    select (select count(*) from gone_activities) as activities, (select count(*) from gone_tasks) as tasks`;
  return { ...fromRow(table, row), activities: gone?.activities ?? 0, tasks: gone?.tasks ?? 0 };
}

/** The condition that a row `r` is the tenant's, in the caller's mode, and of this object. */
function belongs(sql: Sql, scope: Scope, table: RecordTable) {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  return table.object === undefined ? own : sql`${own} and r.object = ${table.object}`;
}

/** What activities call the objects that they are logged on. */
const entityTypes: Readonly<Record<string, string>> = { leads: 'lead', deals: 'deal' };

const commonFields = new Set(['id', 'created_at', 'updated_at']);
const fixedColumns = new Set(['id', 'created_at', 'created_by_kind', 'created_by_id', 'created_by_name']);

/** The columns that a record is read from. */
function selected(table: RecordTable): string[] {
  return [...columnNames(table), 'custom', 'version'];
}

/** The columns that an update writes. */
function writable(table: RecordTable): string[] {
  return [...columnNames(table).filter((name) => !fixedColumns.has(name)), 'custom', 'version'];
}

function columnNames(table: RecordTable): string[] {
  return [...new Set([...table.columns.values()].map((column) => column.name))];
}

function fromRow(table: RecordTable, row: Row): StoredRecord {
  const values: Record<string, StoredValue> = {};
  for (const [field, column] of table.columns) {
    if (commonFields.has(field)) continue;
    const value = row[column.name];
    values[field] = value instanceof Date ? value.toISOString() : (value as StoredValue);
  }
  const { id, version, created_at: createdAt, updated_at: updatedAt, custom } = row;
  return { id, version, createdAt, updatedAt, values, custom };
}

function toRow(
  table: RecordTable,
  values: Readonly<Record<string, StoredValue>>,
  custom: Readonly<Record<string, StoredValue>>,
): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  const inside: [string, StoredValue][] = Object.entries(custom);
  for (const [field, value] of Object.entries(values)) {
    const column = table.columns.get(field);
    if (!column) inside.push([field, value]);
    // A list's column is published under two names, source and source_id; only the first is ever written.
    else if (column.names || !(column.name in row)) row[column.name] = value;
  }
  return { ...row, custom: Object.fromEntries(inside.filter(([, value]) => value !== null)) };
}

function keysOf(row: Row): KeyValue[] {
  const keys: KeyValue[] = [];
  for (let index = 0; `key_${index}` in row; index += 1) {
    const value = row[`key_${index}`];
    keys.push(value instanceof Date ? value.toISOString() : (value as KeyValue));
  }
  return keys;
}
