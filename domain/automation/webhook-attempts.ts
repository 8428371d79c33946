// The retry schedule of deliveries, and what their outcomes say about the receiver's health.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/**
 * Milliseconds before each attempt. The ten live attempts take 75.6 hours, longer than a weekend.
 */
const pauses = {
  live: [
    0,
    5 * second,
    5 * minute,
    30 * minute,
    2 * hour,
    5 * hour,
    10 * hour,
    14 * hour,
    20 * hour,
    24 * hour,
  ] as readonly number[],
  test: [0, 10 * second, minute] as readonly number[],
};
/**
 * The maximum relative change of a pause, so that deliveries that failed together are not retried
 * together.
 */
const jitter = 0.1;
/** The maximum Retry-After that is honored, in milliseconds. */
const maxRetryAfter = hour;

const selectPauses = (testMode: boolean): readonly number[] => (testMode ? pauses.test : pauses.live);

export const getMaxAttempts = (testMode: boolean): number => selectPauses(testMode).length;

/** The outcome of an attempt. */
export interface AttemptOutcome {
  /** The response status; null without a response. */
  status: number | null;
  error: 'timeout' | 'dns' | 'tls' | 'connect' | 'blocked_address' | 'http_error' | null;
  retryAfter: string | undefined;
  /** The `webhook-delivery` response header. */
  wish: string | undefined;
}

/** The result for a delivery. */
export type Verdict = 'succeeded' | 'retry' | 'failed' | 'cancelled';

/** Returns true if the receiver wants no further deliveries at all. */
export function isGone({ status, wish }: AttemptOutcome): boolean {
  return status === 410 || wish === 'disable';
}

/** @param attempts including this one */
export function decideNextAttempt(outcome: AttemptOutcome, attempts: number, most: number): Verdict {
  if (outcome.wish === 'abort-message') return 'cancelled';
  if (outcome.status !== null && outcome.status >= 200 && outcome.status < 300) return 'succeeded';
  return isGone(outcome) || attempts >= most ? 'failed' : 'retry';
}

/**
 * Returns when a delivery is retried.
 * @param attempts so far
 * @param chance a random number from 0 to 1
 */
export function computeNextAttempt(
  attempts: number,
  testMode: boolean,
  { status, retryAfter }: Pick<AttemptOutcome, 'status' | 'retryAfter'>,
  now: Date,
  chance: number,
): Date {
  const asked = status === 429 || status === 503 ? parseRetryAfter(retryAfter, now) : undefined;
  if (asked !== undefined && asked <= maxRetryAfter) return new Date(now.getTime() + asked);
  const pause = selectPauses(testMode)[attempts] ?? 0;
  return new Date(now.getTime() + Math.round(pause * (1 - jitter + 2 * jitter * chance)));
}

/**
 * Returns when the next attempt is due after one whose sender crashed before it recorded the
 * outcome.
 * @returns by number of the lost attempt, from the first one; the last attempt has no successor
 */
export function computeRetriesAfterLoss(testMode: boolean, now: Date): Date[] {
  return selectPauses(testMode)
    .slice(1)
    .map((pause) => new Date(now.getTime() + pause));
}

/** Parses Retry-After, in seconds or as a date. undefined if it is neither. */
function parseRetryAfter(text: string | undefined, now: Date): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text) * second;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(at - now.getTime(), 0);
}

/** The health of a receiver since its last success. */
export interface Health {
  failingSince: Date | null;
  consecutiveFailures: number;
  exhaustedDeliveries: number;
  warnedAt: Date | null;
  probingSince: Date | null;
}

export const healthy: Health = {
  failingSince: null,
  consecutiveFailures: 0,
  exhaustedDeliveries: 0,
  warnedAt: null,
  probingSince: null,
};

/**
 * An endpoint is disabled after this many days with this many failed deliveries, or after `inARow`
 * failed deliveries over at least `apart` milliseconds.
 */
const limits = { days: 5 * day, deliveries: 10, inARow: 100, apart: 12 * hour };

export type Consequence = 'none' | 'warn' | 'disable';

/**
 * Updates the health after a failed attempt. Before an endpoint is disabled, one last attempt is
 * made after the limit is reached.
 * @param startedAt when the attempt started
 * @param isExhausted true if it was the last attempt of its delivery
 */
export function applyFailure(
  before: Health,
  { startedAt, isExhausted }: { startedAt: Date; isExhausted: boolean },
  now: Date,
): { health: Health; consequence: Consequence } {
  const failingSince = before.failingSince ?? startedAt;
  const health: Health = {
    ...before,
    failingSince,
    consecutiveFailures: before.consecutiveFailures + 1,
    exhaustedDeliveries: before.exhaustedDeliveries + (isExhausted ? 1 : 0),
  };
  const lasted = now.getTime() - failingSince.getTime();
  const isAt = (share: number): boolean =>
    (lasted >= limits.days * share && health.exhaustedDeliveries >= limits.deliveries * share) ||
    (lasted >= limits.apart * share && health.exhaustedDeliveries >= limits.inARow * share);
  if (before.probingSince && startedAt >= before.probingSince) return { health, consequence: 'disable' };
  if (isAt(1)) return { health: { ...health, probingSince: before.probingSince ?? now }, consequence: 'none' };
  if (isAt(0.5) && !before.warnedAt) return { health: { ...health, warnedAt: now }, consequence: 'warn' };
  return { health, consequence: 'none' };
}

/** Limits per subscription across all servers: requests per second, and requests in flight. */
export interface RateLimit {
  perSecond: number;
  inFlight: number;
}
/** Requests in flight by default, and for each request per second of a subscription that allows more. */
const inFlight = { min: 10, perRequest: 0.4 };
/**
 * Limits while a receiver keeps failing, until its next success. Failing requests would take
 * capacity from others.
 */
const failingRateLimit: RateLimit = { perSecond: 2, inFlight: 2 };
/** Consecutive failures after which a receiver counts as failing. */
const failingAfter = 5;

/** @param maxPerSecond the limit of the subscription */
export function selectRate(consecutiveFailures: number, maxPerSecond: number): RateLimit {
  if (consecutiveFailures >= failingAfter)
    return { ...failingRateLimit, perSecond: Math.min(failingRateLimit.perSecond, maxPerSecond) };
  return { perSecond: maxPerSecond, inFlight: Math.max(inFlight.min, Math.ceil(maxPerSecond * inFlight.perRequest)) };
}

/**
 * Returns how many more attempts may start now.
 * @param limit the limits of the subscription
 * @param recent when the latest attempts started, in milliseconds since 1970
 * @param inFlight attempts that have not ended
 * @returns `until` is set if the limit per second is reached; attempts in flight trigger the next
 * pass when they end
 */
export function computeAllowance(
  limit: RateLimit,
  recent: readonly number[],
  inFlight: number,
  now: Date,
): { free: number; until: Date | null } {
  const within = keepLastSecond(recent, now);
  const left = limit.perSecond - within.length;
  return {
    free: Math.max(Math.min(left, limit.inFlight - inFlight), 0),
    until: left <= 0 ? new Date((within.toSorted((a, b) => b - a)[limit.perSecond - 1] as number) + second) : null,
  };
}

/** Returns the attempts of the last second, including those that start now. */
export function addAttempts(recent: readonly number[], count: number, now: Date): number[] {
  return [...keepLastSecond(recent, now), ...Array.from({ length: count }, () => now.getTime())];
}

function keepLastSecond(times: readonly number[], now: Date): number[] {
  return times.filter((time) => time > now.getTime() - second);
}
