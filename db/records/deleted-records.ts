// Deleted records as the trash shows them: listed and read, in reach of who could see them.
import type { Fragment } from 'postgres';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { CreatedByRow } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable, type RecordTable } from './columns.ts';
import { findFirstVisible } from './reached.ts';
import { selectColumns, toRecord } from './rows.ts';
import { isInTrash, type TrashedChildren } from './trash.ts';

/** A deleted record with what the trash knows of it. */
export interface DeletedRecordRow {
  record: StoredRecord;
  deletedAt: Date;
  deletedBy: CreatedByRow;
  purgeAt: Date;
  mergedInto: string | null;
  children: TrashedChildren;
}

export interface DeletedRecordFilter {
  deletedBy: string | undefined;
  from: Date | undefined;
  to: Date | undefined;
}

/**
 * Returns the deleted records of an object, the last deleted first.
 * @param after time and ID of the last one of the page before
 */
export async function listDeletedRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  { deletedBy, from, to }: DeletedRecordFilter,
  after: readonly [string, string] | undefined,
  limit: number,
  now: Date,
): Promise<DeletedRecordRow[]> {
  const asked = sql`
    and not r.is_restored and r.purge_at > ${now}
    ${deletedBy === undefined ? sql`` : sql`and r.deleted_by_id = ${deletedBy}`}
    ${from ? sql`and r.deleted_at >= ${from}` : sql``}
    ${to ? sql`and r.deleted_at <= ${to}` : sql``}
    ${after ? sql`and (r.deleted_at, r.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}`;
  const order = sql`order by r.deleted_at desc, r.id desc limit ${limit}`;
  const source = await findFirstVisible(sql, scope, { ...trash, object }, sql`${asked} ${order}`);
  const table = getRecordTable(object);
  const page = sql`select r.* from ${source.rows} where ${source.where} ${asked} ${order}`;
  return (await readRows(sql, table, page, sql`order by d.deleted_at desc, d.id desc`)).map((row) =>
    toDeleted(table, row),
  );
}

/** Returns one deleted record that was within reach. */
export async function findDeletedRecord(
  sql: Sql,
  scope: Scope,
  object: string,
  id: string,
  now: Date,
): Promise<DeletedRecordRow | undefined> {
  const table = getRecordTable(object);
  const row = sql`
    select * from deleted_records where ${isInTrash(sql, scope, object, now)} and id = ${id} and ${isVisibleTo(sql, scope)}`;
  return (await readRows(sql, table, row, sql``)).map((each) => toDeleted(table, each))[0];
}

const trash = { name: 'deleted_records', assigned: 'assigned' } as const;

/** @param rows of deleted_records */
function readRows(
  sql: Sql,
  table: RecordTable,
  rows: Fragment,
  order: Fragment,
): Promise<readonly (readonly unknown[])[]> {
  return sql`
    select ${selectColumns(sql, table)}, d.deleted_at, d.deleted_by_kind, d.deleted_by_id, d.deleted_by_name, d.purge_at, d.merged_into,
      d.children
    from (${rows}) d
    cross join lateral jsonb_populate_record(null::${sql(table.name)}, d.document) r
    ${order}`.values();
}

function toDeleted(table: RecordTable, row: readonly unknown[]): DeletedRecordRow {
  const [deletedAt, createdByKind, createdById, createdByName, purgeAt, mergedInto, children] = row.slice(-7) as [
    Date,
    CreatedByRow['createdByKind'],
    string,
    string | null,
    Date,
    string | null,
    TrashedChildren,
  ];
  const deletedBy = { createdByKind, createdById, createdByName };
  return { record: toRecord(table, row), deletedAt, deletedBy, purgeAt, mergedInto, children };
}
