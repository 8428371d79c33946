// When a call is made again, and how long to wait before.
import { CrmError } from './errors.ts';

export interface RetryPolicy {
  /** Further attempts after one that failed. */
  retries: number;
  /** Milliseconds; a failure that asks for a longer wait is thrown at once. */
  longestWait: number;
  /** True when doing it twice is the same as doing it once: it only reads, or carries an Idempotency-Key. */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

/** Runs attempts until one succeeds, fails in a way that another could not mend, or is the last. */
export async function withRetries<Answer>(attempt: () => Promise<Answer>, policy: RetryPolicy): Promise<Answer> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof CrmError) || failures >= policy.retries || !mayPass(error, policy.repeatable)) throw error;
      if ((error.retryAfter ?? 0) * 1000 > policy.longestWait) throw error;
      await sleep(waitAfter(error, failures, Math.random()), policy.signal);
    }
  }
}

/** True when the same call may pass later, and cannot have been done already or does no harm when done again. */
export function mayPass({ code, status }: CrmError, repeatable: boolean): boolean {
  // Only another plan or another month helps.
  if (code === 'QUOTA_EXCEEDED') return false;
  // Refused before anything was done.
  if (status === 429 || code === 'QUOTA_UNAVAILABLE' || code === 'IDEMPOTENCY_IN_PROGRESS') return true;
  return repeatable && (status === undefined || status >= 500);
}

/**
 * Milliseconds: what the answer asks for, or twice as long each time, from half a second up to eight.
 * @param chance 0 to 1; spreads the callers that failed together
 */
export function waitAfter({ retryAfter }: CrmError, failures: number, chance: number): number {
  const backoff = Math.min(8000, 500 * 2 ** failures) * (0.5 + chance / 2);
  return retryAfter === undefined ? backoff : retryAfter * 1000 + chance * 250;
}

/** Waits; throws the reason of the signal once that is given. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const give = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', give);
      resolve();
    }, milliseconds);
    if (signal?.aborted) give();
    else signal?.addEventListener('abort', give, { once: true });
  });
}
