// The checks that decide about a call, and a report of how each one ended.
import { ApiError } from '../errors.ts';

/** In the order in which a call meets them. */
const accessChecks = [
  'credential',
  'ip_allowlist',
  'scope',
  'role',
  'plan',
  'module',
  'mode',
  'write_mode',
  'reach',
  'field',
] as const;

export type AccessCheck = (typeof accessChecks)[number];

/** Follows the checks of a call. Real calls are not followed, so their reasons are never built. */
export interface AccessTrace {
  /** The next errors are failures of this check. */
  begin(check: AccessCheck): void;
  /**
   * Notes that the check passed. A check of several parts passes several times.
   * @param reason a sentence
   */
  pass(reason: string): void;
}

export interface CheckedAccess {
  check: AccessCheck;
  result: 'pass' | 'fail' | 'not_reached';
  reason: string;
}

/** The outcome of each check. The first error ends the report, as it ends a call. */
export class AccessReport implements AccessTrace {
  readonly #results = new Map<AccessCheck, Omit<CheckedAccess, 'check'>>();
  #current: AccessCheck = 'credential';
  #error: ApiError | undefined;

  /** The error that the call would get; undefined if every check passed. */
  get error(): ApiError | undefined {
    return this.#error;
  }

  begin(check: AccessCheck): void {
    this.#current = check;
  }

  pass(reason: string): void {
    const before = this.#results.get(this.#current);
    const reasons = before?.result === 'pass' ? `${before.reason} ${reason}` : reason;
    this.#results.set(this.#current, { result: 'pass', reason: reasons });
  }

  /** Notes why a check is not judged. */
  skip(check: AccessCheck, reason: string): void {
    this.#results.set(check, { result: 'not_reached', reason });
  }

  /** Runs checks, unless one has failed before. Their error becomes the failure of the present check. */
  async follow(checks: () => unknown): Promise<void> {
    if (this.#error) return;
    try {
      await checks();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#error = error;
      this.#results.set(this.#current, { result: 'fail', reason: error.message });
    }
  }

  list(): CheckedAccess[] {
    const notReached = {
      result: 'not_reached' as const,
      reason: this.#error ? 'An earlier check failed.' : 'The question names nothing that this check applies to.',
    };
    return accessChecks.map((check) => ({ check, ...(this.#results.get(check) ?? notReached) }));
  }
}
