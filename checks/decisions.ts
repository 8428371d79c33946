// Checks that files named in Markdown pages exist, and that every decision names its enforcer.
import { posix } from 'node:path';
import type { Source } from './sources.ts';

/** Pages about the whole project. Pages of a folder, such as tests/README.md, are not checked. */
const isDocument = (path: string): boolean => /^(ARCHITECTURE|README)\.md$|^docs\/.*\.md$/.test(path);
const isDecisions = (path: string): boolean => /^docs\/decisions\/.*\.md$/.test(path);

/** Enforcers that are not files. An entry that nothing enforces yet must say so. */
const otherEnforcers = /\bthe compiler\b|\ba lint rule\b|\bnothing yet\b/;

interface Mention {
  path: string;
  line: number;
}

/** Returns paths in links and backquotes that can only be files or folders of the project. */
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

/** Returns a problem for each file or folder that a page names and that does not exist. */
export function namedFileProblems(
  sources: readonly Source[],
  folders: readonly string[],
  pictures: readonly string[] = [],
): string[] {
  const existing = new Set([...sources.map(({ path }) => path), ...folders, ...pictures]);
  const roots = new Set(folders.map((folder) => folder.split('/')[0] ?? ''));
  return sources
    .filter(({ path }) => isDocument(path))
    .flatMap((document) =>
      mentionsIn(document, roots)
        .filter(({ path }) => !existing.has(path))
        .map(({ path, line }) => `${document.path}:${line} names ${path}, which does not exist`),
    );
}

/** Returns a problem for each decision without an enforcer, and for each quoted test title that no named file has. */
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
          const enforcers = /^Enforced by: [\s\S]*/m.exec(section)?.[0].replace(/\s+/g, ' ') ?? '';
          const files = [...enforcers.matchAll(/`([\w./-]+\.\w+)`/g)].flatMap(
            (match) => texts.get(match[1] ?? '') ?? [],
          );
          const tests = [...enforcers.matchAll(/“([^”]+)”/g)].map((match) => match[1] ?? '');
          const missing = tests.filter((test) => !files.some((file) => file.includes(test)));
          return [
            ...(files.length > 0 || otherEnforcers.test(enforcers) ? [] : [`${path} names no enforcer of: ${title}`]),
            ...missing.map((test) => `${path} quotes a test title that is not in the named files: ${test}`),
          ];
        }),
    );
}
