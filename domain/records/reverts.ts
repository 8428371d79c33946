// The rules of reverts: combines the operations on each record, and decides how to undo them.
import type { StoredValue } from '../objects/field-values.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';
import type { AppliedTag } from '../settings/record-tags.ts';
import type { NeededReference, StoredRecord } from './draft.ts';
import { showRecord } from './view.ts';

/** The operations that a revert undoes. Exactly one kind is given. */
export interface RevertSource {
  requestId?: string;
  importId?: string;
  revertId?: string;
  /** Comes with `requestId`, the call that applied the set. */
  changeSetId?: string;
  actor?: { id: string; from: string; to: string };
}

export type ConflictReason = 'changed_since' | 'deleted_since' | 'not_revertible';

/** Something that a revert does not undo. */
export interface RevertConflict {
  object: string | null;
  record_id: string | null;
  field: string | null;
  reason: ConflictReason;
  /** The operation, if no field or record explains the conflict. */
  action: string | null;
}

/** The audit row of an operation. */
export interface Operation {
  id: string;
  occurredAt: Date;
  action: string;
  object: string | null;
  recordId: string | null;
  changes: Record<string, { from: unknown; to: unknown }> | null;
  /** The merge that the operation makes or undoes, or that it is part of. */
  mergeId: string | null;
}

/** The combined effect of the operations on one record. */
export interface RecordReversal {
  object: string;
  recordId: string;
  operations: number;
  /**
   * True if the record existed before the first operation that created, deleted or restored it.
   * null if there is no such operation.
   */
  existedBefore: boolean | null;
  existsAfter: boolean | null;
  firstAt: Date;
  lastAt: Date;
  /** By field: the value before the operations, and the value after them. */
  fields: Record<string, { from: unknown; to: unknown }>;
}

const recordNouns = new Set(['lead', 'deal', 'customer', 'account', 'task', 'activity', 'record']);
/** Operations that change no data of the workspace, or that are part of others. */
const neutralNouns = new Set(['import', 'export', 'revert', 'change_set', 'session']);

/**
 * Returns how a revert treats an operation: as a change of its record (`record`), as one that it
 * cannot undo (`other`), or not at all (`neutral`).
 */
export function classifyOperation({
  action,
  object,
  recordId,
  changes,
  mergeId,
}: Operation): 'record' | 'other' | 'neutral' {
  const dot = action.indexOf('.');
  const [noun, verb] = [action.slice(0, dot), action.slice(dot + 1)];
  if (neutralNouns.has(noun) || verb === 'purge') return 'neutral';
  // A merge is undone as a whole. These updates are its parts, or those of its undo.
  if (mergeId !== null && verb === 'update') return 'neutral';
  // The records may have changed since, so the undo of a merge is not reverted by merging again.
  if (!recordNouns.has(noun) || object === null || recordId === null || verb === 'unmerge') return 'other';
  return Object.hasOwn(existsAfterVerb, verb) || changes !== null ? 'record' : 'other';
}

/** By verb: true if the record exists after the operation. A merge deletes its source. */
const existsAfterVerb: Readonly<Record<string, boolean>> = { create: true, restore: true, delete: false, merge: false };

/** Adds an operation to the reversal of the earlier ones on the same record. */
export function addOperation(earlier: RecordReversal | undefined, operation: Operation): RecordReversal {
  const { action, object, recordId, occurredAt } = operation;
  const reversal: RecordReversal = earlier ?? {
    object: object ?? '',
    recordId: recordId ?? '',
    operations: 0,
    existedBefore: null,
    existsAfter: null,
    firstAt: occurredAt,
    lastAt: occurredAt,
    fields: {},
  };
  const fields = { ...reversal.fields };
  for (const [name, { from, to }] of Object.entries(operation.changes ?? {})) {
    const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
    // If another caller changed the field in between, the revert returns to that caller's value.
    fields[name] = known && isSame(known.to, from) ? { from: known.from, to } : { from, to };
  }
  const verb = action.slice(action.indexOf('.') + 1);
  const existence = existsAfterVerb[verb];
  return {
    ...reversal,
    operations: reversal.operations + 1,
    lastAt: occurredAt,
    fields,
    ...(existence === undefined ? {} : { existedBefore: reversal.existedBefore ?? !existence, existsAfter: existence }),
  };
}

/** Compares values as JSON shows them. */
function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
}

/** The current state of a record. */
export interface RecordState {
  /** Undefined if it does not exist, or is not visible. */
  record: StoredRecord | undefined;
  isInTrash: boolean;
  /** True if other callers have written to it since the operations. */
  isChangedByOthers: boolean;
}

export type RevertKind = 'restore' | 'update' | 'trash';

/** The changes that undo the operations on a record. */
export interface RevertDecision {
  kind: RevertKind | 'none';
  values: Record<string, StoredValue>;
  custom: Record<string, StoredValue>;
  tagIds: readonly string[] | undefined;
  conflicts: RevertConflict[];
}

/** Decides how to undo the operations on a record in its current state. */
export function decide(
  reversal: RecordReversal,
  state: RecordState,
  object: WorkspaceObject | undefined,
  hasTarget: (reference: NeededReference) => boolean,
): RevertDecision {
  const { existedBefore, existsAfter } = reversal;
  const decision: RevertDecision = { kind: 'none', values: {}, custom: {}, tagIds: undefined, conflicts: [] };
  const refuse = (reason: ConflictReason): RevertDecision => ({
    ...decision,
    conflicts: [buildConflict(reversal, null, reason)],
  });
  if (!object) return refuse('not_revertible');
  const { record, isInTrash, isChangedByOthers } = state;
  if (existedBefore === false && existsAfter === false) return decision;
  if (existedBefore === false && existsAfter === true) {
    if (!record) return decision;
    return isChangedByOthers ? refuse('changed_since') : { ...decision, kind: 'trash' };
  }
  if (!record) {
    if (existsAfter !== false || !isInTrash)
      return existsAfter === false || Object.keys(reversal.fields).length > 0 ? refuse('deleted_since') : decision;
    return isChangedByOthers ? refuse('changed_since') : { ...decision, kind: 'restore' };
  }
  return decideFields(reversal, record, object, hasTarget);
}

const buildConflict = (
  { object, recordId }: Pick<RecordReversal, 'object' | 'recordId'>,
  field: string | null,
  reason: ConflictReason,
): RevertConflict => ({ object, record_id: recordId, field, reason, action: null });

/**
 * Gives each changed field its former value, if it still has the value that the operations wrote.
 */
function decideFields(
  reversal: RecordReversal,
  record: StoredRecord,
  object: WorkspaceObject,
  hasTarget: (reference: NeededReference) => boolean,
): RevertDecision {
  const shown = showRecord(object, record);
  const decision: RevertDecision = { kind: 'none', values: {}, custom: {}, tagIds: undefined, conflicts: [] };
  const refuse = (name: string, reason: ConflictReason): void => {
    decision.conflicts.push(buildConflict(reversal, name, reason));
  };
  for (const [name, { from, to }] of Object.entries(reversal.fields)) {
    if (name === 'tags' && object.tags) {
      const current = namesOfTags(object, record.tags);
      if (isSameSet(current, from)) continue;
      if (!isSameSet(current, to)) refuse(name, 'changed_since');
      else decision.tagIds = object.tags.filter((tag) => (from as string[]).includes(tag.name)).map(({ id }) => id);
      continue;
    }
    const field = object.fields.get(name);
    if (!field) {
      refuse(name, 'not_revertible');
      continue;
    }
    // The field that has the name instead of the ID decides.
    if (isIdOfLookup(object, field)) continue;
    const current = shown[name] ?? null;
    const isMasked = field.type === 'phone';
    if (isMasked ? from === null && current === null : isSame(current, from)) continue;
    if (!isSame(isMasked ? lastDigits(current) : current, to)) refuse(name, 'changed_since');
    // The audit log has only the last digits of phone numbers.
    else if (isMasked && from !== null) refuse(name, 'not_revertible');
    else {
      const stored = toStored(field, from);
      if (stored === undefined) refuse(name, 'not_revertible');
      else if (!listNeededReferences(object, { [name]: { from } }, record).every(hasTarget))
        refuse(name, 'deleted_since');
      else (isStoredAsCustom(field, record) ? decision.custom : decision.values)[name] = stored;
    }
  }
  const isChanged =
    Object.keys(decision.values).length + Object.keys(decision.custom).length > 0 || decision.tagIds !== undefined;
  return { ...decision, kind: isChanged ? 'update' : 'none' };
}

function isIdOfLookup(object: WorkspaceObject, { name, readOnly }: Field): boolean {
  return readOnly === true && name.endsWith('_id') && object.fields.get(name.slice(0, -3))?.lookup !== undefined;
}

/** A built-in field without a column is stored with the custom ones. */
const isStoredAsCustom = (field: Field, record: StoredRecord): boolean =>
  field.custom || !Object.hasOwn(record.values, field.name);

/** Returns undefined if the item of the list no longer exists. */
function toStored(field: Field, value: unknown): StoredValue | undefined {
  if (value === null || value === undefined) return null;
  if (field.items) return field.items.find(({ name }) => name === value)?.id;
  return value as StoredValue;
}

const lastDigits = (number: StoredValue): StoredValue => (number === null ? null : `…${String(number).slice(-4)}`);

function namesOfTags({ tags = [] }: WorkspaceObject, applied: readonly AppliedTag[] = []): string[] {
  const ids = new Set(applied.map(({ tagId }) => tagId));
  return tags.filter(({ id }) => ids.has(id)).map(({ name }) => name);
}

const isSameSet = (names: readonly string[], other: unknown): boolean =>
  isSame([...names].sort(), Array.isArray(other) ? [...other].sort() : []);

/** Read-only fields that also refer to records. */
const derivedReferences: Readonly<Record<string, 'customer' | 'lead'>> = {
  'leads.converted_customer_id': 'customer',
  'customers.lead_id': 'lead',
};

/**
 * Returns the references among the former values of fields.
 * @param record the current record, which names the object that a task refers to
 */
export function listNeededReferences(
  object: WorkspaceObject,
  fields: Readonly<Record<string, { from: unknown }>>,
  record: Pick<StoredRecord, 'values'> | undefined,
): NeededReference[] {
  return Object.entries(fields).flatMap(([name, { from }]): NeededReference[] => {
    if (typeof from !== 'string') return [];
    if (object.object === 'tasks' && name === 'record_id') {
      const target = fields.object ? fields.object.from : record?.values.object;
      return typeof target === 'string' ? [{ field: name, kind: 'record', value: from, object: target }] : [];
    }
    const kind = object.fields.get(name)?.reference ?? derivedReferences[`${object.object}.${name}`];
    return kind ? [{ field: name, kind, value: from }] : [];
  });
}

const order = ['accounts', 'customers', 'leads', 'deals', '', 'tasks', 'activities'];
const kinds: readonly RevertKind[] = ['restore', 'update', 'trash'];

/**
 * Returns the step of a revert in which an item is undone. A record is restored before the records
 * that belong to it, and moved to the trash after them.
 */
export function computeStep(kind: RevertKind, object: string): number {
  const place = order.indexOf(order.includes(object) ? object : '');
  return kinds.indexOf(kind) * 10 + (kind === 'trash' ? order.length - 1 - place : place);
}

/** Returns true for the steps in which records are restored. */
export const isRestoration = (step: number): boolean => step < 10;

/** Returns the scopes that are required to undo an item. */
export function listStepScopes(kind: RevertKind, { module }: Pick<WorkspaceObject, 'module'>): string[] {
  const actions = { restore: ['create', 'edit', 'delete'], update: ['edit'], trash: ['delete'] } as const;
  return actions[kind].map((action) => `${module}:${action}`);
}
