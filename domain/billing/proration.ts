// Computes invoice lines: of a whole period, and prorated for a change within one.
import { addOns, plans } from './catalogue.ts';
import type { Subscription } from './subscription.ts';

export interface InvoiceLine {
  description: string;
  quantity: number;
  unit_amount_minor: number;
  amount_minor: number;
  proration: boolean;
}

export interface NewInvoice {
  kind: 'subscription' | 'wallet_topup' | 'adjustment';
  currency: string;
  totalMinor: number;
  periodStart: Date;
  periodEnd: Date;
  lines: InvoiceLine[];
}

/** The items paid for in each period. */
export type Items = Pick<Subscription, 'packageCode' | 'billingCycle' | 'currency' | 'seats' | 'addOns'>;

export interface Item {
  /** Identifies the item independently of its price: plan.growth, seats.growth, module.inbox. */
  key: string;
  description: string;
  quantity: number;
  unitMinor: number;
}

/** Returns the number of seats beyond the included ones. */
export function countExtraSeats({ packageCode, seats }: Pick<Items, 'packageCode' | 'seats'>): number {
  return Math.max(0, (seats ?? 0) - (plans[packageCode]?.includedSeats ?? 0));
}

/**
 * Prices that override the catalog: minor units per unit and period, by item. null: there is no
 * single price.
 */
export type KeptPrices = Readonly<Record<string, number | null>>;

/**
 * Returns the items of a subscription with their prices per period. A year costs ten months, for
 * seats too.
 * @param kept prices of a subscription that started under an older catalog
 */
export function listItems(items: Items, kept: KeptPrices = {}): Item[] {
  const { packageCode, billingCycle, currency } = items;
  const plan = plans[packageCode];
  const found: Item[] = [];
  const price = plan?.prices?.[billingCycle][currency];
  if (plan && price !== undefined)
    found.push({
      key: `plan.${packageCode}`,
      description: `${plan.name}, ${billingCycle}`,
      quantity: 1,
      unitMinor: price,
    });
  const seats = countExtraSeats(items);
  const seatPrice = plan?.seatPrices?.[currency];
  if (seats > 0 && seatPrice !== undefined)
    found.push({
      key: `seats.${packageCode}`,
      description: 'Extra seats',
      quantity: seats,
      unitMinor: seatPrice * (billingCycle === 'yearly' ? 10 : 1),
    });
  for (const key of items.addOns) {
    const addOn = addOns[key];
    const unitMinor = addOn?.prices[billingCycle][currency];
    if (addOn && unitMinor !== undefined)
      found.push({ key: `module.${key}`, description: addOn.name, quantity: 1, unitMinor });
  }
  return found.map((item) => ({ ...item, unitMinor: kept[item.key] ?? item.unitMinor }));
}

/** Returns the lines of a whole period. */
export function buildPeriodLines(items: Items, kept?: KeptPrices): InvoiceLine[] {
  return listItems(items, kept).map(({ description, quantity, unitMinor }) => ({
    description,
    quantity,
    unit_amount_minor: unitMinor,
    amount_minor: quantity * unitMinor,
    proration: false,
  }));
}

export const sumLines = (lines: readonly Pick<InvoiceLine, 'amount_minor'>[]): number =>
  lines.reduce((total, { amount_minor }) => total + amount_minor, 0);

/** Returns the remaining share of a period, from 0 to 1. */
function computeRemainingShare(
  { periodStart, periodEnd }: Pick<Subscription, 'periodStart' | 'periodEnd'>,
  now: Date,
): number {
  const length = periodEnd.getTime() - periodStart.getTime();
  const left = periodEnd.getTime() - now.getTime();
  return length <= 0 ? 0 : Math.min(1, Math.max(0, left / length));
}

/**
 * Rounds half a minor unit up for credits and charges alike, so that a credit equals the charge of
 * the same remainder.
 */
const roundShare = (amount: number, share: number): number => Math.round(amount * share) || 0;

const identity = ({ description, quantity, unitMinor }: Item): string => `${description}\n${quantity}\n${unitMinor}`;

/**
 * Returns the lines of a change within a period: credits for removed items, and charges for new
 * ones. Unchanged items have no line.
 * @param restarts true if a new whole period starts now
 * @param kept prices of a subscription that started under an older catalog
 */
export function buildChangeLines(
  before: Subscription,
  after: Subscription,
  restarts: boolean,
  now: Date,
  kept: KeptPrices = {},
): InvoiceLine[] {
  const share = computeRemainingShare(before, now);
  // Kept prices are those of the billing cycle before the change.
  const [old, fresh] = [listItems(before, kept), listItems(after, restarts ? {} : kept)];
  const stays = restarts
    ? new Set<string>()
    : new Set(old.map(identity).filter((each) => fresh.map(identity).includes(each)));
  const line = ({ description, quantity, unitMinor }: Item, prefix: string, factor: number): InvoiceLine => ({
    description: `${prefix} ${description}`,
    quantity,
    unit_amount_minor: unitMinor,
    amount_minor: Math.sign(factor) * roundShare(quantity * unitMinor, Math.abs(factor)),
    proration: true,
  });
  const credits = old.filter((item) => !stays.has(identity(item))).map((item) => line(item, 'Unused time of', -share));
  const charges = restarts
    ? buildPeriodLines(after)
    : fresh.filter((item) => !stays.has(identity(item))).map((item) => line(item, 'Remaining time of', share));
  return [...credits, ...charges].filter(({ amount_minor }) => amount_minor !== 0);
}

/** Applies the credit to the lines. @returns the lines, and the remaining credit */
export function applyCredit(lines: InvoiceLine[], creditMinor: number): { lines: InvoiceLine[]; creditMinor: number } {
  const total = sumLines(lines);
  if (total < 0) return { lines: [...lines, buildCreditLine(-total)], creditMinor: creditMinor - total };
  const used = Math.min(creditMinor, total);
  if (used === 0) return { lines, creditMinor };
  return { lines: [...lines, buildCreditLine(-used)], creditMinor: creditMinor - used };
}

/** @param amount minor units: positive if credit is kept, negative if credit is used */
export function buildCreditLine(amount: number): InvoiceLine {
  return {
    description: amount < 0 ? 'Credit from earlier' : 'Kept as credit for later invoices',
    quantity: 1,
    unit_amount_minor: amount,
    amount_minor: amount,
    proration: false,
  };
}
