// Ids of requests: each tells its time, by which the audit log finds what the request did.
import { randomUUIDv7 } from 'node:crypto';

/** Returns a new UUID of version 7. Ids of one millisecond are in no order, unlike those of `uuid`, which cost ten times as much. */
export const newRequestId = (): string => randomUUIDv7();
