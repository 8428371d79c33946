// The deadline of a request's database work; after it the response is 503.
import { ApiError } from '../errors.ts';
import { readResponsiveClock, startWaiting, stopWaiting, type Waiting } from '../responsive-timeout.ts';

/** Milliseconds that one request may wait for the database in total. */
const limitMs = 1800;

export class DeadlinePassed extends ApiError {
  constructor() {
    super('SERVICE_UNAVAILABLE', 'The service is temporarily unavailable. Try again shortly.', undefined, {
      headers: { 'retry-after': '1' },
    });
  }
}

/**
 * The deadline of one request. Time counts only inside race(), and only while the event loop is
 * free: a response of the database is not late because this process reads it late.
 */
export class Deadline implements Waiting {
  dueAt = 0;
  position = -1;
  #left = limitMs;
  #started = 0;
  #reject: ((failure: DeadlinePassed) => void) | undefined;

  get passed(): boolean {
    return this.#left <= 0;
  }

  /** Milliseconds left. */
  get left(): number {
    return this.position !== -1 ? this.#left - (readResponsiveClock() - this.#started) : this.#left;
  }

  /**
   * Starts work and waits for it.
   * @throws DeadlinePassed if the time is used up first. A later failure of the work is ignored
   */
  race<T>(begin: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      // The clock starts before the work, since the work may pause it in its first step.
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

  /** Pauses the clock for work that does not use the database. */
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
    this.#started = readResponsiveClock();
    this.dueAt = this.#started + this.#left;
  }

  #stop(): void {
    if (this.position === -1) return;
    this.#left -= readResponsiveClock() - this.#started;
    stopWaiting(this);
  }
}
