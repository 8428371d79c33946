// Reports over the records of an object, and the pipeline.
import { countByStatus } from '../../db/reports/reports.ts';
import { type ApiError, buildProblem, type FieldProblem, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler, Result } from '../../runtime/handler.ts';
import { assertMayReveal, assertModuleOn, computeReport, readReportFor } from '../../services/reports/report-runs.ts';

export const searchReport: Handler<'searchReport'> = async (call) => {
  const { caller } = call;
  const workspace = await call.services.loadWorkspace();
  const body = pickValid(call.request.body, call.request.problems);
  if (body.object === undefined) throw call.request.rejection([]);
  const object = orNotFound(workspace.objects.get(body.object));
  assertModuleOn(object, caller);
  const { report, problems, inFilter } = readReportFor(call, body, object, workspace);
  if (problems.length + inFilter.length + call.request.problems.length > 0) throw toRejection(call, problems, inFilter);
  assertMayReveal(report, object, caller);
  return { status: 200, data: await computeReport(call, body, report, object, workspace) };
};

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
    throw validationFailed([buildProblem('pipeline_id', 'CONFLICTING_FIELDS', `pipeline_id ${rule}.`)], 400);
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
