// Builds the JSON of every response: the success and failure envelopes.
// Concatenated by hand, because JSON.stringify of the whole envelope would copy the data twice.
import type { ApiError, FieldProblem } from '../errors.ts';
import type { RateFigures } from '../limits/rate-limits.ts';

let second = Number.NaN;
let upToSecond = '';
const endings = Array.from({ length: 1000 }, (_, millisecond) => `${String(millisecond).padStart(3, '0')}Z`);

/**
 * Returns an ISO 8601 time with milliseconds. Caches the text up to the second, because formatting
 * dates is slow and many responses share it.
 */
export function formatTimestamp(now: number): string {
  const millisecond = now % 1000;
  if (now - millisecond !== second) {
    second = now - millisecond;
    upToSecond = new Date(second).toISOString().slice(0, 20);
  }
  return upToSecond + endings[millisecond];
}

/** The names of the events and audit actions that a dry run would have recorded. */
export interface DryRunEffects {
  events: readonly string[];
  audit: readonly string[];
}

/**
 * Builds the body of a successful response.
 * @param result the handler's result: data, and any other members of the response
 * @param would undefined if the call was not a dry run
 * @param pending the number of pending proposals of the caller
 */
export function buildSuccessBody(
  result: { status: number; data?: unknown },
  requestId: string,
  now: number,
  testMode: boolean,
  figures: RateFigures,
  would?: DryRunEffects,
  pending = 0,
): string {
  let members = '';
  for (const key of Object.keys(result)) {
    if (key !== 'status' && key !== 'data' && key !== 'etag')
      members += `,"${key}":${JSON.stringify((result as Record<string, unknown>)[key])}`;
  }
  const { limit, remaining, reset } = figures;
  return `{"success":true${members},"data":${JSON.stringify(result.data)},"meta":{"request_id":"${requestId}","timestamp":"${formatTimestamp(now)}"${formatMode(testMode)},"rate_limit":{"limit":${limit},"remaining":${remaining},"reset":${reset}}${would ? `,"dry_run":true,"would":${JSON.stringify(would)}` : ''}${pending > 0 ? `,"pending_change_sets":${pending}` : ''}}}`;
}

const formatMode = (testMode: boolean): string => (testMode ? ',"test_mode":true' : '');

/**
 * Builds the body of an error response.
 * @param testMode true if a test key was sent
 * @param isDryRun true if the call asked for a dry run
 */
export function buildFailureBody(
  error: ApiError,
  requestId: string,
  now: number,
  testMode: boolean,
  isDryRun: boolean,
): string {
  const details = error.details === undefined ? '' : `,"details":${JSON.stringify(error.details)}`;
  return `{"success":false,"error":{"code":"${error.code}","message":${JSON.stringify(error.message)}${details}},"meta":{"request_id":"${requestId}","timestamp":"${formatTimestamp(now)}"${formatMode(testMode)}${isDryRun ? ',"dry_run":true' : ''}}}`;
}

const oauthErrorOf: Readonly<Record<number, string>> = {
  401: 'invalid_token',
  403: 'insufficient_scope',
  429: 'slow_down',
  500: 'server_error',
  503: 'temporarily_unavailable',
};

/**
 * Builds the error body of the identity provider's routes: RFC 6749 section 5.2, with the error
 * names of RFC 6750 and 8628 too.
 */
export function buildOauthFailureBody(error: ApiError): string {
  const named = error.details?.oauth_error as string | undefined;
  const fields = (error.details?.fields ?? []) as FieldProblem[];
  const unknownGrant = fields.some((each) => each.field === 'grant_type' && each.code === 'INVALID_OPTION');
  const name = named ?? (unknownGrant ? 'unsupported_grant_type' : (oauthErrorOf[error.status] ?? 'invalid_request'));
  return JSON.stringify({ error: name, error_description: error.message });
}
