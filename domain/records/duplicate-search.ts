// Finds stored records that a new one would duplicate, and the fields with the same values.

import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import type { Filter } from '../objects/filter.ts';
import { toTextForm } from '../objects/filter-values.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from './draft.ts';
import { buildDuplicateSets, type DuplicateField, listComparedFields } from './duplicates.ts';
import { checkRecord } from './values.ts';
import { readBuiltinValues } from './view.ts';

export interface DuplicateQuestion {
  /** A record that has the same values in all fields of one set is a duplicate. */
  sets: readonly (readonly DuplicateField[])[];
  problems: FieldProblem[];
}

/** @param names fields to compare instead of those that the workspace selected */
export function readQuestion(
  object: WorkspaceObject,
  record: Record<string, unknown>,
  names: readonly string[] | undefined,
  workspace: Workspace,
  now: Date,
): DuplicateQuestion {
  const checked = checkRecord(object, record, 'create', workspace, now);
  // The search also works before all required fields are filled.
  const problems = checked.problems
    .filter((each) => each.code !== 'REQUIRED')
    .map((each) => ({ ...each, field: `record.${each.field}` }));
  if (names) problems.push(...unknownNames(object, names));
  else if (!hasCheck(object))
    problems.push(
      buildFieldProblem(
        'fields',
        'REQUIRED',
        `is required, because the workspace has no duplicate check for ${object.object}`,
      ),
    );
  return { sets: buildSets(object, checked, names, workspace), problems };
}

const hasCheck = ({ object }: WorkspaceObject): boolean => object === 'leads' || object === 'deals';

function buildSets(
  object: WorkspaceObject,
  { values, custom }: CheckedRecord,
  names: readonly string[] | undefined,
  workspace: Workspace,
): readonly (readonly DuplicateField[])[] {
  if (names) return [listComparedFields(object, values, custom, names)].filter((set) => set.length > 0);
  // Lead intake always rejects the same address.
  return buildDuplicateSets(object, workspace, values, custom, object.object === 'leads' ? 'email' : undefined);
}

function unknownNames(object: WorkspaceObject, names: readonly string[]): FieldProblem[] {
  const allowed = [...object.fields.values()].filter((field) => !field.readOnly).map((field) => field.name);
  return [...names.entries()].flatMap(([index, name]) =>
    allowed.includes(name)
      ? []
      : [
          buildFieldProblem(
            `fields[${index}]`,
            'INVALID_OPTION',
            `must be the name of a writable field of ${object.object}`,
            {
              allowed,
              meant: findClosest(name, allowed),
            },
          ),
        ],
  );
}

/** Returns a filter for duplicates; undefined if there is nothing to compare. */
export function buildDuplicateFilter(sets: DuplicateQuestion['sets']): Filter | undefined {
  if (sets.length === 0) return undefined;
  const equal = ({ field, custom, value }: DuplicateField) => ({
    field,
    op: 'eq' as const,
    value: custom || typeof value === 'boolean' ? toTextForm(value) : value,
  });
  return { or: sets.map((set) => ({ and: set.map(equal) })) };
}

/** Returns the fields in which a found record has the same value. */
export function findMatchedFields(
  object: WorkspaceObject,
  sets: DuplicateQuestion['sets'],
  record: StoredRecord,
): string[] {
  const values = { ...record.custom, ...readBuiltinValues(object, record) };
  const same = sets.filter((set) => set.every(({ field, value }) => values[field] === value));
  return [...new Set(same.flatMap((set) => set.map(({ field }) => field)))];
}
