// Imports: created, given a file in parts, started, cancelled and read. A job writes the rows.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import {
  countActiveImports,
  findImport,
  findImportParts,
  type ImportErrorRow,
  type ImportPart,
  type ImportRow,
  importKeptMs,
  insertImport,
  keepFile,
  listImportErrors as listErrors,
  listImports as listStored,
  lockImport,
  replaceImportPart,
  updateImport,
} from '../../db/records/imports.ts';
import { buildFieldProblem, type FieldProblem } from '../../domain/objects/field-values.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import type { WorkspaceObject } from '../../domain/objects/workspace.ts';
import { buildCellName, buildErrorHeader } from '../../domain/records/import-errors.ts';
import { type FileLayout, layoutBytes, readLayout } from '../../domain/records/import-layout.ts';
import type { ImportOptions } from '../../domain/records/import-mapping.ts';
import type { RowPlace } from '../../domain/records/import-rows.ts';
import { importLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import type { Caller } from '../../runtime/caller.ts';
import {
  ApiError,
  conflict,
  notFound,
  orNotFound,
  serviceUnavailable,
  unreadable,
  validationFailed,
} from '../../runtime/errors.ts';
import { FileBody, type FilePlace, type UploadedFile } from '../../runtime/files/files.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { findOptionProblems, listImportScopes, rejectOptions } from '../../services/records/import-options.ts';
import { alreadyStarted } from '../../services/records/import-setup.ts';
import { requireUndoable, undoUntil } from '../../services/records/import-undo.ts';
import { beginRevert, toApplier, toRevert } from '../../services/records/revert-calls.ts';

type ImportCall = Pick<Call, 'caller' | 'db' | 'services' | 'now'>;

export const listImports: Handler<'listImports'> = async (call) => {
  const { caller } = call;
  const { status } = call.request.query;
  const { rows, ...rest } = await readPage(
    call,
    ['imports', status ?? null],
    (after: readonly [string, string] | undefined, limit) => listStored(call.db.sql, caller, status, after, limit),
    (last: ImportRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { imports: rows.map((row) => toImport(row, caller, call.now)), ...rest } };
};

export const createImport: Handler<'createImport'> = async (call) => {
  const { caller, now } = call;
  const { body, file } = call.request;
  // In a form, the options are a part of it.
  const inRequest = (problems: FieldProblem[]) => (file ? problems.map(toFormProblem) : problems);
  const workspace = await call.services.loadWorkspace();
  const object = workspace.objects.get(body.object);
  if (!object) {
    const allowed = [...workspace.objects.keys()];
    const more = { allowed, meant: findClosest(body.object, allowed) };
    const problem = buildFieldProblem('object', 'INVALID_OPTION', 'must be the name of an object', more);
    throw validationFailed(inRequest([problem]), 422);
  }
  const { mode = 'create' } = body;
  for (const scope of listImportScopes(object.object, mode)) call.authorize(scope);
  const options: ImportOptions = {
    format: body.format ?? 'csv',
    mode,
    matchOn: body.match_on ?? [],
    mapping: body.mapping ?? {},
    defaults: body.defaults ?? {},
    tags: body.tags ?? [],
    checkDuplicates: body.check_duplicates ?? true,
    encoding: body.encoding ?? 'auto',
    delimiter: body.delimiter ?? 'auto',
    maxErrors: body.max_errors ?? null,
  };
  const problems = findOptionProblems(options, object, workspace, now);
  if (problems.length > 0) throw rejectOptions(inRequest(problems));
  const read = file && (await readFile(call, options, object, [file]));
  if (read && 'problems' in read) throw validationFailed(inRequest(read.problems), 422);
  const { sql } = call.db;
  if (read) assertRoom(await countActiveImports(sql, caller));
  const reach = caller.computeReach?.(listImportScopes(object.object, mode)) ?? caller.reach;
  const row = await insertImport(
    sql,
    { ...caller, reach },
    { id: uuidv7(), object: object.object, options, dryRun: body.dry_run ?? false },
    now,
  );
  call.db.record({ action: 'import.create', metadata: { import_id: row.id, object: row.object, mode } });
  if (!(file && read)) return { status: 201, data: { import: toImport(row, caller, now) } };
  await storePart(call, row, 1, file);
  const queued = await queueImport(call, { ...row, bytes: file.bytes, fileName: file.name }, read);
  return { status: 201, data: { import: toImport(queued, caller, now) } };
};

/** Names the option in the form, unless the problem is one of the file. */
function toFormProblem(found: FieldProblem): FieldProblem {
  if (found.field === 'file') return found;
  const { field, message } = found;
  return { ...found, field: `options.${field}`, message: message.startsWith(field) ? `options.${message}` : message };
}

export const getImport: Handler<'getImport'> = async (call) => {
  const row = orNotFound(await findImport(call.db.sql, call.caller, call.request.path.id));
  return { status: 200, data: { import: toImport(row, call.caller, call.now) } };
};

export const listImportParts: Handler<'listImportParts'> = async (call) => {
  const { caller } = call;
  const row = orNotFound(await findImport(call.db.sql, caller, call.request.path.id));
  const { rows, ...rest } = await readPage(
    call,
    ['import parts', row.id],
    (after: readonly [number] | undefined, limit) =>
      findImportParts(call.db.sql, caller, row.id, { after: after?.[0] ?? 0, limit }),
    (last: ImportPart) => [last.number],
  );
  return { status: 200, data: { parts: rows.map(toPart), ...rest } };
};

const toPart = ({ number, bytes, sha256 }: ImportPart): components['schemas']['ImportPart'] => ({
  number,
  bytes,
  sha256,
});

export const uploadImportPart: Handler<'uploadImportPart'> = async (call) => {
  const { caller } = call;
  const { path, query, file, headers } = call.request;
  const { sql } = call.db;
  requireDigest(headers['Content-Digest'], file.sha256);
  const row = orNotFound(await lockImport(sql, caller, path.id));
  if (row.status !== 'awaiting_file') throw alreadyStarted();
  const parts = await findImportParts(sql, caller, row.id);
  const others = parts.filter(({ number }) => number !== query.number);
  const bytes = others.reduce((sum, part) => sum + part.bytes, file.bytes);
  if (bytes > importLimits.bytes)
    throw unreadable('file_too_large', `The parts of a file must have at most ${importLimits.bytes} bytes together.`);
  const part = await storePart(call, row, query.number, file);
  return { status: 200, data: { part: toPart(part) } };
};

/**
 * Stores a part of a file. The caller has locked the import.
 * @throws ApiError 503 if the sweep has removed the file
 */
async function storePart(
  { caller, db }: ImportCall,
  { id }: ImportRow,
  number: number,
  file: UploadedFile,
): Promise<ImportPart> {
  if (!(await keepFile(db.sql, caller, file.id))) throw serviceUnavailable();
  const part: ImportPart = { number, fileId: file.id, bytes: file.bytes, sha256: file.sha256 };
  await replaceImportPart(db.sql, caller, id, part);
  if (file.isNamed) await updateImport(db.sql, caller, id, { fileName: file.name });
  const { bytes, sha256 } = part;
  db.record({ action: 'import.upload', metadata: { import_id: id, number, bytes, sha256 } });
  return part;
}

/** @throws ApiError 400 if a header names another digest; digests other than sha-256 are ignored */
function requireDigest(header: string | undefined, sha256: string): void {
  const given = /(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):/.exec(header ?? '')?.[1];
  if (given === undefined || Buffer.from(given, 'base64').toString('hex') === sha256) return;
  throw new ApiError('VALIDATION_ERROR', 'The body does not have the digest in Content-Digest. Send it again.', {
    reason: 'digest_mismatch',
  });
}

export const startImport: Handler<'startImport'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const seen = orNotFound(await findImport(sql, caller, call.request.path.id));
  if (seen.status !== 'awaiting_file') throw alreadyStarted();
  const parts = await findImportParts(sql, caller, seen.id);
  requireParts(parts);
  const places = parts.map(({ fileId }) => ({ companyId: caller.companyId, testMode: caller.testMode, id: fileId }));
  const { objects } = await call.services.loadWorkspace();
  const object = objects.get(seen.object);
  if (!object)
    throw validationFailed([buildFieldProblem('object', 'INVALID_OPTION', 'must be the name of an object')], 422);
  const read = await readFile(call, seen.options, object, places);
  if ('problems' in read) throw validationFailed(read.problems, 422);

  // Before the import, as the job locks them.
  const counts = await countActiveImports(call.db.sql, caller);
  const row = orNotFound(await lockImport(call.db.sql, caller, seen.id));
  const current = await findImportParts(call.db.sql, caller, row.id);
  const isSame = JSON.stringify(current) === JSON.stringify(parts);
  if (row.status !== 'awaiting_file' || !isSame) throw alreadyStarted();
  assertRoom(counts);
  return { status: 202, data: { import: toImport(await queueImport(call, row, read), caller, now) } };
};

/** @throws ApiError 409 if as many imports run and wait as may */
function assertRoom({ running, queued }: { running: number; queued: number }): void {
  if (running + queued < importLimits.running + importLimits.waiting) return;
  const message = 'Too many imports of the workspace run and wait. Start it when one has ended.';
  throw conflict('import_limit', message, { running, waiting: queued });
}

/** Queues an import that the caller has locked or created. @returns it with its changes */
async function queueImport(
  { caller, db, now }: ImportCall,
  row: ImportRow,
  { layout, first }: { layout: FileLayout; first: RowPlace },
): Promise<ImportRow> {
  const place = { nextByte: first.byte, nextRow: first.row, nextLine: first.line };
  const change = { status: 'queued' as const, ...place, dueAt: now, expiresAt: null };
  await updateImport(db.sql, caller, row.id, change, { layout });
  db.record({ action: 'import.start', metadata: { import_id: row.id, object: row.object } });
  return { ...row, status: 'queued', layout };
}

/** Reads the layout of a file from its first bytes, without a connection. */
async function readFile(
  { db, services }: ImportCall,
  options: ImportOptions,
  object: WorkspaceObject,
  parts: readonly FilePlace[],
): Promise<ReturnType<typeof readLayout>> {
  const head = await db.withoutConnection(services.files.readHead(parts, layoutBytes));
  return readLayout(options, head, object);
}

/** @throws ApiError 409 if parts are missing */
function requireParts(parts: readonly ImportPart[]): void {
  const numbers = new Set(parts.map(({ number }) => number));
  const missing = Array.from({ length: Math.max(1, ...numbers) }, (_, index) => index + 1).filter(
    (number) => !numbers.has(number),
  );
  if (missing.length > 0)
    throw conflict('no_file', 'Upload all parts of the file before you start the import.', {
      missing: missing.slice(0, 50),
    });
}

export const cancelImport: Handler<'cancelImport'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const row = orNotFound(await lockImport(sql, caller, call.request.path.id));
  if (!['awaiting_file', 'queued', 'running'].includes(row.status))
    throw conflict('import_ended', 'The import has ended.', { status: row.status });
  const expiresAt = new Date(now.getTime() + importKeptMs);
  // If rows were read, the job still makes the file of those that failed, and refreshes statistics.
  const dueAt = row.created + row.updated + row.failed > 0 ? now : null;
  await updateImport(sql, caller, row.id, { status: 'cancelled', completedAt: now, dueAt, expiresAt });
  call.db.record({ action: 'import.cancel', metadata: { import_id: row.id, object: row.object } });
  const cancelled: ImportRow = { ...row, status: 'cancelled', completedAt: now };
  return { status: 202, data: { import: toImport(cancelled, caller, now) } };
};

export const undoImport: Handler<'undoImport'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const seen = orNotFound(await findImport(sql, caller, call.request.path.id));
  const row = orNotFound(await lockImport(sql, caller, seen.id));
  requireUndoable(row, now);
  const { object, created, updated } = row;
  const actions = [...(created > 0 ? ['delete'] : []), ...(updated > 0 ? ['edit'] : [])];
  const scopes = actions.map((action) => `${object}:${action}`);
  for (const scope of scopes) call.authorize(scope);
  const isDryRun = call.request.body?.dry_run ?? false;
  const revert = await beginRevert(call, {
    source: { importId: row.id },
    objects: null,
    module: 'imports',
    onConflict: isDryRun ? null : 'skip',
    appliedBy: isDryRun ? null : toApplier(call, scopes),
  });
  if (!isDryRun) {
    await updateImport(sql, caller, row.id, { status: 'undoing', statusBeforeUndo: row.status });
    call.db.record({ action: 'import.undo', metadata: { import_id: row.id, object, revert_id: revert.id } });
  }
  return { status: 202, data: { revert: toRevert(revert, caller.testMode, now) } };
};

export const listImportErrors: Handler<'listImportErrors'> = async (call) => {
  const { caller } = call;
  const row = orNotFound(await findImport(call.db.sql, caller, call.request.path.id));
  const { rows, ...rest } = await readPage(
    call,
    ['import errors', row.id],
    (after: readonly [number] | undefined, limit) => listErrors(call.db.sql, caller, row.id, after?.[0] ?? 0, limit),
    (last: ImportErrorRow) => [last.row],
  );
  return { status: 200, data: { errors: rows.map((each) => toError(each, row)), ...rest } };
};

export const getImportErrorFile: Handler<'getImportErrorFile'> = async (call) => {
  const { caller } = call;
  const row = orNotFound(await findImport(call.db.sql, caller, call.request.path.id));
  const name = `import-${row.id}-errors.csv`;
  const isEnded = ['completed', 'failed', 'cancelled', 'undoing', 'undone'].includes(row.status);
  if (!isEnded || (row.failed > 0 && row.errorsFileId === null && row.dueAt !== null))
    throw conflict(
      'import_not_ended',
      'The file of failed rows is complete when the import has ended. Try again then.',
    );
  if (row.failed > 0 && row.errorsFileId === null) throw notFound();
  if (row.errorsFileId === null || row.errorsBytes === null) {
    const header = buildErrorHeader(row.layout?.columns ?? [], row.layout?.delimiter);
    return { status: 200, file: FileBody.ofText(name, header) };
  }
  const { companyId, testMode } = caller;
  const file = { companyId, testMode, id: row.errorsFileId, name, bytes: row.errorsBytes };
  return { status: 200, file: orNotFound(await call.db.withoutConnection(call.services.files.read(file))) };
};

function toError(error: ImportErrorRow, { layout }: ImportRow): components['schemas']['ImportError'] {
  const { row, line, code, message, fields, content } = error;
  return {
    row,
    line,
    code,
    message,
    fields: fields as components['schemas']['FieldError'][],
    values: toValues(content, layout?.columns ?? []),
  };
}

function toValues(content: unknown, columns: readonly string[]): Record<string, unknown> {
  if (typeof content === 'string') return { _error_raw: content };
  if (!Array.isArray(content)) return content as Record<string, unknown>;
  // Cells beyond the header have no name.
  return Object.fromEntries(content.map((cell: unknown, index) => [columns[index] ?? buildCellName(index), cell]));
}

function toImport(row: ImportRow, { testMode }: Caller, now: Date): components['schemas']['ImportJob'] {
  const { options, layout } = row;
  const read = row.created + row.updated + row.unchanged + row.failed;
  const until = row.completedAt ?? now;
  const seconds = row.startedAt ? Math.max(0.001, (until.getTime() - row.startedAt.getTime()) / 1000) : null;
  const mapping =
    layout && layout.columns.length > 0
      ? Object.fromEntries(layout.columns.map((column, index) => [column, layout.fields[index] ?? null]))
      : options.mapping;
  const unprocessed =
    row.fileRows === null || row.status === 'running' || row.status === 'queued' ? 0 : row.fileRows - read;
  return {
    id: row.id,
    object: row.object,
    format: options.format,
    mode: options.mode,
    match_on: options.matchOn,
    mapping,
    defaults: options.defaults,
    tags: options.tags,
    check_duplicates: options.checkDuplicates,
    dry_run: row.dryRun,
    encoding: options.encoding,
    delimiter: options.delimiter,
    max_errors: options.maxErrors,
    status: row.status,
    file: { name: row.fileName, bytes: row.bytes, rows: row.fileRows },
    counts: {
      read,
      created: row.created,
      updated: row.updated,
      unchanged: row.unchanged,
      failed: row.failed,
      unprocessed,
    },
    percent: row.startedAt ? computePercent(row) : null,
    rows_per_second: seconds === null || read === 0 ? null : Math.round(read / seconds),
    error: row.error,
    started_at: row.startedAt?.toISOString() ?? null,
    completed_at: row.completedAt?.toISOString() ?? null,
    undo_until: undoUntil(row)?.toISOString() ?? null,
    created_by: toActor(row),
    test_mode: testMode,
    created_at: row.createdAt.toISOString(),
  };
}

/** UTF-16 has about twice the bytes of the UTF-8 in which positions are counted. */
function computePercent({ status, statusBeforeUndo, nextByte, bytes, layout }: ImportRow): number {
  if ((statusBeforeUndo ?? status) === 'completed') return 100;
  const total = layout?.encoding.startsWith('utf-16') ? bytes / 2 : bytes;
  return Math.max(0, Math.min(99, Math.floor((nextByte / Math.max(1, total)) * 100)));
}
