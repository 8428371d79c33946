// The feed and the webhooks, cut at each point: each change has one position and one delivery.
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { newDatabase } from '../support/databases.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { newWebhook } from '../support/webhooks.ts';
import { storedFeed } from './support/feed-readers.ts';
import { OwnServer } from './support/own-server.ts';
import { dispatcherPoints, matcherPoints, type Point, Traps } from './support/points.ts';
import { FaultProxy, type Link, through } from './support/proxy.ts';
import { settingsFor } from './support/settings.ts';
import { send } from './support/writers.ts';

const traps = new Traps();
let proxy: FaultProxy;
/** The only server of its database, so that the cut hits it. */
let server: OwnServer;

beforeAll(async () => {
  const url = await newDatabase();
  await useDatabase(url);
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  server = await OwnServer.start({
    ...settingsFor(through(url, proxy), '.test-data'),
    SECRET_KEY: inject('secretKey'),
    DATABASE_POOL: '6',
  });
});
afterAll(async () => {
  await server?.kill();
  await proxy?.close();
  await useDatabase(undefined);
});

/** Creates an account once. A busy machine may answer 503 before. */
async function createAccount(tenant: Tenant, name: string): Promise<void> {
  const call = { method: 'POST', path: '/v1/objects/accounts/records', key: crypto.randomUUID(), body: { name } };
  await vi.waitFor(async () => expect((await send(undefined, server.url, tenant.key, call)).status).toBe(201));
}

const kill = (): void => void process.kill(server.pid, 'SIGKILL');
const reset = (link: Link): void => link.reset();

describe('a dispatcher, cut', () => {
  async function cut(point: Point, act: (link: Link) => void): Promise<void> {
    const tenant = await newTenant();
    const create = (name: string): Promise<void> => createAccount(tenant, name);
    await create('before');
    await storedFeed(database(), tenant.companyId);
    const hit = traps.set({ ...point, act });
    await create('cut');
    await hit;
    if (act === kill) await server.restart();
    await create('after');
    const stored = await storedFeed(database(), tenant.companyId);
    expect(stored.map(({ position }) => Number(position))).toEqual([1, 2, 3]);
    const names = await database()`
      select a.name from feed_events e join accounts a on a.id = e.record_id
      where e.company_id = ${tenant.companyId} order by e.position`;
    expect(names.map(({ name }) => name)).toEqual(['before', 'cut', 'after']);
  }

  test.each(dispatcherPoints)(
    'assigns each position once after a reset with $statement $moment, and continues',
    (point) => cut(point, reset),
  );

  // For PostgreSQL, a killed server is a connection that ends. At these points, the next server
  // begins where the killed one was.
  const killed = dispatcherPoints.filter(({ statement }) => /^(claim|commit)/.test(statement));
  test.each(killed)('continues on the next server after a kill with $statement $moment', (point) => cut(point, kill));
});

describe('a webhook matcher, cut', () => {
  const subscriptions = 2;

  async function cut(point: Point, act: (link: Link) => void): Promise<void> {
    const tenant = await newTenant();
    // The receiver does not exist, because the test only looks at the created deliveries.
    for (let number = 0; number < subscriptions; number += 1)
      await newWebhook(tenant, 'live', { url: 'https://127.0.0.1:9/' });
    const create = (name: string): Promise<void> => createAccount(tenant, name);
    const hit = traps.set({ ...point, act });
    await create('cut');
    await hit;
    if (act === kill) await server.restart();
    await create('after');
    await expect
      .poll(async () => {
        const made = await database()`
            select count(*)::int as made, count(distinct (subscription_id, event_id))::int as different
            from webhook_deliveries where company_id = ${tenant.companyId}`;
        const left = await database()`select from webhook_backlog where company_id = ${tenant.companyId}`;
        return { ...made[0], left: left.length };
      })
      .toEqual({ made: 2 * subscriptions, different: 2 * subscriptions, left: 0 });
  }

  test.each(matcherPoints)('creates each delivery once after a reset with $statement $moment', (point) =>
    cut(point, reset),
  );

  const killed = matcherPoints.filter(({ statement }) => /^(insert|removal)/.test(statement));
  test.each(killed)('creates each delivery once after a kill with $statement $moment', (point) => cut(point, kill));
});
