// The types of subscriptions and their changes.
import type { BillingCycle } from './catalogue.ts';

export type SubscriptionStatus =
  | 'trialing'
  | 'active'
  | 'past_due'
  /** The provider keeps the subscription, but neither charges nor serves it. */
  | 'paused'
  | 'canceled'
  | 'pending_deletion'
  | 'none';

export interface PaymentMethod {
  brand: string;
  last4: string;
  exp_month: number;
  exp_year: number;
}

/** A change at the end of the period. */
export type ScheduledChange =
  | { action: 'downgrade'; package_code: string }
  | { action: 'set_seats'; seats: number }
  | { action: 'remove_module'; module_key: string };

export interface Subscription {
  status: SubscriptionStatus;
  packageCode: string;
  billingCycle: BillingCycle;
  currency: string;
  /** Bought seats; null: as many as the package includes. */
  seats: number | null;
  /** Keys of modules bought in addition to the package. */
  addOns: readonly string[];
  /** Keys of modules whose payment is not confirmed yet. */
  pendingAddOns: readonly string[];
  trialEndsAt: Date | null;
  periodStart: Date;
  periodEnd: Date;
  cancelAtPeriodEnd: boolean;
  scheduled: readonly ScheduledChange[];
  endedAt: Date | null;
  pastDueSince: Date | null;
  /** Attempts to charge the due payment. */
  chargeAttempts: number;
  /** Credit for the next invoices in minor units. */
  creditMinor: number;
  paymentMethod: PaymentMethod | null;
  hasAgreement: boolean;
  agreementEndsAt: Date | null;
  /** When the next time-driven step is due; null: never. */
  dueAt: Date | null;
  updatedAt: Date;
}

interface Paid {
  card: PaymentMethod;
  /** The checkout that the payment completes. */
  checkout_session: string;
}

interface Prorated {
  /**
   * The time as of which the rest of the period is charged, in ISO format: that of a preview.
   * Without it, the time of the change.
   */
  prorated_at?: string;
}

export type Change =
  | ({ action: 'subscribe'; package_code: string; billing_cycle: BillingCycle; seats: number | null } & Paid)
  | ({ action: 'top_up'; amount_minor: number } & Paid)
  | ({ action: 'upgrade'; package_code: string; billing_cycle: BillingCycle | null } & Prorated)
  | { action: 'downgrade'; package_code: string }
  | ({ action: 'set_seats'; seats: number } & Prorated)
  | ({ action: 'add_module'; module_key: string } & Prorated)
  | { action: 'remove_module'; module_key: string }
  | { action: 'cancel' }
  | { action: 'reactivate' }
  /** The period is over. */
  | { action: 'renew' }
  /** A failed payment is retried. */
  | { action: 'charge_again' };

/** Changes that a caller can request. */
export type AskedChange = Exclude<Change, { action: 'subscribe' | 'top_up' | 'renew' | 'charge_again' }>;

/** Changes that a caller can preview. */
export type PreviewedChange = AskedChange | Extract<Change, { action: 'subscribe' }>;

/** Returns true if the subscription is paid for, even if a payment has failed. */
export function isPaid({ status }: Pick<Subscription, 'status'>): boolean {
  return status === 'active' || status === 'past_due';
}

/** Adds whole months. The end of a month maps to the end of a shorter month. */
export function addMonths(time: Date, months: number): Date {
  const later = new Date(time);
  later.setUTCDate(1);
  later.setUTCMonth(later.getUTCMonth() + months);
  const days = new Date(Date.UTC(later.getUTCFullYear(), later.getUTCMonth() + 1, 0)).getUTCDate();
  later.setUTCDate(Math.min(time.getUTCDate(), days));
  return later;
}

export const countMonths = (cycle: BillingCycle): number => (cycle === 'yearly' ? 12 : 1);

/** Returns the initial subscription of test keys: active on growth, with a valid card. */
export function buildShadowSubscription(since: Date, now: Date): Subscription {
  let months = 0;
  while (addMonths(since, months + 1) <= now) months += 1;
  return {
    status: 'active',
    packageCode: 'growth',
    billingCycle: 'monthly',
    currency: 'USD',
    seats: null,
    addOns: [],
    pendingAddOns: [],
    trialEndsAt: null,
    periodStart: addMonths(since, months),
    periodEnd: addMonths(since, months + 1),
    cancelAtPeriodEnd: false,
    scheduled: [],
    endedAt: null,
    pastDueSince: null,
    chargeAttempts: 0,
    creditMinor: 0,
    paymentMethod: { brand: 'visa', last4: '4242', exp_month: 12, exp_year: now.getUTCFullYear() + 3 },
    hasAgreement: false,
    agreementEndsAt: null,
    dueAt: addMonths(since, months + 1),
    updatedAt: since,
  };
}
