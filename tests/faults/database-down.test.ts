// The database stops, hangs and returns: every request ends in time, and no restart is needed.
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type EmbeddedDatabase, startEmbedded } from '../../app/embedded-postgres/database.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { buildClickPath, openPath } from '../../web/recipients/engagement.ts';
import { type Answer, type CallOptions, call, callWithRetries, useServer } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { readMetrics, seriesValue } from '../support/metrics.ts';
import { goodRequest, listAlternatives, newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { useDatabase } from '../support/tenants.ts';

/**
 * The promise is two seconds, and the slowest response is printed. The rest allows for a machine
 * that is busy with other tests.
 */
const requestTimeoutMs = 15_000;

let slowest = 0;

interface Prepared {
  operation: DeclaredOperation;
  path: string;
  options: CallOptions;
}

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `down-${process.pid}`);
let database: EmbeddedDatabase;
let server: TestServer;

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  database = await startEmbedded(folder, () => undefined);
  server = await startServer({
    ...testSettings,
    DATABASE_URL: database.url,
    SECRET_KEY: '5e'.repeat(32),
    DATA_DIR: folder,
    METRICS_PORT: '0',
  });
  useServer(server.url);
  await useDatabase(database.url);
});

afterAll(async () => {
  process.stdout.write(`faults: the slowest answer without a database took ${Math.round(slowest)} ms\n`);
  await server?.stop();
  await useDatabase(undefined);
  await database?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Prepares a valid request for every operation while the database is available. */
async function prepareAll(): Promise<Prepared[]> {
  const tenant = await newWideTenant();
  const prepared: Prepared[] = [];
  for (const operation of operations) {
    // Changes of a subscription exclude each other, so each has its own tenant.
    const isOfSubscription = /^\/v1\/(subscription\/|checkout-sessions|billing\/)/.test(operation.path);
    const own = isOfSubscription ? await newWideTenant() : tenant;
    prepared.push({ operation, ...(await goodRequest(operation, own)) });
  }
  return prepared;
}

async function send({ operation, path, options }: Prepared): Promise<Answer> {
  const started = performance.now();
  const answer = await call(operation.method, path, { ...options, within: requestTimeoutMs });
  slowest = Math.max(slowest, performance.now() - started);
  return answer;
}

/** Returns false for public reads other than the health check, which need no database. */
const needsDatabase = ({ operation }: Prepared): boolean =>
  operation.method !== 'GET' ||
  operation.id === 'getHealth' ||
  operation.declared['x-platform'] === true ||
  listAlternatives(operation).length > 0;

function expectUnavailable({ operation, options }: Prepared, answer: Answer): void {
  const isOAuth = operation.declared['x-answer'] === 'oauth';
  const code = isOAuth ? answer.body.error : answer.body.error?.code;
  // A call of a key that cannot be charged is rejected. A call with a quota lease fails later, with
  // another code.
  const own = options.key === undefined ? ['SERVICE_UNAVAILABLE'] : ['QUOTA_UNAVAILABLE', 'SERVICE_UNAVAILABLE'];
  expect({ operation: operation.id, status: answer.status }).toEqual({ operation: operation.id, status: 503 });
  expect(isOAuth ? ['temporarily_unavailable'] : own, operation.id).toContain(code);
  expect(answer.headers.get('retry-after')).toBe('1');
}

/** Sends all requests again in order. Calls that did not take effect before succeed now. */
async function expectAllAccepted(prepared: Prepared[]): Promise<void> {
  for (const each of prepared) {
    const { status, text } = await callWithRetries(each.operation.method, each.path, {
      ...each.options,
      within: requestTimeoutMs,
    });
    if (status >= 300) expect.fail(`${each.operation.id} answered ${status} ${text}`);
  }
}

const untilHealthy = (): Promise<unknown> =>
  vi.waitUntil(async () => (await call('GET', '/v1/health', { within: requestTimeoutMs })).status === 200, {});

/** Starts the database again on the same port, and waits until the server uses it. */
async function revive(): Promise<void> {
  const { port } = new URL(database.url);
  // Dying connections may still use its shared memory for a moment, so the start is retried.
  database = await vi.waitFor(() => startEmbedded(folder, () => undefined, Number(port)), { interval: 100 });
  await untilHealthy();
}

describe('a database that was stopped', () => {
  test('returns 503 from every operation while the database is stopped, and uses it again afterwards', async () => {
    const prepared = await prepareAll();
    await database.stop();
    try {
      for (const each of prepared) {
        const answer = await send(each);
        if (needsDatabase(each)) expectUnavailable(each, answer);
        else expect(answer.status).toBe(200);
      }
      const form = { grant_type: 'refresh_token', refresh_token: 'x', client_id: 'https://app.example/id' };
      const answer = await fetch(`${server.url}/auth/v1/oauth/token`, {
        method: 'POST',
        body: new URLSearchParams(form),
      });
      const response = [answer.status, answer.headers.get('retry-after'), await answer.json()];
      expect(response).toMatchObject([503, '1', { error: 'temporarily_unavailable' }]);
      expect(seriesValue(await readMetrics(server), 'crm_database_up')).toBe(0);
    } finally {
      await revive();
    }
    await expectAllAccepted(prepared);
  });

  test('uses a killed database again after its return', async () => {
    const prepared = await prepareAll();
    for (const pid of [database.pid, ...backends()]) process.kill(pid, 'SIGKILL');
    try {
      const answers = await Promise.all(prepared.map(send));
      for (const [index, each] of prepared.entries())
        if (needsDatabase(each)) expectUnavailable(each, answers[index] as Answer);
    } finally {
      await revive();
    }
    await expectAllAccepted(prepared);
  });
});

test('redirects links of emails while the database is stopped', async () => {
  const tokens = new SignedTokens(new Secrets('5e'.repeat(32)));
  const [companyId, draftId, target] = [randomUUID(), randomUUID(), 'https://bluelake.example/offer'];
  const visit = (path: string) => fetch(server.url + path, { redirect: 'manual' });
  const link = buildClickPath(tokens, companyId, draftId, target);
  await database.stop();
  try {
    const { status, headers } = await visit(link);
    expect([status, headers.get('location')]).toEqual([303, target]);
    expect((await visit(openPath(tokens, companyId, draftId))).headers.get('content-type')).toBe('image/gif');
    expect((await visit('/clicked/x')).status).toBe(404);
  } finally {
    await revive();
  }
  // The email does not exist.
  expect((await visit(link)).status).toBe(404);
});

describe('a database that hangs', () => {
  test('answers every request within two seconds while the database hangs, and applies nothing after its 503', async () => {
    const prepared = await prepareAll();
    await Promise.all(prepared.filter(({ operation }) => operation.method === 'GET').map(send));
    const paused = [database.pid, ...backends()];
    for (const pid of paused) process.kill(pid, 'SIGSTOP');
    try {
      const since = performance.now();
      // For five seconds, sends more requests at the same time than there are connections.
      expect(seriesValue(await readMetrics(server), 'crm_database_up')).toBe(0);
      while (performance.now() - since < 5000) {
        const crowd = [...prepared, ...prepared.filter(({ operation }) => operation.method === 'GET')];
        const answers = await Promise.all(crowd.map(send));
        for (const [index, each] of crowd.entries())
          if (needsDatabase(each)) expectUnavailable(each, answers[index] as Answer);
      }
    } finally {
      for (const pid of paused) process.kill(pid, 'SIGCONT');
    }
    await untilHealthy();
    await expectAllAccepted(prepared);
  });
});

/** Returns the processes of the database's connections and its helpers. */
function backends(): number[] {
  const found = execFileSync('pgrep', ['-P', String(database.pid)], { encoding: 'utf8' });
  return found.trim().split('\n').map(Number);
}

describe('one connection', () => {
  test('serves every operation with a single connection', async () => {
    const small = await startServer({
      ...testSettings,
      DATABASE_URL: database.url,
      SECRET_KEY: '5e'.repeat(32),
      DATA_DIR: folder,
      DATABASE_POOL: '1',
    });
    try {
      useServer(small.url);
      await expectAllAccepted(await prepareAll());
    } finally {
      useServer(server.url);
      await small.stop();
    }
  });
});
