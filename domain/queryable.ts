// The fields that filters and sorts may name: what the object publishes, and the three that every record has.
import { commonFields } from './objects.ts';
import type { Field, WorkspaceObject } from './workspace.ts';

const common: ReadonlyMap<string, Field> = new Map(
  commonFields.map(({ options: _, ...field }) => [field.name, { ...field, custom: false, required: false }]),
);

/** A field that may be filtered and sorted by, or undefined. */
export function queryableField(object: WorkspaceObject, name: string): Field | undefined {
  return common.get(name) ?? object.fields.get(name);
}

/** Their names, in the order of the schema. */
export function queryableNames(object: WorkspaceObject): string[] {
  return [...object.fields.keys(), ...common.keys()];
}

/** A name as messages repeat it: cut, since it comes from the caller. */
export function shown(name: string): string {
  return name.length > 60 ? `${name.slice(0, 60)}…` : name;
}
