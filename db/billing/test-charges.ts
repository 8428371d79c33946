// The charges of the test provider, one for each billing operation.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface TestCharge extends TenantScope {
  operationId: string;
  amountMinor: number;
  currency: string;
  last4: string;
  isDeclined: boolean;
}

/**
 * Charges an operation once.
 * @returns false if the card is declined, now or when the operation was charged
 */
export async function chargeOnce(
  sql: Sql,
  { companyId, testMode, operationId, amountMinor, currency, last4, isDeclined }: TestCharge,
  now: Date,
): Promise<boolean> {
  await sql`
    insert into test_charges (company_id, test_mode, operation_id, amount_minor, currency, last4, is_declined, created_at)
    values (${companyId}, ${testMode}, ${operationId}, ${amountMinor}, ${currency}, ${last4}, ${isDeclined}, ${now})
    on conflict (company_id, test_mode, operation_id) do nothing`;
  const [entry] = await sql<{ isDeclined: boolean }[]>`
    select is_declined from test_charges
    where company_id = ${companyId} and test_mode = ${testMode} and operation_id = ${operationId}`;
  return entry?.isDeclined === false;
}
