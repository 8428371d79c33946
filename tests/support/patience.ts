// How long tests wait for a condition: as long as a busy machine may need.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, vi } from 'vitest';

const { waitFor, waitUntil } = vi;
const { poll } = expect;

/** Milliseconds. The configuration gives the same to `expect.poll`. */
const patience = { timeout: 60_000, interval: 20 };

type Options = number | { timeout?: number; interval?: number } | undefined;

const patiently = (options: Options) => ({
  ...patience,
  ...(typeof options === 'number' ? { timeout: options } : options),
});

/** Milliseconds between two checks of a condition, however long the wait. */
const longestPauseMs = 250;

/**
 * Returns a check that pauses for a tenth of the time waited so far. Most checks are requests, and
 * fifty of them in a second would take the processor from what the test waits for.
 */
function pace<T>(check: () => T | Promise<T>): () => T | Promise<T> {
  const startedAt = performance.now();
  return () => {
    const pauseMs = Math.min((performance.now() - startedAt) / 10, longestPauseMs) - patience.interval;
    return pauseMs > 0 ? sleep(pauseMs).then(check) : check();
  };
}

/** Replaces vitest's default of one second. */
export const patientlyWaiting: Pick<typeof vi, 'waitFor' | 'waitUntil'> = {
  waitFor: (work, options) => waitFor(pace(work), patiently(options)),
  waitUntil: (work, options) => waitUntil(pace(work), patiently(options)),
};

export const patientlyPolling: Pick<typeof expect, 'poll'> = { poll: (work, options) => poll(pace(work), options) };
