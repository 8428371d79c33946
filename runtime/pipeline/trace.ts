// State of a request for its response headers and log line.
import type { Caller } from '../caller.ts';
import type { ApiError } from '../errors.ts';
import type { Charge, Quota } from '../limits/quota-leases.ts';
import { type LimitDecision, type RateFigures, toRateLimitError } from '../limits/rate-limits.ts';
import type { DeprecatedUse } from '../openapi/deprecation.ts';
import type { Connection } from './feed-notifier.ts';

/** How a request ends if it is not answered immediately. */
export interface FaultyEnd {
  /** Milliseconds between the result and the answer. */
  delay: number;
  /** False to close the connection instead of sending the answer. */
  isAnswered: boolean;
}

/** The state of one request. */
export interface Trace {
  requestId: string;
  operation: string;
  caller: Caller | undefined;
  /** The caller of a key that exists but was rejected: revoked, expired, or from another address. */
  rejectedCaller: Caller | undefined;
  /** The body as it was sent, for the request log; undefined if it must not be stored. */
  body: Buffer | undefined;
  /** True if a test key was sent, valid or not. */
  testMode: boolean;
  error: string | undefined;
  /** The error that was last reported to the caller. */
  failure: ApiError | undefined;
  /** True if the client sent `Dry-Run: true`, to any route. */
  dryRun: boolean;
  /** True if errors have the format of RFC 6749. */
  oauth: boolean;
  /**
   * The figures of the limit that the caller is closest to hitting; undefined until something is
   * counted.
   */
  figures: RateFigures | undefined;
  /** The result of charging the call; undefined until it was tried. */
  quota: Quota | undefined;
  /** The month that the call was charged to, if it was. */
  charge: Charge | undefined;
  /** The limits that counted the call; undefined until it is counted. */
  countedBy: Caller['limits'] | undefined;
  /** True after the database confirmed a caller from the cache. */
  confirmed: boolean;
  /** Deprecated forms that the request uses. Every response lists them in its headers. */
  deprecated: readonly DeprecatedUse[];
  /** How the request ends, if its Test-Fault delays or drops the answer. */
  faultyEnd: FaultyEnd | undefined;
  /** True to end the connection after the response. */
  leave: boolean;
  /**
   * Asks the client to send the body; undefined if the client does not wait for that, or no longer.
   */
  invite: (() => void) | undefined;
  /** Emits close if the client disconnects. */
  connection: Connection;
}

/** Returns the initial state of a request. */
export function createTrace({
  requestId,
  operation,
  caller,
  testMode,
  dryRun,
  oauth,
  invite,
  connection,
}: Pick<
  Trace,
  'requestId' | 'operation' | 'caller' | 'testMode' | 'dryRun' | 'oauth' | 'invite' | 'connection'
>): Trace {
  return {
    requestId,
    operation,
    caller,
    rejectedCaller: undefined,
    body: undefined,
    testMode,
    error: undefined,
    failure: undefined,
    dryRun,
    oauth,
    figures: undefined,
    quota: undefined,
    charge: undefined,
    countedBy: undefined,
    confirmed: false,
    deprecated: [],
    faultyEnd: undefined,
    leave: false,
    invite,
    connection,
  };
}

/** @throws ApiError 429 if the verdict rejects the call */
export function admit(verdict: LimitDecision, trace: Trace): void {
  trace.figures = verdict;
  if (!verdict.allowed) throw toRateLimitError(verdict, Date.now());
}
