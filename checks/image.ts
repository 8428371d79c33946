// Checks that Dockerfile and .dockerignore keep everything that the server is built from.
import { posix } from 'node:path';
import type { Source } from './sources.ts';
import { readSyntax } from './syntax.ts';

/** Returns the files that the image is built from, at their paths in the project. */
export function imageFiles(sources: readonly Source[]): Set<string> {
  const isIgnored = readIgnored(readText(sources, '.dockerignore'));
  const copies = parseCopies(readText(sources, 'Dockerfile'));
  const kept = sources.map(({ path }) => path).filter((path) => !isIgnored(path));
  return new Set(kept.filter((path) => copies.some(({ from, to }) => staysInPlace(path, from, to))));
}

/** Returns problems: files that the image runs, builds, copies or needs, but does not contain. */
export function imageProblems(sources: readonly Source[]): string[] {
  const dockerfile = readText(sources, 'Dockerfile');
  const files = imageFiles(sources);
  const started = startedPrograms(dockerfile);
  if (started.length === 0) return ['Dockerfile has no CMD that starts a program of the project'];
  const copied = parseCopies(dockerfile).flatMap(({ from }) => from.filter((path) => path !== '.'));
  const programs = [...started.map(toSourcePath), ...builders(dockerfile), ...settingsOfBuild];
  return [
    ...copied
      .filter((path) => ![...files].some((file) => file === path || file.startsWith(`${path}/`)))
      .map((path) => `Dockerfile copies ${path}, which .dockerignore excludes or which does not exist`),
    ...started
      .map((path) => posix.dirname(path))
      .filter((folder) => !new RegExp(`^COPY --from=\\S+ /app/${folder} ${folder}$`, 'm').test(dockerfile))
      .map((folder) => `Dockerfile starts a program in ${folder}/ but does not copy that folder from the build`),
    ...[...findNeededFiles(programs, sources)]
      .filter(([path]) => !files.has(path))
      .map(([path, by]) => `${by} needs ${path}, which is not in the image (Dockerfile, .dockerignore)`),
  ];
}

/** The settings that cli/build.ts passes to the compiler. */
const settingsOfBuild = ['tsconfig.json', 'tsconfig.build.json'];

const readText = (sources: readonly Source[], path: string): string =>
  sources.find((source) => source.path === path)?.text ?? '';

/** Returns the built files in CMD, which must be a JSON list. */
function startedPrograms(dockerfile: string): string[] {
  const [, list = '[]'] = /^CMD (\[.*\])$/m.exec(dockerfile) ?? [];
  return (JSON.parse(list) as string[]).filter((part) => /\.js$/.test(part)).map(posix.normalize);
}

/** Returns the source of a file in dist/. */
const toSourcePath = (built: string): string => built.replace(/^dist\//, '').replace(/\.js$/, '.ts');

/** Returns the programs of the project that run during the build of the image. */
const builders = (dockerfile: string): string[] =>
  [...dockerfile.matchAll(/^RUN .*\bnode (\S+\.ts)\b/gm)].map(([, path = '']) => path);

interface Copy {
  from: string[];
  to: string;
}

function parseCopies(dockerfile: string): Copy[] {
  return [...dockerfile.matchAll(/^COPY (?!--from)(?:--\S+ )*(.+)$/gm)].map(([, text = '']) => {
    const paths = text
      .trim()
      .split(/\s+/)
      .map((path) => posix.join(path, '.'));
    return { from: paths.slice(0, -1), to: paths.at(-1) ?? '' };
  });
}

/** COPY of a folder copies its content; COPY of a file copies the file. */
function staysInPlace(path: string, from: readonly string[], to: string): boolean {
  return from.some((source) => {
    if (source === '.') return to === '.';
    if (path === source) return to === path || to === posix.dirname(path);
    return path.startsWith(`${source}/`) && to === source;
  });
}

/**
 * Returns a function that applies the rules in order. The last rule that matches the path or a
 * parent folder decides.
 */
function readIgnored(text: string): (path: string) => boolean {
  const rules = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ isKept: line.startsWith('!'), pattern: toPattern(line.replace(/^!/, '')) }));
  return (path) => {
    const parts = path.split('/');
    const places = parts.map((_, index) => parts.slice(0, index + 1).join('/'));
    const last = rules.findLast(({ pattern }) => places.some((place) => pattern.test(place)));
    return last !== undefined && !last.isKept;
  };
}

function toPattern(rule: string): RegExp {
  const source = rule
    .replace(/^\/|\/$/g, '')
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('**/', '\0')
    .replaceAll('**', '\u0001')
    .replaceAll('*', '[^/]*')
    .replaceAll('?', '[^/]')
    .replaceAll('\0', '(?:.*/)?')
    .replaceAll('\u0001', '.*');
  return new RegExp(`^${source}$`);
}

/** Returns the files that programs import or read, each with a file that needs it. */
export function findNeededFiles(programs: readonly string[], sources: readonly Source[]): Map<string, string> {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const needed = new Map(programs.map((path) => [path, 'Dockerfile']));
  // Iterating a map includes entries that are added meanwhile.
  for (const [path] of needed) {
    const source = byPath.get(path);
    if (!source || !/\.[mc]?[jt]s$/.test(path)) continue;
    for (const target of [...listImports(source), ...listRelativeUrls(source)]) {
      const files = target.endsWith('/') ? [...byPath.keys()].filter((each) => each.startsWith(target)) : [target];
      for (const file of files) if (!needed.has(file)) needed.set(file, path);
    }
  }
  return needed;
}

function listImports(source: Source): string[] {
  return readSyntax(source)
    .imports.filter(({ name }) => name.startsWith('.'))
    .map(({ name }) => posix.join(posix.dirname(source.path), name));
}

/** Returns files and folders that a program locates relative to itself. */
function listRelativeUrls({ path, text }: Source): string[] {
  const addresses = text.matchAll(/new URL\(\s*['`](\.[^'`$]*)(\$\{ownExtension\})?['`],\s*import\.meta\.url/g);
  return [...addresses].map(([, name = '', extension]) =>
    posix.join(posix.dirname(path), extension ? `${name}.ts` : name),
  );
}
