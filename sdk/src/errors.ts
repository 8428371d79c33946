// Failures of calls, which are CrmErrors with a code, and writes that were only proposed.
import type { Schemas } from './shapes.ts';

/** The value of `error.code` in API responses. */
export type ErrorCode = Schemas['ErrorCode'];
/** The value of `error` in responses of the sign-in routes (RFC 6749). */
export type OAuthErrorCode = Schemas['OAuthErrorAnswer']['error'];
/**
 * Failures that the client detects: no response, a timeout, or a response of something else, such
 * as a proxy.
 */
export type ConnectionErrorCode = 'CONNECTION_FAILED' | 'TIMED_OUT' | 'UNREADABLE_ANSWER';
/** An export that ended without a file; `details.reason` says why. */
export type ExportErrorCode = 'EXPORT_FAILED';
/** An import that ended before the end of its file; `details.reason` says why. */
export type ImportErrorCode = 'IMPORT_FAILED';
export type CrmErrorCode = ErrorCode | OAuthErrorCode | ConnectionErrorCode | ExportErrorCode | ImportErrorCode;

export type ErrorDetails = Schemas['ErrorDetails'];
export type FieldError = Schemas['FieldError'];

interface Facts {
  status?: number | undefined;
  details?: ErrorDetails | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  cause?: unknown;
}

export class CrmError<Code extends CrmErrorCode = CrmErrorCode> extends Error {
  override readonly name = 'CrmError';
  /** Branch on it, never on the message. */
  readonly code: Code;
  /** The HTTP status; undefined without a response. */
  readonly status: number | undefined;
  /** Facts about the failure, by code. */
  readonly details: ErrorDetails;
  /** Include it when you ask for help. */
  readonly requestId: string | undefined;
  /** Seconds after which the same call may succeed. */
  readonly retryAfter: number | undefined;

  constructor(code: Code, message: string, { status, details = {}, requestId, retryAfter, cause }: Facts = {}) {
    super(message, { cause });
    this.code = code;
    this.status = status;
    this.details = details;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }

  /** Every problem with the request; empty for other failures. */
  get fields(): readonly FieldError[] {
    return this.details.fields ?? [];
  }
}

/**
 * Returns true if the error is a CrmError with one of the codes, or with any code if none is given.
 */
export function isCrmError<Code extends CrmErrorCode = CrmErrorCode>(
  error: unknown,
  ...codes: Code[]
): error is CrmError<Code> {
  return error instanceof CrmError && (codes.length === 0 || codes.some((code) => code === error.code));
}

/**
 * Thrown by a write that became a change set, because the credential only proposes changes. Nothing
 * has changed yet: a person approves or rejects the set.
 */
export class ProposedError extends Error {
  override readonly name = 'ProposedError';
  readonly changeSet: Schemas['ChangeSet'];
  /** True if the same proposal was already pending. */
  readonly alreadyPending: boolean;

  constructor(changeSet: Schemas['ChangeSet'], alreadyPending: boolean) {
    super(`Proposed, not done. The change set ${changeSet.id} waits for a person.`);
    this.changeSet = changeSet;
    this.alreadyPending = alreadyPending;
  }
}

/** Converts a failed response to an error. */
export function toError(response: Response, body: unknown): CrmError {
  const { error, error_description: description } = (body ?? {}) as {
    error?: Schemas['Failure'] | OAuthErrorCode;
    error_description?: string;
  };
  const details = typeof error === 'object' ? error?.details : undefined;
  const facts = {
    status: response.status,
    details,
    requestId: response.headers.get('x-request-id') ?? undefined,
    // Browsers hide the header from pages of most hosts. The body has the same value.
    retryAfter: parseRetryAfter(response.headers.get('retry-after')) ?? details?.retry_after,
  };
  if (typeof error === 'object' && error?.code) return new CrmError(error.code, error.message, facts);
  if (typeof error === 'string' && description) return new CrmError(error, description, facts);
  return new CrmError('UNREADABLE_ANSWER', `The response with status ${response.status} is not from the API.`, facts);
}

/** Parses Retry-After into seconds. Proxies may send a date. */
function parseRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : Math.ceil((Date.parse(header) - Date.now()) / 1000);
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}
