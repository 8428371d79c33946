// Changes of the sources: without one condition, or with all conditions marked.
import type { Predicate } from './predicates.ts';

/** A change of a file of the project: a text replaces what is between two places. */
export interface SourceEdit {
  file: string;
  from: number;
  to: number;
  text: string;
}

/** Returns the change that removes a condition. */
export const removal = ({ file, from, to, without }: Predicate): SourceEdit => ({ file, from, to, text: without });

/**
 * Returns changes that add the index of each condition as a comment, which the statements then
 * carry (condition-recorder.ts).
 */
export function markAll(predicates: readonly Predicate[]): SourceEdit[] {
  return predicates.map(({ file, from }, place) => ({ file, from, to: from, text: `/*~${place}~*/` }));
}

/** Returns random items, the same ones for a seed. */
export function pickSample<Item>(items: readonly Item[], count: number, seed: number): Item[] {
  const left = [...items];
  let state = seed >>> 0;
  return Array.from({ length: Math.min(count, left.length) }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return left.splice(state % left.length, 1)[0] as Item;
  });
}
