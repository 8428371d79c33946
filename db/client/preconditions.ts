// The preconditions of a call's transaction, which are sent with its first statement.
import type { Claim } from './idempotency.ts';
import type { KeyVersion } from './key-versions.ts';
import { hasCode } from './pool.ts';
import type { TenantScope } from './tenant.ts';

/**
 * The rows that a transaction sees: those of a tenant in one mode, all rows for the platform's own
 * operations, or none.
 */
export type Scope = TenantScope | 'platform' | 'nobody';

export interface Preconditions {
  /** The version of the API key with which the caller was authenticated from the cache. */
  credential?: KeyVersion | undefined;
  /** The Idempotency-Key that must be free. */
  claim?: Claim | undefined;
  /**
   * Set if the call only reads, each statement in its own transaction. The statements of a call
   * that reads one thing are short.
   */
  reads?: 'one' | 'many' | undefined;
}

export type PreconditionResult = 'ok' | 'credential_changed' | 'key_taken';

/** Raised by keep_custom_value_hashes. */
const configurationChanged = 'CK003';

/**
 * Returns true if a write failed because the configuration that validated it has changed since. It
 * must be repeated with the new configuration.
 */
export function isConfigurationChanged(error: unknown): boolean {
  return hasCode(error, configurationChanged);
}

/**
 * Thrown for a statement that was sent after its transaction ended: an error in the calling code.
 */
export class TransactionEnded extends Error {
  constructor() {
    super('the transaction has ended, or another has begun');
  }
}

/**
 * Returns the error for a connection that failed during a transaction, even if its statements
 * reported nothing.
 */
export const createConnectionError = (): Error =>
  Object.assign(new Error('the connection failed'), { code: 'CONNECTION_CLOSED' });
