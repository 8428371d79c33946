// Idempotency keys: which call a key belongs to, what is kept, and what the verdicts answer.

import type { Claim, Verdict } from '../../db/client/idempotency.ts';
import type { Caller } from '../caller.ts';
import { sha256 } from '../credentials/secrets.ts';
import { ApiError, stillRunning } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';

const keyPattern = /^[A-Za-z0-9_.:@+-]{8,255}$/;

/** Failures that the same call would meet again, so that they are kept; 401, 402, 403, 429 and 5xx are not. */
const keptFailures = new Set([400, 404, 409, 422]);

/** True for outcomes that are kept for 24 hours. */
export function isKept(status: number): boolean {
  return status < 300 || keptFailures.has(status);
}

/**
 * Reads the header.
 * @throws ApiError 428 when it is missing and required, 400 when it is malformed
 */
export function readKey(header: string | string[] | undefined, required: boolean): string | undefined {
  if (header === undefined) {
    if (required) throw new ApiError('IDEMPOTENCY_KEY_REQUIRED', 'Send an Idempotency-Key header with this request.');
    return undefined;
  }
  if (typeof header !== 'string' || !keyPattern.test(header)) {
    throw new ApiError('VALIDATION_ERROR', 'Idempotency-Key must be 8 to 255 characters from A-Z a-z 0-9 _ . : @ + -', {
      reason: 'invalid_idempotency_key',
    });
  }
  return header;
}

/** The hash of a JSON body, which counts by meaning: the order of its keys does not matter. */
export function hashOf(body: unknown): Buffer {
  return sha256(canonical(body));
}

/**
 * Joins what makes a call the same call; the spelling of the path does not matter.
 * @param path the values of the path's parameters, decoded
 */
export function claimOf(
  caller: Caller,
  operation: Operation,
  path: Record<string, string>,
  key: string,
  requestHash: Buffer,
): Claim {
  return {
    companyId: caller.companyId,
    testMode: caller.testMode,
    endpoint: `${operation.method} ${operation.path.replace(/\{(\w+)\}/g, (_, name: string) => path[name] ?? '')}`,
    key,
    requestHash,
  };
}

/** @throws ApiError for a key that runs now (409) or that was used with another body (422) */
export function refuseOthers(verdict: Verdict): void {
  if (verdict.kind === 'in_progress') throw stillRunning();
  if (verdict.kind === 'conflict') {
    throw new ApiError(
      'IDEMPOTENCY_CONFLICT',
      'This Idempotency-Key was already used with a different body. Use a new key for a new request.',
    );
  }
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const entries = Object.keys(value).sort();
    return `{${entries.map((key) => `${JSON.stringify(key)}:${canonical((value as Record<string, unknown>)[key])}`).join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}
