// Garbage of requests: it is collected in the young generation, which costs little.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type CallOptions, type call, expectStatus } from '../support/client.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { readMetrics, seriesValue } from '../support/metrics.ts';
import { lead, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

/** Requests per measurement, few enough that the old generation is not collected meanwhile. */
const requestsPerRound = 300;
/** Bytes that a request may add to the old generation. */
const maxBytes = 2500;

let server: TestServer;
let tenant: Tenant;
let id: string;

beforeAll(async () => {
  // A separate database: the work of jobs for other tests would count too.
  const databaseUrl = await newDatabase();
  const settings = {
    DATABASE_URL: databaseUrl,
    SECRET_KEY: inject('secretKey'),
    DATA_DIR: '.test-data',
    METRICS_PORT: '0',
  };
  // A small young generation, which about thirty requests fill.
  server = await startServer(settings, { flags: ['--max-semi-space-size=2', '--min-semi-space-size=2'] });
  await useDatabase(databaseUrl);
  tenant = await newTenant();
  const body = Array.from({ length: 25 }, () => lead());
  const options: CallOptions = { key: tenant.key, idempotencyKey: true, body, baseUrl: server.url };
  const answer = await expectStatus(200, 'POST', `${recordsPath('leads')}:batch`, options);
  ({ id } = answer.body.data.succeeded[0].record);
});
afterAll(async () => {
  await server?.stop();
  await useDatabase(undefined);
  await dropAllDatabases();
});

/** Returns the bytes of the old generation, and the number of its collections. */
async function oldGeneration(): Promise<{ bytes: number; collections: number }> {
  const text = await readMetrics(server);
  return {
    bytes: seriesValue(text, 'nodejs_heap_space_size_used_bytes', { space: 'old' }) ?? Number.NaN,
    collections: seriesValue(text, 'nodejs_gc_duration_seconds_count', { kind: 'major' }) ?? 0,
  };
}

describe('A request', () => {
  const requests: [string, number, () => Parameters<typeof call>][] = [
    ['that reads', 200, () => ['GET', recordsPath('leads', id), {}]],
    ['that lists', 200, () => ['GET', recordsPath('leads'), {}]],
    ['that creates', 201, () => ['POST', recordsPath('leads'), { body: lead(), idempotencyKey: true }]],
  ];

  test.each(requests)('a request %s adds almost nothing to the old generation', async (_what, status, next) => {
    const ask = async (times: number): Promise<void> => {
      for (let turn = 0; turn < times; turn += 1) {
        const [method, path, options] = next() as [string, string, CallOptions];
        await expectStatus(status, method, path, { ...options, key: tenant.key, baseUrl: server.url });
      }
    };
    const grown = async (): Promise<number> => {
      const before = await oldGeneration();
      await ask(requestsPerRound);
      const after = await oldGeneration();
      // A collection in between makes the measurement invalid.
      return after.collections > before.collections ? grown() : after.bytes - before.bytes;
    };
    // Compiled code and type feedback belong to the first rounds, or to later ones on a busy
    // machine.
    let least = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 8 && least >= maxBytes; round += 1)
      least = Math.min(least, (await grown()) / requestsPerRound);
    expect(least).toBeLessThan(maxBytes);
  });
});
