// When the jobs of imports and reverts, which work in chunks, lease, wait and retry.

/** Milliseconds for which the work is leased, longer than a chunk takes. */
export const leaseMs = 15_000;
/** Milliseconds after which work that waits for others is looked at again. */
export const waitMs = 500;
/** Milliseconds before a failed chunk is tried again, times the number of failures. */
export const retryMs = 1000;
/** Consecutive failures of a chunk after which the work fails. */
export const mostAttempts = 6;
