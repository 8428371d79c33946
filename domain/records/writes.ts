// Converts a checked body to a write: references, statuses, and the effects of activities.

import { type StoredValue, toUuid } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import { pickManualTags } from '../settings/record-tags.ts';
import { computeStatusEffects, findEnteredStatus } from '../settings/status-effects.ts';
import type { CheckedRecord, NeededReference, NewRecord } from './draft.ts';
import type { EntityType } from './entity-types.ts';
import { computeChangeTime } from './version.ts';

type Values = Readonly<Record<string, StoredValue>>;

/** Adds a problem for each reference that was not found, and replaces an address by the user. */
export function resolveReferences(
  checked: CheckedRecord,
  found: (reference: NeededReference) => string | undefined,
): void {
  for (const reference of checked.references) {
    const { field, kind } = reference;
    const id = found(reference);
    if (kind === 'user_email' && id !== undefined) checked.values.assigned_to = id;
    if (id !== undefined) continue;
    const message =
      kind === 'user' || kind === 'user_email'
        ? 'must be an active user'
        : 'must be the id of a record that is visible to you';
    checked.problems.push({ field, code: 'NOT_FOUND', message: `${field} ${message}.` });
  }
}

/** Returns a record to insert, with the fields that its first status sets. */
export function newRecord(
  object: WorkspaceObject,
  id: string,
  checked: CheckedRecord,
  workspace: Workspace,
  now: Date,
): NewRecord {
  const entered = findEnteredStatus(object.object, undefined, checked.values);
  const values = { ...checked.values, ...computeStatusEffects(object.object, entered, workspace, now) };
  const manualTagIds = pickManualTags(object, checked.tagIds);
  return { id, values, custom: checked.custom, ...(manualTagIds.length > 0 ? { manualTagIds } : {}) };
}

/**
 * Merges an update into the record, with the timestamp of the change.
 * @param before the record, locked
 * @param now read after it was locked
 * @param isRetagged true if tags change, too
 * @returns undefined if nothing would change
 */
export function mergeUpdate<Stored extends { values: Values; custom: Values; updatedAt: Date }>(
  object: WorkspaceObject,
  before: Stored,
  checked: Pick<CheckedRecord, 'values' | 'custom'>,
  workspace: Workspace,
  now: Date,
  isRetagged: boolean,
): Stored | undefined {
  const differs = (given: Values, stored: Values) =>
    Object.entries(given).some(([name, value]) => value !== (Object.hasOwn(stored, name) ? stored[name] : null));
  // A built-in field without a column is stored with the custom ones.
  const stored = { ...before.custom, ...before.values };
  if (!isRetagged && !differs(checked.values, stored) && !differs(checked.custom, before.custom)) return undefined;
  const values = { ...before.values, ...checked.values };
  const entered = findEnteredStatus(object.object, before.values, values);
  const updatedAt = computeChangeTime(before, now);
  return {
    ...before,
    updatedAt,
    values: { ...values, ...computeStatusEffects(object.object, entered, workspace, updatedAt) },
    custom: { ...before.custom, ...checked.custom },
  };
}

/** What an activity tells about the record that it is logged on. */
export interface LoggedContact {
  entityType: EntityType;
  entityId: string;
  /** When the activity was performed; null if an update did not change that time. */
  contactedAt: string | null;
  /** The current and the previous type of the activity, by id; equal if no update changed it. */
  activityTypeId: string;
  previousTypeId: string;
  performedAt: string | null;
  /** The next contact that was agreed on; null: none. */
  followupAt: string | null;
}

/** Returns the contact of an activity's values, for any type. */
export function toLoggedContact(values: Values): LoggedContact {
  return {
    entityType: values.entity_type as EntityType,
    entityId: String(values.entity_id),
    contactedAt: toText(values.performed_at),
    activityTypeId: String(values.activity_type),
    previousTypeId: String(values.activity_type),
    performedAt: toText(values.performed_at),
    followupAt: toText(values.followup_at),
  };
}

export interface ChangedContact extends LoggedContact {
  /** True if the follow-up was cleared. */
  followupCleared: boolean;
}

/** Returns the parts of the contact that an update of the activity changed. */
export function toChangedContact(before: Values, after: Values): ChangedContact {
  const contact = toLoggedContact(after);
  return {
    ...contact,
    previousTypeId: String(before.activity_type),
    contactedAt: before.performed_at === after.performed_at ? null : contact.contactedAt,
    followupAt: before.followup_at === after.followup_at ? null : contact.followupAt,
    followupCleared: before.followup_at !== null && contact.followupAt === null,
  };
}

const toText = (value: StoredValue | undefined): string | null => (typeof value === 'string' ? value : null);

/**
 * Returns the references to records in a body that can be read, for locks that come before the
 * check of the body. The check reports problems of the body.
 */
export function listNamedReferences(object: WorkspaceObject, body: unknown): NeededReference[] {
  if (typeof body !== 'object' || body === null) return [];
  const fields = body as Readonly<Record<string, unknown>>;
  const references: NeededReference[] = [];
  for (const [name, given] of Object.entries(fields)) {
    const field = object.fields.get(name);
    const id = field?.reference && typeof given === 'string' ? toUuid(given) : undefined;
    if (field?.reference && field.reference !== 'user' && id !== undefined && !field.readOnly)
      references.push({ field: name, kind: field.reference, value: id });
  }
  if (object.object !== 'tasks') return references;
  const id = typeof fields.record_id === 'string' ? toUuid(fields.record_id) : undefined;
  if (id !== undefined && typeof fields.object === 'string')
    references.push({ field: 'record_id', kind: 'record', value: id, object: fields.object });
  return references;
}
