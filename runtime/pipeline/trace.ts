// What is noted of a request on its way, for its answer's headers and its log line.
import type { Caller } from '../caller.ts';
import type { Charge, Quota } from '../limits/quota-leases.ts';
import { type RateFigures, refuse, type Verdict } from '../limits/rate-limits.ts';
import type { DeprecatedUse } from '../openapi/deprecation.ts';
import type { Connection } from './feed-notifier.ts';

/** What is noted of a request for its answer's headers and its log line. */
export interface Trace {
  requestId: string;
  operation: string;
  caller: Caller | undefined;
  /** True when a test key was sent, good or not. */
  testMode: boolean;
  error: string | undefined;
  /** Failures are told as RFC 6749 says. */
  oauth: boolean;
  /** Of the limit that is closest to refusing; undefined as long as nothing was counted. */
  figures: RateFigures | undefined;
  /** What became of charging the call; undefined as long as that was not tried. */
  quota: Quota | undefined;
  /** What the call was charged to, if it was. */
  charge: Charge | undefined;
  /** By which limits the call was counted; undefined as long as it was not. */
  countedBy: Caller['limits'] | undefined;
  /** True once the database said that a caller who was let in by memory still is who he was. */
  confirmed: boolean;
  /** Deprecated forms that the request uses; its answer says so, whatever it is. */
  deprecated: readonly DeprecatedUse[];
  /** True to end the connection after the answer. */
  leave: boolean;
  /**
   * Tells a client that waits for it to send the body; undefined where nobody waits, or when it was
   * told.
   */
  invite: (() => void) | undefined;
  /** Closes when the client leaves. */
  connection: Connection;
}

/** @throws ApiError 429 when the verdict refuses */
export function admit(verdict: Verdict, trace: Trace): void {
  trace.figures = verdict;
  if (!verdict.allowed) throw refuse(verdict, Date.now());
}
