// What a subscription is, and what a change asks of it.
import type { BillingCycle } from './catalogue.ts';

export type SubscriptionStatus =
  | 'trialing'
  | 'active'
  | 'past_due'
  /** The provider keeps the subscription, and neither charges nor serves it. */
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

/** What happens when the period ends. */
export type ScheduledChange =
  | { action: 'downgrade'; package_code: string }
  | { action: 'set_seats'; seats: number }
  | { action: 'remove_module'; module_key: string };

export interface Subscription {
  status: SubscriptionStatus;
  packageCode: string;
  billingCycle: BillingCycle;
  currency: string;
  /** Bought; null: as many as the package includes. */
  seats: number | null;
  /** Keys of modules that are paid for beside the package. */
  addOns: readonly string[];
  /** Keys of modules that are to be added once their payment is confirmed. */
  pendingAddOns: readonly string[];
  trialEndsAt: Date | null;
  periodStart: Date;
  periodEnd: Date;
  cancelAtPeriodEnd: boolean;
  scheduled: readonly ScheduledChange[];
  endedAt: Date | null;
  pastDueSince: Date | null;
  /** Of the payment that is due. */
  chargeAttempts: number;
  /** Minor units that the next invoices are less by. */
  creditMinor: number;
  paymentMethod: PaymentMethod | null;
  hasAgreement: boolean;
  agreementEndsAt: Date | null;
  /** When something becomes of it by itself; null: never. */
  dueAt: Date | null;
  updatedAt: Date;
}

interface Paid {
  card: PaymentMethod;
  /** The checkout that it completes. */
  checkout_session: string;
}

export type Change =
  | ({ action: 'subscribe'; package_code: string; billing_cycle: BillingCycle; seats: number | null } & Paid)
  | ({ action: 'top_up'; amount_minor: number } & Paid)
  | { action: 'upgrade'; package_code: string; billing_cycle: BillingCycle | null }
  | { action: 'downgrade'; package_code: string }
  | { action: 'set_seats'; seats: number }
  | { action: 'add_module'; module_key: string }
  | { action: 'remove_module'; module_key: string }
  | { action: 'cancel' }
  | { action: 'reactivate' }
  /** The period is over. */
  | { action: 'renew' }
  /** A payment that failed is tried again. */
  | { action: 'charge_again' };

/** Changes that a call can ask for. */
export type AskedChange = Exclude<Change, { action: 'subscribe' | 'top_up' | 'renew' | 'charge_again' }>;

/** Whether there is something that is paid for, be it that a payment failed. */
export function isPaid({ status }: Pick<Subscription, 'status'>): boolean {
  return status === 'active' || status === 'past_due';
}

/** Later by whole months; from the end of a month to the end of a shorter one. */
export function addMonths(time: Date, months: number): Date {
  const later = new Date(time);
  later.setUTCDate(1);
  later.setUTCMonth(later.getUTCMonth() + months);
  const days = new Date(Date.UTC(later.getUTCFullYear(), later.getUTCMonth() + 1, 0)).getUTCDate();
  later.setUTCDate(Math.min(time.getUTCDate(), days));
  return later;
}

export const monthsOf = (cycle: BillingCycle): number => (cycle === 'yearly' ? 12 : 1);

/** What test keys find before they change anything: active on growth, with a card that is good. */
export function shadowSubscription(since: Date, now: Date): Subscription {
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
