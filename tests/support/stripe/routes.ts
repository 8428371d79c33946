// Operations of the Stripe simulation, by method and path.
import { randomBytes } from 'node:crypto';
import {
  type Books,
  type Configuration,
  type Item,
  isAlive,
  nextEnd,
  type Phase,
  type Price,
  periodEnd,
  Refused,
  required,
  type Schedule,
  type Session,
  type Subscription,
  seconds,
} from './books.ts';
import { type Form, mergeMetadata, readList, readText, readTexts } from './form.ts';
import { itemTermsInPhase, readItemTerms, readPhaseTerms, termsInPhase } from './phase-terms.ts';
import { previewInvoice } from './preview.ts';
import { buildDiscounts, grantedDiscount } from './terms.ts';

/** A card that was declined, or that requires authentication. */
export class CardRefused extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

interface Route {
  of: RegExp;
  answer(books: Books, form: Form, id: string, base: string): unknown;
}

const newest = <Thing extends { created: number }>(things: Iterable<Thing>): Thing[] =>
  [...things].toReversed().toSorted((a, b) => b.created - a.created);
const list = (data: readonly unknown[]) => ({ object: 'list', data, has_more: false, url: '/' });
/** Returns the first ten items, as in lists within a response. */
const toFirstPage = (all: readonly unknown[]) => ({ ...list(all.slice(0, 10)), has_more: all.length > 10 });
const buildPathPattern = (method: string, path: string): RegExp =>
  new RegExp(`^${method} /v1/${path.replace('{id}', '(?<id>\\w+)')}$`);

export const routes: readonly Route[] = [
  {
    of: buildPathPattern('POST', 'customers'),
    answer: (books, form) => books.newCustomer(mergeMetadata({}, form.metadata)),
  },
  { of: buildPathPattern('GET', 'customers/{id}'), answer: (books, _form, id) => books.customer(id) },
  {
    of: buildPathPattern('GET', 'prices'),
    answer: (books, form) => {
      const keys = readTexts(form.lookup_keys);
      return list(
        [...books.prices.values()].filter(({ lookup_key }) => lookup_key !== null && keys.includes(lookup_key)),
      );
    },
  },
  {
    of: buildPathPattern('GET', 'tax/settings'),
    answer: (books) => ({ object: 'tax.settings', livemode: false, status: books.taxStatus }),
  },
  { of: buildPathPattern('POST', 'prices'), answer: (books, form) => newPrice(books, form) },
  {
    of: buildPathPattern('GET', 'subscriptions'),
    answer: (books, form) =>
      list(
        newest(books.subscriptions.values())
          .filter(({ customer }) => customer === readText(form.customer))
          .map((each) => ({ ...each, discounts: allDiscounts(books, each) })),
      ),
  },
  { of: buildPathPattern('POST', 'subscriptions/{id}'), answer: updateSubscription },
  {
    of: buildPathPattern('POST', 'subscription_schedules'),
    answer: (books, form) => books.newSchedule(readText(form.from_subscription)),
  },
  {
    of: buildPathPattern('GET', 'subscription_schedules'),
    answer: (books, form) =>
      list([...books.schedules.values()].toReversed().filter(({ customer }) => customer === readText(form.customer))),
  },
  { of: buildPathPattern('POST', 'subscription_schedules/{id}'), answer: updateSchedule },
  {
    of: buildPathPattern('POST', 'subscription_schedules/{id}/release'),
    answer: (books, _form, id) => books.release(id),
  },
  {
    of: buildPathPattern('GET', 'invoices'),
    answer: (books, form) =>
      list(
        newest(books.invoices.values())
          .filter(({ customer }) => customer === readText(form.customer))
          .map((invoice) => ({ ...invoice, lines: toFirstPage(invoice.lines.data) })),
      ),
  },
  {
    of: buildPathPattern('POST', 'invoices/create_preview'),
    answer: (books, form) => previewInvoice(books, form, { changeItems: changedItems, readPhases }),
  },
  {
    of: buildPathPattern('GET', 'invoices/{id}/lines'),
    answer: (books, _form, id) => list(required(books.invoices.get(id), id).lines.data),
  },
  { of: buildPathPattern('GET', 'invoices/{id}'), answer: (books, _form, id) => required(books.invoices.get(id), id) },
  { of: buildPathPattern('POST', 'invoices/{id}/void'), answer: (books, _form, id) => books.voidInvoice(id) },
  { of: buildPathPattern('POST', 'checkout/sessions'), answer: newSession },
  {
    of: buildPathPattern('GET', 'checkout/sessions'),
    answer: (books, form) =>
      list(
        newest(books.sessions.values())
          .filter(({ customer, status }) => customer === readText(form.customer) && status === readText(form.status))
          .map((session) => withCharge(books, session, readTexts(form.expand))),
      ),
  },
  {
    of: buildPathPattern('GET', 'charges/{id}'),
    answer: (books, _form, id) =>
      required(
        [...books.topUps.values()].find((charge) => charge.id === id),
        id,
      ),
  },
  {
    of: buildPathPattern('GET', 'disputes'),
    answer: (books, form) =>
      list([...books.topUps.values()].flatMap(({ id, dispute }) => (id === form.charge && dispute ? [dispute] : []))),
  },
  {
    of: buildPathPattern('POST', 'checkout/sessions/{id}/expire'),
    answer: (books, _form, id) => {
      const session = required(books.sessions.get(id), id);
      session.status = 'expired';
      books.emit('checkout.session.expired', session);
      return session;
    },
  },
  {
    of: buildPathPattern('GET', 'billing_portal/configurations'),
    answer: (books) => list([...books.configurations.values()]),
  },
  {
    of: buildPathPattern('POST', 'billing_portal/configurations'),
    answer: (books, form) => {
      const metadata = mergeMetadata({}, form.metadata);
      const id = `bpc_${randomBytes(9).toString('hex')}`;
      const made: Configuration = {
        id,
        object: 'billing_portal.configuration',
        active: true,
        metadata,
        features: form.features,
      };
      books.configurations.set(id, made);
      return made;
    },
  },
  {
    of: buildPathPattern('POST', 'billing_portal/sessions'),
    answer: (books, form, _id, base) => {
      const id = `bps_${randomBytes(9).toString('hex')}`;
      required(books.configurations.get(readText(form.configuration)), readText(form.configuration));
      books.portals.set(id, books.customer(readText(form.customer)).id);
      return { id, object: 'billing_portal.session', url: `${base}/portal/${id}` };
    },
  },
];

function newPrice(books: Books, form: Form) {
  const recurring = typeof form.recurring === 'object' ? readText(form.recurring.interval) : '';
  const product = form.product_data as Form;
  return books.newPrice({
    currency: readText(form.currency),
    unit_amount: Number(form.unit_amount),
    lookup_key: readText(form.lookup_key) || null,
    metadata: mergeMetadata({}, form.metadata),
    nickname: readText(product.name),
    recurring: { interval: recurring },
  });
}

function newSession(books: Books, form: Form, _id: string, base: string): Session {
  const id = `cs_test_${randomBytes(9).toString('hex')}`;
  const mode = readText(form.mode) as 'payment' | 'subscription';
  const items = readList(form.line_items).map((item) => ({
    price: typeof item.price_data === 'object' ? newPrice(books, item.price_data) : books.price(readText(item.price)),
    quantity: Number(item.quantity),
  }));
  const details = mode === 'subscription' ? (form.subscription_data as Form) : invoiceData(form);
  const expiresAt = Number(form.expires_at);
  if (expiresAt > seconds() + 86_400 || expiresAt < seconds() + 1800) throw new Refused('expires_at is out of bounds');
  const session: Session = {
    id,
    object: 'checkout.session',
    mode,
    status: 'open',
    payment_status: 'unpaid',
    client_reference_id: readText(form.client_reference_id),
    url: `${base}/pay/${id}`,
    expires_at: expiresAt,
    created: seconds(),
    success_url: readText(form.success_url),
    cancel_url: readText(form.cancel_url),
    amount_subtotal: items.reduce((sum, { price, quantity }) => sum + (price.unit_amount ?? 0) * quantity, 0),
    customer: books.customer(readText(form.customer)).id,
    payment_intent: null,
    automatic_tax: { enabled: isEnabled(form.automatic_tax) },
    tax_id_collection: { enabled: isEnabled(form.tax_id_collection) },
    items,
    details: mergeMetadata({}, details.metadata),
  };
  if (session.automatic_tax.enabled && books.taxStatus !== 'active')
    throw new Refused('set up the tax settings before you enable automatic tax');
  if (session.tax_id_collection.enabled && (form.customer_update as Form | undefined)?.name !== 'auto')
    throw new Refused('tax_id_collection requires customer_update[name] for an existing customer');
  books.sessions.set(id, session);
  return session;
}

const isEnabled = (sent: Form[string] | undefined): boolean =>
  typeof sent === 'object' && readText(sent.enabled) === 'true';

/** Returns the payment of a session, with its charge if the request expands it. */
function withCharge(books: Books, session: Session, expand: readonly string[]): object {
  const charge = session.payment_intent === null ? undefined : books.topUps.get(session.payment_intent);
  if (!charge || !expand.includes('data.payment_intent.latest_charge')) return session;
  return {
    ...session,
    payment_intent: { id: session.payment_intent, object: 'payment_intent', latest_charge: charge },
  };
}

const invoiceData = (form: Form): Form => ((form.invoice_creation as Form).invoice_data ?? {}) as Form;

function updateSubscription(books: Books, form: Form, id: string): Subscription {
  const subscription = required(books.subscriptions.get(id), id);
  if (!isAlive(subscription)) throw new Refused('the subscription has ended');
  const scheduled = subscription.schedule?.status === 'active';
  if (form.cancel_at_period_end !== undefined) {
    if (scheduled) throw new Refused('a schedule manages the subscription');
    subscription.cancel_at_period_end = form.cancel_at_period_end === 'true';
  }
  if (form.items !== undefined) {
    if (scheduled) throw new Refused('a schedule manages the subscription');
    changeItems(books, subscription, form);
  }
  if (form.metadata !== undefined) subscription.metadata = mergeMetadata(subscription.metadata, form.metadata);
  books.emit('customer.subscription.updated', subscription);
  return subscription;
}

/**
 * Charges the difference immediately. If that fails, nothing changes or the change waits, as
 * requested.
 */
function changeItems(books: Books, subscription: Subscription, form: Form): void {
  const before = subscription.items.data;
  const waits = form.payment_behavior === 'pending_if_incomplete';
  const sent = readList(form.items);
  if (waits && (form.metadata !== undefined || sent.some(({ deleted }) => deleted === 'true')))
    throw new Refused('a change that waits takes prices and quantities alone');
  if (subscription.pending_update) books.voidInvoice(subscription.latest_invoice ?? '');
  const date = Number(form.proration_date);
  const after = changedItems(books, before, sent, date);
  const lines = books.prorationLines(before, after, date);
  const { due } = books.computeDue(subscription.customer, lines);
  const ending = books.decideEnding(subscription.customer, due);
  if (ending === 'paid') {
    if (lines.length > 0) books.invoice(subscription.customer, subscription, lines, ending);
    subscription.items.data = after;
    return;
  }
  if (!waits)
    throw new CardRefused(ending === 'wants_person' ? 'subscription_payment_intent_requires_action' : 'card_declined');
  books.invoice(subscription.customer, subscription, lines, ending);
  const expires_at = Math.min(periodEnd(subscription), seconds() + 23 * 3600);
  subscription.pending_update = { expires_at, subscription_items: after };
}

function changedItems(books: Books, before: readonly Item[], sent: readonly Form[], date: number): Item[] {
  const [first] = before;
  const interval = first?.price.recurring.interval ?? 'month';
  const after = before.filter(({ id }) => !sent.some((each) => each.id === id && each.deleted === 'true'));
  const wanted = sent
    .filter(({ deleted }) => deleted !== 'true')
    .map(({ id, price, price_data, quantity }) => ({
      id: readText(id),
      price: readPrice(books, price, price_data),
      quantity: Number(quantity),
    }));
  const kept = after.filter(({ id }) => !wanted.some((each) => each.id === id));
  const restarts = wanted.some(({ price }) => price.recurring.interval !== interval);
  if (restarts && kept.length > 0) throw new Refused('all items have one interval');
  const [start, end] = [first?.current_period_start ?? 0, first?.current_period_end ?? 0];
  const items = wanted.map(({ id, price, quantity }) => {
    const item = restarts
      ? books.newItem(price, quantity, date, nextEnd(date, price.recurring.interval))
      : books.newItem(price, quantity, start, end);
    const { discounts, tax_rates, metadata } = before.find((each) => each.id === id) ?? {};
    return id === '' ? item : { ...item, id, discounts, tax_rates, metadata };
  });
  const prices = [...kept, ...items].map(({ price }) => price.id);
  if (new Set(prices).size < prices.length) throw new Refused('two items have one price');
  return [...kept, ...items];
}

/**
 * Returns the discounts of the subscription and of its customer's terms, which phases may have
 * added.
 */
function allDiscounts(books: Books, { customer, discounts }: Subscription): unknown[] {
  const own = discounts.filter((discount) => discount !== grantedDiscount);
  return [...own, ...buildDiscounts(books.terms.get(customer) ?? {})];
}

/** Returns an existing price, or the one that is described. */
function readPrice(books: Books, id: Form[string] | undefined, data: Form[string] | undefined): Price {
  if (typeof data !== 'object') return books.price(readText(id));
  const product = readText(data.product);
  const like = [...books.prices.values()].find((each) => each.product === product);
  const interval = readText((data.recurring as Form).interval);
  return books.inlinePrice({
    currency: readText(data.currency),
    unit_amount: Number(data.unit_amount),
    lookup_key: null,
    metadata: {},
    nickname: required(like, product).nickname,
    product,
    recurring: { interval },
  });
}

/** Reads the phases of a schedule that replace the present ones. */
function readPhases(books: Books, schedule: Schedule, sent: Form[string] | undefined): Phase[] {
  const own = schedule.subscription ?? '';
  const subscription = required(books.subscriptions.get(own), own);
  const granted = new Set([
    ...subscription.discounts,
    grantedDiscount,
    ...subscription.items.data.flatMap(({ discounts = [] }) => discounts),
  ]);
  let end = 0;
  const phases = readList(sent).map((phase): Phase => {
    const start_date = end === 0 ? Number(phase.start_date) : end;
    const terms = readPhaseTerms(phase, granted, books.taxRates);
    const items = readList(phase.items).map((item) => ({
      price: books.price(readText(item.price)),
      quantity: Number(item.quantity),
      ...readItemTerms(item, granted, books.taxRates),
    }));
    const interval = typeof phase.duration === 'object' ? readText(phase.duration.interval) : '';
    end = interval === '' ? Number(phase.end_date) : nextEnd(start_date, interval);
    return { ...terms, start_date, end_date: end, items, metadata: mergeMetadata({}, phase.metadata) };
  });
  if (phases[0]?.start_date !== schedule.current_phase?.start_date) throw new Refused('the current phase is left out');
  if (phases[0]?.end_date !== periodEnd(subscription)) throw new Refused('the current phase ends with the period');
  return phases;
}

function updateSchedule(books: Books, form: Form, id: string) {
  const schedule = required(books.schedules.get(id), id);
  if (schedule.status !== 'active') throw new Refused('the schedule is not active');
  const own = schedule.subscription ?? '';
  const subscription = required(books.subscriptions.get(own), own);
  const phases = readPhases(books, schedule, form.phases);
  const [first] = phases;
  if (!first) throw new Refused('a schedule needs a phase');
  schedule.phases = phases;
  // The current phase applies immediately.
  Object.assign(subscription, termsInPhase(first));
  subscription.items.data.forEach((item, index) => {
    Object.assign(item, itemTermsInPhase(required(first.items[index], item.id)));
  });
  schedule.end_behavior = readText(form.end_behavior);
  schedule.metadata = mergeMetadata(schedule.metadata, form.metadata);
  schedule.current_phase = { start_date: first.start_date, end_date: first.end_date };
  books.emit('subscription_schedule.updated', schedule);
  return schedule;
}
