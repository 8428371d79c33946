// Runs reports, for calls that send a definition and for saved ones.
import { findExpansion } from '../../db/records/expansion.ts';
import { runReport } from '../../db/reports/reports.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import type { Field, Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { getRecordLabel } from '../../domain/records/label.ts';
import { collectWanted, findRelationFields, isVisible } from '../../domain/records/reading.ts';
import { showRecord } from '../../domain/records/view.ts';
import { type Report, type ReportBody, readReport, revealsTexts } from '../../domain/reports/reports.ts';
import { listSearchedFields } from '../../domain/reports/search.ts';
import { maxReportRows } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

type ReportResults = components['schemas']['Report'];

/** The body of a report, with what only concerns the response. */
export interface ReportRequest extends ReportBody {
  labels?: boolean | undefined;
}

/** Reads a report for a caller, as readReport does. */
export function readReportFor(
  { caller, now }: Pick<Call, 'caller' | 'now'>,
  body: ReportBody,
  object: WorkspaceObject,
  workspace: Workspace,
): ReturnType<typeof readReport> {
  return readReport(
    body,
    object,
    { now, timezone: workspace.timezone },
    { workspace, canView: (name) => isVisible(name, workspace, caller) },
  );
}

/** @throws ApiError 403 for a report that reveals texts or ids of an object that the caller cannot view */
export function assertMayReveal(report: Report, object: WorkspaceObject, caller: Call['caller']): void {
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
}

/** Runs a report over the records that the caller can see. */
export async function computeReport(
  call: Pick<Call, 'caller' | 'db'>,
  body: ReportRequest,
  report: Report,
  object: WorkspaceObject,
  workspace: Workspace,
): Promise<ReportResults> {
  const figures = await runReport(call.db.sql, call.caller, object.object, report, maxReportRows);
  const { total, rowsScanned, isTruncated } = figures;
  const groups = report.groupBy.length > 0 ? figures.groups : [{ keys: [], ...total }];
  const fields = report.groupBy.map(({ name }) => name);
  const isList = Array.isArray(body.group_by);
  const labels = body.labels ? await findLabels(call, object, report.groupBy, groups, workspace) : undefined;
  return {
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
  };
}

/**
 * Looks up the records and items in the keys of groups.
 * @returns a function for the label of a key
 */
async function findLabels(
  { caller, db: { sql } }: Pick<Call, 'caller' | 'db'>,
  object: WorkspaceObject,
  groupBy: readonly Field[],
  groups: readonly { keys: readonly (string | null)[] }[],
  workspace: Workspace,
): Promise<(field: Field, keys: readonly (string | null)[], place: number) => string | null> {
  const relations = findRelationFields(object, groupBy);
  const toValues = (keys: readonly (string | null)[]) => ({
    values: Object.fromEntries(groupBy.map(({ name }, place) => [name, keys[place] ?? null])),
  });
  const wanted = collectWanted(
    relations,
    groups.map(({ keys }) => toValues(keys)),
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
    const name = target.getObject(toValues(keys).values);
    const [other, record] = [workspace.objects.get(name), expansion.records.get(name)?.get(key)];
    return other && record ? getRecordLabel(showRecord(other, record), listSearchedFields(other)) : null;
  };
}

/** Returns whether the module of an object is on for the caller. */
export const findModuleState = ({ module }: WorkspaceObject, caller: Call['caller']) =>
  getModuleState(module, caller.modules);

/** @throws ApiError 403 if the module of the object is off */
export function assertModuleOn(object: WorkspaceObject, caller: Call['caller']): void {
  const state = findModuleState(object, caller);
  if (state === 'on') return;
  const { module } = object;
  throw new ApiError('MODULE_DISABLED', `The module ${module} is disabled in this workspace.`, {
    module,
    reason: state,
  });
}
