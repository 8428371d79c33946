// The first installation: its output, with a stub for npm, since tests download nothing.
import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'install-'));
  copyFileSync(join(root, 'package-lock.json'), join(folder, 'package-lock.json'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs the installation with a script in place of npm. */
async function install(npm: string): Promise<{ code: number; said: string }> {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\n${npm}\n`);
  chmodSync(join(bin, 'npm'), 0o755);
  const run = spawn(process.execPath, [join(root, 'cli/install.js'), '0.02'], {
    cwd: folder,
    env: { PATH: [bin, dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter) },
  });
  let said = '';
  run.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    // The stub can wait for this file.
    if (/: 1 of \d+ packages/.test(said)) writeFileSync(join(folder, 'counted'), '');
  });
  const code = await new Promise<number>((done) => run.on('close', done));
  return { code, said };
}

test('prints what is installed and its size, the progress and the end', async () => {
  mkdirSync(join(folder, 'node_modules/ajv'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/ajv/package.json'), '{}');
  const { code, said } = await install('until [ -e counted ]; do sleep 0.02; done');
  expect(code).toBe(0);
  const lines = said.trim().split('\n');
  expect(lines[0]).toMatch(/^Installing about [3-9]\d0 packages in node_modules.*: \d+ MB\.$/);
  expect(lines[1]).toMatch(/up to \d+ MB/);
  expect(said).toMatch(/ {2}\d+ s: 1 of [3-9]\d0 packages(, \d+ of \d+ MB)?\n/);
  expect(lines.at(-1)).toMatch(/^Installed in \d+ s\.$/);
});

test('prints the errors of npm, and fails', async () => {
  const { code, said } = await install('echo "npm error network" >&2; exit 1');
  expect(code).toBe(1);
  expect(said).toContain('npm error network');
  expect(said).toContain('Run the same command again.');
});

test('the README and the installation state the same sizes', () => {
  const [, onDisk, downloaded] = /onDisk: (\d+), downloaded: (\d+)/.exec(
    readFileSync(join(root, 'cli/install.js'), 'utf8'),
  ) as unknown as [string, string, string];
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  expect(readme).toContain(`${onDisk} MB`);
  expect(readme).toContain(`${downloaded} MB`);
});
