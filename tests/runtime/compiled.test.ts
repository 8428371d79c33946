// What is compiled beforehand, so that no server takes the types out of its files.
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { neededBy } from '../../checks/image.ts';
import { readSources } from '../../checks/sources.ts';
import { modulesIn, tellModules } from '../support/loaded-modules.ts';
import { startServer } from '../support/servers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `compiled-${randomUUID()}`);
const settings = { NODE_COMPILE_CACHE: `${folder}/cache`, NODE_OPTIONS: tellModules };
/** Those of Node's own modules that take the types out, where a process has loaded them and told which it has. */
function strippersIn(said: string): string[] {
  const modules = modulesIn(said);
  expect(modules).toContain('NativeModule fs');
  return modules.filter((name) => name.includes('/amaro/'));
}

async function run(...parameters: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, parameters, {
    ...{ cwd: root, env: { PATH: process.env.PATH ?? '', ...settings }, timeout: 60_000, maxBuffer: 10_000_000 },
  });
  return stdout;
}

let compiling: string;

beforeAll(async () => {
  compiling = await run('start/compile.ts');
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('it is compiled without anything being started or said', () => {
  expect(compiling).toMatch(/^\{"modules":.*\}\n$/);
  expect(strippersIn(compiling)).toHaveLength(1);
});

test('a server that starts and answers takes no types out', async () => {
  const server = await startServer({
    ...{ DATABASE_URL: inject('databaseUrl'), SECRET_KEY: inject('secretKey'), DATA_DIR: folder, METRICS_PORT: '0' },
    ...settings,
  });
  const answers = await Promise.all(
    ['/v1/health', '/.well-known/oauth-authorization-server/auth/v1', '/docs'].map((path) => fetch(server.url + path)),
  );
  await server.stop();
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(strippersIn(server.output())).toEqual([]);
});

test('all that a server ever loads is among it', async () => {
  const needed = [...neededBy(['main.ts'], readSources(root)).keys()].filter((path) => path.endsWith('.ts'));
  expect(needed).toContain('start/worker.ts');
  expect(needed).toContain('oauth/provider.ts');
  const imports = needed.map(
    (path) => `await import(${JSON.stringify(new URL(`../../${path}`, import.meta.url).href)});`,
  );
  const said = await run('--input-type=module', '--eval', imports.join('\n'));
  expect(strippersIn(said)).toEqual([]);
});
