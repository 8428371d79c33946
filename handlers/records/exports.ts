// Exports: requested, listed, cancelled, and downloaded with a link.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import {
  cancelExport as cancelStored,
  type ExportRow,
  type ExportSource,
  type ExportViewer,
  findExport,
  findLinkedExport,
  insertExport,
  listExports as listStored,
  lockWaitingExports,
} from '../../db/records/exports.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import { buildFieldProblem, type FieldProblem } from '../../domain/objects/field-values.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { buildExportFileName, everything } from '../../domain/records/exports.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { type ExportQuery, readExportQuery } from '../../domain/records/saved-views.ts';
import { exportLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import type { Caller } from '../../runtime/caller.ts';
import { ApiError, conflict, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { findUsableView, viewOutdated } from '../../services/records/saved-views.ts';

type DataExport = components['schemas']['DataExport'];

export const createExport: Handler<'createExport'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const { filter, fields } = await readBody(call, workspace);
  const { body } = call.request;
  const { sources, modules } = listExportSources(call, workspace, filter !== null);
  if ((await lockWaitingExports(sql, caller)) >= exportLimits.waiting) {
    const message = `${exportLimits.waiting} exports are already waiting. Wait for one to complete, or cancel one.`;
    throw conflict('export_limit', message, { limit: exportLimits.waiting });
  }
  const settings = {
    object: body.object,
    format: body.format,
    filter,
    fields: fields && [...fields],
    spreadsheetSafe: body.spreadsheet_safe,
  };
  const row = await insertExport(sql, caller, { id: uuidv7(), ...settings, sources, modules }, now);
  record(call, 'export.create', row);
  return { status: 202, data: { export: await toExportResponse(row, call) } };
};

export const listExports: Handler<'listExports'> = async (call) => {
  const viewer = await buildViewer(call);
  const { rows, ...rest } = await readPage(
    call,
    ['exports'],
    (after, limit) => listStored(call.db.sql, viewer, after, limit),
    (last: ExportRow) => [last.createdAt.toISOString(), last.id],
  );
  const exports = await Promise.all(rows.map((row) => toExportResponse(row, call)));
  return { status: 200, data: { exports, ...rest } };
};

export const getExport: Handler<'getExport'> = async (call) => {
  const row = orNotFound(await findExport(call.db.sql, await buildViewer(call), call.request.path.id));
  return { status: 200, data: { export: await toExportResponse(row, call) } };
};

export const cancelExport: Handler<'cancelExport'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const { id } = call.request.path;
  const viewer = await buildViewer(call);
  orNotFound(await findExport(sql, viewer, id));
  const cancelled = await cancelStored(sql, caller, id, now);
  if (cancelled) record(call, 'export.cancel', cancelled);
  const row = cancelled ?? orNotFound(await findExport(sql, viewer, id));
  if (row.status !== 'cancelled')
    throw conflict('export_ended', 'The export has ended, so it cannot be cancelled.', { status: row.status });
  return { status: 200, data: { export: await toExportResponse(row, call) } };
};

export const getExportContent: Handler<'getExportContent'> = async (call) => {
  const { company_id: companyId = '', environment = '', exp: expires = '', sig: signature = '' } = call.request.query;
  const { id } = call.request.path;
  const link = { owner: 'exports', id, companyId, environment, expires } as const;
  if (!call.services.files.isGood(link, signature, call.now)) throw notFound();
  const scope = { companyId, testMode: environment === 'test' };
  const linked = orNotFound(await findLinkedExport(call.db.sql, scope, id, call.now));
  const file = { ...linked, name: buildExportFileName(linked.object, linked.format, linked.createdAt) };
  const start = readRangeStart(call.request.headers.Range, file.bytes);
  return { status: start === 0 ? 200 : 206, file: orNotFound(await call.services.files.open(file, start)) };
};

/** Returns the first byte to send: 0 for ranges that the server may ignore, which are all others. */
function readRangeStart(header: string | undefined, bytes: number): number {
  const start = Number(/^bytes=(\d{1,15})-$/.exec(header ?? '')?.[1] ?? 0);
  return start < bytes ? start : 0;
}

/**
 * Returns the filter and the fields of an export, with those of its view.
 * @throws ApiError 400 or 422 with every problem, including those that the OpenAPI document finds
 */
async function readBody(
  call: Call<'createExport'>,
  workspace: Workspace,
): Promise<Pick<ExportQuery, 'filter' | 'fields'>> {
  const { body } = call.request;
  const problems: FieldProblem[] = [];
  if (body.object === everything) {
    for (const name of ['filter', 'fields', 'view'] as const)
      if (body[name] !== undefined && body[name] !== null)
        problems.push(buildFieldProblem(name, 'CONFLICTING_FIELDS', 'is only allowed for the records of one object'));
    if (problems.length > 0) throw call.request.rejection(problems);
    return { filter: null, fields: null };
  }
  const object = workspace.objects.get(body.object);
  if (!object) {
    const allowed = [everything, ...workspace.objects.keys()];
    const rule = 'must be the name of an object that is enabled, or *';
    const more = { allowed, meant: findClosest(body.object, allowed) };
    throw call.request.rejection([buildFieldProblem('object', 'INVALID_OPTION', rule, more)]);
  }
  // Views of an object exist only for callers that can view it.
  if (body.view !== undefined) call.authorize(`${object.object}:view`);
  const view = body.view === undefined ? undefined : await findUsableView(call, workspace, body.view);
  const isOfOther = view !== undefined && view.object !== object.object;
  const context = { workspace, canView: (name: string) => isVisible(name, workspace, call.caller) };
  const given = { filter: body.filter ?? null, fields: body.fields ?? null };
  const query = readExportQuery(given, isOfOther ? undefined : view, object, context);
  problems.push(...query.inFields);
  if (body.view !== undefined && !view)
    problems.push(buildFieldProblem('view', 'NOT_FOUND', 'must be the ID of a saved view that you can use'));
  if (isOfOther)
    problems.push(
      buildFieldProblem(
        'view',
        'CONFLICTING_FIELDS',
        `must be a view of ${object.object}; this one is of ${view.object}`,
      ),
    );
  if (problems.length > 0) throw call.request.rejection([...problems, ...query.inFilter]);
  // An invalid filter is a 400 in every operation.
  if (query.inFilter.length > 0) throw validationFailed(query.inFilter, 400);
  if (view && query.inView.length > 0) throw viewOutdated(view, query.inView);
  return query;
}

/**
 * Returns what the caller sees of each exported object, and the modules that this takes.
 * @throws ApiError 403 if the caller cannot view the object, or any object
 */
function listExportSources(
  call: Call<'createExport'>,
  workspace: Workspace,
  isFiltered: boolean,
): { sources: ExportSource[]; modules: string[] } {
  const { caller } = call;
  const { object } = call.request.body;
  const objects = [...workspace.objects.keys()].filter((name) => isVisible(name, workspace, caller));
  const toSource = (name: string): ExportSource => ({
    object: name,
    reach: caller.computeReach?.(['exports:create', `${name}:view`]) ?? caller.reach,
  });
  if (object !== everything) {
    call.authorize(`${object}:view`);
    // A filter finds related records only in the other ones.
    const related = isFiltered ? objects.filter((name) => name !== object) : [];
    return { sources: [object, ...related].map(toSource), modules: [object] };
  }
  if (objects.length === 0)
    throw new ApiError('FORBIDDEN_SCOPE', 'This operation requires the view scope of at least one object.', {
      required_scopes: [...workspace.objects.values()].map(({ module }) => `${module}:view`),
    });
  return {
    sources: objects.map(toSource),
    modules: canView('attachments', caller) ? [...objects, 'attachments'] : objects,
  };
}

function canView(module: string, caller: Caller): boolean {
  return caller.grants.allows(`${module}:view`) && getModuleState(module, caller.modules) === 'on';
}

/**
 * Returns the caller with the modules that it can view. The module of an object has the name of the
 * object.
 */
async function buildViewer({ caller, services }: Pick<Call, 'caller' | 'services'>): Promise<ExportViewer> {
  const { objects } = await services.loadWorkspace();
  const viewable = [...objects.keys(), 'attachments'].filter((module) => canView(module, caller));
  const { companyId, testMode, reach, actor, userId } = caller;
  return { companyId, testMode, reach, actor, userId, viewable };
}

function record(call: Pick<Call, 'db'>, action: string, { id, object, format, filter, fields }: ExportRow): void {
  call.db.record({
    action,
    // The name of no object, for an export of everything.
    ...(object === everything ? {} : { object }),
    metadata: { export_id: id, format, filter, fields, ...(object === everything ? { everything: true } : {}) },
  });
}

async function toExportResponse(
  row: ExportRow,
  { caller, now, services }: Pick<Call, 'caller' | 'now' | 'services'>,
): Promise<DataExport> {
  const { companyId, testMode } = caller;
  const { fileId, feedPosition } = row;
  // Until the job expires it, the file of an export may outlive its time.
  const isExpired = row.status === 'completed' && row.expiresAt !== null && row.expiresAt <= now;
  const hasFile = row.status === 'completed' && !isExpired && fileId !== null;
  const file = {
    companyId,
    testMode,
    id: fileId ?? '',
    name: buildExportFileName(row.object, row.format, row.createdAt),
  };
  return {
    id: row.id,
    object: row.object,
    format: row.format,
    filter: row.filter,
    fields: row.fields,
    spreadsheet_safe: row.spreadsheetSafe,
    status: isExpired ? 'expired' : row.status,
    rows: row.rows,
    bytes: row.bytes,
    sha256: row.sha256,
    error: row.error,
    changes_cursor:
      feedPosition === null ? null : services.cursors.encode([feedPosition], buildFeedKey(companyId, testMode)),
    download_url: hasFile ? await services.files.link('exports', row.id, file, now, row.expiresAt ?? now) : null,
    expires_at: row.expiresAt?.toISOString() ?? null,
    created_by: toActor(row),
    test_mode: testMode,
    created_at: row.createdAt.toISOString(),
    started_at: row.startedAt?.toISOString() ?? null,
    completed_at: row.completedAt?.toISOString() ?? null,
  };
}

/** As the change feed names its cursors. */
const buildFeedKey = (companyId: string, testMode: boolean): string => JSON.stringify([companyId, testMode, 'changes']);
