// Metrics for Prometheus: on a separate port, correct, and without any data of tenants.
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { call, expectStatus } from '../support/client.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { metricsUrl, readMetrics, seriesValue } from '../support/metrics.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

let server: TestServer;
let tenant: Tenant;

beforeAll(async () => {
  // A separate database, in which a table can be locked without blocking the other tests.
  const databaseUrl = await newDatabase();
  server = await startServer({
    ...testSettings,
    DATABASE_URL: databaseUrl,
    SECRET_KEY: inject('secretKey'),
    DATA_DIR: '.test-data',
    DATABASE_POOL: '1',
    METRICS_PORT: '0',
  });
  await useDatabase(databaseUrl);
  tenant = await newTenant();
});
afterAll(async () => {
  await server?.stop();
  await useDatabase(undefined);
  await dropAllDatabases();
});

const requests = 'crm_http_request_duration_seconds_count';

describe('The metrics', () => {
  test('counts every request by operation, method and status class', async () => {
    const { url: baseUrl } = server;
    for (let turn = 0; turn < 3; turn += 1) await expectStatus(200, 'GET', '/v1/me', { key: tenant.key, baseUrl });
    await expectStatus(401, 'GET', '/v1/me', { baseUrl });
    await expectStatus(404, 'GET', '/v1/nothing', { baseUrl });
    await expectStatus(200, 'HEAD', '/v1/health', { baseUrl });
    await expectStatus(200, 'GET', '/docs', { baseUrl });
    const text = await readMetrics(server);
    const counted = (operation: string, method: string, status: string) =>
      seriesValue(text, requests, { operation, method, status });
    expect(counted('getMe', 'GET', '2xx')).toBe(3);
    expect(counted('getMe', 'GET', '4xx')).toBe(1);
    expect(counted('none', 'GET', '4xx')).toBe(1);
    expect(counted('getHealth', 'HEAD', '2xx')).toBe(1);
    expect(counted('/docs', 'GET', '2xx')).toBe(1);
    expect(seriesValue(text, 'crm_http_errors_total', { operation: 'getMe', code: 'MISSING_API_KEY' })).toBe(1);
    expect(seriesValue(text, 'crm_http_request_duration_seconds_bucket', { operation: 'getMe', le: '+Inf' })).toBe(4);
  });

  test('counts rejections by rate limits', async () => {
    const before = seriesValue(await readMetrics(server), 'crm_rate_limit_refusals_total') ?? Number.NaN;
    const key = await newKey(tenant, { perMinute: 1 });
    const statuses = [];
    for (let turn = 0; turn < 3; turn += 1)
      statuses.push((await call('GET', '/v1/me', { key, baseUrl: server.url })).status);
    expect(statuses).toEqual([200, 429, 429]);
    const text = await readMetrics(server);
    expect(seriesValue(text, 'crm_rate_limit_refusals_total')).toBe(before + 2);
    expect(seriesValue(text, 'crm_http_errors_total', { code: 'RATE_LIMIT_EXCEEDED' })).toBe(before + 2);
  });

  // A busy machine may not get as far as that within the second that the second request waits: then it is tried again.
  test('shows requests in progress and requests that wait for a connection', { retry: 4 }, async () => {
    const exhausted = async () =>
      seriesValue(await readMetrics(server), 'crm_database_exhausted_total', { pool: 'tenants' });
    const before = await exhausted();
    const create = (name: string) =>
      call('POST', '/v1/objects/accounts/records', {
        key: tenant.key,
        body: { name },
        idempotencyKey: true,
        baseUrl: server.url,
      });
    const isWaiting = async (): Promise<boolean> => {
      const text = await readMetrics(server);
      return (
        seriesValue(text, 'crm_http_requests_in_flight') === 2 &&
        seriesValue(text, 'crm_database_waiting', { pool: 'tenants' }) === 1 &&
        seriesValue(text, 'crm_database_connections_busy', { pool: 'tenants' }) === 1
      );
    };
    // No request can write meanwhile: the first waits for the lock, the second for the connection
    // of the first.
    const answers = await database().begin(async (sql) => {
      await sql`lock table accounts in share mode`;
      const both = [create('First'), create('Second')];
      await vi.waitUntil(isWaiting, { timeout: 900, interval: 20 });
      return both;
    });
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([201, 201]);
    const text = await readMetrics(server);
    expect(seriesValue(text, 'crm_http_requests_in_flight')).toBe(0);
    expect(seriesValue(text, 'crm_database_connections', { pool: 'tenants' })).toBe(1);
    expect(seriesValue(text, 'crm_database_connections_busy', { pool: 'tenants' })).toBe(0);
    expect(seriesValue(text, 'crm_database_waits_total', { pool: 'tenants' })).toBeGreaterThanOrEqual(1);
    expect(seriesValue(text, 'crm_database_wait_seconds_total', { pool: 'tenants' })).toBeGreaterThan(0);
    expect(await exhausted()).toBe(before);
  });

  test('includes the process and the database, and initializes the counters that alerts use', async () => {
    const text = await readMetrics(server);
    expect(seriesValue(text, 'crm_database_up')).toBe(1);
    expect(seriesValue(text, 'crm_quota_unavailable_total')).toBe(0);
    expect(seriesValue(text, 'process_resident_memory_bytes')).toBeGreaterThan(10_000_000);
    expect(seriesValue(text, 'nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0);
    // Limits are counted in this process, without Redis.
    expect(seriesValue(text, 'crm_redis_up')).toBeUndefined();
  });

  test('exposes no tenant, key or record', async () => {
    const { body } = await expectStatus(201, 'POST', '/v1/objects/accounts/records', {
      key: tenant.key,
      body: { name: 'Secretive' },
      idempotencyKey: true,
      baseUrl: server.url,
    });
    await call('GET', `/v1/objects/accounts/records/${body.data.record.id}`, { key: tenant.key, baseUrl: server.url });
    const text = await readMetrics(server);
    for (const secret of [tenant.companyId, tenant.key, tenant.admin.id, body.data.record.id, 'Secretive'])
      expect(text).not.toContain(secret);
    expect(text).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/);
  });

  test('serves metrics on their own port only, which serves nothing else', async () => {
    await expectStatus(404, 'GET', '/metrics', { baseUrl: server.url });
    const other = await fetch(metricsUrl(server).replace('/metrics', '/v1/health'));
    expect(other.status).toBe(404);
    expect((await fetch(metricsUrl(server))).headers.get('content-type')).toContain('text/plain; version=0.0.4');
  });
});
