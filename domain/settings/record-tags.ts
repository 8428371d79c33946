// Tags of a record in a write: the ones that are added by hand, and the resulting changes.
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { findClosest } from '../objects/suggestions.ts';
import { findByName, type WorkspaceObject } from '../objects/workspace.ts';
import { mostTagNames } from '../service/request-limits.ts';

/** A tag that a record has. */
export interface AppliedTag {
  tagId: string;
  /** False if its conditions added it. */
  isManual: boolean;
}

/** The tags of a record before and after a change of it. */
export interface TagChange {
  recordId: string;
  before: readonly AppliedTag[];
  after: readonly AppliedTag[];
}

/**
 * Reads a list of names; a name can be repeated.
 * @returns the ids in the order of the object's tags
 */
export function readTagNames(
  { object, tags = [] }: WorkspaceObject,
  given: unknown,
): { tagIds: string[]; problems: FieldProblem[] } {
  if (!Array.isArray(given))
    return { tagIds: [], problems: [buildFieldProblem('tags', 'INVALID_TYPE', 'must be a list of names of tags')] };
  if (given.length > mostTagNames)
    return { tagIds: [], problems: [buildFieldProblem('tags', 'TOO_LONG', `must have at most ${mostTagNames} names`)] };
  const problems: FieldProblem[] = [];
  const named = new Set<string>();
  const allowed = tags.map(({ name }) => name);
  for (const [index, name] of given.entries()) {
    const tag = typeof name === 'string' ? findByName(tags, name) : undefined;
    if (tag) named.add(tag.id);
    else if (typeof name !== 'string')
      problems.push(buildFieldProblem(`tags[${index}]`, 'INVALID_TYPE', 'must be a string'));
    else {
      const rule = `must be the name of a tag of ${object}`;
      problems.push(
        buildFieldProblem(`tags[${index}]`, 'INVALID_OPTION', rule, { allowed, meant: findClosest(name, allowed) }),
      );
    }
  }
  return { tagIds: tags.filter(({ id }) => named.has(id)).map(({ id }) => id), problems };
}

const isAutomatic = ({ tags = [] }: WorkspaceObject, tagId: string): boolean =>
  tags.some((tag) => tag.id === tagId && tag.isAutomatic);

/**
 * Returns the tags of a new record that are added by hand. Tags with conditions are never added by
 * hand.
 */
export function pickManualTags(object: WorkspaceObject, named: readonly string[] = []): string[] {
  return named.filter((id) => !isAutomatic(object, id));
}

/**
 * Returns the manual tags of a record after a write that names some. A tag with conditions stays if
 * it was added by hand before, but naming it does not add it.
 * @returns undefined if they stay the same
 */
export function mergeManualTags(
  object: WorkspaceObject,
  before: readonly AppliedTag[] = [],
  named: readonly string[] | undefined,
): string[] | undefined {
  if (!named) return undefined;
  const manual = new Set(findManualTags(before));
  const wanted = named.filter((id) => manual.has(id) || !isAutomatic(object, id));
  return wanted.length === manual.size && wanted.every((id) => manual.has(id)) ? undefined : wanted;
}

export function findManualTags(tags: readonly AppliedTag[]): string[] {
  return tags.filter(({ isManual }) => isManual).map(({ tagId }) => tagId);
}

/** Joins both kinds. A tag that was added by hand stays manual, even if its conditions hold. */
export function joinTags(manual: readonly string[], automatic: readonly string[]): AppliedTag[] {
  return [
    ...manual.map((tagId) => ({ tagId, isManual: true })),
    ...automatic.filter((tagId) => !manual.includes(tagId)).map((tagId) => ({ tagId, isManual: false })),
  ];
}

/** Names of tags in display order. */
export interface TagNames {
  from: string[];
  to: string[];
}

/**
 * Returns the names before and after, for the audit log and events; undefined if nothing changed.
 */
export function diffTagNames(object: WorkspaceObject, { before, after }: TagChange): TagNames | undefined {
  const isSame = ({ tagId, isManual }: AppliedTag): boolean =>
    after.some((tag) => tag.tagId === tagId && tag.isManual === isManual);
  if (before.length === after.length && before.every(isSame)) return undefined;
  return { from: listNames(object, before), to: listNames(object, after) };
}

function listNames({ tags = [] }: WorkspaceObject, applied: readonly AppliedTag[]): string[] {
  const ids = new Set(applied.map(({ tagId }) => tagId));
  return tags.filter(({ id }) => ids.has(id)).map(({ name }) => name);
}
