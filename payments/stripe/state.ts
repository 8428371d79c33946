// All that Stripe has of a customer, fetched anew for each look.
import type Stripe from 'stripe';

export interface CustomerState {
  customer: Stripe.Customer;
  /** In any state, each with its schedule and its payment method. */
  subscriptions: readonly Stripe.Subscription[];
  /** The newest; those before them are as they were. */
  invoices: readonly Stripe.Invoice[];
  /** Those that were paid, the newest. */
  checkouts: readonly Stripe.Checkout.Session[];
}

/** As many as one answer holds. */
const most = 100;

/** @throws Error where the customer was removed at Stripe */
export async function fetchState(stripe: Stripe, id: string): Promise<CustomerState> {
  const [customer, subscriptions, invoices, checkouts] = await Promise.all([
    stripe.customers.retrieve(id, { expand: ['invoice_settings.default_payment_method'] }),
    fetchSubscriptions(stripe, id),
    stripe.invoices.list({ customer: id, limit: most }),
    stripe.checkout.sessions.list({ customer: id, status: 'complete', limit: most }),
  ]);
  if (customer.deleted) throw new Error(`the customer ${id} was removed at Stripe`);
  const whole = await Promise.all(invoices.data.map((invoice) => withAllLines(stripe, invoice)));
  return { customer, subscriptions, invoices: whole, checkouts: checkouts.data };
}

/** An invoice comes with its first lines only. */
async function withAllLines(stripe: Stripe, invoice: Stripe.Invoice): Promise<Stripe.Invoice> {
  if (!invoice.lines.has_more) return invoice;
  const { data } = await stripe.invoices.listLineItems(invoice.id, { limit: most });
  return { ...invoice, lines: { ...invoice.lines, data } };
}

export async function fetchSubscriptions(stripe: Stripe, customer: string): Promise<Stripe.Subscription[]> {
  const expand = ['data.default_payment_method', 'data.schedule'];
  return (await stripe.subscriptions.list({ customer, status: 'all', limit: most, expand })).data;
}

const isLive = ({ status }: Stripe.Subscription): boolean =>
  ['active', 'trialing', 'past_due', 'unpaid', 'paused'].includes(status);

/** The subscription that counts: of several, the oldest; undefined where none is alive. */
export function liveSubscription(subscriptions: readonly Stripe.Subscription[]): Stripe.Subscription | undefined {
  return subscriptions.filter(isLive).toSorted((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))[0];
}

/** The schedule of a subscription, which was fetched with it. */
export const scheduleOf = ({ schedule }: Stripe.Subscription): Stripe.SubscriptionSchedule | null =>
  typeof schedule === 'string' ? null : schedule;
