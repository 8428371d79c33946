// How far an operation has come at Stripe, and whether the subscription there has moved on.
import { isDeepStrictEqual } from 'node:util';
import type Stripe from 'stripe';
import { nextPeriod } from '../../domain/billing/changes.ts';
import type { BillingOperation } from '../../domain/billing/provider.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import { readTerms } from './projection.ts';
import { scheduleOf } from './state.ts';

export type Progress =
  /** The subscription is as it was when the operation was made. */
  | { kind: 'not_started' }
  /** The change has been made. @property target what the schedule has to say; null: it is as it has to be */
  | { kind: 'applied'; target: Subscription | null }
  /** The subscription has changed, and the operation did not do it. @property restore what an earlier try took off the schedule */
  | { kind: 'moved_on'; restore: Subscription | null };

/**
 * Compares the subscription at Stripe with what the operation was computed from.
 * @param live fetched for this try
 * @param target what the operation makes of the subscription
 */
export function findProgress(operation: BillingOperation, live: Stripe.Subscription, target: Subscription): Progress {
  const { subscription: base, attempt } = operation;
  const present: Subscription = { ...base, ...readTerms(live) };
  if (attempt === 1) return hasSameTerms(present, base) ? { kind: 'not_started' } : { kind: 'moved_on', restore: null };
  const isApplied =
    live.metadata.operation_id === operation.id || (!hasSameItems(base, target) && hasSameItems(present, target));
  const lost = withLostSchedule(live, present, isApplied ? target : base);
  if (isApplied) {
    const { scheduled, cancelAtPeriodEnd } = target;
    const kept = hasTurned(present, base) ? null : { ...present, scheduled, cancelAtPeriodEnd };
    return { kind: 'applied', target: lost ?? kept };
  }
  return hasSameTerms(lost ?? present, base) ? { kind: 'not_started' } : { kind: 'moved_on', restore: lost };
}

/**
 * A change takes the schedule off while it changes the items. If its server died in between, or the period ended, nothing else would
 * put it back.
 * @param wanted has what was scheduled
 * @returns the present subscription with what was scheduled; null if the schedule is there, has taken effect, or was never needed
 */
function withLostSchedule(live: Stripe.Subscription, present: Subscription, wanted: Subscription): Subscription | null {
  if (wanted.scheduled.length === 0 || scheduleOf(live)?.status === 'active') return null;
  if (hasTurned(present, wanted) && hasSameItems(present, nextPeriod(wanted))) return null;
  return { ...present, scheduled: wanted.scheduled, cancelAtPeriodEnd: wanted.cancelAtPeriodEnd };
}

const hasTurned = (present: Subscription, before: Subscription): boolean => present.periodStart >= before.periodEnd;

/** True if the same is paid for. */
function hasSameItems(one: Subscription, other: Subscription): boolean {
  return (
    one.packageCode === other.packageCode &&
    one.billingCycle === other.billingCycle &&
    one.seats === other.seats &&
    isDeepStrictEqual(one.addOns.toSorted(), other.addOns.toSorted())
  );
}

function hasSameTerms(one: Subscription, other: Subscription): boolean {
  return (
    hasSameItems(one, other) &&
    one.periodStart.getTime() === other.periodStart.getTime() &&
    one.periodEnd.getTime() === other.periodEnd.getTime() &&
    one.cancelAtPeriodEnd === other.cancelAtPeriodEnd &&
    isDeepStrictEqual(one.scheduled, other.scheduled)
  );
}
