// Each Stripe request of a change is lost, unanswered or failed: charged once, and reported.
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
  // The first change creates the prices.
  await upgrade(await newSubscriber(), randomUUID());
});
afterAll(async () => {
  await world?.close();
  await proxy?.close();
});

/**
 * Creates a tenant on starter with a module that is scheduled for removal. An immediate change must
 * release the schedule and create a new one.
 */
async function newSubscriber(): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  expect((await change(tenant, 'modules', { module_key: 'campaigns' })).status).toBe(200);
  expect((await change(tenant, 'modules/campaigns')).status).toBe(200);
  await world.catchUp();
  return tenant;
}

interface UpgradeAnswer {
  status: number;
  body: { error?: { code: string; details?: { reason?: string } } };
}

async function upgrade({ key }: Tenant, idempotencyKey: string): Promise<UpgradeAnswer> {
  const response = await fetch(`${world.server.url}/v1/subscription/upgrade`, {
    method: 'POST',
    headers: {
      'x-api-key': key,
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
      'x-forwarded-for': anyAddress(),
      // A kept-alive connection may close just as the call is sent, which would look like a kill.
      connection: 'close',
    },
    body: JSON.stringify({ package_code: 'growth' }),
  });
  return { status: response.status, body: (await response.json()) as UpgradeAnswer['body'] };
}

/**
 * Repeats the call until no other call is in progress. On a busy machine, it also ends the leases
 * now and then.
 */
async function upgradeUntilServed(tenant: Tenant, idempotencyKey: string): Promise<UpgradeAnswer> {
  for (let again = 1; ; again += 1) {
    const answer = await upgrade(tenant, idempotencyKey);
    // A busy machine may answer 503.
    const isOverload = answer.status === 503 && answer.body.error?.details === undefined;
    if (!isOverload && answer.body.error?.code !== 'IDEMPOTENCY_IN_PROGRESS') return answer;
    if (again % 20 === 0) await passMinute(tenant);
    await sleep(50);
  }
}

/** Ends the leases of killed processes. */
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

/** The Stripe requests of a change in order. It reads the whole state before and after. */
const requests = [
  'first read before',
  'second read before',
  'third read before',
  'fourth read before',
  'preview of the next invoice before',
  'subscriptions of the customer',
  'prices',
  'release of the schedule',
  'change',
  'subscriptions again',
  'new schedule',
  'previous schedule',
  'phases',
  'first read',
  'second read',
  'third read',
  'fourth read',
  'preview of the next invoice',
].map((name, number) => ({ name, number }));

/** Requests that only read change nothing, however they end. */
const writing = requests.filter(({ name }) => /release|change|new schedule|phases/.test(name));
/** Reads before, between and after the writes. */
const reading = ['first read before', 'subscriptions of the customer', 'first read'];
const everyKind = requests.filter((each) => writing.includes(each) || reading.includes(each.name));

test('sends exactly the expected requests for a change', async () => {
  const tenant = await newSubscriber();
  const before = world.standIn.asked.length;
  expect((await upgrade(tenant, randomUUID())).status).toBe(200);
  const asked = world.standIn.asked.slice(before).map(({ call }) => call.replace(/\w+_\w{18}/, '{id}'));
  // A read of the whole state, whose requests are sent together.
  const reads = [
    'GET /v1/checkout/sessions',
    'GET /v1/customers/{id}',
    'GET /v1/invoices',
    'GET /v1/subscriptions',
    'POST /v1/invoices/create_preview',
  ];
  expect(asked.slice(0, 5).toSorted()).toEqual(reads);
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
  expect(asked.slice(13).toSorted()).toEqual(reads);
  await expectOnce(tenant);
});

describe.each<{ how: Fault['how']; what: string; at: typeof requests }>([
  { how: 'refused', what: 'rejected without effect', at: everyKind },
  { how: 'failed', what: 'failed after taking effect', at: writing },
])('$what', ({ how, at }) => {
  test.each(at)('returns 503 for a failure at the $name, and succeeds on retry', async ({ number }) => {
    const tenant = await newSubscriber();
    const key = randomUUID();
    world.standIn.faults.push({ of: /./, skip: number, how });
    // A request that only reads is repeated immediately.
    const first = await upgrade(tenant, key);
    expect([200, 503]).toContain(first.status);
    if (first.status === 503) expect(first.body.error?.details).toEqual({ reason: 'provider_error' });
    expect((await upgradeUntilServed(tenant, key)).status).toBe(200);
    await expectOnce(tenant);
  });
});

describe.each<{ how: Fault['how']; what: string; at: typeof requests }>([
  { how: 'lost', what: 'before it takes effect', at: everyKind },
  { how: 'cut', what: 'after it takes effect', at: writing },
])('the server killed at a request, $what', ({ how, at }) => {
  test.each(at)('returns the success on retry after a kill at the $name', async ({ number }) => {
    const tenant = await newSubscriber();
    const key = randomUUID();
    world.standIn.faults.push({ of: /./, skip: number, how, act: () => world.server.kill() });
    expect(await upgrade(tenant, key).catch(() => undefined)).toBeUndefined();
    await world.server.restart();
    await passMinute(tenant);
    // The job and the caller take turns being first.
    if (number % 2 === 0) await world.catchUp();
    expect((await upgradeUntilServed(tenant, key)).status).toBe(200);
    await expectOnce(tenant);
  });
});

describe('the server killed at its own statements', () => {
  test.each(fatal(stripePoints))(
    'returns the success on retry after a kill with $statement $moment',
    async ({ statement, moment }) => {
      const tenant = await newSubscriber();
      const key = randomUUID();
      const sprung = traps.set({ statement, moment, act: () => void process.kill(world.server.pid, 'SIGKILL') });
      expect(await upgrade(tenant, key).catch(() => undefined)).toBeUndefined();
      await sprung;
      traps.clear();
      await world.server.restart();
      await passMinute(tenant);
      expect((await upgradeUntilServed(tenant, key)).status).toBe(200);
      await expectOnce(tenant);
    },
  );
});
