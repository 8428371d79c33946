// Every failure that a caller can see: one class, and a function per case.

import { type ErrorCode, errorCatalogue } from '../domain/service/error-catalogue.ts';
import { asSentence } from '../domain/service/messages.ts';
import type { components } from '../generated/api.ts';

export type FieldProblem = components['schemas']['FieldError'];
export type FieldProblemCode = FieldProblem['code'];

/** A failure to answer with. Its message and details are shown to the caller: nothing internal goes in. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: Record<string, unknown> | undefined;
  readonly headers: Record<string, string> | undefined;
  /** True when the transaction is committed all the same, because what the refusal did must last. */
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

/** The answer for an id that is unknown, malformed, foreign, of the other mode or out of reach: always the same. */
export const notFound = () => new ApiError('NOT_FOUND', 'There is no such resource.');

/**
 * What was looked for.
 * @throws ApiError 404 when it is not there
 */
export function found<Thing>(thing: Thing | null | undefined): Thing {
  if (thing === null || thing === undefined) throw notFound();
  return thing;
}

/**
 * A field problem, for validationFailed.
 * @param field dotted path from the body's root
 * @param message a sentence; its period is added if it lacks one
 * @param extra allowed values (at most 50 are shown), the one that was probably meant, and a hint
 */
export function problem(
  field: string,
  code: FieldProblemCode,
  message: string,
  extra: {
    allowed?: readonly (string | number | boolean)[] | undefined;
    did_you_mean?: string | undefined;
    hint?: string;
  } = {},
): FieldProblem {
  const found: FieldProblem = { field, code, message: asSentence(message) };
  if (extra.allowed) found.allowed = extra.allowed.slice(0, 50);
  if (extra.did_you_mean) found.did_you_mean = extra.did_you_mean;
  if (extra.hint) found.hint = extra.hint;
  return found;
}

/**
 * Whether the OpenAPI document finds nothing wrong with a field or anything inside it, so that its value can be checked further.
 * A problem of the whole body (field '') concerns every field.
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

/** VALIDATION_ERROR with every problem listed; the message is the first problem's. */
export function validationFailed(problems: FieldProblem[], status: 400 | 422): ApiError {
  return new ApiError(
    'VALIDATION_ERROR',
    problems[0]?.message ?? 'The request is invalid.',
    { fields: problems },
    { status },
  );
}

/** 422 for a batch of which every item had to stand, with those that did not. */
export function batchRefused(failed: readonly object[], items: number): ApiError {
  const message = `${failed.length} of ${items} items failed, so nothing was written.`;
  const details = { reason: 'atomic_batch_failed', failed_count: failed.length, failed };
  return new ApiError('VALIDATION_ERROR', message, details, { status: 422 });
}

/** 422 for a record that a status asks more of. */
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

/** A request that could not be read at all: 400 with a reason and no fields. */
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

/** 409 CONFLICT with a machine-readable reason. */
export function conflict(reason: string, message: string, more: Record<string, unknown> = {}): ApiError {
  return new ApiError('CONFLICT', message, { reason, ...more });
}

/** 409 for an If-Match that names another version than the stored one. */
export function versionMismatch(current: number): ApiError {
  return conflict('version_mismatch', 'The record has changed since you read it. Read it again and retry.', {
    current_version: current,
  });
}

/** 409 ALREADY_EXISTS naming the fields that matched; existingId is null when the caller may not see the other one. */
export function alreadyExists(message: string, matchedFields: string[], existingId: string | null = null): ApiError {
  return new ApiError('ALREADY_EXISTS', message, { matched_fields: matchedFields, existing_id: existingId });
}

/** 400 in the words of RFC 6749, for operations that answer as it says. */
export function oauthRefusal(
  error: 'invalid_request' | 'invalid_grant',
  message: string,
  options: { keepsWork?: boolean } = {},
): ApiError {
  return new ApiError('VALIDATION_ERROR', message, { oauth_error: error }, options);
}

/** 429 with what the caller needs in order to wait, and nothing about which limit it was. */
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

/** 409 for a retry that came too early. */
export const stillRunning = () =>
  new ApiError(
    'IDEMPOTENCY_IN_PROGRESS',
    'The first request with this Idempotency-Key is still running. Try again shortly.',
    undefined,
    { headers: { 'retry-after': '1' } },
  );

/** A payment provider was asked, and it is not known what became of it. What was noted of it before lasts. */
export const providerFailed = () =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'The payment provider did not respond as expected. Try again shortly with the same Idempotency-Key.',
    { reason: 'provider_error' },
    { headers: { 'retry-after': '1' }, keepsWork: true },
  );

/** A calendar outside could not be asked or told; nothing was done. */
export const calendarFailed = () =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'The calendar server did not respond as expected, and nothing was changed. Try again shortly.',
    { reason: 'provider_error' },
    { headers: { 'retry-after': '1' } },
  );

/** The database had a statement for as long as it may run. */
export const queryTimeout = () =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'The query timed out, and nothing was changed. If it fails again, narrow the query, or use a sort order that has an index.',
    { reason: 'query_timeout' },
    { headers: { 'retry-after': '1' } },
  );
