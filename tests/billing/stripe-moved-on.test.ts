// Changes of subscriptions that have moved on at Stripe before anything was heard of it here.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Json } from '../support/client.ts';
import type { Fault } from '../support/stripe/stand-in.ts';
import { change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-moved-on');
});
afterAll(() => world?.close());

async function newSubscriber(more: object = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant, more);
  return tenant;
}

async function changed(tenant: Tenant, what: string, body?: object): Promise<void> {
  expect((await change(tenant, what, body)).status).toBe(200);
}

/** Tries a change again until it succeeds. While the server's job carries it out, a retry is answered with 409. */
async function retry(tenant: Tenant, what: string, body: object | undefined, key: string): Promise<void> {
  const succeeded = await vi.waitUntil(async () => {
    const { status, body: answer } = await change(tenant, what, body, key);
    if (status === 409) expect(answer.error.code).toBe('IDEMPOTENCY_IN_PROGRESS');
    else expect(status).toBe(200);
    return status === 200;
  });
  expect(succeeded).toBe(true);
}

const moduleKeys = ({ modules }: Json): string[] => modules.map(({ module_key }: Json) => module_key).toSorted();

describe('after a scheduled downgrade took effect at Stripe and its event was lost', () => {
  async function downgraded(): Promise<Tenant> {
    const tenant = await newSubscriber({ package_code: 'scale' });
    await changed(tenant, 'downgrade', { package_code: 'starter' });
    await world.unheard(() => world.turnPeriod(tenant));
    expect(await world.charged(tenant)).toEqual([29_900, 2900]);
    return tenant;
  }

  test('a cancellation charges nothing and leaves the new plan', async () => {
    const tenant = await downgraded();
    await changed(tenant, 'cancel');
    expect(await world.subscription(tenant)).toMatchObject({
      plan: { package_code: 'starter' },
      cancel_at_period_end: true,
    });
    expect(await world.charged(tenant)).toEqual([29_900, 2900]);
  });

  test('more seats are charged at the price of the new plan', async () => {
    const tenant = await downgraded();
    await changed(tenant, 'seats', { seats: 5 });
    expect(await world.subscription(tenant)).toMatchObject({
      plan: { package_code: 'starter' },
      seats: { allowance: 5 },
    });
    expect(await world.charged(tenant)).toEqual([29_900, 2900, 2 * 1200]);
  });

  test('a module is charged alone', async () => {
    const tenant = await downgraded();
    await changed(tenant, 'modules', { module_key: 'phone_numbers' });
    const subscription = await world.subscription(tenant);
    expect(subscription.plan.package_code).toBe('starter');
    expect(moduleKeys(subscription)).toEqual(['phone_numbers']);
    expect(await world.charged(tenant)).toEqual([29_900, 2900, 1500]);
  });

  test('a second downgrade to the same plan is refused', async () => {
    const tenant = await downgraded();
    const { status, body } = await change(tenant, 'downgrade', { package_code: 'starter' });
    expect([status, body.error.details.reason]).toEqual([409, 'already_on_package']);
    expect((await world.subscription(tenant)).plan.package_code).toBe('starter');
  });
});

test('a cancellation after a module ended at Stripe does not buy the module again', async () => {
  const tenant = await newSubscriber();
  await changed(tenant, 'modules', { module_key: 'workforces' });
  await changed(tenant, 'modules/workforces');
  await world.unheard(() => world.turnPeriod(tenant));
  await changed(tenant, 'cancel');
  expect(moduleKeys(await world.subscription(tenant))).toEqual([]);
  expect(await world.charged(tenant)).toEqual([2900, 9900, 2900]);
});

test('a plan that support changed at Stripe is kept by the next change', async () => {
  const tenant = await newSubscriber();
  const other = await newSubscriber({ package_code: 'growth' });
  expect(await world.charged(other)).toEqual([9900]);
  await world.unheard(async () => world.standIn.books.switchPlan(await world.customerOf(tenant), 'growth'));
  await changed(tenant, 'seats', { seats: 12 });
  expect(await world.subscription(tenant)).toMatchObject({
    plan: { package_code: 'growth' },
    seats: { allowance: 12 },
  });
  expect(await world.charged(tenant)).toEqual([2900, 2 * 1000]);
});

describe('an upgrade that failed in the middle, and whose period ended before it was tried again', () => {
  /** On starter, with a module that is to leave: an upgrade takes the schedule off and puts it back. */
  async function arranged(): Promise<Tenant> {
    const tenant = await newSubscriber();
    await changed(tenant, 'modules', { module_key: 'campaigns' });
    await changed(tenant, 'modules/campaigns');
    await world.catchUp();
    return tenant;
  }

  const stays = [{ action: 'remove_module', module_key: 'campaigns' }];

  describe.each(['the caller', 'the job'])('tried again by %s', (who) => {
    test.each<{ what: string; of: RegExp; how: Fault['how']; charged: number[]; scheduled: object[] }>([
      {
        what: 'before anything was done: is computed anew',
        of: /release$/,
        how: 'refused',
        charged: [2900, 7000],
        scheduled: [],
      },
      {
        what: 'with its schedule taken off: is computed anew, and the schedule is put back',
        of: /^POST \/v1\/subscriptions\//,
        how: 'refused',
        charged: [2900 + 4900, 7000],
        scheduled: stays,
      },
      {
        what: 'charged, without its schedule: is done, and the schedule is put back',
        of: /^POST \/v1\/subscription_schedules$/,
        how: 'refused',
        charged: [7000, 9900 + 4900],
        scheduled: stays,
      },
      {
        what: 'with everything done: is done',
        of: /^POST \/v1\/subscription_schedules\/\w+$/,
        how: 'failed',
        charged: [7000, 9900],
        scheduled: [],
      },
    ])('$what', async ({ of, how, charged, scheduled }) => {
      const tenant = await arranged();
      const key = randomUUID();
      // The period ends before the failure is answered. After that, the server's own job could go on with the upgrade at any moment.
      world.standIn.faults.push({ of, how, act: () => world.unheard(() => world.turnPeriod(tenant)) });
      expect((await change(tenant, 'upgrade', { package_code: 'growth' }, key)).status).toBe(503);
      if (who === 'the job') await world.catchUp();
      await retry(tenant, 'upgrade', { package_code: 'growth' }, key);
      await world.catchUp();
      expect(await world.subscription(tenant)).toMatchObject({
        plan: { package_code: 'growth' },
        scheduled_changes: scheduled,
      });
      expect(await world.charged(tenant)).toEqual([2900, 4900, ...charged]);
    });
  });
});

test('a cancellation that failed in the middle and has taken effect is answered with success', async () => {
  const tenant = await newSubscriber();
  const key = randomUUID();
  const act = (): Promise<void> => world.unheard(() => world.turnPeriod(tenant));
  world.standIn.faults.push({ of: /^POST \/v1\/subscriptions\//, how: 'failed', act });
  expect((await change(tenant, 'cancel', undefined, key)).status).toBe(503);
  await retry(tenant, 'cancel', undefined, key);
  expect((await world.subscription(tenant)).billing_status).toBe('CANCELED');
});

describe('steps that the calendar takes look at Stripe first', () => {
  test('a trial that was paid for does not end', async () => {
    const tenant = await newTenant();
    const { url } = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    await world.unheard(() => world.fillIn(url));
    await database()`
      update subscriptions set trial_ends_at = now(), due_at = now() where company_id = ${tenant.companyId}`;
    await world.catchUp();
    expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
    expect(await database()`select from mails where company_id = ${tenant.companyId}`).toEqual([]);
  });

  test('a workspace that came back is not removed', async () => {
    const tenant = await newSubscriber();
    await changed(tenant, 'cancel');
    await world.turnPeriod(tenant);
    await world.catchUp();
    const { url } = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    await world.unheard(() => world.fillIn(url));
    await database()`
      update subscriptions set status = 'pending_deletion', due_at = now() where company_id = ${tenant.companyId}`;
    await world.catchUp();
    expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
  });
});
