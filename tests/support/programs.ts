// Programs that some tests need and npm cannot bring: where they are, or why they are missing.
import { existsSync } from 'node:fs';
import { join } from 'node:path';

interface Program {
  /** Its names, the usual one first. */
  names: readonly string[];
  /** The Debian package that has it; undefined where it is too large to be installed for a test. */
  debianPackage?: string;
  /** What cannot be tested without it. */
  neededBy: string;
}

const all = {
  chromium: {
    names: ['chromium', 'chromium-browser', 'google-chrome'],
    debianPackage: 'chromium',
    neededBy: 'the tests of the documentation page in a browser',
  },
  node: { names: ['node'], debianPackage: 'nodejs', neededBy: 'all tests' },
  python: {
    names: ['python3'],
    debianPackage: 'python3',
    neededBy: 'the tests of the samples in Python',
  },
  httpx: {
    // A module, which lies in a place of its own beside that of programs.
    names: ['httpx', '../lib/python3/dist-packages/httpx/__init__.py'],
    debianPackage: 'python3-httpx',
    neededBy: 'the test of the client for Python',
  },
  java: { names: ['javac'], neededBy: 'the test of the client for Java' },
  go: { names: ['go'], neededBy: 'the test of the client for Go' },
  php: { names: ['php'], neededBy: 'the test of the client for PHP' },
  radicale: {
    names: ['radicale'],
    debianPackage: 'radicale',
    neededBy: 'the tests with a CalDAV server',
  },
  redis: { names: ['redis-server'], debianPackage: 'redis-server', neededBy: 'the tests with a Redis' },
} satisfies Record<string, Program>;

export const programs: Readonly<Record<keyof typeof all, Program>> = all;

/** The path of a program, or undefined. */
export function findProgram(name: keyof typeof programs): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/bin', '/usr/local/bin'].filter(Boolean);
  return programs[name].names.flatMap((file) => folders.map((folder) => join(folder, file))).find(existsSync);
}

/** For the title of a suite: why it is skipped, or nothing. */
export function skipNote(name: keyof typeof programs): string {
  return findProgram(name) ? '' : ` (skipped: there is no ${programs[name].names[0]} on this machine)`;
}
