// The record that an upsert identifies: the fields that it matches on, with values in stored form.
import { buildFieldProblem, checkValue, type FieldProblem, isNoValue, toUuid } from '../objects/field-values.ts';
import { toTextForm } from '../objects/filter-values.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';

/** By id, or by the values of fields; an id of null is a record that does not exist yet. */
export type Match = { id: string | null } | { fields: MatchedField[] };

/** A field and the value that it must have, in stored form. */
export interface MatchedField {
  field: string;
  value: string | number;
}

interface ReadMatch {
  match: Match;
  /** The fields to write: all that were sent, without the id if it identifies the record. */
  fields: Record<string, unknown>;
  problems: FieldProblem[];
}

/** Returns problems with the names alone, independent of the records. */
export function findMatchProblems(object: WorkspaceObject, matchOn: readonly string[]): FieldProblem[] {
  if (matchOn.includes('id')) return matchOn.length > 1 ? [idAlone] : [];
  return matchOn.flatMap((name, index) => {
    const field = object.fields.get(name);
    return !field || field.readOnly ? [unmatchable(index, name, object)] : [];
  });
}

const idAlone = buildFieldProblem('match_on', 'CONFLICTING_FIELDS', 'must be either id alone or other fields');

/** The maximum of records in an error about several matches. */
export const namedMatches = 10;

/**
 * @param matchOn names of fields, or only `id`
 * @param inside the path of the record in the body
 */
export function readMatch(
  object: WorkspaceObject,
  record: Record<string, unknown>,
  matchOn: readonly string[],
  inside = 'record.',
): ReadMatch {
  if (matchOn.includes('id')) return matchById(record, matchOn, inside);
  const problems: FieldProblem[] = [];
  const fields: MatchedField[] = [];
  for (const [index, name] of matchOn.entries()) {
    const field = object.fields.get(name);
    if (!field || field.readOnly) problems.push(unmatchable(index, name, object));
    else if (isNoValue(record[name]))
      problems.push(
        buildFieldProblem(`${inside}${name}`, 'REQUIRED', 'is required, because records are matched on it'),
      );
    else {
      const checked = checkValue(field, record[name]);
      if ('value' in checked && checked.value !== null)
        fields.push({ field: name, value: stored(field, checked.value) });
    }
  }
  // A value that does not fit matches nothing. The check of the whole record rejects it.
  const match = fields.length === matchOn.length ? { fields } : { id: null };
  return { match, fields: record, problems };
}

function matchById(record: Record<string, unknown>, matchOn: readonly string[], inside: string): ReadMatch {
  const { id = null, ...fields } = record;
  const problems: FieldProblem[] = [];
  if (matchOn.length > 1) problems.push(idAlone);
  if (id === null) return { match: { id }, fields, problems };
  if (typeof id !== 'string') problems.push(buildFieldProblem(`${inside}id`, 'INVALID_TYPE', 'must be a string'));
  // A value that is not an id is looked up like an id that does not exist.
  return { match: { id: toUuid(String(id)) ?? nobody }, fields, problems };
}

const nobody = '00000000-0000-0000-0000-000000000000';

function unmatchable(index: number, name: string, object: WorkspaceObject): FieldProblem {
  const allowed = ['id', ...[...object.fields.values()].filter((field) => !field.readOnly).map((field) => field.name)];
  const meant = findClosest(name, allowed);
  return buildFieldProblem(
    `match_on[${index}]`,
    'INVALID_OPTION',
    `must be the name of a writable field of ${object.object}`,
    {
      allowed,
      meant,
    },
  );
}

function stored(field: Field, value: string | number | boolean): string | number {
  return field.custom || typeof value === 'boolean' ? toTextForm(value) : value;
}

/** Returns the fields without immutable ones that already have the value. */
export function pickChangeableFields(
  object: WorkspaceObject,
  fields: Record<string, unknown>,
  before: { values: Readonly<Record<string, unknown>> },
): Record<string, unknown> {
  const isKept = ([name, value]: [string, unknown]) =>
    object.fields.get(name)?.immutable === true && value === before.values[name];
  return Object.fromEntries(Object.entries(fields).filter((entry) => !isKept(entry)));
}
