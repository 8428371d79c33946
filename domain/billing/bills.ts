// Bills: what a workspace pays now, and what its next invoice will charge.
import { buildNextPeriod } from './changes.ts';
import { applyCredit, buildPeriodLines, type InvoiceLine, type KeptPrices, sumLines } from './proration.ts';
import { isPaid, type Subscription } from './subscription.ts';

/** A discount on the invoices of a subscription. */
export interface Discount {
  name: string | null;
  percent_off: number | null;
  amount_off_minor: number | null;
  /** null: unlimited. */
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

/** The bill of a provider that manages subscriptions itself. */
export interface ProviderBill {
  /** The prices of the subscription's items, even if the catalog has changed. */
  prices: KeptPrices;
  discounts: Discount[];
  /** null: nothing will be charged, or the provider returned no preview. */
  pending: PendingBill | null;
  /** Why the provider returned no preview; null: it returned one. */
  problem: string | null;
}

/** Returns true if the provider renews the subscription itself, at its own prices. */
const isManagedByProvider = (subscription: Subscription): boolean =>
  isPaid(subscription) && subscription.dueAt === null;

/** Returns the provider's bill if the provider manages the subscription. */
export function selectBill(subscription: Subscription, bill: ProviderBill | undefined): ProviderBill | undefined {
  return isManagedByProvider(subscription) ? bill : undefined;
}

/**
 * Returns the expected charge of the next period; null if there is none. The provider's preview
 * takes precedence. Without one, the amounts are computed from known prices, and `is_estimate` is
 * true.
 */
export function findPending(
  subscription: Subscription,
  bill: ProviderBill | undefined,
): (PendingBill & { is_estimate: boolean }) | null {
  const own = selectBill(subscription, bill);
  if (own && own.problem === null) return own.pending && { ...own.pending, is_estimate: false };
  if (!isPaid(subscription) || subscription.cancelAtPeriodEnd) return null;
  const { lines } = applyCredit(buildPeriodLines(buildNextPeriod(subscription), own?.prices), subscription.creditMinor);
  const total = sumLines(lines);
  return {
    currency: subscription.currency,
    subtotal_minor: total,
    tax_minor: 0,
    total_minor: total,
    next_charge_at: subscription.periodEnd.toISOString(),
    lines,
    is_estimate: isManagedByProvider(subscription),
  };
}
