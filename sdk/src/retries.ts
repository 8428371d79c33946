// Retries: which failures are retried, and the waits between attempts.
import { CrmError } from './errors.ts';

export interface RetryPolicy {
  /** Retries after a failed attempt. */
  retries: number;
  /** Milliseconds. A failure that requires a longer wait is thrown immediately. */
  longestWait: number;
  /** True if repeating the call is safe: it reads, is a dry run, or has an Idempotency-Key. */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

/** Runs attempts until one succeeds, fails permanently, or is the last. */
export async function withRetries<Answer>(attempt: () => Promise<Answer>, policy: RetryPolicy): Promise<Answer> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof CrmError) || failures >= policy.retries || !mayRetry(error, policy.repeatable))
        throw error;
      if ((error.retryAfter ?? 0) * 1000 > policy.longestWait) throw error;
      await sleep(computeWait(error, failures, Math.random()), policy.signal);
    }
  }
}

/** Returns true if the same call may succeed later, and repeating it is safe. */
export function mayRetry({ code, status }: CrmError, repeatable: boolean): boolean {
  // Only a larger plan or the next month helps.
  if (code === 'QUOTA_EXCEEDED') return false;
  // Rejected before anything was done.
  if (status === 429 || code === 'QUOTA_UNAVAILABLE' || code === 'IDEMPOTENCY_IN_PROGRESS') return true;
  return repeatable && (status === undefined || status >= 500);
}

/**
 * Returns the milliseconds to wait: as the response requests, or a backoff that doubles from half a
 * second to eight.
 * @param chance 0 to 1; spreads clients that failed at the same time
 */
export function computeWait({ retryAfter }: CrmError, failures: number, chance: number): number {
  const backoff = Math.min(8000, 500 * 2 ** failures) * (0.5 + chance / 2);
  return retryAfter === undefined ? backoff : retryAfter * 1000 + chance * 250;
}

/** Waits. Rejects with the reason of the signal if it is aborted. */
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
