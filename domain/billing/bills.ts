// Bills: what a workspace pays now, and what its next invoice asks for.
import { nextPeriod } from './changes.ts';
import { type InvoiceLine, type KeptPrices, periodLines, totalOf, withCredit } from './proration.ts';
import { isPaid, type Subscription } from './subscription.ts';

/** What the invoices of a subscription are reduced by. */
export interface Discount {
  name: string | null;
  percent_off: number | null;
  amount_off_minor: number | null;
  /** null: it stays. */
  ends_at: string | null;
}

export interface PendingBill {
  currency: string;
  subtotal_minor: number;
  tax_minor: number;
  total_minor: number;
  next_charge_at: string | null;
  lines: InvoiceLine[];
}

/** The bill of a provider that keeps books of its own. */
export interface ProviderBill {
  /** Of the items of the subscription, whatever the catalogue says by now. */
  prices: KeptPrices;
  discounts: Discount[];
  /** null: nothing will be charged, or the provider gave no preview. */
  pending: PendingBill | null;
  /** Why the provider gave no preview; null: it gave one. */
  problem: string | null;
}

/** A subscription that the provider renews by itself, at its own prices. */
const isOfProvider = (subscription: Subscription): boolean => isPaid(subscription) && subscription.dueAt === null;

/** The provider's bill, if the subscription is in its books. */
export function selectBill(subscription: Subscription, bill: ProviderBill | undefined): ProviderBill | undefined {
  return isOfProvider(subscription) ? bill : undefined;
}

/**
 * What the next period will be charged, as things stand; null if nothing will be. The provider's preview counts. Without one,
 * the amounts are computed from the prices that are known, and `is_estimate` is true.
 */
export function findPending(
  subscription: Subscription,
  bill: ProviderBill | undefined,
): (PendingBill & { is_estimate: boolean }) | null {
  const own = selectBill(subscription, bill);
  if (own && own.problem === null) return own.pending && { ...own.pending, is_estimate: false };
  if (!isPaid(subscription) || subscription.cancelAtPeriodEnd) return null;
  const { lines } = withCredit(periodLines(nextPeriod(subscription), own?.prices), subscription.creditMinor);
  const total = totalOf(lines);
  return {
    currency: subscription.currency,
    subtotal_minor: total,
    tax_minor: 0,
    total_minor: total,
    next_charge_at: subscription.periodEnd.toISOString(),
    lines,
    is_estimate: isOfProvider(subscription),
  };
}
