// When a delivery is tried, how often, and what its outcome says about the receiver.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Milliseconds in front of each attempt. Ten of them over 75.6 hours outlast a weekend. */
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
/** The share of a pause by which it is made shorter or longer, so that what failed together is not tried together. */
const jitter = 0.1;
/** The longest pause that a receiver may ask for. */
const mostRetryAfter = hour;

const pausesOf = (testMode: boolean): readonly number[] => (testMode ? pauses.test : pauses.live);

export const maxAttempts = (testMode: boolean): number => pausesOf(testMode).length;

/** What an attempt brought. */
export interface AttemptOutcome {
  /** Of the answer; null where none came. */
  status: number | null;
  error: 'timeout' | 'dns' | 'tls' | 'connect' | 'blocked_address' | 'http_error' | null;
  retryAfter: string | undefined;
  /** The header `webhook-delivery` of the answer. */
  wish: string | undefined;
}

/** What becomes of a delivery. */
export type Verdict = 'succeeded' | 'retry' | 'failed' | 'cancelled';

/** Whether the receiver wants no more of all. */
export function isGone({ status, wish }: AttemptOutcome): boolean {
  return status === 410 || wish === 'disable';
}

/** @param attempts this one included */
export function verdictOf(outcome: AttemptOutcome, attempts: number, most: number): Verdict {
  if (outcome.wish === 'abort-message') return 'cancelled';
  if (outcome.status !== null && outcome.status >= 200 && outcome.status < 300) return 'succeeded';
  return isGone(outcome) || attempts >= most ? 'failed' : 'retry';
}

/**
 * When a delivery is tried again.
 * @param attempts so far
 * @param chance from 0 to 1
 */
export function nextAttemptAt(
  attempts: number,
  testMode: boolean,
  { status, retryAfter }: Pick<AttemptOutcome, 'status' | 'retryAfter'>,
  now: Date,
  chance: number,
): Date {
  const asked = status === 429 || status === 503 ? millisecondsOf(retryAfter, now) : undefined;
  if (asked !== undefined && asked <= mostRetryAfter) return new Date(now.getTime() + asked);
  const pause = pausesOf(testMode)[attempts] ?? 0;
  return new Date(now.getTime() + Math.round(pause * (1 - jitter + 2 * jitter * chance)));
}

/**
 * When the next attempt is due after one whose sender died before it reported an outcome.
 * @returns by the number of the lost attempt, from the first one on; nothing follows the last
 */
export function retriesAfterLoss(testMode: boolean, now: Date): Date[] {
  return pausesOf(testMode)
    .slice(1)
    .map((pause) => new Date(now.getTime() + pause));
}

/** What Retry-After says: seconds or a date; undefined for what is neither. */
function millisecondsOf(text: string | undefined, now: Date): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text) * second;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(at - now.getTime(), 0);
}

/** What is kept about a receiver since it last took something. */
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

/** A receiver is given up after as many days with so many deliveries given up, or after so many of these in a row. */
const limits = { days: 5 * day, deliveries: 10, inARow: 100, apart: 12 * hour };

export type Consequence = 'none' | 'warn' | 'disable';

/**
 * What a failed attempt says about its receiver. Before it is given up, one more attempt that begins after that is its last chance.
 * @param startedAt when the attempt began
 * @param isExhausted the delivery was given up with it
 */
export function afterFailure(
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

/** Of one subscription, whichever servers send to it: requests in a second, and on their way at once. */
export const pace = { perSecond: 25, inFlight: 10 };
/** Of one whose receiver has failed many times in a row, until it takes something: what is sent in vain is sent instead of something else. */
const failingPace = { perSecond: 2, inFlight: 2 };
/** Failures in a row after which a receiver counts as failing. */
const manyFailures = 5;

export const paceOf = (consecutiveFailures: number): typeof pace =>
  consecutiveFailures >= manyFailures ? failingPace : pace;

/**
 * How many more attempts may begin now.
 * @param limit how many may
 * @param recent when the latest began, in milliseconds since 1970
 * @param inFlight how many have not ended
 * @returns until when none may, where the second is full; what is in flight says itself when it ends
 */
export function allowance(
  limit: typeof pace,
  recent: readonly number[],
  inFlight: number,
  now: Date,
): { free: number; until: Date | null } {
  const within = ofLastSecond(recent, now);
  const left = limit.perSecond - within.length;
  return {
    free: Math.max(Math.min(left, limit.inFlight - inFlight), 0),
    until: left <= 0 ? new Date((within.toSorted((a, b) => b - a)[limit.perSecond - 1] as number) + second) : null,
  };
}

/** The attempts of the last second, with those that begin now. */
export function withAttempts(recent: readonly number[], count: number, now: Date): number[] {
  return [...ofLastSecond(recent, now), ...Array.from({ length: count }, () => now.getTime())];
}

function ofLastSecond(times: readonly number[], now: Date): number[] {
  return times.filter((time) => time > now.getTime() - second);
}
