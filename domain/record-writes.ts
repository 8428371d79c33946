// From a checked body to what is written: references filled in, statuses entered, activities turned into contacts.
import type { CheckedRecord, NeededReference, StoredValue } from './record-values.ts';
import { enteredStatus, statusEffects } from './status-effects.ts';
import type { Workspace, WorkspaceObject } from './workspace.ts';

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
      kind === 'user' || kind === 'user_email' ? 'names no active user' : 'names no record that is visible to you';
    checked.problems.push({ field, code: 'NOT_FOUND', message: `${field} ${message}` });
  }
}

/** A record to insert, with what its first status sets. */
export function newRecord(
  object: WorkspaceObject,
  id: string,
  checked: CheckedRecord,
  workspace: Workspace,
  now: Date,
) {
  const entered = enteredStatus(object.object, undefined, checked.values);
  const values = { ...checked.values, ...statusEffects(object.object, entered, workspace, now) };
  return { id, values, custom: checked.custom };
}

/**
 * Joins an update with the record.
 * @returns undefined when nothing would change
 */
export function mergedRecord<Stored extends { values: Values; custom: Values }>(
  object: WorkspaceObject,
  before: Stored,
  checked: CheckedRecord,
  workspace: Workspace,
  now: Date,
): Stored | undefined {
  const differs = (given: Values, stored: Values) =>
    Object.entries(given).some(([name, value]) => value !== (Object.hasOwn(stored, name) ? stored[name] : null));
  // A built-in field without a column of its own is kept among the custom ones.
  const stored = { ...before.custom, ...before.values };
  if (!differs(checked.values, stored) && !differs(checked.custom, before.custom)) return undefined;
  const values = { ...before.values, ...checked.values };
  const entered = enteredStatus(object.object, before.values, values);
  return {
    ...before,
    values: { ...values, ...statusEffects(object.object, entered, workspace, now) },
    custom: { ...before.custom, ...checked.custom },
  };
}

/** What an activity tells about the lead or deal that it is logged on. */
export interface LoggedContact {
  entityType: 'lead' | 'deal';
  entityId: string;
  contactedAt: string | null;
  followupAt: string | null;
}

/** The contact that an activity's values stand for. Notes are about somebody, but nobody was spoken to. */
export function contactOf(values: Values, workspace: Workspace): LoggedContact {
  const type = workspace.activityTypes.find((each) => each.id === values.activity_type);
  return {
    entityType: values.entity_type === 'deal' ? 'deal' : 'lead',
    entityId: String(values.entity_id),
    contactedAt: type?.name.toLowerCase() === 'note' ? null : textOf(values.performed_at),
    followupAt: textOf(values.followup_at),
  };
}

export interface ChangedContact extends LoggedContact {
  /** True when the follow-up was called off. */
  followupCleared: boolean;
}

/** The contact as far as an update of the activity changed it. */
export function changedContact(before: Values, after: Values, workspace: Workspace): ChangedContact {
  const contact = contactOf(after, workspace);
  const moved = before.performed_at !== after.performed_at || before.activity_type !== after.activity_type;
  return {
    ...contact,
    contactedAt: moved ? contact.contactedAt : null,
    followupAt: before.followup_at === after.followup_at ? null : contact.followupAt,
    followupCleared: before.followup_at !== null && contact.followupAt === null,
  };
}

const textOf = (value: StoredValue | undefined): string | null => (typeof value === 'string' ? value : null);
