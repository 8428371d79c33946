// How long one request may wait for the database before it is answered with 503.
import { ApiError } from './errors.ts';

/** Milliseconds in all, reading the body left out. */
const databaseDeadline = 1800;

/** The answer to a request whose time ran out. */
export class DeadlinePassed extends ApiError {
  constructor() {
    super('SERVICE_UNAVAILABLE', 'The service is not available for the moment. Try again shortly.', undefined, {
      headers: { 'retry-after': '1' },
    });
  }
}

/** The time that one request may spend on the database, however many waits it is made of. */
export class DatabaseTime {
  #left = databaseDeadline;

  /** @throws DeadlinePassed when the time runs out before the work ends; the work's own failure is then of no interest */
  async spend<T>(work: Promise<T>): Promise<T> {
    const start = performance.now();
    let timer: NodeJS.Timeout | undefined;
    try {
      return await Promise.race([
        work,
        new Promise<never>((_, reject) => {
          timer = setTimeout(() => reject(new DeadlinePassed()), this.#left);
        }),
      ]);
    } finally {
      clearTimeout(timer);
      this.#left = Math.max(1, this.#left - (performance.now() - start));
      work.catch(() => undefined);
    }
  }
}
