// The books of the test provider: what it has charged, one entry for each order.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface TestCharge extends TenantScope {
  orderId: string;
  amountMinor: number;
  currency: string;
  last4: string;
  isDeclined: boolean;
}

/** Charges once: of an order that has an entry, it tells what became of it then. @returns false where the card is declined */
export async function chargeOnce(
  sql: Sql,
  { companyId, testMode, orderId, amountMinor, currency, last4, isDeclined }: TestCharge,
  now: Date,
): Promise<boolean> {
  await sql`
    insert into test_charges (company_id, test_mode, order_id, amount_minor, currency, last4, is_declined, created_at)
    values (${companyId}, ${testMode}, ${orderId}, ${amountMinor}, ${currency}, ${last4}, ${isDeclined}, ${now})
    on conflict (company_id, test_mode, order_id) do nothing`;
  const [entry] = await sql<{ isDeclined: boolean }[]>`
    select is_declined from test_charges
    where company_id = ${companyId} and test_mode = ${testMode} and order_id = ${orderId}`;
  return entry?.isDeclined === false;
}
