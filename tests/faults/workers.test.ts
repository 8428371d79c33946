// Workers: they share a port and the rate limits, each can go at any time, and nobody notices.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { besideCommon } from '../support/databases.ts';
import { metricsUrl, readMetrics, seriesValue } from '../support/metrics.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { exchange, requestText } from '../support/raw-connection.ts';
import { TestRedis } from '../support/redis.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { keepWriting, namesOfAccounts } from '../support/writers.ts';

const isRunning = (pid: number): boolean => existsSync(`/proc/${pid}`);

/** The alerts that a server raised. */
const alertsOf = (server: TestServer): unknown[] =>
  server
    .output()
    .split('\n')
    .filter((line) => line.includes('"alert":'))
    .map((line) => JSON.parse(line));

/** The processes of its workers, the oldest first. */
function workersOf(server: TestServer): number[] {
  const found = spawnSync('pgrep', ['-P', String(server.pid)], { encoding: 'utf8' }).stdout;
  return found.split('\n').filter(Boolean).map(Number);
}

/** Requests that a server answered, or one worker of it. */
async function answered(server: TestServer, labels: Record<string, string> = {}): Promise<number> {
  return seriesValue(await readMetrics(server), 'crm_http_request_duration_seconds_count', labels) ?? 0;
}

describe.skipIf(!findProgram('redis'))(`Workers${skipNote('redis')}`, () => {
  let redis: TestRedis;
  let tenant: Tenant;
  let key: string;
  let server: TestServer;
  const start = (settings: Record<string, string> = {}): Promise<TestServer> =>
    startServer({
      ...testSettings,
      ...besideCommon(),
      DATA_DIR: '.test-data',
      DATABASE_POOL: '4',
      REDIS_URL: redis.url,
      WORKERS: '2',
      METRICS_PORT: '0',
      ...settings,
    });

  beforeAll(async () => {
    redis = await TestRedis.start();
    tenant = await newTenant();
    key = await newKey(tenant, { perMinute: 1_000_000, perHour: 1_000_000 });
    server = await start();
  });
  afterAll(async () => {
    await server?.stop();
    await redis?.kill();
  });

  /** On a connection of its own: the system gives each to one of the workers. */
  const ask = async (path: string, headers: Record<string, string> = {}): Promise<{ status: number; body: string }> =>
    await exchange(requestText('GET', path, headers), server.url);
  /** Writes without a pause until the work is done; every acknowledged write must be there, once. */
  async function underLoad(work: () => Promise<unknown>, ...others: string[]): Promise<string[]> {
    const before = await namesOfAccounts(tenant);
    let finished = false;
    const clients = Array.from({ length: 4 }, () => keepWriting(key, [server.url, ...others], () => finished));
    try {
      await vi.waitUntil(async () => (await answered(server)) > 100);
      await work();
    } finally {
      finished = true;
    }
    const done = await Promise.all(clients);
    const acknowledged = done.flatMap((client) => client.written);
    const stored = await namesOfAccounts(tenant);
    const expected = new Set([...before, ...acknowledged]);
    expect(stored.filter((name) => !expected.has(name))).toEqual([]);
    expect(stored.length).toBe(expected.size);
    const moved = done.reduce((sum, client) => sum + client.moved, 0);
    return [...done.flatMap((client) => client.failures), ...(moved > 0 ? [`${moved} calls not taken`] : [])];
  }
  /** Waits until another process is there in its place, and serves. */
  const untilReplaced = (pid: number): Promise<unknown> =>
    vi.waitUntil(
      async () =>
        !workersOf(server).includes(pid) && seriesValue(await readMetrics(server), 'crm_workers_serving') === 2,
    );

  // A machine that stalls longer than Redis is given opens the limits, as it should: then it is tried once more.
  test('answer on one port, and count rate limits together', { retry: 2 }, async () => {
    const limited = await newKey(tenant, { perMinute: 6 });
    const statuses = [];
    for (let turn = 0; turn < 8; turn += 1) statuses.push((await ask('/v1/me', { 'x-api-key': limited })).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
    for (const worker of ['1', '2'])
      await vi.waitUntil(
        async () => (await ask('/v1/health')).status === 200 && (await answered(server, { worker })) > 0,
      );
    expect(workersOf(server).length).toBe(2);
  });

  test('are shown together by the metrics, each under its number', async () => {
    const text = await readMetrics(server);
    expect(seriesValue(text, 'crm_workers')).toBe(2);
    expect(seriesValue(text, 'crm_workers_serving')).toBe(2);
    for (const worker of ['1', '2']) {
      expect(seriesValue(text, 'crm_database_up', { worker })).toBe(1);
      expect(seriesValue(text, 'crm_redis_up', { worker })).toBe(1);
      expect(seriesValue(text, 'crm_http_request_duration_seconds_count', { worker })).toBeGreaterThan(0);
    }
    // A name is described once, whoever tells its values.
    expect(text.split('# TYPE crm_database_up gauge').length).toBe(2);
  });

  test('refuse a port on which somebody listens, workers of another server among them', async () => {
    await expect(start({ PORT: new URL(server.url).port })).rejects.toThrow('The port is in use');
  });

  test('of which one is told to stop under load fail no request, and another takes its place', async () => {
    const [pid = 0] = workersOf(server);
    const failures = await underLoad(async () => {
      process.kill(pid, 'SIGTERM');
      await untilReplaced(pid);
    });
    expect(failures).toEqual([]);
    expect(alertsOf(server)).toEqual([]);
  });

  test('of which one is killed under load lose and double nothing, and raise one critical alert', async () => {
    const [pid = 0] = workersOf(server);
    await underLoad(async () => {
      process.kill(pid, 'SIGKILL');
      await untilReplaced(pid);
    });
    expect(alertsOf(server)).toMatchObject([{ alert: 'worker_died', severity: 'critical', worker_pid: pid }]);
    expect(seriesValue(await readMetrics(server), 'crm_worker_deaths_total')).toBe(1);
  });

  test('of which one dies that had not taken its connections keep no client waiting', async () => {
    const [pid = 0] = workersOf(server);
    process.kill(pid, 'SIGSTOP');
    const answers = Array.from({ length: 16 }, () =>
      ask('/v1/health').then(
        ({ status }) => status,
        () => 'cut',
      ),
    );
    // Some wait in the socket of the one that hangs.
    await new Promise((resolve) => setTimeout(resolve, 500));
    process.kill(pid, 'SIGKILL');
    const found = await Promise.all(answers);
    expect(found).toContain(200);
    expect(found.filter((answer) => answer !== 200 && answer !== 'cut')).toEqual([]);
    await untilReplaced(pid);
  });

  test('of which one hangs do not keep the metrics from being read', async () => {
    const [pid = 0] = workersOf(server);
    process.kill(pid, 'SIGSTOP');
    try {
      const text = await readMetrics(server);
      expect(seriesValue(text, 'crm_workers_serving')).toBe(2);
      // Of the one that answered.
      expect(seriesValue(text, 'crm_database_up')).toBe(1);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  test('are all degraded without Redis, and all well when it is back', async () => {
    const states = async (): Promise<string[]> => {
      const found = [];
      for (let turn = 0; turn < 4; turn += 1) found.push(JSON.parse((await ask('/v1/health')).body).data?.status);
      return found;
    };
    await redis.kill();
    // Each worker notices for itself.
    await vi.waitUntil(async () => (await states()).every((state) => state === 'degraded'));
    expect(seriesValue(await readMetrics(server), 'crm_redis_up')).toBe(0);
    expect(seriesValue(await readMetrics(server), 'crm_rate_limit_local_total')).toBeGreaterThan(0);
    await redis.restart();
    await vi.waitUntil(async () => (await states()).every((state) => state === 'ok'));
  });

  test('stop with their primary under load, fail no request that they took, and leave nothing behind', async () => {
    const [first, second] = [server, await start()];
    const all = [first.pid, ...workersOf(first)];
    const failures = await underLoad(async () => {
      expect(await first.stop('SIGTERM')).toBe(0);
      await vi.waitUntil(async () => (await answered(second)) > 100);
    }, second.url);
    // Whatever is found now, it is the one that is left.
    server = second;
    expect(failures.filter((text) => !text.endsWith('not taken'))).toEqual([]);
    expect(all.filter(isRunning)).toEqual([]);
    await expect(fetch(metricsUrl(first))).rejects.toThrow();
  });

  test('end when their primary is killed', async () => {
    const workers = workersOf(server);
    expect(workers.filter(isRunning).length).toBe(2);
    await server.stop('SIGKILL');
    await vi.waitUntil(() => !workers.some(isRunning));
  });
});
