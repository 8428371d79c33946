// Reports over the records of an object, the pipeline, and saved definitions.
import { toActor } from '../../db/client/created-by.ts';
import { findExpansion } from '../../db/records/expansion.ts';
import {
  countByStatus,
  listSavedReports as listDefinitions,
  runReport,
  type SavedReportRow,
} from '../../db/reports/reports.ts';
import { moduleState } from '../../domain/billing/plans.ts';
import type { Field, Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { recordLabel } from '../../domain/records/label.ts';
import { findRelationFields, isVisible, wantedByReferences } from '../../domain/records/reading.ts';
import { showRecord } from '../../domain/records/view.ts';
import { readReport, revealsTexts } from '../../domain/reports/reports.ts';
import { listSearchedFields } from '../../domain/reports/search.ts';
import { maxReportRows } from '../../domain/service/request-limits.ts';
import type { Caller } from '../../runtime/caller.ts';
import { ApiError, type FieldProblem, orNotFound, problem, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler, Result } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

export const searchReport: Handler<'searchReport'> = async (call) => {
  const { caller } = call;
  const workspace = await call.services.loadWorkspace();
  const body = pickValid(call.request.body, call.request.problems);
  if (body.object === undefined) throw call.request.rejection([]);
  const object = orNotFound(workspace.objects.get(body.object));
  assertModuleOn(object, caller);
  const { report, problems, inFilter } = readReport(
    body,
    object,
    { now: call.now, timezone: workspace.timezone },
    { workspace, canView: (name) => isVisible(name, workspace, caller) },
  );
  if (problems.length + inFilter.length + call.request.problems.length > 0) throw toRejection(call, problems, inFilter);
  const scope = `${object.module}:view`;
  if (revealsTexts(report, object) && !caller.grants.allows(scope)) {
    throw new ApiError(
      'FORBIDDEN_SCOPE',
      `Reports that return texts or ids of ${object.object} require the scope ${scope}.`,
      {
        required_scopes: [scope],
      },
    );
  }
  const figures = await runReport(call.db.sql, caller, object.object, report, maxReportRows);
  const { total, rowsScanned, isTruncated } = figures;
  const groups = report.groupBy.length > 0 ? figures.groups : [{ keys: [], ...total }];
  const fields = report.groupBy.map(({ name }) => name);
  const isList = Array.isArray(body.group_by);
  const labels = body.labels ? await findLabels(call, object, report.groupBy, groups, workspace) : undefined;
  return {
    status: 200,
    data: {
      object: object.object,
      metric: report.metric,
      field: report.field?.name ?? null,
      group_by: fields[0] ?? null,
      ...(isList ? { group_by_fields: fields } : {}),
      bucket: report.bucket ?? null,
      ...(body.date_field ? { date_field: body.date_field } : {}),
      groups: groups.map(({ keys, value, count }) => {
        const own = labels && report.groupBy.map((field, place) => labels(field, keys, place));
        return {
          key: keys[0] ?? null,
          ...(isList ? { keys } : {}),
          ...(own ? { label: own[0] ?? null } : {}),
          ...(own && isList ? { labels: own } : {}),
          value,
          count,
        };
      }),
      total: { value: total.value, count: total.count },
      rows_scanned: rowsScanned,
      truncated: isTruncated,
    },
  };
};

/**
 * Looks up the records and items in the keys of groups.
 * @returns a function for the label of a key
 */
async function findLabels(
  { caller, db: { sql } }: Call<'searchReport'>,
  object: WorkspaceObject,
  groupBy: readonly Field[],
  groups: readonly { keys: readonly (string | null)[] }[],
  workspace: Workspace,
): Promise<(field: Field, keys: readonly (string | null)[], place: number) => string | null> {
  const relations = findRelationFields(object, groupBy);
  const valuesOf = (keys: readonly (string | null)[]) => ({
    values: Object.fromEntries(groupBy.map(({ name }, place) => [name, keys[place] ?? null])),
  });
  const wanted = wantedByReferences(
    relations,
    groups.map(({ keys }) => valuesOf(keys)),
    workspace,
    caller,
  );
  const expansion = await findExpansion(sql, caller, wanted);
  return (field, keys, place) => {
    const key = keys[place] ?? null;
    if (key === null) return null;
    const relation = relations.find((each) => each.field === field.name);
    if (!relation) return (field.keptOptions ?? field.options)?.find(({ value }) => value === key)?.label ?? key;
    const { target } = relation;
    if (target === 'user') return expansion.users.get(key)?.fullName ?? null;
    if ('items' in target) return target.items.find(({ id }) => id === key)?.name ?? null;
    const name = target.objectOf(valuesOf(keys).values);
    const [other, record] = [workspace.objects.get(name), expansion.records.get(name)?.get(key)];
    return other && record ? recordLabel(showRecord(other, record), listSearchedFields(other)) : null;
  };
}

type Body = Parameters<typeof searchReport>[0]['request']['body'];

/**
 * Returns the properties without problems in the OpenAPI document, so that they are checked further
 * and all problems are reported together.
 */
function pickValid(body: Body, problems: readonly { field: string }[]): Partial<Body> {
  const faulty = new Set(problems.map(({ field }) => field.split(/[.[]/)[0]));
  return Object.fromEntries(Object.entries(body).filter(([name]) => !faulty.has(name)));
}

/**
 * An invalid filter is a 400, as in lists. If there are other problems, their status applies to
 * all.
 */
function toRejection(call: Call<'searchReport'>, problems: FieldProblem[], inFilter: FieldProblem[]): ApiError {
  if (problems.length + call.request.problems.length === 0) return validationFailed(inFilter, 400);
  const { status, details = {} } = call.request.rejection(problems);
  return validationFailed([...(details.fields as FieldProblem[]), ...inFilter], status === 422 ? 422 : 400);
}

export const getPipeline: Handler<'getPipeline'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const workspace = await call.services.loadWorkspace();
  const object = orNotFound(workspace.objects.get(query.object));
  assertModuleOn(object, caller);
  const pipelineId = query.pipeline_id?.toLowerCase();
  if (pipelineId !== undefined && query.object !== 'deals') {
    const rule = 'is not allowed if object is leads, whose statuses belong to no pipeline';
    throw validationFailed([problem('pipeline_id', 'CONFLICTING_FIELDS', `pipeline_id ${rule}.`)], 400);
  }
  if (pipelineId !== undefined) orNotFound(workspace.pipelines.find(({ id }) => id === pipelineId));
  const rows = await countByStatus(call.db.sql, caller, query.object, pipelineId);
  const ofDeals = query.object === 'deals';
  const counted = new Map(rows.map((row) => [row.statusId, row]));
  const figures = (statusId: string | null) => {
    const { count = 0, amount } = counted.get(statusId) ?? {};
    return { count, ...(ofDeals ? { amount_minor: amount ?? 0 } : {}) };
  };
  const statuses = workspace.statuses.filter(
    (status) => status.object === query.object && (pipelineId === undefined || status.pipelineId === pipelineId),
  );
  const byStatus: Result<'getPipeline'>['data']['by_status'] = statuses.map((status) => ({
    status_id: status.id,
    status: status.name,
    outcome: status.outcome,
    order_position: status.position,
    pipeline_id: status.pipelineId,
    ...figures(status.id),
  }));
  if (counted.has(null))
    byStatus.push({
      status_id: null,
      status: null,
      outcome: null,
      order_position: null,
      pipeline_id: null,
      ...figures(null),
    });
  const total = rows.reduce((sum, row) => sum + row.count, 0);
  if (ofDeals) return { status: 200, data: { object: query.object, total, by_status: byStatus } };
  const converted = byStatus.reduce((sum, { outcome, count }) => sum + (outcome === 'converted' ? count : 0), 0);
  const rate = total === 0 ? 0 : Math.round((converted / total) * 10_000) / 10_000;
  return {
    status: 200,
    data: { object: query.object, total, by_status: byStatus, converted, conversion_rate: rate },
  };
};

export const listSavedReports: Handler<'listSavedReports'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const { objects } = await call.services.loadWorkspace();
  const visible = [...objects.values()]
    .filter((object) => findModuleState(object, caller) === 'on')
    .map(({ object }) => object);
  const { rows, ...rest } = await readPage(
    call,
    ['saved reports', caller.userId, visible],
    (after, limit) => listDefinitions(sql, caller, visible, after, limit),
    (last: SavedReportRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { reports: rows.map(savedReport), ...rest } };
};

type SavedReport = Result<'listSavedReports'>['data']['reports'][number];

function savedReport(row: SavedReportRow): SavedReport {
  const config = row.config as Partial<SavedReport['config']>;
  return {
    id: row.id,
    name: row.name,
    object_id: row.object,
    config: {
      metric: config.metric ?? 'count',
      field: config.field ?? null,
      group_by: config.group_by ?? null,
      bucket: config.bucket ?? null,
      filter: config.filter ?? null,
      chart_type: config.chart_type ?? null,
    },
    is_shared: row.isShared,
    created_by: toActor(row),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}

const findModuleState = ({ module }: WorkspaceObject, caller: Caller) => moduleState(module, caller.modules);

/** @throws ApiError 403 if the module of the object is off */
function assertModuleOn(object: WorkspaceObject, caller: Caller): void {
  const state = findModuleState(object, caller);
  if (state === 'on') return;
  const { module } = object;
  throw new ApiError('MODULE_DISABLED', `The module ${module} is disabled in this workspace.`, {
    module,
    reason: state,
  });
}
