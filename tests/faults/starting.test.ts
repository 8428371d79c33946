// A server that cannot start says what to change, exits with 1 and leaves no process behind.
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { ConfigError, readConfig } from '../../runtime/config.ts';
import { compileCache } from '../support/servers.ts';

const main = fileURLToPath(new URL('../../main.ts', import.meta.url));

let folder: string;
let url: string;
let taken: Server;
let takenPort: string;

beforeAll(async () => {
  const base = resolve(process.env.TEST_DATA_DIR ?? '.test-data');
  mkdirSync(base, { recursive: true });
  folder = mkdtempSync(join(base, 'start-'));
  // A separate database, because some of these tests break it.
  const name = `start_${process.pid}`;
  const sql = postgres(inject('databaseUrl'), { max: 1 });
  await sql.unsafe(`create database ${name}`);
  await sql.end();
  url = inject('databaseUrl').replace(/\/[^/]*$/, `/${name}`);
  taken = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => taken.once('listening', done));
  takenPort = String((taken.address() as { port: number }).port);
});

afterAll(async () => {
  taken?.close();
  const sql = postgres(inject('databaseUrl'), { max: 1 });
  await sql.unsafe(`drop database if exists start_${process.pid} with (force)`);
  await sql.end();
  rmSync(folder, { recursive: true, force: true });
});

/** Starts a server that is expected to exit. */
function start(env: Record<string, string>): Promise<{ code: number | null; said: string }> {
  const settings = {
    PATH: process.env.PATH ?? '',
    NODE_COMPILE_CACHE: compileCache,
    PORT: '0',
    DEMO: '0',
    LOG_LEVEL: 'silent',
    DATABASE_URL: url,
    DATA_DIR: folder,
    SECRET_KEY: '5e'.repeat(32),
  };
  return new Promise((done) => {
    const child = execFile(
      process.execPath,
      [main],
      { env: { ...settings, ...env }, timeout: 60_000 },
      (_, stdout, stderr) => done({ code: child.exitCode, said: stdout + stderr }),
    );
  });
}

/** Expects one sentence for the operator, without a stack trace. */
async function expectRefusal(env: Record<string, string>, ...mentioned: string[]): Promise<void> {
  const { code, said } = await start(env);
  expect({ env, code }).toEqual({ env, code: 1 });
  expect(said).toMatch(/^The server did not start\. [A-Z/][^\n]+\n$/);
  for (const word of mentioned) expect(said).toContain(word);
}

/** Matches one sentence without a stack trace. */
const oneSentence = /^[A-Z/][^\n]+$/;

describe('invalid settings', () => {
  test.each([
    ['PORT', 'web'],
    ['PORT', '-1'],
    ['PORT', '65536'],
    ['PORT', '80.5'],
    ['DATABASE_URL', 'mysql://localhost/crm'],
    ['DATABASE_POOL', '0'],
    ['DATABASE_PREPARE', 'maybe'],
    ['DATABASE_SPREAD', 'maybe'],
    ['REDIS_URL', 'http://localhost'],
    ['WORKERS', '0'],
    ['WORKERS', '2'],
    ['METRICS_PORT', 'yes'],
    ['METRICS_PORT', '65536'],
    ['SECRET_KEY', 'secret'],
    ['SECRET_KEY', 'g'.repeat(64)],
    ['LOG_LEVEL', 'loud'],
    ['TRUSTED_PROXIES', 'localhost'],
    ['TRUSTED_PROXIES', '10.0.0.0/33'],
    ['TRUSTED_PROXIES', '10.0.0.1, 10.0.0'],
    ['BASE_URL', 'crm.example.com'],
    ['AUTH_URL', 'ftp://crm.example.com'],
    ['DASHBOARD_URL', 'javascript:alert(1)'],
    ['DEMO', 'yes'],
    ['ONBOARDING_PER_HOUR', '0'],
    ['ONBOARDING_PER_HOUR', 'many'],
  ])('rejects %s=%s by its name', (name, value) => {
    const read = () => readConfig({ [name]: value });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(oneSentence);
    expect(read).toThrow(name);
  });

  // The start prints the error of readConfig: for the first setting, one that needs another, and
  // the last.
  test.each([
    ['PORT', 'web'],
    ['WORKERS', '2'],
    ['ONBOARDING_PER_HOUR', 'many'],
    ['PAUSED_JOBS', 'billing, invoices'],
  ])('exits with the sentence of readConfig for %s=%s', (name, value) => expectRefusal({ [name]: value }, name));
});

describe('the network', () => {
  test('rejects a port in use', () => expectRefusal({ PORT: takenPort }, 'PORT'));
  test('rejects a port in use for workers', () =>
    expectRefusal({ PORT: takenPort, WORKERS: '2', REDIS_URL: 'redis://127.0.0.1:1' }, 'PORT'));
  test('rejects a metrics port in use', () => expectRefusal({ METRICS_PORT: takenPort }, 'METRICS_PORT'));
  test('rejects an address of another machine', () => expectRefusal({ HOST: '203.0.113.1' }, 'HOST'));
  test('rejects a host name without an address', () => expectRefusal({ HOST: 'no-such-host.invalid' }, 'HOST'));
});

describe('the database', () => {
  const changed = (change: (parts: URL) => void): Record<string, string> => {
    const parts = new URL(url);
    change(parts);
    return { DATABASE_URL: parts.href };
  };

  test('exits if the database does not answer', () =>
    expectRefusal(
      changed((parts) => {
        parts.port = '1';
      }),
      'DATABASE_URL',
    ));

  test('exits for a wrong database password', () =>
    expectRefusal(
      changed((parts) => {
        parts.password = 'wrong';
      }),
      'password',
      'DATABASE_URL',
    ));

  test('exits if the database does not exist', () =>
    expectRefusal(
      changed((parts) => {
        parts.pathname = '/nowhere';
      }),
      'DATABASE_URL',
    ));

  test('exits if the database host does not exist', () =>
    expectRefusal(
      changed((parts) => {
        parts.hostname = 'no-such-host.invalid';
      }),
      'DATABASE_URL',
    ));

  // Fails only for its port, after it has set up the database.
  beforeAll(() => expectRefusal({ PORT: takenPort }, 'PORT'));

  test('exits if the database was set up with another SECRET_KEY', async () => {
    await expectRefusal({ SECRET_KEY: 'ab'.repeat(32) }, 'SECRET_KEY');
  });

  test('exits if the database has migrations of another version', async () => {
    const sql = postgres(url, { max: 1 });
    const [first] = await sql<
      { name: string; digest: string }[]
    >`select name, digest from migrations order by name limit 1`;
    const name = first?.name ?? '';
    await sql`update migrations set digest = 'another' where name = ${name}`;
    await expectRefusal({}, name, 'changed');
    await sql`update migrations set digest = ${first?.digest ?? ''} where name = ${name}`;
    await sql`insert into migrations (name, digest) values ('9999-later.sql', 'x')`;
    await expectRefusal({}, '9999-later.sql', 'newer');
    await sql`delete from migrations where name = '9999-later.sql'`;
    await sql`insert into migrations (name, digest) values ('0001-foundation.sql', 'x')`;
    await expectRefusal({}, 'development version', 'docs/operations.md');
    await sql`delete from migrations where name = '0001-foundation.sql'`;
    await sql.end();
    await expectRefusal({ PORT: takenPort }, 'PORT');
  });
});

describe('the embedded database', () => {
  test('leaves no embedded database behind if the server does not start', async () => {
    const dataDir = join(folder, 'embedded');
    await expectRefusal({ DATABASE_URL: '', DATA_DIR: dataDir, PORT: takenPort }, 'PORT');
    expect(findProcesses(dataDir)).toEqual([]);
  });

  test('rejects a DATA_DIR that is a file by its name', async () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    await expectRefusal({ DATABASE_URL: '', DATA_DIR: file }, 'DATA_DIR');
  });
});

/** Returns the processes with a folder on their command line. */
function findProcesses(path: string): string[] {
  if (!existsSync('/proc/self/cmdline')) return [];
  const pids = execFileSync('pgrep', ['postgres', '-x'], { encoding: 'utf8' }).trim().split('\n');
  return pids.filter(
    (pid) => existsSync(`/proc/${pid}/cmdline`) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(path),
  );
}
