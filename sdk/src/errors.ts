// Every failure of a call as one class: told apart by code, whatever it was that failed.
import type { Schemas } from './shapes.ts';

/** What the API answers in `error.code`. */
export type ErrorCode = Schemas['ErrorCode'];
/** What the sign-in routes answer in `error`, in the words of RFC 6749. */
export type OAuthErrorCode = Schemas['OAuthErrorAnswer']['error'];
/** What only the client can tell: no answer, none in time, or one that is not the API's, e.g. a proxy's page. */
export type ConnectionErrorCode = 'CONNECTION_FAILED' | 'TIMED_OUT' | 'UNREADABLE_ANSWER';
export type CrmErrorCode = ErrorCode | OAuthErrorCode | ConnectionErrorCode;

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
  /** The HTTP status; undefined when there was no answer. */
  readonly status: number | undefined;
  /** Facts about the failure, by code. */
  readonly details: ErrorDetails;
  /** Quote it when you ask for help. */
  readonly requestId: string | undefined;
  /** Seconds after which the same call may pass. */
  readonly retryAfter: number | undefined;

  constructor(code: Code, message: string, { status, details = {}, requestId, retryAfter, cause }: Facts = {}) {
    super(message, { cause });
    this.code = code;
    this.status = status;
    this.details = details;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }

  /** Everything to change in what was sent; empty when that is not what failed. */
  get fields(): readonly FieldError[] {
    return this.details.fields ?? [];
  }
}

/** True for a failure of a call with one of the codes, or with any when none is named. */
export function isCrmError<Code extends CrmErrorCode = CrmErrorCode>(
  error: unknown,
  ...codes: Code[]
): error is CrmError<Code> {
  return error instanceof CrmError && (codes.length === 0 || codes.some((code) => code === error.code));
}

/** The failure that an answer tells of. */
export function errorOfAnswer(response: Response, body: unknown): CrmError {
  const { error, error_description: description } = (body ?? {}) as {
    error?: Schemas['Failure'] | OAuthErrorCode;
    error_description?: string;
  };
  const details = typeof error === 'object' ? error?.details : undefined;
  const facts = {
    status: response.status,
    details,
    requestId: response.headers.get('x-request-id') ?? undefined,
    // Browsers show the header to the pages of a few hosts only; the body says the same.
    retryAfter: secondsOf(response.headers.get('retry-after')) ?? details?.retry_after,
  };
  if (typeof error === 'object' && error?.code) return new CrmError(error.code, error.message, facts);
  if (typeof error === 'string' && description) return new CrmError(error, description, facts);
  return new CrmError('UNREADABLE_ANSWER', `The response with status ${response.status} is not from the API.`, facts);
}

/** Retry-After in seconds; proxies may send a date. */
function secondsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : Math.ceil((Date.parse(header) - Date.now()) / 1000);
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}
