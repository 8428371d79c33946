// How outgoing calls fail: one type of error, and one time limit for all steps of a call.
import { startResponsiveTimeout } from '../responsive-timeout.ts';

/** Why a call brought no answer. */
export type OutgoingFault = 'timeout' | 'dns' | 'tls' | 'connect' | 'blocked_address' | 'http_error';

export class OutgoingError extends Error {
  readonly fault: OutgoingFault;

  constructor(fault: OutgoingFault, message: string = fault) {
    super(message);
    this.fault = fault;
  }
}

/** The time that a call has. It runs from the beginning of the call, and not while the event loop is blocked. */
export class TimeLimit {
  readonly #cancelWhole: () => void;
  readonly #cancelConnecting: () => void;
  #handler: ((late: OutgoingError) => void) | undefined;

  /**
   * @param whole milliseconds until the answer is read
   * @param connecting milliseconds to find the address and to connect
   */
  constructor(whole: number, connecting: number) {
    const expire = (): void => this.#handler?.(new OutgoingError('timeout'));
    this.#cancelWhole = startResponsiveTimeout(expire, whole);
    this.#cancelConnecting = startResponsiveTimeout(expire, connecting);
  }

  /** What the step that runs now does when the time is over. Takes the place of the step before. */
  onTimeout(handler: (late: OutgoingError) => void): void {
    this.#handler = handler;
  }

  /** Waits for work that cannot be cancelled. @throws OutgoingError if it takes too long */
  wait<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#handler = reject;
      work.then(resolve, reject);
    });
  }

  /** There is a connection: only the whole time limits what follows. */
  connected(): void {
    this.#cancelConnecting();
  }

  end(): void {
    this.#handler = undefined;
    this.#cancelWhole();
    this.#cancelConnecting();
  }
}

/**
 * Runs a step that reports through events. Whatever it throws and whatever is reported first decides; nothing that comes
 * later has an effect.
 * @param fault what an error other than an OutgoingError means in this step
 */
export function settleOnce<T>(
  fault: OutgoingFault,
  begin: (resolve: (value: T) => void, reject: (error: Error) => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void =>
      reject(error instanceof OutgoingError ? error : new OutgoingError(fault, String(error)));
    try {
      begin(resolve, fail);
    } catch (error) {
      fail(error);
    }
  });
}
