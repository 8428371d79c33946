// All errors that callers can see: one class, and a function per case.

import { type ErrorCode, errorCatalogue } from '../domain/service/error-catalogue.ts';
import { toSentence } from '../domain/service/messages.ts';
import type { components } from '../generated/api.ts';

export type FieldProblem = components['schemas']['FieldError'];
export type FieldProblemCode = FieldProblem['code'];

/**
 * An error that is sent to the caller. Its message and details must not contain anything internal.
 */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: Record<string, unknown> | undefined;
  readonly headers: Record<string, string> | undefined;
  /** True if the transaction commits despite the error, because its writes must persist. */
  readonly keepsWork: boolean;

  constructor(
    code: ErrorCode,
    message: string,
    details?: Record<string, unknown>,
    options: { status?: number; headers?: Record<string, string>; keepsWork?: boolean } = {},
  ) {
    super(message);
    this.code = code;
    this.status = options.status ?? errorCatalogue[code].status;
    this.details = details;
    this.headers = options.headers;
    this.keepsWork = options.keepsWork ?? false;
  }
}

/**
 * Returns the same error for an id that is unknown, malformed, of another tenant or mode, or not
 * visible.
 */
export const notFound = () => new ApiError('NOT_FOUND', 'There is no such resource.');

/**
 * Returns the value.
 * @throws ApiError 404 if it is null or undefined
 */
export function orNotFound<Thing>(thing: Thing | null | undefined): Thing {
  if (thing === null || thing === undefined) throw notFound();
  return thing;
}

/**
 * Builds a field problem for validationFailed.
 * @param field dotted path from the body's root
 * @param message a sentence; a missing period is added
 * @param extra allowed values (only the first 50 are returned), a suggestion, and a hint
 */
export function buildProblem(
  field: string,
  code: FieldProblemCode,
  message: string,
  extra: {
    allowed?: readonly (string | number | boolean)[] | undefined;
    did_you_mean?: string | undefined;
    hint?: string;
  } = {},
): FieldProblem {
  const found: FieldProblem = { field, code, message: toSentence(message) };
  if (extra.allowed) found.allowed = extra.allowed.slice(0, 50);
  if (extra.did_you_mean) found.did_you_mean = extra.did_you_mean;
  if (extra.hint) found.hint = extra.hint;
  return found;
}

/**
 * Returns true if the OpenAPI document found no problem in a field or inside it, so that its value
 * can be checked further. A problem of the whole body (field '') affects every field.
 */
export function isValidSoFar(problems: readonly FieldProblem[], field: string): boolean {
  return !problems.some(
    (each) =>
      each.field === '' ||
      each.field === field ||
      each.field.startsWith(`${field}.`) ||
      each.field.startsWith(`${field}[`),
  );
}

/** Returns VALIDATION_ERROR with all problems. Its message is that of the first problem. */
export function validationFailed(problems: FieldProblem[], status: 400 | 422): ApiError {
  return new ApiError(
    'VALIDATION_ERROR',
    problems[0]?.message ?? 'The request is invalid.',
    { fields: problems },
    { status },
  );
}

/** Returns 422 for an atomic batch, with the items that failed. */
export function batchRefused(failed: readonly object[], items: number): ApiError {
  const message = `${failed.length} of ${items} items failed, so nothing was written.`;
  const details = { reason: 'atomic_batch_failed', failed_count: failed.length, failed };
  return new ApiError('VALIDATION_ERROR', message, details, { status: 422 });
}

/** Returns 422 for a record that does not meet the pre-conditions of a status. */
export function preConditionsNotMet(problems: FieldProblem[]): ApiError {
  const details = { reason: 'pre_conditions_not_met', fields: problems };
  return new ApiError(
    'VALIDATION_ERROR',
    problems[0]?.message ?? 'The record does not meet the pre-conditions of the status.',
    details,
    {
      status: 422,
    },
  );
}

/** Returns 400 for a request that could not be read, with a reason and no fields. */
export function unreadable(
  reason:
    | 'malformed_request'
    | 'request_timeout'
    | 'headers_too_large'
    | 'uri_too_long'
    | 'malformed_json'
    | 'body_too_large'
    | 'nesting_too_deep'
    | 'too_many_keys'
    | 'unsupported_media_type'
    | 'malformed_multipart'
    | 'file_too_large'
    | 'file_type_refused'
    | 'upload_too_slow',
  message: string,
): ApiError {
  return new ApiError('VALIDATION_ERROR', message, { reason });
}

/** Returns 403 for an operation on the whole workspace, if the caller sees only a part of it. */
export const companyReachRequired = () =>
  new ApiError(
    'FORBIDDEN_SCOPE',
    'This operation affects the whole workspace. Use a credential with the reach company.',
    { required_scopes: [], reason: 'company_reach_required' },
  );

/** Returns 409 CONFLICT with a machine-readable reason. */
export function conflict(reason: string, message: string, more: Record<string, unknown> = {}): ApiError {
  return new ApiError('CONFLICT', message, { reason, ...more });
}

/** Returns 409 if If-Match does not match the stored version. */
export function versionMismatch(current: number): ApiError {
  return conflict('version_mismatch', 'The record has changed since you read it. Read it again and retry.', {
    current_version: current,
  });
}

/**
 * Returns 409 ALREADY_EXISTS with the fields that matched. existingId is null if the caller may not
 * see the existing record.
 */
export function alreadyExists(message: string, matchedFields: string[], existingId: string | null = null): ApiError {
  return new ApiError('ALREADY_EXISTS', message, { matched_fields: matchedFields, existing_id: existingId });
}

/** Returns 400 with an error code of RFC 6749, for operations that respond in that format. */
export function oauthRefusal(
  error: 'invalid_request' | 'invalid_grant',
  message: string,
  options: { keepsWork?: boolean } = {},
): ApiError {
  return new ApiError('VALIDATION_ERROR', message, { oauth_error: error }, options);
}

/** Returns 429 with the time to wait. It does not say which limit was hit. */
export function rateLimited(details: { limit: number; remaining: 0; reset: number; retry_after: number }): ApiError {
  const wait = details.retry_after === 1 ? '1 second' : `${details.retry_after} seconds`;
  return new ApiError('RATE_LIMIT_EXCEEDED', `Too many requests. Try again in ${wait}.`, details, {
    headers: { 'retry-after': String(details.retry_after) },
  });
}

export const serviceUnavailable = () =>
  new ApiError('SERVICE_UNAVAILABLE', 'The service is temporarily unavailable. Try again shortly.', undefined, {
    headers: { 'retry-after': '1' },
  });

/** Returns 409 for a retry that arrives while the first request is still running. */
export const stillRunning = () =>
  new ApiError(
    'IDEMPOTENCY_IN_PROGRESS',
    'The first request with this Idempotency-Key is still running. Try again shortly.',
    undefined,
    { headers: { 'retry-after': '1' } },
  );

/**
 * Returns 503 after a call of the payment provider with unknown outcome. Rows written before the
 * call are committed.
 */
export const providerFailed = () =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'The payment provider did not respond as expected. Try again shortly with the same Idempotency-Key.',
    { reason: 'provider_error' },
    { headers: { 'retry-after': '1' }, keepsWork: true },
  );

/** Returns 503 if an external calendar could not be reached. Nothing was changed. */
export const calendarFailed = () =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'The calendar server did not respond as expected, and nothing was changed. Try again shortly.',
    { reason: 'provider_error' },
    { headers: { 'retry-after': '1' } },
  );

/** Returns 503 for a statement that reached the statement timeout. */
export const queryTimeout = () =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'The query timed out, and nothing was changed. If it fails again, narrow the query, or use a sort order that has an index.',
    { reason: 'query_timeout' },
    { headers: { 'retry-after': '1' } },
  );
