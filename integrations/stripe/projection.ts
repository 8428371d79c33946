// Computes the stored state of a Stripe customer as a pure function of the fetched state.
import type Stripe from 'stripe';
import type { BillTo, MirroredInvoice } from '../../db/billing/invoices.ts';
import type { DuplicateSubscription } from '../../db/billing/provider-customers.ts';
import type { ProviderBill } from '../../domain/billing/bills.ts';
import { endSubscription } from '../../domain/billing/life-cycle.ts';
import type { Items } from '../../domain/billing/proration.ts';
import type { PaymentMethod, Subscription } from '../../domain/billing/subscription.ts';
import { readAmounts, readBill } from './bills.ts';
import { readItemKey, readItems, readPackage } from './items.ts';
import { readScheduled } from './schedules.ts';
import {
  type CustomerState,
  findCharge,
  findDuplicateSubscriptions,
  findSchedule,
  selectLiveSubscription,
} from './state.ts';

export interface Projection {
  after: Subscription;
  invoices: MirroredInvoice[];
  /** Payments into the wallet. */
  payments: WalletPayment[];
  /** The next invoice and the prices; null without a subscription. */
  bill: ProviderBill | null;
  /** Ids of our checkouts that were paid. */
  completed: string[];
  /** Live subscriptions besides the relevant one. */
  duplicates: DuplicateSubscription[];
}

export interface WalletPayment {
  id: string;
  amountMinor: number;
  /** Credit lost to refunds and to lost disputes, in minor units. */
  refundedMinor: number;
  disputedMinor: number;
}

/**
 * @param before provides the fields that Stripe does not know: agreements, a trial, and the steps
 * after an end
 */
export function buildProjection(state: CustomerState, before: Subscription): Projection {
  const paid = state.checkouts.filter(({ payment_status }) => payment_status !== 'unpaid');
  const live = selectLiveSubscription(state.subscriptions);
  return {
    after: buildSubscription(state, before),
    // Oldest first, so that of two invoices of the same second the newer one gets the higher id.
    invoices: state.invoices
      .filter(({ status }) => status !== 'draft')
      .map(toInvoice)
      .toReversed(),
    payments: paid.filter(({ mode }) => mode === 'payment').map((session) => toPayment(session, state.disputes)),
    bill: live ? readBill(live, state.customer, state.preview) : null,
    completed: paid.flatMap(({ client_reference_id }) => client_reference_id ?? []),
    duplicates: findDuplicateSubscriptions(state.subscriptions).map(({ id, status, items, created }) => ({
      provider_id: id,
      status,
      package_code: readPackage(items.data) ?? null,
      started_at: time(created).toISOString(),
    })),
  };
}

type SubscriptionPeriod = Pick<Subscription, 'periodStart' | 'periodEnd' | 'cancelAtPeriodEnd' | 'scheduled'>;

const time = (seconds: number): Date => new Date(seconds * 1000);
const getId = (thing: string | { id: string } | null): string | undefined =>
  typeof thing === 'string' ? thing : thing?.id;

/** Amounts charged on top of the credit, such as tax, are refunded in the same proportion. */
function toPayment(session: Stripe.Checkout.Session, disputes: readonly Stripe.Dispute[]): WalletPayment {
  const { id, payment_intent, amount_subtotal } = session;
  const amountMinor = amount_subtotal ?? 0;
  const charge = findCharge(session);
  const lost = disputes
    .filter((dispute) => dispute.status === 'lost' && getId(dispute.charge) === charge?.id)
    .reduce((total, { amount }) => total + amount, 0);
  const creditFor = (charged: number): number =>
    charge ? Math.round((amountMinor * Math.min(charged, charge.amount)) / charge.amount) : 0;
  const refundedMinor = creditFor(charge?.amount_refunded ?? 0);
  const disputedMinor = Math.min(creditFor(lost), amountMinor - refundedMinor);
  return { id: getId(payment_intent) ?? id, amountMinor, refundedMinor, disputedMinor };
}

/** Returns the subscription of a customer. */
export function buildSubscription(
  { customer, subscriptions }: Pick<CustomerState, 'customer' | 'subscriptions'>,
  before: Subscription,
): Subscription {
  const creditMinor = Math.max(0, -customer.balance);
  const live = selectLiveSubscription(subscriptions);
  if (live) return { ...toSubscription(live, customer, before), creditMinor };
  const last = subscriptions
    .filter(({ status }) => status === 'canceled')
    .toSorted((a, b) => (b.ended_at ?? b.created) - (a.ended_at ?? a.created))[0];
  if (!last) return { ...before, creditMinor, paymentMethod: toCard(customer.invoice_settings.default_payment_method) };
  const endedAt = time(last.ended_at ?? last.created);
  // The steps after an end are ours: the reminder and the deletion.
  if (before.endedAt?.getTime() === endedAt.getTime()) return { ...before, creditMinor };
  return { ...endSubscription(toSubscription(last, customer, before), endedAt), creditMinor };
}

/** Converts a live subscription. It has no due date here, because Stripe renews it. */
function toSubscription(live: Stripe.Subscription, customer: Stripe.Customer, before: Subscription): Subscription {
  const terms = readTerms(live);
  const isPaid = live.status === 'active' || live.status === 'trialing';
  return {
    ...terms,
    status: isPaid ? 'active' : live.status === 'paused' ? 'paused' : 'past_due',
    pendingAddOns: pendingAddOns(live),
    trialEndsAt: null,
    endedAt: null,
    pastDueSince: isPaid || live.status === 'paused' ? null : terms.periodStart,
    chargeAttempts: 0,
    creditMinor: 0,
    paymentMethod: toCard(live.default_payment_method) ?? toCard(customer.invoice_settings.default_payment_method),
    hasAgreement: before.hasAgreement,
    agreementEndsAt: before.agreementEndsAt,
    dueAt: null,
    updatedAt: before.updatedAt,
  };
}

/** Reads the terms from which changes are computed: items, period and scheduled changes. */
export function readTerms(live: Stripe.Subscription): Items & SubscriptionPeriod {
  const { scheduled, isCanceled } = readScheduled(findSchedule(live));
  return {
    ...readItems(live.items.data, live.metadata.seats),
    cancelAtPeriodEnd: live.cancel_at_period_end || isCanceled,
    scheduled,
  };
}

/** Returns modules whose payment is not confirmed yet. */
function pendingAddOns({ items, pending_update }: Stripe.Subscription): string[] {
  const there = items.data.map(readItemKey);
  return (pending_update?.subscription_items ?? [])
    .map(readItemKey)
    .filter((key) => key.startsWith('module.') && !there.includes(key))
    .map((key) => key.slice('module.'.length));
}

function toCard(method: string | Stripe.PaymentMethod | null): PaymentMethod | null {
  const card = typeof method === 'string' ? undefined : method?.card;
  return card ? { brand: card.brand, last4: card.last4, exp_month: card.exp_month, exp_year: card.exp_year } : null;
}

function toInvoice(invoice: Stripe.Invoice): MirroredInvoice {
  const issuedAt = time(invoice.status_transitions.finalized_at ?? invoice.created);
  const periods = invoice.lines.data.map(({ period }) => period);
  return {
    providerId: invoice.id,
    number: invoice.number ?? invoice.id,
    status: toInvoiceStatus(invoice),
    kind: invoice.metadata?.kind === 'wallet_topup' ? 'wallet_topup' : 'subscription',
    currency: invoice.currency.toUpperCase(),
    ...readAmounts(invoice),
    amountPaidMinor: invoice.amount_paid,
    periodStart: time(Math.min(...periods.map(({ start }) => start), invoice.period_end)),
    periodEnd: time(Math.max(...periods.map(({ end }) => end), invoice.period_start)),
    issuedAt,
    dueAt: invoice.status === 'open' ? (invoice.due_date === null ? issuedAt : time(invoice.due_date)) : null,
    paidAt: invoice.status_transitions.paid_at === null ? null : time(invoice.status_transitions.paid_at),
    hostedUrl: invoice.hosted_invoice_url ?? null,
    pdfUrl: invoice.invoice_pdf ?? null,
    billTo: readBillTo(invoice),
  };
}

/** Reads the customer from an invoice, which does not change when the customer does later. */
function readBillTo({ customer_name, customer_address: address, customer_tax_ids }: Stripe.Invoice): BillTo {
  return {
    name: customer_name ?? null,
    address: address && {
      line1: address.line1,
      line2: address.line2,
      city: address.city,
      state: address.state,
      postal_code: address.postal_code,
      country: address.country,
    },
    tax_ids: (customer_tax_ids ?? []).flatMap(({ type, value }) => (value === null ? [] : [{ type, value }])),
  };
}

const closed = ['paid', 'void', 'uncollectible'] as const;

function toInvoiceStatus({ status }: Stripe.Invoice): MirroredInvoice['status'] {
  return closed.find((each) => each === status) ?? 'open';
}
