// Changes of subscriptions that changed at Stripe before their events arrived.
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

/**
 * Retries a change until it succeeds. While the server's job carries it out, a retry returns 409.
 */
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

  test('cancels without a charge and keeps the new plan after a downgrade whose event was lost', async () => {
    const tenant = await downgraded();
    await changed(tenant, 'cancel');
    expect(await world.subscription(tenant)).toMatchObject({
      plan: { package_code: 'starter' },
      cancel_at_period_end: true,
    });
    expect(await world.charged(tenant)).toEqual([29_900, 2900]);
  });

  test("charges more seats at the new plan's price after a downgrade whose event was lost", async () => {
    const tenant = await downgraded();
    await changed(tenant, 'seats', { seats: 5 });
    expect(await world.subscription(tenant)).toMatchObject({
      plan: { package_code: 'starter' },
      seats: { allowance: 5 },
    });
    expect(await world.charged(tenant)).toEqual([29_900, 2900, 2 * 1200]);
  });

  test('charges only the module after a downgrade whose event was lost', async () => {
    const tenant = await downgraded();
    await changed(tenant, 'modules', { module_key: 'phone_numbers' });
    const subscription = await world.subscription(tenant);
    expect(subscription.plan.package_code).toBe('starter');
    expect(moduleKeys(subscription)).toEqual(['phone_numbers']);
    expect(await world.charged(tenant)).toEqual([29_900, 2900, 1500]);
  });

  test('rejects a second downgrade to the same plan', async () => {
    const tenant = await downgraded();
    const { status, body } = await change(tenant, 'downgrade', { package_code: 'starter' });
    expect([status, body.error.details.reason]).toEqual([409, 'already_on_package']);
    expect((await world.subscription(tenant)).plan.package_code).toBe('starter');
  });
});

test('does not buy a module again that ended at Stripe when the subscription is cancelled', async () => {
  const tenant = await newSubscriber();
  await changed(tenant, 'modules', { module_key: 'workforces' });
  await changed(tenant, 'modules/workforces');
  await world.unheard(() => world.turnPeriod(tenant));
  await changed(tenant, 'cancel');
  expect(moduleKeys(await world.subscription(tenant))).toEqual([]);
  expect(await world.charged(tenant)).toEqual([2900, 9900, 2900]);
});

test('keeps a plan that support changed at Stripe through the next change', async () => {
  const tenant = await newSubscriber();
  const other = await newSubscriber({ package_code: 'growth' });
  expect(await world.charged(other)).toEqual([9900]);
  await world.unheard(async () => world.standIn.books.switchPlan(await world.findCustomer(tenant), 'growth'));
  await changed(tenant, 'seats', { seats: 12 });
  expect(await world.subscription(tenant)).toMatchObject({
    plan: { package_code: 'growth' },
    seats: { allowance: 12 },
  });
  expect(await world.charged(tenant)).toEqual([2900, 2 * 1000]);
});

describe('an upgrade that failed midway before the period ended', () => {
  /** On starter, with a module about to end: an upgrade releases the schedule and restores it. */
  async function arranged(): Promise<Tenant> {
    const tenant = await newSubscriber();
    await changed(tenant, 'modules', { module_key: 'campaigns' });
    await changed(tenant, 'modules/campaigns');
    await world.catchUp();
    return tenant;
  }

  const stays = [{ action: 'remove_module', module_key: 'campaigns' }];

  describe.each(['the caller', 'the job'])('retried by %s', (who) => {
    test.each<{ what: string; of: RegExp; how: Fault['how']; charged: number[]; scheduled: object[] }>([
      {
        what: 'recomputes an upgrade that failed before its first step',
        of: /release$/,
        how: 'refused',
        charged: [2900, 7000],
        scheduled: [],
      },
      {
        what: 'recomputes an upgrade that failed with its schedule released, and restores the schedule',
        of: /^POST \/v1\/subscriptions\//,
        how: 'refused',
        charged: [2900 + 4900, 7000],
        scheduled: stays,
      },
      {
        what: 'completes an upgrade that was charged without its schedule, and restores the schedule',
        of: /^POST \/v1\/subscription_schedules$/,
        how: 'refused',
        charged: [7000, 9900 + 4900],
        scheduled: stays,
      },
      {
        what: 'completes an upgrade whose last response was lost',
        of: /^POST \/v1\/subscription_schedules\/\w+$/,
        how: 'failed',
        charged: [7000, 9900],
        scheduled: [],
      },
    ])('$what', async ({ of, how, charged, scheduled }) => {
      const tenant = await arranged();
      const key = randomUUID();
      // The period ends before the failure response. Afterwards, the server's own job may continue
      // the upgrade at any time.
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

test('returns success for the retry of a cancellation that failed midway and has taken effect', async () => {
  const tenant = await newSubscriber();
  const key = randomUUID();
  const act = (): Promise<void> => world.unheard(() => world.turnPeriod(tenant));
  world.standIn.faults.push({ of: /^POST \/v1\/subscriptions\//, how: 'failed', act });
  expect((await change(tenant, 'cancel', undefined, key)).status).toBe(503);
  await retry(tenant, 'cancel', undefined, key);
  expect((await world.subscription(tenant)).billing_status).toBe('CANCELED');
});

describe('time-driven steps check Stripe first', () => {
  test('does not end a trial that was paid for at Stripe', async () => {
    const tenant = await newTenant();
    const { url } = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    await world.unheard(() => world.fillIn(url));
    await database()`
      update subscriptions set trial_ends_at = now(), due_at = now() where company_id = ${tenant.companyId}`;
    await world.catchUp();
    expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
    expect(await database()`select from mails where company_id = ${tenant.companyId}`).toEqual([]);
  });

  test('does not delete a workspace that resubscribed at Stripe', async () => {
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
