// A tenant's configuration as the handlers see it: objects with their published fields, and the configured lists.
import type { KeptComparison } from './kept-conditions.ts';
import {
  type BuiltinField,
  builtinObject,
  builtinObjects,
  customObjectName,
  type FieldOption,
  type FieldType,
  type Lookup,
} from './objects.ts';
import type { PreConditionRule } from './pre-conditions.ts';
import type { SlaPolicy } from './sla-policies.ts';
import type { ConditionLogic } from './tags.ts';

/** A field as this tenant has it. */
export interface Field extends Omit<BuiltinField, 'options'> {
  custom: boolean;
  required: boolean;
  /** Options that writes accept; on selects only. */
  options?: readonly FieldOption[];
}

/** A field whether it is published or not. */
export interface ConfiguredField extends Field {
  enabled: boolean;
}

export interface WorkspaceObject {
  object: string;
  label: string;
  plural: string;
  kind: 'builtin' | 'custom';
  /** The module of its scopes: `leads`, or `object:visits`. */
  module: string;
  /** Published fields by name, in order: enabled ones, custom ones that do not collide with a built-in. */
  fields: ReadonlyMap<string, Field>;
  oneOf: readonly string[];
}

export interface Status {
  id: string;
  object: 'leads' | 'deals';
  name: string;
  outcome: string;
  isActive: boolean;
  position: number;
  /** Fields that a record must have a value in when it enters. */
  preConditionFields: readonly string[];
  /** What else must hold then; names of configured things are kept as ids. */
  preConditionRules: readonly PreConditionRule[];
}

export interface NamedItem {
  id: string;
  name: string;
  /** Accepted on writes. */
  isActive: boolean;
}

/** The rows that a workspace is built from. */
export interface WorkspaceRows {
  currency: string;
  timezone: string;
  /** As given at onboarding: free text, often an ISO code. */
  country: string | null;
  statuses: Status[];
  sources: NamedItem[];
  /** In the order that they are shown. Without conditions they are put on by hand only. */
  tags: { id: string; object: string; name: string; conditions: KeptComparison[]; logic: ConditionLogic }[];
  activityTypes: (NamedItem & { icon: string | null; color: string; isSystem: boolean; position: number })[];
  taskTypes: (NamedItem & { position: number })[];
  /** The oldest first. */
  slaPolicies: SlaPolicy[];
  duplicateChecks: { object: string; enabled: boolean; fields: string[] }[];
  customObjects: { slug: string; label: string; plural: string; enabled: boolean }[];
  customFields: {
    object: string;
    name: string;
    label: string;
    type: FieldType;
    required: boolean;
    options: (FieldOption & { retired?: boolean })[] | null;
    enabled: boolean;
  }[];
  fieldOverrides: {
    object: string;
    name: string;
    label: string | null;
    required: boolean | null;
    enabled: boolean | null;
  }[];
}

export interface Workspace extends Omit<WorkspaceRows, 'customObjects' | 'customFields' | 'fieldOverrides'> {
  /** Visible objects by API name: built-ins, then enabled custom ones. */
  objects: ReadonlyMap<string, WorkspaceObject>;
  rows: WorkspaceRows;
}

/** Joins the built-in objects with what the tenant changed and added. */
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

/** A built-in object as this tenant has it. */
export function builtinOf(name: 'leads' | 'deals' | 'customers' | 'accounts', workspace: Workspace): WorkspaceObject {
  const object = workspace.objects.get(name);
  if (!object) throw new Error(`every workspace has ${name}`);
  return object;
}

/** The built-in fields that an object starts with. */
export function builtinFields(object: string): readonly BuiltinField[] {
  return builtinObject(object)?.fields ?? [customObjectName];
}

/** All fields of an object, those that are switched off included; a built-in wins over a custom field of its name. */
export function configuredFields(object: string, rows: WorkspaceRows): ConfiguredField[] {
  const builtins = builtinFields(object);
  const overrides = new Map(rows.fieldOverrides.filter((row) => row.object === object).map((row) => [row.name, row]));
  const fields: ConfiguredField[] = builtins.map((builtin) => {
    const override = overrides.get(builtin.name);
    const options = builtin.lookup ? optionsOf(builtin.lookup, rows) : builtin.options;
    return {
      ...builtin,
      custom: false,
      label: override?.label ?? builtin.label,
      required: override?.required ?? builtin.required ?? false,
      enabled: override?.enabled ?? true,
      ...(options ? { options } : {}),
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
      ...(custom.options
        ? { options: custom.options.filter((option) => !option.retired).map(({ label, value }) => ({ label, value })) }
        : {}),
    });
  }
  return fields;
}

function publishedFields(object: string, rows: WorkspaceRows): ReadonlyMap<string, Field> {
  const enabled = configuredFields(object, rows).filter((field) => field.enabled);
  return new Map(enabled.map((field) => [field.name, field]));
}

function optionsOf(lookup: Lookup, rows: WorkspaceRows): FieldOption[] {
  return lookupItems(lookup, rows)
    .filter((item) => item.isActive)
    .map((item) => ({ label: item.name, value: item.name }));
}

/** The items of a configured list, active or not, in their order. */
export function lookupItems(
  lookup: Lookup,
  rows: Pick<WorkspaceRows, 'sources' | 'statuses' | 'taskTypes' | 'activityTypes'>,
): readonly NamedItem[] {
  switch (lookup) {
    case 'sources':
      return rows.sources;
    case 'lead_statuses':
      return rows.statuses.filter((status) => status.object === 'leads');
    case 'deal_stages':
      return rows.statuses.filter((status) => status.object === 'deals');
    case 'task_types':
      return rows.taskTypes;
    case 'activity_types':
      return rows.activityTypes;
  }
}

/** Finds an item of a configured list by its name, without case. */
export function findByName<Item extends { name: string }>(items: readonly Item[], name: string): Item | undefined {
  const wanted = name.trim().toLowerCase();
  return items.find((item) => item.name.toLowerCase() === wanted);
}
