// The frozen catalog of error codes: status, meaning, and what the caller should do.
import type { components } from '../../generated/api.ts';

export type ErrorCode = components['schemas']['ErrorCode'];

export interface ErrorEntry {
  /** The status, except in the other cases. */
  status: number;
  /** Statuses of other cases. */
  others?: readonly number[];
  meaning: string;
  /** True if the same call may succeed later. */
  retryable: boolean;
  action: string;
}

export const errorCatalogue: Readonly<Record<ErrorCode, ErrorEntry>> = {
  MISSING_API_KEY: {
    status: 401,
    meaning: 'The request has no credential.',
    retryable: false,
    action: 'Send an API key in the x-api-key header, or an access token in the Authorization header.',
  },
  AUTH_INVALID_KEY: {
    status: 401,
    meaning: 'The credential is malformed or unknown.',
    retryable: false,
    action: 'Fix the credential.',
  },
  API_KEY_EXPIRED: {
    status: 401,
    meaning: 'The API key or token has expired.',
    retryable: false,
    action: 'Refresh the token, or use another API key.',
  },
  API_KEY_REVOKED: {
    status: 401,
    meaning: 'The API key was revoked. This cannot be undone.',
    retryable: false,
    action: 'Use another API key.',
  },
  FORBIDDEN_SCOPE: {
    status: 403,
    meaning: 'The credential lacks a required scope or permission. details.reason says which.',
    retryable: false,
    action: 'Grant one of details.required_scopes, or follow the message.',
  },
  IP_NOT_ALLOWED: {
    status: 403,
    meaning: 'Your IP address is not on the allowlist of the API key.',
    retryable: false,
    action: 'Call from an allowed address, or extend the allowlist.',
  },
  MODULE_DISABLED: {
    status: 403,
    meaning: 'The plan does not include the module, or an administrator has disabled it.',
    retryable: false,
    action: 'Add the module to the plan, or enable it.',
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    meaning: 'Too many requests within a time window.',
    retryable: true,
    action: 'Wait for the number of seconds in the Retry-After header.',
  },
  QUOTA_EXCEEDED: {
    status: 429,
    others: [402],
    meaning: 'The monthly quota is used up (429), or the workspace has no active subscription (402).',
    retryable: false,
    action: 'Choose a plan, or wait for the next month.',
  },
  QUOTA_UNAVAILABLE: {
    status: 503,
    meaning: 'The monthly quota is temporarily unavailable. Nothing was changed.',
    retryable: true,
    action: 'Retry with backoff.',
  },
  IDEMPOTENCY_KEY_REQUIRED: {
    status: 428,
    meaning: 'The operation requires an Idempotency-Key.',
    retryable: false,
    action: 'Send a new random key with each new request.',
  },
  IDEMPOTENCY_CONFLICT: {
    status: 422,
    meaning: 'This Idempotency-Key was already used with a different body.',
    retryable: false,
    action: 'Use a new key for a new request.',
  },
  IDEMPOTENCY_IN_PROGRESS: {
    status: 409,
    meaning: 'The first request with this Idempotency-Key is still running.',
    retryable: true,
    action: 'Try again shortly.',
  },
  VALIDATION_ERROR: {
    status: 400,
    others: [422],
    meaning: 'The request is malformed (details.reason), or fields have invalid values (details.fields).',
    retryable: false,
    action: 'Fix the problems in details.',
  },
  MISSING_REQUIRED_FIELD: {
    status: 400,
    meaning: 'Required fields are missing. There are no other problems.',
    retryable: false,
    action: 'Send the fields in details.fields.',
  },
  INVALID_FIELD_FORMAT: {
    status: 400,
    meaning: 'Fields have the wrong format. There are no other problems.',
    retryable: false,
    action: 'Fix the fields in details.fields.',
  },
  NOT_FOUND: {
    status: 404,
    meaning: 'The resource does not exist, or is not visible to this credential.',
    retryable: false,
    action: 'Check the id and the mode (live or test) of the API key.',
  },
  ALREADY_EXISTS: {
    status: 409,
    meaning: 'A resource with these values already exists.',
    retryable: false,
    action: 'Use details.existing_id, or send other values.',
  },
  CONFLICT: {
    status: 409,
    meaning: 'The request conflicts with the current state. details.reason says how.',
    retryable: false,
    action: 'Read the current state and decide again.',
  },
  AGREEMENT_ACTIVE: {
    status: 409,
    meaning: 'The subscription is governed by a negotiated agreement.',
    retryable: false,
    action: 'Contact your account manager.',
  },
  CARD_CHARGE_FAILED: {
    status: 402,
    meaning: 'The card was declined. Nothing was changed.',
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
    meaning: 'The workspace has no billing customer yet.',
    retryable: false,
    action: 'Start a checkout first.',
  },
  SEAT_LIMIT_REACHED: {
    status: 409,
    meaning: 'All seats are in use by active users.',
    retryable: false,
    action: 'Buy the seats that details.hint names, or deactivate a user.',
  },
  INTERNAL_ERROR: {
    status: 500,
    meaning: 'An internal error occurred. It is logged with the request id.',
    retryable: true,
    action: 'Retry with the same Idempotency-Key, and contact support with the request id.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    meaning: 'A service that the request needs is unavailable. Nothing was changed.',
    retryable: true,
    action: 'Retry with backoff. For writes, send the same Idempotency-Key.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    meaning: 'The path exists but does not support this method.',
    retryable: false,
    action: 'Use one of details.allowed_methods.',
  },
};
