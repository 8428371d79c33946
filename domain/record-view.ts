// Records as the API shows them, and what a change of one did.
import type { StoredValue } from './record-values.ts';
import { shownValue } from './record-values.ts';
import type { Field, Workspace, WorkspaceObject } from './workspace.ts';

/** A record as the database gives it. */
export interface StoredRecord {
  id: string;
  createdAt: Date;
  updatedAt: Date;
  values: Readonly<Record<string, StoredValue>>;
  custom: Readonly<Record<string, StoredValue>>;
}

export interface ShownRecord {
  id: string;
  created_at: string;
  updated_at: string;
  [field: string]: StoredValue;
}

/** Every published field of the object, null where it has no value; nothing else leaves. */
export function showRecord(object: WorkspaceObject, record: StoredRecord, workspace: Workspace): ShownRecord {
  const shown: ShownRecord = {
    id: record.id,
    created_at: record.createdAt.toISOString(),
    updated_at: record.updatedAt.toISOString(),
  };
  for (const field of object.fields.values())
    shown[field.name] = shownValue(field, storedValue(record, field), workspace);
  return shown;
}

/** A built-in field without a column of its own is kept among the custom ones. */
function storedValue(record: StoredRecord, field: Field): StoredValue {
  const values = !field.custom && Object.hasOwn(record.values, field.name) ? record.values : record.custom;
  return Object.hasOwn(values, field.name) ? (values[field.name] ?? null) : null;
}

/** The built-in values of a stored record, wherever they are kept, for rules that join fields. */
export function builtinValues(object: WorkspaceObject, record: StoredRecord): Record<string, StoredValue> {
  const values: Record<string, StoredValue> = { ...record.values };
  for (const field of object.fields.values()) if (!field.custom) values[field.name] = storedValue(record, field);
  return values;
}

export type Changes = Record<string, { from: StoredValue; to: StoredValue }>;

/** Published fields that differ between two states of a record, with both values; empty when nothing changed. */
export function changesBetween(object: WorkspaceObject, before: ShownRecord, after: ShownRecord): Changes {
  const changes: Changes = {};
  for (const name of object.fields.keys()) {
    const [from, to] = [before[name] ?? null, after[name] ?? null];
    if (from !== to) changes[name] = { from, to };
  }
  return changes;
}

/** Changes as an audit row may keep them: of telephone numbers only the last digits. */
export function auditable(object: WorkspaceObject, changes: Changes): Changes {
  const masked: Changes = {};
  for (const [name, { from, to }] of Object.entries(changes))
    masked[name] =
      object.fields.get(name)?.type === 'phone' ? { from: lastDigits(from), to: lastDigits(to) } : { from, to };
  return masked;
}

function lastDigits(number: StoredValue): StoredValue {
  return number === null ? null : `…${String(number).slice(-4)}`;
}

const singular: Readonly<Record<string, string>> = {
  leads: 'lead',
  deals: 'deal',
  customers: 'customer',
  accounts: 'account',
  tasks: 'task',
  activities: 'activity',
};

/** The name of an action in the audit log: `lead.create`; for custom objects `record.create`. */
export function actionOf(object: WorkspaceObject, verb: 'create' | 'update' | 'delete'): string {
  return `${singular[object.object] ?? 'record'}.${verb}`;
}

/** What a new record leaves in the audit log and the outbox. */
export function creationOf(object: WorkspaceObject, id: string, now: Date) {
  const data = { object: object.object, record_id: id, occurred_at: now.toISOString() };
  return {
    action: actionOf(object, 'create'),
    object: object.object,
    recordId: id,
    event: { name: 'record.created', data },
  };
}

/** What a change of a record leaves there. */
export function updateOf(object: WorkspaceObject, before: ShownRecord, after: ShownRecord, now: Date) {
  const changes = changesBetween(object, before, after);
  const data = {
    object: object.object,
    record_id: after.id,
    changed_fields: Object.keys(changes),
    occurred_at: now.toISOString(),
  };
  return {
    action: actionOf(object, 'update'),
    object: object.object,
    recordId: after.id,
    changes: auditable(object, changes),
    event: { name: 'record.updated', data },
  };
}
