// Exports, from the request to the deleted file, and the pages of rows that they read.
import type { ExportError, ExportFormat, ExportStatus } from '../../domain/records/exports.ts';
import { type Actor, type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import { hasCode, type Sql } from '../client/pool.ts';
import { forEachTenant } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import type { Reach, Scope } from '../client/visibility.ts';

/** An object of an export, and what its caller sees of it. */
export interface ExportSource {
  object: string;
  reach: Reach;
}

interface ExportSettings {
  object: string;
  format: ExportFormat;
  filter: Record<string, unknown> | null;
  fields: string[] | null;
  spreadsheetSafe: boolean;
  /** Modules that the caller must be able to view. */
  modules: string[];
  sources: ExportSource[];
}

export interface ExportRow extends ExportSettings, CreatedByRow {
  id: string;
  status: ExportStatus;
  attempt: number;
  rows: number | null;
  feedPosition: number | null;
  fileId: string | null;
  bytes: number | null;
  sha256: string | null;
  error: ExportError | null;
  createdByUser: string | null;
  createdAt: Date;
  startedAt: Date | null;
  completedAt: Date | null;
  expiresAt: Date | null;
}

const columns = [
  ...[
    'id',
    'object',
    'format',
    'filter',
    'fields',
    'spreadsheet_safe',
    'modules',
    'sources',
    'status',
    'attempt',
    'rows',
  ],
  ...['feed_position', 'file_id', 'bytes', 'sha256', 'error', 'created_by_kind', 'created_by_id', 'created_by_name'],
  ...['created_by_user', 'created_at', 'started_at', 'completed_at', 'expires_at'],
];

/** Who asks for exports, and which modules they can view. */
export interface ExportViewer extends Scope {
  viewable: readonly string[];
}

/**
 * Returns the condition that a viewer may see an export: they made it, or see all that it can
 * contain.
 */
function isShown(sql: Sql, { actor, userId, reach, viewable }: ExportViewer) {
  const isOwn = sql`created_by_kind = ${actor.kind} and created_by_id = ${actor.id} and created_by_user is not distinct from ${userId}::uuid`;
  return sql`modules <@ ${[...viewable]}::text[] ${reach.kind === 'company' ? sql`` : sql`and (${isOwn})`}`;
}

/** Exports, newest first. @param after time and id of the last one of the page before */
export async function listExports(
  sql: Sql,
  viewer: ExportViewer,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<ExportRow[]> {
  return sql<ExportRow[]>`
    select ${sql(columns)}
    from exports
    where company_id = ${viewer.companyId} and test_mode = ${viewer.testMode} and ${isShown(sql, viewer)}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

export async function findExport(sql: Sql, viewer: ExportViewer, id: string): Promise<ExportRow | undefined> {
  const [row] = await sql<ExportRow[]>`
    select ${sql(columns)}
    from exports
    where company_id = ${viewer.companyId} and test_mode = ${viewer.testMode} and id = ${id} and ${isShown(sql, viewer)}`;
  return row;
}

/** Counts exports that wait, and keeps others from being added until the transaction ends. */
export async function lockWaitingExports(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  await sql`select from companies where id = ${companyId} for no key update`;
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from exports
    where company_id = ${companyId} and test_mode = ${testMode} and status = 'queued'`;
  return row?.count ?? 0;
}

export async function insertExport(
  sql: Sql,
  scope: Scope,
  { id, ...settings }: ExportSettings & { id: string },
  now: Date,
): Promise<ExportRow> {
  const { object, format, filter, fields, spreadsheetSafe, modules, sources } = settings;
  const by = toCreatedColumns(scope);
  const [row] = await sql<ExportRow[]>`
    insert into exports (company_id, test_mode, id, object, format, filter, fields, spreadsheet_safe, modules, sources,
      claimed_until, created_by_kind, created_by_id, created_by_name, created_by_user, created_at)
    values (${scope.companyId}, ${scope.testMode}, ${id}, ${object}, ${format}, ${filter && sql.json(filter as never)},
      ${fields}::text[], ${spreadsheetSafe}, ${modules}::text[], ${sql.json(sources as never)}, now(),
      ${by.createdByKind}, ${by.createdById}, ${by.createdByName}, ${by.createdByUser}::uuid, ${now})
    returning ${sql(columns)}`;
  if (!row) throw new Error('an inserted export was not returned');
  return row;
}

/** @returns undefined if it has ended */
export async function cancelExport(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<ExportRow | undefined> {
  const [row] = await sql<ExportRow[]>`
    update exports set status = 'cancelled', completed_at = ${now}, rows = null, feed_position = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status in ('queued', 'running')
    returning ${sql(columns)}`;
  return row;
}

export interface DueExport extends TenantScope {
  id: string;
}

/** Exports that wait, or whose server has died; oldest first. For the platform role. */
export async function findDueExports(sql: Sql, limit: number): Promise<DueExport[]> {
  return sql<DueExport[]>`
    select company_id, test_mode, id from exports
    where status in ('queued', 'running') and claimed_until <= now()
    order by claimed_until
    limit ${limit}`;
}

/** Seconds after which an export is due again if its server says nothing. */
const leaseSeconds = 20;

/** Starts an export. @returns undefined if it is no longer due, or another export of the tenant is running */
export async function claimExport(
  sql: Sql,
  { companyId, testMode, id }: DueExport,
  now: Date,
): Promise<ExportRow | undefined> {
  try {
    const [row] = await sql<ExportRow[]>`
      update exports
      set status = 'running', attempt = attempt + 1, claimed_until = now() + ${leaseSeconds} * interval '1 second', rows = 0,
        feed_position = null, started_at = ${now}
      where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}
        and status in ('queued', 'running') and claimed_until <= now()
        and not exists (
          select from exports other
          where other.company_id = ${companyId} and other.test_mode = ${testMode} and other.status = 'running' and other.id <> ${id}
        )
      returning ${sql(columns)}`;
    return row;
  } catch (error) {
    if (hasCode(error, '23505')) return undefined;
    throw error;
  }
}

/** One start of an export. A later start makes it void. */
export interface ExportAttempt extends DueExport {
  attempt: number;
}

/** Says that an export goes on. @returns false if it was cancelled or deleted, or another server has it */
export async function keepExport(
  sql: Sql,
  { companyId, testMode, id, attempt }: ExportAttempt,
  { rows, feedPosition }: { rows: number; feedPosition: number | null },
): Promise<boolean> {
  const kept = await sql`
    update exports
    set claimed_until = now() + ${leaseSeconds} * interval '1 second', rows = ${rows}, feed_position = ${feedPosition}::bigint
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and attempt = ${attempt} and status = 'running'
    returning id`;
  return kept.length === 1;
}

/** Gives an export back, to be started again. @param afterSeconds from then on */
export async function releaseExport(
  sql: Sql,
  { companyId, testMode, id, attempt }: ExportAttempt,
  afterSeconds: number,
): Promise<void> {
  await sql`
    update exports
    set status = 'queued', claimed_until = now() + ${afterSeconds} * interval '1 second', rows = null, feed_position = null,
      started_at = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and attempt = ${attempt} and status = 'running'`;
}

export interface ExportedFile {
  fileId: string;
  rows: number;
  bytes: number;
  sha256: string;
  feedPosition: number;
}

/**
 * Completes an export and keeps its file.
 * @returns false if it was cancelled or deleted, another server has it, or the sweep has taken the file
 */
export async function completeExport(
  sql: Sql,
  { companyId, testMode, id, attempt }: ExportAttempt,
  { fileId, rows, bytes, sha256, feedPosition }: ExportedFile,
  now: Date,
  expiresAt: Date,
): Promise<boolean> {
  const kept = await sql`
    update stored_files set remove_after = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${fileId} and remove_after > now()
    returning id`;
  if (kept.length === 0) return false;
  const completed = await sql`
    update exports
    set status = 'completed', file_id = ${fileId}, rows = ${rows}, bytes = ${bytes}, sha256 = ${sha256}, feed_position = ${feedPosition},
      completed_at = ${now}, expires_at = ${expiresAt}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and attempt = ${attempt} and status = 'running'
    returning id`;
  return completed.length === 1;
}

/** @returns false if it was cancelled or deleted, or another server has it */
export async function failExport(
  sql: Sql,
  { companyId, testMode, id, attempt }: ExportAttempt,
  error: ExportError,
  now: Date,
): Promise<boolean> {
  const failed = await sql`
    update exports set status = 'failed', error = ${error}, completed_at = ${now}, rows = null, feed_position = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and attempt = ${attempt} and status = 'running'
    returning id`;
  return failed.length === 1;
}

/** Expires completed exports whose time is over; their files are deleted after them. For the platform role. */
export async function expireExports(sql: Sql, limit: number, now: Date): Promise<number> {
  const due = await sql<DueExport[]>`
    select company_id, test_mode, id from exports
    where status = 'completed' and expires_at <= ${now}
    order by expires_at
    limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const expired = await sql`
      update exports set status = 'expired', file_id = null
      where company_id = ${companyId} and test_mode = ${testMode} and id = any(${rows.map(({ id }) => id)}::uuid[])
        and status = 'completed'`;
    return expired.count;
  });
}

/** Milliseconds for which exports stay listed. */
const listedMs = 30 * 24 * 3_600_000;

/** Deletes old exports. For the platform role. */
export async function sweepExports(sql: Sql, limit: number, now: Date): Promise<number> {
  const due = await sql<DueExport[]>`
    select company_id, test_mode, id from exports
    where created_at < ${new Date(now.getTime() - listedMs)}
    order by created_at
    limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const deleted = await sql`
      delete from exports
      where company_id = ${companyId} and test_mode = ${testMode} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return deleted.count;
  });
}

export interface LinkedExport extends TenantScope {
  /** Of the file. */
  id: string;
  object: string;
  format: ExportFormat;
  bytes: number;
  createdAt: Date;
}

/**
 * Returns the file of an export, for a caller with a link that this server signed. For the platform
 * role.
 */
export async function findLinkedExport(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<LinkedExport | undefined> {
  const [file] = await sql<LinkedExport[]>`
    select company_id, test_mode, file_id as id, object, format, bytes, created_at
    from exports
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'completed' and expires_at > ${now}`;
  return file;
}

/** Returns the scope in which an export reads records: that of its actor. */
export function toExporter({ companyId, testMode }: TenantScope, row: ExportRow, reach: Reach): Scope {
  const actor: Actor = { kind: row.createdByKind, id: row.createdById, name: row.createdByName };
  return { companyId, testMode, reach, actor, userId: row.createdByUser };
}
