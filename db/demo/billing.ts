// Billing of the demo workspace in test mode: a subscription, an invoice and a checkout.
import type { InvoiceLine } from '../../domain/billing/proration.ts';
import type { Sql } from '../client/pool.ts';

export interface DemoBilling {
  packageCode: string;
  addOn: string;
  periodStart: Date;
  periodEnd: Date;
  card: object;
  invoice: { id: string; number: string; totalMinor: number; lines: InvoiceLine[] };
  checkout: { id: string; url: string; expiresAt: Date };
}

export async function insertDemoBilling(sql: Sql, companyId: string, demo: DemoBilling): Promise<void> {
  const { packageCode, addOn, periodStart, periodEnd, card, invoice, checkout } = demo;
  await sql`
    insert into test_subscriptions (company_id, status, package_code, add_ons, period_start, period_end, payment_method, due_at, created_at,
      updated_at)
    values (${companyId}, 'active', ${packageCode}, array[${addOn}], ${periodStart}, ${periodEnd}, ${sql.json(card as never)}, ${periodEnd},
      ${periodStart}, ${periodStart})`;
  await sql`
    insert into invoices (company_id, test_mode, id, operation_id, number, status, kind, currency, subtotal_minor, total_minor, amount_paid_minor,
      period_start, period_end, issued_at, paid_at, lines)
    values (${companyId}, true, ${invoice.id}, ${invoice.id}, ${invoice.number}, 'paid', 'subscription', 'USD', ${invoice.totalMinor},
      ${invoice.totalMinor}, ${invoice.totalMinor}, ${periodStart}, ${periodEnd}, ${periodStart}, ${periodStart}, ${sql.json(invoice.lines as never)})`;
  await sql`
    insert into checkout_sessions (company_id, test_mode, id, kind, package_code, billing_cycle, currency, url, created_at, expires_at, completed_at)
    values (${companyId}, true, ${checkout.id}, 'subscribe', ${packageCode}, 'monthly', 'USD', ${checkout.url}, ${periodStart},
      ${checkout.expiresAt}, ${periodStart})`;
}
