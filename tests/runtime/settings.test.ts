// The table of settings lists exactly what the server reads.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('docs/settings.md lists every environment variable that the server reads', () => {
  const read = readFileSync('runtime/config.ts', 'utf8').matchAll(/\(env, '([A-Z\d_]+)'/g);
  const listed = readFileSync('docs/settings.md', 'utf8').matchAll(/^\| ([A-Z\d_, ]+) \|/gm);
  const names = (matches: Iterable<RegExpMatchArray>): string[] =>
    [...new Set([...matches].flatMap(([, name = '']) => name.split(', ')))].toSorted();
  expect(names(listed)).toEqual(names(read));
});
