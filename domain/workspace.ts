// A tenant's configuration as the handlers see it: objects with their published fields, and the configured lists.
import {
  type BuiltinField,
  builtinObjects,
  customObjectName,
  type FieldOption,
  type FieldType,
  type Lookup,
} from './objects.ts';

/** A field as this tenant has it. */
export interface Field extends Omit<BuiltinField, 'options'> {
  custom: boolean;
  required: boolean;
  /** Options that writes accept; on selects only. */
  options?: readonly FieldOption[];
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
  tags: { id: string; object: string; name: string }[];
  activityTypes: (NamedItem & { icon: string | null; color: string; isSystem: boolean; position: number })[];
  taskTypes: (NamedItem & { position: number })[];
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
      fields: publishedFields(builtin.object, builtin.fields, rows),
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
      fields: publishedFields(object, [customObjectName], rows),
    });
  }
  return { ...rows, objects, rows };
}

function publishedFields(
  object: string,
  builtins: readonly BuiltinField[],
  rows: WorkspaceRows,
): ReadonlyMap<string, Field> {
  const fields = new Map<string, Field>();
  const overrides = new Map(rows.fieldOverrides.filter((row) => row.object === object).map((row) => [row.name, row]));
  for (const builtin of builtins) {
    const override = overrides.get(builtin.name);
    if (override?.enabled === false) continue;
    const options = builtin.lookup ? optionsOf(builtin.lookup, rows) : builtin.options;
    fields.set(builtin.name, {
      ...builtin,
      custom: false,
      label: override?.label ?? builtin.label,
      required: override?.required ?? builtin.required ?? false,
      ...(options ? { options } : {}),
    });
  }
  const builtinNames = new Set(builtins.map((builtin) => builtin.name));
  for (const custom of rows.customFields) {
    if (custom.object !== object || !custom.enabled || builtinNames.has(custom.name)) continue;
    fields.set(custom.name, {
      name: custom.name,
      label: custom.label,
      type: custom.type,
      custom: true,
      required: custom.required,
      ...(custom.options
        ? { options: custom.options.filter((option) => !option.retired).map(({ label, value }) => ({ label, value })) }
        : {}),
    });
  }
  return fields;
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
