// Imports: their options, files, progress and failed rows.
import type { FileLayout } from '../../domain/records/import-layout.ts';
import type { ImportOptions } from '../../domain/records/import-mapping.ts';
import type { RowPlace } from '../../domain/records/import-rows.ts';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { type DueDataRow, forEachTenant } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { lockValues } from '../client/value-locks.ts';
import type { Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';

type ImportStatus =
  | 'awaiting_file'
  | 'queued'
  | 'running'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'undoing'
  | 'undone';

export interface ImportRow extends CreatedByRow {
  id: string;
  object: string;
  options: ImportOptions;
  dryRun: boolean;
  status: ImportStatus;
  fileName: string | null;
  layout: FileLayout | null;
  nextByte: number;
  nextRow: number;
  nextLine: number;
  fileRows: number | null;
  created: number;
  updated: number;
  unchanged: number;
  failed: number;
  chargedRows: number;
  attempts: number;
  error: { code: string; message: string } | null;
  errorsFileId: string | null;
  errorsBytes: number | null;
  reachKind: Scope['reach']['kind'];
  reachId: string | null;
  createdByUser: string | null;
  statusBeforeUndo: ImportStatus | null;
  startedAt: Date | null;
  completedAt: Date | null;
  dueAt: Date | null;
  createdAt: Date;
  /** Of all parts. */
  bytes: number;
}

const columns = [
  'id',
  'object',
  'options',
  'dry_run',
  'status',
  'file_name',
  'layout',
  'next_byte',
  'next_row',
  'next_line',
  'file_rows',
  'created',
  'updated',
  'unchanged',
  'failed',
  'charged_rows',
  'attempts',
  'error',
  'errors_file_id',
  'errors_bytes',
  'reach_kind',
  'reach_id',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_by_user',
  'status_before_undo',
  'started_at',
  'completed_at',
  'due_at',
  'created_at',
];

const sumBytes = (sql: Sql, { companyId, testMode }: TenantScope) => sql`
  coalesce((
    select sum(p.bytes) from import_parts p
    where p.company_id = ${companyId} and p.test_mode = ${testMode} and p.import_id = imports.id
  ), 0)::bigint as bytes`;

/** Milliseconds for which an import that is not started keeps its files. */
const unstartedKeptMs = 7 * 86_400_000;
/** Milliseconds for which the files and failed rows are kept after the end. */
export const importKeptMs = 30 * 86_400_000;

export interface NewImport {
  id: string;
  object: string;
  options: ImportOptions;
  dryRun: boolean;
}

export async function insertImport(sql: Sql, scope: Scope, given: NewImport, now: Date): Promise<ImportRow> {
  const { companyId, testMode, reach } = scope;
  const row = {
    companyId,
    testMode,
    ...given,
    options: sql.json(given.options as never),
    status: 'awaiting_file',
    reachKind: reach.kind,
    reachId: reach.kind === 'company' ? null : reach.id,
    ...toCreatedColumns(scope),
    expiresAt: new Date(now.getTime() + unstartedKeptMs),
    createdAt: now,
  };
  const [stored] = await sql<
    ImportRow[]
  >`insert into imports ${sql(row)} returning ${sql(columns)}, 0::bigint as bytes`;
  return stored as ImportRow;
}

/** Returns the imports of a workspace, newest first. @param after time and id of the last one of the page before */
export async function listImports(
  sql: Sql,
  scope: Scope,
  status: string | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<ImportRow[]> {
  return sql<ImportRow[]>`
    select ${sql(columns)}, ${sumBytes(sql, scope)}
    from imports
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode}
      and ${isVisibleImport(sql, scope)}
      ${status === undefined ? sql`` : sql`and status = ${status}`}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Callers that do not see the whole company see only the imports that they created. */
export const isVisibleImport = (sql: Sql, { reach, actor }: Scope) =>
  reach.kind === 'company' ? sql`true` : sql`created_by_id = ${actor.id}`;

export async function findImport(sql: Sql, scope: Scope, id: string): Promise<ImportRow | undefined> {
  const [row] = await sql<ImportRow[]>`
    select ${sql(columns)}, ${sumBytes(sql, scope)}
    from imports
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and id = ${id} and ${isVisibleImport(sql, scope)}`;
  return row;
}

/** Returns the import, locked until the transaction ends. */
export async function lockImport(sql: Sql, scope: TenantScope, id: string): Promise<ImportRow | undefined> {
  const [row] = await sql<ImportRow[]>`
    select ${sql(columns)}, ${sumBytes(sql, scope)}
    from imports
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and id = ${id}
    for no key update of imports`;
  return row;
}

export interface ImportPart {
  number: number;
  fileId: string;
  bytes: number;
  sha256: string;
}

/** Returns the parts of the file in their order. @param page the number of the part before, and how many follow */
export async function findImportParts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  importId: string,
  page?: { after: number; limit: number },
): Promise<ImportPart[]> {
  return sql<ImportPart[]>`
    select number, file_id, bytes, sha256
    from import_parts
    where company_id = ${companyId} and test_mode = ${testMode} and import_id = ${importId}
      ${page ? sql`and number > ${page.after}` : sql``}
    order by number
    ${page ? sql`limit ${page.limit}` : sql``}`;
}

/** Keeps an uploaded file that is about to be referred to. @returns false if the sweep has taken it */
export async function keepFile(sql: Sql, { companyId, testMode }: TenantScope, fileId: string): Promise<boolean> {
  const [kept] = await sql`
    update stored_files
    set remove_after = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${fileId} and remove_after > now()
    returning id`;
  return kept !== undefined;
}

/** Stores a part in place of one with its number, whose file the sweep then removes. Lock the import first. */
export async function replaceImportPart(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  importId: string,
  part: ImportPart,
): Promise<void> {
  await sql`
    delete from import_parts
    where company_id = ${companyId} and test_mode = ${testMode} and import_id = ${importId} and number = ${part.number}`;
  await sql`insert into import_parts ${sql({ companyId, testMode, importId, ...part })}`;
}

/** Moves the file of an import to another one. Lock the import first. */
export async function moveImportParts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  from: string,
  to: string,
): Promise<void> {
  await sql`
    update import_parts set import_id = ${to}
    where company_id = ${companyId} and test_mode = ${testMode} and import_id = ${from}`;
}

/** Locks the queue of imports of a workspace, and counts those that run and wait. */
export async function countActiveImports(
  sql: Sql,
  { companyId, testMode }: TenantScope,
): Promise<{ running: number; queued: number }> {
  const locked = lockValues(sql, companyId, [JSON.stringify(['imports', testMode])]);
  const counting = sql<{ running: number; queued: number }[]>`
    select count(*) filter (where status = 'running')::int as running, count(*) filter (where status = 'queued')::int as queued
    from imports
    where company_id = ${companyId} and test_mode = ${testMode} and status in ('running', 'queued')`.execute();
  const [, [counts]] = await Promise.all([locked, counting]);
  return counts ?? { running: 0, queued: 0 };
}

export type ImportChange = Partial<
  Pick<
    ImportRow,
    | 'status'
    | 'dryRun'
    | 'reachKind'
    | 'reachId'
    | 'fileName'
    | 'fileRows'
    | 'created'
    | 'updated'
    | 'unchanged'
    | 'failed'
    | 'attempts'
    | 'errorsFileId'
    | 'statusBeforeUndo'
    | 'errorsBytes'
    | 'startedAt'
    | 'completedAt'
    | 'nextByte'
    | 'nextRow'
    | 'nextLine'
  >
> & { dueAt?: Date | null; expiresAt?: Date | null };

/** Changes an import, which the caller has locked. */
export async function updateImport(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  change: ImportChange,
  json: { options?: ImportOptions; layout?: FileLayout; error?: { code: string; message: string } } = {},
): Promise<void> {
  const all = {
    ...change,
    ...(json.options ? { options: sql.json(json.options as never) } : {}),
    ...(json.layout ? { layout: sql.json(json.layout as never) } : {}),
    ...(json.error ? { error: sql.json(json.error) } : {}),
  };
  await sql`
    update imports set ${sql(all)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Imports that the job may take, across tenants. */
export async function findDueImports(
  sql: Sql,
  now: Date,
  limit: number,
): Promise<{ companyId: string; testMode: boolean; id: string }[]> {
  return sql`
    select company_id, test_mode, id from imports
    where due_at <= ${now}
    order by due_at
    limit ${limit}`;
}

/**
 * Leases an import. If two of the workspace run, it waits.
 * @returns undefined if it waits, or if another server has it
 */
export async function takeImport(
  sql: Sql,
  scope: TenantScope,
  id: string,
  lease: { until: Date; now: Date; retryAt: Date },
  limit: number,
): Promise<ImportRow | undefined> {
  const { companyId, testMode } = scope;
  const { running } = await countActiveImports(sql, scope);
  const [row] = await sql<ImportRow[]>`
    select ${sql(columns)}, ${sumBytes(sql, scope)}
    from imports
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and due_at <= ${lease.now}
    for no key update of imports`;
  if (!row) return undefined;
  if (row.status === 'queued' && running >= limit) {
    await updateImport(sql, scope, id, { dueAt: lease.retryAt });
    return undefined;
  }
  // One that was cancelled is taken for the file of its failed rows and for statistics.
  const change = row.completedAt === null ? { status: 'running' as const, startedAt: row.startedAt ?? lease.now } : {};
  await updateImport(sql, scope, id, { ...change, dueAt: lease.until });
  return { ...row, ...change };
}

/** Notes that rows up to a number are charged; for the platform role. @returns the rows that were charged before; undefined if it is as many */
export async function noteChargedRows(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  rows: number,
): Promise<{ from: number } | undefined> {
  const [before] = await sql<{ from: number }[]>`
    select charged_rows as "from" from imports
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and charged_rows < ${rows}
    for no key update`;
  if (!before) return undefined;
  await sql`
    update imports set charged_rows = ${rows}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return before;
}

/** A row that failed. */
export interface ImportErrorRow {
  row: number;
  line: number;
  code: string;
  message: string;
  fields: unknown[];
  content: unknown;
}

export async function insertImportErrors(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  importId: string,
  errors: readonly ImportErrorRow[],
): Promise<void> {
  if (errors.length === 0) return;
  await sql`
    insert into import_errors (company_id, test_mode, import_id, row, line, code, message, fields, content)
    select ${companyId}, ${testMode}, ${importId}, e.row, e.line, e.code, e.message, e.fields, e.content
    from jsonb_to_recordset(${sql.json(errors as never)})
      as e (row int, line int, code text, message text, fields jsonb, content jsonb)
    returning row`;
}

/** Returns failed rows in the order of the file. @param after the number of the last row of the page before */
export async function listImportErrors(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  importId: string,
  after: number,
  limit: number,
): Promise<ImportErrorRow[]> {
  return sql<ImportErrorRow[]>`
    select row, line, code, message, fields, content
    from import_errors
    where company_id = ${companyId} and test_mode = ${testMode} and import_id = ${importId} and row > ${after}
    order by row
    limit ${limit}`;
}

/** Returns where the next row begins. */
export const toRowPlace = ({ nextByte, nextRow, nextLine }: ImportRow): RowPlace => ({
  byte: nextByte,
  row: nextRow,
  line: nextLine,
});

/**
 * Removes the files and failed rows of imports past their retention, and those imports that were never started.
 * @returns how many rows: `limit` if there may be more
 */
export async function sweepImports(sql: Sql, limit: number, now: Date): Promise<number> {
  const due = await sql<DueDataRow[]>`
    select company_id, test_mode, id from imports where expires_at < ${now} order by expires_at limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const ids = rows.map(({ id }) => id);
    const own = sql`company_id = ${companyId} and test_mode = ${testMode}`;
    const errors = await sql`
      delete from import_errors
      where ${own} and (import_id, row) in (
        select import_id, row from import_errors where ${own} and import_id = any(${ids}::uuid[]) limit ${limit}
      )`;
    // An import can have more failed rows than one batch. The next batch finds it again.
    if (errors.count === limit) return limit;
    await sql`delete from import_parts where ${own} and import_id = any(${ids}::uuid[])`;
    await sql`
      update stored_files set remove_after = ${now}
      where ${own} and id in (select errors_file_id from imports where ${own} and id = any(${ids}::uuid[]))`;
    await sql`delete from imports where ${own} and id = any(${ids}::uuid[]) and status = 'awaiting_file'`;
    const kept = await sql`
      update imports set expires_at = null, errors_file_id = null, errors_bytes = null
      where ${own} and id = any(${ids}::uuid[])`;
    return kept.count;
  });
}

/**
 * Refreshes the statistics of the tables of an object's records, except for those that are in use by
 * another ANALYZE or VACUUM and those that changed little.
 * @param written the number of records that were written
 */
export async function refreshStatistics(sql: Sql, object: string, written: number): Promise<void> {
  await sql`select analyze_records(${getRecordTable(object).name}, ${written})`;
}
