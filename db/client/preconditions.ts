// What must hold for a call's transaction, which travels with its first statement.
import type { Claim } from './idempotency.ts';
import type { KeyVersion } from './key-versions.ts';
import { hasCode } from './pool.ts';
import type { TenantScope } from './tenant.ts';

/** Whose rows a transaction sees: those of a tenant in one mode, everybody's for the platform's own operations, or nobody's. */
export type Scope = TenantScope | 'platform' | 'nobody';

export interface Preconditions {
  /** The version of the API key that the caller was authenticated by from the cache. */
  credential?: KeyVersion | undefined;
  /** The Idempotency-Key that must be free. */
  claim?: Claim | undefined;
  /** The call only reads, each statement in a transaction of its own. The statements of a call that reads one thing are short. */
  reads?: 'one' | 'many' | undefined;
}

export type PreconditionResult = 'ok' | 'credential_changed' | 'key_taken';

/** Raised by keep_custom_value_hashes. */
const configurationChanged = 'CK003';

/** True for the failure of a write that was checked by a configuration that has changed since: it is to be done again by the new one. */
export function isConfigurationChanged(error: unknown): boolean {
  return hasCode(error, configurationChanged);
}

/** A statement was sent after its transaction: a fault of the code that sent it. */
export class TransactionEnded extends Error {
  constructor() {
    super('the transaction has ended, or another has begun');
  }
}

/** Thrown if a connection failed under a transaction, whatever its statements said. */
export const connectionFailed = (): Error =>
  Object.assign(new Error('the connection failed'), { code: 'CONNECTION_CLOSED' });
