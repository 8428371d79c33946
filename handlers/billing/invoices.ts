// Invoices, and the next bill.
import { listInvoices as findInvoices, type InvoiceRow } from '../../db/billing/invoices.ts';
import { findProviderBill } from '../../db/billing/provider-bills.ts';
import { findPending } from '../../domain/billing/bills.ts';
import type { components } from '../../generated/api.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { readSubscription } from '../../services/billing/subscription.ts';

/** The maximum number of listed invoices. */
const newest = 24;

export const listInvoices: Handler<'listInvoices'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const subscription = await readSubscription(call);
  const [invoices, bill] = await Promise.all([
    findInvoices(sql, { companyId: caller.companyId, testMode: caller.testMode }, newest),
    caller.testMode ? undefined : findProviderBill(sql, caller.companyId),
  ]);
  const { rows, ...rest } = selectPage(call, ['invoices'], invoices, ({ id }) => id);
  return {
    status: 200,
    data: { invoices: rows.map(toInvoiceResponse), pending: findPending(subscription, bill), ...rest },
  };
};

function toInvoiceResponse(row: InvoiceRow): components['schemas']['Invoice'] {
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
    bill_to: row.billTo,
  };
}
