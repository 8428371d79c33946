// Words of this project's old private language, which readers had to translate.
import type { Source } from './sources.ts';

/** Each pattern with the words to use instead. docs/glossary.md has the terms. */
const privateWords: readonly [RegExp, string][] = [
  [/\bwhoever\b/i, 'a caller, client or user that …'],
  [/\bwhat becomes of\b/i, 'the outcome of …'],
  [/\b(told|tells?|telling) of\b/i, 'notify, emit, return or record'],
  [/\bmend(s|ed|ing)?\b/i, 'fix or repair'],
  [/\banew\b/i, 'again'],
  [/\bany more\b/i, 'no longer'],
];

/** Derived files, and the files that quote the words. */
const exempt = /(^|\/)generated\/|^checks\/language\.ts$|^tests\/checks\/check\.test\.ts$|^package-lock\.json$/;

/** Returns the lines that use one of the words. */
export function languageProblems(sources: readonly Source[]): string[] {
  return sources
    .filter(({ path }) => !exempt.test(path))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) =>
        privateWords.flatMap(([pattern, instead]) => {
          const [word] = pattern.exec(line) ?? [];
          return word === undefined ? [] : [`${path}:${index + 1} says "${word}": use ${instead}`];
        }),
      ),
    );
}
