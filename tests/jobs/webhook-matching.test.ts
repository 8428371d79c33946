// The matcher: creates each delivery once on any server, and gives requests precedence.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dropBacklog, noteStretch, settleStretch, takeStretch } from '../../db/automation/webhook-backlog.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { Pool } from '../../db/client/pool.ts';
import { createWebhookMatcher } from '../../jobs/automation/webhook-matching.ts';
import { LoadShedder } from '../../jobs/load-shedder.ts';
import { createDispatcher } from '../../jobs/records/dispatcher.ts';
import type { RunningJobs } from '../../jobs/runner.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { startNamedJobs } from '../support/job-runs.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { newWebhook } from '../support/webhooks.ts';

const pools: Pool[] = [];
const matchers: RunningJobs[] = [];
let url: string;
let dispatching: RunningJobs;
let dispatcherPools: Record<'platform' | 'tenants', Pool>;
/** How often the dispatcher recorded a backlog. */
let backlogsRecorded = 0;

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  dispatcherPools = newPools();
  const service = createDispatcher({
    note: noteStretch,
    announce(_scope, _last, isNoted) {
      if (isNoted) backlogsRecorded += 1;
      for (const matcher of matchers) matcher.wake('webhook-matcher');
    },
  });
  dispatching = startNamedJobs(['dispatcher'], dispatcherPools, { dispatcher: service });
});
afterAll(async () => {
  await dispatching.stop();
  await Promise.all(Object.values(dispatcherPools).map((pool) => pool.close(1)));
  await stopMatchers();
  await useDatabase(undefined);
  await dropDatabase(url);
});

function newPools(): Record<'platform' | 'tenants', Pool> {
  const shared = { url, prepare: true, spread: false, wait: 1000, statementTimeout: 500 };
  return {
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: 2 }),
  };
}

/** @param loadShedder without waiting requests, unless given */
function start(loadShedder = new LoadShedder(() => 0)): void {
  const { platform, tenants } = newPools();
  pools.push(platform, tenants);
  const service = createWebhookMatcher(loadShedder);
  matchers.push(startNamedJobs(['webhook-matcher'], { platform, tenants }, { webhookMatcher: service }));
}

async function stopMatchers(): Promise<void> {
  await Promise.all(matchers.splice(0).map((matcher) => matcher.stop()));
  await Promise.all(pools.splice(0).map((pool) => pool.close(1)));
}

/** Adds events of a tenant to the outbox, as its writes do. */
async function addEvents({ companyId }: Tenant, count: number, agoSeconds = 0): Promise<void> {
  await database()`
    insert into outbox_events (company_id, id, test_mode, event, occurred_at, actor, data)
    select ${companyId}, gen_random_uuid(), true, 'record.created', now() - ${agoSeconds} * interval '1 second',
      '{"kind": "api_key", "id": "k", "name": null}',
      jsonb_build_object('object', 'leads', 'record_id', gen_random_uuid(), 'occurred_at', '2026-01-01T00:00:00.000Z')
    from generate_series(1, ${count}::int)`;
}

/** Counts deliveries, and distinct pairs of subscription and event. */
async function countDeliveries({ companyId }: Tenant): Promise<{ all: number; different: number }> {
  const [row] = await database()<{ all: number; different: number }[]>`
    select count(*)::int as all, count(distinct (subscription_id, event_id))::int as different
    from webhook_deliveries where company_id = ${companyId}`;
  return row ?? { all: 0, different: 0 };
}

const countBacklog = async ({ companyId }: Tenant): Promise<number> =>
  (await database()`select from webhook_backlog where company_id = ${companyId}`).length;
const untilPlaced = ({ companyId }: Tenant) =>
  expect.poll(async () => (await database()`select from outbox_events where company_id = ${companyId}`).length).toBe(0);

/** Waits until a statement of the matcher waits for a lock. */
const untilBlocked = () =>
  expect
    .poll(
      async () =>
        (
          await database()`
            select from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and query ~ 'webhook_subscriptions'`
        ).length,
      { interval: 5 },
    )
    .toBeGreaterThan(0);

async function subscribed(count: number): Promise<Tenant> {
  const tenant = await newTenant();
  for (let number = 0; number < count; number += 1) await newWebhook(tenant, 'test', { url: 'http://127.0.0.1:9/' });
  return tenant;
}

test('creates each delivery once across two servers while more events arrive', async () => {
  start();
  start();
  const [one, other] = [await subscribed(3), await subscribed(1)];
  for (let turn = 0; turn < 20; turn += 1) await Promise.all([addEvents(one, 40), addEvents(other, 10)]);
  await expect.poll(() => countDeliveries(one)).toEqual({ all: 2400, different: 2400 });
  await expect.poll(() => countDeliveries(other)).toEqual({ all: 200, different: 200 });
  expect(await countBacklog(one)).toBe(0);
  await stopMatchers();
});

test('records no backlog for a tenant without subscriptions', async () => {
  const tenant = await newTenant();
  const before = backlogsRecorded;
  await addEvents(tenant, 5);
  await untilPlaced(tenant);
  expect(await countBacklog(tenant)).toBe(0);
  expect(backlogsRecorded).toBe(before);
});

test('creates deliveries later if no server did, except of events long before the subscription', async () => {
  const tenant = await subscribed(1);
  await addEvents(tenant, 3);
  await addEvents(tenant, 2, 60);
  await untilPlaced(tenant);
  expect(await countBacklog(tenant)).toBeGreaterThan(0);
  expect((await countDeliveries(tenant)).all).toBe(0);
  start();
  await expect.poll(() => countBacklog(tenant)).toBe(0);
  expect(await countDeliveries(tenant)).toEqual({ all: 3, different: 3 });
  await stopMatchers();
});

test('rolls back a failing company without delaying others, and retries it', async () => {
  const [bad, good] = [await subscribed(2), await subscribed(2)];
  const sql = database();
  await sql.begin(async (holding) => {
    // Another transaction locks the subscription for longer than a statement may wait.
    await holding`select from webhook_subscriptions where company_id = ${bad.companyId} for update`;
    await addEvents(bad, 4);
    await untilPlaced(bad);
    start();
    await addEvents(good, 4);
    await expect.poll(() => countDeliveries(good)).toEqual({ all: 8, different: 8 });
    expect((await countDeliveries(bad)).all).toBe(0);
    expect(await countBacklog(bad)).toBeGreaterThan(0);
  });
  await expect.poll(() => countDeliveries(bad)).toEqual({ all: 8, different: 8 });
  await expect.poll(() => countBacklog(bad)).toBe(0);
  await stopMatchers();
});

test.each([{ ordered: true }, { ordered: false }])(
  'leaves nothing that waits for a subscription that is deleted meanwhile (ordered: $ordered)',
  async ({ ordered }) => {
    const tenant = await newTenant();
    const { id } = await newWebhook(tenant, 'test', { is_ordered: ordered });
    await addEvents(tenant, 3);
    await untilPlaced(tenant);
    const sql = database();
    await sql.begin(async (deleting) => {
      await deleting`select from webhook_subscriptions where id = ${id} for update`;
      start();
      await untilBlocked();
      await deleting`delete from webhook_subscriptions where id = ${id}`;
    });
    await expect.poll(() => countBacklog(tenant)).toBe(0);
    const waiting = await sql`
    select id from webhook_deliveries
    where company_id = ${tenant.companyId} and status in ('pending', 'retrying')`;
    expect([...waiting]).toEqual([]);
    await stopMatchers();
  },
);

test('never deadlocks with a transaction that drops the backlog', async () => {
  const { companyId } = await subscribed(0);
  const scope = { companyId, testMode: true };
  // The later row is stored first in the table.
  for (const position of [2, 1])
    await database()`
      insert into webhook_backlog (company_id, test_mode, first_position, last_position) values (${companyId}, true, ${position}, ${position})`;
  let dropping: Promise<void> | undefined;
  await inTransaction(dispatcherPools.tenants, scope, 5000, async (sql) => {
    expect(await takeStretch(sql, scope, 10)).toEqual({ first: 1, last: 2 });
    dropping = inTransaction(dispatcherPools.tenants, scope, 5000, async (other) => {
      // The planner may choose a sequential scan, in the order of the table.
      await other`select set_config(name, 'off', true) from pg_settings where name in ('enable_indexscan', 'enable_bitmapscan')`;
      await dropBacklog(other, scope);
    });
    await sleep(100);
    await settleStretch(sql, scope, 2);
  });
  await dropping;
  expect(await countBacklog({ companyId } as Tenant)).toBe(0);
});

test('creates few deliveries at a time while requests wait for connections, and the rest afterwards', async () => {
  const tenant = await subscribed(10);
  await addEvents(tenant, 200);
  await untilPlaced(tenant);
  let isPressed = true;
  const waited = { milliseconds: 0, at: performance.now() };
  const pace = new LoadShedder(() => {
    const now = performance.now();
    // Simulates four requests that wait all the time.
    if (isPressed) waited.milliseconds += (now - waited.at) * 4;
    waited.at = now;
    return waited.milliseconds;
  });
  // The load shedder needs a first sample.
  await sleep(100);
  start(pace);
  const steps = new Set<number>();
  await expect
    .poll(async () => {
      const { all } = await countDeliveries(tenant);
      steps.add(all);
      return steps.size;
    })
    .toBeGreaterThan(4);
  // Five events per batch, for ten subscriptions.
  expect([...steps].filter((all) => all % 50 !== 0)).toEqual([]);
  expect(Math.max(...steps)).toBeLessThan(2000);
  isPressed = false;
  await expect.poll(() => countDeliveries(tenant)).toEqual({ all: 2000, different: 2000 });
  await stopMatchers();
});
