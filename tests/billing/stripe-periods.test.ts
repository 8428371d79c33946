// Ends of periods of subscriptions that are paid through Stripe.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { signIn } from '../support/sign-in.ts';
import { cards, change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-periods');
});
afterAll(() => world?.close());

async function newSubscriber(more: object = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant, more);
  return tenant;
}

const actions = ({ scheduled_changes: changes }: Json): string[] => changes.map(({ action }: Json) => action);

const mails = async ({ companyId }: Tenant): Promise<string[]> =>
  (
    await database()<
      { template: string }[]
    >`select template from mails where company_id = ${companyId} order by created_at, id`
  ).map(({ template }) => template);

describe('scheduled changes', () => {
  test('lists scheduled changes until the end of the period and applies all of them then', async () => {
    const tenant = await newSubscriber({ package_code: 'growth', seats: 12 });
    expect((await change(tenant, 'modules', { module_key: 'campaigns' })).status).toBe(200);
    expect((await change(tenant, 'downgrade', { package_code: 'starter' })).body.data.applies).toBe('period_end');
    expect((await change(tenant, 'seats', { seats: 5 })).status).toBe(200);
    expect((await change(tenant, 'modules/campaigns')).status).toBe(200);
    expect(actions(await world.subscription(tenant))).toEqual(['downgrade', 'set_seats', 'remove_module']);
    await world.pass(32);
    const subscription = await world.subscription(tenant);
    expect(subscription).toMatchObject({ plan: { package_code: 'starter' }, seats: { purchased: 5 }, modules: [] });
    expect(actions(subscription)).toEqual([]);
    expect(await world.charged(tenant)).toEqual([9900 + 2000, 4900, 2900 + 2400]);
  });

  test('keeps scheduled changes through immediate changes and a withdrawn cancellation', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    await change(tenant, 'modules', { module_key: 'campaigns' });
    await change(tenant, 'modules/campaigns');
    expect((await change(tenant, 'seats', { seats: 15 })).status).toBe(200);
    expect((await change(tenant, 'cancel')).status).toBe(200);
    expect(await world.subscription(tenant)).toMatchObject({ cancel_at_period_end: true, seats: { purchased: 15 } });
    expect(actions(await world.subscription(tenant))).toEqual(['cancel', 'remove_module']);
    expect((await change(tenant, 'reactivate')).status).toBe(200);
    expect(actions(await world.subscription(tenant))).toEqual(['remove_module']);
    await world.pass(32);
    expect(await world.subscription(tenant)).toMatchObject({
      modules: expect.not.arrayContaining([{ module_key: 'campaigns' }]),
    });
    expect(await world.charged(tenant)).toEqual([9900, 4900, 5000, 9900 + 5000]);
  });

  test('keeps scheduled changes through a declined card', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    await change(tenant, 'downgrade', { package_code: 'starter' });
    for (const number of [cards.declined, cards.wantsPerson]) {
      await world.putOnFile(tenant, number);
      for (const [what, body] of [
        ['upgrade', { package_code: 'scale' }],
        ['modules', { module_key: 'campaigns' }],
      ] as const) {
        expect((await change(tenant, what, body)).status).toBe(402);
        expect(actions(await world.subscription(tenant))).toEqual(['downgrade']);
      }
    }
    expect(await world.charged(tenant)).toEqual([9900]);
  });

  test('drops a scheduled downgrade when the current plan is requested', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    await change(tenant, 'downgrade', { package_code: 'starter' });
    expect((await change(tenant, 'upgrade', { package_code: 'growth' })).status).toBe(200);
    expect(actions(await world.subscription(tenant))).toEqual([]);
    await world.pass(32);
    expect(await world.charged(tenant)).toEqual([9900, 9900]);
  });
});

describe('a cancellation', () => {
  test('ends a cancelled subscription with its period and makes the workspace dormant', async () => {
    const tenant = await newSubscriber();
    await change(tenant, 'cancel');
    await world.pass(32);
    const subscription = await world.subscription(tenant);
    expect(subscription).toMatchObject({ billing_status: 'CANCELED', dormant: { days_left: expect.any(Number) } });
    expect(await world.charged(tenant)).toEqual([2900]);
    expect(await mails(tenant)).toEqual(['subscription_ended']);
    // A second fetch neither moves the end nor sends a second mail.
    await world.pass(2);
    expect((await world.subscription(tenant)).dormant.days_left).toBe(subscription.dormant.days_left - 2);
    expect(await mails(tenant)).toEqual(['subscription_ended']);
    await world.subscribe(tenant, { package_code: 'growth' });
    expect(await world.subscription(tenant)).toMatchObject({ billing_status: 'ACTIVE', dormant: null });
  });

  test('continues the subscription after a withdrawn cancellation', async () => {
    const tenant = await newSubscriber();
    await change(tenant, 'cancel');
    await change(tenant, 'reactivate');
    await world.pass(32);
    expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
    expect(await world.charged(tenant)).toEqual([2900, 2900]);
  });
});

test('becomes past due with one mail after a failed payment, and recovers with a valid card', async () => {
  const tenant = await newSubscriber();
  await world.putOnFile(tenant, cards.declined);
  await world.pass(33);
  expect((await world.subscription(tenant)).billing_status).toBe('PAST_DUE');
  expect((await world.invoices(tenant))[0]).toMatchObject({ status: 'open', amount_due_minor: 2900 });
  await world.putOnFile(tenant, cards.good);
  await world.pass(2);
  expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
  expect((await world.invoices(tenant)).map(({ status }) => status)).toEqual(['paid', 'paid']);
  expect(await mails(tenant)).toEqual(['payment_failed', 'payment_succeeded']);
  expect(await world.charged(tenant)).toEqual([2900, 2900]);
});

test('keeps the refund of a change as credit for the next charge', async () => {
  const tenant = await newSubscriber({ billing_cycle: 'yearly' });
  expect((await change(tenant, 'upgrade', { package_code: 'starter', billing_cycle: 'monthly' })).status).toBe(200);
  await world.pass(32);
  expect(await world.charged(tenant)).toEqual([29_000]);
  const invoices = await world.invoices(tenant);
  expect(invoices.map(({ total_minor: total }) => total)).toEqual([0, 0, 29_000]);
  for (const { lines, total_minor: total } of invoices)
    expect(lines.reduce((sum: number, line: Json) => sum + line.amount_minor, 0)).toBe(total);
});

describe('a subscription paused at Stripe', () => {
  let tenant: Tenant;
  const setStatus = async (status: string): Promise<void> => {
    const [row] = await database()<{ id: string }[]>`
      select customer_id as id from provider_customers where company_id = ${tenant.companyId}`;
    const live = [...world.standIn.books.subscriptions.values()].find(({ customer }) => customer === row?.id);
    if (live) Object.assign(live, { status });
    world.standIn.books.emit('customer.subscription.paused', live ?? {});
    await world.catchUp();
  };
  const subscriptionFor = async (more: object): Promise<Json> =>
    (await expectStatus(200, 'GET', '/v1/subscription', more)).body.data.subscription;

  test('makes a paused subscription past due with the billing status NONE, and closes the API except billing', async () => {
    tenant = await newSubscriber();
    await expectStatus(200, 'GET', '/v1/objects', { key: tenant.key });
    await setStatus('paused');
    expect(await subscriptionFor({ key: tenant.key })).toMatchObject({
      status: 'past_due',
      billing_status: 'NONE',
      current_period: null,
      dormant: null,
      plan: { package_code: 'starter' },
    });
    const refused = await expectStatus(402, 'GET', '/v1/objects', { key: tenant.key });
    expect(refused.body.error).toMatchObject({ code: 'QUOTA_EXCEEDED', details: { reason: 'no_subscription' } });
    await expectStatus(200, 'POST', '/v1/billing/portal-session', { key: tenant.key });
    const { body } = await expectStatus(200, 'GET', '/v1/invoices', { key: tenant.key });
    expect(body.data.pending).toBeNull();
  });

  test('rejects a second subscription while one is paused, and says what to do', async () => {
    const { access_token: token } = await signIn(tenant);
    const body = { kind: 'subscribe', package_code: 'growth' };
    const started = await call('POST', '/v1/checkout-sessions', { token, body });
    expect([started.status, started.body.error.details.reason]).toEqual([409, 'subscription_exists']);
    expect(started.body.error.message).toContain('/v1/billing/portal-session');
  });

  test('opens the API again when a subscription is resumed', async () => {
    await setStatus('active');
    expect(await subscriptionFor({ key: tenant.key })).toMatchObject({ billing_status: 'ACTIVE' });
    await expectStatus(200, 'GET', '/v1/objects', { key: tenant.key });
  });

  test('stays active while Stripe only pauses the collection of payments', async () => {
    const [row] = await database()<{ id: string }[]>`
      select customer_id as id from provider_customers where company_id = ${tenant.companyId}`;
    const live = [...world.standIn.books.subscriptions.values()].find(({ customer }) => customer === row?.id);
    if (live) Object.assign(live, { pause_collection: { behavior: 'void', resumes_at: null } });
    await setStatus('active');
    expect(await subscriptionFor({ key: tenant.key })).toMatchObject({ billing_status: 'ACTIVE' });
    await expectStatus(200, 'GET', '/v1/objects', { key: tenant.key });
  });
});
