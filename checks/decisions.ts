// Checks that documents name existing files, and that every decision names what enforces it.
import { posix } from 'node:path';
import type { Source } from './sources.ts';

/** The documents of the whole project. Documents of a part are next to it. */
const isDocument = (path: string): boolean => /^(ARCHITECTURE|README)\.md$|^docs\/.*\.md$/.test(path);
const isDecisions = (path: string): boolean => /^docs\/decisions\/.*\.md$/.test(path);

/**
 * Enforced without a test: by the compiler, by a lint rule, or not at all, which must be stated.
 */
const others = /\bthe compiler\b|\ba lint rule\b|\bnothing yet\b/;

interface Mention {
  path: string;
  line: number;
}

/** Returns text in backquotes or links that can only be a file or folder of the project. */
function mentionsIn({ path: document, text }: Source, roots: ReadonlySet<string>): Mention[] {
  return text.split('\n').flatMap((content, index) => {
    const links = [...content.matchAll(/\]\((?!\w+:|#)([^)#]+)/g)].map((match) =>
      posix.join(posix.dirname(document), match[1] ?? ''),
    );
    const quoted = [...content.matchAll(/`([\w.-]+(?:\/[\w.-]*)*)`/g)]
      .map((match) => match[1] ?? '')
      .filter(
        (name) =>
          /\.(ts|js|md|sql|ya?ml|json)$/.test(name) || (name.includes('/') && roots.has(name.split('/')[0] ?? '')),
      );
    return [...links, ...quoted].map((path) => ({ path: path.replace(/\/$/, ''), line: index + 1 }));
  });
}

/** Returns files and folders that a document names and that do not exist. */
export function namedFileProblems(
  sources: readonly Source[],
  folders: readonly string[],
  pictures: readonly string[] = [],
): string[] {
  const there = new Set([...sources.map(({ path }) => path), ...folders, ...pictures]);
  const roots = new Set(folders.map((folder) => folder.split('/')[0] ?? ''));
  return sources
    .filter(({ path }) => isDocument(path))
    .flatMap((document) =>
      mentionsIn(document, roots)
        .filter(({ path }) => !there.has(path))
        .map(({ path, line }) => `${document.path}:${line} names ${path}, which is not there`),
    );
}

/** Returns decisions that do not name what enforces them, and named tests that no longer exist. */
export function decisionProblems(sources: readonly Source[]): string[] {
  const texts = new Map(sources.map(({ path, text }) => [path, text]));
  return sources
    .filter(({ path }) => isDecisions(path))
    .flatMap(({ path, text }) =>
      text
        .split(/^## /m)
        .slice(1)
        .flatMap((section) => {
          const title = section.split('\n')[0] ?? '';
          const held = /^Held by: [\s\S]*/m.exec(section)?.[0].replace(/\s+/g, ' ') ?? '';
          const files = [...held.matchAll(/`([\w./-]+\.\w+)`/g)].flatMap((match) => texts.get(match[1] ?? '') ?? []);
          const tests = [...held.matchAll(/“([^”]+)”/g)].map((match) => match[1] ?? '');
          const gone = tests.filter((test) => !files.some((file) => file.includes(test)));
          return [
            ...(files.length > 0 || others.test(held) ? [] : [`${path} does not say what holds: ${title}`]),
            ...gone.map((test) => `${path} names a test that is not in those files: ${test}`),
          ];
        }),
    );
}
