// What is paid for, as items of a subscription at Stripe, with prices made from the catalogue.
import type Stripe from 'stripe';
import { type BillingCycle, plans } from '../../domain/billing/catalogue.ts';
import { type Item, type Items, itemsOf } from '../../domain/billing/proration.ts';

const intervals = { monthly: 'month', yearly: 'year' } as const;

/** An item with its price at Stripe. */
export interface PricedItem {
  key: string;
  price: string;
  quantity: number;
}

/**
 * The items of a subscription. What it has already keeps its price, whatever the catalogue says by now. Another price is found by its lookup
 * key; where the catalogue asks for something else than that price, or there is none yet, it is made.
 * @param live the items that the subscription has
 * @param idempotencyKey from which those of new prices are derived
 */
export async function pricedItems(
  stripe: Stripe,
  items: Items,
  live: readonly Stripe.SubscriptionItem[],
  idempotencyKey: string,
): Promise<PricedItem[]> {
  const { billingCycle, currency } = items;
  const wanted = itemsOf(items).map((item) => ({
    ...item,
    lookupKey: lookupKeyOf(item.key, billingCycle, currency),
    own: live.find((other) => keyOf(other) === item.key && other.price.recurring?.interval === intervals[billingCycle]),
  }));
  const others = wanted.filter(({ own }) => !own).map(({ lookupKey }) => lookupKey);
  const known = others.length === 0 ? [] : (await stripe.prices.list({ lookup_keys: others, active: true })).data;
  const priced: PricedItem[] = [];
  for (const item of wanted) {
    const { key, quantity, lookupKey } = item;
    const found = known.find((price) => price.lookup_key === lookupKey && price.unit_amount === item.unitMinor);
    const price = item.own?.price ?? found ?? (await makePrice(stripe, item, lookupKey, items, idempotencyKey));
    priced.push({ key, price: price.id, quantity });
  }
  return priced;
}

const lookupKeyOf = (key: string, cycle: BillingCycle, currency: string): string =>
  `crm.${key}.${cycle}.${currency.toLowerCase()}`;

/** Subscriptions stay on the price that they have: what it is for stands in its metadata, since a lookup key moves on. */
function makePrice(
  stripe: Stripe,
  { key, description, unitMinor }: Item,
  lookupKey: string,
  { billingCycle, currency }: Items,
  idempotencyKey: string,
): Promise<Stripe.Price> {
  return stripe.prices.create(
    {
      currency: currency.toLowerCase(),
      unit_amount: unitMinor,
      recurring: { interval: intervals[billingCycle] },
      product_data: { name: description },
      lookup_key: lookupKey,
      transfer_lookup_key: true,
      metadata: { item: key },
    },
    { idempotencyKey: `${idempotencyKey}:price:${key}` },
  );
}

/** What an item is for; '' for what the catalogue never had. */
export const keyOf = ({ price }: Pick<Stripe.SubscriptionItem, 'price'>): string => price.metadata.item ?? '';

const kindOf = (key: string): string => (key.startsWith('module.') ? key : (key.split('.')[0] ?? ''));

/** True if an item takes the place of another: a plan of a plan, seats of seats, a module of itself. */
export const sharesPlace = (one: string, other: string): boolean => one !== '' && kindOf(one) === kindOf(other);

/** What support added beside the catalogue is kept as it is. */
const isOfCatalogue = (item: Pick<Stripe.SubscriptionItem, 'price'>): boolean => keyOf(item) !== '';

/** True if what a subscription has of the catalogue are just these items. */
export function consistsOf(live: readonly Stripe.SubscriptionItem[], wanted: readonly PricedItem[]): boolean {
  const told = (each: { price: string; quantity: number }): string => `${each.price} ${each.quantity}`;
  const there = live
    .filter(isOfCatalogue)
    .map(({ price, quantity }) => told({ price: price.id, quantity: quantity ?? 1 }))
    .toSorted();
  return there.join('\n') === wanted.map(told).toSorted().join('\n');
}

/** What makes of the items that a subscription has those that it is to have; a plan and its seats change places with those before. */
export function itemChanges(
  live: readonly Stripe.SubscriptionItem[],
  wanted: readonly PricedItem[],
): Stripe.SubscriptionUpdateParams.Item[] {
  const kept = new Map(live.filter(isOfCatalogue).map((item) => [kindOf(keyOf(item)), item]));
  const changes = wanted.map(({ key, price, quantity }) => {
    const item = kept.get(kindOf(key));
    kept.delete(kindOf(key));
    return item ? { id: item.id, price, quantity } : { price, quantity };
  });
  return [...changes, ...[...kept.values()].map(({ id }) => ({ id, deleted: true }))];
}

/** The package that items are for; undefined if none is a plan of the catalogue. */
export function readPackage(items: readonly Stripe.SubscriptionItem[]): string | undefined {
  const plan = items.find((item) => keyOf(item).startsWith('plan.'));
  const code = plan && keyOf(plan).slice('plan.'.length);
  return code !== undefined && plans[code] ? code : undefined;
}

export const hasPlan = (items: readonly Stripe.SubscriptionItem[]): boolean => readPackage(items) !== undefined;

/** What the items of a subscription say of it. @throws Error where none is a plan of the catalogue */
export function readItems(
  items: readonly Stripe.SubscriptionItem[],
  seatsMetadata: string | undefined,
): Items & { periodStart: Date; periodEnd: Date } {
  const plan = items.find((item) => keyOf(item).startsWith('plan.'));
  const packageCode = plan ? keyOf(plan).slice('plan.'.length) : '';
  if (!plan || !plans[packageCode]) throw new Error('a Stripe subscription has no plan of the catalog');
  const seats = items.find((item) => keyOf(item) === `seats.${packageCode}`);
  const extra = seats?.quantity ?? 0;
  const told = seatsMetadata ? Number(seatsMetadata) : null;
  return {
    packageCode,
    billingCycle: plan.price.recurring?.interval === 'year' ? 'yearly' : 'monthly',
    currency: plan.price.currency.toUpperCase(),
    // What is paid for says more than what was noted beside it.
    seats: extra > 0 ? plans[packageCode].includedSeats + extra : told,
    addOns: items.flatMap((item) => (keyOf(item).startsWith('module.') ? [keyOf(item).slice('module.'.length)] : [])),
    periodStart: new Date(plan.current_period_start * 1000),
    periodEnd: new Date(plan.current_period_end * 1000),
  };
}
