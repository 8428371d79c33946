// The wallet: what was paid into it and taken out of it, each payment once.
import type { Sql } from '../connect.ts';
import type { TenantScope } from '../tenant.ts';

/** In minor units. */
export async function walletBalance(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  const [row] = await sql<{ balance: number }[]>`
    select coalesce(sum(amount_minor), 0)::bigint as balance from wallet_entries
    where company_id = ${companyId} and test_mode = ${testMode}`;
  return row?.balance ?? 0;
}

export async function addToWallet(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  paymentId: string,
  amountMinor: number,
  now: Date,
): Promise<void> {
  await sql`
    insert into wallet_entries (company_id, test_mode, payment_id, amount_minor, created_at)
    values (${companyId}, ${testMode}, ${paymentId}, ${amountMinor}, ${now})
    on conflict (company_id, test_mode, payment_id) do nothing`;
}
