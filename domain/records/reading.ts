// The parameters of a read: fields, relations to expand, and the lookups that they need.
import type { components } from '../../generated/api.ts';
import type { Grants } from '../access/scopes.ts';
import { getModuleState, type Modules } from '../billing/plans.ts';
import type { ClockKind, NamedItem } from '../objects/configuration.ts';
import { buildFieldProblem, type FieldProblem, type StoredValue } from '../objects/field-values.ts';
import { buildUnknownFieldProblem, getTagsField, quoteName } from '../objects/queryable.ts';
import {
  listRelations,
  type Relation as ObjectRelation,
  type RelationPath,
  toRelationPath,
} from '../objects/relations.ts';
import { clockedObjects } from '../objects/sla-conditions.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { Field, Workspace, WorkspaceObject } from '../objects/workspace.ts';
import { maxExpansions } from '../service/request-limits.ts';
import type { StoredRecord } from './draft.ts';
import { getRecordLabel } from './label.ts';
import { type ShownRecord, showRecord } from './view.ts';

/**
 * The target of a field: an item of a configured list, a user, or a record of an object that the
 * values determine.
 */
type Target = { items: readonly NamedItem[] } | 'user' | { getObject(values: StoredRecord['values']): string };

interface Relation {
  field: string;
  target: Target;
}

/** The tags of the record, to which no field refers. */
interface TagsRelation {
  field: 'tags';
  target: { tagsOf: string };
}

/** The SLA clocks of the record. */
interface SlaRelation {
  field: 'sla';
  target: { clocksOf: string };
}

/** The records that a record is linked to or refers to, or that refer to it. */
interface LinksRelation {
  field: `links.${string}`;
  target: { linkedBy: ObjectRelation };
}

type ReadRelation = Relation | TagsRelation | SlaRelation | LinksRelation;

const isOfTags = (relation: ReadRelation): relation is TagsRelation =>
  relation.target !== 'user' && 'tagsOf' in relation.target;

const isOfClocks = (relation: ReadRelation): relation is SlaRelation =>
  relation.target !== 'user' && 'clocksOf' in relation.target;

const isOfLinks = (relation: ReadRelation): relation is LinksRelation =>
  relation.target !== 'user' && 'linkedBy' in relation.target;

export interface Reading {
  /** Undefined: all. */
  fields: ReadonlySet<string> | undefined;
  relations: readonly ReadRelation[];
}

const everything: Reading = { fields: undefined, relations: [] };

const always = ['id', 'created_at', 'updated_at'] as const;

const objectOfReference = { lead: 'leads', customer: 'customers', account: 'accounts' } as const;

/** References that are read-only, or to records of more than one object. */
const otherTargets: Readonly<Record<string, Exclude<Target, 'user' | { items: unknown }>>> = {
  'leads.converted_customer_id': { getObject: () => 'customers' },
  'customers.lead_id': { getObject: () => 'leads' },
  'tasks.record_id': { getObject: (values) => String(values.object) },
  'activities.entity_id': { getObject: (values) => `${values.entity_type}s` },
};

function findTarget(object: WorkspaceObject, field: Field): Target | undefined {
  if (field.custom) return undefined;
  if (field.items) return { items: field.items };
  if (field.reference === 'user') return 'user';
  const { reference } = field;
  if (reference) return { getObject: () => objectOfReference[reference] };
  return otherTargets[`${object.object}.${field.name}`];
}

/**
 * Returns the relations of fields whose values are ids. The values of a select are names of its
 * items, not ids.
 */
export function findRelationFields(object: WorkspaceObject, fields: readonly Field[]): Relation[] {
  return fields.flatMap((field) => {
    const listed = [...object.fields.values()].find(({ items, name }) => items && `${name}_id` === field.name);
    const target = listed?.items ? { items: listed.items } : field.items ? undefined : findTarget(object, field);
    return target ? [{ field: field.name, target }] : [];
  });
}

/** Reads the parameters `fields` and `expand`. */
export function parseReading(
  query: { fields?: string; expand?: string },
  object: WorkspaceObject,
  workspace: Workspace,
): { reading: Reading; problems: FieldProblem[] } {
  if (query.fields === undefined && query.expand === undefined) return { reading: everything, problems: [] };
  const problems: FieldProblem[] = [];
  const fields = query.fields === undefined ? undefined : new Set<string>();
  for (const name of namesIn(query.fields)) {
    if (isField(object, name)) fields?.add(name);
    else problems.push(buildUnknownFieldProblem('fields', name, object));
  }
  const relations: ReadRelation[] = [];
  const asked = namesIn(query.expand);
  if (asked.length > maxExpansions)
    problems.push(buildFieldProblem('expand', 'TOO_LONG', `must have at most ${maxExpansions} relations`));
  else for (const name of asked) readRelation(name, object, workspace, relations, problems);
  return { reading: { fields, relations }, problems };
}

/** Returns the problems of names that are no fields of an object's records. */
export function findUnknownFieldProblems(names: readonly string[], object: WorkspaceObject): FieldProblem[] {
  return [...new Set(names)]
    .filter((name) => !isField(object, name))
    .map((name) => buildUnknownFieldProblem('fields', name, object));
}

const isField = (object: WorkspaceObject, name: string): boolean =>
  object.fields.has(name) || always.some((each) => each === name);

const namesIn = (text: string | undefined): string[] => [
  ...new Set((text ?? '').split(',').flatMap((name) => name.trim() || [])),
];

function readRelation(
  name: string,
  object: WorkspaceObject,
  workspace: Workspace,
  relations: ReadRelation[],
  problems: FieldProblem[],
): void {
  const field = object.fields.get(name);
  const target = field && findTarget(object, field);
  if (target) {
    relations.push({ field: name, target });
    return;
  }
  const tags = getTagsField(object);
  if (name === tags?.name) {
    relations.push({ field: 'tags', target: { tagsOf: object.object } });
    return;
  }
  const hasClocks = clockedObjects.has(object.object);
  if (name === 'sla' && hasClocks) {
    relations.push({ field: 'sla', target: { clocksOf: object.object } });
    return;
  }
  const links = listExpandableLinks(object, workspace);
  const link = links.find((each) => each.field === name);
  if (link) {
    relations.push(link);
    return;
  }
  const related = [...object.fields.values()].filter((each) => findTarget(object, each));
  const allowed = [
    ...[...related, ...(tags ? [tags] : [])].map((each) => each.name),
    ...(hasClocks ? ['sla'] : []),
    ...links.map((each) => each.field),
  ];
  const meant = findClosest(name, allowed);
  const kind = name.startsWith('links.') ? 'link type' : 'field';
  const rule = field ? 'is not a relation' : `is not a ${kind} of ${object.object}`;
  problems.push({
    field: 'expand',
    code: 'INVALID_OPTION',
    message: `expand: ${quoteName(name)} ${rule}.`,
    allowed: allowed.slice(0, 50),
    ...(meant === undefined ? {} : { did_you_mean: meant }),
  });
}

/** Returns the links that can be expanded. */
function listExpandableLinks({ object }: WorkspaceObject, workspace: Workspace): LinksRelation[] {
  return listRelations(object, workspace).flatMap((relation) =>
    relation.otherObject === null || workspace.objects.has(relation.otherObject)
      ? [{ field: `links.${relation.name}` as const, target: { linkedBy: relation } }]
      : [],
  );
}

/** The permissions of the caller that decide which objects are visible. */
interface Reader {
  grants: Grants;
  modules: Modules;
}

/**
 * Ids to look up, without duplicates: of users, and of records by object. Only of objects that the
 * reader can view.
 */
export interface Wanted {
  users: readonly string[];
  records: ReadonlyMap<string, readonly string[]>;
  /** Records of one object whose tags are needed. */
  tagged?: { object: string; ids: readonly string[] };
  /** Records of one object whose SLA clocks are needed. */
  clocked?: { object: string; ids: readonly string[] };
  /** Only of other objects that the reader can view. */
  linked?: readonly WantedLinks[];
}

/** Records of one object whose links to records of another are wanted. */
export interface WantedLinks {
  field: string;
  object: string;
  ids: readonly string[];
  path: RelationPath;
  otherObject: string;
  /** How many of each record at most. */
  limit: number;
}

/** Returns the ids to look up for the relations of a read, from these records. */
export function toExpansionRequest(
  { relations }: Reading,
  records: readonly StoredRecord[],
  object: WorkspaceObject,
  workspace: Workspace,
  reader: Reader,
): Wanted {
  const references = relations.flatMap((relation) =>
    isOfTags(relation) || isOfClocks(relation) || isOfLinks(relation) ? [] : [relation],
  );
  const wanted = collectWanted(references, records, workspace, reader);
  const tags = relations.find(isOfTags);
  const clocks = relations.find(isOfClocks);
  const linked = relations
    .filter(isOfLinks)
    .flatMap((relation) => wantedLinks(relation, records, object))
    .filter(({ otherObject, ids }) => ids.length > 0 && isVisible(otherObject, workspace, reader));
  return {
    ...wanted,
    ...(tags ? { tagged: { object: tags.target.tagsOf, ids: records.map(({ id }) => id) } } : {}),
    ...(clocks ? { clocked: { object: clocks.target.clocksOf, ids: records.map(({ id }) => id) } } : {}),
    ...(linked.length > 0 ? { linked } : {}),
  };
}

/**
 * Returns the wanted links by the object on the other side. A task names the object of its record.
 */
function wantedLinks(
  { field, target: { linkedBy } }: LinksRelation,
  records: readonly StoredRecord[],
  { object }: WorkspaceObject,
): WantedLinks[] {
  const path = toRelationPath(linkedBy);
  const byObject = Map.groupBy(records, ({ values }) => linkedBy.otherObject ?? String(values.object));
  return [...byObject].map(([otherObject, of]) => ({
    field,
    object,
    path,
    otherObject,
    ids: of.map(({ id }) => id),
    limit: maxExpandedLinks + 1,
  }));
}

/** Returns the ids to look up for the values of these fields. */
export function collectWanted(
  relations: readonly Relation[],
  records: readonly Pick<StoredRecord, 'values'>[],
  workspace: Workspace,
  reader: Reader,
): Wanted {
  const users = new Set<string>();
  const ids = new Map<string, Set<string>>();
  for (const { field, target } of relations) {
    if (target !== 'user' && 'items' in target) continue;
    for (const { values } of records) {
      const id = values[field] ?? null;
      if (typeof id !== 'string') continue;
      if (target === 'user') users.add(id);
      else {
        const object = target.getObject(values);
        ids.set(object, (ids.get(object) ?? new Set()).add(id));
      }
    }
  }
  const visible = [...ids].filter(([object]) => isVisible(object, workspace, reader));
  return { users: [...users], records: new Map(visible.map(([object, found]) => [object, [...found]])) };
}

/** Returns true for an object of the workspace that the reader may view. */
export function isVisible(object: string, workspace: Workspace, { grants, modules }: Reader): boolean {
  return workspace.objects.has(object) && grants.allows(`${object}:view`) && getModuleState(object, modules) === 'on';
}

export interface Person {
  id: string;
  fullName: string;
  email: string;
}

/** The results of the lookups. Missing entries do not exist for the reader. */
export interface Expansion {
  users: ReadonlyMap<string, Person>;
  records: ReadonlyMap<string, ReadonlyMap<string, StoredRecord>>;
  tags: ShownTags;
  /** By the ids of the records that have any. */
  clocks: ReadonlyMap<string, readonly ShownClock[]>;
  /** By `links.<name>` and the id of the record, of those that have any: newest first, one more than is shown. */
  links: ReadonlyMap<string, ReadonlyMap<string, readonly FoundLink[]>>;
}

/** The running SLA clock of a kind, or the last one if it was met. */
export interface ShownClock {
  policyId: string;
  policyName: string | null;
  kind: ClockKind;
  startedAt: Date;
  dueAt: Date;
  breachedAt: Date | null;
  satisfiedAt: Date | null;
}

/** A related record, with the object that it is of. */
export interface FoundLink {
  object: string;
  record: StoredRecord;
}

/** The links of one name that a record is shown with. */
const maxExpandedLinks = 25;

/** Tags by the ids of the records that have them, in display order. */
export type ShownTags = ReadonlyMap<string, readonly components['schemas']['ExpandedTag'][]>;

type Expanded = NonNullable<components['schemas']['CrmRecord']['expanded']>;

/** Returns a clock with its status at a time. */
function toSlaResponse(clock: ShownClock, now: Date): components['schemas']['ExpandedSla'] {
  const { dueAt, breachedAt, satisfiedAt } = clock;
  const isLate = breachedAt !== null || dueAt <= (satisfiedAt ?? now);
  return {
    policy_id: clock.policyId,
    policy_name: clock.policyName,
    clock: clock.kind,
    status: isLate ? 'breached' : satisfiedAt === null ? 'running' : 'met',
    started_at: clock.startedAt.toISOString(),
    due_at: dueAt.toISOString(),
    breached_at: breachedAt?.toISOString() ?? null,
    met_at: satisfiedAt?.toISOString() ?? null,
  };
}

/**
 * Returns a record with the requested fields and relations.
 * @param now for what depends on the time
 */
export function showRead(
  object: WorkspaceObject,
  record: StoredRecord,
  { fields, relations }: Reading,
  expansion: Expansion,
  workspace: Workspace,
  now: Date,
): components['schemas']['CrmRecord'] {
  const all = showRecord(object, record);
  const shown = fields ? chooseFields(all, fields) : all;
  if (relations.length === 0) return shown;
  const expanded: Expanded = {};
  const links: Record<string, ExpandedLinks> = {};
  for (const relation of relations) {
    if (isOfTags(relation)) Object.assign(expanded, tagsIn(expansion.tags, record));
    else if (isOfClocks(relation))
      Object.assign(expanded, { sla: (expansion.clocks.get(record.id) ?? []).map((each) => toSlaResponse(each, now)) });
    else if (isOfLinks(relation))
      links[relation.target.linkedBy.name] = linksIn(expansion.links.get(relation.field), record, workspace);
    else expanded[relation.field] = expandedValue(record, relation.field, relation.target, expansion, workspace);
  }
  if (relations.some(isOfLinks)) Object.assign(expanded, { links });
  return { ...shown, expanded };
}

type ExpandedLinks = components['schemas']['ExpandedLinks'];

function linksIn(
  found: ReadonlyMap<string, readonly FoundLink[]> | undefined,
  { id }: StoredRecord,
  workspace: Workspace,
): ExpandedLinks {
  const links = found?.get(id) ?? [];
  const items = links.slice(0, maxExpandedLinks).flatMap(({ object: name, record }) => {
    const object = workspace.objects.get(name);
    if (!object) return [];
    const texts = [...object.fields.values()].filter(({ type }) => type === 'text');
    return [{ id: record.id, object: name, label: getRecordLabel(showRecord(object, record), texts) }];
  });
  return { items, has_more: links.length > maxExpandedLinks };
}

const tagsIn = (tags: ShownTags, { id }: StoredRecord) => ({ tags: [...(tags.get(id) ?? [])] });

/** Returns a record with every field and, if the object has tags, with its tags. */
export function showTagged(
  object: WorkspaceObject,
  record: StoredRecord,
  tags: ShownTags,
): components['schemas']['CrmRecord'] {
  const shown = showRecord(object, record);
  const expanded: Expanded = {};
  return object.tags ? { ...shown, expanded: Object.assign(expanded, tagsIn(tags, record)) } : shown;
}

/** Returns a record with some of its fields, and those that every answer has. */
export function chooseFields(record: ShownRecord, fields: ReadonlySet<string>): ShownRecord {
  const { id, created_at, updated_at } = record;
  const shown: ShownRecord = { id, created_at, updated_at };
  for (const name of Object.keys(record)) if (fields.has(name)) shown[name] = record[name] as StoredValue;
  return shown;
}

function expandedValue(
  { values }: StoredRecord,
  field: string,
  target: Target,
  expansion: Expansion,
  workspace: Workspace,
): Expanded[string] {
  const id = values[field];
  if (typeof id !== 'string') return null;
  if (target === 'user') {
    const user = expansion.users.get(id);
    return user ? { id, full_name: user.fullName, email: user.email } : null;
  }
  if ('items' in target) {
    const item = target.items.find((each) => each.id === id);
    return item ? { id, name: item.name } : null;
  }
  const name = target.getObject(values);
  const [object, record] = [workspace.objects.get(name), expansion.records.get(name)?.get(id)];
  return object && record ? showRecord(object, record) : null;
}
