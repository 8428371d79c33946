// How long tests wait for a condition: as long as a busy machine may need.
import { vi } from 'vitest';

const { waitFor, waitUntil } = vi;

/** Milliseconds. The configuration gives the same to `expect.poll`. */
const patience = { timeout: 60_000, interval: 20 };

type Options = number | { timeout?: number; interval?: number } | undefined;

const patiently = (options: Options) => ({
  ...patience,
  ...(typeof options === 'number' ? { timeout: options } : options),
});

/** Replaces vitest's default of one second. */
export const patientlyWaiting: Pick<typeof vi, 'waitFor' | 'waitUntil'> = {
  waitFor: (work, options) => waitFor(work, patiently(options)),
  waitUntil: (work, options) => waitUntil(work, patiently(options)),
};
