// Which stored records a new one would duplicate, as sets of fields to compare.
import { type FieldProblem, fieldProblem, type StoredValue } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';

/** A field and the value that a duplicate has in it. */
export interface DuplicateField {
  field: string;
  custom: boolean;
  /** The value is the id of an item of a configured list. */
  lookup: boolean;
  value: string | number | boolean;
}

/**
 * A stored record that has the same values in all fields of one set is a duplicate.
 * @param always a field that counts by itself, whatever fields the tenant selected
 * @returns no sets when the tenant does not check this object, or when no selected field has a value
 */
export function duplicateSets(
  object: WorkspaceObject,
  workspace: Workspace,
  values: Record<string, StoredValue>,
  custom: Record<string, StoredValue>,
  always?: string,
): DuplicateField[][] {
  const check = workspace.duplicateChecks.find((each) => each.object === object.object && each.enabled);
  if (!check) return [];
  const selected = comparedFields(object, values, custom, check.fields);
  const alone =
    always === undefined || (selected.length === 1 && check.fields.includes(always))
      ? []
      : comparedFields(object, values, custom, [always]);
  return [selected, alone].filter((set) => set.length > 0);
}

/** Those of the fields that have a value, with it. */
export function comparedFields(
  object: WorkspaceObject,
  values: Record<string, StoredValue>,
  custom: Record<string, StoredValue>,
  names: readonly string[],
): DuplicateField[] {
  return names.flatMap((name) => {
    const field = object.fields.get(name);
    const value = (field?.custom ? custom : values)[name] ?? null;
    return field && value !== null
      ? [{ field: name, custom: field.custom, lookup: field.lookup !== undefined, value }]
      : [];
  });
}

/** Problems of the names of fields that new records are to be compared by; only what a new record can be given counts. */
export function checkedFieldProblems(name: string, workspace: Workspace, given: unknown): FieldProblem[] {
  const fields = workspace.objects.get(name)?.fields;
  if (!Array.isArray(given) || !fields) return [];
  const allowed = [...fields.values()].filter((field) => !field.readOnly).map((field) => field.name);
  return given.flatMap((each: unknown, index) => {
    if (typeof each !== 'string' || allowed.includes(each)) return [];
    const path = `fields[${index}]`;
    return fields.has(each)
      ? [fieldProblem(path, 'INVALID_OPTION', 'names a read-only field, which new records do not have', { allowed })]
      : [fieldProblem(path, 'UNKNOWN_FIELD', `names no field of ${name}`, { allowed })];
  });
}
