// What becomes of a subscription as time passes: payments that fail, the end, and after it.
import type { Subscription, SubscriptionStatus } from './subscription.ts';

const day = 86_400_000;

/** Days after a payment failed on which it is tried again; after the last the subscription ends. */
const retryDays = [1, 3, 5, 7, 14];
/** Days that the data is kept after the end, the day of the reminder, and the days from then to the purge. */
const keptDays = 90;
const reminderDay = 83;
const graceDays = 14;

const later = (time: Date, days: number): Date => new Date(time.getTime() + days * day);

/** When the data of a subscription that ended is given up. */
export const keptUntil = (endedAt: Date): Date => later(endedAt, keptDays);

/** A subscription whose payment failed: it goes on, until it was tried for the last time. */
export function afterRefusedPayment(subscription: Subscription): Subscription {
  const { pastDueSince, chargeAttempts } = subscription;
  const since = pastDueSince ?? subscription.periodStart;
  const next = retryDays[chargeAttempts];
  if (next !== undefined)
    return { ...subscription, status: 'past_due', pastDueSince: since, dueAt: later(since, next) };
  return ended(subscription, later(since, retryDays.at(-1) ?? 0));
}

/** A subscription that has ended: nothing is served any more, and everything is kept for a time. */
export function ended(subscription: Subscription, at: Date): Subscription {
  return {
    ...subscription,
    status: 'canceled',
    endedAt: at,
    cancelAtPeriodEnd: false,
    scheduled: [],
    pastDueSince: null,
    chargeAttempts: 0,
    dueAt: later(at, reminderDay),
  };
}

/** What comes next by itself. */
export type NextStep =
  /** The payment provider has to be asked. */
  | { kind: 'operation'; action: 'renew' | 'charge_again' }
  /** Nothing but a change of state, with a mail to the administrators. */
  | { kind: 'turn'; after: Subscription; mail: BillingMail | null }
  /** Everything of the company is to be removed. */
  | { kind: 'purge' };

export type BillingMail =
  | 'trial_ended'
  | 'subscription_ended'
  | 'deletion_reminder'
  | 'deletion_scheduled'
  | 'payment_failed'
  | 'payment_succeeded';

/** What administrators are told when a provider with a calendar of its own has turned a subscription. */
export function mailOfTurn(before: SubscriptionStatus, after: SubscriptionStatus): BillingMail | null {
  if (before === 'active' && after === 'past_due') return 'payment_failed';
  if (before === 'past_due' && after === 'active') return 'payment_succeeded';
  return before !== after && after === 'canceled' ? 'subscription_ended' : null;
}

/** What is due; undefined: nothing yet. */
export function nextStep(subscription: Subscription, now: Date): NextStep | undefined {
  const { status, dueAt, endedAt, trialEndsAt, periodEnd } = subscription;
  if (dueAt === null || dueAt > now) return undefined;
  switch (status) {
    case 'trialing':
      return trialEndsAt !== null && trialEndsAt > now
        ? { kind: 'turn', after: { ...subscription, dueAt: trialEndsAt }, mail: null }
        : { kind: 'turn', after: { ...subscription, status: 'none', addOns: [], dueAt: null }, mail: 'trial_ended' };
    case 'active':
      // Whoever moved the end of the period need not have known that it is looked at here.
      if (periodEnd > now) return { kind: 'turn', after: { ...subscription, dueAt: periodEnd }, mail: null };
      if (subscription.cancelAtPeriodEnd)
        return { kind: 'turn', after: ended(subscription, periodEnd), mail: 'subscription_ended' };
      return { kind: 'operation', action: 'renew' };
    case 'past_due':
      return subscription.cancelAtPeriodEnd && periodEnd <= now
        ? { kind: 'turn', after: ended(subscription, periodEnd), mail: 'subscription_ended' }
        : { kind: 'operation', action: 'charge_again' };
    case 'canceled': {
      const until = keptUntil(endedAt ?? periodEnd);
      if (dueAt < until) return { kind: 'turn', after: { ...subscription, dueAt: until }, mail: 'deletion_reminder' };
      const after: Subscription = { ...subscription, status: 'pending_deletion', dueAt: later(until, graceDays) };
      return { kind: 'turn', after, mail: 'deletion_scheduled' };
    }
    case 'pending_deletion':
      return { kind: 'purge' };
    default:
      return { kind: 'turn', after: { ...subscription, dueAt: null }, mail: null };
  }
}
