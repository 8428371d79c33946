// The state of the Stripe simulation, by Stripe's rules as far as this project relies on them.
import { randomBytes } from 'node:crypto';
import type Stripe from 'stripe';
import { addMonths } from '../../../domain/billing/subscription.ts';
import {
  type ItemTerms,
  itemTermsFromSubscription,
  itemTermsInPhase,
  type PhaseItemTerms,
  type PhaseTerms,
  plainTerms,
  type SubscriptionTerms,
  termsFromSubscription,
  termsInPhase,
} from './phase-terms.ts';
import { Refused } from './refused.ts';
import { type Adjusted, adjust, type Terms } from './terms.ts';

type Metadata = Record<string, string>;
type Card = Pick<Stripe.PaymentMethod.Card, 'brand' | 'last4' | 'exp_month' | 'exp_year'>;
export type Method = Pick<Stripe.PaymentMethod, 'id' | 'object'> & { card: Card };
export type Customer = Pick<Stripe.Customer, 'id' | 'object' | 'balance' | 'created'> & {
  metadata: Metadata;
  invoice_settings: { default_payment_method: Method | null };
  name?: string;
  address?: Stripe.Address;
  tax_ids?: { type: string; value: string }[];
};
export type Price = Pick<
  Stripe.Price,
  'id' | 'object' | 'active' | 'currency' | 'unit_amount' | 'lookup_key' | 'created'
> & { metadata: Metadata; nickname: string; product: string; recurring: { interval: string } };
export type Item = Pick<Stripe.SubscriptionItem, 'id' | 'current_period_start' | 'current_period_end'> & {
  price: Price;
  quantity: number;
} & ItemTerms;
export interface Phase extends PhaseTerms {
  start_date: number;
  end_date: number;
  items: ({ price: Price; quantity: number } & PhaseItemTerms)[];
  metadata: Metadata;
}
export type Schedule = Pick<
  Stripe.SubscriptionSchedule,
  'id' | 'object' | 'status' | 'end_behavior' | 'current_phase'
> & {
  metadata: Metadata;
  phases: Phase[];
  subscription: string | null;
  customer: string;
  released_subscription: string | null;
  released_at: number | null;
};
export type Subscription = Pick<
  Stripe.Subscription,
  'id' | 'object' | 'status' | 'created' | 'start_date' | 'ended_at' | 'currency' | 'cancel_at_period_end'
> & {
  customer: string;
  metadata: Metadata;
  items: { data: Item[] };
  schedule: Schedule | null;
  default_payment_method: Method | null;
  pending_update: { expires_at: number; subscription_items: Item[] } | null;
  latest_invoice: string | null;
} & SubscriptionTerms;
export type Line = Pick<Stripe.InvoiceLineItem, 'id' | 'object' | 'amount' | 'description' | 'quantity' | 'period'> & {
  pricing: { type: 'price_details'; unit_amount_decimal: string; price_details: { price: string; product: string } };
  parent: { subscription_item_details: { proration: boolean } };
};
export type Invoice = Pick<
  Stripe.Invoice,
  'id' | 'object' | 'number' | 'status' | 'currency' | 'created' | 'total' | 'amount_due' | 'amount_paid'
> &
  Pick<Stripe.Invoice, 'period_start' | 'period_end' | 'due_date' | 'hosted_invoice_url' | 'invoice_pdf'> &
  Adjusted & {
    customer: string;
    customer_name: string | null;
    customer_address: Stripe.Address | null;
    customer_tax_ids: { type: string; value: string }[];
    subscription: string | null;
    metadata: Metadata;
    lines: { data: Line[]; has_more: boolean };
    status_transitions: { finalized_at: number; paid_at: number | null };
    payments: { data: { payment: { payment_intent: { id: string; status: string } } }[] };
  };
export type Session = Pick<
  Stripe.Checkout.Session,
  'id' | 'object' | 'mode' | 'status' | 'payment_status' | 'client_reference_id' | 'url' | 'expires_at' | 'created'
> &
  Pick<Stripe.Checkout.Session, 'success_url' | 'cancel_url' | 'amount_subtotal'> & {
    customer: string;
    payment_intent: string | null;
    automatic_tax: { enabled: boolean };
    tax_id_collection: { enabled: boolean };
    /** The items to pay for. */
    items: { price: Price; quantity: number }[];
    details: Metadata;
  };
export type Configuration = Pick<Stripe.BillingPortal.Configuration, 'id' | 'object' | 'active'> & {
  metadata: Metadata;
  features: unknown;
};

export interface TopUpCharge {
  id: string;
  customer: string;
  amount: number;
  amount_refunded: number;
  disputed: boolean;
  /** The dispute, if there is one. */
  dispute: { id: string; charge: string; payment_intent: string; amount: number; status: string } | null;
}

export type BooksCopy = Pick<Books, 'customers' | 'prices' | 'subscriptions' | 'schedules' | 'invoices' | 'sessions'>;

/**
 * The outcome of a charge. Cards that end in 0002 are declined, and those that end in 3220 require
 * authentication.
 */
export type Ending = 'paid' | 'declined' | 'wants_person';

const id = (prefix: string): string => `${prefix}_${randomBytes(9).toString('hex')}`;
export const seconds = (): number => Math.floor(Date.now() / 1000);
const months = (interval: string): number => (interval === 'year' ? 12 : 1);
const later = (time: number, interval: string): number =>
  addMonths(new Date(time * 1000), months(interval)).getTime() / 1000;

export class Books {
  readonly customers = new Map<string, Customer>();
  readonly prices = new Map<string, Price>();
  readonly subscriptions = new Map<string, Subscription>();
  readonly schedules = new Map<string, Schedule>();
  readonly invoices = new Map<string, Invoice>();
  readonly sessions = new Map<string, Session>();
  readonly configurations = new Map<string, Configuration>();
  readonly portals = new Map<string, string>();
  /** Coupons and tax rates, by customer. */
  readonly terms = new Map<string, Terms>();
  /** Wallet top-ups, by payment. */
  readonly topUps = new Map<string, TopUpCharge>();
  readonly taxRates = new Set<string>();
  /** The status of the account's tax settings. */
  taxStatus: 'active' | 'pending' = 'pending';
  /** The percentage of tax on subscriptions with automatic tax. */
  automaticTax = 19;
  /** Successful charges, in minor units. */
  readonly charges: { customer: string; amount: number }[] = [];
  readonly #emit: (type: string, object: object) => void;

  /** @param emit called with every event */
  constructor(emit: (type: string, object: object) => void) {
    this.#emit = emit;
  }

  newCustomer(metadata: Metadata): Customer {
    const invoice_settings = { default_payment_method: null };
    const customer = {
      id: id('cus'),
      object: 'customer',
      balance: 0,
      created: seconds(),
      metadata,
      invoice_settings,
    } as const;
    this.customers.set(customer.id, { ...customer });
    return this.customer(customer.id);
  }

  customer(customerId: string): Customer {
    return required(this.customers.get(customerId), customerId);
  }

  newPrice(price: Omit<Price, 'id' | 'object' | 'active' | 'created' | 'product'>): Price {
    // A lookup key moves to the newest price.
    for (const other of this.prices.values()) if (other.lookup_key === price.lookup_key) other.lookup_key = null;
    const made = this.inlinePrice({ ...price, product: id('prod') });
    this.prices.set(made.id, made);
    return made;
  }

  /** Returns a price that only exists in its invoice or preview. */
  inlinePrice(price: Omit<Price, 'id' | 'object' | 'active' | 'created'>): Price {
    return { ...price, id: id('price'), object: 'price', active: true, created: seconds() };
  }

  price(priceId: string): Price {
    return required(this.prices.get(priceId), priceId);
  }

  newMethod(number: string): Method {
    const card = { brand: 'visa', last4: number.replaceAll(' ', '').slice(-4), exp_month: 12, exp_year: 2039 };
    return { id: id('pm'), object: 'payment_method', card };
  }

  /** Stores a card for all later charges. */
  putOnFile(customerId: string, number: string): void {
    const method = this.newMethod(number);
    this.customer(customerId).invoice_settings.default_payment_method = method;
    for (const each of this.subscriptions.values())
      if (each.customer === customerId && each.default_payment_method) each.default_payment_method = method;
    this.#emit('customer.updated', this.customer(customerId));
  }

  /** Returns the outcome of charging an amount to a card, by default the stored one. */
  decideEnding(customerId: string, amount: number, method = this.#findMethod(customerId)): Ending {
    if (amount === 0) return 'paid';
    if (!method || method.card.last4 === '0002') return 'declined';
    return method.card.last4 === '3220' ? 'wants_person' : 'paid';
  }

  #findMethod(customerId: string): Method | null {
    const own = [...this.subscriptions.values()].find(
      (each) => each.customer === customerId && each.status !== 'canceled',
    );
    return own?.default_payment_method ?? this.customer(customerId).invoice_settings.default_payment_method;
  }

  /** Returns the sum of lines with discounts and taxes, minus the credit of the customer. */
  computeDue(
    customerId: string,
    lines: readonly Line[],
    isSubscription = true,
  ): Adjusted & { due: number; balance: number } {
    const adjusted = adjust(lines, isSubscription ? this.findTerms(customerId) : {});
    const rest = adjusted.total + this.customer(customerId).balance;
    return { ...adjusted, due: Math.max(0, rest), balance: Math.min(0, rest) };
  }

  /** Returns the coupon and the tax of a customer's subscription. */
  findTerms(customerId: string, isTaxed = this.#isTaxed(customerId)): Terms {
    const tax = isTaxed ? { tax: { percentage: this.automaticTax, inclusive: false } } : {};
    return { ...tax, ...this.terms.get(customerId) };
  }

  #isTaxed(customerId: string): boolean {
    const own = [...this.subscriptions.values()].filter(
      ({ customer, status }) => customer === customerId && status !== 'canceled',
    );
    return own.some(({ automatic_tax }) => automatic_tax.enabled && this.taxStatus === 'active');
  }

  /** Gives the subscription of a customer a coupon, a tax rate, both or neither. */
  setTerms(customerId: string, terms: Terms): void {
    this.terms.set(customerId, terms);
    const subscription = [...this.subscriptions.values()].find(({ customer }) => customer === customerId);
    if (subscription) this.#emit('customer.subscription.updated', subscription);
  }

  /**
   * Refunds a top-up in whole or in part, as support does.
   * @param amount refunded in total, in minor units
   */
  refundTopUp(payment: string, amount: number): void {
    const charge = required(this.topUps.get(payment), payment);
    charge.amount_refunded = amount;
    const object = { object: 'charge', id: charge.id, customer: charge.customer, payment_intent: payment };
    this.#emit('charge.refunded', object);
  }

  /** Disputes a top-up, as a bank does. The event names the charge, not the customer. */
  disputeTopUp(payment: string, status: string, amount?: number): void {
    const charge = required(this.topUps.get(payment), payment);
    const known = charge.dispute ?? { id: id('dp'), charge: charge.id, payment_intent: payment };
    charge.dispute = { ...known, amount: amount ?? charge.amount, status };
    charge.disputed = true;
    const type = status === 'lost' || status === 'won' ? 'charge.dispute.closed' : 'charge.dispute.created';
    this.#emit(type, { object: 'dispute', ...charge.dispute });
  }

  /** Creates an invoice, and charges it if that succeeds. */
  invoice(
    customerId: string,
    subscription: Subscription | null,
    lines: Line[],
    ending: Ending,
    metadata: Metadata = {},
  ): Invoice {
    const { due, balance, ...adjusted } = this.computeDue(customerId, lines, subscription !== null);
    const isPaid = ending === 'paid';
    const invoiceId = id('in');
    const intent = { declined: 'requires_payment_method', wants_person: 'requires_action', paid: 'succeeded' }[ending];
    const count = [...this.invoices.values()].filter(({ customer }) => customer === customerId).length;
    const invoice: Invoice = {
      id: invoiceId,
      object: 'invoice',
      number: `INV-${String(count + 1).padStart(6, '0')}`,
      status: isPaid ? 'paid' : 'open',
      currency: 'usd',
      created: seconds(),
      customer: customerId,
      customer_name: this.customer(customerId).name ?? null,
      customer_address: this.customer(customerId).address ?? null,
      customer_tax_ids: this.customer(customerId).tax_ids ?? [],
      subscription: subscription?.id ?? null,
      metadata,
      ...adjusted,
      amount_due: due,
      amount_paid: isPaid ? due : 0,
      lines: { data: lines, has_more: false },
      period_start: seconds(),
      period_end: seconds(),
      due_date: null,
      hosted_invoice_url: `https://invoice.stripe.example/${invoiceId}`,
      invoice_pdf: `https://invoice.stripe.example/${invoiceId}/pdf`,
      status_transitions: { finalized_at: seconds(), paid_at: isPaid ? seconds() : null },
      payments: { data: [{ payment: { payment_intent: { id: id('pi'), status: intent } } }] },
    };
    if (isPaid && due > 0) this.charges.push({ customer: customerId, amount: due });
    this.customer(customerId).balance = balance;
    this.invoices.set(invoice.id, invoice);
    if (subscription) subscription.latest_invoice = invoice.id;
    this.#emit(isPaid ? 'invoice.paid' : 'invoice.payment_failed', invoice);
    return invoice;
  }

  /** Marks an open invoice as paid or authenticated, and applies the change that waited for it. */
  settleInvoice(invoiceId: string): void {
    const invoice = required(this.invoices.get(invoiceId), invoiceId);
    this.charges.push({ customer: invoice.customer, amount: invoice.amount_due });
    invoice.status = 'paid';
    invoice.amount_paid = invoice.amount_due;
    invoice.status_transitions.paid_at = seconds();
    this.#emit('invoice.paid', invoice);
    const subscription = invoice.subscription ? this.subscriptions.get(invoice.subscription) : undefined;
    if (!subscription) return;
    if (subscription.pending_update) {
      subscription.items.data = subscription.pending_update.subscription_items;
      subscription.pending_update = null;
      this.#emit('customer.subscription.pending_update_applied', subscription);
    }
    if (subscription.status === 'past_due') subscription.status = 'active';
    this.#emit('customer.subscription.updated', subscription);
  }

  /** Voids an invoice, and drops the change that waited for it. */
  voidInvoice(invoiceId: string): Invoice {
    const invoice = required(this.invoices.get(invoiceId), invoiceId);
    invoice.status = 'void';
    const subscription = invoice.subscription ? this.subscriptions.get(invoice.subscription) : undefined;
    if (subscription?.latest_invoice === invoiceId && subscription.pending_update) {
      subscription.pending_update = null;
      this.#emit('customer.subscription.pending_update_expired', subscription);
    }
    this.#emit('invoice.voided', invoice);
    return invoice;
  }

  newItem(price: Price, quantity: number, start: number, end: number): Item {
    return { id: id('si'), price, quantity, current_period_start: start, current_period_end: end };
  }

  line(item: Item, description: string, amount: number, start: number, proration: boolean): Line {
    return {
      id: id('il'),
      object: 'line_item',
      amount,
      description: `${description}${item.price.nickname}`,
      quantity: item.quantity,
      period: { start, end: item.current_period_end },
      pricing: {
        type: 'price_details',
        unit_amount_decimal: String(item.price.unit_amount),
        price_details: { price: item.price.id, product: item.price.product },
      },
      parent: { subscription_item_details: { proration } },
    };
  }

  /** Returns the lines of a whole period. */
  periodLines(items: readonly Item[]): Line[] {
    return items.map((item) =>
      this.line(item, '', (item.price.unit_amount ?? 0) * item.quantity, item.current_period_start, false),
    );
  }

  /** Returns the lines of a change in the middle of a period, prorated by the second. */
  prorationLines(before: readonly Item[], after: readonly Item[], date: number): Line[] {
    const itemKey = ({ price, quantity }: Item): string => `${price.id} ${quantity}`;
    const old = before.filter((item) => !after.some((other) => itemKey(other) === itemKey(item)));
    const fresh = after.filter((item) => !before.some((other) => itemKey(other) === itemKey(item)));
    const line = (item: Item, description: string, sign: number): Line => {
      const { current_period_start: start, current_period_end: end } = item;
      const amount = Math.round(((item.price.unit_amount ?? 0) * item.quantity * (end - date)) / (end - start));
      return this.line(item, description, sign * amount, date, true);
    };
    const isWhole = (item: Item): boolean => item.current_period_start >= date;
    return [
      ...old.map((item) => line(item, 'Unused time of ', -1)),
      ...fresh.map((item) =>
        isWhole(item) ? (this.periodLines([item])[0] as Line) : line(item, 'Remaining time of ', 1),
      ),
    ];
  }

  /** Creates a subscription after its first payment. */
  newSubscription(session: Session, method: Method): Subscription {
    const start = seconds();
    const interval = session.items[0]?.price.recurring.interval ?? 'month';
    const end = later(start, interval);
    const items = session.items.map(({ price, quantity }) => this.newItem(price, quantity, start, end));
    const subscription: Subscription = {
      id: id('sub'),
      object: 'subscription',
      status: 'active',
      created: start,
      start_date: start,
      ended_at: null,
      currency: 'usd',
      cancel_at_period_end: false,
      customer: session.customer,
      metadata: session.details,
      items: { data: items },
      schedule: null,
      default_payment_method: method,
      pending_update: null,
      latest_invoice: null,
      ...plainTerms(),
      automatic_tax: { enabled: session.automatic_tax.enabled, liability: null },
    };
    this.subscriptions.set(subscription.id, subscription);
    this.invoice(session.customer, subscription, this.periodLines(items), 'paid');
    this.#emit('customer.subscription.created', subscription);
    return subscription;
  }

  /** Applies everything that is due. */
  passTime(): void {
    for (const subscription of this.subscriptions.values()) {
      const { pending_update } = subscription;
      if (pending_update && pending_update.expires_at <= seconds()) this.voidInvoice(subscription.latest_invoice ?? '');
      if (subscription.status === 'past_due') this.#tryAgain(subscription);
      while (isAlive(subscription) && periodEnd(subscription) <= seconds()) this.#renew(subscription);
    }
  }

  #tryAgain(subscription: Subscription): void {
    const open = [...this.invoices.values()].find(
      (each) => each.subscription === subscription.id && each.status === 'open',
    );
    if (!open) return;
    if (this.decideEnding(subscription.customer, open.amount_due) === 'paid') this.settleInvoice(open.id);
  }

  #renew(subscription: Subscription): void {
    const start = periodEnd(subscription);
    const { schedule } = subscription;
    if (subscription.cancel_at_period_end || (schedule?.status === 'active' && schedule.end_behavior === 'cancel')) {
      subscription.status = 'canceled';
      subscription.ended_at = start;
      this.#emit('customer.subscription.deleted', subscription);
      return;
    }
    const phase = schedule?.status === 'active' ? schedule.phases.find((each) => each.start_date === start) : undefined;
    if (schedule?.status === 'active') this.#turn(schedule, phase);
    const next = phase ? this.#itemsOfPhase(phase) : subscription.items.data;
    if (phase) {
      subscription.metadata = { ...subscription.metadata, ...phase.metadata };
      Object.assign(subscription, termsInPhase(phase));
    }
    const end = later(start, next[0]?.price.recurring.interval ?? 'month');
    const items = next.map(({ price, quantity, discounts, tax_rates, metadata }) => ({
      ...this.newItem(price, quantity, start, end),
      discounts,
      tax_rates,
      metadata,
    }));
    subscription.items.data = items;
    const lines = this.periodLines(items);
    const ending = this.decideEnding(subscription.customer, this.computeDue(subscription.customer, lines).due);
    subscription.status = ending === 'paid' ? 'active' : 'past_due';
    this.invoice(subscription.customer, subscription, lines, ending);
    this.#emit('customer.subscription.updated', subscription);
  }

  #itemsOfPhase({ items }: Phase): ({ price: Price; quantity: number } & ReturnType<typeof itemTermsInPhase>)[] {
    return items.map(({ price, quantity, ...terms }) => ({
      price,
      quantity,
      ...itemTermsInPhase(terms),
    }));
  }

  /** Continues with a phase. After the last one, the schedule releases the subscription. */
  #turn(schedule: Schedule, phase: Phase | undefined): void {
    if (phase) schedule.current_phase = { start_date: phase.start_date, end_date: phase.end_date };
    else this.release(schedule.id);
    this.#emit('subscription_schedule.updated', schedule);
  }

  /** Moves a customer to another plan without a charge, as support does. The price must exist. */
  switchPlan(customerId: string, packageCode: string): void {
    const subscription = [...this.subscriptions.values()].find((each) => each.customer === customerId && isAlive(each));
    const own = required(subscription, customerId);
    const price = [...this.prices.values()].find(({ metadata }) => metadata.item === `plan.${packageCode}`);
    const plan = own.items.data.find((item) => item.price.metadata.item?.startsWith('plan.'));
    Object.assign(required(plan, own.id), { price: required(price, packageCode) });
    this.#emit('customer.subscription.updated', own);
  }

  newSchedule(subscriptionId: string): Schedule {
    const subscription = required(this.subscriptions.get(subscriptionId), subscriptionId);
    if (subscription.schedule?.status === 'active') throw new Refused('the subscription has a schedule');
    const [start_date, end_date] = [subscription.items.data[0]?.current_period_start ?? 0, periodEnd(subscription)];
    const schedule: Schedule = {
      id: id('sub_sched'),
      object: 'subscription_schedule',
      status: 'active',
      end_behavior: 'release',
      current_phase: { start_date, end_date },
      metadata: {},
      phases: [
        {
          start_date,
          end_date,
          metadata: {},
          ...termsFromSubscription(subscription),
          items: subscription.items.data.map((item) => ({
            price: item.price,
            quantity: item.quantity,
            ...itemTermsFromSubscription(item),
          })),
        },
      ],
      released_subscription: null,
      released_at: null,
      subscription: subscription.id,
      customer: subscription.customer,
    };
    this.schedules.set(schedule.id, schedule);
    subscription.schedule = schedule;
    return schedule;
  }

  release(scheduleId: string): Schedule {
    const schedule = required(this.schedules.get(scheduleId), scheduleId);
    if (schedule.status !== 'active') throw new Refused('the schedule is not active');
    schedule.status = 'released';
    const subscription = this.subscriptions.get(schedule.subscription ?? '');
    if (subscription) subscription.schedule = null;
    Object.assign(schedule, {
      subscription: null,
      released_subscription: schedule.subscription,
      released_at: seconds(),
    });
    this.#emit('subscription_schedule.released', schedule);
    return schedule;
  }

  /** Shifts everything into the past by whole days. */
  age(days: number): void {
    const by = Math.round(days * 86_400);
    const back = (thing: unknown): void => {
      if (typeof thing !== 'object' || thing === null || seen.has(thing)) return;
      seen.add(thing);
      for (const [name, value] of Object.entries(thing)) {
        if (typeof value === 'number' && times.has(name)) (thing as Record<string, number>)[name] = value - by;
        else back(value);
      }
    };
    const seen = new Set<object>();
    for (const all of [this.customers, this.prices, this.subscriptions, this.schedules, this.invoices, this.sessions])
      for (const thing of all.values()) back(thing);
  }

  /** Copies the whole state. */
  copy(): BooksCopy {
    const { customers, prices, subscriptions, schedules, invoices, sessions } = this;
    return structuredClone({ customers, prices, subscriptions, schedules, invoices, sessions });
  }

  /** Restores a copied state. */
  restore(copy: BooksCopy): void {
    const again = structuredClone(copy);
    for (const name of Object.keys(again) as (keyof BooksCopy)[]) {
      this[name].clear();
      for (const [key, thing] of again[name]) (this[name] as Map<string, unknown>).set(key, thing);
    }
  }

  emit(type: string, object: object): void {
    this.#emit(type, object);
  }
}

/** Names of fields with times. */
const times = new Set([
  'created',
  'start_date',
  'end_date',
  'ended_at',
  'current_period_start',
  'current_period_end',
  'expires_at',
  'finalized_at',
  'paid_at',
  'period_start',
  'period_end',
  'start',
  'end',
  'released_at',
  'trial_end',
]);

export { Refused };

export function required<Thing>(thing: Thing | undefined, name: string): Thing {
  if (thing === undefined) throw new Refused(`No such thing: ${name}`, 'resource_missing');
  return thing;
}

export const isAlive = ({ status }: Subscription): boolean => status === 'active' || status === 'past_due';
export const periodEnd = ({ items }: Subscription): number => items.data[0]?.current_period_end ?? 0;
export const nextEnd = later;
