// Previews of subscription changes with the test provider: they change nothing, and the change
// then does what they say.
import { describe, expect, inject, test, vi } from 'vitest';
import { Random } from '../faults/support/random.ts';
import { charged, declinedCard, subscribed } from '../support/billing.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { PausedJobs } from '../support/paused-jobs.ts';
import { digestRows, listDigestedTables } from '../support/row-digests.ts';
import { signIn } from '../support/sign-in.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const day = 86_400_000;

type Asked = { action: string } & Record<string, unknown>;

const preview = (key: string, body: object): Promise<Answer> => call('POST', '/v1/subscription/preview', { key, body });

const previewed = async (key: string, body: object): Promise<Json> =>
  (await expectStatus(200, 'POST', '/v1/subscription/preview', { key, body })).body.data.preview;

/** Makes the change that a preview is about. */
function change(key: string, { action, ...body }: Asked): Promise<Answer> {
  if (action === 'remove_module') return call('DELETE', `/v1/subscription/modules/${body.module_key}`, { key });
  const path = { set_seats: 'seats', add_module: 'modules' }[action] ?? action;
  const options = action === 'cancel' || action === 'reactivate' ? { key } : { key, body };
  return call('POST', `/v1/subscription/${path}`, options);
}

const readInvoices = async (key: string): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/invoices', { key })).body.data;

const sumAmounts = (lines: Json[]): number => lines.reduce((sum, line) => sum + line.amount_minor, 0);

const toFailure = ({ status, body }: Answer) => ({
  status,
  code: body.error?.code,
  reason: body.error?.details?.reason,
  fields: body.error?.details?.fields?.map(({ field, code }: Json) => `${field} ${code}`),
});

async function newSubscriber(more: Record<string, unknown> = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await subscribed(tenant, 'live', more);
  return tenant;
}

describe('a preview', () => {
  test('shows what an upgrade charges now and on the next invoice', async () => {
    const tenant = await newSubscriber();
    const shown = await previewed(tenant.key, { action: 'upgrade', package_code: 'growth' });
    expect(shown).toMatchObject({
      action: 'upgrade',
      applies: 'immediately',
      currency: 'USD',
      amount_due_now_minor: 3500,
      tax_due_now_minor: 0,
      lines: [
        { description: 'Unused time of Starter, monthly', amount_minor: -1450, proration: true },
        { description: 'Remaining time of Growth, monthly', amount_minor: 4950, proration: true },
      ],
      current_invoice_minor: 2900,
      next_invoice_minor: 9900,
      next_tax_minor: 0,
      next_lines: [{ description: 'Growth, monthly', amount_minor: 9900 }],
      is_estimate: false,
      warnings: [],
    });
    expect(Date.parse(shown.effective) - Date.parse(shown.prorated_at)).toBeLessThan(1000);
    expect(shown.next_charge_at).toBe((await readInvoices(tenant.key)).pending.next_charge_at);
  });

  test('shows a change at the end of the period without a charge now', async () => {
    const tenant = await newSubscriber({ package_code: 'scale', seats: 28 });
    const shown = await previewed(tenant.key, { action: 'downgrade', package_code: 'starter' });
    expect(shown).toMatchObject({
      applies: 'period_end',
      prorated_at: null,
      amount_due_now_minor: 0,
      lines: [],
      current_invoice_minor: 32_600,
      next_invoice_minor: 32_900,
      warnings: [{ code: 'raises_bill' }],
    });
    expect(shown.warnings[0].message).toContain('329.00 USD instead of 326.00 USD');
    expect(shown.effective).toBe(shown.next_charge_at);
  });

  test('shows no next invoice for a cancellation, and the invoice again for its withdrawal', async () => {
    const tenant = await newSubscriber();
    expect(await previewed(tenant.key, { action: 'cancel' })).toMatchObject({
      applies: 'period_end',
      amount_due_now_minor: 0,
      current_invoice_minor: 2900,
      next_invoice_minor: 0,
      next_charge_at: null,
      next_lines: [],
    });
    await change(tenant.key, { action: 'cancel' });
    expect(await previewed(tenant.key, { action: 'reactivate' })).toMatchObject({
      applies: 'immediately',
      amount_due_now_minor: 0,
      current_invoice_minor: 0,
      next_invoice_minor: 2900,
    });
  });

  test('computes the first invoice of a subscription, which its checkout then charges', async () => {
    const tenant = await newTenant();
    const wanted = { package_code: 'growth', billing_cycle: 'yearly', seats: 12 };
    const shown = await previewed(tenant.key, { action: 'subscribe', ...wanted });
    expect(shown).toMatchObject({ amount_due_now_minor: 119_000, current_invoice_minor: 0, prorated_at: null });
    const { access_token: token } = await signIn(tenant);
    const body = { kind: 'subscribe', ...wanted };
    const { checkout_session: session } = (await expectStatus(201, 'POST', '/v1/checkout-sessions', { token, body }))
      .body.data;
    const card = { card_number: '4242 4242 4242 4242', expiry: '12/35', code: '123', action: 'pay' };
    expect(session.url).toContain(inject('baseUrl'));
    await fetch(session.url, { method: 'POST', redirect: 'manual', body: new URLSearchParams(card) });
    const { invoices, pending } = await readInvoices(tenant.key);
    expect(invoices[0]).toMatchObject({ total_minor: shown.amount_due_now_minor, lines: shown.lines });
    expect(pending.total_minor).toBe(shown.next_invoice_minor);
  });

  test('shows the removal of a module in a trial, immediately and for nothing', async () => {
    const tenant = await newTenant();
    await subscribed(tenant, 'live', { status: 'trialing', add_ons: ['campaigns'], due_at: null });
    expect(await previewed(tenant.key, { action: 'remove_module', module_key: 'campaigns' })).toMatchObject({
      applies: 'immediately',
      amount_due_now_minor: 0,
      current_invoice_minor: 0,
      next_invoice_minor: 0,
    });
  });

  test('uses credit, and keeps the rest for the next invoice', async () => {
    const tenant = await newSubscriber({ billing_cycle: 'yearly', package_code: 'growth' });
    const shown = await previewed(tenant.key, { action: 'upgrade', package_code: 'growth', billing_cycle: 'monthly' });
    expect(shown).toMatchObject({ amount_due_now_minor: 0, next_invoice_minor: 0 });
    expect(sumAmounts(shown.lines)).toBe(0);
    expect(sumAmounts(shown.next_lines)).toBe(0);
  });

  test('does not try the card', async () => {
    const tenant = await newSubscriber({ payment_method: declinedCard });
    const asked = { action: 'upgrade', package_code: 'growth' };
    expect((await preview(tenant.key, asked)).status).toBe(200);
    expect((await change(tenant.key, asked)).status).toBe(402);
  });

  test('works with the view scope, which cannot change the subscription', async () => {
    const tenant = await newSubscriber();
    const key = await newKey(tenant, { scopes: ['billing:view'] });
    expect((await preview(key, { action: 'cancel' })).status).toBe(200);
    expect((await change(key, { action: 'cancel' })).status).toBe(403);
  });

  test('previews the subscription of test mode for test keys, before and after their first change', async () => {
    const tenant = await newSubscriber();
    const upgrade = { action: 'upgrade', package_code: 'scale' };
    expect(await previewed(tenant.testKey, upgrade)).toMatchObject({
      current_invoice_minor: 9900,
      next_invoice_minor: 29_900,
    });
    await change(tenant.testKey, upgrade);
    expect(toFailure(await preview(tenant.testKey, upgrade))).toMatchObject({ reason: 'already_on_package' });
  });
});

test('limits the live previews of a workspace, by all its keys together', async () => {
  const [tenant, other] = await Promise.all([newSubscriber(), newSubscriber()]);
  const keys = [tenant.key, await newKey(tenant, { scopes: ['billing:view'] })];
  const body = { action: 'cancel' };
  const statuses: number[] = [];
  for (let count = 0; count < 61; count += 1) statuses.push((await preview(keys[count % 2] ?? '', body)).status);
  expect(statuses).toEqual([...Array(60).fill(200), 429]);
  expect((await preview(tenant.testKey, body)).status).not.toBe(429);
  expect((await preview(other.key, body)).status).toBe(200);
  expect((await call('GET', '/v1/subscription', { key: tenant.key })).status).toBe(200);
});

test('changes no row, however often changes are previewed', async () => {
  const paused = await PausedJobs.of('billing');
  try {
    const tenant = await newSubscriber({ package_code: 'growth', add_ons: ['workforces'], seats: 12 });
    const tables = await listDigestedTables();
    const digest = () => digestRows(tables, tenant, `select 'outbox', ''`);
    const before = await digest();
    for (const key of [tenant.key, tenant.testKey])
      for (const body of [
        { action: 'upgrade', package_code: 'scale' },
        { action: 'downgrade', package_code: 'starter' },
        { action: 'set_seats', seats: 40 },
        { action: 'set_seats', seats: 10 },
        { action: 'add_module', module_key: 'phone_numbers' },
        { action: 'cancel' },
        { action: 'upgrade', package_code: 'growth' },
        { action: 'subscribe', package_code: 'growth' },
      ])
        expect([200, 409]).toContain((await preview(key, body)).status);
    expect(await digest()).toEqual(before);
    expect(await charged(tenant)).toEqual([]);
  } finally {
    await paused.close();
  }
});

describe('the validation of a preview', () => {
  test.each<[Asked]>([
    [{ action: 'upgrade', package_code: 'starter' }],
    [{ action: 'upgrade', package_code: 'growth' }],
    [{ action: 'upgrade', package_code: 'nonsense' }],
    [{ action: 'upgrade', package_code: 'enterprise' }],
    [{ action: 'upgrade' }],
    [{ action: 'upgrade', package_code: 'scale', billing_cycle: 'weekly' }],
    [{ action: 'upgrade', package_code: 'scale', seats: 3 }],
    [{ action: 'upgrade', package_code: 'scale', prorated_at: '2020-01-01T00:00:00.000Z' }],
    [{ action: 'downgrade', package_code: 'scale' }],
    [{ action: 'downgrade', package_code: 'starter' }],
    [{ action: 'set_seats', seats: 0 }],
    [{ action: 'set_seats', seats: 'many' }],
    [{ action: 'set_seats', seats: 12, prorated_at: '2099-01-01T00:00:00.000Z' }],
    [{ action: 'add_module', module_key: 'nonsense' }],
    [{ action: 'add_module', module_key: 'inbox' }],
    [{ action: 'add_module', module_key: 'workforces' }],
    [{ action: 'remove_module', module_key: 'campaigns' }],
    [{ action: 'remove_module', module_key: 'growth' }],
    [{ action: 'remove_module', module_key: 'nonsense' }],
    [{ action: 'reactivate' }],
  ])('rejects %j like the change itself', async (asked) => {
    const tenant = await newSubscriber({ package_code: 'growth', add_ons: ['workforces'] });
    for (const _each of [1, 2, 3]) await newUser(tenant);
    const rejected = toFailure(await preview(tenant.key, asked));
    expect(rejected.status).toBeGreaterThanOrEqual(400);
    expect(rejected).toEqual(toFailure(await change(tenant.key, asked)));
  });

  test('rejects a preview without a subscription, under an agreement, and while a change is in progress', async () => {
    const upgrade = { action: 'upgrade', package_code: 'growth' };
    expect(toFailure(await preview((await newTenant()).key, upgrade))).toMatchObject({
      code: 'NO_ACTIVE_SUBSCRIPTION',
    });
    const agreed = await newSubscriber({ has_agreement: true });
    expect(toFailure(await preview(agreed.key, upgrade))).toMatchObject({ code: 'AGREEMENT_ACTIVE' });
    expect(toFailure(await preview(agreed.key, { action: 'subscribe', package_code: 'growth' }))).toMatchObject({
      code: 'AGREEMENT_ACTIVE',
    });
    const subscriber = await newSubscriber();
    await change(subscriber.key, { action: 'set_seats', seats: 5 });
    await database()`update billing_operations set status = 'pending', leased_until = now() + interval '1 minute' where company_id = ${subscriber.companyId}`;
    expect(toFailure(await preview(subscriber.key, upgrade))).toMatchObject({ reason: 'change_in_progress' });
    expect(toFailure(await preview(subscriber.key, { action: 'subscribe', package_code: 'growth' }))).toMatchObject({
      reason: 'subscription_exists',
    });
  });

  test('names every field that the action does not have or needs', async () => {
    const tenant = await newSubscriber();
    expect(toFailure(await preview(tenant.key, { action: 'cancel', seats: 3, package_code: 'growth' }))).toMatchObject({
      status: 422,
      fields: ['seats UNKNOWN_FIELD', 'package_code UNKNOWN_FIELD'],
    });
    expect(toFailure(await preview(tenant.key, { action: 'add_module' }))).toMatchObject({
      status: 400,
      fields: ['module_key REQUIRED'],
    });
    expect(toFailure(await preview(tenant.key, { action: 'pause' }))).toMatchObject({ status: 400 });
  });
});

describe('changes after their preview', () => {
  const random = new Random();
  const packages = ['starter', 'growth', 'scale'];
  const modules = ['scheduling', 'inbox', 'campaigns', 'workforces', 'phone_numbers', 'extra_api_calls_1m'];

  function drawState(): Record<string, unknown> {
    const cycle = random.pick(['monthly', 'yearly']);
    const length = (cycle === 'yearly' ? 365 : 30) * day;
    const start = Date.now() - Math.floor(random.next() * length * 0.95);
    const end = new Date(start + length);
    return {
      package_code: random.pick(packages),
      billing_cycle: cycle,
      seats: random.chance(0.5) ? null : random.whole(1, 40),
      add_ons: random.chance(0.5) ? [] : ['workforces'],
      credit_minor: random.chance(0.3) ? random.whole(1, 20_000) : 0,
      period_start: new Date(start),
      period_end: end,
      due_at: end,
    };
  }

  const drawChange = (): Asked =>
    random.pick<() => Asked>([
      () => ({ action: 'upgrade', package_code: random.pick(packages) }),
      () => ({
        action: 'upgrade',
        package_code: random.pick(packages),
        billing_cycle: random.pick(['monthly', 'yearly']),
      }),
      () => ({ action: 'downgrade', package_code: random.pick(packages) }),
      () => ({ action: 'set_seats', seats: random.whole(1, 60) }),
      () => ({ action: 'add_module', module_key: random.pick(modules) }),
      () => ({ action: 'remove_module', module_key: random.pick(modules) }),
      () => ({ action: 'cancel' }),
      () => ({ action: 'reactivate' }),
    ])();

  test('charge exactly the previewed amounts, in random sequences', async () => {
    let made = 0;
    for (let round = 0; round < 8; round += 1) {
      const tenant = await newTenant();
      await subscribed(tenant, 'test', drawState());
      const key = tenant.testKey;
      for (let step = 0; step < 10; step += 1) {
        const asked = drawChange();
        const seen = `seed ${random.seed}, round ${round}, step ${step}: ${JSON.stringify(asked)}`;
        const before = await readInvoices(key);
        const answer = await preview(key, asked);
        const shown = answer.body.data?.preview;
        const proratedAt = shown?.prorated_at;
        const result = await change(key, { ...asked, ...(proratedAt ? { prorated_at: proratedAt } : {}) });
        expect(toFailure(result), seen).toEqual(toFailure(answer));
        if (answer.status !== 200) continue;
        made += 1;
        const after = await readInvoices(key);
        const fresh = after.invoices.filter(({ id }: Json) => !before.invoices.some((each: Json) => each.id === id));
        expect(
          {
            due: shown.amount_due_now_minor,
            lines: shown.lines,
            current: shown.current_invoice_minor,
            next: shown.next_invoice_minor,
            nextLines: shown.next_lines,
            nextAt: shown.next_charge_at,
            applies: shown.applies,
            warnings: shown.warnings,
          },
          seen,
        ).toEqual({
          due: fresh[0]?.total_minor ?? 0,
          lines: fresh[0]?.lines ?? [],
          current: before.pending?.total_minor ?? 0,
          next: after.pending?.total_minor ?? 0,
          nextLines: after.pending?.lines ?? [],
          nextAt: after.pending?.next_charge_at ?? null,
          applies: result.body.data.applies,
          warnings: result.body.data.warnings.map(({ code, message }: Json) => ({ code, message })),
        });
      }
    }
    expect(made).toBeGreaterThan(15);
  }, 120_000);

  test('are prorated as of the preview, not as of the change', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    // Ten minutes of a month are two units of this plan.
    const asOf = new Date(Math.floor(Date.now() / 1000) * 1000 - 600_000).toISOString();
    const asked = { action: 'upgrade', package_code: 'scale', prorated_at: asOf };
    const earlier = await previewed(tenant.key, asked);
    const { prorated_at: _now, ...later } = asked;
    expect(earlier.amount_due_now_minor).toBeGreaterThan((await previewed(tenant.key, later)).amount_due_now_minor);
    await change(tenant.key, asked);
    expect(await charged(tenant)).toEqual([earlier.amount_due_now_minor]);
  });

  test('are rejected if the subscription has renewed since the preview', async () => {
    const tenant = await newTenant();
    const key = tenant.testKey;
    const start = new Date(Date.now() - 30 * day + 120_000);
    const end = new Date(Date.now() + 120_000);
    await subscribed(tenant, 'test', { package_code: 'growth', period_start: start, period_end: end, due_at: end });
    const asked = { action: 'upgrade', package_code: 'scale' };
    const { amount_due_now_minor: due, prorated_at } = await previewed(key, asked);
    expect(due).toBeLessThan(100);
    await expectStatus(200, 'POST', '/v1/test-mode/clock', { key, body: { advance_seconds: 300 } });
    await vi.waitFor(async () => expect((await readInvoices(key)).invoices).toHaveLength(1), { timeout: 30_000 });
    const outdated = { status: 400, fields: ['prorated_at OUT_OF_RANGE'] };
    const again = { ...asked, prorated_at };
    const answer = await change(key, again);
    expect(toFailure(answer)).toMatchObject(outdated);
    expect(answer.body.error.message + JSON.stringify(answer.body.error.details)).toContain('Preview the change again');
    expect(toFailure(await preview(key, again))).toMatchObject(outdated);
    expect((await readInvoices(key)).invoices).toHaveLength(1);
    const fresh = await previewed(key, asked);
    await change(key, { ...asked, prorated_at: fresh.prorated_at });
    expect((await readInvoices(key)).invoices[0].total_minor).toBe(fresh.amount_due_now_minor);
  });

  test('are charged for the subscription as it is now if it has changed otherwise', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    const asked = { action: 'set_seats', seats: 14 };
    const { amount_due_now_minor: due, prorated_at } = await previewed(tenant.key, asked);
    await change(tenant.key, { action: 'set_seats', seats: 12, prorated_at });
    expect((await change(tenant.key, { ...asked, prorated_at })).status).toBe(200);
    const [first = 0, second = 0] = await charged(tenant);
    expect(second).toBeLessThan(due);
    expect(first + second).toBe(due);
  });
});
