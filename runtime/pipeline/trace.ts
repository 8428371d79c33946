// What the server notes while it handles a request, for the response headers and the log line.
import type { Caller } from '../caller.ts';
import type { Charge, Quota } from '../limits/quota-leases.ts';
import { type RateFigures, refuse, type Verdict } from '../limits/rate-limits.ts';
import type { DeprecatedUse } from '../openapi/deprecation.ts';
import type { Connection } from './feed-notifier.ts';

/** Notes about one request. */
export interface Trace {
  requestId: string;
  operation: string;
  caller: Caller | undefined;
  /** True when a test key was sent, good or not. */
  testMode: boolean;
  error: string | undefined;
  /** True if failures are answered in the form of RFC 6749. */
  oauth: boolean;
  /** Of the limit that is closest to refusing; undefined as long as nothing was counted. */
  figures: RateFigures | undefined;
  /** The outcome of charging the call; undefined until it was tried. */
  quota: Quota | undefined;
  /** What the call was charged to, if it was. */
  charge: Charge | undefined;
  /** By which limits the call was counted; undefined as long as it was not. */
  countedBy: Caller['limits'] | undefined;
  /** True once the database has confirmed a caller that was authenticated from the cache. */
  confirmed: boolean;
  /** Deprecated forms that the request uses. Every response lists them in its headers. */
  deprecated: readonly DeprecatedUse[];
  /** True to end the connection after the answer. */
  leave: boolean;
  /**
   * Asks the client to send the body; undefined if the client does not wait for that, or no longer.
   */
  invite: (() => void) | undefined;
  /** Closes when the client leaves. */
  connection: Connection;
}

/** Returns the notes about a request before anything is known of it but what is given. */
export function createTrace({
  requestId,
  operation,
  caller,
  testMode,
  oauth,
  invite,
  connection,
}: Pick<Trace, 'requestId' | 'operation' | 'caller' | 'testMode' | 'oauth' | 'invite' | 'connection'>): Trace {
  return {
    requestId,
    operation,
    caller,
    testMode,
    error: undefined,
    oauth,
    figures: undefined,
    quota: undefined,
    charge: undefined,
    countedBy: undefined,
    confirmed: false,
    deprecated: [],
    leave: false,
    invite,
    connection,
  };
}

/** @throws ApiError 429 if the verdict rejects the call */
export function admit(verdict: Verdict, trace: Trace): void {
  trace.figures = verdict;
  if (!verdict.allowed) throw refuse(verdict, Date.now());
}
