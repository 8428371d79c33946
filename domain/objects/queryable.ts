// The fields that filters and sorts may name: those published, and three that every record has.

import { commonFields } from './builtin.ts';
import type { FieldProblem } from './field-values.ts';
import { closest } from './suggestions.ts';
import type { Field, WorkspaceObject } from './workspace.ts';

const common: ReadonlyMap<string, Field> = new Map(
  commonFields.map(({ options: _, ...field }) => [field.name, { ...field, custom: false, required: false }]),
);

/** A field that may be filtered and sorted by, or undefined. */
export function queryableField(object: WorkspaceObject, name: string): Field | undefined {
  return common.get(name) ?? object.fields.get(name);
}

const createdBy: Field = { name: 'created_by', label: 'Created by', type: 'text', custom: false, required: false };

/** A field that can be filtered by: a queryable one, the creator of the record, or its tags. */
export function filterableField(object: WorkspaceObject, name: string): Field | undefined {
  return queryableField(object, name) ?? furtherFilterable(object).find((field) => field.name === name);
}

/** The fields that records can be filtered by, but not sorted by. */
function furtherFilterable(object: WorkspaceObject): Field[] {
  const tags = tagsField(object);
  return [createdBy, ...(tags ? [tags] : [])];
}

/** The tags of records as filters and reports name them; undefined if records of the object have none. */
export function tagsField({ tags }: WorkspaceObject): Field | undefined {
  return tags && { ...tagsOfRecords, items: tags };
}

const tagsOfRecords = {
  name: 'tags',
  label: 'Tags',
  type: 'select',
  custom: false,
  required: false,
  isMultiple: true,
} as const;

/** Their names: those that every record has, and the object's own in the order of its schema. */
export function queryableNames(object: WorkspaceObject): string[] {
  return [...common.keys(), ...object.fields.keys()];
}

/** The names of the fields that records can be filtered by. */
export function filterableNames(object: WorkspaceObject): string[] {
  return [...new Set([...queryableNames(object), ...furtherFilterable(object).map(({ name }) => name)])];
}

/** The problem of a parameter that names a field which the object does not have. */
export function unknownField(parameter: string, name: string, object: WorkspaceObject): FieldProblem {
  const names = parameter === 'filter' ? filterableNames(object) : queryableNames(object);
  const meant = closest(name, names);
  return {
    field: quoteName(name),
    code: 'UNKNOWN_FIELD',
    message: `${parameter}: ${quoteName(name)} is not a field of ${object.object}.`,
    allowed: names.slice(0, 50),
    ...(meant ? { did_you_mean: meant } : {}),
  };
}

/** A name as messages repeat it: cut, since it comes from the caller. */
export function quoteName(name: string): string {
  return name.length > 60 ? `${name.slice(0, 60)}…` : name;
}
