// The feed under writers, readers and faults: each reader gets every change once, causes first.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { newDatabase } from '../support/databases.ts';
import { database, newKey, newTenant, useDatabase } from '../support/tenants.ts';
import {
  Chain,
  compare,
  disorder,
  FeedReader,
  gaps,
  isNotOfChain,
  orderOfChanges,
  storedFeed,
} from './support/feed-readers.ts';
import { check } from './support/oracle.ts';
import { OwnServer } from './support/own-server.ts';
import { Traps } from './support/points.ts';
import { FaultProxy, through } from './support/proxy.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';
import { send, Writers } from './support/writers.ts';

/** The number of changes after which a run ends. */
const goal = Number(process.env.CHANGES ?? 1200);
/** Calls of the writers between two kills. */
const between = Number(process.env.CHANGES_BETWEEN ?? 100);

const traps = new Traps();
let proxy: FaultProxy;
let servers: OwnServer[] = [];

beforeAll(async () => {
  const url = await newDatabase();
  await useDatabase(url);
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  // The first server connects through the proxy, so that its dispatcher can be cut.
  const settings = [through(url, proxy), url].map((each) => ({
    ...settingsFor(each, '.test-data'),
    SECRET_KEY: inject('secretKey'),
    DATABASE_POOL: '6',
  }));
  servers = await Promise.all(settings.map((each) => OwnServer.start(each)));
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.kill()));
  await proxy?.close();
  await useDatabase(undefined);
});

test(`delivers ${goal} changes of 16 writers and a chain of 4 to 3 readers once and in order, under kills of both servers`, {
  timeout: 300_000 + goal * 50,
}, async () => {
  const random = new Random();
  process.stdout.write(`faults: the seed of the feed is ${random.seed}\n`);
  const tenant = await newTenant();
  const apiKey = await newKey(tenant, { perMinute: 10_000_000, perHour: 100_000_000 });
  const urls = servers.map(({ url }) => url);
  const readers = [1, 2, 5].map((wait) => new FeedReader(urls, apiKey, wait));
  const chain = new Chain(urls, apiKey, 4);
  const writers = new Writers({ servers: urls, apiKey, random, count: 16 });
  let kills = 0;
  const lastPosition = async (): Promise<number> => {
    const [row] =
      await database()`select coalesce(max(last_position), 0)::int as last from feeds where company_id = ${tenant.companyId}`;
    return row?.last;
  };
  while ((await lastPosition()) < goal) {
    await writers.progress(between);
    await random.pick(servers).restart();
    kills += 1;
  }
  await Promise.all([writers.settle(), chain.end()]);
  const sql = database();
  const stored = await storedFeed(sql, tenant.companyId);
  await Promise.all(readers.map((reader) => reader.end()));
  await writers.replayAll();
  expect(writers.violations).toEqual([]);
  expect(servers.flatMap(({ failures }) => failures)).toEqual([]);
  // The oracle's tables contain nothing of the chain.
  expect(await check(sql, tenant.companyId, writers.writes).then((lines) => lines.filter(isNotOfChain(chain)))).toEqual(
    [],
  );
  expect(stored.length).toBeGreaterThanOrEqual(goal);
  expect(gaps(stored)).toEqual([]);
  for (const reader of readers) expect(compare(reader, stored)).toEqual([]);
  expect(chain.pairs.length).toBeGreaterThan(20);
  expect(disorder(stored, chain.pairs, await orderOfChanges(sql, tenant.companyId))).toEqual([]);
  process.stdout.write(
    `faults: ${stored.length} changes in the feed, ${chain.pairs.length} in chains, ${kills} kills\n`,
  );
});

describe('a server that holds a feed', () => {
  test('moves the feed to another server within seconds if the network of its server dies', async () => {
    const [first, second] = servers as [OwnServer, OwnServer];
    await second.kill();
    const tenant = await newTenant();
    const create = (server: OwnServer) =>
      send(undefined, server.url, tenant.key, {
        method: 'POST',
        path: '/v1/objects/accounts/records',
        key: crypto.randomUUID(),
        body: { name: 'A' },
      });
    const hit = traps.set({ statement: 'lock of the feed', moment: 'answered', act: (link) => link.silence() });
    await create(first);
    await hit;
    await second.restart();
    // storedFeed waits for at most a minute. PostgreSQL itself would keep the silent connection for
    // hours.
    expect(await storedFeed(database(), tenant.companyId)).toHaveLength(1);
  });
});
