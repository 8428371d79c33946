// Copies of the sources with one condition removed, or with all conditions marked.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Predicate } from './predicates.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Folders that no server needs. */
const leftOut = /^(node_modules|dist|tests|bench|spec|docs|checks)$|^\./;

/**
 * Copies the sources.
 * @returns the folder
 */
export function copySources(folder: string): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(root).filter((each) => !leftOut.test(each)))
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Removes one condition from a copy of the sources during the work. */
export async function withMutation<T>(
  folder: string,
  { file, from, to, without }: Predicate,
  work: (main: string) => Promise<T>,
): Promise<T> {
  const source = readFileSync(join(folder, file), 'utf8');
  writeFileSync(join(folder, file), source.slice(0, from) + without + source.slice(to));
  try {
    return await work(join(folder, 'main.ts'));
  } finally {
    writeFileSync(join(folder, file), source);
  }
}

/**
 * Adds the index of each condition as a comment, which the statements then carry
 * (condition-recorder.ts).
 */
export function markAll(folder: string, predicates: readonly Predicate[]): void {
  for (const [file, own] of Map.groupBy([...predicates.entries()], ([, predicate]) => predicate.file)) {
    let source = readFileSync(join(folder, file), 'utf8');
    for (const [place, { from }] of own.sort(([, one], [, other]) => other.from - one.from))
      source = `${source.slice(0, from)}/*~${place}~*/${source.slice(from)}`;
    writeFileSync(join(folder, file), source);
  }
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
