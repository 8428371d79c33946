// Billing of the demo workspace in test mode, with the values of the document's examples.
import { buildPeriodLines, sumLines } from '../billing/proration.ts';
import { addMonths, buildShadowSubscription } from '../billing/subscription.ts';
import { exampleIds } from './ids.ts';

const day = 86_400_000;

export function buildDemoBilling(now: Date) {
  const periodStart = new Date(now.getTime() - 10 * day);
  const subscription = { ...buildShadowSubscription(periodStart, now), addOns: ['workforces'] };
  const lines = buildPeriodLines(subscription);
  return {
    packageCode: subscription.packageCode,
    addOn: 'workforces',
    periodStart,
    periodEnd: addMonths(periodStart, 1),
    card: subscription.paymentMethod ?? {},
    invoice: { id: exampleIds.invoice, number: 'INV-000001', totalMinor: sumLines(lines), lines },
    checkout: {
      id: exampleIds.checkoutSession,
      url: 'http://127.0.0.1:8080/checkout',
      expiresAt: new Date(periodStart.getTime() + day),
    },
  };
}
