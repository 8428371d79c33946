// Tasks of a record: validation, and conversion to the API's format.
import type { components } from '../../generated/api.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from './draft.ts';
import { checkRecord } from './values.ts';

/** Fields of a new task. */
const intake = [
  'title',
  'description',
  'task_type',
  'priority',
  'scheduled_at',
  'assigned_to',
  'assigned_to_email',
] as const;

export function getTaskObject(workspace: Workspace): WorkspaceObject {
  const object = workspace.objects.get('tasks');
  if (!object) throw new Error('every workspace has tasks');
  return object;
}

/**
 * Checks a new task of any shape, because the OpenAPI document's check may have rejected the body.
 */
export function checkTask(
  body: Record<string, unknown>,
  record: { object: string; id: string },
  workspace: Workspace,
  now: Date,
): CheckedRecord {
  const sent = intake.filter((name) => Object.hasOwn(body, name)).map((name) => [name, body[name]]);
  const checked = checkRecord(getTaskObject(workspace), Object.fromEntries(sent), 'create', workspace, now);
  // Ignores mandatory fields of the workspace that this operation does not have.
  const isOurs = ({ field, code }: { field: string; code: string }) =>
    code !== 'REQUIRED' || intake.some((name) => name === field);
  return {
    ...checked,
    values: { ...checked.values, object: record.object, record_id: record.id },
    problems: checked.problems.filter(isOurs),
  };
}

/** Converts a task to the API's format. A disabled field has no value. */
export function showTask(record: StoredRecord, workspace: Workspace, now: Date): components['schemas']['Task'] {
  const { fields } = getTaskObject(workspace);
  const { values } = record;
  const shown = <T>(name: string) => (fields.has(name) ? ((values[name] ?? null) as T | null) : null);
  const status = values.status as components['schemas']['Task']['status'];
  const scheduledAt = values.scheduled_at as string;
  return {
    id: record.id,
    title: values.title as string,
    description: shown<string>('description'),
    task_type: fields.has('task_type')
      ? (workspace.taskTypes.find((type) => type.id === values.task_type)?.name ?? null)
      : null,
    status,
    priority: shown<number>('priority'),
    scheduled_at: scheduledAt,
    object: values.object as string,
    record_id: values.record_id as string,
    assigned_to: shown<string>('assigned_to'),
    completed_at: shown<string>('completed_at'),
    overdue: (status === 'open' || status === 'in_progress') && Date.parse(scheduledAt) < now.getTime(),
    created_at: record.createdAt.toISOString(),
    updated_at: record.updatedAt.toISOString(),
  };
}
