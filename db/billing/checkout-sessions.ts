// Checkout sessions: started by a person, paid on a page, completed with the billing operation.
import type { BillingCycle } from '../../domain/billing/catalogue.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface CheckoutSession {
  id: string;
  kind: 'subscribe' | 'wallet_topup';
  packageCode: string | null;
  billingCycle: BillingCycle | null;
  seats: number | null;
  amountMinor: number | null;
  currency: string;
  successUrl: string | null;
  cancelUrl: string | null;
  /** The page on which the person pays. */
  url: string;
  createdAt: Date;
  expiresAt: Date;
  completedAt: Date | null;
}

/** Inserts a checkout that has no page yet. It cannot be found until it has one. */
export async function insertCheckout(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  session: Omit<CheckoutSession, 'url'>,
): Promise<void> {
  await sql`
    insert into checkout_sessions (company_id, test_mode, id, kind, package_code, billing_cycle, seats, amount_minor, currency, success_url,
      cancel_url, created_at, expires_at)
    values (${companyId}, ${testMode}, ${session.id}, ${session.kind}, ${session.packageCode}, ${session.billingCycle}, ${session.seats},
      ${session.amountMinor}, ${session.currency}, ${session.successUrl}, ${session.cancelUrl}, ${session.createdAt},
      ${session.expiresAt})`;
}

/** Stores the page on which the person pays. From now on, the checkout can be found. */
export async function saveCheckoutUrl(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  url: string,
): Promise<void> {
  await sql`
    update checkout_sessions set url = ${url}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

export async function findCheckout(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<CheckoutSession | undefined> {
  const [row] = await sql<CheckoutSession[]>`
    select id, kind, package_code, billing_cycle, seats, amount_minor, currency,
      success_url, cancel_url, url, created_at, expires_at,
      completed_at
    from checkout_sessions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and url is not null`;
  return row;
}

/** Milliseconds between two queries of the provider for one checkout that is polled. */
const pollInterval = 5000;
/** Milliseconds after expiry in which a checkout may turn out to have been paid just before. */
const latePayment = 600_000;

/**
 * Reserves the next query of the provider for an open checkout.
 * @returns false if another caller reserved one recently, or if the checkout is over
 */
export async function takeCheckoutLook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<boolean> {
  const taken = await sql`
    update checkout_sessions set asked_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and completed_at is null
      and expires_at > ${new Date(now.getTime() - latePayment)}
      and (asked_at is null or asked_at <= ${new Date(now.getTime() - pollInterval)})`;
  return taken.count === 1;
}

/**
 * Returns when the newest checkout that may still be paid was created; undefined if there is none.
 */
export async function findNewestOpenCheckout(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  now: Date,
): Promise<Date | undefined> {
  const [row] = await sql<{ createdAt: Date }[]>`
    select created_at from checkout_sessions
    where company_id = ${companyId} and test_mode = ${testMode} and completed_at is null
      and expires_at > ${new Date(now.getTime() - latePayment)}
    order by created_at desc limit 1`;
  return row?.createdAt;
}

export async function completeCheckout(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<void> {
  await sql`
    update checkout_sessions set completed_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and completed_at is null`;
}
