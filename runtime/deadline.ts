// The time that a request gives the database: when it is used up the answer is 503, and what was asked is of no interest any more.
import { ApiError } from './errors.ts';

/** Milliseconds of one request that may be spent on waiting for the database, in all its steps together. */
const limit = 1800;

export class DeadlinePassed extends ApiError {
  constructor() {
    super('SERVICE_UNAVAILABLE', 'The service is not available for the moment. Try again shortly.', undefined, {
      headers: { 'retry-after': '1' },
    });
  }
}

/** The time of one request. It runs only inside race. */
export class Deadline {
  #left = limit;
  #started = 0;
  #timer: NodeJS.Timeout | undefined;
  #expire: () => void = () => undefined;

  /**
   * Begins work and waits for it.
   * @throws DeadlinePassed when the time is used up before the work is done; its own failure is then of no interest
   */
  async race<T>(begin: () => Promise<T>): Promise<T> {
    const expired = new Promise<never>((_, reject) => {
      this.#expire = () => reject(new DeadlinePassed());
    });
    // The time runs before the work begins, since the work may pause it in its first step.
    this.#run();
    const work = begin();
    work.catch(() => undefined);
    try {
      return await Promise.race([work, expired]);
    } finally {
      this.#stop();
    }
  }

  /** Lets the time stand still for work that is not the database's. */
  async pause<T>(work: Promise<T>): Promise<T> {
    this.#stop();
    try {
      return await work;
    } finally {
      this.#run();
    }
  }

  #run(): void {
    this.#started = performance.now();
    this.#timer = setTimeout(() => this.#expire(), this.#left);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#started;
  }
}
