// The shape of a filter: conditions, combined with and, or and not.
import type { Operator, Reading } from './filter-values.ts';
import type { RelationPath } from './relations.ts';

/** A value that means days relative to today. */
export interface RelativeDate {
  relative: string;
  /** True if the field holds dates; otherwise it holds times. */
  ofDates: boolean;
}

/** One comparison with values of type Value. */
type Comparison<Value> = {
  field: string;
  /**
   * The type as which the text of a custom field is read. A text that cannot be read as such never
   * matches.
   */
  as?: Reading;
} & (
  | { op: Exclude<Operator, 'between' | 'in' | 'not_in' | 'is_null'>; value: Value }
  | { op: 'between'; low: Value; high: Value }
  | { op: 'in' | 'not_in'; values: readonly (string | number)[] }
  | { op: 'is_null'; isNull: boolean }
);

/** A comparison with values in stored form: ids for configured lists, text for custom fields. */
export type Condition = Comparison<string | number>;

export type GivenValue = string | number | RelativeDate;

/** A comparison as a caller sends it, possibly with relative dates. */
export type GivenCondition = Comparison<GivenValue>;

/** A condition on the records that a record is related to. */
export interface Related<Leaf> {
  path: RelationPath;
  /** The object of the related records that the condition is about. */
  object: string;
  /** False if the caller cannot see records of the object. Then there is no related record. */
  isVisible: boolean;
  /** Whether one related record or no related record passes the filter. */
  quantifier: 'any' | 'none';
  filter: Tree<Leaf>;
}

export type Tree<Leaf> = Leaf | { and: readonly Tree<Leaf>[] } | { or: readonly Tree<Leaf>[] } | { not: Tree<Leaf> };

/** Returns true if the tree holds. `not` holds exactly if its member does not. */
export function matchesTree<Leaf extends object>(tree: Tree<Leaf>, test: (leaf: Leaf) => boolean): boolean {
  if ('and' in tree) return tree.and.every((member) => matchesTree(member, test));
  if ('or' in tree) return tree.or.some((member) => matchesTree(member, test));
  if ('not' in tree) return !matchesTree(tree.not, test);
  return test(tree);
}

/** Returns the conditions of a tree, in order. */
export function listLeaves<Leaf extends object>(tree: Tree<Leaf>): Leaf[] {
  if ('and' in tree) return tree.and.flatMap(listLeaves<Leaf>);
  if ('or' in tree) return tree.or.flatMap(listLeaves<Leaf>);
  if ('not' in tree) return listLeaves(tree.not);
  return [tree];
}

/** Replaces each condition of the tree. */
export function mapLeaves<Leaf extends object, Other>(
  tree: Tree<Leaf>,
  replace: (leaf: Leaf) => Tree<Other>,
): Tree<Other> {
  if ('and' in tree) return { and: tree.and.map((member) => mapLeaves(member, replace)) };
  if ('or' in tree) return { or: tree.or.map((member) => mapLeaves(member, replace)) };
  if ('not' in tree) return { not: mapLeaves(tree.not, replace) };
  return replace(tree);
}

/** Returns true for a condition on related records. */
export function isRelated<Leaf extends object>(leaf: Leaf | Related<Leaf>): leaf is Related<Leaf> {
  return 'quantifier' in leaf;
}
