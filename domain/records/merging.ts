// Joins the fields of two records of an object that are merged.
import { buildFieldProblem, type FieldProblem, type StoredValue } from '../objects/field-values.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';
import { sendAtLeastOneOf } from '../service/messages.ts';
import type { StoredRecord } from './draft.ts';
import { showRecord } from './view.ts';

/** The objects whose records can be merged, apart from custom objects. */
const mergeable = new Set(['leads', 'deals', 'customers', 'accounts']);

export const isMergeable = ({ object, kind }: WorkspaceObject): boolean => kind === 'custom' || mergeable.has(object);

export type Choice = 'source' | 'target';

type Patch = Record<string, StoredValue>;

/** The changes of the target's fields, in stored form, and the fields that differed, as the API shows them. */
export interface JoinedFields {
  values: Patch;
  custom: Patch;
  fields: { field: string; source: StoredValue; target: StoredValue; chosen: Choice }[];
  problems: FieldProblem[];
}

/** Fields that follow another one, because they say when or whether it was reached. */
const companions: Readonly<Record<string, readonly string[]>> = { stage: ['stage_changed_at', 'won_at', 'lost_at'] };

/**
 * Decides the value of every field: that of the target, or if it is empty that of the source, unless
 * `choices` says otherwise.
 * @param unusable fields whose value in the source no longer exists: an inactive owner, a deleted record
 */
export function joinFields(
  object: WorkspaceObject,
  source: StoredRecord,
  target: StoredRecord,
  choices: Readonly<Record<string, Choice>>,
  unusable: ReadonlySet<string>,
  now: Date,
): JoinedFields {
  const joined: JoinedFields = { values: {}, custom: {}, fields: [], problems: findUnknown(object, choices) };
  const [shownSource, shownTarget] = [showRecord(object, source), showRecord(object, target)];
  const after: Record<string, StoredValue> = {};
  for (const [name, field] of object.fields) {
    if (field.readOnly) continue;
    const [from, to] = [storedValue(source, field), storedValue(target, field)];
    const isEmpty = to === null && from !== null && !unusable.has(name);
    const isFilled = hasOwnExtension(object, field) ? isOfSource(object, after, source, target) : isEmpty;
    const chosen = (Object.hasOwn(choices, name) ? choices[name] : undefined) ?? (isFilled ? 'source' : 'target');
    const value = chosen === 'source' ? from : to;
    after[name] = value;
    if (chosen === 'source' && from !== null && unusable.has(name))
      joined.problems.push(
        buildFieldProblem(
          `field_choices.${name}`,
          'NOT_FOUND',
          'is source, whose value refers to something that is gone',
        ),
      );
    if (field.required && value === null && to !== null)
      joined.problems.push(
        buildFieldProblem(`field_choices.${name}`, 'REQUIRED', 'must not leave a required field empty'),
      );
    if (from === to) continue;
    joined.fields.push({
      field: name,
      source: shownSource[name] ?? null,
      target: shownTarget[name] ?? null,
      chosen,
    });
    if (chosen === 'target') continue;
    (isInValues(source, field) ? joined.values : joined.custom)[name] = value;
    for (const other of companions[name] ?? []) joined.values[other] = source.values[other] ?? null;
  }
  const oneOf = object.oneOf.filter((name) => object.fields.has(name));
  if (oneOf.length > 0 && oneOf.every((name) => (after[name] ?? null) === null))
    joined.problems.push({
      field: `field_choices.${oneOf[0]}`,
      code: 'REQUIRED',
      message: sendAtLeastOneOf(oneOf),
    });
  Object.assign(joined.values, joinDerived(source.values, target.values, now));
  return joined;
}

/** Returns true for the field with the extension of the record's phone number. */
const hasOwnExtension = (object: WorkspaceObject, { name, custom }: Field): boolean =>
  name === 'extension' && !custom && [...object.fields.values()].some((field) => field.keepsExtension);

/**
 * Returns true if the extension of the merged record is that of the source: an extension follows its
 * number.
 * @param after the values of the merged record so far, with its numbers
 */
function isOfSource(
  object: WorkspaceObject,
  after: Readonly<Record<string, StoredValue>>,
  source: StoredRecord,
  target: StoredRecord,
): boolean {
  const numbers = [...object.fields.values()].filter((field) => field.keepsExtension).map(({ name }) => name);
  const hasKeptNumber = ({ values }: StoredRecord) =>
    numbers.some((name) => (after[name] ?? null) !== null && after[name] === values[name]);
  const [isNumberGone, isEmpty] = [!hasKeptNumber(target), (target.values.extension ?? null) === null];
  return hasKeptNumber(source) ? isNumberGone || isEmpty : isNumberGone && isEmpty;
}

const isInValues = (record: StoredRecord, { custom, name }: Field): boolean => !custom && name in record.values;

function storedValue(record: StoredRecord, field: Field): StoredValue {
  const values = isInValues(record, field) ? record.values : record.custom;
  return Object.hasOwn(values, field.name) ? (values[field.name] ?? null) : null;
}

/** Returns the changes of times and of the conversion: contacts of both count, and a converted source counts as converted. */
function joinDerived(source: StoredRecord['values'], target: StoredRecord['values'], now: Date): Patch {
  const derived: Patch = {};
  const times = (name: string) => [source[name], target[name]].filter((each) => typeof each === 'string').sort();
  const contacted = times('last_contacted_at').at(-1);
  if (contacted !== undefined) derived.last_contacted_at = contacted;
  for (const name of ['next_followup_at', '_planned_followup_at']) {
    const followups = times(name);
    const followup = followups.find((each) => each > now.toISOString()) ?? followups.at(-1);
    if (followup !== undefined) derived[name] = followup;
  }
  if ((target.converted_at ?? null) === null && (source.converted_at ?? null) !== null)
    for (const name of ['converted_at', 'converted_customer_id']) derived[name] = source[name] ?? null;
  return Object.fromEntries(Object.entries(derived).filter(([name, value]) => value !== (target[name] ?? null)));
}

function findUnknown(object: WorkspaceObject, choices: Readonly<Record<string, Choice>>): FieldProblem[] {
  const writable = [...object.fields.values()].filter(({ readOnly }) => !readOnly).map(({ name }) => name);
  return Object.keys(choices).flatMap((name) => {
    const path = `field_choices.${name}`;
    if (object.fields.get(name)?.readOnly) return [buildFieldProblem(path, 'READ_ONLY', 'is read-only')];
    if (object.fields.has(name)) return [];
    const meant = findClosest(name, writable);
    return [
      buildFieldProblem(path, 'UNKNOWN_FIELD', `is not a field of ${object.object}`, {
        ...(meant === undefined ? {} : { allowed: [meant], meant }),
      }),
    ];
  });
}

/** Returns the fields that a merge changed, in stored form, before and after it. */
export function listMergeChanges(before: StoredRecord, after: StoredRecord) {
  const differing = (from: StoredRecord['values'], to: StoredRecord['values']) =>
    Object.fromEntries(
      [...new Set([...Object.keys(from), ...Object.keys(to)])]
        .map((name) => [name, { from: from[name] ?? null, to: to[name] ?? null }] as const)
        .filter(([, change]) => change.from !== change.to),
    );
  return { values: differing(before.values, after.values), custom: differing(before.custom, after.custom) };
}

type MergeChanges = ReturnType<typeof listMergeChanges>;

/**
 * Returns what the undo of a merge writes to the target. A field that was written since keeps its
 * value.
 * @param gone the ids of records to which the target referred before, and that no longer exist
 */
export function revertFields(
  object: WorkspaceObject,
  current: StoredRecord,
  changes: MergeChanges,
  gone: ReadonlySet<StoredValue>,
): Pick<JoinedFields, 'values' | 'custom'> & { kept: string[] } {
  const kept: string[] = [];
  const revert = (changed: MergeChanges['values'], now: StoredRecord['values']): Patch =>
    Object.fromEntries(
      Object.entries(changed).flatMap(([name, { from, to }]) => {
        if ((now[name] ?? null) === to && !gone.has(from)) return [[name, from] as const];
        if (object.fields.has(name) && (now[name] ?? null) !== from) kept.push(name);
        return [];
      }),
    );
  const values = revert(changes.values, current.values);
  return { values, custom: revert(changes.custom, current.custom), kept };
}
