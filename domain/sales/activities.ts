// Activities in the format of their own operations.
import type { components } from '../../generated/api.ts';
import { buildFieldProblem, type FieldProblem, type StoredValue, toUuid } from '../objects/field-values.ts';
import type { Filter } from '../objects/filter.ts';
import { findClosest } from '../objects/suggestions.ts';
import { findByName, type Workspace, type WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from '../records/draft.ts';
import type { EntityType } from '../records/entity-types.ts';
import { checkRecord } from '../records/values.ts';
import { readBuiltinValues } from '../records/view.ts';

/** Fields that a change may contain. A new activity also names its record. */
const updatable = ['activity_type', 'summary', 'details', 'performed_at', 'followup_at'];
const intake = ['entity_type', 'entity_id', ...updatable];

export function getActivityObject(workspace: Workspace): WorkspaceObject {
  const object = workspace.objects.get('activities');
  if (!object) throw new Error('every workspace has activities');
  return object;
}

/**
 * Checks a new activity of any shape, because the OpenAPI document's check may have rejected it.
 */
export function checkActivity(body: Record<string, unknown>, workspace: Workspace, now: Date): CheckedRecord {
  const checked = checkRecord(getActivityObject(workspace), picked(body, intake), 'create', workspace, now);
  return {
    ...checked,
    values: {
      ...checked.values,
      // Only the OpenAPI document restricts these two; they are not fields of records.
      _duration_seconds: (body.duration_seconds ?? null) as StoredValue,
      _outcome: (body.outcome ?? null) as StoredValue,
    },
    problems: checked.problems.filter(isOurs),
  };
}

/** Checks a change of an activity. */
export function checkActivityChange(
  body: Record<string, unknown>,
  before: StoredRecord,
  workspace: Workspace,
  now: Date,
): CheckedRecord {
  const object = getActivityObject(workspace);
  const stored = readBuiltinValues(object, before);
  const checked = checkRecord(object, picked(body, updatable), 'update', workspace, now, stored);
  return { ...checked, problems: checked.problems.filter(isOurs) };
}

function picked(body: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.filter((name) => Object.hasOwn(body, name)).map((name) => [name, body[name]]));
}

/**
 * Excludes problems with the kind of entity, which the OpenAPI document reports, and with mandatory
 * fields that this operation does not have.
 */
function isOurs(problem: FieldProblem): boolean {
  if (problem.field === 'entity_type' && problem.code === 'INVALID_OPTION') return false;
  return problem.code !== 'REQUIRED' || intake.includes(problem.field);
}

/** The parameters of a list. */
export interface ActivityQuery {
  entity_type?: EntityType;
  entity_id?: string;
  activity_type?: string;
  performed_from?: string;
  performed_to?: string;
  created_by?: string;
}

/** Converts a query to a filter, and returns the problems. */
export function toActivityFilter(
  query: ActivityQuery,
  workspace: Workspace,
): { filter: Filter | undefined; problems: FieldProblem[] } {
  const problems: FieldProblem[] = [];
  const conditions: Filter[] = [];
  const add = (field: string, op: 'eq' | 'gte' | 'lte', value: string | undefined) => {
    if (value !== undefined) conditions.push({ field, op, value });
  };
  const { performed_from: from, performed_to: to } = query;
  add('entity_type', 'eq', query.entity_type);
  add('entity_id', 'eq', query.entity_id === undefined ? undefined : toUuid(query.entity_id));
  add('performed_at', 'gte', from);
  add('performed_at', 'lte', to);
  add('created_by', 'eq', query.created_by);
  if (query.activity_type !== undefined) {
    const type = findByName(workspace.activityTypes, query.activity_type);
    const allowed = workspace.activityTypes.map((each) => each.name);
    if (type) add('activity_type', 'eq', type.id);
    else {
      const meant = findClosest(query.activity_type, allowed);
      problems.push(
        buildFieldProblem('activity_type', 'INVALID_OPTION', 'must be the name of an activity type', {
          allowed,
          meant,
        }),
      );
    }
  }
  if (from !== undefined && to !== undefined && Date.parse(to) < Date.parse(from))
    problems.push(buildFieldProblem('performed_to', 'OUT_OF_RANGE', 'must not be before performed_from'));
  return { filter: conditions.length > 0 ? { and: conditions } : undefined, problems };
}

/** Converts an activity to the API's format. A disabled field has no value. */
export function showActivity(
  record: StoredRecord,
  testMode: boolean,
  workspace: Workspace,
): components['schemas']['Activity'] {
  const { fields } = getActivityObject(workspace);
  const { values } = record;
  const text = (name: string) => (fields.has(name) ? ((values[name] ?? null) as string | null) : null);
  return {
    id: record.id,
    entity_type: values.entity_type as EntityType,
    entity_id: values.entity_id as string,
    activity_type: workspace.activityTypes.find((type) => type.id === values.activity_type)?.name ?? '',
    activity_type_id: values.activity_type as string,
    summary: text('summary'),
    details: text('details'),
    performed_at: values.performed_at as string,
    followup_at: text('followup_at'),
    duration_seconds: values._duration_seconds as number | null,
    outcome: values._outcome as string | null,
    created_by: {
      kind: values._created_by_kind as components['schemas']['Actor']['kind'],
      id: values.created_by as string,
      name: values._created_by_name as string | null,
    },
    test_mode: testMode,
    created_at: record.createdAt.toISOString(),
    updated_at: record.updatedAt.toISOString(),
  };
}
