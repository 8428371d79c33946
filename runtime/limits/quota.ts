// Admits calls by the monthly quota, and raises an alert while the quota is unavailable.
import type { Subscription } from '../credentials/credential-store.ts';
import { ApiError } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';
import { type Log, raiseAlert } from '../telemetry/log.ts';
import type { Quota } from './quota-leases.ts';
import type { QuotaFigures } from './quota-ledger.ts';

/**
 * Admits a call if the company's subscription covers it.
 * @param subscription undefined for users in the console, whose calls are not counted
 * @param quota undefined in test mode, whose calls are free
 * @param lastPeriod returns the figures of the ended subscription; undefined if there never was one
 * @throws ApiError 402 without a subscription, 429 if the month's quota is used up; both with the
 * X-Quota headers
 */
export async function admitToQuota(
  { unpaid }: Pick<Operation, 'unpaid'>,
  subscription: Pick<Subscription, 'access'> | undefined,
  quota: Quota | undefined,
  lastPeriod: () => Promise<QuotaFigures | undefined>,
  now: Date,
): Promise<void> {
  const access = subscription?.access;
  if (access === undefined || (unpaid && access !== 'open')) return;
  if (access !== 'open') {
    const message =
      access === 'no_subscription'
        ? 'This workspace has no subscription. Choose a plan to use the API.'
        : "This workspace's subscription has ended. Choose a plan to use the API again.";
    const { limit, used } = (await lastPeriod()) ?? { limit: 0, used: 0 };
    throw refusal(402, message, { limit, used, remaining: 0, reset: null, reason: access });
  }
  if (!quota || quota.charged || quota.limit === null) return;
  const { limit } = quota;
  const reset = quota.monthEnd.getTime();
  const seconds = Math.max(1, Math.ceil((reset - now.getTime()) / 1000));
  throw refusal(
    429,
    `The monthly quota of ${limit} calls is used up. Choose a larger plan, or wait for the next month.`,
    { limit, used: limit, remaining: 0, reset, retry_after: seconds, reason: 'monthly_cap' },
    { 'retry-after': String(seconds) },
  );
}

interface QuotaDetails extends Record<string, unknown> {
  /** null: unlimited. */
  limit: number | null;
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
      'x-quota-limit': String(details.limit ?? 'unlimited'),
      'x-quota-used': String(details.used),
      'x-quota-remaining': '0',
    },
  });
}

/**
 * Raises one alert per outage. Calls that cannot be counted are rejected, so an outage stops every
 * tenant.
 */
export class QuotaAlarm {
  readonly #log: Log;
  #raised = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Records that the quota is unavailable.
   * @returns the error to send
   */
  raise(): ApiError {
    if (!this.#raised) {
      this.#raised = true;
      raiseAlert(this.#log, 'api_quota_unavailable', 'monthly quota unavailable: authenticated requests are rejected');
    }
    return new ApiError(
      'QUOTA_UNAVAILABLE',
      'The monthly quota is temporarily unavailable. Try again shortly.',
      undefined,
      {
        headers: { 'retry-after': '1' },
      },
    );
  }

  /** Records that the quota is available. */
  clear(): void {
    if (!this.#raised) return;
    this.#raised = false;
    this.#log.info({ alert: 'api_quota_unavailable', severity: 'resolved' }, 'monthly quota available again');
  }
}
