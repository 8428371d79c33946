// The time that a request gives the database; when it is used up, the answer is 503.
import { ApiError } from '../errors.ts';
import { responsiveNow, startWaiting, stopWaiting, type Waiting } from '../responsive-timeout.ts';

/** Milliseconds of one request that may be spent on waiting for the database, in all its steps together. */
const limit = 1800;

export class DeadlinePassed extends ApiError {
  constructor() {
    super('SERVICE_UNAVAILABLE', 'The service is temporarily unavailable. Try again shortly.', undefined, {
      headers: { 'retry-after': '1' },
    });
  }
}

/**
 * The time of one request. It runs only inside race, and only while the event loop is free: an answer of the database that
 * this process was late to read is not late.
 */
export class Deadline implements Waiting {
  dueAt = 0;
  position = -1;
  #left = limit;
  #started = 0;
  #reject: ((failure: DeadlinePassed) => void) | undefined;

  get passed(): boolean {
    return this.#left <= 0;
  }

  /** Milliseconds left. */
  get left(): number {
    return this.position !== -1 ? this.#left - (responsiveNow() - this.#started) : this.#left;
  }

  /**
   * Begins work and waits for it.
   * @throws DeadlinePassed when the time is used up before the work is done; its own failure is then of no interest
   */
  race<T>(begin: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      // The time runs before the work begins, since the work may pause it in its first step.
      this.#run();
      begin().then(
        (value) => {
          this.#stop();
          resolve(value);
        },
        (error: unknown) => {
          this.#stop();
          reject(error);
        },
      );
    });
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

  onTimeout(): void {
    this.#left = 0;
    this.#reject?.(new DeadlinePassed());
  }

  #run(): void {
    startWaiting(this);
    this.#started = responsiveNow();
    this.dueAt = this.#started + this.#left;
  }

  #stop(): void {
    if (this.position === -1) return;
    this.#left -= responsiveNow() - this.#started;
    stopWaiting(this);
  }
}
