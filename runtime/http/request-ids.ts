// Ids of requests: each tells its time, by which the audit log finds what the request did.
import { v7 } from 'uuid';

/** A new id. */
export const newRequestId = (): string => v7();
