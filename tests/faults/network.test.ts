// A slow, stalled, reset or silent network to PostgreSQL: every write is stored once.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest';
import { besideCommon } from '../support/databases.ts';
import { callTool } from '../support/mcp.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { check } from './support/oracle.ts';
import { OwnServer } from './support/own-server.ts';
import { type Moment, type Statement, Traps } from './support/points.ts';
import { FaultProxy, through } from './support/proxy.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';
import { type Answered, send, Writers } from './support/writers.ts';

const random = new Random();
const traps = new Traps();
const accounts = '/v1/objects/accounts/records';
let proxy: FaultProxy;
let server: OwnServer;
let tenant: Tenant;
let apiKey: string;

beforeAll(async () => {
  process.stdout.write(`faults: the seed of the network is ${random.seed}\n`);
  const url = inject('databaseUrl');
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  const settings = { ...besideCommon(), ...settingsFor(through(url, proxy), '.test-data') };
  server = await OwnServer.start({ ...settings, DATABASE_POOL: '6' });
});
afterEach(() => {
  traps.clear();
  proxy.mode = 'pass';
  proxy.delay = 0;
});
afterAll(async () => {
  await server?.kill();
  await proxy?.close();
});

async function arrange(): Promise<void> {
  tenant = await newTenant();
  apiKey = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
}

describe('the network to PostgreSQL', () => {
  test.each<[string, number, () => void]>([
    [
      'is slow',
      0,
      () => {
        proxy.delay = 40;
      },
    ],
    [
      'stalls',
      1000,
      () => {
        proxy.mode = 'stall';
      },
    ],
    ['resets every connection', 0, () => proxy.reset()],
    [
      'loses everything without a word',
      2500,
      () => {
        proxy.mode = 'swallow';
      },
    ],
  ])('loses and doubles no acknowledged write when the network %s', async (_, milliseconds, harm) => {
    await arrange();
    const writers = new Writers({ servers: [server.url], apiKey, random, count: 16 });
    await writers.progress(50);
    harm();
    if (milliseconds > 0) await sleep(milliseconds);
    else await writers.progress(50);
    proxy.mode = 'pass';
    proxy.delay = 0;
    await writers.progress(50);
    await writers.settle();
    const { broken } = writers.takeTally();
    await writers.replayAll();
    expect(writers.violations.join('\n')).toBe('');
    expect(server.failures).toEqual([]);
    expect([...broken]).toEqual([]);
    expect(await check(database(), tenant.companyId, writers.writes)).toEqual([]);
  });

  test.each<[Statement, Moment, boolean]>([
    ['change', 'sent', false],
    ['change', 'answered', true],
    ['commit', 'answered', true],
  ])('frees the key when the network goes silent with %s %s', async (statement, moment, applied) => {
    await arrange();
    await ask('POST', accounts, 'silent-000000', { name: 'First' });
    let silent = false;
    void traps.set({
      statement,
      moment,
      act: (link) => {
        silent = true;
        link.silence();
      },
    });
    const key = `silent-${statement}-${moment}`;
    expect((await ask('POST', accounts, key, { name: 'Once' })).status).toBe(503);
    expect(silent).toBe(true);
    let answer = await ask('POST', accounts, key, { name: 'Once' });
    while (answer.status === 409) {
      await sleep(250);
      answer = await ask('POST', accounts, key, { name: 'Once' });
    }
    expect({ status: answer.status, replay: answer.headers['idempotent-replay'] }).toEqual({
      status: 201,
      replay: applied ? 'true' : undefined,
    });
  });

  test('answers a tool call as fast as other calls while the network is silent, and does nothing after the error', async () => {
    await arrange();
    const create = (name: string) =>
      callTool('create_record', { object: 'accounts', record: { name } }, { key: apiKey, baseUrl: server.url });
    const waits: number[] = [];
    // A busy machine may delay one of them.
    while (waits.length < 4 && Math.min(...waits) > 3000) {
      const isKnown = async () => (await create('Known from now on')).body.result?.isError === undefined;
      await expect.poll(isKnown).toBe(true);
      proxy.mode = 'swallow';
      const began = performance.now();
      const { body } = await create('Never there');
      waits.push(performance.now() - began);
      expect(body.result).toMatchObject({
        isError: true,
        content: [{ text: expect.stringMatching(/_UNAVAILABLE: /) }],
      });
      proxy.mode = 'pass';
    }
    // If both the operation and the lookup of the caller waited, it would take two deadlines of 1.8
    // seconds.
    expect(Math.min(...waits)).toBeLessThan(3000);
    await expect.poll(async () => (await create('There again')).body.result?.isError).toBeUndefined();
    const names =
      await database()`select distinct name from accounts where company_id = ${tenant.companyId} order by name`;
    expect(names.map(({ name }) => name)).toEqual(['Known from now on', 'There again']);
  });
});

const ask = (method: string, path: string, key: string, body: unknown): Promise<Answered> =>
  send(undefined, server.url, apiKey, { method, path, key, body });
