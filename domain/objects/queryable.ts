// The fields that filters and sorts may name: published ones, and three that every record has.

import { commonFields } from './builtin.ts';
import type { FieldProblem } from './field-values.ts';
import { clockedObjects, slaFields } from './sla-conditions.ts';
import { findClosest } from './suggestions.ts';
import type { Field, WorkspaceObject } from './workspace.ts';

const common: ReadonlyMap<string, Field> = new Map(
  commonFields.map(({ options: _, ...field }) => [field.name, { ...field, custom: false, required: false }]),
);

/** Returns a field that filters and sorts may name, or undefined. */
export function findQueryableField(object: WorkspaceObject, name: string): Field | undefined {
  return common.get(name) ?? object.fields.get(name);
}

const actors: readonly Field[] = [
  { name: 'created_by', label: 'Created by', type: 'text', custom: false, required: false },
  { name: 'updated_by', label: 'Updated by', type: 'text', custom: false, required: false },
];

/**
 * Returns a field that filters may name: a queryable one, an actor of the record, its tags, or its
 * SLA deadline.
 */
export function findFilterableField(object: WorkspaceObject, name: string): Field | undefined {
  return findQueryableField(object, name) ?? furtherFilterable(object).find((field) => field.name === name);
}

/** Returns the fields that filters may name, but sorts may not. */
function furtherFilterable(object: WorkspaceObject): Field[] {
  const tags = getTagsField(object);
  return [...actors, ...(tags ? [tags] : []), ...(clockedObjects.has(object.object) ? slaFields : [])];
}

/**
 * Returns the field of tags in filters and reports; undefined if records of the object have none.
 */
export function getTagsField({ tags }: WorkspaceObject): Field | undefined {
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

/**
 * Returns their names: those that every record has, then the object's own in the order of its
 * schema.
 */
export function listQueryableNames(object: WorkspaceObject): string[] {
  return [...common.keys(), ...object.fields.keys()];
}

/** Returns the names of the fields that records can be filtered by. */
export function listFilterableNames(object: WorkspaceObject): string[] {
  return [...new Set([...listQueryableNames(object), ...furtherFilterable(object).map(({ name }) => name)])];
}

/** Returns the problem of a parameter that names an unknown field. */
export function buildUnknownFieldProblem(parameter: string, name: string, object: WorkspaceObject): FieldProblem {
  const names = parameter === 'filter' ? listFilterableNames(object) : listQueryableNames(object);
  const meant = findClosest(name, names);
  return {
    field: quoteName(name),
    code: 'UNKNOWN_FIELD',
    message: `${parameter}: ${quoteName(name)} is not a field of ${object.object}.`,
    allowed: names.slice(0, 50),
    ...(meant ? { did_you_mean: meant } : {}),
  };
}

/** Returns a name for messages, truncated, because it comes from the caller. */
export function quoteName(name: string): string {
  return name.length > 60 ? `${name.slice(0, 60)}…` : name;
}
