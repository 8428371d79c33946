// Errors and time limits of outgoing calls.
import { startResponsiveTimeout } from '../responsive-timeout.ts';

/** Why a call received no response. */
export type OutgoingFault = 'timeout' | 'dns' | 'tls' | 'connect' | 'blocked_address' | 'http_error';

export class OutgoingError extends Error {
  readonly fault: OutgoingFault;

  constructor(fault: OutgoingFault, message: string = fault) {
    super(message);
    this.fault = fault;
  }
}

/** The time limit of a call. Counts from its start, but not while the event loop is blocked. */
export class TimeLimit {
  readonly #cancelWhole: () => void;
  readonly #cancelConnecting: () => void;
  #handler: ((late: OutgoingError) => void) | undefined;

  /**
   * @param whole milliseconds until the response is read
   * @param connecting milliseconds for DNS look-up and connecting
   */
  constructor(whole: number, connecting: number) {
    const expire = (): void => this.#handler?.(new OutgoingError('timeout'));
    this.#cancelWhole = startResponsiveTimeout(expire, whole);
    this.#cancelConnecting = startResponsiveTimeout(expire, connecting);
  }

  /** Sets the timeout handler of the current step, in place of the previous one. */
  onTimeout(handler: (late: OutgoingError) => void): void {
    this.#handler = handler;
  }

  /**
   * Waits for work that cannot be canceled.
   * @throws OutgoingError if it takes too long
   */
  wait<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#handler = reject;
      work.then(resolve, reject);
    });
  }

  /** The connection is open; from here on only the total limit applies. */
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
 * Runs a step that reports through events. The first result or error counts; later ones are
 * ignored.
 * @param fault the fault of errors other than OutgoingError
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
