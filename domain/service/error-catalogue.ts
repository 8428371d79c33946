// The frozen catalogue of error codes: what each answers with, what it means, and who acts next.
import type { components } from '../../generated/api.ts';

export type ErrorCode = components['schemas']['ErrorCode'];

export interface ErrorEntry {
  /** The status unless a case says otherwise. */
  status: number;
  /** Statuses of further cases. */
  others?: readonly number[];
  meaning: string;
  /** True when the very same call may pass later. */
  retryable: boolean;
  action: string;
}

export const errorCatalogue: Readonly<Record<ErrorCode, ErrorEntry>> = {
  MISSING_API_KEY: {
    status: 401,
    meaning: 'The call carries no credential.',
    retryable: false,
    action: 'Send an API key in x-api-key, or an access token in Authorization.',
  },
  AUTH_INVALID_KEY: {
    status: 401,
    meaning: 'The credential is malformed or unknown.',
    retryable: false,
    action: 'Mend the credential.',
  },
  API_KEY_EXPIRED: {
    status: 401,
    meaning: 'The key or token is past its time.',
    retryable: false,
    action: 'Refresh the token, or use another key.',
  },
  API_KEY_REVOKED: {
    status: 401,
    meaning: 'The key was revoked, for good.',
    retryable: false,
    action: 'Use another key.',
  },
  FORBIDDEN_SCOPE: {
    status: 403,
    meaning: 'The credential lacks a scope, or something else that details.reason names.',
    retryable: false,
    action: 'Grant one of details.required_scopes, or do what the message says.',
  },
  IP_NOT_ALLOWED: {
    status: 403,
    meaning: "The key's allowlist lacks your address.",
    retryable: false,
    action: 'Call from an allowed address, or extend the allowlist.',
  },
  MODULE_DISABLED: {
    status: 403,
    meaning: 'The plan lacks the module, or an administrator switched it off.',
    retryable: false,
    action: 'Add the module, or switch it on.',
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    meaning: 'Too many calls in a window.',
    retryable: true,
    action: 'Wait as many seconds as Retry-After says.',
  },
  QUOTA_EXCEEDED: {
    status: 429,
    others: [402],
    meaning: 'The calls of the month are used up (429), or nothing pays for calls (402).',
    retryable: false,
    action: 'Choose a plan, or wait for the next month.',
  },
  QUOTA_UNAVAILABLE: {
    status: 503,
    meaning: 'The call could not be counted; nothing was done.',
    retryable: true,
    action: 'Try again with backoff.',
  },
  IDEMPOTENCY_KEY_REQUIRED: {
    status: 428,
    meaning: 'The operation needs an Idempotency-Key.',
    retryable: false,
    action: 'Send one; a fresh random key for each new intention.',
  },
  IDEMPOTENCY_CONFLICT: {
    status: 422,
    meaning: 'This Idempotency-Key was used with another body.',
    retryable: false,
    action: 'Use a new key for a new request.',
  },
  IDEMPOTENCY_IN_PROGRESS: {
    status: 409,
    meaning: 'The first call with this Idempotency-Key still runs.',
    retryable: true,
    action: 'Try again shortly.',
  },
  VALIDATION_ERROR: {
    status: 400,
    others: [422],
    meaning: 'The request could not be read (details.reason), or values in it cannot be accepted (details.fields).',
    retryable: false,
    action: 'Mend what details lists.',
  },
  MISSING_REQUIRED_FIELD: {
    status: 400,
    meaning: 'Required fields are missing, and nothing else is wrong.',
    retryable: false,
    action: 'Send the fields that details.fields lists.',
  },
  INVALID_FIELD_FORMAT: {
    status: 400,
    meaning: 'Fields have the wrong format, and nothing else is wrong.',
    retryable: false,
    action: 'Mend the fields that details.fields lists.',
  },
  NOT_FOUND: {
    status: 404,
    meaning: 'There is no such thing, or it is not visible to this credential.',
    retryable: false,
    action: 'Check the id and the mode of the key.',
  },
  ALREADY_EXISTS: {
    status: 409,
    meaning: 'One like it is stored already.',
    retryable: false,
    action: 'Use details.existing_id, or send other values.',
  },
  CONFLICT: {
    status: 409,
    meaning: 'It clashes with the present state; details.reason says how.',
    retryable: false,
    action: 'Read the present state and decide anew.',
  },
  AGREEMENT_ACTIVE: {
    status: 409,
    meaning: 'A negotiated agreement governs the subscription.',
    retryable: false,
    action: 'Ask the account manager.',
  },
  CARD_CHARGE_FAILED: {
    status: 402,
    meaning: 'The card was declined; nothing was changed.',
    retryable: false,
    action: 'Use another payment method.',
  },
  NO_ACTIVE_SUBSCRIPTION: {
    status: 409,
    meaning: 'There is no subscription to change.',
    retryable: false,
    action: 'Start a checkout.',
  },
  NO_BILLING_CUSTOMER: {
    status: 409,
    meaning: 'The workspace never checked out.',
    retryable: false,
    action: 'Start a checkout first.',
  },
  SEAT_LIMIT_REACHED: {
    status: 409,
    meaning: 'All seats are taken by active users.',
    retryable: false,
    action: 'Buy the seats that details.hint names, or deactivate a user.',
  },
  INTERNAL_ERROR: {
    status: 500,
    meaning: 'A fault of ours, logged under the request id.',
    retryable: true,
    action: 'Retry writes with the same Idempotency-Key, and send us the request id.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    meaning: 'A part that the call needs is down; nothing was done.',
    retryable: true,
    action: 'Try again with backoff, and with the same Idempotency-Key on writes.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    meaning: 'The path exists and does not answer this method.',
    retryable: false,
    action: 'Use a method of details.allowed_methods.',
  },
};
