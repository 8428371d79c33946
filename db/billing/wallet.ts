// The wallet: payments into it and withdrawals, each payment once.
import { v7 as uuidv7 } from 'uuid';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** Returns the balance in minor units. */
export async function readWalletBalance(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
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

type ReversalReason = 'refund' | 'dispute';

/** The amount that a payment into the wallet must give back in total so far, in minor units. */
export interface Reversal {
  paymentId: string;
  reason: ReversalReason;
  amountMinor: number;
}

/**
 * Withdraws credit until each payment has given back its amount, and returns credit if a payment
 * gave back too much. Requires the lock of the subscription: two concurrent callers would withdraw
 * the same credit twice.
 * @returns the changes; a negative amount was withdrawn
 */
export async function reversePayments(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  reversals: readonly Reversal[],
  now: Date,
): Promise<Reversal[]> {
  const booked = await sql<{ paymentId: string; reason: ReversalReason; amount: number }[]>`
    select reverses as payment_id, reason, sum(amount_minor)::bigint as amount from wallet_entries
    where company_id = ${companyId} and test_mode = ${testMode} and reverses is not null
    group by reverses, reason`;
  const changed = reversals
    .map(({ paymentId, reason, amountMinor }) => {
      const own = booked.find((each) => each.paymentId === paymentId && each.reason === reason);
      return { paymentId, reason, amountMinor: -amountMinor - (own?.amount ?? 0) };
    })
    .filter(({ amountMinor }) => amountMinor !== 0);
  for (const { paymentId, reason, amountMinor } of changed)
    await sql`
      insert into wallet_entries (company_id, test_mode, payment_id, reverses, reason, amount_minor, created_at)
      values (${companyId}, ${testMode}, ${uuidv7()}, ${paymentId}, ${reason}, ${amountMinor}, ${now})`;
  return changed;
}
