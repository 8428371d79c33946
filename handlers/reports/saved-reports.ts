// Saved reports: list, create, read, change and delete definitions, and compute their results.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import { getOwnerId, lockOwnedSettings } from '../../db/client/owners.ts';
import {
  countSavedReports,
  deleteSavedReport as deleteStored,
  findSavedReport,
  findSavedReportByName,
  insertSavedReport,
  listSavedReports as listStored,
  type SavedReportRow,
  updateSavedReport as updateStored,
} from '../../db/reports/saved-reports.ts';
import type { FieldProblem } from '../../domain/objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { ApiError, isValidSoFar, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import {
  assertMayReveal,
  assertModuleOn,
  computeReport,
  findModuleState,
  type ReportRequest,
  readReportFor,
} from '../../services/reports/report-runs.ts';
import {
  assertChangeable,
  assertRoomFor,
  findNamedObject,
  type OwnedKind,
} from '../../services/settings/owned-settings.ts';
import { recordChange } from '../../services/settings/setting-changes.ts';

type SavedReport = components['schemas']['SavedReport'];
type WritingCall = Call<'createSavedReport'> | Call<'updateSavedReport'>;

export const listSavedReports: Handler<'listSavedReports'> = async (call) => {
  const { caller } = call;
  const objects = listUsableObjects(await call.services.loadWorkspace(), call);
  const { rows, ...rest } = await readPage(
    call,
    ['saved reports', getOwnerId(caller), objects],
    (after, limit) => listStored(call.db.sql, caller, objects, after, limit),
    (last: SavedReportRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { reports: rows.map(toSavedReportResponse), ...rest } };
};

export const getSavedReport: Handler<'getSavedReport'> = async (call) => {
  const { row } = await openSavedReport(call);
  return { status: 200, data: { report: toSavedReportResponse(row) } };
};

export const createSavedReport: Handler<'createSavedReport'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const object = findNamedObject(call, workspace, 'object_id', body.object_id);
  assertModuleOn(object, caller);
  checkBody(call, object, workspace);
  const settings = { name: body.name.trim(), config: toStoredConfig(body.config), isShared: body.is_shared };
  await lockOwnedSettings(sql, caller.companyId);
  const ownerId = getOwnerId(caller);
  await assertRoomFor(call, toKind(call, object.object, ownerId), ownerId, undefined, settings);
  const row = await insertSavedReport(sql, caller, { id: uuidv7(), object: object.object, ...settings }, now);
  const report = toSavedReportResponse(row);
  recordChange(call, 'saved_report', undefined, report);
  return { status: 201, data: { report } };
};

export const updateSavedReport: Handler<'updateSavedReport'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  await lockOwnedSettings(sql, caller.companyId);
  const { workspace, object, row: before } = await openSavedReport(call);
  assertChangeable(call, before);
  checkBody(call, object, workspace);
  const settings = {
    name: body.name?.trim() ?? before.name,
    config: body.config ? toStoredConfig(body.config) : before.config,
    isShared: body.is_shared ?? before.isShared,
  };
  const ownerId = getOwnerId(before);
  await assertRoomFor(call, toKind(call, object.object, ownerId), ownerId, before, settings);
  const shown = toSavedReportResponse(before);
  const changed = toSavedReportResponse({ ...before, ...settings });
  if (!recordChange(call, 'saved_report', shown, changed)) return { status: 200, data: { report: shown } };
  const row = orNotFound(await updateStored(sql, caller.companyId, before.id, settings, now));
  return { status: 200, data: { report: toSavedReportResponse(row) } };
};

export const deleteSavedReport: Handler<'deleteSavedReport'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  await lockOwnedSettings(sql, caller.companyId);
  const { row } = await openSavedReport(call);
  assertChangeable(call, row);
  await deleteStored(sql, caller.companyId, row.id);
  recordChange(call, 'saved_report', toSavedReportResponse(row), undefined);
  return { status: 200, data: { id: row.id, deleted: true } };
};

export const getSavedReportResults: Handler<'getSavedReportResults'> = async (call) => {
  const { caller } = call;
  const workspace = await call.services.loadWorkspace();
  const objects = [...workspace.objects.keys()];
  const row = orNotFound(await findSavedReport(call.db.sql, caller, objects, call.request.path.id));
  const object = orNotFound(workspace.objects.get(row.object));
  assertModuleOn(object, caller);
  const body = row.config as ReportRequest;
  const { report, problems, inFilter } = readReportFor(call, body, object, workspace);
  const faults = [...problems.map(toConfigProblem), ...inFilter];
  if (faults.length > 0) {
    const details = { reason: 'saved_report_outdated', report_id: row.id, fields: faults };
    const message = `The report “${row.name}” no longer fits ${row.object}. ${faults[0]?.message ?? ''}`;
    throw new ApiError('VALIDATION_ERROR', message, details, { status: 422 });
  }
  assertMayReveal(report, object, caller);
  const results = await computeReport(call, body, report, object, workspace);
  return { status: 200, data: { saved_report: { id: row.id, name: row.name }, ...results } };
};

function listUsableObjects(workspace: Workspace, { caller }: Pick<Call, 'caller'>): string[] {
  return [...workspace.objects.values()]
    .filter((object) => findModuleState(object, caller) === 'on')
    .map(({ object }) => object);
}

/** @throws ApiError 404 if the report of the path does not exist for the caller */
async function openSavedReport(
  call: Call<'getSavedReport'> | Call<'updateSavedReport'> | Call<'deleteSavedReport'>,
): Promise<{ workspace: Workspace; object: WorkspaceObject; row: SavedReportRow }> {
  const workspace = await call.services.loadWorkspace();
  const objects = listUsableObjects(workspace, call);
  const row = orNotFound(await findSavedReport(call.db.sql, call.caller, objects, call.request.path.id));
  return { workspace, object: orNotFound(workspace.objects.get(row.object)), row };
}

/**
 * Checks the body, with its definition as if the report was to run.
 * @throws ApiError 400 or 422 with every problem, including those that the OpenAPI document finds;
 * 403 if the caller could not run the report
 */
function checkBody(call: WritingCall, object: WorkspaceObject, workspace: Workspace): void {
  const { body, problems: documented } = call.request;
  const { report, problems, inFilter } = readReportFor(call, pickValid(body.config, documented), object, workspace);
  // An invalid filter is a 400 in every operation.
  if (problems.length + documented.length > 0)
    throw call.request.rejection([...problems.map(toConfigProblem), ...inFilter]);
  if (inFilter.length > 0) throw validationFailed(inFilter, 400);
  if (body.config) assertMayReveal(report, object, call.caller);
}

/** Returns the properties of the definition without problems in the OpenAPI document. */
function pickValid(config: ReportRequest | undefined, documented: readonly FieldProblem[]): ReportRequest {
  if (!config || documented.some(({ field }) => field === 'config')) return {};
  return Object.fromEntries(Object.entries(config).filter(([name]) => isValidSoFar(documented, `config.${name}`)));
}

function toConfigProblem(problem: FieldProblem): FieldProblem {
  return { ...problem, field: `config.${problem.field}`, message: `config.${problem.message}` };
}

/** Removes what has no effect, so that a definition is stored as short as it can be. */
function toStoredConfig(config: components['schemas']['SavedReportSettings']): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(config).filter(([, value]) => value !== undefined && value !== null && value !== false),
  );
}

function toKind({ caller, db: { sql } }: WritingCall, object: string, ownerId: string): OwnedKind {
  return {
    what: 'A report',
    items: 'reports',
    limit: configurationLimits.savedReports,
    reason: 'report_limit',
    count: (counted) => countSavedReports(sql, caller.companyId, counted),
    findByName: (name) => findSavedReportByName(sql, caller.companyId, { object, ownerId, name }),
  };
}

function toSavedReportResponse(row: SavedReportRow): SavedReport {
  const { metric, field, group_by, bucket, filter, chart_type, labels, from, to, date_field } = row.config as Partial<
    SavedReport['config']
  >;
  return {
    id: row.id,
    name: row.name,
    object_id: row.object,
    config: {
      metric: metric ?? 'count',
      field: field ?? null,
      group_by: group_by ?? null,
      bucket: bucket ?? null,
      filter: filter ?? null,
      chart_type: chart_type ?? null,
      ...(labels ? { labels } : {}),
      ...(from ? { from } : {}),
      ...(to ? { to } : {}),
      ...(date_field ? { date_field } : {}),
    },
    is_shared: row.isShared,
    created_by: toActor(row),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
