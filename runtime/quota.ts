// The monthly quota's verdict over a call, and the alarm when the quota cannot be asked.
import { accessOf } from '../domain/plans.ts';
import { ApiError } from './errors.ts';
import { type Log, raiseAlert } from './log.ts';
import type { Quota, SubscriptionRecord } from './store.ts';

/**
 * Lets a call pass that its company's subscription pays for.
 * @param quota undefined in test mode, whose calls are free
 * @throws ApiError 402 without a subscription, 429 when the calls of the month are used up; both with the X-Quota headers
 */
export function admitToQuota(subscription: SubscriptionRecord, quota: Quota | undefined, now: Date): void {
  const access = accessOf(subscription.subscriptionStatus, subscription.trialEndsAt, now);
  if (access !== 'open') {
    const message =
      access === 'no_subscription'
        ? 'This workspace has no subscription. Choose a plan to use the API.'
        : "This workspace's subscription has ended. Choose a plan to use the API again.";
    throw refusal(402, message, { limit: 0, used: 0, remaining: 0, reset: null, reason: access });
  }
  if (!quota || quota.charged || quota.limit === null) return;
  const { limit } = quota;
  const seconds = Math.max(1, Math.ceil((quota.monthEnd.getTime() - now.getTime()) / 1000));
  throw refusal(
    429,
    `The ${limit} calls of this month are used up. A higher plan, or the next month, makes room.`,
    { limit, used: limit, remaining: 0, reset: quota.monthEnd.getTime(), reason: 'monthly_cap' },
    { 'retry-after': String(seconds) },
  );
}

interface QuotaDetails extends Record<string, unknown> {
  limit: number;
  used: number;
  remaining: 0;
  reset: number | null;
  reason: string;
}

function refusal(status: 402 | 429, message: string, details: QuotaDetails, headers: Record<string, string> = {}) {
  return new ApiError('QUOTA_EXCEEDED', message, details, {
    status,
    headers: {
      ...headers,
      'x-quota-limit': String(details.limit),
      'x-quota-used': String(details.used),
      'x-quota-remaining': '0',
    },
  });
}

/** What was charged for several calls of a company at once; null where there was nothing to charge. */
interface ChargedTogether {
  charged: number | null;
  limit: number | null;
  monthStart: Date | null;
  monthEnd: Date | null;
}

/** Makes a function that gives each of several calls its share of what was charged for them together, in the order they came. */
export function shareOut(): (companyId: string, together: ChargedTogether) => Quota | undefined {
  const left = new Map<string, number>();
  return (companyId, { charged, limit, monthStart, monthEnd }) => {
    if (charged === null || monthStart === null || monthEnd === null) return undefined;
    const rest = left.get(companyId) ?? charged;
    left.set(companyId, rest - 1);
    return { companyId, charged: rest > 0, limit, monthStart, monthEnd };
  };
}

/** Raises one alarm per outage: what must not be counted is not let through, so that an outage stops every tenant. */
export class QuotaAlarm {
  readonly #log: Log;
  #raised = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Notes that the quota could not be asked. @returns what to answer with */
  raise(): ApiError {
    if (!this.#raised) {
      this.#raised = true;
      raiseAlert(
        this.#log,
        'api_quota_unavailable',
        'the monthly quota cannot be charged: calls with a credential are refused until it can',
      );
    }
    return new ApiError('QUOTA_UNAVAILABLE', 'Calls cannot be counted for the moment. Try again shortly.', undefined, {
      headers: { 'retry-after': '1' },
    });
  }

  /** Notes that the quota was asked. */
  clear(): void {
    if (!this.#raised) return;
    this.#raised = false;
    this.#log.info({ alert: 'api_quota_unavailable', severity: 'resolved' }, 'the monthly quota is charged again');
  }
}
