// Programs that some tests need and npm cannot install: their paths, or why they are missing.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

interface Program {
  /** Possible names, the usual one first. */
  names: readonly string[];
  /** The Debian packages that contain it. */
  debianPackages: readonly string[];
  /** Arguments with which it succeeds only if it has everything that tests need. */
  probe?: readonly string[];
  /** The tests that need it. */
  neededBy: string;
}

const all = {
  chromium: {
    names: ['chromium', 'chromium-browser', 'google-chrome'],
    debianPackages: ['chromium'],
    neededBy: 'the tests of the documentation page in a browser',
  },
  node: { names: ['node'], debianPackages: ['nodejs'], neededBy: 'all tests' },
  python: {
    names: ['python3'],
    debianPackages: ['python3'],
    neededBy: 'the tests of the samples in Python',
  },
  httpx: {
    // A Python module, whose folder is next to that of programs.
    names: ['httpx', '../lib/python3/dist-packages/httpx/__init__.py'],
    debianPackages: ['python3-httpx'],
    neededBy: 'the tests of the client for Python',
  },
  java: { names: ['javac'], debianPackages: ['default-jdk-headless'], neededBy: 'the tests of the client for Java' },
  go: { names: ['go'], debianPackages: ['golang-go'], neededBy: 'the tests of the client for Go' },
  php: {
    names: ['php'],
    debianPackages: ['php-cli', 'php-curl'],
    probe: ['-r', 'exit(function_exists("curl_init") ? 0 : 1);'],
    neededBy: 'the tests of the client for PHP',
  },
  radicale: {
    names: ['radicale'],
    debianPackages: ['radicale'],
    neededBy: 'the tests with a CalDAV server',
  },
  redis: { names: ['redis-server'], debianPackages: ['redis-server'], neededBy: 'the tests with a Redis' },
} satisfies Record<string, Program>;

export const programs: Readonly<Record<keyof typeof all, Program>> = all;

/** Returns the path of a program, or undefined. */
export function findProgram(name: keyof typeof programs): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/bin', '/usr/local/bin'].filter(Boolean);
  const { names, probe } = programs[name];
  const path = names.flatMap((file) => folders.map((folder) => join(folder, file))).find(existsSync);
  return path && probe && spawnSync(path, probe).status !== 0 ? undefined : path;
}

/** Returns a suffix for the title of a suite that is skipped, or an empty text. */
export function skipNote(name: keyof typeof programs): string {
  return findProgram(name) ? '' : ` (skipped: there is no ${programs[name].names[0]} on this machine)`;
}
