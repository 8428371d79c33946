// Invoices, and the bill to come.
import { listInvoices as findInvoices, type InvoiceRow } from '../../db/billing/invoices.ts';
import { nextPeriod } from '../../domain/billing/changes.ts';
import { periodLines, totalOf, withCredit } from '../../domain/billing/proration.ts';
import { isPaid, type Subscription } from '../../domain/billing/subscription.ts';
import type { components } from '../../generated/api.ts';
import { readSubscription } from '../../reads/subscription.ts';
import type { Handler } from '../../runtime/handler.ts';
import { pageOfWhole } from '../../runtime/paging.ts';

/** Invoices that are shown. */
const newest = 24;

export const listInvoices: Handler<'listInvoices'> = async (call) => {
  const { sql, caller } = call;
  const subscription = await readSubscription(call);
  const invoices = await findInvoices(sql, { companyId: caller.companyId, testMode: caller.testMode }, newest);
  const { rows, ...rest } = pageOfWhole(call, ['invoices'], invoices, ({ id }) => id);
  return { status: 200, data: { invoices: rows.map(shown), pending: pendingOf(subscription), ...rest } };
};

/** What the next period will be charged, as things stand; null where there is none. */
function pendingOf(subscription: Subscription): components['schemas']['PendingBill'] | null {
  if (!isPaid(subscription) || subscription.cancelAtPeriodEnd) return null;
  const { lines } = withCredit(periodLines(nextPeriod(subscription)), subscription.creditMinor);
  const total = totalOf(lines);
  return {
    currency: subscription.currency,
    subtotal_minor: total,
    tax_minor: 0,
    total_minor: total,
    next_charge_at: subscription.periodEnd.toISOString(),
    lines,
  };
}

function shown(row: InvoiceRow): components['schemas']['Invoice'] {
  return {
    id: row.id,
    number: row.number,
    status: row.status,
    kind: row.kind,
    currency: row.currency,
    subtotal_minor: row.subtotalMinor,
    tax_minor: row.taxMinor,
    total_minor: row.totalMinor,
    amount_paid_minor: row.amountPaidMinor,
    amount_due_minor: row.status === 'open' ? row.totalMinor - row.amountPaidMinor : 0,
    period_start: row.periodStart.toISOString(),
    period_end: row.periodEnd.toISOString(),
    issued_at: row.issuedAt.toISOString(),
    due_at: row.dueAt?.toISOString() ?? null,
    paid_at: row.paidAt?.toISOString() ?? null,
    hosted_url: row.hostedUrl,
    pdf_url: row.pdfUrl,
    lines: row.lines,
  };
}
