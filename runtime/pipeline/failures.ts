// Converts thrown values into error responses, and logs unexpected ones.

import { isOutage, isOverdue, isRace } from '../../db/client/pool.ts';
import { ApiError, conflict, queryTimeout, serviceUnavailable } from '../errors.ts';
import { buildFailureBody, buildOauthFailureBody } from '../http/envelope.ts';
import type { Answer } from '../http/responses.ts';
import type { Log } from '../telemetry/log.ts';
import type { Trace } from './trace.ts';

export class Failures {
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Converts a thrown value into a response. Internal errors are logged and replaced.
   * @param broken true if the database connection failed, regardless of the thrown value
   */
  answer(thrown: unknown, trace: Trace, broken = false): Answer {
    const error = this.traceError(thrown, trace, broken);
    const body = trace.oauth
      ? buildOauthFailureBody(error)
      : buildFailureBody(error, trace.requestId, Date.now(), trace.testMode, trace.dryRun);
    return { status: error.status, body, headers: error.headers };
  }

  /** Converts a thrown value into the ApiError to send. */
  traceError(thrown: unknown, trace: Trace, broken = false): ApiError {
    const error = this.#toApiError(thrown, trace, broken);
    trace.error = error.code;
    trace.failure = error;
    return error;
  }

  #toApiError(thrown: unknown, { requestId, operation }: Trace, broken: boolean): ApiError {
    const noted = { request_id: requestId, operation };
    if (broken || isOutage(thrown)) {
      this.#log.warn({ ...noted, err: describe(thrown) }, 'database error during a request');
      return isOverdue(thrown) ? queryTimeout() : serviceUnavailable();
    }
    if (thrown instanceof ApiError) return thrown;
    if (isRace(thrown)) {
      return conflict(
        'changed_meanwhile',
        'A resource that this request refers to has changed in the meantime. Read it again and retry.',
      );
    }
    this.#log.error({ ...noted, err: describe(thrown) }, 'unexpected error');
    return new ApiError(
      'INTERNAL_ERROR',
      'An internal error occurred. Try again, and contact support with the request id if it persists.',
    );
  }
}

function describe(thrown: unknown): { message: string; code?: string; stack?: string } {
  if (!(thrown instanceof Error)) return { message: String(thrown) };
  const { code } = thrown as { code?: string };
  return { message: thrown.message, ...(code ? { code } : {}), ...(thrown.stack ? { stack: thrown.stack } : {}) };
}
