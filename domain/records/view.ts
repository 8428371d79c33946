// Records as the API shows them, and what a change of one did.
import { type StoredValue, toResponseValue } from '../objects/field-values.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';
import type { Possession } from '../possession.ts';
import type { StoredRecord } from './draft.ts';

export interface ShownRecord {
  id: string;
  created_at: string;
  updated_at: string;
  [field: string]: StoredValue;
}

/** Every published field of the object, null where it has no value; nothing else leaves. */
export function showRecord(object: WorkspaceObject, record: StoredRecord): ShownRecord {
  const shown = { ...blankOf(object) };
  shown.id = record.id;
  shown.created_at = record.createdAt.toISOString();
  shown.updated_at = record.updatedAt.toISOString();
  for (const field of object.fields.values()) shown[field.name] = toResponseValue(field, storedValue(record, field));
  return shown;
}

const blanks = new WeakMap<WorkspaceObject, Readonly<ShownRecord>>();

/** A record without values, to be copied and filled: an object that grows name by name is slow to make and to write as JSON. */
function blankOf(object: WorkspaceObject): Readonly<ShownRecord> {
  const known = blanks.get(object);
  if (known) return known;
  const names = ['id', 'created_at', 'updated_at', ...object.fields.keys()];
  const blank = JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:null`).join(',')}}`) as ShownRecord;
  blanks.set(object, blank);
  return blank;
}

/** A built-in field without a column of its own is kept among the custom ones. */
function storedValue(record: StoredRecord, field: Field): StoredValue {
  const value = field.custom ? undefined : record.values[field.name];
  if (value !== undefined) return value;
  return Object.hasOwn(record.custom, field.name) ? (record.custom[field.name] ?? null) : null;
}

/** The built-in values of a stored record, wherever they are kept, for rules that join fields. */
export function builtinValues(object: WorkspaceObject, record: StoredRecord): Record<string, StoredValue> {
  const values: Record<string, StoredValue> = { ...record.values };
  for (const field of object.fields.values()) if (!field.custom) values[field.name] = storedValue(record, field);
  return values;
}

/** Of a field, or of the names of tags. */
type ChangedValue = StoredValue | readonly string[];

export type Changes = Record<string, { from: ChangedValue; to: ChangedValue }>;

/** Published fields that differ between two states of a record, with both values; empty when nothing changed. */
export function changesBetween(
  object: WorkspaceObject,
  before: Readonly<Record<string, StoredValue>>,
  after: Readonly<Record<string, StoredValue>>,
): Changes {
  const changes: Changes = {};
  for (const name of object.fields.keys()) {
    const [from, to] = [before[name] ?? null, after[name] ?? null];
    if (from !== to) changes[name] = { from, to };
  }
  return changes;
}

/** Changes as an audit row may keep them: of telephone numbers only the last digits. */
function auditable(object: WorkspaceObject, changes: Changes): Changes {
  const masked: Changes = {};
  for (const [name, { from, to }] of Object.entries(changes))
    masked[name] =
      object.fields.get(name)?.type === 'phone' ? { from: lastDigits(from), to: lastDigits(to) } : { from, to };
  return masked;
}

function lastDigits(number: ChangedValue): StoredValue {
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
export function actionOf(object: WorkspaceObject, verb: 'create' | 'update' | 'delete' | 'restore' | 'purge'): string {
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

/** What a change of a record leaves there. @param createdBy where it may be assigned by the change, having been nobody's */
export function updateOf(
  object: WorkspaceObject,
  id: string,
  changes: Changes,
  now: Date,
  createdBy?: Possession['createdBy'],
) {
  const data = {
    object: object.object,
    record_id: id,
    changed_fields: Object.keys(changes),
    occurred_at: now.toISOString(),
  };
  const takenFrom = changes.assigned_to && possessionBefore(changes.assigned_to.from, createdBy);
  return {
    action: actionOf(object, 'update'),
    object: object.object,
    recordId: id,
    changes: auditable(object, changes),
    event: {
      name: 'record.updated',
      data,
      changes,
      ...(takenFrom ? { takenFrom } : {}),
    },
  };
}

/** What a record leaves there that lost its reference to a deleted one. @param tags the names of its tags, if they changed with it */
export function clearingOf(
  object: WorkspaceObject,
  { id, field, from, changedAt }: { id: string; field: string; from: string; changedAt: Date },
  tags?: Changes[string],
) {
  // A field that the workspace switched off is not told of.
  const changes = object.fields.has(field) ? { [field]: { from, to: null } } : {};
  return updateOf(object, id, tags ? { ...changes, tags } : changes, changedAt);
}

function possessionBefore(assignedTo: unknown, createdBy: Possession['createdBy']): Possession | undefined {
  if (typeof assignedTo === 'string') return { assignedTo };
  return createdBy && { assignedTo: null, createdBy };
}

/** How much of what belonged to a deleted record went with it. */
export interface GoneWithIt {
  activities: number;
  tasks: number;
  notes: number;
  attachments: number;
}

/** A record that went with another. */
export interface GoneRecord {
  object: string;
  id: string;
  possession: Possession;
}

/** What a deletion leaves there; the records that went with it are told one by one. */
export function deletionOf(
  object: WorkspaceObject,
  { id, gone, possession, records }: Omit<GoneRecord, 'object'> & { gone: GoneWithIt; records: readonly GoneRecord[] },
  now: Date,
) {
  const told = ({ object: name, id: recordId, possession: takenFrom }: GoneRecord) => ({
    name: 'record.deleted',
    data: { object: name, record_id: recordId, occurred_at: now.toISOString() },
    takenFrom,
  });
  return {
    action: actionOf(object, 'delete'),
    object: object.object,
    recordId: id,
    metadata: { ...gone },
    event: told({ object: object.object, id, possession }),
    furtherEvents: records.map(told),
  };
}

/** What a restored record leaves there, with an event for each record that came back with it. @param changes what it lost */
export function restorationOf(
  object: WorkspaceObject,
  id: string,
  records: readonly Pick<GoneRecord, 'object' | 'id'>[],
  changes: Changes,
  now: Date,
) {
  const restored = (name: string, recordId: string) => ({
    name: 'record.restored',
    data: { object: name, record_id: recordId, occurred_at: now.toISOString() },
  });
  return {
    action: actionOf(object, 'restore'),
    object: object.object,
    recordId: id,
    ...(Object.keys(changes).length > 0 ? { changes: auditable(object, changes) } : {}),
    event: restored(object.object, id),
    furtherEvents: records.map((record) => restored(record.object, record.id)),
  };
}
