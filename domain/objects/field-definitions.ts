// Definition and changes of fields, and how the API describes a field.
import type { components } from '../../generated/api.ts';
import type { BuiltinField, FieldOption, FieldType } from './builtin.ts';
import type { StoredOption } from './configuration.ts';
import { isFieldName, isReservedName, normalizeName, suggestName, toPlainText } from './field-names.ts';
import type { FieldProblem } from './field-values.ts';
import type { ConfiguredField, Field, WorkspaceObject } from './workspace.ts';

type Schemas = components['schemas'];

/** Options of one select, including removed ones. */
const maxKeptOptions = 1000;

/** Types whose values can be unique. */
const uniqueTypes: ReadonlySet<FieldType> = new Set(['text', 'number', 'email', 'phone', 'url']);

/** A custom field as it is stored. */
export interface FieldDefinition {
  name: string;
  label: string;
  type: FieldType;
  required: boolean;
  options: StoredOption[] | null;
  unique: boolean;
}

/** Changes of a field. Omitted properties stay. */
export interface FieldChange {
  label?: string;
  required?: boolean;
  enabled?: boolean;
  options?: StoredOption[];
  unique?: boolean;
}

/** Converts a field to the API's format. */
export function toFieldDescriptor(field: Field): Schemas['FieldDescriptor'] {
  return {
    name: field.name,
    label: field.label,
    type: field.type,
    required: field.required,
    custom: field.custom,
    unique: field.unique === true,
    ...(field.options ? { options: field.options.map(({ label, value }) => ({ label, value })) } : {}),
    ...(field.readOnly ? { read_only: true as const } : {}),
  };
}

/** Checks the definitions of several new fields of one object, including conflicts between them. */
export function checkDefinitions(
  given: readonly Schemas['FieldCreate'][],
  builtins: readonly BuiltinField[],
): { fields: FieldDefinition[]; problems: FieldProblem[] } {
  const fields: FieldDefinition[] = [];
  const problems: FieldProblem[] = [];
  const names = given.map(({ name }) => normalizeName(name));
  given.forEach((definition, index) => {
    const checked = checkDefinition(definition, builtins, names, `fields[${index}].`);
    problems.push(...checked.problems);
    if (fields.some((field) => field.name === checked.field.name)) {
      const message = `fields[${index}].name must be unique. Another field is named ${checked.field.name}.`;
      problems.push({ field: `fields[${index}].name`, code: 'DUPLICATE', message });
    }
    fields.push(checked.field);
  });
  return { fields, problems };
}

/**
 * Checks the definition of a new field.
 * @param builtins the object's built-in fields, including disabled ones
 * @param existing names of the object's fields
 * @param path the prefix of field names in a problem
 */
export function checkDefinition(
  given: Schemas['FieldCreate'],
  builtins: readonly BuiltinField[],
  existing: readonly string[],
  path = '',
): { field: FieldDefinition; problems: FieldProblem[] } {
  const name = normalizeName(given.name);
  const isTaken = (each: string): boolean =>
    existing.includes(each) || builtins.some((builtin) => builtin.name === each);
  const problems = checkName(given.name, name, isTaken, builtins, `${path}name`);
  const label = checkLabel(given.label, `${path}label`, problems);
  let options: FieldOption[] | null = null;
  if (given.type === 'select') {
    if (given.options) options = checkOptions(given.options, `${path}options`, problems);
    else
      problems.push({
        field: `${path}options`,
        code: 'REQUIRED',
        message: `${path}options is required for the type select.`,
      });
  } else if (given.options) problems.push(noSelect(`${path}options`, given.type));
  if (given.unique && !uniqueTypes.has(given.type)) problems.push(notUnique(`${path}unique`, given.type));
  const { type, required, unique } = given;
  return { field: { name, label, type, required, options, unique }, problems };
}

/** The description of the operation that adds a field lists the reserved names. */
const reservedNamesPage = '/docs#operation/createField';

function checkName(
  given: string,
  name: string,
  isTaken: (name: string) => boolean,
  builtins: readonly BuiltinField[],
  path: string,
): FieldProblem[] {
  if (isReservedName(given)) {
    const hint = `Use ${suggestName(given, isTaken)}, for example. ${reservedNamesPage} lists the reserved names.`;
    return [
      { field: path, code: 'RESERVED_NAME', message: `${path} must not be ${name}, which is a reserved name.`, hint },
    ];
  }
  if (!isFieldName(name)) {
    return [{ field: path, code: 'INVALID_FORMAT', message: `${path} must start with a letter from a to z.` }];
  }
  if (builtins.some((builtin) => builtin.name === name)) {
    return [
      {
        field: path,
        code: 'NAME_COLLISION',
        message: `${path} must not be ${name}, which is a built-in field of this object.`,
      },
    ];
  }
  return [];
}

/** @returns the label without markup; if nothing is left, adds a problem to the list */
export function checkLabel(given: string, path: string, problems: FieldProblem[]): string {
  const label = toPlainText(given);
  if (label === '')
    problems.push({ field: path, code: 'TOO_SHORT', message: `${path} must contain text besides markup.` });
  return label;
}

function checkOptions(
  given: readonly Schemas['FieldOptionInput'][],
  path: string,
  problems: FieldProblem[],
): FieldOption[] {
  const seen = new Set<string>();
  return given.map((option, index) => {
    const label = checkLabel(option.label, `${path}[${index}].label`, problems);
    const normalized = normalizeName(label);
    const value = option.value ?? (/[a-z0-9]/.test(normalized) ? normalized : label);
    if (value !== '' && seen.has(value.toLowerCase())) {
      const message = `${path}[${index}].value must be unique. Another option has the value ${value}.`;
      problems.push({ field: `${path}[${index}].value`, code: 'DUPLICATE', message });
    }
    seen.add(value.toLowerCase());
    return { label, value };
  });
}

const noSelect = (path: string, type: FieldType): FieldProblem => ({
  field: path,
  code: 'CONFLICTING_FIELDS',
  message: `options is not allowed for the type ${type}.`,
});

const notUnique = (path: string, type: FieldType): FieldProblem => ({
  field: path,
  code: 'CONFLICTING_FIELDS',
  message: `unique is not allowed for the type ${type}.`,
});

/**
 * Checks a change of a field.
 * @param object the object with its published fields
 * @param stored the options of a custom select, including removed ones
 */
export function checkChange(
  given: Schemas['FieldPatch'],
  field: ConfiguredField,
  object: WorkspaceObject,
  stored: readonly StoredOption[],
): { change: FieldChange; problems: FieldProblem[] } {
  const change: FieldChange = {};
  const problems: FieldProblem[] = [];
  const refuse = (name: string, message: string) => problems.push({ field: name, code: 'RULE_FAILED', message });
  if (given.label !== undefined) change.label = checkLabel(given.label, 'label', problems);
  if (given.required !== undefined) {
    change.required = given.required;
    if (given.required !== field.required) {
      if (field.readOnly) refuse('required', `${field.name} is read-only and cannot be required.`);
      else if (field.locked) refuse('required', `${field.name} is a mandatory field of ${object.object}.`);
    }
  }
  if (given.enabled !== undefined) {
    change.enabled = given.enabled;
    if (!given.enabled) {
      const reason = whyIndispensable(field, object);
      if (reason) refuse('enabled', reason);
    }
  }
  if (given.unique !== undefined) {
    change.unique = given.unique;
    if (given.unique && !field.custom) refuse('unique', 'Only custom fields can be unique.');
    else if (given.unique && !uniqueTypes.has(field.type)) problems.push(notUnique('unique', field.type));
  }
  if (given.options !== undefined) {
    if (field.type !== 'select') problems.push(noSelect('options', field.type));
    else if (!field.custom) refuse('options', `The options of ${field.name} cannot be changed with this operation.`);
    else change.options = keptOptions(checkOptions(given.options, 'options', problems), stored, problems);
  }
  return { change, problems };
}

/** Returns why a field cannot be disabled; undefined if it can. */
function whyIndispensable(field: ConfiguredField, object: WorkspaceObject): string | undefined {
  if (object.kind === 'custom') return 'Fields of custom objects cannot be disabled.';
  if (field.locked) return `${field.name} is a mandatory field of ${object.object}.`;
  if (!object.oneOf.includes(field.name)) return undefined;
  const others = object.oneOf.filter((name) => name !== field.name);
  return others.some((name) => object.fields.has(name))
    ? undefined
    : `${field.name} cannot be disabled while ${others.join(', ')} is disabled.`;
}

/**
 * Returns the new options, followed by the removed ones, so that records that have them stay
 * readable.
 */
function keptOptions(
  options: readonly FieldOption[],
  stored: readonly StoredOption[],
  problems: FieldProblem[],
): StoredOption[] {
  const values = new Set(options.map((option) => option.value));
  const removed = stored.filter((option) => !values.has(option.value));
  const kept = [...options, ...removed.map(({ label, value }) => ({ label, value, retired: true }))];
  if (kept.length > maxKeptOptions) {
    const message = `options must have at most ${maxKeptOptions} items, including removed ones.`;
    problems.push({ field: 'options', code: 'TOO_LONG', message });
  }
  return kept;
}
