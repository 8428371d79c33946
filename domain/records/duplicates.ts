// The values by which a new record is compared with stored ones, and repeats within a batch.
import { buildFieldProblem, type FieldProblem, type StoredValue } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord } from './draft.ts';

/** A field, and the value of a duplicate in it. */
export interface DuplicateField {
  field: string;
  custom: boolean;
  /** The value is the id of an item of a configured list. */
  lookup: boolean;
  value: string | number | boolean;
}

/**
 * A stored record that has the same values in all fields of one set is a duplicate.
 * @param always a field that counts by itself, regardless of the tenant's selection
 * @returns no sets if the tenant does not check this object, or if no selected field has a value
 */
export function buildDuplicateSets(
  object: WorkspaceObject,
  workspace: Workspace,
  values: Record<string, StoredValue>,
  custom: Record<string, StoredValue>,
  always?: string,
): DuplicateField[][] {
  const check = workspace.duplicateChecks.find((each) => each.object === object.object && each.enabled);
  if (!check) return [];
  const selected = listComparedFields(object, values, custom, check.fields);
  const alone =
    always === undefined || (selected.length === 1 && check.fields.includes(always))
      ? []
      : listComparedFields(object, values, custom, [always]);
  return [selected, alone].filter((set) => set.length > 0);
}

/** Returns those of the fields that have a value, with the value. */
export function listComparedFields(
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

/**
 * Returns problems with the names of fields for duplicate checks. Only fields that a new record can
 * set are allowed.
 */
export function findCheckedFieldProblems(name: string, workspace: Workspace, given: unknown): FieldProblem[] {
  const fields = workspace.objects.get(name)?.fields;
  if (!Array.isArray(given) || !fields) return [];
  const allowed = [...fields.values()].filter((field) => !field.readOnly).map((field) => field.name);
  return given.flatMap((each: unknown, index) => {
    if (typeof each !== 'string' || allowed.includes(each)) return [];
    const path = `fields[${index}]`;
    return fields.has(each)
      ? [buildFieldProblem(path, 'INVALID_OPTION', 'must not be the name of a read-only field', { allowed })]
      : [buildFieldProblem(path, 'UNKNOWN_FIELD', `must be the name of a field of ${name}`, { allowed })];
  });
}

/**
 * Finds the items of a batch that have the same values as an earlier one in every selected field
 * with a value.
 * @returns the earlier item's index by the later one's. Items with problems are ignored, because
 * they are not stored
 */
export function findRepeats(
  object: WorkspaceObject,
  workspace: Workspace,
  items: readonly CheckedRecord[],
): ReadonlyMap<number, number> {
  const repeats = new Map<number, number>();
  const kept: number[] = [];
  for (const [index, item] of items.entries()) {
    if (item.problems.length > 0) continue;
    const [selected] = buildDuplicateSets(object, workspace, item.values, item.custom);
    const earlier =
      selected &&
      kept.find((other) => {
        const { values = {}, custom = {} } = items[other] ?? {};
        return selected.every(({ field, custom: isCustom, value }) => (isCustom ? custom : values)[field] === value);
      });
    if (earlier === undefined) kept.push(index);
    else repeats.set(index, earlier);
  }
  return repeats;
}
