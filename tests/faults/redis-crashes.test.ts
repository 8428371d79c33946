// Redis is killed, hangs or is unreachable under writers: no call fails or waits long for it.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { besideCommon } from '../support/databases.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { TestRedis } from '../support/redis.ts';
import { database, newKey, newTenant } from '../support/tenants.ts';
import { percentile } from './support/figures.ts';
import { check } from './support/oracle.ts';
import { OwnServer } from './support/own-server.ts';
import { FaultProxy, through } from './support/proxy.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';
import { Writers } from './support/writers.ts';

describe.skipIf(!findProgram('redis'))(`Redis under writers${skipNote('redis')}`, () => {
  const random = new Random();
  let redis: TestRedis;
  let proxy: FaultProxy;
  let server: OwnServer;

  const setMode = (mode: FaultProxy['mode']): void => {
    proxy.mode = mode;
  };

  beforeAll(async () => {
    process.stdout.write(`faults: the seed of Redis's crashes is ${random.seed}\n`);
    redis = await TestRedis.start();
    proxy = await FaultProxy.start(redis.port);
    server = await OwnServer.start({
      ...settingsFor(inject('databaseUrl'), '.test-data'),
      ...besideCommon(),
      REDIS_URL: through(redis.url, proxy),
    });
  });
  afterAll(async () => {
    redis?.resume();
    await server?.kill();
    await proxy?.close();
    await redis?.kill();
  });

  test('fails no call when Redis is killed, hangs or is unreachable five times, and uses it again', async () => {
    const tenant = await newTenant();
    const apiKey = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
    const writers = new Writers({ servers: [server.url], apiKey, random, count: 16 });
    await writers.progress(300);
    const calm = writers.takeTally();
    const faults = {
      kill: [() => redis.kill(), () => redis.restart()],
      pause: [() => redis.pause(), () => redis.resume()],
      silence: [() => setMode('swallow'), () => setMode('pass')],
    } as const;
    for (const name of ['kill', 'pause', 'silence', 'kill', 'pause'] as const) {
      const [harm, repair] = faults[name];
      await harm();
      await writers.progress(150);
      await repair();
      await server.untilHealthy();
    }
    const { statuses, broken, latencies } = writers.takeTally();
    await writers.settle();
    await writers.replayAll();
    expect([...statuses.keys()].filter((status) => status >= 429)).toEqual([]);
    expect([...broken]).toEqual([]);
    expect(writers.violations).toEqual([]);
    expect(server.failures).toEqual([]);
    expect(await check(database(), tenant.companyId, writers.writes)).toEqual([]);
    const added = percentile(latencies, 99) - percentile(calm.latencies, 99);
    process.stdout.write(`faults: calls without Redis took ${Math.round(added)} ms more at the 99th percentile\n`);
  });
});
