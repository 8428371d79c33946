// Determines how far an operation got at Stripe, and whether the subscription changed meanwhile.
import { isDeepStrictEqual } from 'node:util';
import type Stripe from 'stripe';
import { buildNextPeriod } from '../../domain/billing/changes.ts';
import type { BillingOperation } from '../../domain/billing/provider.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import { readTerms } from './projection.ts';
import { findSchedule } from './state.ts';

export type Progress =
  /** The subscription is as it was when the operation was created. */
  | { kind: 'not_started' }
  /**
   * The change has been made.
   * @property target the subscription to schedule; null: the schedule is correct
   */
  | { kind: 'applied'; target: Subscription | null }
  /**
   * The subscription was changed by something else.
   * @property restore what an earlier attempt removed from the schedule
   */
  | { kind: 'moved_on'; restore: Subscription | null };

/**
 * Compares the subscription at Stripe with the one from which the operation was computed.
 * @param live fetched for this attempt
 * @param target the subscription after the operation
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
 * A change releases the schedule while it changes the items. If the server crashed in between, or
 * the period ended, only this function restores it.
 * @param wanted has the scheduled changes
 * @returns the present subscription with the scheduled changes; null if the schedule exists, has
 * taken effect, or was never needed
 */
function withLostSchedule(live: Stripe.Subscription, present: Subscription, wanted: Subscription): Subscription | null {
  if (wanted.scheduled.length === 0 || findSchedule(live)?.status === 'active') return null;
  if (hasTurned(present, wanted) && hasSameItems(present, buildNextPeriod(wanted))) return null;
  return { ...present, scheduled: wanted.scheduled, cancelAtPeriodEnd: wanted.cancelAtPeriodEnd };
}

const hasTurned = (present: Subscription, before: Subscription): boolean => present.periodStart >= before.periodEnd;

/** Returns true if both pay for the same items. */
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
