// The filter grammar of records: converts a caller's JSON to a typed tree, or returns all problems.

import { filterLimits } from '../service/request-limits.ts';
import { readComparison } from './comparisons.ts';
import type { FieldProblem } from './field-values.ts';
import type { Condition, GivenCondition, Tree } from './filter-tree.ts';
import { filterableField, quoteName, unknownField } from './queryable.ts';
import type { Field, WorkspaceObject } from './workspace.ts';

/** A filter that means the same at any time. */
export type Filter = Tree<Condition>;

/** A filter as a caller sends it, possibly with relative dates. */
export type GivenFilter = Tree<GivenCondition>;

/** The fields that a filter may name. */
export interface Vocabulary {
  field(name: string): Field | undefined;
  unknown(name: string): FieldProblem;
}

interface Reading {
  vocabulary: Vocabulary;
  problems: FieldProblem[];
  conditions: number;
}

/** Reads the parameter. Without it, there is no filter, and no problem. */
export function parseFilter(
  text: string | undefined,
  object: WorkspaceObject,
): { filter: GivenFilter | undefined; problems: FieldProblem[] } {
  if (text === undefined) return { filter: undefined, problems: [] };
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return { filter: undefined, problems: [malformed(notJson)] };
  }
  return readFilter(given, object);
}

/** Reads a filter that is already parsed JSON. */
export function readFilter(
  given: unknown,
  object: WorkspaceObject,
): { filter: GivenFilter | undefined; problems: FieldProblem[] } {
  return readFilterOf(given, {
    field: (name) => filterableField(object, name),
    unknown: (name) => unknownField('filter', name, object),
  });
}

/** Reads a filter over other fields than those of an object's records. */
export function readFilterOf(
  given: unknown,
  vocabulary: Vocabulary,
): { filter: GivenFilter | undefined; problems: FieldProblem[] } {
  const reading: Reading = { vocabulary, problems: [], conditions: 0 };
  const filter = readNode(given, 1, reading);
  if (reading.conditions > filterLimits.conditions) {
    const message = `filter must have at most ${filterLimits.conditions} conditions.`;
    reading.problems.unshift({ field: 'filter', code: 'TOO_LONG', message });
  }
  return { filter, problems: reading.problems };
}

const malformed = (message: string): FieldProblem => ({ field: 'filter', code: 'INVALID_FORMAT', message });
const notJson =
  'filter must be JSON such as {"field": "email", "op": "eq", "value": "sara@example.com"}, percent-encoded in URLs.';
const shape = 'filter must be {"field", "op", "value"}, {"and": […]}, {"or": […]} or {"not": {…}}.';
const combinators = ['and', 'or', 'not'] as const;

/** @param depth of the combinator that this node would be */
function readNode(given: unknown, depth: number, reading: Reading): GivenFilter | undefined {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    reading.problems.push(malformed(shape));
    return undefined;
  }
  const node = given as Record<string, unknown>;
  const keys = Object.keys(node);
  const combinator = combinators.find((each) => keys.includes(each));
  if (!combinator) return readCondition(node, keys, reading);
  const members = node[combinator];
  if (keys.length > 1) reading.problems.push(malformed(`filter: ${combinator} must be the only key of its object.`));
  else if (combinator !== 'not' && (!Array.isArray(members) || members.length === 0))
    reading.problems.push(malformed(`filter: ${combinator} must be a list with at least one condition.`));
  else if (depth > filterLimits.depth)
    reading.problems.push(
      malformed(`filter: and, or and not can be nested at most ${filterLimits.depth} levels deep.`),
    );
  else if (combinator === 'not') {
    const inner = readNode(members, depth + 1, reading);
    return inner && { not: inner };
  } else {
    const read: GivenFilter[] = [];
    for (const member of members as unknown[]) {
      if (reading.conditions > filterLimits.conditions) return undefined;
      const inner = readNode(member, depth + 1, reading);
      if (inner) read.push(inner);
    }
    return combinator === 'and' ? { and: read } : { or: read };
  }
  return undefined;
}

const keysOfConditions = ['field', 'op', 'value', 'as'];

function readCondition(node: Record<string, unknown>, keys: string[], reading: Reading): GivenCondition | undefined {
  reading.conditions += 1;
  if (reading.conditions > filterLimits.conditions) return undefined;
  const { vocabulary, problems } = reading;
  const extra = keys.find((key) => !keysOfConditions.includes(key));
  const { field: name } = node;
  if (extra !== undefined)
    problems.push(malformed(`filter: ${quoteName(extra)} is not a key of a condition. ${shape}`));
  else if (typeof name !== 'string') problems.push(malformed('filter: field must be a string.'));
  else {
    const field = vocabulary.field(name);
    if (field) return readOne(field, node, reading);
    problems.push(vocabulary.unknown(name));
  }
  return undefined;
}

function readOne(field: Field, node: Record<string, unknown>, reading: Reading): GivenCondition | undefined {
  const read = readComparison(field, node.op, node.value, node.as);
  if ('condition' in read) return read.condition;
  const { code, rule, allowed, meant, hint } = read.fault;
  reading.problems.push({
    field: field.name,
    code,
    message: `filter: ${field.name} ${rule}.`,
    ...(allowed ? { allowed: allowed.slice(0, 50) } : {}),
    ...(meant ? { did_you_mean: meant } : {}),
    ...(hint ? { hint } : {}),
  });
  return undefined;
}
