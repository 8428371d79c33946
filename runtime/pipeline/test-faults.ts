// The header Test-Fault: makes a call of a test key fail, so that clients can test their retries.
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../caller.ts';
import { ApiError, buildProblem, type FieldProblem, serviceUnavailable, validationFailed } from '../errors.ts';
import { type RateFigures, toRateLimitError } from '../limits/rate-limits.ts';
import type { FaultyEnd, Trace } from './trace.ts';

const testFaultHeader = 'test-fault';

/** Milliseconds for which `timeout` leaves a request without an answer. */
const silence = 30_000;
/** Milliseconds until a call rejected by `429` may be repeated. */
const pause = 1000;

/** The effect of each value of the header before the operation runs. */
const faults: Readonly<Record<string, (trace: Trace, figures: RateFigures) => void>> = {
  429: (trace, { limit }) => {
    const now = Date.now();
    trace.figures = { limit, remaining: 0, reset: now + pause };
    throw toRateLimitError(trace.figures, now);
  },
  503: () => {
    throw serviceUnavailable();
  },
  timeout: (trace) => {
    trace.faultyEnd = { delay: silence, isAnswered: false };
    throw serviceUnavailable();
  },
  drop_after_commit: (trace) => {
    trace.faultyEnd = { delay: 0, isAnswered: false };
  },
  slow_2000: (trace) => {
    trace.faultyEnd = { delay: 2000, isAnswered: true };
  },
};

/** Returns true if a request has the header, with any value. */
export function asksForFault({ headers }: IncomingMessage): boolean {
  return headers[testFaultHeader] !== undefined;
}

/**
 * Makes the fault that a request asks for, or arranges it for the end of the request.
 * @param caller was looked up, so that a revoked key gets its own error
 * @throws ApiError the fault; 400 for an unknown value; 403 for other credentials than test keys: a
 * fault must never lose a live write
 */
export function makeFault({ headers }: IncomingMessage, caller: Caller, figures: RateFigures, trace: Trace): void {
  if (caller.kind === 'anonymous') return;
  if (caller.kind !== 'api_key' || !caller.testMode)
    throw new ApiError('FORBIDDEN_SCOPE', 'Test-Fault needs a test key. Nothing was done.', {
      required_scopes: [],
      reason: 'test_key_required',
    });
  const value = String(headers[testFaultHeader]);
  const make = Object.hasOwn(faults, value) ? faults[value] : undefined;
  if (!make) throw validationFailed([unknownFault()], 400);
  make(trace, figures);
}

function unknownFault(): FieldProblem {
  const allowed = Object.keys(faults);
  return buildProblem(testFaultHeader, 'INVALID_OPTION', `${testFaultHeader} must be one of ${allowed.join(', ')}`, {
    allowed,
  });
}

/** Waits as long as the fault asks for, or until the client disconnects. */
export async function waitForEnd({ delay }: FaultyEnd, request: IncomingMessage): Promise<void> {
  // An unread body would cause another timeout, which gets a response.
  request.resume();
  if (delay === 0 || request.socket.destroyed) return;
  const ended = new AbortController();
  const { signal } = ended;
  // Not `once` of node:events, which rejects if the client resets the connection.
  const closed = new Promise<void>((resolve) => {
    request.socket.once('close', resolve);
    signal.addEventListener('abort', () => request.socket.off('close', resolve), { once: true });
  });
  await Promise.race([sleep(delay, undefined, { signal, ref: false }), closed]);
  ended.abort();
}
