// Computes subscription changes: the result, the costs, and why a change is rejected.
import { addOns, type BillingCycle, billingCurrency, plans } from './catalogue.ts';
import { applyFailedPayment } from './life-cycle.ts';
import { computeSeatAllowance } from './plans.ts';
import {
  applyCredit,
  buildChangeLines,
  buildPeriodLines,
  type KeptPrices,
  type NewInvoice,
  sumLines,
} from './proration.ts';
import {
  addMonths,
  type Change,
  countMonths,
  isPaid,
  type PaymentMethod,
  type ScheduledChange,
  type Subscription,
} from './subscription.ts';

/** Why a change is rejected, with an error code of the API. */
export interface ChangeRejection {
  code: 'CONFLICT' | 'AGREEMENT_ACTIVE' | 'NO_ACTIVE_SUBSCRIPTION' | 'PREVIEW_OUTDATED';
  message: string;
  /** The reason of a conflict. */
  reason?: string;
  more?: Record<string, unknown>;
}

const conflict = (reason: string, message: string, more: Record<string, unknown> = {}): ChangeRejection => ({
  code: 'CONFLICT',
  reason,
  message,
  more,
});

const computeMonthlyPrice = (code: string): number | undefined => plans[code]?.prices?.monthly[billingCurrency];

/** Returns why a change is rejected; undefined if it is allowed. @param usedSeats active users */
export function findRejection(
  change: Change,
  subscription: Subscription,
  usedSeats: number,
  now: Date,
): ChangeRejection | undefined {
  const { hasAgreement, agreementEndsAt } = subscription;
  if (change.action === 'top_up') return undefined;
  if (hasAgreement && (agreementEndsAt === null || agreementEndsAt > now))
    return {
      code: 'AGREEMENT_ACTIVE',
      message: 'This subscription is governed by a negotiated agreement. Contact your account manager.',
    };
  if (change.action === 'subscribe') return checkExisting(subscription) ?? checkPackage(change.package_code);
  const isTrialAddOn = change.action === 'remove_module' && subscription.status === 'trialing';
  if (!isPaid(subscription) && !isTrialAddOn)
    return {
      code: 'NO_ACTIVE_SUBSCRIPTION',
      message: 'There is no subscription to change. Start a checkout with POST /v1/checkout-sessions.',
    };
  if (isOfEarlierPeriod(change, subscription))
    return {
      code: 'PREVIEW_OUTDATED',
      message: 'prorated_at is before the current period, so its amount no longer applies. Preview the change again.',
    };
  switch (change.action) {
    case 'upgrade':
      return checkPackage(change.package_code) ?? checkUpgrade(change, subscription);
    case 'downgrade':
      return checkPackage(change.package_code) ?? checkDowngrade(change.package_code, subscription, usedSeats);
    case 'add_module':
    case 'remove_module':
      return checkModule(change, subscription);
    case 'cancel':
      return subscription.cancelAtPeriodEnd
        ? conflict('already_canceled', 'This subscription is already scheduled to end with its period.')
        : undefined;
    case 'reactivate':
      return subscription.cancelAtPeriodEnd
        ? undefined
        : conflict('not_scheduled_to_end', 'This subscription is not scheduled to end, so there is nothing to undo.');
    default:
      return undefined;
  }
}

function checkExisting(subscription: Subscription): ChangeRejection | undefined {
  if (isPaid(subscription))
    return conflict('subscription_exists', 'This workspace already has a subscription. Change it instead.');
  return subscription.status === 'paused'
    ? conflict(
        'subscription_exists',
        'The subscription of this workspace is paused at the payment provider. Add a payment method with POST /v1/billing/portal-session, and ask support to resume the subscription.',
      )
    : undefined;
}

function checkPackage(code: string): ChangeRejection | undefined {
  if (computeMonthlyPrice(code) !== undefined) return undefined;
  const allowed = Object.keys(plans).filter((each) => computeMonthlyPrice(each) !== undefined);
  return conflict('package_not_configured', `package_code must be one of ${allowed.join(', ')}.`, {
    allowed,
  });
}

function checkUpgrade(
  { package_code, billing_cycle }: { package_code: string; billing_cycle: BillingCycle | null },
  subscription: Subscription,
): ChangeRejection | undefined {
  if (package_code === subscription.packageCode) {
    const isOtherCycle = billing_cycle !== null && billing_cycle !== subscription.billingCycle;
    const isAboutToLeave = subscription.scheduled.some(({ action }) => action === 'downgrade');
    return isOtherCycle || isAboutToLeave
      ? undefined
      : conflict('already_on_package', `This workspace already has the package ${package_code}.`);
  }
  const [from, to] = [computeMonthlyPrice(subscription.packageCode) ?? 0, computeMonthlyPrice(package_code) ?? 0];
  return to > from
    ? undefined
    : conflict(
        'not_an_upgrade',
        `${package_code} costs less than ${subscription.packageCode}. Use the downgrade operation.`,
      );
}

function checkDowngrade(code: string, subscription: Subscription, used: number): ChangeRejection | undefined {
  const { packageCode } = subscription;
  if (code === packageCode) return conflict('already_on_package', `This workspace already has the package ${code}.`);
  const [from, to] = [computeMonthlyPrice(packageCode) ?? Number.POSITIVE_INFINITY, computeMonthlyPrice(code) ?? 0];
  if (to > from)
    return conflict('not_a_downgrade', `${code} costs more than ${packageCode}. Use the upgrade operation.`);
  const included = plans[code]?.includedSeats ?? 0;
  return used <= included
    ? undefined
    : conflict(
        'seats_exceed_target',
        `${used} users are active, but ${code} includes ${included} seats. Deactivate users first.`,
        {
          seats_used: used,
          target_included: included,
        },
      );
}

function checkModule(
  { action, module_key }: { action: 'add_module' | 'remove_module'; module_key: string },
  { packageCode, addOns: bought, scheduled }: Subscription,
): ChangeRejection | undefined {
  if (module_key === packageCode)
    return conflict(
      'cannot_remove_last_item',
      `The module ${module_key} is the package itself. Cancel the subscription instead.`,
    );
  if (plans[packageCode]?.addOns.includes(module_key))
    return conflict(
      'module_included_in_plan',
      `The module ${module_key} is included in ${packageCode} and cannot be removed.`,
    );
  const isActive = bought.includes(module_key);
  const isLeaving = scheduled.some((each) => each.action === 'remove_module' && each.module_key === module_key);
  if (action === 'add_module' && isActive && !isLeaving)
    return conflict('module_already_active', `The module ${module_key} is already active.`);
  if (action === 'remove_module' && (!isActive || isLeaving))
    return conflict(
      'module_not_active',
      `The module ${module_key} is not active, or is already scheduled to end with the period.`,
    );
  return undefined;
}

/** The outcome of a change. */
export interface Outcome {
  after: Subscription;
  invoice: NewInvoice | null;
  /** The new status of the open invoice. */
  openInvoice?: 'paid' | 'uncollectible';
  /** The card to store. */
  card?: PaymentMethod;
  /** Minor units to add to the wallet. */
  walletMinor?: number;
  /** The completed checkout. */
  checkoutSession?: string;
}

export interface Consequence {
  /** Minor units to charge before the change takes effect; 0: none. */
  charge: number;
  paid: Outcome;
  /** The outcome if the payment is rejected; null: nothing changes. */
  refused: Outcome | null;
  applies: 'immediately' | 'period_end';
  effective: Date;
}

/** Returns true if the preview of the change was of an earlier period. Previews are of a whole second. */
function isOfEarlierPeriod(change: Change, { periodStart }: Subscription): boolean {
  if (!('prorated_at' in change) || change.prorated_at === undefined) return false;
  return Date.parse(change.prorated_at) < Math.floor(periodStart.getTime() / 1000) * 1000;
}

/** Returns the time as of which a change is prorated: not before the period, which may start within its second. */
export function findProrationTime(change: Change, { periodStart }: Subscription, now: Date): Date {
  const previewed = 'prorated_at' in change && change.prorated_at !== undefined ? new Date(change.prorated_at) : now;
  return previewed < periodStart ? periodStart : previewed;
}

/**
 * Computes the consequence of a change.
 * @param openMinor the unpaid amount of the open invoice
 * @param kept prices of a subscription that started under an older catalog
 */
export function computeConsequence(
  change: Change,
  before: Subscription,
  openMinor: number,
  now: Date,
  kept?: KeptPrices,
): Consequence {
  const { periodStart, periodEnd } = before;
  const proratedAt = findProrationTime(change, before, now);
  const atOnce = (after: Subscription, restarts = false): Consequence => {
    const { lines, creditMinor } = applyCredit(
      buildChangeLines(before, after, restarts, proratedAt, kept),
      before.creditMinor,
    );
    const invoice = buildInvoice(lines, { ...after, periodStart: restarts ? after.periodStart : periodStart });
    return {
      charge: invoice?.totalMinor ?? 0,
      paid: { after: { ...after, creditMinor }, invoice },
      refused: null,
      applies: 'immediately',
      effective: now,
    };
  };
  const free = (more: Partial<Subscription>, applies: Consequence['applies'] = 'period_end'): Consequence => ({
    charge: 0,
    paid: { after: { ...before, ...more }, invoice: null },
    refused: null,
    applies,
    effective: applies === 'immediately' ? now : periodEnd,
  });
  switch (change.action) {
    case 'subscribe':
      return computeSubscription(change, before, now);
    case 'top_up':
      return computeTopUp(change, before, now);
    case 'upgrade': {
      const cycle = change.billing_cycle ?? before.billingCycle;
      const restarts = cycle !== before.billingCycle;
      const included = plans[change.package_code]?.addOns ?? [];
      const isSame = change.package_code === before.packageCode;
      const end = restarts ? addMonths(proratedAt, countMonths(cycle)) : periodEnd;
      return atOnce(
        {
          ...before,
          packageCode: change.package_code,
          billingCycle: cycle,
          addOns: before.addOns.filter((key) => !included.includes(key)),
          // An upgrade to the current package cancels a scheduled downgrade.
          scheduled: before.scheduled.filter((each) => !(isSame && each.action === 'downgrade')),
          periodStart: restarts ? proratedAt : periodStart,
          periodEnd: end,
          dueAt: before.status === 'past_due' ? before.dueAt : end,
        },
        restarts,
      );
    }
    case 'downgrade':
      return free({
        scheduled: addScheduledChange(before, { action: 'downgrade', package_code: change.package_code }),
      });
    case 'set_seats': {
      const { seats } = change;
      const others = before.scheduled.filter(({ action }) => action !== 'set_seats');
      const isMore = seats >= computeSeatAllowance(before.packageCode, before.seats);
      return isMore
        ? atOnce({ ...before, seats, scheduled: others })
        : free({ scheduled: addScheduledChange(before, { action: 'set_seats', seats }) });
    }
    case 'add_module': {
      const { module_key } = change;
      const scheduled = before.scheduled.filter(
        (each) => !(each.action === 'remove_module' && each.module_key === module_key),
      );
      const bought = before.addOns.includes(module_key) ? before.addOns : [...before.addOns, module_key];
      return atOnce({ ...before, addOns: bought, scheduled });
    }
    case 'remove_module': {
      const { module_key } = change;
      if (before.status === 'trialing')
        return free({ addOns: before.addOns.filter((key) => key !== module_key) }, 'immediately');
      return free({ scheduled: addScheduledChange(before, { action: 'remove_module', module_key }) });
    }
    case 'cancel':
      return free({ cancelAtPeriodEnd: true });
    case 'reactivate':
      return free({ cancelAtPeriodEnd: false }, 'immediately');
    case 'renew':
      return computeRenewal(before);
    case 'charge_again':
      return computeRetry(before, openMinor, now);
  }
}

function computeTopUp(
  { amount_minor, card, checkout_session }: Extract<Change, { action: 'top_up' }>,
  before: Subscription,
  now: Date,
): Consequence {
  const line = { description: 'Wallet top-up', quantity: 1, unit_amount_minor: amount_minor, amount_minor };
  const invoice: NewInvoice = {
    kind: 'wallet_topup',
    currency: before.currency,
    totalMinor: amount_minor,
    periodStart: now,
    periodEnd: now,
    lines: [{ ...line, proration: false }],
  };
  return {
    charge: amount_minor,
    paid: { after: before, invoice, card, walletMinor: amount_minor, checkoutSession: checkout_session },
    refused: null,
    applies: 'immediately',
    effective: now,
  };
}

function computeSubscription(
  { package_code, billing_cycle, seats, card, checkout_session }: Extract<Change, { action: 'subscribe' }>,
  before: Subscription,
  now: Date,
): Consequence {
  const periodEnd = addMonths(now, countMonths(billing_cycle));
  const after: Subscription = {
    ...before,
    status: 'active',
    packageCode: package_code,
    billingCycle: billing_cycle,
    currency: billingCurrency,
    seats,
    addOns: [],
    pendingAddOns: [],
    trialEndsAt: null,
    periodStart: now,
    periodEnd,
    cancelAtPeriodEnd: false,
    scheduled: [],
    endedAt: null,
    pastDueSince: null,
    chargeAttempts: 0,
    dueAt: periodEnd,
  };
  const { lines, creditMinor } = applyCredit(buildPeriodLines(after), before.creditMinor);
  const invoice = buildInvoice(lines, after);
  return {
    charge: invoice?.totalMinor ?? 0,
    paid: { after: { ...after, creditMinor }, invoice, card, checkoutSession: checkout_session },
    refused: null,
    applies: 'immediately',
    effective: now,
  };
}

/** Returns the scheduled changes with one more, which replaces a similar one. */
function addScheduledChange({ scheduled }: Subscription, change: ScheduledChange): readonly ScheduledChange[] {
  const isLike = (other: ScheduledChange): boolean =>
    other.action === change.action &&
    (change.action !== 'remove_module' || (other as typeof change).module_key === change.module_key);
  return [...scheduled.filter((each) => !isLike(each)), change];
}

/** Returns the subscription of the next period, with all scheduled changes applied. */
export function buildNextPeriod(before: Subscription): Subscription {
  let { packageCode, seats, addOns: bought } = before;
  for (const change of before.scheduled) {
    if (change.action === 'downgrade') packageCode = change.package_code;
    if (change.action === 'set_seats') seats = change.seats;
    if (change.action === 'remove_module') bought = bought.filter((key) => key !== change.module_key);
  }
  const included = plans[packageCode]?.addOns ?? [];
  const periodEnd = addMonths(before.periodEnd, countMonths(before.billingCycle));
  return {
    ...before,
    packageCode,
    seats,
    addOns: bought.filter((key) => !included.includes(key)),
    scheduled: [],
    periodStart: before.periodEnd,
    periodEnd,
    dueAt: periodEnd,
  };
}

function computeRenewal(before: Subscription): Consequence {
  const { periodEnd } = before;
  const next = buildNextPeriod(before);
  const { lines, creditMinor } = applyCredit(buildPeriodLines(next), before.creditMinor);
  const invoice = buildInvoice(lines, next);
  const after = { ...next, creditMinor };
  return {
    charge: invoice?.totalMinor ?? 0,
    paid: { after, invoice },
    refused: { after: applyFailedPayment({ ...after, pastDueSince: periodEnd, chargeAttempts: 0 }), invoice },
    applies: 'immediately',
    effective: periodEnd,
  };
}

function computeRetry(before: Subscription, openMinor: number, now: Date): Consequence {
  const after: Subscription = {
    ...before,
    status: 'active',
    pastDueSince: null,
    chargeAttempts: 0,
    dueAt: before.periodEnd,
  };
  const refused = applyFailedPayment({ ...before, chargeAttempts: before.chargeAttempts + 1 });
  return {
    charge: openMinor,
    paid: { after, invoice: null, openInvoice: 'paid' },
    refused: {
      after: refused,
      invoice: null,
      ...(refused.status === 'canceled' ? { openInvoice: 'uncollectible' as const } : {}),
    },
    applies: 'immediately',
    effective: now,
  };
}

function buildInvoice(
  lines: NewInvoice['lines'],
  { currency, periodStart, periodEnd }: Pick<Subscription, 'currency' | 'periodStart' | 'periodEnd'>,
): NewInvoice | null {
  if (lines.length === 0) return null;
  return { kind: 'subscription', currency, totalMinor: sumLines(lines), periodStart, periodEnd, lines };
}

/** Returns true if the key is a module that can be bought. */
export const isAddOn = (key: string): boolean => Object.hasOwn(addOns, key);
