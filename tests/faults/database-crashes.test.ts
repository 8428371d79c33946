// PostgreSQL is killed or hangs under writers: they only see 503, and every write is stored once.
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { OwnDatabase } from '../support/own-database.ts';
import { newKey, newTenant, database as sql, type Tenant, useDatabase } from '../support/tenants.ts';
import { check } from './support/oracle.ts';
import { OwnServer } from './support/own-server.ts';
import { Traps } from './support/points.ts';
import { FaultProxy, type Link, through } from './support/proxy.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';
import { type Answered, send, type Tally, Writers } from './support/writers.ts';

const random = new Random();
const traps = new Traps();
const accounts = '/v1/objects/accounts/records';
const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `crashes-${process.pid}`);
let database: OwnDatabase;
let proxy: FaultProxy;
let server: OwnServer;
let tenant: Tenant;
let apiKey: string;

beforeAll(async () => {
  process.stdout.write(`faults: the seed of the database's crashes is ${random.seed}\n`);
  database = await OwnDatabase.start(folder);
  proxy = await FaultProxy.start(database.port, traps.watch);
  // Fewer connections than writers, so that some wait for one.
  server = await OwnServer.start({ ...settingsFor(through(database.url, proxy), folder), DATABASE_POOL: '6' });
  await useDatabase(database.url);
});
afterEach(() => traps.clear());
afterAll(async () => {
  await server?.kill();
  await useDatabase(undefined);
  await proxy?.close();
  await database?.remove();
});

async function arrange(): Promise<void> {
  tenant = await newTenant();
  apiKey = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
}

async function newWriters(): Promise<Writers> {
  await arrange();
  return new Writers({ servers: [server.url], apiKey, random, count: 16 });
}

/** Expects that no client was cut off or saw an error other than 503, and that the tables match. */
async function expectExactlyOnce(writers: Writers): Promise<Tally> {
  await writers.progress(50);
  await writers.settle();
  const tally = writers.takeTally();
  await writers.replayAll();
  expect(writers.violations).toEqual([]);
  expect(server.failures).toEqual([]);
  expect([...tally.broken]).toEqual([]);
  expect(await check(sql(), tenant.companyId, writers.writes)).toEqual([]);
  return tally;
}

describe('PostgreSQL killed', () => {
  test('loses and doubles no acknowledged write of 16 writers when PostgreSQL is killed three times, without a restart', async () => {
    const writers = await newWriters();
    const healthy: number[] = [];
    for (const how of ['all', 'one', 'all'] as const) {
      await writers.progress(random.whole(20, 100));
      if (how === 'all') {
        database.kill();
        await database.restart();
        healthy.push(await server.untilHealthy());
      } else database.killOne((processes) => random.pick(processes));
    }
    await expectExactlyOnce(writers);
    process.stdout.write(`faults: healthy ${healthy.map(Math.round).join(' and ')} ms after PostgreSQL accepted\n`);
  });
});

describe('PostgreSQL that hangs for five seconds', () => {
  test('answers 16 writers in time while PostgreSQL hangs, and repeats nothing afterwards', async () => {
    const writers = await newWriters();
    await writers.progress(100);
    const resume = database.pause();
    try {
      await sleep(5000);
    } finally {
      resume();
    }
    const { latencies } = await expectExactlyOnce(writers);
    process.stdout.write(`faults: the slowest answer took ${Math.round(Math.max(...latencies))} ms\n`);
  });

  test.each([
    ['with an Idempotency-Key', 'in-time-000001'],
    ['without an Idempotency-Key', undefined],
  ])('rolls back a commit %s that PostgreSQL received before the 503', async (_, key) => {
    await arrange();
    const created = await askUntilTaken('POST', accounts, 'in-time-created', { name: 'Before' });
    const { id } = JSON.parse(created.text).data.record;
    let link: Link | undefined;
    let resume: (() => void) | undefined;
    void traps.set({
      statement: 'commit',
      moment: 'before',
      handOn: true,
      act: (at) => {
        link = at;
        resume = database.pause();
      },
    });
    try {
      expect((await ask('PATCH', `${accounts}/${id}`, key, { name: 'After' })).status).toBe(503);
      await sleep(500);
    } finally {
      resume?.();
    }
    // PostgreSQL has processed everything that it received.
    await link?.closed;
    expect(link).toBeDefined();
    await server.untilHealthy();
    expect(await readName(id)).toBe('Before');
    const again = await askUntilTaken('PATCH', `${accounts}/${id}`, key, { name: 'After' });
    expect({ status: again.status, replay: again.headers['idempotent-replay'] }).toEqual({
      status: 200,
      replay: undefined,
    });
    expect(await readName(id)).toBe('After');
  });
});

const ask = (method: string, path: string, key: string | undefined, body: unknown): Promise<Answered> =>
  send(undefined, server.url, apiKey, { method, path, key, body });

/** Repeats the call while the response is 503, which a busy machine may give. */
async function askUntilTaken(...call: Parameters<typeof ask>): Promise<Answered> {
  return vi.waitFor(async () => {
    const answer = await ask(...call);
    expect(answer.status).not.toBe(503);
    return answer;
  });
}

async function readName(id: string): Promise<string | undefined> {
  const [row] = await sql()<
    { name: string }[]
  >`select name from accounts where company_id = ${tenant.companyId} and id = ${id}`;
  return row?.name;
}
