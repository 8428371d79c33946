// Previews changes at Stripe by its invoice previews. Creates and changes nothing there.
import type Stripe from 'stripe';
import { findCustomer } from '../../db/billing/provider-customers.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { findPending, type PendingBill, type ProviderBill } from '../../domain/billing/bills.ts';
import { buildNextPeriod, computeConsequence, findProrationTime, findRejection } from '../../domain/billing/changes.ts';
import {
  type ChangePreview,
  computePreview,
  findPreviewWarnings,
  type PreviewedInvoice,
  type PreviewRequest,
  type PreviewResult,
} from '../../domain/billing/previews.ts';
import { applyCredit, buildPeriodLines, sumLines } from '../../domain/billing/proration.ts';
import { isPaid, type Subscription } from '../../domain/billing/subscription.ts';
import { findUsedDiscounts, readAmounts, readBill, readNextInvoice } from './bills.ts';
import { buildChangeParams } from './changes.ts';
import type { FollowParts } from './follow.ts';
import { diffItems, hasExactly, type PricedItem, resolvePreviewItems } from './items.ts';
import { buildSubscription } from './projection.ts';
import { planPhases } from './schedules.ts';
import { fetchAllLines, fetchNextInvoice, fetchSubscriptions, findSchedule, selectLiveSubscription } from './state.ts';
import { hasAutomaticTax } from './taxes.ts';

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;

type PreviewParams = Stripe.InvoiceCreatePreviewParams;
type PreviewItems = NonNullable<Awaited<ReturnType<typeof resolvePreviewItems>>>;

/** @throws Error if Stripe fails */
export async function previewChange(
  { stripe, tenants }: Pick<FollowParts, 'stripe' | 'tenants'>,
  request: PreviewRequest,
): Promise<PreviewResult> {
  const { companyId, change, usedSeats, now } = request;
  const scope = { companyId, testMode: false };
  const id = await inTransaction(tenants, scope, timeoutMs, (sql) => findCustomer(sql, companyId));
  if (id === undefined) return previewLocally(stripe, request);
  const [customer, subscriptions] = await Promise.all([
    stripe.customers.retrieve(id, { expand: ['discount.source.coupon', 'invoice_settings.default_payment_method'] }),
    fetchSubscriptions(stripe, id),
  ]);
  if (customer.deleted) throw new Error(`the customer ${id} was deleted at Stripe`);
  const present = buildSubscription({ customer, subscriptions }, request.subscription);
  const rejection = findRejection(change, present, usedSeats, now);
  if (rejection) return { rejection };
  const live = selectLiveSubscription(subscriptions);
  if (live) return { preview: await previewLive(stripe, live, customer, { ...request, subscription: present }) };
  if (change.action === 'subscribe') return previewCheckout(stripe, customer, { ...request, subscription: present });
  return previewLocally(stripe, { ...request, subscription: present });
}

/** Previews a change that Stripe does not know. Its checkout asks for an address to compute taxes. */
async function previewLocally(stripe: Stripe, request: PreviewRequest): Promise<PreviewResult> {
  return computePreview(request, request.change.action === 'subscribe' && (await hasAutomaticTax(stripe)));
}

/** Previews the first invoice of a subscription of a known customer. */
async function previewCheckout(
  stripe: Stripe,
  customer: Stripe.Customer,
  request: PreviewRequest,
): Promise<PreviewResult> {
  const own = await previewLocally(stripe, request);
  const { change, subscription, now } = request;
  const target = computeConsequence(change, subscription, 0, now).paid.after;
  const priced = await resolvePreviewItems(stripe, target, []);
  if (!own.preview || !priced) return own;
  const isTaxed = await hasAutomaticTax(stripe);
  const params = {
    customer: customer.id,
    subscription_details: { items: diffItems([], priced.items) },
    ...(isTaxed ? { automatic_tax: { enabled: true } } : {}),
  };
  const invoice = await findInvoice(stripe, params, priced, []);
  if (!invoice) return { preview: { ...own.preview, isEstimate: true } };
  const next = { ...invoice, amount_due: Math.max(0, invoice.total + readEndingBalance(invoice)) };
  const { subtotalMinor, taxMinor, totalMinor, lines } = readAmounts(next);
  return {
    preview: {
      ...own.preview,
      invoice: toPreviewedInvoice(invoice),
      next: {
        currency: target.currency,
        subtotal_minor: subtotalMinor,
        tax_minor: taxMinor,
        total_minor: totalMinor,
        next_charge_at: target.periodEnd.toISOString(),
        lines,
      },
      isEstimate: isTaxed && invoice.automatic_tax.status !== 'complete',
    },
  };
}

async function previewLive(
  stripe: Stripe,
  live: Stripe.Subscription,
  customer: Stripe.Customer,
  { change, subscription, now }: PreviewRequest,
): Promise<ChangePreview> {
  const { applies, effective, paid } = computeConsequence(change, subscription, 0, now);
  const target = paid.after;
  const fetched = await allowUntaxed(() => fetchNextInvoice(stripe, live));
  const coming = fetched ?? { invoice: null, problem: 'not_computable', isTransient: false };
  const bill = readBill(live, customer, coming);
  const present = applies === 'immediately' ? await previewNow(stripe, live, bill, change, subscription, now) : null;
  const credit = present ? present.creditMinor : subscription.creditMinor;
  const next = await previewNext(stripe, live, bill, target, credit);
  const lost = [...(coming.invoice ? findUsedDiscounts(coming.invoice) : [])].filter(
    ([id]) => next.discounts && !next.discounts.has(id) && !present?.discounts.has(id),
  );
  return {
    applies,
    effective,
    currency: target.currency,
    invoice: present?.invoice ?? null,
    current: findPending(subscription, bill),
    next: next.bill,
    isEstimate: coming.problem !== null || next.isEstimate || (present?.isEstimate ?? false),
    warnings: findPreviewWarnings(
      change,
      subscription,
      target,
      bill,
      lost.map(([, name]) => name),
    ),
  };
}

interface PreviewedNow {
  invoice: PreviewedInvoice | null;
  /** The credit of the customer afterwards, in minor units. */
  creditMinor: number;
  /** The discounts that reduce the invoice, by id. */
  discounts: ReadonlyMap<string, string | null>;
  isEstimate: boolean;
}

/** Previews the invoice that an immediate change makes. */
async function previewNow(
  stripe: Stripe,
  live: Stripe.Subscription,
  bill: ProviderBill,
  change: PreviewRequest['change'],
  before: Subscription,
  now: Date,
): Promise<PreviewedNow> {
  const { paid } = computeConsequence(change, before, 0, now, bill.prices);
  const none = { invoice: null, creditMinor: before.creditMinor, discounts: new Map(), isEstimate: false };
  const priced = await resolvePreviewItems(stripe, paid.after, live.items.data);
  if (priced?.items.every(isPriced) && hasExactly(live.items.data, priced.items)) return none;
  // The change releases an active schedule first, which a preview cannot do.
  const canPreview = findSchedule(live)?.status !== 'active';
  const params = canPreview &&
    priced && {
      subscription: live.id,
      subscription_details: buildChangeParams(live, priced.items, findProrationTime(change, before, now)),
    };
  const invoice = params ? await findInvoice(stripe, params, priced, live.items.data) : undefined;
  if (invoice)
    return {
      invoice: toPreviewedInvoice(invoice),
      creditMinor: Math.max(0, -readEndingBalance(invoice)),
      discounts: findUsedDiscounts(invoice),
      isEstimate: false,
    };
  const { after, invoice: own } = paid;
  return {
    ...none,
    invoice: own && { lines: own.lines, taxMinor: 0, totalMinor: own.totalMinor },
    creditMinor: after.creditMinor,
    isEstimate: true,
  };
}

interface PreviewedNext {
  bill: PendingBill | null;
  /** The discounts that reduce the invoice, by id; null if Stripe gave no preview. */
  discounts: ReadonlyMap<string, string | null> | null;
  isEstimate: boolean;
}

/** Previews the invoice of the period after the change. */
async function previewNext(
  stripe: Stripe,
  live: Stripe.Subscription,
  bill: ProviderBill,
  target: Subscription,
  creditMinor: number,
): Promise<PreviewedNext> {
  if (target.cancelAtPeriodEnd) return { bill: null, discounts: new Map(), isEstimate: false };
  if (!isPaid(target)) return { bill: null, discounts: null, isEstimate: false };
  const period = buildNextPeriod(target);
  const priced = await resolvePreviewItems(stripe, period, live.items.data);
  const params = priced && buildNextParams(live, target, priced.items);
  const invoice = params && (await findInvoice(stripe, params, priced, live.items.data));
  const next_charge_at = target.periodEnd.toISOString();
  if (invoice) {
    const read = readNextInvoice(live, { ...invoice, amount_due: Math.max(0, invoice.total - creditMinor) });
    return {
      bill: read && { ...read, next_charge_at },
      discounts: findUsedDiscounts(invoice),
      isEstimate: false,
    };
  }
  const isSameCycle =
    live.items.data[0]?.price.recurring?.interval === (target.billingCycle === 'yearly' ? 'year' : 'month');
  const { lines } = applyCredit(buildPeriodLines(period, isSameCycle ? bill.prices : {}), creditMinor);
  const total = sumLines(lines);
  return {
    bill: { currency: target.currency, subtotal_minor: total, tax_minor: 0, total_minor: total, next_charge_at, lines },
    discounts: null,
    isEstimate: true,
  };
}

/** @returns undefined if Stripe cannot preview it */
function buildNextParams(
  live: Stripe.Subscription,
  target: Subscription,
  items: Parameters<typeof diffItems>[1],
): PreviewParams | undefined {
  const schedule = findSchedule(live);
  if (schedule?.status !== 'active')
    return {
      subscription: live.id,
      subscription_details: {
        items: diffItems(live.items.data, items),
        proration_behavior: 'none',
        cancel_at_period_end: false,
      },
    };
  const end = live.items.data[0]?.current_period_end ?? 0;
  // Another billing cycle starts a new period, which is not one of the schedule.
  if (!items.every(isPriced) || target.periodEnd.getTime() !== end * 1000) return undefined;
  const phases = planPhases(live, schedule, target, items);
  return {
    schedule: schedule.id,
    schedule_details: {
      phases,
      end_behavior: 'release',
      proration_behavior: 'none',
    } as NonNullable<PreviewParams['schedule_details']>,
  };
}

const isPriced = (item: Parameters<typeof diffItems>[1][number]): item is PricedItem => 'price' in item;

/**
 * @param live the items before the change
 * @returns undefined if Stripe cannot compute the taxes
 */
async function findInvoice(
  stripe: Stripe,
  params: PreviewParams,
  priced: PreviewItems,
  live: readonly Stripe.SubscriptionItem[],
): Promise<Stripe.Invoice | undefined> {
  return allowUntaxed(async () => {
    const invoice = await stripe.invoices.createPreview({ ...params, expand: ['discounts.source.coupon'] });
    return nameInlineItems(await fetchAllLines(stripe, invoice), priced, live);
  });
}

/**
 * Stripe's error codes for an invoice whose taxes it cannot compute. The change itself can still
 * succeed, for example after the person has entered an address.
 */
const taxProblems: readonly string[] = [
  'customer_tax_location_invalid',
  'invalid_tax_location',
  'stripe_tax_inactive',
  'taxes_calculation_failed',
];

/**
 * @returns undefined if Stripe cannot compute the taxes
 * @throws Error for all other errors, so that a wrong parameter does not become an estimate
 */
async function allowUntaxed<Result>(request: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await request();
  } catch (error) {
    if (taxProblems.includes((error as Stripe.errors.StripeError).code ?? '')) return undefined;
    throw error;
  }
}

/** Corrects the names of lines whose price was described with the product of another item. */
function nameInlineItems(
  invoice: Stripe.Invoice,
  { items, inline }: PreviewItems,
  live: readonly Stripe.SubscriptionItem[],
): Stripe.Invoice {
  const known = new Set([...live.map(({ price }) => price.id), ...items.filter(isPriced).map(({ price }) => price)]);
  const data = invoice.lines.data.map((line) => {
    const { price_details: details, unit_amount_decimal: unit } = line.pricing ?? {};
    if (!details || known.has(readId(details.price))) return line;
    const item = inline.find(({ unitMinor, quantity }) => unitMinor === Number(unit) && quantity === line.quantity);
    const isPart = line.parent?.subscription_item_details?.proration ?? false;
    return item ? { ...line, description: `${isPart ? 'Remaining time of ' : ''}${item.description}` } : line;
  });
  return { ...invoice, lines: { ...invoice.lines, data } };
}

const readId = (thing: string | { id: string }): string => (typeof thing === 'string' ? thing : thing.id);

/** Returns the balance of the customer after an invoice: below zero if there is credit left. */
const readEndingBalance = ({ starting_balance, total, amount_due }: Stripe.Invoice): number =>
  starting_balance + total - amount_due;

function toPreviewedInvoice(invoice: Stripe.Invoice): PreviewedInvoice {
  const { lines, taxMinor, totalMinor } = readAmounts(invoice);
  return { lines, taxMinor, totalMinor };
}
