// Matches events with webhook subscriptions: by name, own changes and filter.
import { matchesCondition } from '../objects/comparisons.ts';
import type { FieldProblem } from '../objects/field-values.ts';
import { readFilterByVocabulary } from '../objects/filter.ts';
import { type Condition, listLeaves, mapLeaves, matchesTree, type Tree } from '../objects/filter-tree.ts';
import { isResolved } from '../objects/relative-dates.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';
import { type CatalogueEvent, type EventFieldType, eventCatalogue } from './event-catalogue.ts';

/** The matching criteria of a subscription. */
export interface MatchCriteria {
  /** Event names, `record.*` or `*`. */
  events: readonly string[];
  /** As sent by the client; null: no filter. */
  filter: unknown;
  /** Skips events caused by the credential that created the subscription. */
  skipOwn: boolean;
  createdByKind: string;
  createdById: string;
}

/** The fields of an event that are matched. */
export interface MatchableEvent {
  event: string;
  actor: { kind: string; id: string };
  data: Readonly<Record<string, unknown>>;
}

/** Returns the events of the catalog that a name or a pattern matches. Empty for an unknown one. */
export function findEventsNamed(pattern: string): readonly CatalogueEvent[] {
  if (pattern === '*') return eventCatalogue;
  if (!pattern.endsWith('.*')) return eventCatalogue.filter(({ name }) => name === pattern);
  const prefix = pattern.slice(0, -1);
  return eventCatalogue.filter(({ name }) => name.startsWith(prefix));
}

/** @returns a problem for each name that matches no event */
export function findUnknownEvents(patterns: readonly string[]): FieldProblem[] {
  return patterns.flatMap((pattern, index) => {
    if (findEventsNamed(pattern).length > 0) return [];
    const names = eventCatalogue.map(({ name }) => name);
    const meant = findClosest(pattern, names);
    const message = `events[${index}] must be the name of an event, record.* or *. GET /v1/webhook-events lists them.`;
    return [
      {
        field: `events[${index}]`,
        code: 'INVALID_OPTION' as const,
        message,
        allowed: names,
        ...(meant ? { did_you_mean: meant } : {}),
      },
    ];
  });
}

const typeOf: Readonly<Record<Exclude<EventFieldType, 'object'>, Field['type']>> = {
  string: 'text',
  uuid: 'text',
  'date-time': 'datetime',
  integer: 'number',
  boolean: 'boolean',
  'string[]': 'text',
};

/** Fields with a list value. `contains` looks for an item of it. */
const lists: ReadonlySet<string> = new Set(
  eventCatalogue.flatMap(({ fields }) => fields.filter(({ type }) => type === 'string[]').map(({ name }) => name)),
);
const operatorsOfLists: readonly string[] = ['contains', 'is_null'];

/** Returns the fields that a filter of these events may use. */
function findFilterableFields(patterns: readonly string[]): Map<string, Field> {
  const fields = new Map<string, Field>();
  for (const { fields: own } of patterns.flatMap(findEventsNamed))
    for (const { name, type, filterable } of own)
      if (filterable && type !== 'object' && !fields.has(name))
        fields.set(name, { name, label: name, type: typeOf[type], custom: false, required: false });
  return fields;
}

/**
 * Reads the filter of a subscription to these events.
 * @returns the filter and its problems, all of the field `filter`
 */
export function readEventFilter(
  given: unknown,
  patterns: readonly string[],
): { filter: Tree<Condition> | undefined; problems: FieldProblem[] } {
  const fields = findFilterableFields(patterns);
  const names = [...fields.keys()];
  const { filter, problems } = readFilterByVocabulary(given, {
    field: (name) => fields.get(name),
    unknown: (name) => {
      const meant = findClosest(name, names);
      const shown = name.length > 60 ? `${name.slice(0, 60)}…` : name;
      return {
        field: 'filter',
        code: 'UNKNOWN_FIELD',
        allowed: names.slice(0, 50),
        message: `filter: ${shown} is not a field of the selected events.`,
        ...(meant ? { did_you_mean: meant } : {}),
      };
    },
  });
  const conditions = filter ? listLeaves(filter) : [];
  const unfit = conditions.filter(({ field, op }) => lists.has(field) && !isForLists(op));
  const relative = conditions.filter((condition) => !isResolved(condition));
  return {
    filter: filter && mapLeaves(filter, (condition) => (isResolved(condition) ? condition : { or: [] })),
    problems: [
      ...problems.map((problem) => ({ ...problem, field: 'filter' })),
      ...unfit.map(({ field }) => ({
        field: 'filter',
        code: 'INVALID_OPTION' as const,
        allowed: [...operatorsOfLists],
        message: `filter: ${field} is a list and accepts only the operators ${operatorsOfLists.join(', ')}.`,
      })),
      ...relative.map(({ field }) => ({
        field: 'filter',
        code: 'INVALID_TYPE' as const,
        message: `filter: ${field} must not be compared with a relative date, because events are matched when they happen.`,
      })),
    ],
  };
}

const isForLists = (op: string): boolean => operatorsOfLists.includes(op);

/** The fields of all events, in the form that the comparison functions need. */
const anyEvent: WorkspaceObject = {
  object: 'events',
  label: 'Event',
  plural: 'Events',
  kind: 'builtin',
  module: 'webhooks',
  oneOf: [],
  fields: findFilterableFields(['*']),
};
const epoch = new Date(0);

/**
 * Builds a function that returns true if a subscription receives an event. A filter that no longer
 * fits the catalog matches nothing.
 */
export function createMatcher({ events, filter: given, skipOwn, createdByKind, createdById }: MatchCriteria) {
  const names = new Set(events.flatMap(findEventsNamed).map(({ name }) => name));
  const { filter, problems } = given === null ? { filter: undefined, problems: [] } : readEventFilter(given, events);
  return ({ event, actor, data }: MatchableEvent): boolean =>
    names.has(event) &&
    problems.length === 0 &&
    !(skipOwn && actor.kind === createdByKind && actor.id === createdById) &&
    (filter === undefined || matchesFilter(filter, data));
}

function matchesFilter(filter: Tree<Condition>, data: MatchableEvent['data']): boolean {
  return matchesTree(filter, (condition) => {
    const value = Object.hasOwn(data, condition.field) ? data[condition.field] : undefined;
    // A missing field only matches `is_null`.
    if (value === undefined) return condition.op === 'is_null' && condition.isNull;
    if (Array.isArray(value)) {
      if (condition.op === 'is_null') return !condition.isNull;
      return condition.op === 'contains' && value.includes(condition.value);
    }
    const values = { [condition.field]: value as string | number | null };
    return matchesCondition(condition, anyEvent, { id: '', createdAt: epoch, updatedAt: epoch, values, custom: {} });
  });
}
