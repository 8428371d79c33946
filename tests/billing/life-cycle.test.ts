// Time-driven steps of subscriptions, in a separate database with a fake clock.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { Pool } from '../../db/client/pool.ts';
import type { OperationResult } from '../../domain/billing/provider.ts';
import { createTestProvider } from '../../integrations/test-mode/payments.ts';
import { runBilling } from '../../jobs/billing/subscriptions.ts';
import { type OperationServices, submitOperation } from '../../services/billing/subscription-change.ts';
import { charged, declinedCard, goodCard, storedSubscription, subscribed } from '../support/billing.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { database, newTenant, newUser, type Tenant, useDatabase } from '../support/tenants.ts';

const minute = 60_000;
const day = 86_400_000;
const folder = mkdtempSync(join(tmpdir(), 'billing-'));
const removed: string[] = [];
let url: string;
let pools: { platform: Pool; tenants: Pool; purges: Pool };

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000, lanes: 2 };
  pools = {
    platform: new Pool({ ...shared, role: 'crm_platform' }),
    tenants: new Pool({ ...shared, role: 'crm_app' }),
    purges: new Pool({ ...shared, role: 'crm_purge' }),
  };
});
afterAll(async () => {
  await Promise.all(Object.values(pools).map((pool) => pool.close(1)));
  await useDatabase(undefined);
  await dropDatabase(url);
  rmSync(folder, { recursive: true });
});

const services = () => ({
  ...pools,
  provider: createTestProvider(pools.tenants, () => 'http://127.0.0.1'),
  removeFile: async (key: string) => void removed.push(key),
});

/** Dependencies of an operation without a call. */
const operationServices = (): OperationServices => ({
  transaction: (scope, work) => inTransaction(pools.tenants, scope, 5000, work),
  provider: services().provider,
});

/** Performs what is due at that time, like one server. */
const runBillingAt = (now: Date): Promise<number> =>
  runBilling(buildJobContext('billing', pools, { now: () => now }), services());

/** Advances the clock day by day, like servers would. */
async function pass(from: Date, days: number): Promise<Date> {
  let now = from;
  for (let passed = 1; passed <= days; passed += 1) {
    now = new Date(from.getTime() + passed * day);
    await runBillingAt(now);
  }
  return now;
}

const mails = async ({ companyId }: Pick<Tenant, 'companyId'>): Promise<string[]> =>
  (
    await database()<
      { template: string }[]
    >`select template from mails where company_id = ${companyId} order by created_at, id`
  ).map(({ template }) => template);

const invoices = async ({ companyId }: Tenant) =>
  database()<{ status: string; total: number }[]>`
    select status, total_minor::int as total from invoices where company_id = ${companyId} order by number`;

/** Returns a subscriber whose period ends tomorrow. */
async function newSubscriber(more: Record<string, unknown> = {}): Promise<Tenant> {
  const tenant = await newTenant();
  const end = new Date(Date.now() + day / 2);
  await subscribed(tenant, 'live', {
    period_start: new Date(end.getTime() - 30 * day),
    period_end: end,
    due_at: end,
    ...more,
  });
  return tenant;
}

test('ends a trial and notifies the administrators once across concurrent servers', async () => {
  const tenant = await newTenant();
  await newUser(tenant, { role: 'Company_Admin' });
  await newUser(tenant);
  const over = new Date(Date.now() + 14.5 * day);
  await Promise.all([runBillingAt(over), runBillingAt(over)]);
  await runBillingAt(over);
  expect((await storedSubscription(tenant)).status).toBe('none');
  expect(await mails(tenant)).toEqual(['trial_ended', 'trial_ended']);
  const audit =
    await database()`select from audit_logs where company_id = ${tenant.companyId} and action = 'subscription.turn'`;
  expect(audit).toHaveLength(1);
});

describe('the end of a period', () => {
  test('charges the next period exactly once across concurrent servers, without a mail', async () => {
    const tenant = await newSubscriber();
    const now = new Date(Date.now() + day);
    await Promise.all([1, 2, 3].map(() => runBillingAt(now)));
    expect(await charged(tenant)).toEqual([2900]);
    expect(await invoices(tenant)).toEqual([{ status: 'paid', total: 2900 }]);
    expect(await mails(tenant)).toEqual([]);
    const { period_start, period_end, due_at } = await storedSubscription(tenant);
    expect(new Date(period_start).getTime()).toBeLessThan(now.getTime());
    expect([due_at, new Date(period_end).getTime() > now.getTime()]).toEqual([period_end, true]);
  });

  test('applies scheduled changes at the end of the period and bills the new plan', async () => {
    const scheduled = [
      { action: 'downgrade', package_code: 'starter' },
      { action: 'set_seats', seats: 4 },
      { action: 'remove_module', module_key: 'campaigns' },
    ];
    const more = { package_code: 'growth', seats: 20, add_ons: ['campaigns', 'workforces'] };
    const tenant = await newSubscriber({ ...more, scheduled: database().json(scheduled) });
    await pass(new Date(), 1);
    expect(await charged(tenant)).toEqual([2900 + 1200 + 9900]);
    expect(await storedSubscription(tenant)).toMatchObject({
      package_code: 'starter',
      seats: 4,
      add_ons: ['workforces'],
      scheduled: [],
    });
  });

  test('charges every missed month in order after a quarter without a server', async () => {
    const tenant = await newSubscriber();
    await runBillingAt(new Date(Date.now() + 80 * day));
    expect(await charged(tenant)).toEqual([2900, 2900, 2900]);
  });

  test('makes a cancelled workspace dormant at the end of the period without a charge', async () => {
    const tenant = await newSubscriber({ cancel_at_period_end: true });
    await pass(new Date(), 1);
    expect(await storedSubscription(tenant)).toMatchObject({ status: 'canceled', cancel_at_period_end: false });
    expect(await charged(tenant)).toEqual([]);
    expect(await mails(tenant)).toEqual(['subscription_ended']);
  });
});

describe('a failed payment', () => {
  test('retries a failed payment on days 1, 3, 5, 7 and 14, then ends the subscription and gives up the invoice', async () => {
    const tenant = await newSubscriber({ payment_method: database().json(declinedCard) });
    const { companyId } = tenant;
    await pass(new Date(), 1);
    expect(await storedSubscription(tenant)).toMatchObject({ status: 'past_due', charge_attempts: 0 });
    const tried: number[] = [];
    const attempts = async () =>
      (await database()`select from test_charges where company_id = ${companyId} and is_declined`).length;
    const start = new Date(Date.now() + day);
    for (let passed = 1; passed <= 16; passed += 1) {
      const before = await attempts();
      await runBillingAt(new Date(start.getTime() + passed * day - day / 2));
      if ((await attempts()) > before) tried.push(passed);
    }
    expect(tried).toEqual([1, 3, 5, 7, 14]);
    expect((await storedSubscription(tenant)).status).toBe('canceled');
    expect(await mails(tenant)).toEqual(['payment_failed', 'subscription_ended']);
    expect(await invoices(tenant)).toEqual([{ status: 'uncollectible', total: 2900 }]);
  });

  test('restores a past-due subscription when a retry succeeds, paid once', async () => {
    const tenant = await newSubscriber({ payment_method: database().json(declinedCard) });
    const now = await pass(new Date(), 2);
    await database()`update subscriptions set payment_method = ${database().json(goodCard)} where company_id = ${tenant.companyId}`;
    await pass(now, 3);
    expect((await storedSubscription(tenant)).status).toBe('active');
    expect(await charged(tenant)).toEqual([2900]);
    expect(await invoices(tenant)).toEqual([{ status: 'paid', total: 2900 }]);
    expect(await mails(tenant)).toEqual(['payment_failed', 'payment_succeeded']);
  });
});

describe('after the end', () => {
  const steps = [
    [82, 'canceled', ['subscription_ended']],
    [84, 'canceled', ['subscription_ended', 'deletion_reminder']],
    [91, 'pending_deletion', ['subscription_ended', 'deletion_reminder', 'deletion_scheduled']],
    [103, 'pending_deletion', ['subscription_ended', 'deletion_reminder', 'deletion_scheduled']],
  ] as const;

  test.each(steps)(
    'reaches on day %i after the end the state %s with its mails, and can be restored by a plan',
    async (days, status, recorded) => {
      const tenant = await newSubscriber({ cancel_at_period_end: true });
      const now = await pass(new Date(), days);
      expect((await storedSubscription(tenant)).status).toBe(status);
      expect(await mails(tenant)).toEqual(recorded);
      const id = `cs_${'a'.repeat(24)}`;
      await database()`
      insert into checkout_sessions (company_id, test_mode, id, kind, package_code, billing_cycle, currency, url, created_at, expires_at)
      values (${tenant.companyId}, false, ${id}, 'subscribe', 'growth', 'monthly', 'USD', '', ${now}, ${new Date(now.getTime() + day)})`;
      const change = {
        action: 'subscribe' as const,
        package_code: 'growth',
        billing_cycle: 'monthly' as const,
        seats: null,
        card: goodCard,
        checkout_session: id,
      };
      const scope = { companyId: tenant.companyId, testMode: false };
      expect((await submitOperation(operationServices(), scope, uuidv7(), change, now)).kind).toBe('done');
      await runBillingAt(new Date(now.getTime() + 20 * day));
      expect((await storedSubscription(tenant)).status).toBe('active');
      expect(await mails(tenant)).toEqual(recorded);
    },
  );

  test('deletes all data and files of a workspace 104 days after the end, nothing of others, and keeps one audit row', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    const ended = new Date(Date.now() - 103.5 * day);
    const sql = database();
    for (const { companyId } of [tenant, other]) {
      const file = uuidv7();
      const account = uuidv7();
      await sql`
        insert into accounts (company_id, test_mode, id, name, created_by_kind, created_by_id, created_at, updated_at)
        values (${companyId}, false, ${account}, 'A', 'system', 'x', now(), now())`;
      await sql`
        insert into customers (company_id, test_mode, id, first_name, account_id, created_by_kind, created_by_id, created_at, updated_at)
        values (${companyId}, false, ${uuidv7()}, 'C', ${account}, 'system', 'x', now(), now())`;
      await sql`insert into stored_files (company_id, test_mode, id) values (${companyId}, false, ${file})`;
      await sql`
        insert into exports (company_id, test_mode, id, object, format, spreadsheet_safe, modules, sources, status, claimed_until,
          file_id, created_by_kind, created_by_id, created_at, expires_at)
        values (${companyId}, false, ${uuidv7()}, '*', 'csv', false, '{}', '[]', 'completed', now(), ${file}, 'system', 'x', now(),
          now() + interval '1 day')`;
      await sql`
        insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, test_mode)
        values (${companyId}, ${uuidv7()}, now(), 'system', 'x', ${uuidv7()}, '', 'x', false)`;
    }
    await subscribed(tenant, 'live', {
      status: 'pending_deletion',
      ended_at: ended,
      due_at: new Date(Date.now() - 1000),
    });
    await subscribed(tenant, 'test');
    const before = await countRows(other);
    await runBillingAt(new Date());
    expect(await countRows(tenant)).toEqual({});
    expect(await countRows(other)).toEqual(before);
    expect(removed).toHaveLength(1);
    expect(removed[0]).toContain(tenant.companyId);
    const [last] = await sql`select * from purged_companies where company_id = ${tenant.companyId}`;
    expect(last).toMatchObject({ ended_at: ended, removed_files: '1' });
    expect(Number(last?.removed_rows)).toBeGreaterThan(20);
    expect(await sql`select from companies where id = ${tenant.companyId}`).toHaveLength(0);

    // Operations under way at that moment end later.
    await sql`
      insert into leads (company_id, test_mode, id, first_name, created_by_kind, created_by_id, created_at, updated_at)
      values (${tenant.companyId}, true, ${uuidv7()}, 'Late', 'system', 'x', now(), now())`;
    await runBillingAt(new Date(Date.now() + 9 * minute));
    expect(await countRows(tenant)).toEqual({ leads: 1, search_changes: 1 });
    await runBillingAt(new Date(Date.now() + 11 * minute));
    expect(await countRows(tenant)).toEqual({});
    expect(await countRows(other)).toEqual(before);
    const [swept] = await sql`select * from purged_companies where company_id = ${tenant.companyId}`;
    expect(swept).toMatchObject({ swept_at: expect.any(Date), removed_rows: String(Number(last?.removed_rows) + 2) });
    await runBillingAt(new Date(Date.now() + day));
    expect(await sql`select * from purged_companies where company_id = ${tenant.companyId}`).toEqual([swept]);
  });

  test('can delete from every table that has a company', async () => {
    const closed = await database()<{ name: string }[]>`
      select t as name from tables_of_companies() t
      where not exists (select from pg_policies where tablename = t and policyname = 'purge') or not has_table_privilege('crm_purge', t, 'delete')`;
    expect(closed.map(({ name }) => name)).toEqual([]);
  });
});

describe('an interrupted operation', () => {
  test.each([
    ['before the provider was asked', false],
    ['after the provider had charged', true],
  ])('finishes in the job, with one charge, an operation interrupted %s', async (_, isCharged) => {
    const tenant = await newTenant();
    await subscribed(tenant);
    const { companyId } = tenant;
    const scope = { companyId, testMode: false };
    const id = uuidv7();
    const real = createTestProvider(pools.tenants, () => '');
    const crash = async (order: Parameters<typeof real.settle>[0]): Promise<OperationResult> => {
      if (isCharged) await real.settle(order);
      throw new Error('the server was killed');
    };
    const change = { action: 'upgrade' as const, package_code: 'growth', billing_cycle: null };
    const now = new Date();
    await expect(
      submitOperation({ ...operationServices(), provider: { ...real, settle: crash } }, scope, id, change, now),
    ).rejects.toThrow();
    expect((await submitOperation(operationServices(), scope, uuidv7(), change, now)).kind).toBe('busy');
    await runBillingAt(now);
    expect((await storedSubscription(tenant)).package_code).toBe('starter');
    const later = new Date(now.getTime() + 61_000);
    await Promise.all([runBillingAt(later), runBillingAt(later)]);
    expect((await storedSubscription(tenant)).package_code).toBe('growth');
    expect(await charged(tenant)).toEqual([3500]);
    expect(await invoices(tenant)).toEqual([{ status: 'paid', total: 3500 }]);
  });
});

test('processes a month-end of many companies with correct states, one mail each, and few statements per company', async () => {
  const count = Number(process.env.COMPANIES ?? 60);
  const tenants: Tenant[] = [];
  for (let number = 0; number < count; number += 1) {
    const kind = number % 3;
    tenants.push(
      await newSubscriber({
        ...(kind === 1 ? { cancel_at_period_end: true } : {}),
        ...(kind === 2 ? { payment_method: database().json(declinedCard) } : {}),
      }),
    );
  }
  const now = new Date(Date.now() + day);
  const started = performance.now();
  await Promise.all([runBillingAt(now), runBillingAt(now)]);
  const milliseconds = (performance.now() - started) / count;
  const expected = [
    { status: 'active', mails: [] },
    { status: 'canceled', mails: ['subscription_ended'] },
    { status: 'past_due', mails: ['payment_failed'] },
  ];
  for (const [number, tenant] of tenants.entries()) {
    const { status } = await storedSubscription(tenant);
    expect({ number, status, mails: await mails(tenant) }).toEqual({ number, ...expected[number % 3] });
  }
  process.stdout.write(`month-end: ${count} companies, ${milliseconds.toFixed(1)} ms each\n`);
}, 600_000);

/** Counts the rows of a company by table. */
async function countRows({ companyId }: Tenant): Promise<Record<string, number>> {
  const sql = database();
  const counts: Record<string, number> = {};
  for (const { t } of await sql<{ t: string }[]>`select t from tables_of_companies() t`) {
    const [row] = await sql<
      { count: number }[]
    >`select count(*)::int as count from ${sql(t)} where company_id = ${companyId}`;
    if (row && row.count > 0) counts[t] = row.count;
  }
  return counts;
}
