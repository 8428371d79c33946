// Converts records to the API's format, and changes to audit rows and events.
import { type StoredValue, toResponseValue } from '../objects/field-values.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';
import type { Ownership } from '../ownership.ts';
import type { StoredRecord } from './draft.ts';

export interface ShownRecord {
  id: string;
  created_at: string;
  updated_at: string;
  [field: string]: StoredValue;
}

/** Returns every published field of the object, null without a value. Nothing else is returned. */
export function showRecord(object: WorkspaceObject, record: StoredRecord): ShownRecord {
  const shown = { ...getBlankRecord(object) };
  shown.id = record.id;
  shown.created_at = record.createdAt.toISOString();
  shown.updated_at = record.updatedAt.toISOString();
  for (const field of object.fields.values()) shown[field.name] = toResponseValue(field, storedValue(record, field));
  return shown;
}

const blanks = new WeakMap<WorkspaceObject, Readonly<ShownRecord>>();

/**
 * Returns a record without values, to be copied and filled. Adding names one by one is slower, also
 * for JSON.
 */
function getBlankRecord(object: WorkspaceObject): Readonly<ShownRecord> {
  const known = blanks.get(object);
  if (known) return known;
  const names = ['id', 'created_at', 'updated_at', ...object.fields.keys()];
  const blank = JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:null`).join(',')}}`) as ShownRecord;
  blanks.set(object, blank);
  return blank;
}

/** A built-in field without a column is stored with the custom ones. */
function storedValue(record: StoredRecord, field: Field): StoredValue {
  const value = field.custom ? undefined : record.values[field.name];
  if (value !== undefined) return value;
  return Object.hasOwn(record.custom, field.name) ? (record.custom[field.name] ?? null) : null;
}

/**
 * Returns the built-in values of a stored record, from columns and custom values, for rules about
 * several fields.
 */
export function readBuiltinValues(object: WorkspaceObject, record: StoredRecord): Record<string, StoredValue> {
  const values: Record<string, StoredValue> = { ...record.values };
  for (const field of object.fields.values()) if (!field.custom) values[field.name] = storedValue(record, field);
  return values;
}

/** The value of a field, or names of tags. */
type ChangedValue = StoredValue | readonly string[];

export type Changes = Record<string, { from: ChangedValue; to: ChangedValue }>;

/**
 * Returns published fields that differ between two states of a record, with both values; empty if
 * nothing changed.
 */
export function diffRecords(
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

/** Returns changes for an audit row: of phone numbers only the last digits. */
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

/**
 * Returns the name of an action in the audit log: `lead.create`; for custom objects
 * `record.create`.
 */
export function buildAuditActionName(
  object: WorkspaceObject,
  verb: 'create' | 'update' | 'delete' | 'restore' | 'purge' | 'merge' | 'unmerge',
): string {
  return `${singular[object.object] ?? 'record'}.${verb}`;
}

/** Returns the audit row and the event of a new record. */
export function describeCreation(object: WorkspaceObject, id: string, now: Date) {
  const data = { object: object.object, record_id: id, occurred_at: now.toISOString() };
  return {
    action: buildAuditActionName(object, 'create'),
    object: object.object,
    recordId: id,
    event: { name: 'record.created', data },
  };
}

/**
 * Returns the audit row and the event of a change.
 * @param createdBy the creator, if the change may assign an unassigned record
 */
export function describeUpdate(
  object: WorkspaceObject,
  id: string,
  changes: Changes,
  now: Date,
  createdBy?: Ownership['createdBy'],
) {
  const data = {
    object: object.object,
    record_id: id,
    changed_fields: Object.keys(changes),
    occurred_at: now.toISOString(),
  };
  const previousOwnership = changes.assigned_to && ownershipBefore(changes.assigned_to.from, createdBy);
  return {
    action: buildAuditActionName(object, 'update'),
    object: object.object,
    recordId: id,
    changes: auditable(object, changes),
    event: {
      name: 'record.updated',
      data,
      changes,
      ...(previousOwnership ? { previousOwnership } : {}),
    },
  };
}

/**
 * Returns the audit row and the event of a record that lost its reference to a deleted one.
 * @param tags the names of its tags, if they changed with it
 */
export function describeClearing(
  object: WorkspaceObject,
  { id, field, from, changedAt }: { id: string; field: string; from: string; changedAt: Date },
  tags?: Changes[string],
) {
  // Changes of a disabled field are not reported.
  const changes = object.fields.has(field) ? { [field]: { from, to: null } } : {};
  return describeUpdate(object, id, tags ? { ...changes, tags } : changes, changedAt);
}

function ownershipBefore(assignedTo: unknown, createdBy: Ownership['createdBy']): Ownership | undefined {
  if (typeof assignedTo === 'string') return { assignedTo };
  return createdBy && { assignedTo: null, createdBy };
}

/** How many items were deleted with a record. */
export interface GoneWithIt {
  activities: number;
  tasks: number;
  notes: number;
  attachments: number;
}

/** A record that was deleted with another. */
export interface GoneRecord {
  object: string;
  id: string;
  ownership: Ownership;
}

/**
 * Returns the audit row and the event of a deletion. Records that were deleted with it have their
 * own.
 */
export function describeDeletion(
  object: WorkspaceObject,
  { id, gone, ownership, records }: Omit<GoneRecord, 'object'> & { gone: GoneWithIt; records: readonly GoneRecord[] },
  now: Date,
) {
  const toDeletedEvent = ({ object: name, id: recordId, ownership: previousOwnership }: GoneRecord) => ({
    name: 'record.deleted',
    data: { object: name, record_id: recordId, occurred_at: now.toISOString() },
    previousOwnership,
  });
  return {
    action: buildAuditActionName(object, 'delete'),
    object: object.object,
    recordId: id,
    metadata: { ...gone },
    event: toDeletedEvent({ object: object.object, id, ownership }),
    furtherEvents: records.map(toDeletedEvent),
  };
}

/**
 * Describes the restoration of a record, with an event for each record that was restored with it.
 * @param changes the fields that it lost
 */
export function describeRestoration(
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
    action: buildAuditActionName(object, 'restore'),
    object: object.object,
    recordId: id,
    ...(Object.keys(changes).length > 0 ? { changes: auditable(object, changes) } : {}),
    event: restored(object.object, id),
    furtherEvents: records.map((record) => restored(record.object, record.id)),
  };
}

/** The records of a merge, by their ids. */
export interface MergedPair {
  mergeId: string;
  sourceId: string;
  targetId: string;
}

/** An activity or task that moved between the records of a merge, or a record that referred to one. */
export interface RepointedRecord {
  object: string;
  id: string;
  field: string;
  changedAt: Date;
}

/**
 * Returns the audit row and the events of a merge or of its undo. Each activity and task that moved
 * has its own event.
 * @param ownership of the source, which decides who could see it
 */
export function describeMerge(
  object: WorkspaceObject,
  verb: 'merge' | 'unmerge',
  { mergeId, sourceId, targetId }: MergedPair,
  { moved, metadata, ownership }: { moved: readonly RepointedRecord[]; metadata?: object; ownership?: Ownership },
  now: Date,
) {
  const [from, to] = verb === 'merge' ? [sourceId, targetId] : [targetId, sourceId];
  const data = { object: object.object, record_id: sourceId, into_id: targetId, occurred_at: now.toISOString() };
  return {
    action: buildAuditActionName(object, verb),
    object: object.object,
    recordId: sourceId,
    metadata: { merge_id: mergeId, into_id: targetId, ...metadata },
    event: {
      name: verb === 'merge' ? 'record.merged' : 'record.unmerged',
      data,
      ...(ownership ? { previousOwnership: ownership } : {}),
    },
    furtherEvents: moved.map((each) => describeMovedChild(each, { from, to })),
  };
}

/** Returns the event of an activity or task that moved from one record to another. */
export function describeMovedChild(
  { object, id, field, changedAt }: RepointedRecord,
  { from, to }: { from: string; to: string },
) {
  return {
    name: 'record.updated',
    data: { object, record_id: id, changed_fields: [field], occurred_at: changedAt.toISOString() },
    changes: { [field]: { from, to } },
  };
}

/** Returns the audit row and the event of a record whose reference moved from one record to another. */
export function describeRepointing(
  object: WorkspaceObject,
  { id, field, changedAt }: RepointedRecord,
  { from, to }: { from: string; to: string },
  tags?: Changes[string],
) {
  const changes = object.fields.has(field) ? { [field]: { from, to } } : {};
  return describeUpdate(object, id, tags ? { ...changes, tags } : changes, changedAt);
}
