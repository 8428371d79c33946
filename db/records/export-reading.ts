// What exports read: pages in the order of the primary key, on one snapshot.
import type { Fragment } from 'postgres';
import type { Filter } from '../../domain/objects/filter.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import type { AttachmentRow } from './attachments.ts';
import { getRecordTable } from './columns.ts';
import { buildFilterCondition } from './filter.ts';
import type { StoredLink } from './links.ts';
import type { NoteRow } from './notes.ts';
import { belongsToTenant } from './reached.ts';
import { selectColumns, toRecord } from './rows.ts';

/**
 * Returns the last position of a tenant's feed. All events up to it are of changes that the
 * snapshot sees.
 */
export async function readFeedPosition(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  const [feed] = await sql<{ last: number }[]>`
    select last_position as last from feeds where company_id = ${companyId} and test_mode = ${testMode}`;
  return feed?.last ?? 0;
}

/** @param after the id of the last record of the page before */
export async function readRecordPage(
  sql: Sql,
  scope: Scope,
  object: string,
  filter: Filter | undefined,
  after: string | undefined,
  limit: number,
): Promise<StoredRecord[]> {
  const table = getRecordTable(object);
  const rows = await sql`
    select ${selectColumns(sql, table)}
    from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)}
      ${after === undefined ? sql`` : sql`and r.id > ${after}`}
      ${scope.reach.kind === 'company' ? sql`` : sql`and ${isVisibleTo(sql, scope, table.assigned)}`}
      ${filter ? sql`and ${buildFilterCondition(sql, scope, table, filter)}` : sql``}
    order by r.id
    limit ${limit}`.values();
  return rows.map((row) => toRecord(table, row));
}

/** Notes of the records of an object. */
export async function readNotePage(
  sql: Sql,
  scope: Scope,
  object: string,
  after: string | undefined,
  limit: number,
): Promise<NoteRow[]> {
  return sql<NoteRow[]>`
    select id, object, record_id, content, created_by_kind, created_by_id, created_by_name, created_at, updated_at
    from notes n
    where ${ofRecords(sql, scope, object)} ${after === undefined ? sql`` : sql`and n.id > ${after}`}
    order by n.id
    limit ${limit}`;
}

/** Attachments of the records of an object. */
export async function readAttachmentPage(
  sql: Sql,
  scope: Scope,
  object: string,
  after: string | undefined,
  limit: number,
): Promise<AttachmentRow[]> {
  return sql<AttachmentRow[]>`
    select id, object, record_id, file_id, file_name, content_type, size_bytes, sha256, created_by_kind, created_by_id, created_by_name,
      created_at
    from attachments n
    where ${ofRecords(sql, scope, object)} ${after === undefined ? sql`` : sql`and n.id > ${after}`}
    order by n.id
    limit ${limit}`;
}

/** Returns the condition that a row `n` is on a visible record of the object. */
function ofRecords(sql: Sql, scope: Scope, object: string): Fragment {
  const own = sql`n.company_id = ${scope.companyId} and n.test_mode = ${scope.testMode} and n.object = ${object}`;
  return scope.reach.kind === 'company'
    ? own
    : sql`${own} and ${isVisibleRecord(sql, scope, object, sql`n.record_id`)}`;
}

function isVisibleRecord(sql: Sql, scope: Scope, object: string, id: Fragment): Fragment {
  const table = getRecordTable(object);
  return sql`exists (
    select from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.id = ${id} and ${isVisibleTo(sql, scope, table.assigned)}
  )`;
}

/** Links of one type, whose two records are visible. @param from the caller, as it sees the objects of both sides */
export async function readLinkPage(
  sql: Sql,
  type: { id: string; fromObject: string; toObject: string },
  from: Scope,
  to: Scope,
  after: string | undefined,
  limit: number,
): Promise<StoredLink[]> {
  const isVisible = (scope: Scope, object: string, id: Fragment): Fragment =>
    scope.reach.kind === 'company' ? sql`` : sql`and ${isVisibleRecord(sql, scope, object, id)}`;
  return sql<StoredLink[]>`
    select id, link_type_id, from_object, from_id, to_object, to_id, created_by_kind, created_by_id, created_by_name, created_at
    from links l
    where l.company_id = ${from.companyId} and l.test_mode = ${from.testMode} and l.link_type_id = ${type.id}
      ${after === undefined ? sql`` : sql`and l.id > ${after}`}
      ${isVisible(from, type.fromObject, sql`l.from_id`)}
      ${isVisible(to, type.toObject, sql`l.to_id`)}
    order by l.id
    limit ${limit}`;
}
