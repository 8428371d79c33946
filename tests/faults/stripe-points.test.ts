// Each request of a change to Stripe lost, unanswered or failed: charged once, and told so.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyAddress } from '../support/client.ts';
import type { Fault } from '../support/stripe/stand-in.ts';
import { change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { fatal, stripePayments, stripePoints, Traps } from './support/points.ts';
import { FaultProxy, through } from './support/proxy.ts';

const traps = new Traps(stripePayments);
let proxy: FaultProxy;
let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-points', async (url) => {
    proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
    return through(url, proxy);
  });
  // Prices are made by whoever needs them first.
  await changed(await arranged(), randomUUID());
});
afterAll(async () => {
  await world?.close();
  await proxy?.close();
});

/** On starter, with a module that is to leave: what is changed at once has to take the schedule off, and put it back. */
async function arranged(): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  expect((await change(tenant, 'modules', { module_key: 'campaigns' })).status).toBe(200);
  expect((await change(tenant, 'modules/campaigns')).status).toBe(200);
  await world.catchUp();
  return tenant;
}

interface Told {
  status: number;
  body: { error?: { code: string; details?: { reason?: string } } };
}

async function changed({ key }: Tenant, idempotencyKey: string): Promise<Told> {
  const response = await fetch(`${world.server.url}/v1/subscription/upgrade`, {
    method: 'POST',
    headers: {
      'x-api-key': key,
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
      'x-forwarded-for': anyAddress(),
      // One that was kept open may end by itself just as the call is sent, which would look as if it had been cut.
      connection: 'close',
    },
    body: JSON.stringify({ package_code: 'growth' }),
  });
  return { status: response.status, body: (await response.json()) as Told['body'] };
}

/** Sends the same call again until nobody else is at it; who does not come to an end on a busy machine is taken for dead as well. */
async function changedAtLast(tenant: Tenant, idempotencyKey: string): Promise<Told> {
  for (let again = 1; ; again += 1) {
    const told = await changed(tenant, idempotencyKey);
    // A busy machine may answer 503 for lack of time.
    const isOverload = told.status === 503 && told.body.error?.details === undefined;
    if (!isOverload && told.body.error?.code !== 'IDEMPOTENCY_IN_PROGRESS') return told;
    if (again % 20 === 0) await passMinute(tenant);
    await sleep(50);
  }
}

/** As if a minute had passed, after which whoever held something is taken for dead. */
async function passMinute({ companyId }: Tenant): Promise<void> {
  const sql = database();
  const past = new Date(Date.now() - 1000);
  await sql`update billing_operations set leased_until = ${past} where company_id = ${companyId} and status = 'pending'`;
  await sql`update idempotency_records set leased_until = ${past} where company_id = ${companyId} and leased_until is not null`;
}

async function expectOnce(tenant: Tenant): Promise<void> {
  const { companyId } = tenant;
  await world.catchUp();
  const subscription = await world.subscription(tenant);
  expect(subscription).toMatchObject({
    plan: { package_code: 'growth' },
    scheduled_changes: [{ action: 'remove_module', module_key: 'campaigns' }],
  });
  expect(await world.charged(tenant)).toEqual([2900, 4900, 7000]);
  const [operations] = await database()`
    select count(*) filter (where status = 'done')::int as done, count(*) filter (where status <> 'done')::int as others,
      (select count(*)::int from audit_logs where company_id = ${companyId} and action = 'subscription.upgrade') as audit
    from billing_operations where company_id = ${companyId}`;
  expect(operations).toEqual({ done: 3, others: 0, audit: 1 });
}

/** What a change asks of Stripe, in its order: it looks at everything before and after. */
const requests = [
  'first look before',
  'second look before',
  'third look before',
  'fourth look before',
  'preview of the next invoice before',
  'subscriptions of the customer',
  'prices',
  'release of the schedule',
  'change',
  'subscriptions again',
  'new schedule',
  'schedule that was taken off',
  'phases',
  'first look',
  'second look',
  'third look',
  'fourth look',
  'preview of the next invoice',
].map((name, number) => ({ name, number }));

/** What only reads does nothing, however it ends. */
const writing = requests.filter(({ name }) => /release|change|new schedule|phases/.test(name));
/** Before anything is written, between what is, and after all of it. */
const reading = ['first look before', 'subscriptions of the customer', 'first look'];
const wherever = requests.filter((each) => writing.includes(each) || reading.includes(each.name));

test('a change makes just these requests', async () => {
  const tenant = await arranged();
  const before = world.standIn.asked.length;
  expect((await changed(tenant, randomUUID())).status).toBe(200);
  const asked = world.standIn.asked.slice(before).map(({ call }) => call.replace(/\w+_\w{18}/, '{id}'));
  // A look, whose requests are sent together.
  const look = [
    'GET /v1/checkout/sessions',
    'GET /v1/customers/{id}',
    'GET /v1/invoices',
    'GET /v1/subscriptions',
    'POST /v1/invoices/create_preview',
  ];
  expect(asked.slice(0, 5).toSorted()).toEqual(look);
  expect(asked.slice(5, 13)).toEqual([
    'GET /v1/subscriptions',
    'GET /v1/prices',
    'POST /v1/subscription_schedules/{id}/release',
    'POST /v1/subscriptions/{id}',
    'GET /v1/subscriptions',
    'POST /v1/subscription_schedules',
    'GET /v1/subscription_schedules',
    'POST /v1/subscription_schedules/{id}',
  ]);
  expect(asked.slice(13).toSorted()).toEqual(look);
  await expectOnce(tenant);
});

describe.each<{ how: Fault['how']; what: string; at: typeof requests }>([
  { how: 'refused', what: 'answered with a failure, and not done', at: wherever },
  { how: 'failed', what: 'done, and answered with a failure', at: writing },
])('$what', ({ how, at }) => {
  test.each(at)('at the $name: 503, and a retry succeeds', async ({ number }) => {
    const tenant = await arranged();
    const key = randomUUID();
    world.standIn.faults.push({ of: /./, skip: number, how });
    // A request that only reads is sent again at once.
    const first = await changed(tenant, key);
    expect([200, 503]).toContain(first.status);
    if (first.status === 503) expect(first.body.error?.details).toEqual({ reason: 'provider_error' });
    expect((await changedAtLast(tenant, key)).status).toBe(200);
    await expectOnce(tenant);
  });
});

describe.each<{ how: Fault['how']; what: string; at: typeof requests }>([
  { how: 'lost', what: 'before it is done', at: wherever },
  { how: 'cut', what: 'once it is done', at: writing },
])('the server killed at a request, $what', ({ how, at }) => {
  test.each(at)('at the $name: the retry is told the success', async ({ number }) => {
    const tenant = await arranged();
    const key = randomUUID();
    world.standIn.faults.push({ of: /./, skip: number, how, act: () => world.server.kill() });
    expect(await changed(tenant, key).catch(() => undefined)).toBeUndefined();
    await world.server.restart();
    await passMinute(tenant);
    // Whoever is first: the job, or the caller.
    if (number % 2 === 0) await world.catchUp();
    expect((await changedAtLast(tenant, key)).status).toBe(200);
    await expectOnce(tenant);
  });
});

describe('the server killed at a statement of its own', () => {
  test.each(fatal(stripePoints))(
    'with $statement $moment: the retry is told the success',
    async ({ statement, moment }) => {
      const tenant = await arranged();
      const key = randomUUID();
      const sprung = traps.set({ statement, moment, act: () => void process.kill(world.server.pid, 'SIGKILL') });
      expect(await changed(tenant, key).catch(() => undefined)).toBeUndefined();
      await sprung;
      traps.clear();
      await world.server.restart();
      await passMinute(tenant);
      expect((await changedAtLast(tenant, key)).status).toBe(200);
      await expectOnce(tenant);
    },
  );
});
