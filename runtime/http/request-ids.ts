// Request ids contain their time, which the audit log uses to find what a request did.
import { randomUUIDv7 } from 'node:crypto';

/**
 * Returns a new UUID version 7. Ids of the same millisecond are unordered. The ordered ones of the
 * `uuid` package take ten times as long.
 */
export const newRequestId = (): string => randomUUIDv7();
