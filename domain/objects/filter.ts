// The filter grammar of records: from a caller's JSON to a typed tree, or to all its problems.
import type { FieldProblem } from './field-values.ts';
import {
  buildMalformedProblem,
  isOverLimit,
  type Node,
  type Reading,
  readCondition,
  readNode,
  readTree,
  type Vocabulary,
} from './filter-nodes.ts';
import type { Condition, GivenCondition, Related, Tree } from './filter-tree.ts';
import { buildUnknownFieldProblem, findFilterableField, listFilterableNames, quoteName } from './queryable.ts';
import { isToOne, listRelations, type Relation, toRelationPath } from './relations.ts';
import { findClosest } from './suggestions.ts';
import type { Workspace, WorkspaceObject } from './workspace.ts';

/** A filter that means the same at any time. */
export type Filter = Tree<Condition | Related<Condition>>;

/** A filter as a caller sends it, possibly with relative dates. */
export type GivenFilter = Tree<GivenCondition | Related<GivenCondition>>;

/** What conditions through a relation depend on. */
export interface RelationContext {
  workspace: Pick<Workspace, 'objects' | 'linkTypes'>;
  /** Returns true if the caller may view records of the object. */
  canView(object: string): boolean;
}

type Outcome<Result> = { filter: Result | undefined; problems: FieldProblem[] };

/** Reads the parameter. Without it, there is no filter, and no problem. */
export function parseFilter(
  text: string | undefined,
  object: WorkspaceObject,
  context: RelationContext,
): Outcome<GivenFilter> {
  if (text === undefined) return { filter: undefined, problems: [] };
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return { filter: undefined, problems: [buildMalformedProblem(notJson)] };
  }
  return readFilter(given, object, context);
}

const notJson =
  'filter must be JSON such as {"field": "email", "op": "eq", "value": "sara@example.com"}, percent-encoded in URLs.';

/** Reads a filter that is already parsed JSON. */
export function readFilter(given: unknown, object: WorkspaceObject, context: RelationContext): Outcome<GivenFilter> {
  const relations = listRelations(object.object, context.workspace).filter(
    ({ otherObject }) => otherObject === null || context.workspace.objects.has(otherObject),
  );
  const vocabulary = buildVocabulary(object);
  return readTree<GivenCondition | Related<GivenCondition>>(given, (reading) => (node, depth) => {
    const asked = findRelation(node, vocabulary);
    return asked === undefined
      ? readCondition(node, vocabulary, reading)
      : readThrough(asked, node, depth, { object: object.object, relations, ...context }, reading);
  });
}

/** Reads a filter of records whose conditions cannot go through a relation. */
export function readOwnFilter(given: unknown, object: WorkspaceObject): Outcome<Tree<GivenCondition>> {
  return readFilterByVocabulary(given, buildVocabulary(object));
}

/** Reads a filter over other fields than those of an object's records. */
export function readFilterByVocabulary(given: unknown, vocabulary: Vocabulary): Outcome<Tree<GivenCondition>> {
  return readTree<GivenCondition>(given, (reading) => (node) => {
    const asked = findRelation(node, vocabulary);
    if (asked === undefined) return readCondition(node, vocabulary, reading);
    const name = 'field' in asked ? `${asked.name}.${asked.field}` : asked.name;
    const message = `filter: ${quoteName(name)} goes through a relation. Only filters of lists and reports can do that.`;
    reading.problems.push({ ...vocabulary.unknown(name), message });
    return undefined;
  });
}

const buildVocabulary = (object: WorkspaceObject): Vocabulary => ({
  field: (name) => findFilterableField(object, name),
  unknown: (name) => buildUnknownFieldProblem('filter', name, object),
});

/** A relation that a condition names, with the field after the dot if it has one. */
type AskedRelation = { name: string; field: string } | { name: string };

/** Returns the relation that a condition goes through, or undefined if it does not go through one. */
function findRelation(node: Node, vocabulary: Vocabulary): AskedRelation | undefined {
  if ('link' in node) return { name: String(node.link) };
  const { field } = node;
  if (typeof field !== 'string' || vocabulary.field(field)) return undefined;
  const dot = field.indexOf('.');
  return dot < 0 ? undefined : { name: field.slice(0, dot), field: field.slice(dot + 1) };
}

/** The object of a filter, with the relations that its conditions can go through. */
interface Origin extends RelationContext {
  object: string;
  relations: readonly Relation[];
}

type Parts = Omit<Reading<never>, 'readLeaf'>;

/** Reads a condition through a relation. */
function readThrough(
  asked: AskedRelation,
  node: Node,
  depth: number,
  origin: Origin,
  parts: Parts,
): Tree<Related<GivenCondition>> | undefined {
  const { problems, counts } = parts;
  counts.related += 1;
  if (isOverLimit(counts)) return undefined;
  const problem = 'field' in asked ? undefined : findLinkProblem(node);
  const relation = problem ? undefined : origin.relations.find(({ name }) => name === asked.name);
  if (problem) problems.push(problem);
  else if (!relation) problems.push(unknownRelation(asked, origin));
  else if (!('field' in asked)) return readLink(relation, node, depth, origin, parts);
  else if (!isToOne(relation)) problems.push(notToOne(asked, origin));
  else if (asked.field.includes('.')) problems.push(oneHop);
  else return readDotted(relation, asked.field, node, origin, parts);
  return undefined;
}

const oneHop = buildMalformedProblem(
  'filter: a condition through a relation can only name fields of the related record, not its relations.',
);

/** Returns the problem of the keys of `{"link", "any"}`. */
function findLinkProblem(node: Node): FieldProblem | undefined {
  const rule =
    'filter: a condition on links must be {"link": "<name>", "any": {…}} or {"link": "<name>", "none": {…}}.';
  const quantifiers = Object.keys(node).filter((key) => key === 'any' || key === 'none');
  const isShaped = quantifiers.length === 1 && Object.keys(node).length === 2;
  return isShaped && typeof node.link === 'string' ? undefined : buildMalformedProblem(rule);
}

function unknownRelation(asked: AskedRelation, { object, relations }: Origin): FieldProblem {
  const names = relations.filter((each) => !('field' in asked) || isToOne(each)).map(({ name }) => name);
  const name = 'field' in asked ? `${asked.name}.${asked.field}` : asked.name;
  const meant = findClosest(asked.name, names);
  return {
    field: quoteName(name),
    code: 'UNKNOWN_FIELD',
    message: `filter: ${quoteName(asked.name)} is not a relation of ${object}.`,
    allowed: names.slice(0, 50),
    ...(meant ? { did_you_mean: meant } : {}),
  };
}

/** Returns the problem of a dotted condition through a relation to several records. */
function notToOne(asked: AskedRelation, origin: Origin): FieldProblem {
  const { did_you_mean: _, ...problem } = unknownRelation(asked, origin);
  return {
    ...problem,
    message: `filter: ${asked.name} can be several records, so their fields cannot be named with a dot.`,
    hint: `Use {"link": "${asked.name}", "any": {…}} or {"link": "${asked.name}", "none": {…}}.`,
  };
}

/** Reads `{"field": "account.industry", …}`: without a related record, only `neq` and `is_null` hold. */
function readDotted(
  relation: Relation,
  field: string,
  node: Node,
  origin: Origin,
  parts: Parts,
): Tree<Related<GivenCondition>> | undefined {
  const prefix = `${relation.name}.`;
  return readForEachObject(relation, origin, parts, (object, inner) => {
    const vocabulary: Vocabulary = {
      prefix,
      field: (name) => findFilterableField(object, name),
      unknown: (name) => {
        const problem = buildUnknownFieldProblem('filter', name, object);
        const allowed = listFilterableNames(object).map((each) => `${prefix}${each}`);
        const meant = problem.did_you_mean;
        return {
          ...problem,
          field: `${prefix}${problem.field}`,
          allowed: allowed.slice(0, 50),
          ...(meant ? { did_you_mean: `${prefix}${meant}` } : {}),
        };
      },
    };
    const condition = readCondition({ ...node, field }, vocabulary, inner);
    if (!condition) return undefined;
    const holdsWithout = condition.op === 'neq' || (condition.op === 'is_null' && condition.isNull);
    return holdsWithout ? { quantifier: 'none', filter: { not: condition } } : { quantifier: 'any', filter: condition };
  });
}

/** Reads `{"link": "contacts", "any": {…}}`. */
function readLink(
  relation: Relation,
  node: Node,
  depth: number,
  origin: Origin,
  parts: Parts,
): Tree<Related<GivenCondition>> | undefined {
  const quantifier = 'any' in node ? 'any' : 'none';
  return readForEachObject(relation, origin, parts, (object, inner) => {
    const vocabulary: Vocabulary = {
      prefix: `${relation.name}.`,
      field: (name) => findFilterableField(object, name),
      unknown: (name) => {
        const problem = buildUnknownFieldProblem('filter', name, object);
        return { ...problem, field: `${relation.name}.${problem.field}` };
      },
    };
    const readLeaf = (leaf: Node): GivenCondition | undefined => {
      const isThrough = findRelation(leaf, vocabulary) !== undefined;
      if (!isThrough) return readCondition(leaf, vocabulary, inner);
      inner.problems.push(oneHop);
      return undefined;
    };
    const filter = readNode<GivenCondition>(node[quantifier], depth, { ...inner, readLeaf });
    return filter && { quantifier, filter };
  });
}

/**
 * Reads a condition for the object on the other side of a relation. If that can be any, the
 * condition is about the records of the objects that it fits.
 */
function readForEachObject(
  relation: Relation,
  { workspace, canView }: Origin,
  { problems, counts }: Parts,
  read: (object: WorkspaceObject, inner: Parts) => Pick<Related<GivenCondition>, 'quantifier' | 'filter'> | undefined,
): Tree<Related<GivenCondition>> | undefined {
  const { otherObject } = relation;
  const objects = [...workspace.objects.values()].filter(
    ({ object }) => otherObject === null || object === otherObject,
  );
  const outcomes = objects.map((object) => {
    const inner: Parts = { problems: [], counts: { ...counts } };
    const condition = read(object, inner);
    return { object: object.object, condition, inner };
  });
  const [first] = outcomes;
  if (first) Object.assign(counts, first.inner.counts);
  const path = toRelationPath(relation);
  const related = outcomes.flatMap(({ object, condition, inner }) =>
    condition && inner.problems.length === 0 ? [{ path, object, isVisible: canView(object), ...condition }] : [],
  );
  const [only, ...others] = related;
  if (!only) {
    problems.push(...chooseProblems(outcomes.map(({ inner }) => inner.problems)));
    return undefined;
  }
  if (others.length === 0) return only;
  return only.quantifier === 'any' ? { or: related } : { and: related };
}

/** Returns the problems to report of those that a condition has for each object. */
function chooseProblems(ofEach: readonly (readonly FieldProblem[])[]): readonly FieldProblem[] {
  const isUnknown = ({ code }: FieldProblem): boolean => code === 'UNKNOWN_FIELD';
  // Those of an object that has the field, if there is one, say what to do.
  const [first = []] = ofEach;
  const known = ofEach.find((problems) => !problems.some(isUnknown));
  if (known || ofEach.length === 1) return known ?? first;
  const allowed = [...new Set(ofEach.flatMap((problems) => problems.find(isUnknown)?.allowed ?? []))].slice(0, 50);
  return first.map((problem) =>
    isUnknown(problem)
      ? { ...problem, message: `filter: ${problem.field} is not a field of any object.`, allowed }
      : problem,
  );
}
