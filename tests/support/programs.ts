// Programs that some tests need and npm cannot bring: where they are, or why they are missing.
import { existsSync } from 'node:fs';
import { join } from 'node:path';

interface Program {
  /** Its names, the usual one first. */
  names: readonly string[];
  /** The Debian package that has it. */
  debianPackage: string;
  /** What cannot be tested without it. */
  neededBy: string;
}

export const programs = {
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
  radicale: {
    names: ['radicale'],
    debianPackage: 'radicale',
    neededBy: 'the tests with a CalDAV server',
  },
  redis: { names: ['redis-server'], debianPackage: 'redis-server', neededBy: 'the tests with a Redis' },
} satisfies Record<string, Program>;

/** The path of a program, or undefined. */
export function findProgram(name: keyof typeof programs): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/bin', '/usr/local/bin'].filter(Boolean);
  return programs[name].names.flatMap((file) => folders.map((folder) => join(folder, file))).find(existsSync);
}

/** For the title of a suite: why it is skipped, or nothing. */
export function skipNote(name: keyof typeof programs): string {
  return findProgram(name) ? '' : ` (skipped: there is no ${programs[name].names[0]} on this machine)`;
}
