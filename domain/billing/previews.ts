// Previews of subscription changes: what a change would charge, and what the workspace gives up.
import type { components } from '../../generated/api.ts';
import { findPending, type PendingBill, type ProviderBill } from './bills.ts';
import {
  buildNextPeriod,
  type ChangeRejection,
  type Consequence,
  computeConsequence,
  findRejection,
} from './changes.ts';
import { formatMoney } from './money.ts';
import { type InvoiceLine, type KeptPrices, listItems } from './proration.ts';
import type { PreviewedChange, Subscription } from './subscription.ts';
import { findWarnings } from './warnings.ts';

export type PreviewWarning = components['schemas']['PreviewWarning'];

/** The invoice that a change makes immediately. */
export interface PreviewedInvoice {
  lines: InvoiceLine[];
  taxMinor: number;
  /** Minor units to pay, with tax. */
  totalMinor: number;
}

export interface ChangePreview {
  applies: Consequence['applies'];
  effective: Date;
  currency: string;
  /** null: nothing is invoiced immediately. */
  invoice: PreviewedInvoice | null;
  /** The next invoice without the change; null: there is none. */
  current: PendingBill | null;
  /** The next invoice after the change; null: there is none. */
  next: PendingBill | null;
  /** True if an amount was computed here because the provider gave no preview of it. */
  isEstimate: boolean;
  warnings: PreviewWarning[];
}

/** A change to compute without making it. */
export interface PreviewRequest {
  companyId: string;
  testMode: boolean;
  change: PreviewedChange;
  /** As stored, which may be older than the provider's state. */
  subscription: Subscription;
  /** Active users. */
  usedSeats: number;
  now: Date;
}

export type PreviewResult =
  | { preview: ChangePreview; rejection?: undefined }
  /** Why the change would be rejected. */
  | { preview?: undefined; rejection: ChangeRejection };

/** Computes a change by the rules and prices of this service. */
export function computePreview(
  { change, subscription, usedSeats, now }: Omit<PreviewRequest, 'companyId' | 'testMode'>,
  isEstimate = false,
): PreviewResult {
  const rejection = findRejection(change, subscription, usedSeats, now);
  if (rejection) return { rejection };
  const { applies, effective, paid } = computeConsequence(change, subscription, 0, now);
  const { invoice, after } = paid;
  return {
    preview: {
      applies,
      effective,
      currency: after.currency,
      invoice: invoice && { lines: invoice.lines, taxMinor: 0, totalMinor: invoice.totalMinor },
      current: findPending(subscription, undefined),
      next: findPending(after, undefined),
      isEstimate,
      warnings: findPreviewWarnings(change, subscription, after, undefined),
    },
  };
}

/**
 * Returns the warnings of the change itself, and those about what is given up with it.
 * @param bill the prices of a provider that manages subscriptions itself
 * @param lostDiscounts names of discounts that no longer apply after the change
 */
export function findPreviewWarnings(
  change: PreviewedChange,
  before: Subscription,
  after: Subscription,
  bill: ProviderBill | undefined,
  lostDiscounts: readonly (string | null)[] = [],
): PreviewWarning[] {
  const isEndingAnyway = after.cancelAtPeriodEnd && change.action !== 'cancel';
  if (isEndingAnyway || change.action === 'subscribe') return [];
  return [
    ...findWarnings(after, bill).map(({ code, message }) => ({ code, message })),
    ...lostDiscounts.map((name) => ({
      code: 'loses_discount',
      message: `The discount${name === null ? '' : ` ${name}`} no longer applies after this change.`,
    })),
    ...findLostPrices(before, after, bill?.prices ?? {}),
  ];
}

/**
 * Finds prices below the catalog that end with a change. A later return to the same item costs the
 * price of the catalog.
 */
function findLostPrices(before: Subscription, after: Subscription, kept: KeptPrices): PreviewWarning[] {
  const later = buildNextPeriod(after);
  const isContinued = !after.cancelAtPeriodEnd && later.billingCycle === before.billingCycle;
  const stays = new Set(isContinued ? listItems(later).map(({ key }) => key) : []);
  return listItems(before).flatMap(({ key, description, unitMinor }) => {
    const price = kept[key];
    if (price == null || price >= unitMinor || stays.has(key)) return [];
    const [paid, listed] = [price, unitMinor].map((minor) => formatMoney(minor, before.currency));
    return [
      {
        code: 'loses_discount',
        message: `${description} costs ${paid} now, which is less than its current list price of ${listed}. This change gives up that price.`,
      },
    ];
  });
}
