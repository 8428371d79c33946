// The subscription over HTTP: reading, changing, charging once, and effects on the next call.
import { randomUUID } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { charged, declinedCard, storedSubscription, subscribed } from '../support/billing.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { person } from '../support/users.ts';

const day = 86_400_000;

async function newSubscriber(more: Record<string, unknown> = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await subscribed(tenant, 'live', more);
  return tenant;
}

const shown = async (key: string): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/subscription', { key })).body.data.subscription;

const change = (key: string, what: string, body?: object, options: object = {}): Promise<Answer> =>
  call('POST', `/v1/subscription/${what}`, { key, ...(body ? { body } : {}), ...options });

async function changed(key: string, what: string, body?: object): Promise<Json> {
  const answer = await change(key, what, body);
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 200 });
  return answer.body.data;
}

const remove = (key: string, module: string): Promise<Answer> =>
  call('DELETE', `/v1/subscription/modules/${module}`, { key });

const failure = ({ status, body }: Answer) => ({ status, code: body.error?.code, reason: body.error?.details?.reason });
const conflict = (reason: string) => ({ status: 409, code: 'CONFLICT', reason });

describe('the subscription', () => {
  test('shows a trial of the plan growth for 14 days without a card', async () => {
    const tenant = await newTenant();
    const subscription = await shown(tenant.key);
    expect(subscription).toMatchObject({
      status: 'trialing',
      billing_status: 'TRIALING',
      plan: { package_code: 'growth', billing_cycle: 'monthly', price_minor: 9900, currency: 'USD' },
      payment_method: null,
      dormant: null,
      test_mode: false,
      modules: [
        { module_key: 'scheduling', status: 'active', price_minor: 0 },
        { module_key: 'inbox', status: 'active', price_minor: 0 },
      ],
    });
    expect(Date.parse(subscription.trial_end) - Date.now()).toBeGreaterThan(13.9 * day);
  });

  test('shows no subscription once a trial is over, even before a job records it', async () => {
    const tenant = await newTenant();
    await database()`update subscriptions set trial_ends_at = now() - interval '1 minute' where company_id = ${tenant.companyId}`;
    const subscription = await shown(tenant.key);
    expect(subscription).toMatchObject({ status: 'none', billing_status: 'NONE', plan: null, current_period: null });
    expect(subscription.entitlements.filter((each: Json) => each.active)).toEqual([]);
  });

  test('shows since when a subscription has ended, and how long its data is kept', async () => {
    const tenant = await newSubscriber({ status: 'canceled', ended_at: new Date(Date.now() - 10 * day) });
    const { dormant, billing_status, status } = await shown(tenant.key);
    expect({ billing_status, status, days: dormant.days_left }).toEqual({
      billing_status: 'CANCELED',
      status: 'canceled',
      days: 80,
    });
    expect(Date.parse(dormant.data_kept_until) - Date.parse(dormant.since)).toBe(90 * day);
  });

  test('shows test keys their own subscription, which starts active on growth', async () => {
    const tenant = await newTenant();
    expect(await shown(tenant.testKey)).toMatchObject({
      status: 'active',
      plan: { package_code: 'growth' },
      payment_method: { last4: '4242' },
      test_mode: true,
    });
    await changed(tenant.testKey, 'upgrade', { package_code: 'scale' });
    expect((await shown(tenant.testKey)).plan.package_code).toBe('scale');
    expect((await shown(tenant.key)).plan.package_code).toBe('growth');
    expect((await shown(tenant.key)).status).toBe('trialing');
  });
});

describe('an upgrade', () => {
  test('applies an upgrade immediately and charges the difference for the rest of the period', async () => {
    const tenant = await newSubscriber();
    const data = await changed(tenant.key, 'upgrade', { package_code: 'growth' });
    expect(data).toEqual({
      action: 'upgrade',
      applies: 'immediately',
      effective: expect.any(String),
      status: null,
      module_key: null,
      seats: null,
      warnings: [],
    });
    expect((await shown(tenant.key)).plan.package_code).toBe('growth');
    // Half of a 30-day month is left: half of 99.00 minus half of 29.00.
    expect(await charged(tenant)).toEqual([3500]);
    const [invoice] = await database()`select * from invoices where company_id = ${tenant.companyId}`;
    expect(invoice).toMatchObject({
      number: 'INV-000001',
      status: 'paid',
      total_minor: '3500',
      amount_paid_minor: '3500',
    });
    expect(invoice?.lines).toEqual([
      {
        description: 'Unused time of Starter, monthly',
        quantity: 1,
        unit_amount_minor: 2900,
        amount_minor: -1450,
        proration: true,
      },
      {
        description: 'Remaining time of Growth, monthly',
        quantity: 1,
        unit_amount_minor: 9900,
        amount_minor: 4950,
        proration: true,
      },
    ]);
  });

  test('applies the quota, rate limit, modules and seats of an upgrade from the next call on', async () => {
    const tenant = await newSubscriber();
    await database()`update subscriptions set api_rate_limit_per_minute = null where company_id = ${tenant.companyId}`;
    const limits = async (): Promise<Json> =>
      (await expectStatus(200, 'GET', '/v1/limits', { key: tenant.key })).body.data.limits;
    const modules = async (): Promise<string[]> =>
      (await expectStatus(200, 'GET', '/v1/me', { key: tenant.key })).body.data.modules;
    const before = await limits();
    expect([before.quota.limit, before.rates.workspace_per_minute, before.workspace.seats]).toEqual([50_000, 120, 3]);
    expect(await modules()).not.toContain('campaigns');
    await changed(tenant.key, 'upgrade', { package_code: 'scale' });
    const after = await limits();
    expect([after.quota.limit, after.rates.workspace_per_minute, after.workspace.seats]).toEqual([3_000_000, 1200, 25]);
    expect(await modules()).toContain('campaigns');
  });

  test('starts a new period when the billing cycle changes, and credits the rest of the old one', async () => {
    const tenant = await newSubscriber();
    await changed(tenant.key, 'upgrade', { package_code: 'starter', billing_cycle: 'yearly' });
    const { plan, current_period } = await shown(tenant.key);
    expect(plan).toMatchObject({ billing_cycle: 'yearly', price_minor: 29_000 });
    expect(Date.parse(current_period.end) - Date.parse(current_period.start)).toBeGreaterThan(364 * day);
    expect(await charged(tenant)).toEqual([29_000 - 1450]);
  });

  test('keeps the excess of a change from yearly to monthly as credit for the next charge', async () => {
    const year = {
      billing_cycle: 'yearly',
      period_start: new Date(Date.now() - 1 * day),
      period_end: new Date(Date.now() + 364 * day),
    };
    const tenant = await newSubscriber(year);
    await changed(tenant.key, 'upgrade', { package_code: 'growth', billing_cycle: 'monthly' });
    expect(await charged(tenant)).toEqual([]);
    const { credit_minor } = await storedSubscription(tenant);
    expect(Number(credit_minor)).toBe(Math.round((29_000 * 364) / 365) - 9900);
    const [invoice] =
      await database()`select total_minor::int as total from invoices where company_id = ${tenant.companyId}`;
    expect(invoice?.total).toBe(0);
  });

  test('ends the separate charge of a module that the new plan includes', async () => {
    const tenant = await newSubscriber({ add_ons: ['inbox', 'workforces'] });
    await changed(tenant.key, 'upgrade', { package_code: 'growth' });
    expect((await storedSubscription(tenant)).add_ons).toEqual(['workforces']);
    expect(await charged(tenant)).toEqual([3500 - 950]);
  });

  test.each([
    ['starter', 'already_on_package'],
    ['enterprise', 'package_not_configured'],
    ['unheard_of', 'package_not_configured'],
  ])('rejects an upgrade to %s: %s', async (package_code, reason) => {
    const tenant = await newSubscriber();
    expect(failure(await change(tenant.key, 'upgrade', { package_code }))).toEqual(conflict(reason));
  });

  test('rejects an upgrade to a cheaper plan and a downgrade to a more expensive one', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    const up = await change(tenant.key, 'upgrade', { package_code: 'starter' });
    expect(failure(up)).toEqual(conflict('not_an_upgrade'));
    expect(failure(await change(tenant.key, 'downgrade', { package_code: 'scale' }))).toEqual(
      conflict('not_a_downgrade'),
    );
    expect(failure(await change(tenant.key, 'downgrade', { package_code: 'growth' }))).toEqual(
      conflict('already_on_package'),
    );
  });

  test('returns 402 and changes nothing if the card is declined; the same key succeeds with a valid card', async () => {
    const tenant = await newSubscriber({ payment_method: database().json(declinedCard) });
    const idempotencyKey = randomUUID();
    const upgrade = () => change(tenant.key, 'upgrade', { package_code: 'growth' }, { idempotencyKey });
    for (const answer of [await upgrade(), await upgrade()])
      expect(failure(answer)).toEqual({ status: 402, code: 'CARD_CHARGE_FAILED', reason: undefined });
    expect((await shown(tenant.key)).plan.package_code).toBe('starter');
    expect(await charged(tenant)).toEqual([]);
    await subscribed(tenant);
    expect((await upgrade()).status).toBe(200);
    expect(await charged(tenant)).toEqual([3500]);
  });
});

describe('seats', () => {
  test('charges additional seats for the rest of the period and makes them available immediately', async () => {
    const tenant = await newSubscriber();
    for (let count = 0; count < 2; count += 1) await newUser(tenant);
    const create = () => call('POST', '/v1/users', { key: tenant.key, body: person() });
    const refused = await create();
    expect(refused.body.error).toMatchObject({ code: 'SEAT_LIMIT_REACHED', details: { set_seats: 4 } });
    expect(await changed(tenant.key, 'seats', { seats: refused.body.error.details.set_seats })).toMatchObject({
      action: 'set_seats',
      applies: 'immediately',
      seats: 4,
    });
    expect(await charged(tenant)).toEqual([600]);
    expect((await create()).status).toBe(201);
    expect((await shown(tenant.key)).seats).toEqual({ allowance: 4, included: 3, purchased: 4, used: 4, available: 0 });
  });

  test('reduces seats at the end of the period', async () => {
    const tenant = await newSubscriber({ seats: 8 });
    expect(await changed(tenant.key, 'seats', { seats: 5 })).toMatchObject({ applies: 'period_end', seats: 5 });
    const { seats, scheduled_changes } = await shown(tenant.key);
    expect(seats.allowance).toBe(8);
    expect(scheduled_changes).toMatchObject([{ action: 'set_seats', seats: 5 }]);
    expect(await charged(tenant)).toEqual([]);
  });

  test.each([0, -1, 1.5, '5x', null])('rejects %j as a number of seats', async (seats) => {
    const tenant = await newSubscriber();
    expect((await change(tenant.key, 'seats', { seats })).body.error.code).toBe('VALIDATION_ERROR');
  });
});

describe('modules', () => {
  test('enables a module from the next call on and charges it for the rest of the period', async () => {
    const tenant = await newSubscriber();
    const scopes = async (): Promise<string> =>
      (await expectStatus(200, 'GET', '/v1/scopes', { key: tenant.key })).body.data.scopes.find(
        (each: Json) => each.scope === 'campaigns:view',
      ).module_state;
    expect(await scopes()).toBe('not_in_plan');
    expect(await changed(tenant.key, 'modules', { module_key: 'campaigns' })).toMatchObject({
      action: 'add_module',
      applies: 'immediately',
      status: 'pending_webhook',
      module_key: 'campaigns',
    });
    expect(await scopes()).toBe('on');
    expect(await charged(tenant)).toEqual([2450]);
    const entitlement = (await shown(tenant.key)).entitlements.find((each: Json) => each.key === 'module.campaigns');
    expect(entitlement).toEqual({
      key: 'module.campaigns',
      type: 'boolean',
      value: true,
      active: true,
      source: 'module',
    });
  });

  test('raises the quota with a module of calls', async () => {
    const tenant = await newSubscriber();
    await changed(tenant.key, 'modules', { module_key: 'extra_api_calls_1m' });
    const { body } = await expectStatus(200, 'GET', '/v1/limits', { key: tenant.key });
    expect(body.data.limits.quota.limit).toBe(1_050_000);
  });

  test('keeps a removed module until the period ends, and re-adds it without a charge', async () => {
    const tenant = await newSubscriber({ add_ons: ['campaigns'] });
    const removed = await remove(tenant.key, 'campaigns');
    expect(removed.body.data).toMatchObject({
      action: 'remove_module',
      applies: 'period_end',
      module_key: 'campaigns',
    });
    expect((await shown(tenant.key)).modules).toMatchObject([{ module_key: 'campaigns', status: 'scheduled_removal' }]);
    await changed(tenant.key, 'modules', { module_key: 'campaigns' });
    expect((await shown(tenant.key)).modules).toMatchObject([{ module_key: 'campaigns', status: 'active' }]);
    expect(await charged(tenant)).toEqual([]);
  });

  test('removes a module of a trial immediately', async () => {
    const tenant = await newTenant();
    await database()`update subscriptions set add_ons = '{campaigns}' where company_id = ${tenant.companyId}`;
    expect((await remove(tenant.key, 'campaigns')).body.data.applies).toBe('immediately');
    expect((await storedSubscription(tenant)).add_ons).toEqual([]);
  });

  test('rejects module changes with the reason', async () => {
    const tenant = await newSubscriber({ package_code: 'growth', add_ons: ['campaigns'] });
    const add = (module_key: string) => change(tenant.key, 'modules', { module_key });
    expect(failure(await add('campaigns'))).toEqual(conflict('module_already_active'));
    expect(failure(await add('inbox'))).toEqual(conflict('module_included_in_plan'));
    expect(failure(await remove(tenant.key, 'inbox'))).toEqual(conflict('module_included_in_plan'));
    expect(failure(await remove(tenant.key, 'workforces'))).toEqual(conflict('module_not_active'));
    expect(failure(await remove(tenant.key, 'growth'))).toEqual(conflict('cannot_remove_last_item'));
    expect((await remove(tenant.key, 'unheard_of')).status).toBe(404);
    const unknown = await add('unheard_of');
    expect(unknown.status).toBe(422);
    expect(unknown.body.error.details.fields).toMatchObject([{ field: 'module_key', code: 'INVALID_OPTION' }]);
  });
});

describe('scheduled changes', () => {
  test('schedules a downgrade for the end of the period, and replaces it with a second one', async () => {
    const tenant = await newSubscriber({ package_code: 'scale' });
    expect(await changed(tenant.key, 'downgrade', { package_code: 'starter' })).toMatchObject({
      applies: 'period_end',
    });
    await changed(tenant.key, 'downgrade', { package_code: 'growth' });
    const { plan, scheduled_downgrade, scheduled_change, current_period } = await shown(tenant.key);
    expect(plan.package_code).toBe('scale');
    expect(scheduled_downgrade).toEqual({ package_code: 'growth', effective: current_period.end });
    expect(scheduled_change).toMatchObject({ action: 'downgrade', package_code: 'growth' });
  });

  test('rejects a downgrade if the target includes fewer seats than active users', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    for (let count = 0; count < 3; count += 1) await newUser(tenant);
    const refused = await change(tenant.key, 'downgrade', { package_code: 'starter' });
    expect(failure(refused)).toEqual(conflict('seats_exceed_target'));
    expect(refused.body.error.details).toMatchObject({ seats_used: 4, target_included: 3 });
  });

  test('keeps scheduled changes through seats, modules, an upgrade, and a withdrawn cancellation', async () => {
    const tenant = await newSubscriber({ package_code: 'growth', add_ons: ['campaigns'] });
    await changed(tenant.key, 'downgrade', { package_code: 'starter' });
    await remove(tenant.key, 'campaigns');
    await changed(tenant.key, 'seats', { seats: 12 });
    await changed(tenant.key, 'upgrade', { package_code: 'scale' });
    await changed(tenant.key, 'modules', { module_key: 'workforces' });
    await changed(tenant.key, 'cancel');
    const actions = async () => (await shown(tenant.key)).scheduled_changes.map((each: Json) => each.action);
    expect(await actions()).toEqual(['cancel', 'downgrade', 'remove_module']);
    expect(await shown(tenant.key)).toMatchObject({
      cancel_at_period_end: true,
      scheduled_change: { action: 'cancel' },
      scheduled_downgrade: { package_code: 'starter' },
    });
    await changed(tenant.key, 'reactivate');
    expect(await actions()).toEqual(['downgrade', 'remove_module']);
  });

  test('drops a scheduled downgrade when the current plan is requested', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    await changed(tenant.key, 'downgrade', { package_code: 'starter' });
    await changed(tenant.key, 'upgrade', { package_code: 'growth' });
    expect((await shown(tenant.key)).scheduled_downgrade).toBeNull();
    expect(await charged(tenant)).toEqual([]);
  });

  test('rejects a second cancellation, and a reactivation without a cancellation', async () => {
    const tenant = await newSubscriber();
    expect(failure(await change(tenant.key, 'reactivate'))).toEqual(conflict('not_scheduled_to_end'));
    expect(await changed(tenant.key, 'cancel')).toMatchObject({ action: 'cancel', applies: 'period_end' });
    expect(failure(await change(tenant.key, 'cancel'))).toEqual(conflict('already_canceled'));
    expect(await changed(tenant.key, 'reactivate')).toMatchObject({ action: 'reactivate', applies: 'immediately' });
  });
});

const everyChange: [string, (key: string) => Promise<Answer>][] = [
  ['upgrade', (key) => change(key, 'upgrade', { package_code: 'growth' })],
  ['downgrade', (key) => change(key, 'downgrade', { package_code: 'starter' })],
  ['seats', (key) => change(key, 'seats', { seats: 5 })],
  ['modules', (key) => change(key, 'modules', { module_key: 'campaigns' })],
  ['removal', (key) => remove(key, 'campaigns')],
  ['cancel', (key) => change(key, 'cancel')],
  ['reactivate', (key) => change(key, 'reactivate')],
];

test.each(everyChange)(
  'rejects %s while an agreement is active, and without a paid subscription',
  async (what, ask) => {
    const agreed = await newSubscriber({ has_agreement: true, agreement_ends_at: new Date(Date.now() + day) });
    expect(failure(await ask(agreed.key))).toMatchObject({ status: 409, code: 'AGREEMENT_ACTIVE' });
    const trial = await newTenant();
    const code = what === 'removal' ? 'CONFLICT' : 'NO_ACTIVE_SUBSCRIPTION';
    expect(failure(await ask(trial.key))).toMatchObject({ status: 409, code });
  },
);

describe('exactly-once changes', () => {
  test('charges once for sixteen upgrades with one key, and once for sixteen without a key', async () => {
    for (const idempotencyKey of [randomUUID(), undefined]) {
      const tenant = await newSubscriber();
      const options = idempotencyKey === undefined ? {} : { idempotencyKey };
      const answers = await Promise.all(
        Array.from({ length: 16 }, () => change(tenant.key, 'upgrade', { package_code: 'growth' }, options)),
      );
      const good = answers.filter(({ status }) => status === 200);
      expect(new Set(good.map(({ text }) => text)).size).toBe(1);
      const others = answers.filter(({ status }) => status !== 200).map(failure);
      const allowed = ['IDEMPOTENCY_IN_PROGRESS', 'change_in_progress', 'already_on_package'];
      expect(others.every(({ status, code, reason }) => status === 409 && allowed.includes(reason ?? code))).toBe(true);
      expect(await charged(tenant)).toEqual([3500]);
    }
  });

  test('completes a change without another charge if the server crashed after the charge', async () => {
    const tenant = await newSubscriber();
    const idempotencyKey = randomUUID();
    const upgrade = () => change(tenant.key, 'upgrade', { package_code: 'growth' }, { idempotencyKey });
    expect((await upgrade()).status).toBe(200);
    await asIfCrashed(tenant);
    expect((await shown(tenant.key)).plan.package_code).toBe('starter');
    await database()`update billing_operations set leased_until = now() where company_id = ${tenant.companyId}`;
    // The billing job may be processing it at this moment.
    const again = await vi.waitUntil(async () => {
      const answer = await upgrade();
      return answer.status === 409 ? undefined : answer;
    });
    expect({ status: again.status, data: again.body.data }).toMatchObject({ status: 200, data: { action: 'upgrade' } });
    expect((await shown(tenant.key)).plan.package_code).toBe('growth');
    expect(await charged(tenant)).toEqual([3500]);
    const rows = await database()`select from invoices where company_id = ${tenant.companyId}`;
    expect(rows).toHaveLength(1);
  });

  test('returns success for a retry after another process has finished the change', async () => {
    const tenant = await newSubscriber();
    const idempotencyKey = randomUUID();
    const upgrade = () => change(tenant.key, 'upgrade', { package_code: 'growth' }, { idempotencyKey });
    const first = await upgrade();
    await database()`delete from idempotency_records where company_id = ${tenant.companyId}`;
    const again = await upgrade();
    expect(again.headers.get('idempotent-replay')).toBeNull();
    expect({ status: again.status, data: again.body.data }).toEqual({ status: 200, data: first.body.data });
    expect(await charged(tenant)).toEqual([3500]);
  });

  test('charges once for a retry after the clock of test mode was advanced', async () => {
    const { testKey: key, companyId } = await newTenant();
    await subscribed({ companyId }, 'test');
    const idempotencyKey = randomUUID();
    const upgrade = () => change(key, 'upgrade', { package_code: 'growth' }, { idempotencyKey });
    const first = await upgrade();
    await expectStatus(200, 'POST', '/v1/test-mode/clock', { key, body: { advance_seconds: 2 * 86_400 } });
    await database()`delete from idempotency_records where company_id = ${companyId}`;
    const again = await upgrade();
    expect({ status: again.status, data: again.body.data }).toEqual({ status: 200, data: first.body.data });
    expect(await charged({ companyId })).toHaveLength(1);
  });

  test('holds no transaction open while the provider is asked, and reserves the key', async () => {
    const tenant = await newSubscriber();
    const idempotencyKey = randomUUID();
    const upgrade = (package_code: string) => change(tenant.key, 'upgrade', { package_code }, { idempotencyKey });
    // Blocks the books of the provider for a moment.
    const held = await database().reserve();
    await held`begin`;
    await held`lock table test_charges in access exclusive mode`;
    const first = upgrade('growth');
    try {
      await vi.waitUntil(
        async () =>
          (await held`select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))`).length > 0,
      );
      // Other tests hold a transaction only briefly. One of this change would remain.
      await expect
        .poll(
          () => held`
            select from pg_stat_activity
            where datname = current_database() and application_name = 'crm crm_app' and state like 'idle in transaction%' and query like '%billing_operations%'`,
        )
        .toHaveLength(0);
      expect(failure(await upgrade('growth'))).toMatchObject({ status: 409, code: 'IDEMPOTENCY_IN_PROGRESS' });
      expect(failure(await upgrade('scale'))).toMatchObject({ status: 422, code: 'IDEMPOTENCY_CONFLICT' });
      expect(failure(await change(tenant.key, 'cancel'))).toEqual(conflict('change_in_progress'));
    } finally {
      await held`rollback`;
      held.release();
    }
    expect((await first).status).toBe(200);
    expect((await upgrade('growth')).headers.get('idempotent-replay')).toBe('true');
    expect(await charged(tenant)).toEqual([3500]);
  });

  test('rejects another change while one is interrupted', async () => {
    const tenant = await newSubscriber();
    const options = { idempotencyKey: randomUUID() };
    expect((await change(tenant.key, 'upgrade', { package_code: 'growth' }, options)).status).toBe(200);
    await asIfCrashed(tenant);
    expect(failure(await change(tenant.key, 'cancel'))).toEqual(conflict('change_in_progress'));
  });
});

/**
 * Simulates a server that was killed after the provider charged and before it stored the outcome.
 * The lease lasts a minute.
 */
async function asIfCrashed(tenant: Tenant): Promise<void> {
  const { companyId } = tenant;
  const sql = database();
  await subscribed(tenant);
  await sql`delete from invoices where company_id = ${companyId}`;
  await sql`update billing_operations set status = 'pending', finished_at = null, leased_until = now() + interval '1 minute' where company_id = ${companyId}`;
  await sql`delete from idempotency_records where company_id = ${companyId}`;
}
