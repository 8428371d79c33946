// Invoices: written together with the change that they bill, and listed.
import { v7 as uuidv7 } from 'uuid';
import type { InvoiceLine, NewInvoice } from '../../domain/billing/proration.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface InvoiceRow {
  id: string;
  number: string;
  status: 'draft' | 'open' | 'paid' | 'void' | 'uncollectible';
  kind: 'subscription' | 'wallet_topup' | 'adjustment';
  currency: string;
  subtotalMinor: number;
  taxMinor: number;
  totalMinor: number;
  amountPaidMinor: number;
  periodStart: Date;
  periodEnd: Date;
  issuedAt: Date;
  dueAt: Date | null;
  paidAt: Date | null;
  /** The provider's page of the invoice. */
  hostedUrl: string | null;
  pdfUrl: string | null;
  lines: InvoiceLine[];
  billTo: BillTo | null;
}

/** The customer, as the provider's invoice names it. */
export interface BillTo {
  name: string | null;
  address: {
    line1: string | null;
    line2: string | null;
    city: string | null;
    state: string | null;
    postal_code: string | null;
    country: string | null;
  } | null;
  tax_ids: { type: string; value: string }[];
}

/** An invoice as the provider has it. */
export interface MirroredInvoice extends Omit<InvoiceRow, 'id'> {
  /** The provider's id. */
  providerId: string;
}

/** Returns the newest invoices. */
export async function listInvoices(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  limit: number,
): Promise<InvoiceRow[]> {
  return await sql<InvoiceRow[]>`
    select id, number, status, kind, currency, subtotal_minor, tax_minor, total_minor,
      amount_paid_minor, period_start, period_end, issued_at,
      due_at, paid_at, hosted_url, pdf_url, lines, bill_to
    from invoices
    where company_id = ${companyId} and test_mode = ${testMode}
    order by issued_at desc, id desc
    limit ${limit}`;
}

/** Returns the total that is due on open invoices, in minor units. */
export async function openAmount(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  const [row] = await sql<{ amount: number }[]>`
    select coalesce(sum(total_minor - amount_paid_minor), 0)::bigint as amount from invoices
    where company_id = ${companyId} and test_mode = ${testMode} and status = 'open'`;
  return row?.amount ?? 0;
}

/**
 * Inserts the invoice of a billing operation. Its number follows the previous one. The lock of the
 * subscription prevents two invoices from taking the same number.
 */
export async function insertInvoice(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  operationId: string,
  { kind, currency, totalMinor, periodStart, periodEnd, lines }: NewInvoice,
  isPaid: boolean,
  now: Date,
): Promise<void> {
  const [counted] = await sql<{ count: number }[]>`
    select count(*)::int as count from invoices where company_id = ${companyId} and test_mode = ${testMode}`;
  const row = {
    companyId,
    testMode,
    id: uuidv7(),
    operationId,
    number: `INV-${String((counted?.count ?? 0) + 1).padStart(6, '0')}`,
    status: isPaid ? 'paid' : 'open',
    kind,
    currency,
    subtotalMinor: totalMinor,
    totalMinor,
    amountPaidMinor: isPaid ? totalMinor : 0,
    periodStart,
    periodEnd,
    issuedAt: now,
    dueAt: isPaid ? null : now,
    paidAt: isPaid ? now : null,
    lines: sql.json(lines as never),
  };
  await sql`insert into invoices ${sql(row)}`;
}

/** Stores an invoice as the provider has it, and replaces what was stored before. */
export async function mirrorInvoice(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  invoice: MirroredInvoice,
): Promise<void> {
  const row = {
    number: invoice.number,
    status: invoice.status,
    kind: invoice.kind,
    currency: invoice.currency,
    subtotalMinor: invoice.subtotalMinor,
    taxMinor: invoice.taxMinor,
    totalMinor: invoice.totalMinor,
    amountPaidMinor: invoice.amountPaidMinor,
    periodStart: invoice.periodStart,
    periodEnd: invoice.periodEnd,
    issuedAt: invoice.issuedAt,
    dueAt: invoice.dueAt,
    paidAt: invoice.paidAt,
    hostedUrl: invoice.hostedUrl,
    pdfUrl: invoice.pdfUrl,
    lines: sql.json(invoice.lines as never),
    billTo: invoice.billTo && sql.json(invoice.billTo as never),
  };
  const key = { companyId, testMode, id: uuidv7(), providerId: invoice.providerId };
  await sql`
    insert into invoices ${sql({ ...key, ...row })}
    on conflict (company_id, test_mode, provider_id) do update set ${sql(row)}`;
}

/** Closes open invoices: they were paid after all, or never will be. */
export async function settleOpenInvoices(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  status: 'paid' | 'uncollectible',
  now: Date,
): Promise<void> {
  const isPaid = status === 'paid';
  await sql`
    update invoices
    set status = ${status}, amount_paid_minor = ${isPaid ? sql`total_minor` : sql`amount_paid_minor`}, paid_at = ${isPaid ? now : null}
    where company_id = ${companyId} and test_mode = ${testMode} and status = 'open'`;
}
