// What is stripped of its types beforehand, so that no server takes them out.
import { execFile } from 'node:child_process';
import { hash, randomUUID } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, inject, test } from 'vitest';
import { neededBy } from '../../checks/image.ts';
import { readSources } from '../../checks/sources.ts';
import { modulesIn, tellModules } from '../support/loaded-modules.ts';
import { startServer } from '../support/servers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `stripped-${randomUUID()}`);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(parameters: string[], env: Record<string, string> = {}): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, parameters, {
    ...{ cwd: root, env: { PATH: process.env.PATH ?? '', ...env }, timeout: 60_000, maxBuffer: 10_000_000 },
  });
  return stdout;
}

/** Those of Node's own modules that take the types out, where a process has loaded them and told which it has. */
function strippersIn(said: string): string[] {
  const modules = modulesIn(said);
  expect(modules).toContain('NativeModule fs');
  return modules.filter((name) => name.includes('/amaro/'));
}

test('a server that starts and answers takes no types out', async () => {
  const settings = { NODE_COMPILE_CACHE: `${folder}/cache`, NODE_OPTIONS: tellModules };
  // Keeps what tells, which has types of its own.
  expect(strippersIn(await run(['--eval', ''], settings))).toHaveLength(1);
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

test('all that a server ever loads is stripped', () => {
  const needed = [...neededBy(['main.ts'], readSources(root)).keys()].filter((path) => path.endsWith('.ts'));
  expect(needed).toContain('app/worker.ts');
  expect(needed).toContain('oauth/provider.ts');
  const strippedOf = (path: string): string =>
    `${root}/node_modules/.cache/stripped/${hash('sha256', readFileSync(`${root}/${path}`))}.js`;
  expect(needed.filter((path) => !existsSync(strippedOf(path)))).toEqual([]);
});

test('what was changed since is not taken for what it was', async () => {
  const own = `${folder}/project`;
  const kept = `${own}/node_modules/.cache/stripped`;
  mkdirSync(`${own}/start`, { recursive: true });
  mkdirSync(kept, { recursive: true });
  cpSync(`${root}/start/stripped.js`, `${own}/start/stripped.js`);
  const say = (what: string): string => `const what: string = '${what}'; process.stdout.write(what);`;
  const ran = (): Promise<string> => run(['--import', `${own}/start/stripped.js`, `${own}/program.ts`]);
  writeFileSync(`${own}/program.ts`, say('the source'));
  expect(await ran()).toBe('the source');
  writeFileSync(`${kept}/${hash('sha256', say('the source'))}.js`, "process.stdout.write('what was stripped')");
  expect(await ran()).toBe('what was stripped');
  writeFileSync(`${own}/program.ts`, say('the change'));
  expect(await ran()).toBe('the change');
});
