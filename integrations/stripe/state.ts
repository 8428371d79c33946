// Fetches the complete state of a Stripe customer.
import type Stripe from 'stripe';
import { hasPlan } from './items.ts';

export interface CustomerState {
  customer: Stripe.Customer;
  /** In any state, each with its schedule and payment method. */
  subscriptions: readonly Stripe.Subscription[];
  /** The newest ones. Older invoices no longer change. */
  invoices: readonly Stripe.Invoice[];
  /** The newest paid ones, each with its charge. */
  checkouts: readonly Stripe.Checkout.Session[];
  /** Disputes of wallet payments. */
  disputes: readonly Stripe.Dispute[];
  preview: Preview;
}

/** The next invoice of the relevant subscription. */
export interface Preview {
  /** null: nothing will be charged, or Stripe returned no preview. */
  invoice: Stripe.Invoice | null;
  /** The Stripe error code if there is no preview; null: there is one. */
  problem: string | null;
  /** True if a retry may succeed soon. */
  isTransient: boolean;
}

/** The maximum page size of Stripe. */
const pageSize = 100;
/** Maximum number of checkouts per fetch. Refunds of older ones are not found. */
const maxCheckouts = 1000;
/** Timeout of the preview in milliseconds. */
const previewTimeout = 5000;

/** @throws Error if the customer was deleted at Stripe */
export async function fetchState(stripe: Stripe, id: string): Promise<CustomerState> {
  const [customer, { subscriptions, preview }, invoices, { checkouts, disputes }] = await Promise.all([
    stripe.customers.retrieve(id, { expand: ['invoice_settings.default_payment_method', 'discount.source.coupon'] }),
    fetchWithPreview(stripe, id),
    stripe.invoices.list({ customer: id, limit: pageSize, expand: ['data.discounts.source.coupon'] }),
    fetchCheckouts(stripe, id),
  ]);
  if (customer.deleted) throw new Error(`the customer ${id} was deleted at Stripe`);
  const whole = await Promise.all(invoices.data.map((invoice) => fetchAllLines(stripe, invoice)));
  return { customer, subscriptions, invoices: whole, checkouts, disputes, preview };
}

async function fetchWithPreview(stripe: Stripe, customer: string) {
  const subscriptions = await fetchSubscriptions(stripe, customer);
  const live = selectLiveSubscription(subscriptions);
  return { subscriptions, preview: live ? await fetchPreview(stripe, live) : nothingToCome };
}

const nothingToCome: Preview = { invoice: null, problem: null, isTransient: false };

/** Fetches the next invoice. A failed preview does not fail the whole fetch. */
async function fetchPreview(stripe: Stripe, live: Stripe.Subscription): Promise<Preview> {
  try {
    return await fetchNextInvoice(stripe, live);
  } catch (error) {
    const { type, code } = error as Stripe.errors.StripeError;
    if (typeof type !== 'string' || !type.startsWith('Stripe')) throw error;
    return { invoice: null, problem: code ?? type, isTransient: type !== 'StripeInvalidRequestError' };
  }
}

/**
 * Fetches the next invoice of a subscription, or of its schedule.
 * @throws Error if Stripe fails or cannot preview it
 */
export async function fetchNextInvoice(stripe: Stripe, live: Stripe.Subscription): Promise<Preview> {
  const schedule = findSchedule(live);
  const subject = schedule?.status === 'active' ? { schedule: schedule.id } : { subscription: live.id };
  try {
    const invoice = await stripe.invoices.createPreview(
      { ...subject, expand: ['discounts.source.coupon'] },
      { timeout: previewTimeout, maxNetworkRetries: 0 },
    );
    return { invoice: await fetchAllLines(stripe, invoice), problem: null, isTransient: false };
  } catch (error) {
    if ((error as Stripe.errors.StripeError).code === 'invoice_upcoming_none') return nothingToCome;
    throw error;
  }
}

/** Fetches paid checkouts, and the disputes of their charges. */
async function fetchCheckouts(stripe: Stripe, customer: string) {
  const checkouts = await stripe.checkout.sessions
    .list({ customer, status: 'complete', limit: pageSize, expand: ['data.payment_intent.latest_charge'] })
    .autoPagingToArray({ limit: maxCheckouts });
  const charges = checkouts.flatMap((session) => findCharge(session) ?? []).filter(({ disputed }) => disputed);
  const disputes = await Promise.all(charges.map(({ id }) => stripe.disputes.list({ charge: id, limit: pageSize })));
  return { checkouts, disputes: disputes.flatMap(({ data }) => data) };
}

/** Returns the charge that was fetched with a checkout; undefined for a subscription. */
export function findCharge({ payment_intent: payment }: Stripe.Checkout.Session): Stripe.Charge | undefined {
  const charge = typeof payment === 'object' ? payment?.latest_charge : undefined;
  return typeof charge === 'object' ? (charge ?? undefined) : undefined;
}

/** An invoice contains only its first lines. */
export async function fetchAllLines(stripe: Stripe, invoice: Stripe.Invoice): Promise<Stripe.Invoice> {
  if (!invoice.lines.has_more) return invoice;
  const { data } = await stripe.invoices.listLineItems(invoice.id, { limit: pageSize });
  return { ...invoice, lines: { ...invoice.lines, data } };
}

export async function fetchSubscriptions(stripe: Stripe, customer: string): Promise<Stripe.Subscription[]> {
  const expand = ['data.default_payment_method', 'data.schedule', 'data.discounts.source.coupon'];
  return (await stripe.subscriptions.list({ customer, status: 'all', limit: pageSize, expand })).data;
}

const isLive = ({ status }: Stripe.Subscription): boolean =>
  ['active', 'trialing', 'past_due', 'unpaid', 'paused'].includes(status);

/**
 * Sorts by plans of the catalog, then by age. This order stays stable when other data of the
 * subscriptions change.
 */
function sortLive(subscriptions: readonly Stripe.Subscription[]): Stripe.Subscription[] {
  return subscriptions
    .filter(isLive)
    .toSorted(
      (a, b) =>
        Number(hasPlan(b.items.data)) - Number(hasPlan(a.items.data)) ||
        a.created - b.created ||
        (a.id < b.id ? -1 : 1),
    );
}

/** Returns the relevant subscription; undefined if none is live. */
export function selectLiveSubscription(subscriptions: readonly Stripe.Subscription[]): Stripe.Subscription | undefined {
  return sortLive(subscriptions)[0];
}

/** Returns the live subscriptions besides the relevant one. */
export function findDuplicateSubscriptions(subscriptions: readonly Stripe.Subscription[]): Stripe.Subscription[] {
  return sortLive(subscriptions).slice(1);
}

/** Returns the schedule that was fetched with the subscription. */
export const findSchedule = ({ schedule }: Stripe.Subscription): Stripe.SubscriptionSchedule | null =>
  typeof schedule === 'string' ? null : schedule;
