// A tenant's configuration: objects with their published fields, and the configured lists.
import {
  type BuiltinField,
  builtinObjects,
  customObjectName,
  type FieldOption,
  type FieldType,
  findBuiltinObject,
  type Lookup,
} from './builtin.ts';
import type { NamedItem, WorkspaceRows } from './configuration.ts';
import { foldName } from './name-folding.ts';
import { type CountryCode, findCallingCountry } from './phone-numbers.ts';

/** A field in this tenant. */
export interface Field extends Omit<BuiltinField, 'options'> {
  custom: boolean;
  required: boolean;
  /** Options that writes accept; only on selects. */
  options?: readonly FieldOption[];
  /** The configured list with the options, including items that writes no longer accept. */
  items?: readonly NamedItem[];
  /** The options of a custom select, including retired ones. */
  keptOptions?: readonly FieldOption[];
  /** No two records of a mode have the same value; only on custom fields. */
  unique?: boolean;
  /** True if a record can have several of the items, such as tags. */
  isMultiple?: boolean;
  /**
   * The country of numbers without a country code; on phone fields, if the tenant's country is
   * known.
   */
  country?: CountryCode;
  /** On phone fields: the record has a field for the extension of the number. */
  keepsExtension?: true;
}

/** A field, published or not. */
export interface ConfiguredField extends Field {
  enabled: boolean;
}

/** A tag that records of an object can have. */
interface ObjectTag extends NamedItem {
  /** Added and removed by its conditions. */
  isAutomatic: boolean;
}

export interface WorkspaceObject {
  object: string;
  label: string;
  plural: string;
  kind: 'builtin' | 'custom';
  /** The module of its scopes: `leads`, or `object:visits`. */
  module: string;
  /**
   * Published fields by name, in order: enabled ones, and custom ones that do not collide with a
   * built-in one.
   */
  fields: ReadonlyMap<string, Field>;
  oneOf: readonly string[];
  /** In display order; undefined for an object whose records have none. */
  tags?: readonly ObjectTag[];
}

export interface Workspace extends Omit<WorkspaceRows, 'customObjects' | 'customFields' | 'fieldOverrides'> {
  /** Visible objects by API name: built-ins, then enabled custom ones. */
  objects: ReadonlyMap<string, WorkspaceObject>;
  rows: WorkspaceRows;
}

const taggedObjects: ReadonlySet<string> = new Set(['leads', 'customers']);

function listObjectTags(object: string, rows: WorkspaceRows): ObjectTag[] {
  return rows.tags
    .filter((tag) => tag.object === object)
    .map(({ id, name, conditions }) => ({ id, name, isActive: true, isAutomatic: conditions.length > 0 }));
}

/** Combines the built-in objects with the tenant's changes and additions. */
export function buildWorkspace(rows: WorkspaceRows): Workspace {
  const objects = new Map<string, WorkspaceObject>();
  for (const builtin of builtinObjects) {
    objects.set(builtin.object, {
      object: builtin.object,
      label: builtin.label,
      plural: builtin.plural,
      kind: 'builtin',
      module: builtin.object,
      oneOf: builtin.oneOf ?? [],
      fields: publishedFields(builtin.object, rows),
      ...(taggedObjects.has(builtin.object) ? { tags: listObjectTags(builtin.object, rows) } : {}),
    });
  }
  for (const custom of rows.customObjects) {
    if (!custom.enabled) continue;
    const object = `object:${custom.slug}`;
    objects.set(object, {
      object,
      label: custom.label,
      plural: custom.plural,
      kind: 'custom',
      module: object,
      oneOf: [],
      fields: publishedFields(object, rows),
    });
  }
  return { ...rows, objects, rows };
}

/** Returns a built-in object in this tenant. */
export function getBuiltinObject(
  name: 'leads' | 'deals' | 'customers' | 'accounts',
  workspace: Workspace,
): WorkspaceObject {
  const object = workspace.objects.get(name);
  if (!object) throw new Error(`every workspace has ${name}`);
  return object;
}

/** Returns the initial built-in fields of an object. */
export function listBuiltinFields(object: string): readonly BuiltinField[] {
  return findBuiltinObject(object)?.fields ?? [customObjectName];
}

/**
 * Returns all fields of an object, including disabled ones. A built-in field takes precedence over
 * a custom field of the same name.
 */
export function listConfiguredFields(object: string, rows: WorkspaceRows): ConfiguredField[] {
  const builtins = listBuiltinFields(object);
  const country = findCallingCountry(rows.country);
  const dialled = (type: FieldType) => (type === 'phone' && country ? { country } : {});
  const overrides = new Map(rows.fieldOverrides.filter((row) => row.object === object).map((row) => [row.name, row]));
  const hasExtension =
    builtins.some(({ name }) => name === 'extension') && overrides.get('extension')?.enabled !== false;
  const fields: ConfiguredField[] = builtins.map((builtin) => {
    const override = overrides.get(builtin.name);
    const items = builtin.lookup && lookupItems(builtin.lookup, rows);
    const options = items ? toOptions(items) : builtin.options;
    return {
      ...builtin,
      custom: false,
      label: override?.label ?? builtin.label,
      required: override?.required ?? builtin.required ?? false,
      enabled: override?.enabled ?? true,
      ...(options ? { options } : {}),
      ...(items ? { items } : {}),
      ...dialled(builtin.type),
      ...(builtin.type === 'phone' && hasExtension ? { keepsExtension: true } : {}),
    };
  });
  const builtinNames = new Set(builtins.map((builtin) => builtin.name));
  for (const custom of rows.customFields) {
    if (custom.object !== object || builtinNames.has(custom.name)) continue;
    fields.push({
      name: custom.name,
      label: custom.label,
      type: custom.type,
      custom: true,
      required: custom.required,
      enabled: custom.enabled,
      unique: custom.unique,
      ...(custom.options
        ? { options: custom.options.filter((option) => !option.retired), keptOptions: custom.options }
        : {}),
      ...dialled(custom.type),
    });
  }
  return fields;
}

function publishedFields(object: string, rows: WorkspaceRows): ReadonlyMap<string, Field> {
  const enabled = listConfiguredFields(object, rows).filter((field) => field.enabled);
  return new Map(enabled.map((field) => [field.name, field]));
}

/** Stages of different pipelines can have the same name, which is one option. */
function toOptions(items: readonly NamedItem[]): FieldOption[] {
  const names = new Set(items.filter((item) => item.isActive).map(({ name }) => name));
  return [...names].map((name) => ({ label: name, value: name }));
}

/** Returns a field with a part of its items. */
export function replaceItems(field: Field, items: readonly NamedItem[]): Field {
  return { ...field, items, options: toOptions(items) };
}

/** Returns the items of a configured list, active or not, in their order. */
function lookupItems(lookup: Lookup, rows: WorkspaceRows): readonly NamedItem[] {
  switch (lookup) {
    case 'sources':
      return rows.sources;
    case 'lead_statuses':
      return rows.statuses.filter((status) => status.object === 'leads');
    case 'deal_pipelines':
      return rows.pipelines;
    case 'deal_stages':
      return rows.statuses.filter((status) => status.object === 'deals');
    case 'task_types':
      return rows.taskTypes;
    case 'activity_types':
      return rows.activityTypes;
  }
}

/** Finds an item of a configured list by its name, ignoring case. */
export function findByName<Item extends { name: string }>(items: readonly Item[], name: string): Item | undefined {
  const trimmed = name.trim();
  // Most callers send a name as it is stored, and folding every name of the list costs more.
  const exact = items.find((item) => item.name === trimmed);
  if (exact) return exact;
  const wanted = foldName(trimmed);
  return items.find((item) => foldName(item.name) === wanted);
}
