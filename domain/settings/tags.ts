// Tags: validation of their definition, and the tags that the data of a record applies.
import { type ComparedRecord, matchesCondition } from '../objects/comparisons.ts';
import type { ConditionLogic, KeptComparison } from '../objects/configuration.ts';
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import type { Condition } from '../objects/filter-tree.ts';
import { checkComparison, toCondition, toResponseComparisonValue } from '../objects/kept-conditions.ts';
import { findQueryableField, listQueryableNames } from '../objects/queryable.ts';
import { isResolved } from '../objects/relative-dates.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import {
  type AppliedTag,
  diffTagNames,
  findManualTags,
  joinTags,
  type TagChange,
  type TagNames,
} from './record-tags.ts';

/**
 * The fields that a tag reads, and when it is applied. Without conditions, it is applied only by
 * hand.
 */
export interface TagRule {
  /** For customers: the fields that the conditions may name. */
  fieldNames: readonly string[];
  conditions: readonly KeptComparison[];
  logic: ConditionLogic;
}

export interface CheckedTagRule {
  rule: TagRule;
  /** Problems that depend on the workspace's configuration. */
  problems: FieldProblem[];
  /** Contradictory fields of the body. */
  contradictions: FieldProblem[];
}

/**
 * Checks the rule of a tag in a body.
 * @param body of any shape; parts that the OpenAPI document rejects are ignored
 * @param before the rule of the stored tag; parts that the body omits stay
 */
export function checkTagRule(
  object: WorkspaceObject,
  body: Readonly<Record<string, unknown>>,
  before: TagRule,
): CheckedTagRule {
  const checked: CheckedTagRule = { rule: before, problems: [], contradictions: [] };
  if (object.object === 'leads') checkLeadTag(object, body, checked);
  else checkCustomerTag(object, body, checked);
  return checked;
}

function checkLeadTag(object: WorkspaceObject, body: Readonly<Record<string, unknown>>, checked: CheckedTagRule): void {
  for (const name of ['conditions', 'condition_logic']) {
    if (body[name] !== undefined)
      checked.problems.push(
        buildFieldProblem(name, 'UNKNOWN_FIELD', 'is not allowed for lead tags. Send the conditions in fields'),
      );
  }
  if (!Array.isArray(body.fields)) return;
  const conditions = readConditions(object, body.fields, 'fields', checked.problems);
  checked.rule = { fieldNames: [], conditions, logic: 'AND' };
}

function checkCustomerTag(
  object: WorkspaceObject,
  body: Readonly<Record<string, unknown>>,
  checked: CheckedTagRule,
): void {
  const { problems } = checked;
  let { fieldNames, conditions, logic } = checked.rule;
  if (Array.isArray(body.fields)) fieldNames = readFieldNames(object, body.fields, problems);
  if (Array.isArray(body.conditions)) {
    conditions = readConditions(object, body.conditions, 'conditions', problems);
    for (const [index, given] of body.conditions.entries()) {
      const name: unknown = isObject(given) ? given.field : undefined;
      if (typeof name === 'string' && findQueryableField(object, name) && !fieldNames.includes(name)) {
        const rule = 'must be one of the names in fields';
        problems.push(buildFieldProblem(`conditions[${index}].field`, 'INVALID_OPTION', rule, { allowed: fieldNames }));
      }
    }
  } else if (body.fields !== undefined) {
    const missing = conditions.filter((condition) => !fieldNames.includes(condition.field));
    if (missing.length > 0) {
      const names = missing.map((condition) => condition.field).join(', ');
      checked.contradictions.push(
        buildFieldProblem('fields', 'CONFLICTING_FIELDS', `must include the fields that conditions use: ${names}`),
      );
    }
  }
  if (body.condition_logic === 'AND' || body.condition_logic === 'OR') logic = body.condition_logic;
  checked.rule = { fieldNames, conditions, logic };
}

function readFieldNames(object: WorkspaceObject, given: readonly unknown[], problems: FieldProblem[]): string[] {
  const names: string[] = [];
  for (const [index, name] of given.entries()) {
    if (typeof name !== 'string') {
      if (isObject(name)) problems.push(buildFieldProblem(`fields[${index}]`, 'INVALID_TYPE', 'must be a string'));
    } else if (findQueryableField(object, name)) names.push(name);
    else {
      const allowed = listQueryableNames(object);
      const rule = `must be the name of a field of ${object.object}`;
      problems.push(
        buildFieldProblem(`fields[${index}]`, 'UNKNOWN_FIELD', rule, { allowed, meant: findClosest(name, allowed) }),
      );
    }
  }
  return names;
}

function readConditions(
  object: WorkspaceObject,
  given: readonly unknown[],
  path: string,
  problems: FieldProblem[],
): KeptComparison[] {
  return given.flatMap((each, index) => {
    const at = { path: `${path}[${index}]`, operator: 'operator', noRelativeDates } as const;
    if (isObject(each)) {
      const { field, operator, value } = each;
      return checkComparison(object, { field, operator, value }, at, problems) ?? [];
    }
    if (typeof each === 'string')
      problems.push(buildFieldProblem(at.path, 'INVALID_TYPE', 'must be a condition: {"field", "operator", "value"}'));
    return [];
  });
}

/** A tag changes only with writes, not with time. */
const noRelativeDates = 'must not be a relative date, because tags only change when a record is written';

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Converts a condition to the API's format. */
export function toConditionResponse(object: WorkspaceObject, kept: KeptComparison): KeptComparison {
  const { field, operator } = kept;
  return { field, operator, value: toResponseComparisonValue(object, kept) };
}

interface AutomaticTag {
  id: string;
  name: string;
  logic: ConditionLogic;
  /** Undefined for conditions that no longer fit the fields; these do not hold. */
  conditions: readonly (Condition | undefined)[];
}

const automatic = new WeakMap<Workspace, Map<string, readonly AutomaticTag[]>>();

/**
 * Returns an object's tags with conditions in display order. Computed once for each state of the
 * configuration.
 */
function listAutomaticTags(object: WorkspaceObject, workspace: Workspace): readonly AutomaticTag[] {
  const known = automatic.get(workspace) ?? new Map<string, readonly AutomaticTag[]>();
  automatic.set(workspace, known);
  const found = known.get(object.object);
  if (found) return found;
  const tags = workspace.tags
    .filter((tag) => tag.object === object.object && tag.conditions.length > 0)
    .map(({ id, name, logic, conditions }) => ({
      id,
      name,
      logic,
      conditions: conditions.map((kept) => {
        const condition = toCondition(object, kept);
        return condition && isResolved(condition) ? condition : undefined;
      }),
    }));
  known.set(object.object, tags);
  return tags;
}

/** Returns the tags that the data of a record applies, in display order. */
function findAutomaticTags(
  object: WorkspaceObject,
  workspace: Workspace,
  record: ComparedRecord,
): { id: string; name: string }[] {
  const holds = (condition: Condition | undefined): boolean =>
    condition !== undefined && matchesCondition(condition, object, record);
  return listAutomaticTags(object, workspace)
    .filter(({ logic, conditions }) => (logic === 'AND' ? conditions.every(holds) : conditions.some(holds)))
    .map(({ id, name }) => ({ id, name }));
}

/** A record with the tags that its data applies. */
export interface TaggedRecord {
  id: string;
  tagIds: readonly string[];
}

/** Records whose tags must be recomputed, and the function that computes them. */
export interface Retagging {
  object: string;
  ids: readonly string[];
  computeTags(records: readonly ComparedRecord[]): readonly TaggedRecord[];
}

/** Returns the new records whose data applies tags, with these tags. */
export function matchTagsOfNew(
  object: WorkspaceObject,
  workspace: Workspace,
  records: readonly Pick<ComparedRecord, 'id' | 'values' | 'custom'>[],
  now: Date,
): TaggedRecord[] {
  return records
    .map((record) => ({ ...record, createdAt: now, updatedAt: now }))
    .map((record) => ({ id: record.id, tagIds: findAutomaticTags(object, workspace, record).map((tag) => tag.id) }))
    .filter(({ tagIds }) => tagIds.length > 0);
}

/**
 * Returns new records with all their tags, added by hand or by their data. Records without tags are
 * omitted.
 */
export function findTagsOfNew(
  object: WorkspaceObject,
  workspace: Workspace,
  records: readonly (Pick<ComparedRecord, 'id' | 'values' | 'custom'> & { manualTagIds?: readonly string[] })[],
  now: Date,
): TagChange[] {
  const automatic = new Map(matchTagsOfNew(object, workspace, records, now).map(({ id, tagIds }) => [id, tagIds]));
  return records.flatMap(({ id, manualTagIds = [] }) => {
    const after = joinTags(manualTagIds, automatic.get(id) ?? []);
    return after.length > 0 ? [{ recordId: id, before: [], after }] : [];
  });
}

/**
 * Returns changed records with their tags before and after; none if the object has no tags.
 * @param changes with the new manual tags, if they change
 */
export function findTagsOfChanged(
  object: WorkspaceObject,
  workspace: Workspace,
  changes: readonly {
    before: { tags?: readonly AppliedTag[] };
    merged: ComparedRecord;
    manualTagIds?: readonly string[];
  }[],
  now: Date,
): TagChange[] {
  const merged = changes.map((change) => change.merged);
  const automatic = new Map(retagChanged(object, workspace, merged, now).map(({ id, tagIds }) => [id, tagIds]));
  return changes.flatMap(({ before: { tags: before }, merged: { id }, manualTagIds }) => {
    const tagIds = automatic.get(id);
    if (!tagIds) return [];
    if (!before) throw new Error('a record was locked without its tags');
    return [{ recordId: id, before, after: joinTags(manualTagIds ?? findManualTags(before), tagIds) }];
  });
}

/**
 * Returns changed records with all tags that their data now applies; none if the object has no tags
 * that could be removed.
 */
function retagChanged(
  object: WorkspaceObject,
  workspace: Workspace,
  records: readonly ComparedRecord[],
  now: Date,
): TaggedRecord[] {
  if (!workspace.tags.some((tag) => tag.object === object.object)) return [];
  return records
    .map((record) => ({ ...record, updatedAt: now > record.updatedAt ? now : record.updatedAt }))
    .map((record) => ({ id: record.id, tagIds: findAutomaticTags(object, workspace, record).map((tag) => tag.id) }));
}

/**
 * Returns records whose tags may change because a field was changed without a write of the record;
 * none if no tag reads it.
 */
export function findRecordsToRetag(
  object: WorkspaceObject,
  workspace: Workspace,
  changed: readonly { id: string; field: string }[],
  now: Date,
): Retagging {
  const looked = new Set(
    workspace.tags
      .filter((tag) => tag.object === object.object)
      .flatMap(({ conditions }) => conditions.map(({ field }) => field)),
  );
  return {
    object: object.object,
    ids: changed.filter(({ field }) => looked.has(field) || looked.has('updated_at')).map(({ id }) => id),
    computeTags: (records: readonly ComparedRecord[]) => retagChanged(object, workspace, records, now),
  };
}

/** A record with recomputed tags. */
export interface RetaggedRecord extends TaggedRecord {
  before: readonly AppliedTag[];
}

/** Returns the names of tags before and after, by the ids of records whose tags changed. */
export function listRetaggedNames(object: WorkspaceObject, records: readonly RetaggedRecord[]): Map<string, TagNames> {
  return new Map(
    records.flatMap(({ id, before, tagIds }) => {
      const after = joinTags(findManualTags(before), tagIds);
      const names = diffTagNames(object, { recordId: id, before, after });
      return names ? [[id, names] as const] : [];
    }),
  );
}

/** What an activity changes on the lead or customer that it is logged on. */
const changedByActivities = new Set(['last_contacted_at', 'next_followup_at', 'updated_at']);

/**
 * Returns the leads or customers whose tags may change because activities were logged, changed or
 * deleted. It is empty if no tag has a condition on fields that activities change.
 */
export function findContactedToRetag(
  object: 'leads' | 'customers',
  workspace: Workspace,
  contacts: readonly { entityType: string; entityId: string }[],
  now: Date,
): Retagging {
  const matters = workspace.tags.some(
    (tag) => tag.object === object && tag.conditions.some(({ field }) => changedByActivities.has(field)),
  );
  const entity = object === 'leads' ? 'lead' : 'customer';
  const contacted = matters ? contacts.filter(({ entityType }) => entityType === entity) : [];
  const described = workspace.objects.get(object);
  return {
    object,
    ids: contacted.map(({ entityId }) => entityId),
    computeTags: (records: readonly ComparedRecord[]) =>
      described ? retagChanged(described, workspace, records, now) : [],
  };
}
