// Subscriptions for tests, in any state and of any age.
import { call, type Json } from './client.ts';
import { database, type Tenant } from './tenants.ts';

const day = 86_400_000;

/** A valid card and a declined one. */
export const goodCard = { brand: 'visa', last4: '4242', exp_month: 12, exp_year: 2035 };
export const declinedCard = { ...goodCard, last4: '0002' };

const getTable = (mode: 'live' | 'test'): string => (mode === 'test' ? 'test_subscriptions' : 'subscriptions');

/**
 * Puts a subscription into a state: by default active on starter, in the middle of a month of 30
 * days.
 */
export async function subscribed(
  tenant: Pick<Tenant, 'companyId'>,
  mode: 'live' | 'test' = 'live',
  more: Record<string, unknown> = {},
): Promise<void> {
  const sql = database();
  const now = Date.now();
  const end = new Date(now + 15 * day);
  const state = {
    status: 'active',
    package_code: 'starter',
    billing_cycle: 'monthly',
    currency: 'USD',
    seats: null,
    add_ons: [],
    trial_ends_at: null,
    period_start: new Date(now - 15 * day),
    period_end: end,
    cancel_at_period_end: false,
    scheduled: sql.json([]),
    ended_at: null,
    past_due_since: null,
    charge_attempts: 0,
    credit_minor: 0,
    payment_method: sql.json(goodCard),
    has_agreement: false,
    agreement_ends_at: null,
    due_at: end,
    updated_at: new Date(now),
    ...more,
  };
  const row = { company_id: tenant.companyId, created_at: new Date(now), ...state };
  await sql`insert into ${sql(getTable(mode))} ${sql(row as never)} on conflict (company_id) do update set ${sql(state as never)}`;
}

/** Returns the stored subscription. */
export async function storedSubscription(
  { companyId }: Pick<Tenant, 'companyId'>,
  mode: 'live' | 'test' = 'live',
): Promise<Json> {
  const sql = database();
  const [row] = await sql`select * from ${sql(getTable(mode))} where company_id = ${companyId}`;
  return row;
}

/** Returns the successful charges, in minor units. */
export async function charged({ companyId }: Pick<Tenant, 'companyId'>): Promise<number[]> {
  const rows = await database()<{ amount: number }[]>`
    select amount_minor::int as amount from test_charges where company_id = ${companyId} and not is_declined order by created_at`;
  return rows.map(({ amount }) => amount);
}

/** Adds a row of the tenant, in each mode, to every table of billing. */
export async function billed(tenant: Tenant): Promise<void> {
  const sql = database();
  await customer(tenant);
  for (const mode of ['live', 'test'] as const) {
    await subscribed(tenant, mode);
    const key = mode === 'live' ? tenant.key : tenant.testKey;
    await call('POST', '/v1/subscription/upgrade', { key, body: { package_code: 'growth' } });
    await call('POST', '/v1/billing/portal-session', { key });
    await sql`
      insert into wallet_entries (company_id, test_mode, payment_id, amount_minor, created_at)
      values (${tenant.companyId}, ${mode === 'test'}, gen_random_uuid(), 500, now())`;
    await sql`
      insert into checkout_sessions (company_id, test_mode, id, kind, amount_minor, currency, url, created_at, expires_at)
      values (${tenant.companyId}, ${mode === 'test'}, gen_random_uuid()::text, 'wallet_topup', 500, 'USD', 'http://127.0.0.1/', now(), now())`;
  }
}

/** Creates a customer at a payment provider, with an event. */
async function customer({ companyId }: Tenant): Promise<void> {
  const sql = database();
  await sql`
    insert into provider_customers (company_id, customer_id, due_at, created_at)
    values (${companyId}, gen_random_uuid()::text, now() + interval '1 day', now())
    on conflict (company_id) do nothing`;
  await sql`insert into provider_customer_places (customer_id, company_id) values (gen_random_uuid()::text, ${companyId})`;
  await sql`
    insert into provider_bills (company_id, prices, discounts, looked_at) values (${companyId}, '{}', '[]', now())
    on conflict (company_id) do nothing`;
  await sql`insert into provider_events (company_id, id, received_at) values (${companyId}, gen_random_uuid()::text, now())`;
}

/** Creates invoices without an operation behind them. */
export async function invoiced(
  { companyId }: Pick<Tenant, 'companyId'>,
  mode: 'live' | 'test',
  count: number,
): Promise<void> {
  await database()`
    insert into invoices (company_id, test_mode, id, operation_id, number, status, kind, currency, subtotal_minor, total_minor, amount_paid_minor,
      period_start, period_end, issued_at, lines)
    select ${companyId}, ${mode === 'test'}, gen_random_uuid(), gen_random_uuid(), ${mode} || n, 'paid', 'adjustment', 'USD', 1, 1, 1, now(), now(),
      now() - n * interval '1 hour', '[]'
    from generate_series(1, ${count}::int) n`;
}

/** Columns with times, by table of billing. */
const moments = {
  subscriptions: ['trial_ends_at', 'period_start', 'period_end', 'ended_at', 'past_due_since', 'due_at'],
  invoices: ['period_start', 'period_end', 'issued_at', 'due_at', 'paid_at'],
  checkout_sessions: ['created_at', 'expires_at', 'completed_at'],
  provider_bills: ['next_charge_at', 'looked_at'],
  api_quota: ['month_start'],
};

/** Shifts everything in a database's billing tables into the past by days. */
export async function ageBill(days: number): Promise<void> {
  const sql = database();
  for (const [table, columns] of Object.entries(moments))
    for (const column of columns)
      await sql.unsafe(
        `update ${table} set ${column} = ${column} - interval '${days} days' where company_id <> '00000000-0000-7000-8000-000000000000'`,
      );
  // The values that operations were computed from.
  for (const name of ['periodStart', 'periodEnd'])
    await sql.unsafe(
      `update billing_operations set base = base || jsonb_build_object('${name}', (base->>'${name}')::timestamptz - interval '${days} days')
       where base is not null and company_id <> '00000000-0000-7000-8000-000000000000'`,
    );
}
