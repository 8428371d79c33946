// Subscriptions in live mode and in test mode: read, locked and written.
import type { Subscription } from '../../domain/billing/subscription.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

const getTable = ({ testMode }: TenantScope): string => (testMode ? 'test_subscriptions' : 'subscriptions');

const columns = (sql: Sql) => sql`
  status, package_code, billing_cycle, currency, seats, add_ons,
  pending_add_ons,
  trial_ends_at, period_start, period_end, cancel_at_period_end,
  scheduled, ended_at, past_due_since, charge_attempts, credit_minor,
  payment_method, has_agreement, agreement_ends_at, due_at,
  updated_at`;

/** Returns undefined if the company has never had a subscription. */
export async function findSubscription(sql: Sql, scope: TenantScope): Promise<Subscription | undefined> {
  const [row] = await sql<Subscription[]>`
    select ${columns(sql)} from ${sql(getTable(scope))} where company_id = ${scope.companyId}`;
  return row;
}

/** Does the same, with a lock until the transaction ends. */
export async function lockSubscription(sql: Sql, scope: TenantScope): Promise<Subscription | undefined> {
  const [row] = await sql<Subscription[]>`
    select ${columns(sql)} from ${sql(getTable(scope))} where company_id = ${scope.companyId} for no key update`;
  return row;
}

/**
 * Locks a subscription. In test mode, creates one if there is none.
 * @param begin returns the first subscription of test mode, for the time when the workspace was
 * created
 */
export async function openSubscription(
  sql: Sql,
  scope: TenantScope,
  begin: (since: Date) => Subscription,
  now: Date,
): Promise<Subscription | undefined> {
  const locked = await lockSubscription(sql, scope);
  if (locked || !scope.testMode) return locked;
  const since = await findBeginning(sql, scope.companyId);
  if (!since) return undefined;
  await insertSubscription(sql, scope, begin(since), now);
  return lockSubscription(sql, scope);
}

/** Replaces the stored card. */
export async function savePaymentMethod(
  sql: Sql,
  scope: TenantScope,
  method: NonNullable<Subscription['paymentMethod']>,
  now: Date,
): Promise<void> {
  await sql`
    update ${sql(getTable(scope))} set payment_method = ${sql.json(method as never)}, updated_at = ${now}
    where company_id = ${scope.companyId}`;
}

/** Stores the first subscription of test mode, unless there is one. */
async function insertSubscription(sql: Sql, scope: TenantScope, subscription: Subscription, now: Date): Promise<void> {
  const row = { companyId: scope.companyId, ...toRow(sql, subscription, now), createdAt: now };
  await sql`insert into ${sql(getTable(scope))} ${sql(row)} on conflict (company_id) do nothing`;
}

export async function saveSubscription(
  sql: Sql,
  scope: TenantScope,
  subscription: Subscription,
  now: Date,
): Promise<void> {
  await sql`
    update ${sql(getTable(scope))} set ${sql(toRow(sql, subscription, now))} where company_id = ${scope.companyId}`;
}

function toRow(sql: Sql, subscription: Subscription, now: Date) {
  return {
    status: subscription.status,
    packageCode: subscription.packageCode,
    billingCycle: subscription.billingCycle,
    currency: subscription.currency,
    seats: subscription.seats,
    addOns: [...subscription.addOns],
    pendingAddOns: [...subscription.pendingAddOns],
    trialEndsAt: subscription.trialEndsAt,
    periodStart: subscription.periodStart,
    periodEnd: subscription.periodEnd,
    cancelAtPeriodEnd: subscription.cancelAtPeriodEnd,
    scheduled: sql.json(subscription.scheduled as never),
    endedAt: subscription.endedAt,
    pastDueSince: subscription.pastDueSince,
    chargeAttempts: subscription.chargeAttempts,
    creditMinor: subscription.creditMinor,
    paymentMethod: subscription.paymentMethod === null ? null : sql.json(subscription.paymentMethod as never),
    hasAgreement: subscription.hasAgreement,
    agreementEndsAt: subscription.agreementEndsAt,
    dueAt: subscription.dueAt,
    updatedAt: now,
  };
}

/** Returns when the workspace was created. */
export async function findBeginning(sql: Sql, companyId: string): Promise<Date | undefined> {
  const [row] = await sql<{ createdAt: Date }[]>`
    select created_at from companies where id = ${companyId}`;
  return row?.createdAt;
}

/**
 * Limits of calls from an agreement, which override those of the package; all null without a row.
 */
export interface AgreedLimitsRow {
  agreedPerMinute: number | null;
  agreedPerDay: number | null;
  agreedPerMonth: number | null;
}

export async function findAgreedLimits(sql: Sql, scope: TenantScope): Promise<AgreedLimitsRow> {
  const [row] = await sql<AgreedLimitsRow[]>`
    select api_rate_limit_per_minute as agreed_per_minute, api_daily_cap as agreed_per_day, api_call_cap as agreed_per_month
    from ${sql(getTable(scope))} where company_id = ${scope.companyId}`;
  return row ?? { agreedPerMinute: null, agreedPerDay: null, agreedPerMonth: null };
}
