// Reads amounts, prices and discounts of Stripe invoices and previews.
import type Stripe from 'stripe';
import type { Discount, PendingBill, ProviderBill } from '../../domain/billing/bills.ts';
import { buildCreditLine, type InvoiceLine, sumLines } from '../../domain/billing/proration.ts';
import { readItemKey } from './items.ts';
import type { CustomerState } from './state.ts';

export interface Amounts {
  subtotalMinor: number;
  taxMinor: number;
  totalMinor: number;
  lines: InvoiceLine[];
}

/**
 * Reads the amounts of an invoice or a preview. Discounts, included taxes and credit become
 * separate lines. The lines add up to the subtotal, and the subtotal and the tax to the amount due.
 */
export function readAmounts(invoice: Stripe.Invoice): Amounts {
  const taxes = invoice.total_taxes ?? [];
  const taxMinor = sum(taxes);
  const includedTax = sum(taxes.filter(({ tax_behavior }) => tax_behavior === 'inclusive'));
  const lines = [
    ...invoice.lines.data.map(readLine),
    ...readDiscountLines(invoice),
    ...(includedTax === 0 ? [] : [newLine('Tax included in the prices, listed as tax', -includedTax)]),
  ];
  const subtotalMinor = invoice.amount_due - taxMinor;
  const credit = subtotalMinor - sumLines(lines);
  return {
    subtotalMinor,
    taxMinor,
    totalMinor: invoice.amount_due,
    lines: [...lines, ...(credit === 0 ? [] : [buildCreditLine(credit)])],
  };
}

const sum = (parts: readonly { amount: number }[]): number => parts.reduce((total, { amount }) => total + amount, 0);

const newLine = (description: string, amount: number): InvoiceLine => ({
  description,
  quantity: 1,
  unit_amount_minor: amount,
  amount_minor: amount,
  proration: false,
});

function readLine({ description, quantity, pricing, amount, parent }: Stripe.InvoiceLineItem): InvoiceLine {
  const details = parent?.subscription_item_details ?? parent?.invoice_item_details;
  return {
    description: description ?? '',
    quantity: quantity ?? 1,
    unit_amount_minor: Math.round(Number(pricing?.unit_amount_decimal ?? amount)),
    amount_minor: amount,
    proration: details?.proration ?? false,
  };
}

function readDiscountLines({ total_discount_amounts: amounts, discounts }: Stripe.Invoice): InvoiceLine[] {
  return (amounts ?? [])
    .filter(({ amount }) => amount !== 0)
    .map(({ amount, discount }) => {
      const id = typeof discount === 'string' ? discount : discount.id;
      const known = discounts.find((each) => typeof each !== 'string' && each.id === id);
      const name = known && readDiscount(known)?.name;
      return newLine(name ? `Discount: ${name}` : 'Discount', -amount);
    });
}

/** @returns undefined if the discount was not fetched or was removed */
function readDiscount(discount: string | Stripe.Discount | Stripe.DeletedDiscount): Discount | undefined {
  if (typeof discount === 'string' || discount.deleted) return undefined;
  const { coupon } = discount.source;
  if (coupon === null || typeof coupon === 'string') return undefined;
  return {
    name: coupon.name,
    percent_off: coupon.percent_off,
    amount_off_minor: coupon.amount_off,
    ends_at: discount.end === null ? null : toIso(discount.end),
  };
}

const toIso = (seconds: number): string => new Date(seconds * 1000).toISOString();

/** Reads what the customer of a live subscription pays. */
export function readBill(
  live: Stripe.Subscription,
  customer: Stripe.Customer,
  preview: CustomerState['preview'],
): ProviderBill {
  const own = live.discounts.flatMap((each) => readDiscount(each) ?? []);
  // A subscription without discounts uses the discount of the customer.
  const inherited = live.discounts.length === 0 && customer.discount ? readDiscount(customer.discount) : undefined;
  return {
    prices: Object.fromEntries(live.items.data.map((item) => [readItemKey(item), item.price.unit_amount])),
    discounts: inherited ? [inherited] : own,
    pending: preview.invoice && readNextInvoice(live, preview.invoice),
    problem: preview.problem,
  };
}

/** Reads a preview of the next invoice. @returns null if nothing is collected for it */
export function readNextInvoice(live: Stripe.Subscription, preview: Stripe.Invoice): PendingBill | null {
  return isPaused(live) ? null : readPending(preview);
}

/** Finds the discounts that reduce an invoice. @returns their names by id */
export function findUsedDiscounts({ total_discount_amounts: amounts, discounts }: Stripe.Invoice) {
  return new Map(
    (amounts ?? [])
      .filter(({ amount }) => amount !== 0)
      .map(({ discount }) => {
        const id = typeof discount === 'string' ? discount : discount.id;
        const known = discounts.find((each) => typeof each !== 'string' && each.id === id);
        return [id, (known && readDiscount(known)?.name) ?? null] as const;
      }),
  );
}

/**
 * Returns true if nothing is collected for the next period. Invoices kept as drafts are collected
 * later.
 */
function isPaused({ pause_collection: pause, items }: Stripe.Subscription): boolean {
  if (!pause || pause.behavior === 'keep_as_draft') return false;
  return pause.resumes_at === null || pause.resumes_at > (items.data[0]?.current_period_end ?? 0);
}

function readPending(preview: Stripe.Invoice): PendingBill {
  const { subtotalMinor, taxMinor, totalMinor, lines } = readAmounts(preview);
  return {
    currency: preview.currency.toUpperCase(),
    subtotal_minor: subtotalMinor,
    tax_minor: taxMinor,
    total_minor: totalMinor,
    next_charge_at: toIso(preview.next_payment_attempt ?? preview.period_end),
    lines,
  };
}
