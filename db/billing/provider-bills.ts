// Prices, discounts and the next invoice, for providers that keep their own invoices.
import type { Discount, PendingBill, ProviderBill } from '../../domain/billing/bills.ts';
import type { KeptPrices } from '../../domain/billing/proration.ts';
import type { Sql } from '../client/pool.ts';

interface Row {
  prices: KeptPrices;
  discounts: Discount[];
  pending: Omit<PendingBill, 'next_charge_at'> | null;
  nextChargeAt: Date | null;
  problem: string | null;
}

/** @returns undefined if the provider was never queried */
export async function findProviderBill(sql: Sql, companyId: string): Promise<ProviderBill | undefined> {
  const [row] = await sql<Row[]>`
    select prices, discounts, pending, next_charge_at, problem from provider_bills
    where company_id = ${companyId}`;
  if (!row) return undefined;
  const { prices, discounts, pending, nextChargeAt, problem } = row;
  const next_charge_at = nextChargeAt?.toISOString() ?? null;
  return { prices, discounts, pending: pending && { ...pending, next_charge_at }, problem };
}

/** Stores the bill of a company and replaces the previous one. */
export async function saveProviderBill(
  sql: Sql,
  companyId: string,
  { prices, discounts, pending, problem }: ProviderBill,
  now: Date,
): Promise<void> {
  const { next_charge_at = null, ...amounts } = pending ?? {};
  const row = {
    prices: sql.json(prices as never),
    discounts: sql.json(discounts as never),
    pending: pending === null ? null : sql.json(amounts as never),
    nextChargeAt: next_charge_at === null ? null : new Date(next_charge_at),
    problem,
    lookedAt: now,
  };
  await sql`
    insert into provider_bills ${sql({ companyId, ...row })}
    on conflict (company_id) do update set ${sql(row)}`;
}
