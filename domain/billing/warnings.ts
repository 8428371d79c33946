// Warnings about unexpected effects of a subscription change.
import type { components } from '../../generated/api.ts';
import { type ProviderBill, selectBill } from './bills.ts';
import { plans } from './catalogue.ts';
import { buildNextPeriod } from './changes.ts';
import { formatMoney } from './money.ts';
import { buildPeriodLines, countExtraSeats, listItems, sumLines } from './proration.ts';
import type { Subscription } from './subscription.ts';

type ChangeWarning = components['schemas']['ChangeWarning'];

/**
 * Finds unexpected effects at the end of the period. A smaller plan includes fewer seats, and the
 * additional seats can cost more than the plan saves.
 */
export function findWarnings(subscription: Subscription, providerBill: ProviderBill | undefined): ChangeWarning[] {
  const { scheduled, cancelAtPeriodEnd, currency } = subscription;
  if (cancelAtPeriodEnd || !scheduled.some(({ action }) => action === 'downgrade')) return [];
  const prices = selectBill(subscription, providerBill)?.prices;
  const next = buildNextPeriod(subscription);
  const current_period_minor = sumLines(buildPeriodLines(subscription, prices));
  const next_period_minor = sumLines(buildPeriodLines(next, prices));
  if (next_period_minor <= current_period_minor) return [];
  const { name = next.packageCode, includedSeats = 0 } = plans[next.packageCode] ?? {};
  const seatPrice = listItems(next, prices).find(({ key }) => key.startsWith('seats.'))?.unitMinor ?? 0;
  const amounts = `${formatMoney(next_period_minor, currency)} instead of ${formatMoney(current_period_minor, currency)}`;
  const seats = `${name} includes ${includedSeats} seats, and each of the ${countExtraSeats(next)} additional seats costs ${formatMoney(seatPrice, currency)}`;
  return [
    {
      code: 'raises_bill',
      message: `This downgrade raises the bill. From the next period on it is ${amounts}. ${seats}. Reduce the seats to pay less, or upgrade to ${subscription.packageCode} to keep it.`,
      details: { current_period_minor, next_period_minor, currency },
    },
  ];
}
