// Workers: they share a port and rate limits, and each can end at any time without failed calls.
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

/** Returns the alerts that a server raised. */
const listAlerts = (server: TestServer): unknown[] =>
  server
    .output()
    .split('\n')
    .filter((line) => line.includes('"alert":'))
    .map((line) => JSON.parse(line));

/** Returns the process ids of its workers, oldest first. */
function listWorkers(server: TestServer): number[] {
  const found = spawnSync('pgrep', ['-P', String(server.pid)], { encoding: 'utf8' }).stdout;
  return found.split('\n').filter(Boolean).map(Number);
}

/** Returns the number of requests that a server or one of its workers answered. */
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

  /** Sends each call on a new connection, which the system gives to one of the workers. */
  const ask = async (path: string, headers: Record<string, string> = {}): Promise<{ status: number; body: string }> =>
    await exchange(requestText('GET', path, headers), server.url);
  /**
   * Writes continuously until the work is done, and checks that every acknowledged write is stored
   * once.
   */
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
  /** Waits until another process serves in its place. */
  const untilReplaced = (pid: number): Promise<unknown> =>
    vi.waitUntil(
      async () =>
        !listWorkers(server).includes(pid) && seriesValue(await readMetrics(server), 'crm_workers_serving') === 2,
    );

  // A machine that stalls longer than the timeout of Redis opens the limits, as it should. Then the
  // test is retried.
  test('serves one port from several workers, and shares rate limits between them', { retry: 2 }, async () => {
    const limited = await newKey(tenant, { perMinute: 6 });
    const statuses = [];
    for (let turn = 0; turn < 8; turn += 1) statuses.push((await ask('/v1/me', { 'x-api-key': limited })).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
    for (const worker of ['1', '2'])
      await vi.waitUntil(
        async () => (await ask('/v1/health')).status === 200 && (await answered(server, { worker })) > 0,
      );
    expect(listWorkers(server).length).toBe(2);
  });

  test('reports the metrics of all workers, each with its number', async () => {
    const text = await readMetrics(server);
    expect(seriesValue(text, 'crm_workers')).toBe(2);
    expect(seriesValue(text, 'crm_workers_serving')).toBe(2);
    for (const worker of ['1', '2']) {
      expect(seriesValue(text, 'crm_database_up', { worker })).toBe(1);
      expect(seriesValue(text, 'crm_redis_up', { worker })).toBe(1);
      expect(seriesValue(text, 'crm_http_request_duration_seconds_count', { worker })).toBeGreaterThan(0);
    }
    // Each metric is described once for all workers.
    expect(text.split('# TYPE crm_database_up gauge').length).toBe(2);
  });

  test('rejects a port in use, also by workers of another server', async () => {
    await expect(start({ PORT: new URL(server.url).port })).rejects.toThrow('The port is in use');
  });

  test('replaces a worker that is stopped under load, and fails no request', async () => {
    const [pid = 0] = listWorkers(server);
    const failures = await underLoad(async () => {
      process.kill(pid, 'SIGTERM');
      await untilReplaced(pid);
    });
    expect(failures).toEqual([]);
    expect(listAlerts(server)).toEqual([]);
  });

  test('replaces a worker that is killed under load, loses and doubles nothing, and raises one critical alert', async () => {
    const [pid = 0] = listWorkers(server);
    await underLoad(async () => {
      process.kill(pid, 'SIGKILL');
      await untilReplaced(pid);
    });
    expect(listAlerts(server)).toMatchObject([{ alert: 'worker_died', severity: 'critical', worker_pid: pid }]);
    expect(seriesValue(await readMetrics(server), 'crm_worker_deaths_total')).toBe(1);
  });

  test('keeps no client waiting if a worker dies before it accepted its connections', async () => {
    const [pid = 0] = listWorkers(server);
    process.kill(pid, 'SIGSTOP');
    const answers = Array.from({ length: 16 }, () =>
      ask('/v1/health').then(
        ({ status }) => status,
        () => 'cut',
      ),
    );
    // Some connections wait in the socket of the stopped worker.
    await new Promise((resolve) => setTimeout(resolve, 500));
    process.kill(pid, 'SIGKILL');
    const found = await Promise.all(answers);
    expect(found).toContain(200);
    expect(found.filter((answer) => answer !== 200 && answer !== 'cut')).toEqual([]);
    await untilReplaced(pid);
  });

  test('serves metrics while a worker hangs', async () => {
    const [pid = 0] = listWorkers(server);
    process.kill(pid, 'SIGSTOP');
    try {
      const text = await readMetrics(server);
      expect(seriesValue(text, 'crm_workers_serving')).toBe(2);
      // This is the figure of the worker that answered.
      expect(seriesValue(text, 'crm_database_up')).toBe(1);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  test('reports degraded health for all workers without Redis, and good health afterwards', async () => {
    const states = async (): Promise<string[]> => {
      const found = [];
      for (let turn = 0; turn < 4; turn += 1) found.push(JSON.parse((await ask('/v1/health')).body).data?.status);
      return found;
    };
    await redis.kill();
    // Each worker notices separately.
    await vi.waitUntil(async () => (await states()).every((state) => state === 'degraded'));
    expect(seriesValue(await readMetrics(server), 'crm_redis_up')).toBe(0);
    expect(seriesValue(await readMetrics(server), 'crm_rate_limit_local_total')).toBeGreaterThan(0);
    await redis.restart();
    await vi.waitUntil(async () => (await states()).every((state) => state === 'ok'));
  });

  test('stops workers with their primary under load, fails no accepted request, and leaves no process behind', async () => {
    const [first, second] = [server, await start()];
    const all = [first.pid, ...listWorkers(first)];
    const failures = await underLoad(async () => {
      expect(await first.stop('SIGTERM')).toBe(0);
      await vi.waitUntil(async () => (await answered(second)) > 100);
    }, second.url);
    // Later tests use the server that is left.
    server = second;
    expect(failures.filter((text) => !text.endsWith('not taken'))).toEqual([]);
    expect(all.filter(isRunning)).toEqual([]);
    await expect(fetch(metricsUrl(first))).rejects.toThrow();
  });

  test('ends the workers when their primary is killed', async () => {
    const workers = listWorkers(server);
    expect(workers.filter(isRunning).length).toBe(2);
    await server.stop('SIGKILL');
    await vi.waitUntil(() => !workers.some(isRunning));
  });
});
