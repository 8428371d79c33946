// From a checked body to what is written: references, statuses, and what activities change.

import { type StoredValue, toUuid } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import { manualTagsOfNew } from '../settings/record-tags.ts';
import { enteredStatus, statusEffects } from '../settings/status-effects.ts';
import type { CheckedRecord, NeededReference, NewRecord } from './draft.ts';
import type { EntityType } from './entity-types.ts';
import { changeTime } from './version.ts';

type Values = Readonly<Record<string, StoredValue>>;

/** Adds a problem for each reference that was not found, and puts the user in the place of an address. */
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

/** A record to insert, with what its first status sets. */
export function newRecord(
  object: WorkspaceObject,
  id: string,
  checked: CheckedRecord,
  workspace: Workspace,
  now: Date,
): NewRecord {
  const entered = enteredStatus(object.object, undefined, checked.values);
  const values = { ...checked.values, ...statusEffects(object.object, entered, workspace, now) };
  const manualTagIds = manualTagsOfNew(object, checked.tagIds);
  return { id, values, custom: checked.custom, ...(manualTagIds.length > 0 ? { manualTagIds } : {}) };
}

/**
 * Joins an update with the record, at the timestamp of the change.
 * @param before the record, locked
 * @param now read after it was locked
 * @param isRetagged whether tags change, too
 * @returns undefined when nothing would change
 */
export function mergedRecord<Stored extends { values: Values; custom: Values; updatedAt: Date }>(
  object: WorkspaceObject,
  before: Stored,
  checked: Pick<CheckedRecord, 'values' | 'custom'>,
  workspace: Workspace,
  now: Date,
  isRetagged: boolean,
): Stored | undefined {
  const differs = (given: Values, stored: Values) =>
    Object.entries(given).some(([name, value]) => value !== (Object.hasOwn(stored, name) ? stored[name] : null));
  // A built-in field without a column of its own is kept among the custom ones.
  const stored = { ...before.custom, ...before.values };
  if (!isRetagged && !differs(checked.values, stored) && !differs(checked.custom, before.custom)) return undefined;
  const values = { ...before.values, ...checked.values };
  const entered = enteredStatus(object.object, before.values, values);
  const updatedAt = changeTime(before, now);
  return {
    ...before,
    updatedAt,
    values: { ...values, ...statusEffects(object.object, entered, workspace, updatedAt) },
    custom: { ...before.custom, ...checked.custom },
  };
}

/** What an activity tells about the record that it is logged on. */
export interface LoggedContact {
  entityType: EntityType;
  entityId: string;
  /** When the activity was performed; null if an update left that time as it was. */
  contactedAt: string | null;
  /** The types that the activity has and had, by id; the same if no update changed it. */
  activityTypeId: string;
  previousTypeId: string;
  performedAt: string | null;
  /** The next contact that was agreed on; null: none. */
  followupAt: string | null;
}

/** The contact that an activity's values stand for, whatever its type. */
export function contactOf(values: Values): LoggedContact {
  return {
    entityType: values.entity_type as EntityType,
    entityId: String(values.entity_id),
    contactedAt: textOf(values.performed_at),
    activityTypeId: String(values.activity_type),
    previousTypeId: String(values.activity_type),
    performedAt: textOf(values.performed_at),
    followupAt: textOf(values.followup_at),
  };
}

export interface ChangedContact extends LoggedContact {
  /** True when the follow-up was called off. */
  followupCleared: boolean;
}

/** The contact as far as an update of the activity changed it. */
export function changedContact(before: Values, after: Values): ChangedContact {
  const contact = contactOf(after);
  return {
    ...contact,
    previousTypeId: String(before.activity_type),
    contactedAt: before.performed_at === after.performed_at ? null : contact.contactedAt,
    followupAt: before.followup_at === after.followup_at ? null : contact.followupAt,
    followupCleared: before.followup_at !== null && contact.followupAt === null,
  };
}

const textOf = (value: StoredValue | undefined): string | null => (typeof value === 'string' ? value : null);

/**
 * Returns the references to records that a body names in a readable form, for locks that come before the body is checked.
 * The check reports what is wrong with the body.
 */
export function namedReferences(object: WorkspaceObject, body: unknown): NeededReference[] {
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
