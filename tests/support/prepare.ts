// Before the tests: installs the programs they need, and reports what is skipped without them.
import { spawnSync } from 'node:child_process';
import { findProgram, programs } from './programs.ts';

const names = Object.keys(programs) as (keyof typeof programs)[];
const missing = names.filter((name) => !findProgram(name));
const obstacle = missing.length > 0 ? findObstacle() : undefined;
for (const name of missing) {
  const { debianPackages, neededBy } = programs[name];
  // One at a time, so that a failed installation only affects its own tests.
  const reason = obstacle ?? install(debianPackages);
  if (findProgram(name)) continue;
  const because = reason ?? 'its package was installed, and it is not there';
  process.stdout.write(`Skipping ${neededBy}: there is no ${programs[name].names[0]}, and ${because}.\n`);
}

/** @returns why nothing can be installed, or undefined */
function findObstacle(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root may install it';
  if (spawnSync('apt-get', ['--version']).error) return 'there is no apt-get to install it with';
  return aptGet('update');
}

/** @returns why the installation failed, or undefined */
function install(packages: readonly string[]): string | undefined {
  process.stdout.write(`Installing ${packages.join(', ')} ...\n`);
  return aptGet('install', '--yes', '--no-install-recommends', ...packages);
}

/** @returns why the command failed, or undefined */
function aptGet(...parameters: string[]): string | undefined {
  const run = spawnSync('apt-get', ['-qq', ...parameters], {
    // Prevents packages from asking questions or starting services.
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
    timeout: 10 * 60_000,
  });
  if (run.status === 0) return undefined;
  const said = run.stderr.trim().split('\n').at(-1) || run.error?.message || 'it did not end well';
  return `apt-get ${parameters[0]} failed (${said})`;
}
