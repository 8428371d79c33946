// The error with which the Stripe simulation rejects a request.

/** A request that Stripe answers with 400. */
export class Refused extends Error {
  /** Stripe's error code. */
  readonly code: string | undefined;

  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}
