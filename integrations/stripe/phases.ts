// Converts phases of a schedule to parameters. An update replaces all phases with all their terms.
import { isDeepStrictEqual } from 'node:util';
import type Stripe from 'stripe';
import { isReplacement, type PricedItem, readItemKey } from './items.ts';

type Phase = Stripe.SubscriptionSchedule.Phase;
type PhaseParams = Stripe.SubscriptionScheduleUpdateParams.Phase;
type ItemParams = PhaseParams['items'][number];
/** The terms of an item besides price and quantity. */
type ItemTerms = Pick<ItemParams, 'billing_thresholds' | 'discounts' | 'metadata' | 'tax_rates'>;

interface Reference {
  id: string;
}

const getId = (thing: string | Reference | null | undefined): string | undefined =>
  typeof thing === 'string' ? thing : thing?.id;

const listIds = (things: readonly (string | Reference)[]): string[] => things.flatMap((thing) => getId(thing) ?? []);

/** Omits null values. Stripe rejects null, and an empty string would remove a value. */
function withoutNulls<Params extends object>(
  params: {
    [Name in keyof Params]: Params[Name] | null | undefined;
  },
): Params {
  return Object.fromEntries(Object.entries(params).filter(([, value]) => value != null)) as Params;
}

/** Returns undefined for an empty list, which Stripe rejects. */
const nonEmpty = <Thing>(things: readonly Thing[]): Thing[] | undefined =>
  things.length > 0 ? [...things] : undefined;

/** Converts a future phase unchanged. */
export function keepPhase(phase: Phase): PhaseParams {
  return {
    ...keepTerms(phase),
    ...withoutNulls<Pick<PhaseParams, 'add_invoice_items'>>({
      add_invoice_items: nonEmpty(phase.add_invoice_items.map(keepInvoiceItem)),
    }),
    items: phase.items.map((item) => ({
      price: getId(item.price) ?? '',
      ...withoutNulls<Pick<ItemParams, 'quantity'>>({ quantity: item.quantity }),
      ...keepItemTerms(item),
    })),
    end_date: phase.end_date,
  };
}

/**
 * Converts the current phase. An update applies immediately to the subscription, which may have
 * changed since the phase began. So the values of the subscription are used, even empty ones.
 */
export function keepCurrentPhase(phase: Phase, live: Stripe.Subscription): PhaseParams {
  const { billing_cycle_anchor, billing_thresholds, default_payment_method, proration_behavior } = keepTerms(phase);
  const now = Math.floor(Date.now() / 1000);
  return {
    // Without add_invoice_items: they were invoiced when the phase began.
    ...withoutNulls<Partial<PhaseParams>>({
      application_fee_percent: live.application_fee_percent,
      automatic_tax: live.automatic_tax && keepTax(live.automatic_tax),
      billing_cycle_anchor,
      billing_thresholds,
      collection_method: live.collection_method,
      // The customer's card is used, unless the phase has its own.
      default_payment_method: default_payment_method && (getId(live.default_payment_method) ?? default_payment_method),
      default_tax_rates: nonEmpty(listIds(live.default_tax_rates ?? [])),
      description: live.description,
      discounts: nonEmpty(listIds(live.discounts ?? []).map((discount) => ({ discount }))),
      invoice_settings: keepInvoiceSettings({
        ...phase.invoice_settings,
        ...live.invoice_settings,
        days_until_due: live.days_until_due,
      }),
      metadata: live.metadata,
      on_behalf_of: getId(live.on_behalf_of),
      proration_behavior,
      transfer_data: live.transfer_data && keepTransfer(live.transfer_data),
      trial_end: live.trial_end && live.trial_end > now ? live.trial_end : null,
    }),
    items: live.items.data.map((item) => ({
      price: item.price.id,
      quantity: item.quantity ?? 1,
      ...keepItemTerms({ ...item, discounts: (item.discounts ?? []).map((discount) => ({ discount })) }),
    })),
    start_date: phase.start_date,
    end_date: live.items.data[0]?.current_period_end ?? 0,
  };
}

/**
 * Builds the next phase with the wanted items. It combines the terms of the current phase with
 * those planned for the next one.
 * @param planned the previously planned next phase
 */
export function buildNextPhase(
  wanted: readonly PricedItem[],
  planned: PhaseParams | undefined,
  current: PhaseParams,
  live: Stripe.Subscription,
): PhaseParams {
  const granted = findDiscounts(live);
  const itemTerms = ({ key, price }: PricedItem): ItemTerms => {
    const before = current.items[live.items.data.findIndex((item) => isReplacement(readItemKey(item), key))];
    return mergeTerms(termsOfItem(before), termsOfItem(planned?.items.find((item) => item.price === price)), granted);
  };
  const items = wanted.map((item) => ({ price: item.price, quantity: item.quantity, ...itemTerms(item) }));
  // Items outside the catalog are kept, because support added them.
  const others = (planned ?? current).items.filter(({ price }) => isForeign(price, live));
  return {
    ...mergeTerms(termsOfPhase(current), planned ? termsOfPhase(planned) : {}, granted),
    items: [...items, ...others],
  };
}

/** Returns the terms that carry over to the next phase. */
function termsOfPhase({
  start_date,
  end_date,
  duration,
  trial_end,
  items,
  ...terms
}: PhaseParams): Partial<PhaseParams> {
  return terms;
}

function termsOfItem(item: ItemParams | undefined): ItemTerms {
  const { price: _price, quantity: _quantity, ...terms } = item ?? {};
  return terms;
}

type Discounts = NonNullable<Exclude<PhaseParams['discounts'], ''>>;

/** @param granted discounts that are still in force; Stripe rejects others */
function mergeTerms<Terms extends { discounts?: PhaseParams['discounts'] }>(
  now: Terms,
  planned: Terms,
  granted: ReadonlySet<string>,
): Terms {
  const all: Discounts = [...(now.discounts || []), ...(planned.discounts || [])];
  const discounts = all.filter(
    (each, index) =>
      (each.discount === undefined || granted.has(each.discount)) &&
      all.findIndex((other) => isDeepStrictEqual(other, each)) === index,
  );
  const { discounts: _now, ...terms } = { ...now, ...planned };
  return (discounts.length > 0 ? { ...terms, discounts } : terms) as Terms;
}

function findDiscounts(live: Stripe.Subscription): Set<string> {
  return new Set(listIds([...(live.discounts ?? []), ...live.items.data.flatMap(({ discounts }) => discounts ?? [])]));
}

const isForeign = (price: string | undefined, live: Stripe.Subscription): boolean =>
  live.items.data.some((item) => item.price.id === price && readItemKey(item) === '');

/** Converts the terms of a phase except its items and dates. */
function keepTerms(phase: Phase): Omit<PhaseParams, 'items'> {
  const { billing_thresholds: thresholds } = phase;
  return withoutNulls<Omit<PhaseParams, 'items'>>({
    application_fee_percent: phase.application_fee_percent,
    automatic_tax: phase.automatic_tax && keepTax(phase.automatic_tax),
    billing_cycle_anchor: phase.billing_cycle_anchor,
    billing_thresholds: thresholds && keepThresholds(thresholds),
    collection_method: phase.collection_method,
    default_payment_method: getId(phase.default_payment_method),
    default_tax_rates: nonEmpty(listIds(phase.default_tax_rates ?? [])),
    description: phase.description,
    discounts: nonEmpty((phase.discounts ?? []).map(keepDiscount)),
    invoice_settings: phase.invoice_settings && keepInvoiceSettings(phase.invoice_settings),
    metadata: phase.metadata,
    on_behalf_of: getId(phase.on_behalf_of),
    proration_behavior: phase.proration_behavior,
    transfer_data: phase.transfer_data && keepTransfer(phase.transfer_data),
    trial_end: phase.trial_end,
  });
}

function keepItemTerms(item: {
  billing_thresholds?: { usage_gte: number | null } | null;
  discounts?: readonly DiscountReference[];
  metadata?: Stripe.Metadata | null;
  tax_rates?: readonly Reference[] | null;
}): ItemTerms {
  const usage = item.billing_thresholds?.usage_gte;
  return withoutNulls<ItemTerms>({
    billing_thresholds: usage == null ? null : { usage_gte: usage },
    discounts: nonEmpty((item.discounts ?? []).map(keepDiscount)),
    metadata: item.metadata && Object.keys(item.metadata).length > 0 ? item.metadata : null,
    tax_rates: nonEmpty(listIds(item.tax_rates ?? [])),
  });
}

interface DiscountReference {
  coupon?: string | Reference | null;
  discount?: string | Reference | null;
  promotion_code?: string | Reference | null;
}

/** Keeps a granted discount. Its coupon would grant a new discount from the start. */
function keepDiscount({ coupon, discount, promotion_code }: DiscountReference): {
  coupon?: string;
  discount?: string;
  promotion_code?: string;
} {
  if (discount) return { discount: getId(discount) ?? '' };
  return promotion_code ? { promotion_code: getId(promotion_code) ?? '' } : { coupon: getId(coupon) ?? '' };
}

interface Liability {
  account?: string | Reference;
  type: 'account' | 'self' | (string & {});
}

const keepLiability = ({ account, type }: Liability) => ({
  type,
  ...(account ? { account: getId(account) ?? '' } : {}),
});

function keepTax({ enabled, liability }: { enabled: boolean; liability: Liability | null }) {
  return { enabled, ...(liability ? { liability: keepLiability(liability) } : {}) };
}

function keepThresholds({
  amount_gte,
  reset_billing_cycle_anchor,
}: NonNullable<Phase['billing_thresholds']>): NonNullable<Exclude<PhaseParams['billing_thresholds'], ''>> {
  return withoutNulls({ amount_gte, reset_billing_cycle_anchor });
}

function keepTransfer({ amount_percent, destination }: NonNullable<Phase['transfer_data']>) {
  return {
    destination: getId(destination) ?? '',
    ...withoutNulls<Pick<NonNullable<PhaseParams['transfer_data']>, 'amount_percent'>>({ amount_percent }),
  };
}

/** @returns undefined if nothing is set */
function keepInvoiceSettings(
  settings: Partial<NonNullable<Phase['invoice_settings']>>,
): PhaseParams['invoice_settings'] | undefined {
  const kept = withoutNulls<NonNullable<PhaseParams['invoice_settings']>>({
    account_tax_ids: nonEmpty(listIds(settings.account_tax_ids ?? [])),
    custom_fields: nonEmpty(settings.custom_fields ?? []),
    days_until_due: settings.days_until_due,
    description: settings.description,
    footer: settings.footer,
    issuer: settings.issuer && keepLiability(settings.issuer),
  });
  return Object.keys(kept).length > 0 ? kept : undefined;
}

function keepInvoiceItem(
  item: Phase['add_invoice_items'][number],
): NonNullable<PhaseParams['add_invoice_items']>[number] {
  return withoutNulls({
    discountable: item.discountable,
    discounts: nonEmpty((item.discounts ?? []).map(keepDiscount)),
    metadata: item.metadata,
    period: item.period,
    price: getId(item.price),
    quantity: item.quantity,
    tax_rates: nonEmpty(listIds(item.tax_rates ?? [])),
  });
}
