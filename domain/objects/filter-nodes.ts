// The JSON of filters: combinators, conditions and their limits, independent of the fields.
import { filterLimits } from '../service/request-limits.ts';
import { readComparison } from './comparisons.ts';
import type { FieldProblem } from './field-values.ts';
import type { GivenCondition, Tree } from './filter-tree.ts';
import { quoteName } from './queryable.ts';
import type { Field } from './workspace.ts';

/** The fields that the conditions of a filter may name. */
export interface Vocabulary {
  field(name: string): Field | undefined;
  unknown(name: string): FieldProblem;
  /** Precedes the names of fields in problems. */
  prefix?: string;
}

export type Node = Readonly<Record<string, unknown>>;

/** A filter while it is read. */
export interface Reading<Leaf> {
  /** @param depth of a combinator in place of the leaf */
  readLeaf(node: Node, depth: number): Tree<Leaf> | undefined;
  problems: FieldProblem[];
  counts: Counts;
}

export interface Counts {
  conditions: number;
  /** Conditions through a relation. */
  related: number;
}

/** Reads a filter. Its limits are checked at the end. */
export function readTree<Leaf>(
  given: unknown,
  leafReader: (reading: Omit<Reading<Leaf>, 'readLeaf'>) => Reading<Leaf>['readLeaf'],
): { filter: Tree<Leaf> | undefined; problems: FieldProblem[] } {
  const { problems, counts } = { problems: [] as FieldProblem[], counts: { conditions: 0, related: 0 } };
  const filter = readNode(given, 1, { problems, counts, readLeaf: leafReader({ problems, counts }) });
  const tooMany = (message: string) => problems.unshift({ field: 'filter', code: 'TOO_LONG', message });
  if (counts.conditions > filterLimits.conditions)
    tooMany(`filter must have at most ${filterLimits.conditions} conditions.`);
  if (counts.related > filterLimits.related)
    tooMany(`filter must have at most ${filterLimits.related} conditions through a relation.`);
  return { filter, problems };
}

export const buildMalformedProblem = (message: string): FieldProblem => ({
  field: 'filter',
  code: 'INVALID_FORMAT',
  message,
});

const shape = 'filter must be {"field", "op", "value"}, {"and": […]}, {"or": […]} or {"not": {…}}.';
const combinators = ['and', 'or', 'not'] as const;

/** @param depth of the combinator that this node would be */
export function readNode<Leaf>(given: unknown, depth: number, reading: Reading<Leaf>): Tree<Leaf> | undefined {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    reading.problems.push(buildMalformedProblem(shape));
    return undefined;
  }
  const node = given as Node;
  const keys = Object.keys(node);
  const combinator = combinators.find((each) => keys.includes(each));
  if (!combinator) return reading.readLeaf(node, depth);
  const members = node[combinator];
  if (keys.length > 1)
    reading.problems.push(buildMalformedProblem(`filter: ${combinator} must be the only key of its object.`));
  else if (combinator !== 'not' && (!Array.isArray(members) || members.length === 0))
    reading.problems.push(buildMalformedProblem(`filter: ${combinator} must be a list with at least one condition.`));
  else if (depth > filterLimits.depth)
    reading.problems.push(
      buildMalformedProblem(`filter: and, or and not can be nested at most ${filterLimits.depth} levels deep.`),
    );
  else if (combinator === 'not') {
    const inner = readNode(members, depth + 1, reading);
    return inner && { not: inner };
  } else {
    const read: Tree<Leaf>[] = [];
    for (const member of members as unknown[]) {
      if (isOverLimit(reading.counts)) return undefined;
      const inner = readNode(member, depth + 1, reading);
      if (inner) read.push(inner);
    }
    return combinator === 'and' ? { and: read } : { or: read };
  }
  return undefined;
}

export const isOverLimit = ({ conditions, related }: Counts): boolean =>
  conditions > filterLimits.conditions || related > filterLimits.related;

const keysOfConditions = ['field', 'op', 'value', 'as'];

/** Reads a condition on a field. */
export function readCondition(
  node: Node,
  vocabulary: Vocabulary,
  { problems, counts }: Omit<Reading<never>, 'readLeaf'>,
): GivenCondition | undefined {
  counts.conditions += 1;
  if (isOverLimit(counts)) return undefined;
  const extra = Object.keys(node).find((key) => !keysOfConditions.includes(key));
  const { field: name } = node;
  if (extra !== undefined)
    problems.push(buildMalformedProblem(`filter: ${quoteName(extra)} is not a key of a condition. ${shape}`));
  else if (typeof name !== 'string') problems.push(buildMalformedProblem('filter: field must be a string.'));
  else {
    const field = vocabulary.field(name);
    if (field) return readOne(field, node, vocabulary.prefix ?? '', problems);
    problems.push(vocabulary.unknown(name));
  }
  return undefined;
}

function readOne(field: Field, node: Node, prefix: string, problems: FieldProblem[]): GivenCondition | undefined {
  const read = readComparison(field, node.op, node.value, node.as);
  if ('condition' in read) return read.condition;
  const { code, rule, allowed, meant, hint } = read.fault;
  problems.push({
    field: `${prefix}${field.name}`,
    code,
    message: `filter: ${prefix}${field.name} ${rule}.`,
    ...(allowed ? { allowed: allowed.slice(0, 50) } : {}),
    ...(meant ? { did_you_mean: meant } : {}),
    ...(hint ? { hint } : {}),
  });
  return undefined;
}
