// How the stand-in of Stripe refuses a request.

/** A request that Stripe answers with 400. */
export class Refused extends Error {
  /** Stripe's own code. */
  readonly code: string | undefined;

  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}
