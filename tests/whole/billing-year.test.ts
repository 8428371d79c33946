// A year of one company, written with the client of sdk/. Read it as a tutorial: the months build
// on each other. Each year has its own server and database, because it moves the clock.
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { createTestProvider } from '../../integrations/test-mode/payments.ts';
import { runBilling } from '../../jobs/billing/subscriptions.ts';
import { type Client, createClient, isCrmError, type Schemas } from '../../sdk/src/index.ts';
import { ageBill } from '../support/billing.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { startServer } from '../support/servers.ts';
import { StripeWorld } from '../support/stripe/world.ts';
import { database, useDatabase } from '../support/tenants.ts';

const password = 'a long passphrase';

/** A server, its payment provider, and a clock that tests can move. */
interface World {
  url: string;
  /** Moves the clock day by day: shifts all rows back, and runs what has become due. */
  pass(days: number): Promise<void>;
  /** Fills in the form on the provider's page, as a person does. */
  fillIn(url: string, number: string): Promise<unknown>;
  /** The total charged to cards, in minor units. */
  charged(): Promise<number>;
  close(): Promise<void>;
}

async function openTestWorld(): Promise<World> {
  const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `year-${process.pid}`);
  const databaseUrl = await newDatabase();
  const server = await startServer({ DATABASE_URL: databaseUrl, DATA_DIR: folder });
  await useDatabase(databaseUrl);
  const shared = { url: databaseUrl, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000, lanes: 1 };
  const pools = {
    platform: new Pool({ ...shared, role: 'crm_platform' }),
    tenants: new Pool({ ...shared, role: 'crm_app' }),
    purges: new Pool({ ...shared, role: 'crm_purge' }),
  };
  const provider = createTestProvider(pools.tenants, () => server.url);
  return {
    url: server.url,
    async pass(days) {
      for (let passed = 0; passed < days; passed += 1) {
        await ageBill(1);
        await runBilling(buildJobContext('billing', pools), { ...pools, provider, removeFile: async () => undefined });
      }
    },
    async fillIn(url, number) {
      const body = new URLSearchParams({ card_number: number, expiry: '12/39', code: '123', action: 'pay' });
      await (await fetch(url, { method: 'POST', body })).text();
    },
    async charged() {
      const [row] = await database()`select sum(amount_minor)::int as sum from test_charges where not is_declined`;
      return row?.sum;
    },
    async close() {
      await server.stop();
      await Promise.all(Object.values(pools).map((pool) => pool.close(1)));
      await useDatabase(undefined);
      await dropDatabase(databaseUrl);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function openStripeWorld(): Promise<World> {
  const world = await StripeWorld.open('stripe-year');
  return {
    url: world.server.url,
    pass: (days) => world.pass(days),
    async fillIn(url, number) {
      await world.fillIn(url, number);
      await world.catchUp();
    },
    charged: async () => world.standIn.books.charges.reduce((sum, { amount }) => sum + amount, 0),
    close: () => world.close(),
  };
}

const providers = [
  { provider: 'the test provider', open: openTestWorld },
  { provider: 'Stripe', open: openStripeWorld },
];
/** The invoices of each year. */
const years: Schemas['Invoice'][][] = [];

const catchReason = async (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'done',
    (error: unknown) => (isCrmError(error) ? (error.details?.reason ?? error.code) : error),
  );

describe.each(providers)('a year of one company that pays through $provider', ({ open }) => {
  let world: World;
  beforeAll(async () => {
    world = await open();
  });
  afterAll(() => world?.close());

  /** Moves the clock until the period has ended. */
  async function passPeriod(): Promise<void> {
    const { subscription } = await crm.getSubscription();
    const left = Date.parse(subscription.current_period?.end ?? '') - Date.now();
    await world.pass(Math.floor(left / 86_400_000) + 1);
    // Stripe counts in seconds: a change within the first second of a period costs a whole period.
    const { current_period: begun } = (await crm.getSubscription()).subscription;
    await sleep(Math.max(0, new Date(begun?.start ?? 0).getTime() + 1000 - Date.now()));
  }

  let admin: Client;
  let crm: Client;
  const users: Schemas['User'][] = [];

  const status = async (): Promise<[string, string | undefined]> => {
    const { subscription } = await crm.getSubscription();
    return [subscription.billing_status, subscription.plan?.package_code];
  };

  async function checkOut(body: Schemas['CheckoutSessionCreate'], number = '4242424242424242'): Promise<string> {
    const { checkout_session: session } = await admin.createCheckoutSession({ body });
    await world.fillIn(session.url, number);
    return (await crm.getCheckoutSession({ path: { id: session.id } })).checkout_session.status;
  }

  test('subscribes in a browser after a trial of ten days (January)', async () => {
    await createClient({ baseUrl: world.url }).createOnboarding({
      body: {
        company: { name: 'Solar Roofs', email: 'office@solar.example' },
        admin_user: { email: 'dana@solar.example', full_name: 'Dana Demo', password },
        region: 'europe',
        industry: 'Renewable energy',
      },
    });
    const { access_token } = await createClient({ baseUrl: world.url }).createSession({
      query: { grant_type: 'password' },
      body: { email: 'dana@solar.example', password },
    });
    admin = createClient({ baseUrl: world.url, token: access_token });
    const { key } = await admin.createApiKey({ body: { name: 'Billing', scopes: ['*'] } });
    crm = createClient({ baseUrl: world.url, apiKey: key });
    await world.pass(10);
    expect(await status()).toEqual(['TRIALING', 'growth']);
    expect(await catchReason(crm.upgradeSubscription({ body: { package_code: 'scale' } }))).toBe(
      'NO_ACTIVE_SUBSCRIPTION',
    );
    expect(await checkOut({ kind: 'subscribe', package_code: 'starter' }, '4000000000000002')).toBe('open');
    expect(await checkOut({ kind: 'subscribe', package_code: 'starter' })).toBe('complete');
    expect(await status()).toEqual(['ACTIVE', 'starter']);
  });

  test('upgrades in the middle of a month, and adds seats (February)', async () => {
    await passPeriod();
    await world.pass(14);
    await crm.upgradeSubscription({ body: { package_code: 'growth' } });
    await crm.updateSubscriptionSeats({ body: { seats: 12 } });
    for (let number = 1; number <= 11; number += 1) {
      const body = { email: `person${number}@solar.example`, full_name: 'Person', role: 'Sales_Rep', password };
      users.push((await crm.createUser({ body })).user);
    }
    const one = { email: 'late@solar.example', full_name: 'Late', role: 'Sales_Rep', password };
    expect(await catchReason(crm.createUser({ body: one }))).toBe('SEAT_LIMIT_REACHED');
  });

  test('adds a module, and tops up the wallet (March)', async () => {
    await passPeriod();
    const change = await crm.createSubscriptionModule({ body: { module_key: 'campaigns' } });
    expect(change.status).toBe('pending_webhook');
    const { subscription } = await crm.getSubscription();
    expect(subscription.entitlements.find(({ key }) => key === 'module.campaigns')?.active).toBe(true);
    expect(await checkOut({ kind: 'wallet_topup', amount_minor: 5000 })).toBe('complete');
    expect((await crm.getUsage()).usage.wallet.balance_minor).toBe(5000);
  });

  test('downgrades at the end of the month, and removes the module (April)', async () => {
    await passPeriod();
    expect(await catchReason(crm.downgradeSubscription({ body: { package_code: 'starter' } }))).toBe(
      'seats_exceed_target',
    );
    for (const { id } of users.slice(0, 10)) await crm.updateUser({ path: { id }, body: { status: 'inactive' } });
    await crm.downgradeSubscription({ body: { package_code: 'starter' } });
    await crm.updateSubscriptionSeats({ body: { seats: 2 } });
    await crm.deleteSubscriptionModule({ path: { module_key: 'campaigns' } });
    // The admin cancels, and withdraws the cancellation. The scheduled downgrade stays.
    await crm.cancelSubscription();
    await crm.reactivateSubscription();
    expect((await crm.getSubscription()).subscription.scheduled_changes.map(({ action }) => action)).toEqual([
      'downgrade',
      'set_seats',
      'remove_module',
    ]);
    expect((await crm.listInvoices()).pending?.total_minor).toBe(2900);
    await passPeriod();
    expect(await status()).toEqual(['ACTIVE', 'starter']);
  });

  test('pays with a new card three days after a declined one (May)', async () => {
    await world.fillIn((await crm.createPortalSession({})).url, '4000000000000002');
    await passPeriod();
    expect(await status()).toEqual(['PAST_DUE', 'starter']);
    expect((await crm.listInvoices()).invoices[0]).toMatchObject({ status: 'open', amount_due_minor: 2900 });
    await world.fillIn((await crm.createPortalSession({})).url, '4242424242424242');
    await world.pass(3);
    expect(await status()).toEqual(['ACTIVE', 'starter']);
    expect((await crm.listInvoices()).invoices[0]).toMatchObject({ status: 'paid', amount_due_minor: 0 });
  });

  test('cancels, and is dormant for a month (June)', async () => {
    await crm.cancelSubscription();
    await passPeriod();
    expect(await catchReason(crm.getMe())).toBe('subscription_ended');
    expect(await status()).toEqual(['CANCELED', 'starter']);
    await world.pass(30);
    expect((await crm.getSubscription()).subscription.dormant?.days_left).toBeLessThanOrEqual(60);
  });

  test('subscribes again with a yearly plan (August)', async () => {
    expect(await checkOut({ kind: 'subscribe', package_code: 'growth', billing_cycle: 'yearly' })).toBe('complete');
    expect(await status()).toEqual(['ACTIVE', 'growth']);
    expect((await crm.getMe()).company.name).toBe('Solar Roofs');
    await world.pass(100);
    await crm.upgradeSubscription({ body: { package_code: 'scale' } });
  });

  test('has paid all invoices, numbered in order, for the total charged (December)', async () => {
    const { invoices, pending } = await crm.listInvoices();
    const numbers = invoices.map(({ number }) => number).toReversed();
    expect(numbers).toEqual(numbers.map((_, index) => `INV-${String(index + 1).padStart(6, '0')}`));
    const sums = invoices.map(({ lines }) => lines.reduce((total, line) => total + line.amount_minor, 0));
    expect(sums).toEqual(invoices.map(({ total_minor }) => total_minor));
    expect(invoices.every((invoice) => invoice.status === 'paid')).toBe(true);
    expect(sums.reduce((total, sum) => total + sum, 0)).toBe(await world.charged());
    years.push(invoices);
    expect(pending?.total_minor).toBe(299_000);
    // Whole periods cost the list price, regardless of the length of their months.
    const whole = invoices.filter(
      ({ lines, kind }) => kind === 'subscription' && !lines.some((line) => line.proration),
    );
    expect(whole.map(({ total_minor }) => total_minor).toReversed()).toEqual([
      2900, // January
      2900, // February
      11_900, // March: growth and two more seats
      16_800, // April: and campaigns
      2900, // May: starter again
      2900, // June, paid late
      99_000, // the year
    ]);
    const mails = await database()<
      { template: string }[]
    >`select template from mails where template <> 'welcome' order by created_at, id`;
    expect(mails.map(({ template }) => template)).toEqual([
      'payment_failed',
      'payment_succeeded',
      'subscription_ended',
    ]);
  });
});

test('bills the same invoices with both providers', () => {
  const [one, other] = years.map((invoices) => invoices.map(({ number, status, kind }) => ({ number, status, kind })));
  expect(one).toEqual(other);
  // One provider counts in seconds, the other in milliseconds, so parts of a period may differ by a
  // cent per line.
  const [totals, others] = years.map((invoices) => invoices.map(({ total_minor: total }) => total));
  for (const [index, total] of (totals ?? []).entries())
    expect(Math.abs(total - (others?.[index] ?? 0))).toBeLessThanOrEqual(2);
});
