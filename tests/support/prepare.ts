// Before the tests: installs the programs they need, and says what is skipped without them.
import { spawnSync } from 'node:child_process';
import { findProgram, programs } from './programs.ts';

const names = Object.keys(programs) as (keyof typeof programs)[];
const missing = names.filter((name) => !findProgram(name));
if (missing.length > 0) {
  const packages = missing.flatMap((name) => programs[name].debianPackage ?? []);
  const reason = packages.length > 0 ? install(packages) : undefined;
  for (const name of names.filter((each) => !findProgram(each))) {
    const installed = reason ?? 'its package was installed, and it is not there';
    const because =
      programs[name].debianPackage === undefined ? 'it is too large to be installed for a test' : installed;
    process.stdout.write(
      `Skipping ${programs[name].neededBy}: there is no ${programs[name].names[0]}, and ${because}.\n`,
    );
  }
}

/** @returns why it could not be done */
function install(packages: string[]): string | undefined {
  if (process.getuid?.() !== 0) return 'only root may install it';
  if (spawnSync('apt-get', ['--version']).error) return 'there is no apt-get to install it with';
  process.stdout.write(`Installing ${packages.join(', ')} ...\n`);
  return aptGet('update') ?? aptGet('install', '--yes', '--no-install-recommends', ...packages);
}

/** @returns why it failed */
function aptGet(...parameters: string[]): string | undefined {
  const run = spawnSync('apt-get', ['-qq', ...parameters], {
    // A package that asks a question, or starts its service, would do so for nobody.
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
    timeout: 10 * 60_000,
  });
  if (run.status === 0) return undefined;
  const said = run.stderr.trim().split('\n').at(-1) || run.error?.message || 'it did not end well';
  return `apt-get ${parameters[0]} failed (${said})`;
}
