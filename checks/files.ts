// Checks files and folders: first lines, mentions of one machine, names, and exact versions.
import type { Source } from './sources.ts';

/** The form of a first line that describes the file. */
const comment: Readonly<Record<string, RegExp>> = {
  ts: /^(\/\/|\/\*) \S/,
  js: /^(\/\/|\/\*) \S/,
  sql: /^-- \S/,
  yaml: /^# \S/,
};

const longestHeader = 100;

/** Returns files whose first line is not a comment that describes them, or is too long. */
export function headerProblems(sources: readonly Source[]): string[] {
  return sources
    .filter(({ path }) => !/(^|\/)generated\//.test(path))
    .flatMap(({ path, text }) => {
      const form = comment[path.split('.').at(-1) ?? ''];
      if (form?.test(text) === false) return [`${path}:1 must start with a comment that describes the file`];
      const { length } = text.split('\n')[0] ?? '';
      if (form && length > longestHeader)
        return [`${path}:1 has ${length} characters: describe the file in at most ${longestHeader}`];
      return [];
    });
}

/** Text that is valid on one machine only. */
const foreign: readonly [RegExp, string][] = [
  [/((?<![\w.:/-])|file:\/\/)\/(work|home|root|Users)\/\w/, 'a path of one machine'],
  [/\bregistry\.[a-z0-9-]+\.[a-z]{2,}/i, 'the host of a package registry'],
  [/"resolved": "https?:/, 'the host of a package registry'],
];

/** Returns mentions of paths of one machine, and of hosts that packages were downloaded from. */
export function mentionProblems(sources: readonly Source[]): string[] {
  return sources.flatMap(({ path, text }) =>
    text
      .split('\n')
      .flatMap((line, index) =>
        foreign.filter(([pattern]) => pattern.test(line)).map(([, what]) => `${path}:${index + 1} names ${what}`),
      ),
  );
}

/** Names that do not describe the content. */
const vague = new Set(['utils', 'lib', 'helpers', 'common', 'controllers', 'repositories', 'types']);

/** Returns folders with vague names. */
export function folderProblems(folders: readonly string[]): string[] {
  return folders
    .filter((folder) => vague.has(folder.split('/').at(-1) ?? ''))
    .map((folder) => `${folder}/ has a vague name: name it after its content`);
}

interface Manifest {
  scripts?: object;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}

/**
 * Returns versions that are not exact (of a package under its own name or another), differences
 * from the lock file, and scripts, since the Makefile has all commands.
 */
export function packageProblems(manifest: Manifest, lock: { packages: Record<string, Manifest> }): string[] {
  const problems = manifest.scripts ? ['package.json has scripts: the Makefile is the only menu of commands'] : [];
  for (const kind of ['dependencies', 'devDependencies'] as const) {
    const locked = lock.packages['']?.[kind] ?? {};
    for (const [name, version] of Object.entries(manifest[kind] ?? {})) {
      if (!/^(npm:(@[\w-]+\/)?[\w-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
        problems.push(`package.json: ${name} ${version} is not an exact version`);
      if (locked[name] !== version) problems.push(`package-lock.json does not have ${name} ${version} among ${kind}`);
    }
  }
  return problems;
}
