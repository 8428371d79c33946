// Lost events: paid checkouts and second subscriptions that Stripe did not report.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { signIn } from '../support/sign-in.ts';
import { change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-unheard');
});
afterAll(() => world?.close());

async function poll({ key }: Pick<Tenant, 'key'>, id: string): Promise<Json> {
  return (await expectStatus(200, 'GET', `/v1/checkout-sessions/${id}`, { key })).body.data.checkout_session;
}

/** Returns a paid checkout whose event was lost. */
async function paidUnheard(body: object): Promise<{ tenant: Tenant; session: Json }> {
  const tenant = await newTenant();
  const session = await world.startCheckout(tenant, body);
  await world.unheard(() => world.fillIn(session.url));
  return { tenant, session };
}

const looks = (): number =>
  world.standIn.asked.filter(({ call: what }) => what.startsWith('GET /v1/customers/')).length;

describe('a paid checkout whose event was lost', () => {
  const body = { kind: 'subscribe', package_code: 'starter' };

  test('completes a paid checkout for a polling client although its event was lost', async () => {
    const { tenant, session } = await paidUnheard(body);
    expect(await poll(tenant, session.id)).toMatchObject({
      status: 'complete',
      activation: { active: true, active_package_code: 'starter' },
    });
    expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
  });

  test('credits a wallet top-up for a polling client although its event was lost', async () => {
    const { tenant, session } = await paidUnheard({ kind: 'wallet_topup', amount_minor: 5000 });
    expect(await poll(tenant, session.id)).toMatchObject({
      status: 'complete',
      wallet: { credited: true, balance_minor: 5000 },
    });
  });

  test('finds a paid checkout within two minutes without an event or a poll', async () => {
    const { tenant } = await paidUnheard(body);
    const found = await world.look(tenant, new Date(Date.now() + 120_000));
    expect(found).toMatchObject({ status: 'active', packageCode: 'starter' });
    expect(await world.look(tenant, new Date(Date.now() + 23 * 3_600_000))).toBeUndefined();
  });

  test('permits a change after a paid checkout whose event was lost', async () => {
    const { tenant } = await paidUnheard(body);
    expect((await change(tenant, 'upgrade', { package_code: 'growth' })).status).toBe(200);
    expect(await world.charged(tenant)).toEqual([2900, 7000]);
  });

  test('rejects another checkout and permits a change after a lost event', async () => {
    const { tenant } = await paidUnheard(body);
    const { access_token: token } = await signIn(tenant);
    const second = await call('POST', '/v1/checkout-sessions', { token, body });
    expect([second.status, second.body.error.details.reason]).toEqual([409, 'subscription_exists']);
    expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
    expect((await change(tenant, 'cancel')).status).toBe(200);
  });

  test('opens the portal after a paid checkout whose event was lost', async () => {
    const { tenant } = await paidUnheard(body);
    expect((await call('POST', '/v1/billing/portal-session', { key: tenant.key })).status).toBe(200);
  });
});

describe('an open checkout', () => {
  test('asks Stripe once for many polling clients, and again after five seconds', async () => {
    const tenant = await newTenant();
    const { id } = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    await world.catchUp();
    const before = looks();
    const answers = await Promise.all(Array.from({ length: 12 }, () => poll(tenant, id)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 12 }, () => 'open'));
    expect(looks() - before).toBe(1);
    await poll(tenant, id);
    expect(looks() - before).toBe(1);
    await database()`
      update checkout_sessions set asked_at = asked_at - interval '5 seconds'
      where company_id = ${tenant.companyId} and id = ${id}`;
    await poll(tenant, id);
    expect(looks() - before).toBe(2);
  });

  test('shows the stored state of an open checkout if Stripe fails', async () => {
    const { tenant, session } = await paidUnheard({ kind: 'subscribe', package_code: 'starter' });
    for (let time = 0; time < 2; time += 1) world.standIn.faults.push({ of: /^GET \/v1\/customers\//, how: 'refused' });
    expect((await poll(tenant, session.id)).status).toBe('open');
  });
});

describe('a second live subscription of a customer', () => {
  async function withSecond(): Promise<{ tenant: Tenant; second: string }> {
    const tenant = await newTenant();
    await world.subscribe(tenant);
    const { books } = world.standIn;
    const customer = await world.findCustomer(tenant);
    const [first] = [...books.subscriptions.values()].filter((each) => each.customer === customer);
    const session = [...books.sessions.values()].find((each) => each.customer === customer);
    if (!first || !session) throw new Error('no subscription at Stripe');
    const second = books.newSubscription({ ...session, details: {} }, books.newMethod('4242424242424242'));
    // Created later, but within the same second.
    first.created -= 60;
    return { tenant, second: second.id };
  }

  test('shows a second live subscription and raises one alert', async () => {
    const { tenant, second } = await withSecond();
    const alerts = () =>
      [...world.alerts, ...world.server.alerts()].filter((alert) => JSON.stringify(alert).includes(second));
    for (let look = 0; look < 3; look += 1) {
      world.standIn.books.emit('customer.updated', { object: 'customer', id: await world.findCustomer(tenant) });
      await world.catchUp();
    }
    expect((await world.subscription(tenant)).duplicate_subscriptions).toEqual([
      { provider_id: second, status: 'active', package_code: 'starter', started_at: expect.any(String) },
    ]);
    await expect.poll(() => alerts().length).toBe(1);
  });

  test('never replaces the first subscription with the second, in any order of events', async () => {
    const { tenant, second } = await withSecond();
    const { books } = world.standIn;
    await world.catchUp();
    expect((await change(tenant, 'upgrade', { package_code: 'growth' })).status).toBe(200);
    const other = books.subscriptions.get(second);
    for (const status of ['past_due', 'active', 'unpaid', 'active'] as const) {
      Object.assign(other ?? {}, { status });
      books.emit('customer.subscription.updated', other ?? {});
      await world.catchUp();
      const shown = await world.subscription(tenant);
      expect(shown).toMatchObject({ billing_status: 'ACTIVE', plan: { package_code: 'growth' } });
      expect(shown.duplicate_subscriptions).toMatchObject([{ provider_id: second, status }]);
    }
  });

  test('ignores an older subscription without a plan of the catalog', async () => {
    const { tenant, second } = await withSecond();
    const { books } = world.standIn;
    const other = books.subscriptions.get(second);
    const price = books.newPrice({
      currency: 'usd',
      unit_amount: 90_000,
      lookup_key: null,
      metadata: {},
      nickname: 'Retainer',
      recurring: { interval: 'month' },
    });
    Object.assign(other ?? {}, { created: 1, items: { data: [books.newItem(price, 1, 1, 4_000_000_000)] } });
    await world.catchUp();
    const shown = await world.subscription(tenant);
    expect(shown).toMatchObject({ billing_status: 'ACTIVE', plan: { package_code: 'starter' } });
    expect(shown.duplicate_subscriptions).toMatchObject([{ provider_id: second, package_code: null }]);
    expect((await change(tenant, 'seats', { seats: 5 })).status).toBe(200);
  });

  test('stops showing a second subscription once it has ended', async () => {
    const { tenant, second } = await withSecond();
    await world.catchUp();
    const other = world.standIn.books.subscriptions.get(second);
    Object.assign(other ?? {}, { status: 'canceled', ended_at: Math.floor(Date.now() / 1000) });
    world.standIn.books.emit('customer.subscription.deleted', other ?? {});
    await world.catchUp();
    expect(await world.subscription(tenant)).toMatchObject({ billing_status: 'ACTIVE', duplicate_subscriptions: [] });
  });
});
