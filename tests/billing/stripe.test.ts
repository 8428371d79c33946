// Subscriptions paid through Stripe, with a fake Stripe server.
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../runtime/config.ts';
import { call, type Json } from '../support/client.ts';
import { signIn } from '../support/sign-in.ts';
import { cards, change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe');
});
afterAll(() => world?.close());

async function newSubscriber(more: object = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant, more);
  return tenant;
}

async function findCustomer({ companyId }: Tenant): Promise<string> {
  const [row] = await database()<{ id: string }[]>`
    select customer_id as id from provider_customers where company_id = ${companyId}`;
  return row?.id ?? '';
}

const failure = ({ status, body }: { status: number; body: Json }) => ({
  status,
  code: body.error?.code,
  details: body.error?.details,
});

describe('the settings', () => {
  const settings = { STRIPE_SECRET_KEY: 'sk_test_1', STRIPE_WEBHOOK_SECRET: 'whsec_1' };

  test('requires an API key and a webhook secret, and accepts another host', () => {
    expect(readConfig({}).stripe).toBeUndefined();
    expect(readConfig({ ...settings, STRIPE_API_BASE: 'https://proxy.example/' }).stripe).toEqual({
      secretKey: 'sk_test_1',
      webhookSecret: 'whsec_1',
      apiBase: 'https://proxy.example',
    });
  });

  test('loads the large Stripe package only with these settings', () => {
    const folders = ['app', 'integrations', 'jobs', 'services', 'handlers', 'runtime', 'web'];
    const sources = folders.flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => readFileSync(join(folder, name), 'utf8')),
    );
    const imports = sources.flatMap((source) => source.match(/^.*\bimport\b.*'stripe'.*$/gm) ?? []);
    const loading = imports.filter((line) => !line.startsWith('import type '));
    expect(imports.length).toBeGreaterThan(5);
    expect(loading.map((line) => line.trim())).toEqual(["const { default: Package } = await import('stripe');"]);
  });

  test.each([
    [{ ...settings, STRIPE_SECRET_KEY: 'pk_live_1' }, /^STRIPE_SECRET_KEY must be (?!.*pk_live_1)/],
    [{ ...settings, STRIPE_WEBHOOK_SECRET: '' }, /^STRIPE_WEBHOOK_SECRET must be /],
    [{ ...settings, STRIPE_WEBHOOK_SECRET: 'secret' }, /^STRIPE_WEBHOOK_SECRET must be (?!.*: secret)/],
    [{ ...settings, STRIPE_API_BASE: 'proxy.example' }, /^STRIPE_API_BASE must be /],
    [{ STRIPE_WEBHOOK_SECRET: 'whsec_1' }, /require STRIPE_SECRET_KEY/],
  ])('rejects the settings %j and says why', (env, message) => {
    expect(() => readConfig(env)).toThrow(message);
  });
});

describe('a checkout', () => {
  test('pays a checkout on a page of Stripe and mirrors the subscription', async () => {
    const tenant = await newTenant();
    const session = await world.subscribe(tenant, { package_code: 'growth', billing_cycle: 'yearly', seats: 12 });
    expect(session.url.startsWith(world.standIn.url)).toBe(true);
    const subscription = await world.subscription(tenant);
    expect(subscription).toMatchObject({
      billing_status: 'ACTIVE',
      plan: { package_code: 'growth', billing_cycle: 'yearly' },
      payment_method: { brand: 'visa', last4: '4242' },
      seats: { allowance: 12, purchased: 12 },
      trial_end: null,
    });
    const answer = await call('GET', `/v1/checkout-sessions/${session.id}`, { key: tenant.key });
    expect(answer.body.data.checkout_session).toMatchObject({ status: 'complete', activation: { active: true } });
    expect(await world.charged(tenant)).toEqual([99_000 + 2 * 10_000]);
    expect(await world.invoices(tenant)).toMatchObject([
      { status: 'paid', kind: 'subscription', total_minor: 119_000, hosted_url: expect.any(String) },
    ]);
  });
});

test('replaces the placeholder with the checkout id before Stripe gets the address', async () => {
  const tenant = await newTenant();
  const success_url = 'https://app.example.com/welcome/{CHECKOUT_SESSION_ID}?from=crm';
  const { id } = await world.startCheckout(tenant, { kind: 'wallet_topup', amount_minor: 500, success_url });
  const asked = world.standIn.asked.findLast(({ call: what }) => what === 'POST /v1/checkout/sessions');
  // Stripe's own checkout id would be useless, because no operation accepts it.
  expect(asked?.form.success_url).toBe(`https://app.example.com/welcome/${id}?from=crm`);
  expect((await call('GET', `/v1/checkout-sessions/${id}`, { key: tenant.key })).status).toBe(200);
});

describe('an unpaid checkout', () => {
  test('changes nothing if a checkout is not paid', async () => {
    const tenant = await newTenant();
    const session = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    expect(await world.fillIn(session.url, cards.declined)).toBe(402);
    await world.catchUp();
    expect((await world.subscription(tenant)).billing_status).toBe('TRIALING');
    expect(await world.charged(tenant)).toEqual([]);
  });

  test('closes an unpaid checkout when the next one starts, so that only one can be paid', async () => {
    const tenant = await newTenant();
    const first = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    const second = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'growth' });
    expect([await world.fillIn(first.url), await world.fillIn(second.url)]).toEqual([404, 303]);
    await world.catchUp();
    expect(await world.charged(tenant)).toEqual([9900]);
    const { access_token: token } = await signIn(tenant);
    const third = await call('POST', '/v1/checkout-sessions', {
      token,
      body: { kind: 'subscribe', package_code: 'growth' },
    });
    expect(failure(third)).toMatchObject({ status: 409, details: { reason: 'subscription_exists' } });
  });

  test.each([1, 2, 3])('leaves one payable checkout of two started at the same time (%s)', async () => {
    const tenant = await newTenant();
    const { access_token: token } = await signIn(tenant);
    // Neither sees the other before both are open.
    let arrived = 0;
    const act = async (): Promise<void> => {
      arrived += 1;
      while (arrived < 2) await sleep(5);
    };
    for (let time = 0; time < 2; time += 1)
      world.standIn.faults.push({ of: /^POST \/v1\/checkout\/sessions$/, how: 'slow', act });
    const answers = await Promise.all(
      ['starter', 'growth'].map((package_code) =>
        call('POST', '/v1/checkout-sessions', { token, body: { kind: 'subscribe', package_code } }),
      ),
    );
    const begun = answers.filter(({ status }) => status === 201);
    const refused = answers.filter(({ status }) => status !== 201);
    expect(refused.map(failure).filter((each) => each.status !== 409)).toEqual([]);
    expect(begun.length).toBeGreaterThan(0);
    const paid = [];
    for (const { body } of begun) paid.push(await world.fillIn(body.data.checkout_session.url));
    expect(paid.filter((status) => status === 303)).toHaveLength(1);
    await world.catchUp();
    expect(await world.charged(tenant)).toHaveLength(1);
  });

  test('rejects an open checkout as soon as another was paid, even if its event was lost', async () => {
    const tenant = await newTenant();
    const { url } = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    world.standIn.eventsTo = undefined;
    await world.fillIn(url);
    world.standIn.eventsTo = world.server.url;
    const { access_token: token } = await signIn(tenant);
    const body = { kind: 'subscribe', package_code: 'growth' };
    const answer = await call('POST', '/v1/checkout-sessions', { token, body });
    expect(failure(answer)).toMatchObject({ status: 409, details: { reason: 'subscription_exists' } });
  });

  test('rejects a Stripe checkout on the page of the test provider', async () => {
    const tenant = await newTenant();
    const { id } = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    const url = `${world.server.url}/checkout/live/${tenant.companyId}/${id}`;
    expect(await world.fillIn(url)).toBe(404);
  });

  test('stores a checkout before it asks Stripe, with its purpose', async () => {
    const tenant = await newTenant();
    let written: readonly unknown[] = [];
    const look = async () => {
      written = await database()`select url from checkout_sessions where company_id = ${tenant.companyId}`;
    };
    world.standIn.faults.push({ of: /^POST \/v1\/checkout\/sessions$/, how: 'slow', act: look });
    const { id } = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter' });
    expect(written).toEqual([{ url: null }]);
    const asked = world.standIn.asked.findLast(({ call: what }) => what === 'POST /v1/checkout/sessions');
    expect(asked).toMatchObject({
      key: `${id}:checkout`,
      form: { client_reference_id: id, metadata: { operation_id: id } },
    });
  });

  test('returns 503 if Stripe fails to open a checkout, and a retry succeeds', async () => {
    const tenant = await newTenant();
    world.standIn.faults.push({ of: /^POST \/v1\/checkout\/sessions$/, how: 'refused' });
    const { access_token: token } = await signIn(tenant);
    const body = { kind: 'subscribe', package_code: 'starter' };
    const answer = await call('POST', '/v1/checkout-sessions', { token, body });
    expect(failure(answer)).toMatchObject({ status: 503, details: { reason: 'provider_error' } });
    expect(await world.subscribe(tenant)).toMatchObject({ status: 'open' });
    expect((await world.subscription(tenant)).billing_status).toBe('ACTIVE');
  });
});

describe('the wallet', () => {
  test('credits a wallet top-up once, however often it is fetched', async () => {
    const tenant = await newTenant();
    const session = await world.startCheckout(tenant, { kind: 'wallet_topup', amount_minor: 5000 });
    await world.fillIn(session.url);
    for (let look = 0; look < 3; look += 1) {
      world.standIn.books.emit('customer.updated', { object: 'customer', id: await findCustomer(tenant) });
      await world.catchUp();
    }
    const answer = await call('GET', `/v1/checkout-sessions/${session.id}`, { key: tenant.key });
    expect(answer.body.data.checkout_session).toMatchObject({
      status: 'complete',
      wallet: { credited: true, balance_minor: 5000 },
    });
    expect(await world.invoices(tenant)).toMatchObject([{ kind: 'wallet_topup', total_minor: 5000, status: 'paid' }]);
    expect((await world.subscription(tenant)).billing_status).toBe('TRIALING');
  });
});

test('never sends requests of test keys to Stripe', async () => {
  const tenant = await newSubscriber();
  const before = world.standIn.asked.length;
  const key = tenant.testKey;
  expect((await change({ key }, 'upgrade', { package_code: 'scale' })).status).toBe(200);
  const { body } = await call('POST', '/v1/billing/portal-session', { key });
  expect(body.data.url).toContain('/portal/test/');
  expect(world.standIn.asked.length).toBe(before);
});

describe('the portal', () => {
  test('opens a portal that cannot cancel or switch plans, with a way back', async () => {
    const tenant = await newSubscriber();
    const body = { return_url: 'https://app.example.com/billing' };
    expect((await call('POST', '/v1/billing/portal-session', { key: tenant.key, body })).status).toBe(200);
    const asked = world.standIn.asked.findLast(({ call: what }) => what === 'POST /v1/billing_portal/sessions');
    expect(asked?.form).toMatchObject({ return_url: body.return_url });
    const [configuration] = world.standIn.books.configurations.values();
    expect(configuration?.features).toMatchObject({
      payment_method_update: { enabled: 'true' },
      subscription_cancel: { enabled: 'false' },
      subscription_update: { enabled: 'false' },
    });
    expect(world.standIn.books.configurations.size).toBe(1);
  });

  test('changes the card of the next charge in the portal', async () => {
    const tenant = await newSubscriber();
    await world.putOnFile(tenant, '5555555555554444');
    expect((await world.subscription(tenant)).payment_method.last4).toBe('4444');
  });
});

describe('a change', () => {
  test('applies an upgrade immediately and charges the difference', async () => {
    const tenant = await newSubscriber();
    const answer = await change(tenant, 'upgrade', { package_code: 'growth' });
    expect(answer.body).toMatchObject({ data: { action: 'upgrade', applies: 'immediately' } });
    expect((await world.subscription(tenant)).plan.package_code).toBe('growth');
    expect(await world.charged(tenant)).toEqual([2900, 7000]);
  });

  test('charges more seats, a module and another billing cycle immediately', async () => {
    const tenant = await newSubscriber();
    expect((await change(tenant, 'seats', { seats: 5 })).status).toBe(200);
    expect((await change(tenant, 'modules', { module_key: 'inbox' })).body.data.status).toBe('pending_webhook');
    expect(await world.charged(tenant)).toEqual([2900, 2400, 1900]);
    expect((await change(tenant, 'upgrade', { package_code: 'starter', billing_cycle: 'yearly' })).status).toBe(200);
    const subscription = await world.subscription(tenant);
    expect(subscription).toMatchObject({ plan: { billing_cycle: 'yearly' }, seats: { allowance: 5 } });
    expect(subscription.modules).toMatchObject([{ module_key: 'inbox', status: 'active' }]);
    expect(await world.charged(tenant)).toEqual([2900, 2400, 1900, 9 * (2900 + 2400 + 1900)]);
  });

  test('keeps the price of unchanged items although the catalog has changed', async () => {
    const tenant = await newSubscriber();
    const { prices } = world.standIn.books;
    const price = [...prices.values()].find(({ lookup_key }) => lookup_key === 'crm.plan.starter.monthly.usd');
    // As if the subscription had started at a lower price.
    if (price) Object.assign(price, { lookup_key: null, unit_amount: 1900 });
    expect((await change(tenant, 'seats', { seats: 5 })).status).toBe(200);
    expect((await change(tenant, 'cancel')).status).toBe(200);
    expect(await world.charged(tenant)).toEqual([2900, 2400]);
    const other = await newSubscriber();
    expect(await world.charged(other)).toEqual([2900]);
  });

  test('reads all lines of a long invoice', async () => {
    const tenant = await newSubscriber({ package_code: 'growth', seats: 11 });
    for (const module_key of ['campaigns', 'workforces', 'phone_numbers', 'extra_api_calls_1m'])
      expect((await change(tenant, 'modules', { module_key })).status).toBe(200);
    expect((await change(tenant, 'upgrade', { package_code: 'growth', billing_cycle: 'yearly' })).status).toBe(200);
    const [{ lines, total_minor: total }] = await world.invoices(tenant);
    expect(lines).toHaveLength(12);
    expect(lines.reduce((sum: number, line: Json) => sum + line.amount_minor, 0)).toBe(total);
  });

  test('rejects a change of a subscription that ended at Stripe, and shows the current state from then on', async () => {
    const tenant = await newSubscriber();
    const customer = await findCustomer(tenant);
    const live = [...world.standIn.books.subscriptions.values()].find((each) => each.customer === customer);
    if (live) Object.assign(live, { status: 'canceled', ended_at: Math.floor(Date.now() / 1000) });
    expect(failure(await change(tenant, 'cancel'))).toMatchObject({ status: 409, code: 'NO_ACTIVE_SUBSCRIPTION' });
    expect((await world.subscription(tenant)).billing_status).toBe('CANCELED');
  });

  test('charges nothing for included seats and stores the number', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    expect((await change(tenant, 'seats', { seats: 10 })).status).toBe(200);
    expect((await world.subscription(tenant)).seats).toMatchObject({ purchased: 10, allowance: 10 });
    expect(await world.charged(tenant)).toEqual([9900]);
  });

  test.each([
    ['upgrade', { package_code: 'growth' }],
    ['seats', { seats: 9 }],
    ['modules', { module_key: 'inbox' }],
  ])('rejects a change of %s with 402 if the card is declined, and changes nothing', async (what, body) => {
    const tenant = await newSubscriber();
    expect((await change(tenant, 'cancel')).status).toBe(200);
    await world.putOnFile(tenant, cards.declined);
    const before = await world.subscription(tenant);
    const idempotencyKey = randomUUID();
    const answer = await change(tenant, what, body, idempotencyKey);
    expect(failure(answer)).toEqual({ status: 402, code: 'CARD_CHARGE_FAILED', details: undefined });
    await world.catchUp();
    expect({ ...(await world.subscription(tenant)), updated_at: '' }).toEqual({ ...before, updated_at: '' });
    expect(await world.charged(tenant)).toEqual([2900]);
    await world.putOnFile(tenant, cards.good);
    expect((await change(tenant, what, body, idempotencyKey)).status).toBe(200);
    expect(await world.charged(tenant)).toHaveLength(2);
  });

  test('returns 402 with the confirmation address if the bank requires it, and applies the change afterwards', async () => {
    const tenant = await newSubscriber();
    await world.putOnFile(tenant, cards.wantsPerson);
    const answer = await change(tenant, 'upgrade', { package_code: 'growth' });
    const [invoice] = await world.invoices(tenant);
    expect(failure(answer)).toEqual({
      status: 402,
      code: 'CARD_CHARGE_FAILED',
      details: { action_url: invoice.hosted_url },
    });
    expect((await world.subscription(tenant)).plan.package_code).toBe('starter');
    world.standIn.books.settleInvoice(waitingInvoice());
    await world.catchUp();
    expect((await world.subscription(tenant)).plan.package_code).toBe('growth');
    expect(await world.charged(tenant)).toEqual([2900, 7000]);
  });

  test('replaces a change that waits for a confirmation with the next one', async () => {
    const tenant = await newSubscriber();
    await world.putOnFile(tenant, cards.wantsPerson);
    expect((await change(tenant, 'upgrade', { package_code: 'growth' })).status).toBe(402);
    await world.putOnFile(tenant, cards.good);
    expect((await change(tenant, 'upgrade', { package_code: 'scale' })).status).toBe(200);
    expect((await world.subscription(tenant)).plan.package_code).toBe('scale');
    expect(await world.charged(tenant)).toEqual([2900, 27_000]);
    expect((await world.invoices(tenant)).map(({ status }) => status).toSorted()).toEqual(['paid', 'paid', 'void']);
  });
});

/** Returns the invoice of the waiting change. */
function waitingInvoice(): string {
  const waiting = [...world.standIn.books.subscriptions.values()].find(({ pending_update }) => pending_update);
  return waiting?.latest_invoice ?? '';
}

describe('a module that needs a confirmation', () => {
  const readStatus = async (tenant: Tenant): Promise<string> => {
    const { body } = await call('GET', '/v1/modules', { key: tenant.key });
    return body.data.modules.find(({ module_key }: Json) => module_key === 'inbox').status;
  };
  async function waiting(): Promise<Tenant> {
    const tenant = await newSubscriber();
    await world.putOnFile(tenant, cards.wantsPerson);
    const answer = await change(tenant, 'modules', { module_key: 'inbox' });
    expect(answer.body.data).toMatchObject({ status: 'pending_webhook', module_key: 'inbox' });
    expect(await readStatus(tenant)).toBe('pending_webhook');
    const { modules, entitlements } = await world.subscription(tenant);
    expect(modules).toMatchObject([{ module_key: 'inbox', status: 'pending_webhook' }]);
    expect(entitlements.find(({ key }: Json) => key === 'module.inbox').active).toBe(false);
    return tenant;
  }

  test('keeps a module pending until its payment is confirmed', async () => {
    const tenant = await waiting();
    world.standIn.books.settleInvoice(waitingInvoice());
    await world.catchUp();
    expect(await readStatus(tenant)).toBe('active');
    expect(await world.charged(tenant)).toEqual([2900, 1900]);
  });

  test('removes a pending module if its payment is never confirmed', async () => {
    const tenant = await waiting();
    world.standIn.books.voidInvoice(waitingInvoice());
    await world.catchUp();
    expect(await readStatus(tenant)).toBe('inactive');
    expect(await world.charged(tenant)).toEqual([2900]);
  });
});
