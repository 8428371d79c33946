// Idempotency keys: identifies calls, selects stored responses, and rejects conflicting uses.

import type { Claim, ClaimResult } from '../../db/client/idempotency.ts';
import type { Caller } from '../caller.ts';
import { sha256 } from '../credentials/secrets.ts';
import { ApiError, stillRunning } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';

const keyPattern = /^[A-Za-z0-9_.:@+-]{8,255}$/;

/** Failures that a retry would repeat, so they are stored. 401, 402, 403, 429 and 5xx are not. */
const storedFailures = new Set([400, 404, 409, 422]);

/** Returns true for statuses whose responses are stored for 24 hours. */
export function isStored(status: number): boolean {
  return status < 300 || storedFailures.has(status);
}

/**
 * Reads the header.
 * @throws ApiError 428 if it is required and missing, 400 if it is malformed
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

/** Returns the hash of a JSON body. The order of keys does not matter. */
export function hashBody(body: unknown): Buffer {
  return sha256(canonical(body));
}

/**
 * Returns the identity of a call, for which the encoding of the path does not matter.
 * @param path the decoded values of the path's parameters
 */
export function toClaim(
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

/** @throws ApiError 409 if the key's first call is still running, 422 if it had another body */
export function rejectConflicts(verdict: ClaimResult): void {
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
