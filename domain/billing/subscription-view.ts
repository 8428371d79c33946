// Converts subscriptions to API responses: seats, modules, limits and scheduled changes.
import type { components } from '../../generated/api.ts';
import { type ProviderBill, selectBill } from './bills.ts';
import { addOns, plans } from './catalogue.ts';
import { computeDeletionDate } from './life-cycle.ts';
import { computeCallsPerDay, computeCallsPerMinute, computeSeatAllowance } from './plans.ts';
import { isPaid, type ScheduledChange, type Subscription, type SubscriptionStatus } from './subscription.ts';

type Shown = Omit<components['schemas']['Subscription'], 'duplicate_subscriptions'>;

/** Limits of an agreement that override the package. */
export interface AgreedLimits {
  agreedPerMinute: number | null;
  agreedPerDay: number | null;
  agreedPerMonth: number | null;
}

const day = 86_400_000;

const billingStatuses = {
  trialing: 'TRIALING',
  active: 'ACTIVE',
  past_due: 'PAST_DUE',
  paused: 'NONE',
  canceled: 'CANCELED',
  pending_deletion: 'PENDING_DELETION',
  none: 'NONE',
} as const;

/** Converts a status to the API's smaller set. */
export function toStatus(status: SubscriptionStatus): Shown['status'] {
  if (status === 'pending_deletion') return 'canceled';
  return status === 'paused' ? 'past_due' : status;
}

/**
 * @param usedSeats active users
 * @param providerBill prices and discounts of a provider that manages subscriptions itself
 */
export function toSubscriptionResponse(
  subscription: Subscription,
  agreed: AgreedLimits,
  usedSeats: number,
  testMode: boolean,
  now: Date,
  providerBill: ProviderBill | undefined,
): Shown {
  const { trialEndsAt, periodEnd, packageCode, billingCycle, currency, cancelAtPeriodEnd, endedAt } = subscription;
  // A trial ends at its time, even before a job records it.
  const isTrialOver = subscription.status === 'trialing' && trialEndsAt !== null && trialEndsAt <= now;
  const status = isTrialOver ? 'none' : subscription.status;
  const isServed = isPaid(subscription) || status === 'trialing';
  const plan = plans[packageCode];
  const bill = selectBill(subscription, providerBill);
  const kept = bill?.prices[`plan.${packageCode}`];
  const allowance = computeSeatAllowance(packageCode, subscription.seats);
  const changes = subscription.scheduled.map((change) => toScheduledChangeResponse(change, periodEnd));
  const cancel = {
    action: 'cancel' as const,
    package_code: null,
    module_key: null,
    seats: null,
    effective: periodEnd.toISOString(),
  };
  const all = cancelAtPeriodEnd ? [cancel, ...changes] : changes;
  const downgrade = subscription.scheduled.find((change) => change.action === 'downgrade');
  return {
    status: toStatus(status),
    billing_status: billingStatuses[status],
    plan:
      status === 'none'
        ? null
        : {
            package_code: packageCode,
            name: plan?.name ?? packageCode,
            billing_cycle: billingCycle,
            // null is a valid price: as agreed.
            price_minor: kept === undefined ? (plan?.prices?.[billingCycle][currency] ?? null) : kept,
            currency,
          },
    current_period: isServed ? { start: subscription.periodStart.toISOString(), end: periodEnd.toISOString() } : null,
    cancel_at_period_end: cancelAtPeriodEnd,
    ends_at: cancelAtPeriodEnd ? periodEnd.toISOString() : (endedAt?.toISOString() ?? null),
    trial_end: trialEndsAt?.toISOString() ?? null,
    seats: {
      allowance,
      included: plan?.includedSeats ?? 0,
      purchased: subscription.seats ?? 0,
      used: usedSeats,
      available: Math.max(0, allowance - usedSeats),
    },
    modules: toModules(subscription, isServed, bill),
    discounts: bill?.discounts ?? [],
    entitlements: toEntitlements(subscription, agreed, isServed),
    scheduled_change: all[0] ?? null,
    scheduled_changes: all,
    scheduled_downgrade: downgrade
      ? { package_code: downgrade.package_code, effective: periodEnd.toISOString() }
      : null,
    agreement: {
      active: hasAgreement(subscription, now),
      ends_at: subscription.agreementEndsAt?.toISOString() ?? null,
    },
    payment_method: subscription.paymentMethod,
    dormant: endedAt && !isServed ? toDormancy(endedAt, now) : null,
    test_mode: testMode,
    updated_at: subscription.updatedAt.toISOString(),
  };
}

function hasAgreement({ hasAgreement: has, agreementEndsAt }: Subscription, now: Date): boolean {
  return has && (agreementEndsAt === null || agreementEndsAt > now);
}

function toScheduledChangeResponse(change: ScheduledChange, at: Date): Shown['scheduled_changes'][number] {
  return {
    action: change.action,
    package_code: change.action === 'downgrade' ? change.package_code : null,
    module_key: change.action === 'remove_module' ? change.module_key : null,
    seats: change.action === 'set_seats' ? change.seats : null,
    effective: at.toISOString(),
  };
}

/** Returns when a module ends, if its removal is scheduled. */
export function findModuleEnd({ scheduled, cancelAtPeriodEnd, periodEnd }: Subscription, key: string): Date | null {
  const isLeaving = scheduled.some((change) => change.action === 'remove_module' && change.module_key === key);
  return isLeaving || cancelAtPeriodEnd ? periodEnd : null;
}

/** Returns the status of a module that is included, bought or pending. */
export function findModuleStatus(subscription: Subscription, key: string): Shown['modules'][number]['status'] {
  const { packageCode, addOns: bought, pendingAddOns } = subscription;
  if (bought.includes(key)) return findModuleEnd(subscription, key) ? 'scheduled_removal' : 'active';
  if (plans[packageCode]?.addOns.includes(key)) return 'active';
  return pendingAddOns.includes(key) ? 'pending_webhook' : 'inactive';
}

function toModules(subscription: Subscription, isServed: boolean, bill: ProviderBill | undefined): Shown['modules'] {
  const { packageCode, addOns: bought, billingCycle, currency } = subscription;
  const included = plans[packageCode]?.addOns ?? [];
  return [...new Set([...included, ...bought, ...subscription.pendingAddOns])].map((key) => {
    const until = bought.includes(key) ? findModuleEnd(subscription, key) : null;
    const price = bill?.prices[`module.${key}`] ?? addOns[key]?.prices[billingCycle][currency] ?? 0;
    return {
      module_key: key,
      status: isServed ? findModuleStatus(subscription, key) : 'inactive',
      price_minor: included.includes(key) ? 0 : price,
      active_until: until?.toISOString() ?? null,
    };
  });
}

function toEntitlements(subscription: Subscription, agreed: AgreedLimits, active: boolean): Shown['entitlements'] {
  const { packageCode, addOns: bought } = subscription;
  const included = plans[packageCode]?.addOns ?? [];
  const terms = { packageCode, ...agreed };
  const planned = plans[packageCode]?.callsPerMonth ?? null;
  const extra = bought.reduce((total, key) => total + (addOns[key]?.extraCalls ?? 0), 0);
  const calls = agreed.agreedPerMonth ?? planned;
  const limit = (key: string, value: number | null, isAgreed: boolean) =>
    ({ key, type: 'limit', value, active, source: isAgreed ? 'override' : 'plan' }) as const;
  return [
    ...Object.keys(addOns).map((key) => {
      const value = included.includes(key) || bought.includes(key);
      const source = bought.includes(key) ? ('module' as const) : ('plan' as const);
      return { key: `module.${key}`, type: 'boolean' as const, value, active: active && value, source };
    }),
    limit('api_call_cap', calls === null ? null : calls + extra, agreed.agreedPerMonth !== null),
    limit('api_rate_limit_per_minute', computeCallsPerMinute(terms), agreed.agreedPerMinute !== null),
    limit('api_daily_cap', computeCallsPerDay(terms), agreed.agreedPerDay !== null),
    limit('seats', computeSeatAllowance(packageCode, subscription.seats), false),
  ];
}

function toDormancy(endedAt: Date, now: Date): NonNullable<Shown['dormant']> {
  const until = computeDeletionDate(endedAt);
  return {
    since: endedAt.toISOString(),
    data_kept_until: until.toISOString(),
    days_left: Math.max(0, Math.ceil((until.getTime() - now.getTime()) / day)),
  };
}
