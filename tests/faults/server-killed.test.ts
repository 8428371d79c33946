// A server killed at random times: no acknowledged write is lost or doubled.
import { afterAll, expect, inject, test } from 'vitest';
import { besideCommon } from '../support/databases.ts';
import { database, newKey, newTenant } from '../support/tenants.ts';
import { check } from './support/oracle.ts';
import { OwnServer } from './support/own-server.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';
import { Writers } from './support/writers.ts';

const kills = Number(process.env.KILLS ?? 10);
let server: OwnServer | undefined;

afterAll(() => server?.kill());

test(`loses, doubles and changes no acknowledged write of 16 writers under ${kills} kills`, {
  timeout: 300_000,
}, async () => {
  const random = new Random();
  process.stdout.write(`faults: the seed of the kills is ${random.seed}\n`);
  const tenant = await newTenant();
  const apiKey = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
  server = await OwnServer.start({ ...settingsFor(inject('databaseUrl'), '.test-data'), ...besideCommon() });
  const writers = new Writers({ servers: [server.url], apiKey, random, count: 16 });
  for (let kill = 0; kill < kills; kill += 1) {
    await writers.progress(random.whole(1, 60));
    await server.restart();
  }
  await writers.progress(50);
  await writers.settle();
  await writers.replayAll();
  expect(writers.violations).toEqual([]);
  expect(server.failures).toEqual([]);
  expect(await check(database(), tenant.companyId, writers.writes)).toEqual([]);
  process.stdout.write(`faults: ${kills} kills, ${writers.writes.length} writes\n`);
});
