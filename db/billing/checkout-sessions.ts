// Checkout sessions: started by a person, paid on a page, complete with the order behind it.
import type { BillingCycle } from '../../domain/billing/catalogue.ts';
import type { Sql } from '../connect.ts';
import type { TenantScope } from '../tenant.ts';

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
  /** Where the person pays. */
  url: string;
  createdAt: Date;
  expiresAt: Date;
  completedAt: Date | null;
}

/** Writes a checkout that has no page yet: nobody finds it before it has. */
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

/** Notes where the person pays: from now on the checkout is found. */
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
    select id, kind, package_code as "packageCode", billing_cycle as "billingCycle", seats, amount_minor as "amountMinor", currency,
      success_url as "successUrl", cancel_url as "cancelUrl", url, created_at as "createdAt", expires_at as "expiresAt",
      completed_at as "completedAt"
    from checkout_sessions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and url is not null`;
  return row;
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
