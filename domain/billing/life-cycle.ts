// The life cycle of a subscription: failed payments, the end, reminders and deletion.
import type { Subscription, SubscriptionStatus } from './subscription.ts';

const day = 86_400_000;

/** Days after a failed payment on which it is retried. After the last one the subscription ends. */
const retryDays = [1, 3, 5, 7, 14];
/**
 * Days after the end: how long data is kept, when the reminder is sent, and the days from the
 * deletion notice to the deletion.
 */
const keptDays = 90;
const reminderDay = 83;
const graceDays = 14;

const addDays = (time: Date, days: number): Date => new Date(time.getTime() + days * day);

/** Returns until when the data of an ended subscription is kept. */
export const computeDeletionDate = (endedAt: Date): Date => addDays(endedAt, keptDays);

/** Returns the subscription after a failed payment. It continues until the last retry. */
export function applyFailedPayment(subscription: Subscription): Subscription {
  const { pastDueSince, chargeAttempts } = subscription;
  const since = pastDueSince ?? subscription.periodStart;
  const next = retryDays[chargeAttempts];
  if (next !== undefined)
    return { ...subscription, status: 'past_due', pastDueSince: since, dueAt: addDays(since, next) };
  return endSubscription(subscription, addDays(since, retryDays.at(-1) ?? 0));
}

/**
 * Returns the subscription after its end. It is no longer served, and its data is kept for a time.
 */
export function endSubscription(subscription: Subscription, at: Date): Subscription {
  return {
    ...subscription,
    status: 'canceled',
    endedAt: at,
    cancelAtPeriodEnd: false,
    scheduled: [],
    pastDueSince: null,
    chargeAttempts: 0,
    dueAt: addDays(at, reminderDay),
  };
}

/** The next time-driven step. */
export type NextStep =
  /** The payment provider must be asked. */
  | { kind: 'operation'; action: 'renew' | 'charge_again' }
  /** A change of state only, with a mail to the administrators. */
  | { kind: 'turn'; after: Subscription; mail: BillingMail | null }
  /** All data of the company must be deleted. */
  | { kind: 'purge' };

export type BillingMail =
  | 'trial_ended'
  | 'subscription_ended'
  | 'deletion_reminder'
  | 'deletion_scheduled'
  | 'payment_failed'
  | 'payment_succeeded';

/**
 * Returns the mail to administrators after a provider with its own schedule has changed the status.
 */
export function selectMail(before: SubscriptionStatus, after: SubscriptionStatus): BillingMail | null {
  if (before === 'active' && after === 'past_due') return 'payment_failed';
  if (before === 'past_due' && after === 'active') return 'payment_succeeded';
  return before !== after && after === 'canceled' ? 'subscription_ended' : null;
}

/** Returns the step that is due; undefined if none is. */
export function findNextStep(subscription: Subscription, now: Date): NextStep | undefined {
  const { status, dueAt, endedAt, trialEndsAt, periodEnd } = subscription;
  if (dueAt === null || dueAt > now) return undefined;
  switch (status) {
    case 'trialing':
      return trialEndsAt !== null && trialEndsAt > now
        ? { kind: 'turn', after: { ...subscription, dueAt: trialEndsAt }, mail: null }
        : { kind: 'turn', after: { ...subscription, status: 'none', addOns: [], dueAt: null }, mail: 'trial_ended' };
    case 'active':
      // The end of the period may have been moved without an update of `dueAt`.
      if (periodEnd > now) return { kind: 'turn', after: { ...subscription, dueAt: periodEnd }, mail: null };
      if (subscription.cancelAtPeriodEnd)
        return { kind: 'turn', after: endSubscription(subscription, periodEnd), mail: 'subscription_ended' };
      return { kind: 'operation', action: 'renew' };
    case 'past_due':
      return subscription.cancelAtPeriodEnd && periodEnd <= now
        ? { kind: 'turn', after: endSubscription(subscription, periodEnd), mail: 'subscription_ended' }
        : { kind: 'operation', action: 'charge_again' };
    case 'canceled': {
      const until = computeDeletionDate(endedAt ?? periodEnd);
      if (dueAt < until) return { kind: 'turn', after: { ...subscription, dueAt: until }, mail: 'deletion_reminder' };
      const after: Subscription = { ...subscription, status: 'pending_deletion', dueAt: addDays(until, graceDays) };
      return { kind: 'turn', after, mail: 'deletion_scheduled' };
    }
    case 'pending_deletion':
      return { kind: 'purge' };
    default:
      return { kind: 'turn', after: { ...subscription, dueAt: null }, mail: null };
  }
}
