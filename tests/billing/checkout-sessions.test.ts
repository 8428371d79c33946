// Checkouts: creation, payment on a page in a real browser, and the effects.
import { randomUUID } from 'node:crypto';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { charged, declinedCard, storedSubscription, subscribed } from '../support/billing.ts';
import { openBrowser, type WatchedPage, watchedPage } from '../support/browser.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { sharedToken } from '../support/requests.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const goodNumber = '4242 4242 4242 4242';
const declinedNumber = '4000 0000 0000 0002';

async function start(tenant: Tenant, body: object): Promise<Json> {
  const token = await sharedToken(tenant);
  return (await expectStatus(201, 'POST', '/v1/checkout-sessions', { token, body })).body.data.checkout_session;
}

const subscribe = (tenant: Tenant, more: object = {}): Promise<Json> =>
  start(tenant, { kind: 'subscribe', package_code: 'growth', ...more });

const shown = async (tenant: Tenant, id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/checkout-sessions/${id}`, { key: tenant.key })).body.data.checkout_session;

const subscription = async (tenant: Tenant): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/subscription', { key: tenant.key })).body.data.subscription;

/** Submits the form like a browser. */
const pay = (url: string, number = goodNumber, action = 'pay'): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ card_number: number, expiry: '12/35', code: '123', action }),
  });

describe('a checkout', () => {
  test('starts a period of test mode at the time of its clock, and is itself on the real time', async () => {
    const tenant = await newTenant();
    const { testKey: key, companyId } = tenant;
    const ahead = 100 * 86_400;
    await expectStatus(200, 'POST', '/v1/test-mode/clock', { key, body: { advance_seconds: ahead } });
    await subscribed(tenant, 'test', { status: 'canceled', ended_at: new Date(), due_at: null });
    const id = `cs_${'a'.repeat(24)}`;
    await database()`
      insert into checkout_sessions (company_id, test_mode, id, kind, package_code, billing_cycle, currency, url, created_at, expires_at)
      values (${companyId}, true, ${id}, 'subscribe', 'growth', 'monthly', 'USD', '', now(), now() + interval '1 day')`;
    const since = Date.now();
    expect((await pay(`${inject('baseUrl')}/checkout/test/${companyId}/${id}`)).status).toBe(200);
    const { status, period_start } = await storedSubscription(tenant, 'test');
    expect(status).toBe('active');
    expect(period_start.getTime()).toBeGreaterThanOrEqual(since + ahead * 1000);
    // Not renewed for the periods until the time of the clock.
    expect(await charged(tenant)).toHaveLength(1);
    const portal = (await expectStatus(200, 'POST', '/v1/billing/portal-session', { key, body: {} })).body.data;
    expect(await (await pay(portal.url)).text()).toContain('The card was changed.');
    const { updated_at } = await storedSubscription(tenant, 'test');
    expect(updated_at.getTime()).toBeGreaterThanOrEqual(since + ahead * 1000);
    const rows = await database()`
      select occurred_at <= now() as is_past from audit_logs
      where company_id = ${companyId} and test_mode and action = 'subscription.subscribe'`;
    expect(rows).toEqual([{ is_past: true }]);
  });

  test('opens a checkout page of this server for a day', async () => {
    const tenant = await newTenant();
    const session = await subscribe(tenant, { billing_cycle: 'yearly' });
    expect(session).toMatchObject({
      kind: 'subscribe',
      status: 'open',
      package_code: 'growth',
      billing_cycle: 'yearly',
    });
    expect(session.id).toMatch(/^cs_[0-9A-Za-z]{24}$/);
    expect(session.url.startsWith(`${inject('baseUrl')}/checkout/live/`)).toBe(true);
    expect(Date.parse(session.expires_at) - Date.parse(session.created_at)).toBe(86_400_000);
    expect(await shown(tenant, session.id)).toMatchObject({
      status: 'open',
      activation: { active: false, subscription_status: 'trialing', active_package_code: null },
    });
  });

  test('ends the trial when a checkout is paid, with a new period and a paid invoice', async () => {
    const tenant = await newTenant();
    const session = await subscribe(tenant, { package_code: 'starter', seats: 5 });
    const paid = await pay(session.url);
    expect(paid.status).toBe(200);
    expect(await paid.text()).toContain('The subscription is active.');
    expect(await shown(tenant, session.id)).toMatchObject({
      status: 'complete',
      activation: { active: true, subscription_status: 'active', active_package_code: 'starter' },
    });
    expect(await subscription(tenant)).toMatchObject({
      billing_status: 'ACTIVE',
      plan: { package_code: 'starter' },
      payment_method: { brand: 'visa', last4: '4242', exp_month: 12, exp_year: 2035 },
      seats: { allowance: 5 },
    });
    const { invoices, pending } = (await expectStatus(200, 'GET', '/v1/invoices', { key: tenant.key })).body.data;
    expect(invoices).toMatchObject([{ number: 'INV-000001', status: 'paid', total_minor: 2900 + 2 * 1200 }]);
    expect(pending.total_minor).toBe(2900 + 2 * 1200);
    expect(await charged(tenant)).toEqual([5300]);
  });

  test('restores a workspace whose subscription has ended when a checkout is paid', async () => {
    const tenant = await newTenant();
    const ended = { status: 'canceled', ended_at: new Date(Date.now() - 86_400_000) };
    await subscribed(tenant, 'live', ended);
    const lead = { key: tenant.key, body: { first_name: 'Sara', email: 'sara@example.com' } };
    const refused = await call('POST', '/v1/leads', lead);
    expect([refused.status, refused.body.error.details.reason]).toEqual([402, 'subscription_ended']);
    const session = await subscribe(tenant);
    await pay(session.url);
    expect((await call('POST', '/v1/leads', lead)).status).toBe(201);
    expect(await subscription(tenant)).toMatchObject({ billing_status: 'ACTIVE', dormant: null });
  });

  test('charges once if a checkout is submitted sixteen times', async () => {
    const tenant = await newTenant();
    const top = await start(tenant, { kind: 'wallet_topup', amount_minor: 700 });
    const answers = await Promise.all(Array.from({ length: 16 }, () => pay(top.url)));
    expect(answers.some(({ status }) => status === 200)).toBe(true);
    expect(await charged(tenant)).toEqual([700]);
    expect((await shown(tenant, top.id)).wallet).toEqual({ credited: true, balance_minor: 700 });
  });

  test('rejects a second subscription both at creation and at payment', async () => {
    const tenant = await newTenant();
    const [first, second] = [await subscribe(tenant), await subscribe(tenant)];
    await pay(first.url);
    expect((await pay(second.url)).status).toBe(409);
    expect(await charged(tenant)).toEqual([9900]);
    const token = await sharedToken(tenant);
    const body = { kind: 'subscribe', package_code: 'scale' };
    const again = await call('POST', '/v1/checkout-sessions', { token, body });
    expect([again.status, again.body.error.details.reason]).toEqual([409, 'subscription_exists']);
  });

  test('expires a checkout after a day, whether or not a job recorded it, and takes no payment', async () => {
    const tenant = await newTenant();
    const session = await subscribe(tenant);
    await database()`update checkout_sessions set expires_at = now() - interval '1 second' where company_id = ${tenant.companyId}`;
    expect((await shown(tenant, session.id)).status).toBe('expired');
    expect((await pay(session.url)).status).toBe(410);
    expect(await charged(tenant)).toEqual([]);
  });

  test.each<[object, string, string]>([
    [{ kind: 'subscribe' }, 'package_code', 'REQUIRED'],
    [{ kind: 'wallet_topup' }, 'amount_minor', 'REQUIRED'],
    [{ kind: 'wallet_topup', amount_minor: 499 }, 'amount_minor', 'OUT_OF_RANGE'],
    [{ kind: 'wallet_topup', amount_minor: 1_000_001 }, 'amount_minor', 'OUT_OF_RANGE'],
    [{ kind: 'wallet_topup', amount_minor: 500, seats: 3 }, 'seats', 'CONFLICTING_FIELDS'],
    [{ kind: 'subscribe', package_code: 'growth', amount_minor: 500 }, 'amount_minor', 'CONFLICTING_FIELDS'],
    [
      { kind: 'subscribe', package_code: 'growth', success_url: 'javascript:alert(1)' },
      'success_url',
      'INVALID_FORMAT',
    ],
    ...[
      'https://app.example.com/?a={SESSION}',
      'https://app.example.com/?a={checkout_session_id}',
      'https://app.example.com/?a={{CHECKOUT_SESSION_ID}}',
      'https://app.example.com/{CHECKOUT_SESSION_ID',
      'https://{CHECKOUT_SESSION_ID}.example.com/',
    ].map((success_url): [object, string, string] => [
      { kind: 'wallet_topup', amount_minor: 500, success_url },
      ...(['success_url', 'INVALID_FORMAT'] as const),
    ]),
    [
      { kind: 'wallet_topup', amount_minor: 500, cancel_url: 'https://app.example.com/{CHECKOUT_SESSION_ID}' },
      'cancel_url',
      'INVALID_FORMAT',
    ],
    [{ kind: 'subscribe', package_code: 'growth', cancel_url: 'https://./' }, 'cancel_url', 'INVALID_FORMAT'],
    [{ kind: 'gift' }, 'kind', 'INVALID_OPTION'],
  ])('rejects the body %j and names the field', async (body, field, code) => {
    const tenant = await newTenant();
    const { body: answer } = await expectStatus(400, 'POST', '/v1/checkout-sessions', {
      token: await sharedToken(tenant),
      body,
    });
    expect(answer.error.details.fields).toMatchObject([{ field, code }]);
  });

  test('rejects a checkout of a package that cannot be bought', async () => {
    const token = await sharedToken(await newTenant());
    const body = { kind: 'subscribe', package_code: 'enterprise' };
    const { body: answer } = await expectStatus(409, 'POST', '/v1/checkout-sessions', { token, body });
    expect(answer.error.details.reason).toBe('package_not_configured');
  });

  test('returns 404 for a malformed, unknown or foreign checkout id', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    const foreign = await subscribe(other);
    for (const id of [foreign.id, 'cs_0', `cs_${'0'.repeat(24)}`, randomUUID(), 'x'])
      expect((await call('GET', `/v1/checkout-sessions/${id}`, { key: tenant.key })).status).toBe(404);
  });

  test('returns 404 for a checkout page that does not exist or belongs to another workspace', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    const { url, id } = await subscribe(tenant);
    const base = inject('baseUrl');
    for (const path of [
      `/checkout/live/${other.companyId}/${id}`,
      `/checkout/test/${tenant.companyId}/${id}`,
      `/checkout/live/${tenant.companyId}/cs_${'0'.repeat(24)}`,
    ])
      expect((await fetch(base + path)).status).toBe(404);
    expect((await fetch(url)).status).toBe(200);
    expect((await fetch(url, { method: 'DELETE' })).status).toBe(404);
  });
});

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser.close());

  async function open(url: string, width = 1440): Promise<WatchedPage> {
    const watched = await watchedPage(browser, width);
    await watched.page.goto(url);
    return watched;
  }

  async function fill(page: Page, number: string): Promise<void> {
    await page.getByLabel('Card number').fill(number);
    await page.getByLabel('Expiry').fill('12/35');
    await page.getByLabel('Security code').fill('123');
  }

  test('lets a person pay by keyboard alone after a declined card, without further questions', async () => {
    const tenant = await newTenant();
    const session = await subscribe(tenant);
    const { page, requests, complaints } = await open(session.url, 320);
    expect(await page.title()).toBe('Checkout');
    expect(await page.getByRole('main').textContent()).toContain('Growth, monthly: 99.00 USD');
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
    await fill(page, declinedNumber);
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').textContent()).toContain('The card was declined, and nothing was charged.');
    expect(await charged(tenant)).toEqual([]);
    await page.keyboard.press('Tab');
    await page.keyboard.type(goodNumber);
    await page.keyboard.press('Tab');
    await page.keyboard.type('12/35');
    await page.keyboard.press('Tab');
    await page.keyboard.type('123');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('status').waitFor();
    expect(await page.getByRole('status').textContent()).toContain('The subscription is active.');
    expect((await shown(tenant, session.id)).activation.active).toBe(true);
    expect(requests.every((url) => url === session.url || url.startsWith(`${inject('baseUrl')}/assets/`))).toBe(true);
    // The browser logs the status of the page for a declined card.
    expect(complaints.filter((complaint) => !complaint.includes('402'))).toEqual([]);
  });

  test('shows typing errors next to the form and charges nothing', async () => {
    const tenant = await newTenant();
    const { page } = await open((await subscribe(tenant)).url);
    await fill(page, '4242 4242 4242 4241');
    await page.getByRole('button', { name: 'Pay' }).click();
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').textContent()).toContain('mistyped');
    expect(await charged(tenant)).toEqual([]);
  });

  test('returns to the page that started the checkout after payment or cancellation', async () => {
    const tenant = await newTenant();
    const back = (name: string): string => `${inject('baseUrl')}/docs/deprecations?from=${name}`;
    const urls = { success_url: back('success'), cancel_url: back('cancel') };
    const cancelled = await open((await subscribe(tenant, urls)).url);
    await cancelled.page.getByRole('button', { name: 'Cancel' }).click();
    await cancelled.page.waitForURL(urls.cancel_url);
    const paid = await open((await subscribe(tenant, urls)).url);
    await fill(paid.page, goodNumber);
    await paid.page.getByRole('button', { name: 'Pay' }).click();
    await paid.page.waitForURL(urls.success_url);
    expect([...cancelled.complaints, ...paid.complaints]).toEqual([]);
  });

  test('replaces the placeholder in success_url with the id of the checkout', async () => {
    const tenant = await newTenant();
    const back = `${inject('baseUrl')}/docs/deprecations`;
    const success_url = `${back}?checkout={CHECKOUT_SESSION_ID}&again={CHECKOUT_SESSION_ID}`;
    const session = await subscribe(tenant, { success_url });
    const { page } = await open(session.url);
    await fill(page, goodNumber);
    await page.getByRole('button', { name: 'Pay' }).click();
    await page.waitForURL(`${back}?checkout=${session.id}&again=${session.id}`);
  });

  test('gives every field a label, and the page its language and one heading', async () => {
    const { page } = await open((await subscribe(await newTenant())).url);
    const unlabelled = await page
      .locator('input')
      .evaluateAll(
        (inputs) =>
          (inputs as unknown as { labels: { length: number } }[]).filter((input) => input.labels.length !== 1).length,
      );
    expect(unlabelled).toBe(0);
    expect(await page.locator('html').getAttribute('lang')).toBe('en');
    expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1);
  });

  test('changes the card of the next charge in the portal', async () => {
    const tenant = await newTenant();
    await subscribed(tenant, 'live', { payment_method: database().json(declinedCard) });
    const upgrade = { key: tenant.key, body: { package_code: 'growth' } };
    expect((await call('POST', '/v1/subscription/upgrade', upgrade)).status).toBe(402);
    const { body } = await expectStatus(200, 'POST', '/v1/billing/portal-session', {
      key: tenant.key,
      body: { return_url: 'https://app.example.com/settings' },
    });
    const { page } = await open(body.data.url);
    expect(await page.getByRole('main').textContent()).toContain('visa, ending in 0002');
    expect(await page.getByRole('link', { name: 'Back' }).getAttribute('href')).toBe(
      'https://app.example.com/settings',
    );
    await fill(page, goodNumber);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('status').waitFor();
    expect((await storedSubscription(tenant)).payment_method).toMatchObject({ last4: '4242' });
    expect((await call('POST', '/v1/subscription/upgrade', upgrade)).status).toBe(200);
  });
});
