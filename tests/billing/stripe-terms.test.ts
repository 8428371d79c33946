// Discounts, taxes and other terms at Stripe, through changes that rewrite the schedule.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Subscription } from '../support/stripe/books.ts';
import { change, StripeWorld } from '../support/stripe/world.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-terms');
  for (const id of ['txr_default', 'txr_item']) world.standIn.books.taxRates.add(id);
});
afterAll(() => world?.close());

const taxRate = (id: string) => ({ id, object: 'tax_rate' as const });

/** Terms that support agreed with a customer, in Stripe's format. */
const agreed = {
  automatic_tax: { enabled: true, liability: null },
  collection_method: 'send_invoice',
  days_until_due: 14,
  default_tax_rates: [taxRate('txr_default')],
  description: 'Agreed in November',
  discounts: ['di_whole'],
};
const agreedItem = { discounts: ['di_plan'], tax_rates: [taxRate('txr_item')], metadata: { contract: '17' } };

async function newSubscriber(): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant, { package_code: 'growth' });
  await changed(tenant, 'modules', { module_key: 'campaigns' });
  const live = await atStripe(tenant);
  Object.assign(live, agreed);
  Object.assign(findPlan(live), agreedItem);
  return tenant;
}

async function changed(tenant: Tenant, what: string, body?: object): Promise<void> {
  expect((await change(tenant, what, body)).status).toBe(200);
}

async function atStripe(tenant: Tenant): Promise<Subscription> {
  const customer = await world.findCustomer(tenant);
  const own = [...world.standIn.books.subscriptions.values()].find((each) => each.customer === customer);
  if (!own) throw new Error('no subscription at Stripe');
  return own;
}

function findPlan({ items }: Subscription) {
  const plan = items.data.find(({ price }) => price.metadata.item?.startsWith('plan.'));
  if (!plan) throw new Error('no plan at Stripe');
  return plan;
}

async function expectAgreed(tenant: Tenant): Promise<void> {
  const live = await atStripe(tenant);
  expect(live).toMatchObject(agreed);
  expect(findPlan(live)).toMatchObject(agreedItem);
}

describe.each<{ what: string; changes: [string, object?][] }>([
  { what: 'a downgrade', changes: [['downgrade', { package_code: 'starter' }]] },
  { what: 'the end of a module', changes: [['modules/campaigns']] },
  {
    what: 'a downgrade and the end of a module',
    changes: [['downgrade', { package_code: 'starter' }], ['modules/campaigns']],
  },
  {
    what: 'a downgrade, a cancellation and a reactivation',
    changes: [['downgrade', { package_code: 'starter' }], ['cancel'], ['reactivate']],
  },
  {
    what: 'a downgrade, and more seats at once',
    changes: [
      ['downgrade', { package_code: 'starter' }],
      ['seats', { seats: 12 }],
    ],
  },
  {
    what: 'the end of a module, and another plan at once',
    changes: [['modules/campaigns'], ['upgrade', { package_code: 'scale' }]],
  },
])('the terms of a subscription after $what', ({ changes }) => {
  test('keeps the agreed terms immediately and in the next two periods', async () => {
    const tenant = await newSubscriber();
    for (const [what, body] of changes) await changed(tenant, what, body);
    await expectAgreed(tenant);
    for (const _period of [1, 2]) {
      await world.turnPeriod(tenant);
      await world.catchUp();
      await expectAgreed(tenant);
    }
    expect((await world.subscription(tenant)).scheduled_changes).toEqual([]);
  });
});

describe('changes by support during a schedule', () => {
  async function scheduled(): Promise<Tenant> {
    const tenant = await newSubscriber();
    await changed(tenant, 'downgrade', { package_code: 'starter' });
    return tenant;
  }

  test('does not grant a removed discount again', async () => {
    const tenant = await scheduled();
    Object.assign(await atStripe(tenant), { discounts: [] });
    await changed(tenant, 'modules/campaigns');
    expect((await atStripe(tenant)).discounts).toEqual([]);
    await world.turnPeriod(tenant);
    expect((await atStripe(tenant)).discounts).toEqual([]);
  });

  test('keeps a granted discount in the next period', async () => {
    const tenant = await scheduled();
    Object.assign(await atStripe(tenant), { discounts: ['di_whole', 'di_more'] });
    await changed(tenant, 'modules/campaigns');
    await world.turnPeriod(tenant);
    expect((await atStripe(tenant)).discounts).toEqual(['di_whole', 'di_more']);
  });

  test.each<[string, string, object?]>([
    ['a change under the same schedule', 'modules/campaigns'],
    ['a change that takes the schedule off and puts it back', 'seats', { seats: 12 }],
  ])('keeps a coupon planned for the next period through %s', async (_what, ...asked) => {
    const tenant = await scheduled();
    const { schedule } = await atStripe(tenant);
    const coupon = { coupon: 'co_planned', discount: null, promotion_code: null };
    schedule?.phases[1]?.discounts.push(coupon);
    await changed(tenant, ...asked);
    expect((await atStripe(tenant)).schedule?.phases[1]?.discounts).toContainEqual(coupon);
    await world.turnPeriod(tenant);
    expect((await atStripe(tenant)).discounts).toHaveLength(2);
  });

  test('keeps a planned coupon if the server fails while the schedule is released', async () => {
    const tenant = await scheduled();
    const { schedule } = await atStripe(tenant);
    const coupon = { coupon: 'co_planned', discount: null, promotion_code: null };
    schedule?.phases[1]?.discounts.push(coupon);
    world.standIn.faults.push({ of: /^POST \/v1\/subscription_schedules$/, how: 'refused' });
    const key = randomUUID();
    expect((await change(tenant, 'seats', { seats: 12 }, key)).status).toBe(503);
    expect((await change(tenant, 'seats', { seats: 12 }, key)).status).toBe(200);
    expect((await atStripe(tenant)).schedule?.phases[1]?.discounts).toContainEqual(coupon);
  });

  test('keeps an item outside the catalog', async () => {
    const tenant = await newSubscriber();
    const { books } = world.standIn;
    const live = await atStripe(tenant);
    const price = books.newPrice({
      currency: 'usd',
      unit_amount: 12_500,
      lookup_key: null,
      metadata: {},
      nickname: 'Account manager',
      recurring: { interval: 'month' },
    });
    const { current_period_start: start, current_period_end: end } = findPlan(live);
    live.items.data.push(books.newItem(price, 1, start, end));
    const prices = async () => (await atStripe(tenant)).items.data.map((item) => item.price.id);
    await changed(tenant, 'seats', { seats: 12 });
    expect(await prices()).toContain(price.id);
    await changed(tenant, 'downgrade', { package_code: 'starter' });
    await world.turnPeriod(tenant);
    expect(await prices()).toContain(price.id);
    expect((await world.charged(tenant)).at(-1)).toBe(2900 + 9 * 1200 + 4900 + 12_500);
  });
});
