// Moves of a deal to a stage, or of a lead to a status: the target, and the fields that are set.

import type { Status } from '../objects/configuration.ts';
import { buildFieldProblem, type FieldProblem, isNoValue, toUuid } from '../objects/field-values.ts';
import { findClosest } from '../objects/suggestions.ts';
import { findByName, type Workspace, type WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from '../records/draft.ts';
import { checkProbability } from '../records/rules.ts';
import { checkRecord } from '../records/values.ts';
import { readBuiltinValues } from '../records/view.ts';
import { sendOneOf, sendOnlyOneOf } from '../service/messages.ts';
import { getDefaultPipeline } from '../settings/pipelines.ts';
import { listStatuses } from '../settings/status-effects.ts';

export const statusField = { deals: 'stage', leads: 'lead_status' } as const;

export interface CheckedMove {
  /** Undefined if the body names none, or an unknown one. */
  status: Status | undefined;
  /**
   * The status and the fields, as a change of the record. Its problems are those of the fields, by
   * their own names.
   */
  change: CheckedRecord;
  /** Problems with the names in the body. */
  problems: FieldProblem[];
  /**
   * Problems with the body's shape that the OpenAPI document does not express: no target, or both
   * forms.
   */
  shape: FieldProblem[];
}

/** Checks a move of any shape, because the OpenAPI document's check may have rejected it. */
export function checkMove(
  object: WorkspaceObject,
  body: Readonly<Record<string, unknown>>,
  before: StoredRecord,
  workspace: Workspace,
  now: Date,
): CheckedMove {
  const field = object.object === 'deals' ? statusField.deals : statusField.leads;
  const { status, problems, shape } = namedStatus(object, field, body, before, workspace);
  const fields = { ...(isObject(body.fields) ? body.fields : {}) };
  for (const name of field === 'stage' ? [field, 'pipeline'] : [field]) {
    if (fields[name] !== undefined)
      problems.push(
        buildFieldProblem(`fields.${name}`, 'CONFLICTING_FIELDS', `is not allowed. Send ${name} outside of fields`),
      );
    delete fields[name];
  }
  const { reason } = body;
  if (status?.outcome === 'lost' && object.fields.has('lost_reason') && !isNoValue(reason)) {
    if (isNoValue(fields.lost_reason)) fields.lost_reason = reason;
    else
      problems.push({
        field: 'fields.lost_reason',
        code: 'CONFLICTING_FIELDS',
        message: sendOnlyOneOf(['reason', 'fields.lost_reason']),
      });
  }
  const change = checkRecord(object, fields, 'update', workspace, now, readBuiltinValues(object, before));
  if (status) change.values[field] = status.id;
  if (object.object === 'deals') checkProbability(change, before.values, workspace);
  return { status, change, problems, shape };
}

function namedStatus(
  object: WorkspaceObject,
  field: string,
  body: Readonly<Record<string, unknown>>,
  before: StoredRecord,
  workspace: Workspace,
): Pick<CheckedMove, 'status' | 'problems' | 'shape'> {
  const [name, id] = [body[field], body[`${field}_id`]];
  const names = [field, `${field}_id`];
  if (name === undefined && id === undefined)
    return { status: undefined, problems: [], shape: [{ field, code: 'REQUIRED', message: sendOneOf(names) }] };
  if (name !== undefined && id !== undefined) {
    const conflict = { field, code: 'CONFLICTING_FIELDS', message: sendOnlyOneOf(names) } as const;
    return { status: undefined, problems: [], shape: [conflict] };
  }
  const { statuses, problems } = listTargets(object, body, before, workspace);
  if (!statuses) return { status: undefined, problems, shape: [] };
  const active = statuses.filter((status) => status.isActive);
  if (typeof name === 'string') {
    const status = findByName(statuses, name);
    const allowed = active.map((each) => each.name);
    const meant = findClosest(name, allowed);
    const isElsewhere = body.pipeline === undefined && findByName(listStatuses(object.object, workspace), name);
    const hint = isElsewhere ? { hint: 'Also send pipeline to name a stage of another pipeline.' } : {};
    const more = { allowed, meant, ...hint };
    const unknown = buildFieldProblem(field, 'INVALID_OPTION', 'must be one of the allowed values', more);
    return { status, problems: status ? [] : [unknown], shape: [] };
  }
  const wanted = typeof id === 'string' ? toUuid(id) : undefined;
  // The OpenAPI document rejects a value that is not an id.
  if (wanted === undefined) return { status: undefined, problems: [], shape: [] };
  const status = statuses.find((each) => each.id === wanted);
  const allowed = active.map((each) => each.id);
  const unknown = buildFieldProblem(`${field}_id`, 'INVALID_OPTION', 'must be one of the allowed values', { allowed });
  return { status, problems: status ? [] : [unknown], shape: [] };
}

/**
 * Returns the statuses that the body can name: of a deal, the stages of the named pipeline. Without
 * a pipeline, a name is one of the deal's own pipeline, and an id is one of any pipeline.
 */
function listTargets(
  object: WorkspaceObject,
  body: Readonly<Record<string, unknown>>,
  before: StoredRecord,
  workspace: Workspace,
): { statuses?: readonly Status[]; problems: FieldProblem[] } {
  const statuses = listStatuses(object.object, workspace);
  if (object.object !== 'deals') return { statuses, problems: [] };
  const { pipeline: given } = body;
  const ofPipeline = (id: unknown) => statuses.filter((status) => status.pipelineId === id);
  if (typeof given === 'string') {
    const pipeline = findByName(workspace.pipelines, given);
    if (pipeline) return { statuses: ofPipeline(pipeline.id), problems: [] };
    const allowed = workspace.pipelines.map((each) => each.name);
    const more = { allowed, meant: findClosest(given, allowed) };
    return { problems: [buildFieldProblem('pipeline', 'INVALID_OPTION', 'must be one of the allowed values', more)] };
  }
  if (body.stage_id !== undefined) return { statuses, problems: [] };
  return { statuses: ofPipeline(before.values.pipeline ?? getDefaultPipeline(workspace).id), problems: [] };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
