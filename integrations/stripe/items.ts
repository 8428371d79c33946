// Converts a subscription to Stripe items, with prices created from the catalog.
import type Stripe from 'stripe';
import { type BillingCycle, plans } from '../../domain/billing/catalogue.ts';
import { type Item, type Items, listItems } from '../../domain/billing/proration.ts';

const intervals = { monthly: 'month', yearly: 'year' } as const;

/** An item with its Stripe price. */
export interface PricedItem {
  key: string;
  price: string;
  quantity: number;
}

/** An item whose price does not exist at Stripe yet, as a preview takes it. */
interface InlineItem {
  key: string;
  price_data: { currency: string; product: string; recurring: { interval: 'month' | 'year' }; unit_amount: number };
  quantity: number;
}

/**
 * Returns the Stripe items of a subscription. Existing items keep their price, even if the catalog
 * has changed. Other prices are found by lookup key. If that price is missing or differs from the
 * catalog, a new one is created.
 * @param live the current items of the subscription
 * @param idempotencyKey the prefix of the keys for new prices
 */
export async function resolveItemPrices(
  stripe: Stripe,
  items: Items,
  live: readonly Stripe.SubscriptionItem[],
  idempotencyKey: string,
): Promise<PricedItem[]> {
  const priced: PricedItem[] = [];
  for (const item of await findItemPrices(stripe, items, live)) {
    const { key, quantity, lookupKey } = item;
    const price = item.price ?? (await createPrice(stripe, item, lookupKey, items, idempotencyKey));
    priced.push({ key, price: price.id, quantity });
  }
  return priced;
}

/** An item with the price that it gets at Stripe; undefined if that must be created. */
interface FoundItem extends Item {
  lookupKey: string;
  price: Stripe.Price | undefined;
  /** Has the same lookup key, maybe with another amount. */
  similar: Stripe.Price | undefined;
}

async function findItemPrices(
  stripe: Stripe,
  items: Items,
  live: readonly Stripe.SubscriptionItem[],
): Promise<FoundItem[]> {
  const { billingCycle, currency } = items;
  const wanted = listItems(items).map((item) => ({
    ...item,
    lookupKey: buildLookupKey(item.key, billingCycle, currency),
    own: live.find(
      (other) => readItemKey(other) === item.key && other.price.recurring?.interval === intervals[billingCycle],
    ),
  }));
  const others = wanted.filter(({ own }) => !own).map(({ lookupKey }) => lookupKey);
  const known = others.length === 0 ? [] : (await stripe.prices.list({ lookup_keys: others, active: true })).data;
  return wanted.map(({ own, ...item }) => {
    const similar = known.find((price) => price.lookup_key === item.lookupKey);
    return { ...item, price: own?.price ?? (similar?.unit_amount === item.unitMinor ? similar : undefined), similar };
  });
}

/**
 * Returns the items for a preview, which creates no prices. A price that does not exist yet is
 * described with a product of the customer.
 * @returns undefined if there is no such product
 */
export async function resolvePreviewItems(
  stripe: Stripe,
  items: Items,
  live: readonly Stripe.SubscriptionItem[],
): Promise<{ items: (PricedItem | InlineItem)[]; inline: Item[] } | undefined> {
  const found = await findItemPrices(stripe, items, live);
  const priced: (PricedItem | InlineItem)[] = [];
  for (const { key, quantity, unitMinor, price, similar } of found) {
    const product = (similar ?? live.find(isCatalogItem)?.price)?.product;
    if (price) priced.push({ key, price: price.id, quantity });
    else if (product === undefined) return undefined;
    else {
      const price_data = {
        currency: items.currency.toLowerCase(),
        product: typeof product === 'string' ? product : product.id,
        recurring: { interval: intervals[items.billingCycle] },
        unit_amount: unitMinor,
      };
      priced.push({ key, price_data, quantity });
    }
  }
  return { items: priced, inline: found.filter(({ price }) => !price) };
}

const buildLookupKey = (key: string, cycle: BillingCycle, currency: string): string =>
  `crm.${key}.${cycle}.${currency.toLowerCase()}`;

/**
 * Creates a price. Its metadata names the item, because a lookup key moves to newer prices while
 * subscriptions keep old ones.
 */
function createPrice(
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

/** Returns the catalog key of an item; '' if it is not from the catalog. */
export const readItemKey = ({ price }: Pick<Stripe.SubscriptionItem, 'price'>): string => price.metadata.item ?? '';

const getItemGroup = (key: string): string => (key.startsWith('module.') ? key : (key.split('.')[0] ?? ''));

/** Returns true if one item replaces the other: plans, seats, or the same module. */
export const isReplacement = (one: string, other: string): boolean =>
  one !== '' && getItemGroup(one) === getItemGroup(other);

/** Items that support added outside the catalog are kept. */
const isCatalogItem = (item: Pick<Stripe.SubscriptionItem, 'price'>): boolean => readItemKey(item) !== '';

/** Returns true if the catalog items of a subscription are exactly the wanted ones. */
export function hasExactly(live: readonly Stripe.SubscriptionItem[], wanted: readonly PricedItem[]): boolean {
  const keyOfItem = (each: { price: string; quantity: number }): string => `${each.price} ${each.quantity}`;
  const there = live
    .filter(isCatalogItem)
    .map(({ price, quantity }) => keyOfItem({ price: price.id, quantity: quantity ?? 1 }))
    .toSorted();
  return there.join('\n') === wanted.map(keyOfItem).toSorted().join('\n');
}

interface ItemChange extends Partial<Omit<PricedItem & InlineItem, 'key'>> {
  id?: string;
  deleted?: boolean;
}

/**
 * Returns the update that turns the live items into the wanted ones. A new plan and its seats reuse
 * the items of the old ones.
 */
export function diffItems(
  live: readonly Stripe.SubscriptionItem[],
  wanted: readonly (PricedItem | InlineItem)[],
): ItemChange[] {
  const kept = new Map(live.filter(isCatalogItem).map((item) => [getItemGroup(readItemKey(item)), item]));
  const changes = wanted.map(({ key, ...priced }) => {
    const item = kept.get(getItemGroup(key));
    kept.delete(getItemGroup(key));
    return item ? { id: item.id, ...priced } : priced;
  });
  return [...changes, ...[...kept.values()].map(({ id }) => ({ id, deleted: true }))];
}

/** Returns the package of the items; undefined if none is a plan of the catalog. */
export function readPackage(items: readonly Stripe.SubscriptionItem[]): string | undefined {
  const plan = items.find((item) => readItemKey(item).startsWith('plan.'));
  const code = plan && readItemKey(plan).slice('plan.'.length);
  return code !== undefined && plans[code] ? code : undefined;
}

export const hasPlan = (items: readonly Stripe.SubscriptionItem[]): boolean => readPackage(items) !== undefined;

/** Reads the items of a subscription. @throws Error if none is a plan of the catalog */
export function readItems(
  items: readonly Stripe.SubscriptionItem[],
  seatsMetadata: string | undefined,
): Items & { periodStart: Date; periodEnd: Date } {
  const plan = items.find((item) => readItemKey(item).startsWith('plan.'));
  const packageCode = plan ? readItemKey(plan).slice('plan.'.length) : '';
  if (!plan || !plans[packageCode]) throw new Error('a Stripe subscription has no plan of the catalog');
  const seats = items.find((item) => readItemKey(item) === `seats.${packageCode}`);
  const extra = seats?.quantity ?? 0;
  const purchased = seatsMetadata ? Number(seatsMetadata) : null;
  return {
    packageCode,
    billingCycle: plan.price.recurring?.interval === 'year' ? 'yearly' : 'monthly',
    currency: plan.price.currency.toUpperCase(),
    // Paid seats take precedence over the metadata.
    seats: extra > 0 ? plans[packageCode].includedSeats + extra : purchased,
    addOns: items.flatMap((item) =>
      readItemKey(item).startsWith('module.') ? [readItemKey(item).slice('module.'.length)] : [],
    ),
    periodStart: new Date(plan.current_period_start * 1000),
    periodEnd: new Date(plan.current_period_end * 1000),
  };
}
