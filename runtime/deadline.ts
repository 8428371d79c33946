// The time that a request gives the database; when it is used up, the answer is 503.
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

/**
 * Those whose time runs, in no order. One timer looks after all: a timer of its own for each step of each request costs more than
 * finding its route. An array, since the tables that a busy Set leaves behind keep what was in them from being collected.
 */
const running: Deadline[] = [];
/** Milliseconds between looks, by which a deadline may pass too late. */
const between = 25;
let timer: NodeJS.Timeout | undefined;

function look(): void {
  const now = performance.now();
  for (const deadline of [...running]) deadline.expireBy(now);
  timer = running.length > 0 ? setTimeout(look, between) : undefined;
}

/** The time of one request. It runs only inside race. */
export class Deadline {
  #left = limit;
  #started = 0;
  /** Its place among those that run; -1 while it stands still. */
  #place = -1;
  #reject: ((failure: DeadlinePassed) => void) | undefined;

  get passed(): boolean {
    return this.#left <= 0;
  }

  /** Milliseconds left. */
  get left(): number {
    return this.#place !== -1 ? this.#left - (performance.now() - this.#started) : this.#left;
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

  expireBy(now: number): void {
    if (now - this.#started < this.#left) return;
    this.#stop();
    this.#reject?.(new DeadlinePassed());
  }

  #run(): void {
    this.#started = performance.now();
    if (this.#place === -1) this.#place = running.push(this) - 1;
    if (timer === undefined) timer = setTimeout(look, between);
  }

  #stop(): void {
    if (this.#place === -1) return;
    this.#left -= performance.now() - this.#started;
    const last = running.pop() as Deadline;
    if (last !== this) {
      running[this.#place] = last;
      last.#place = this.#place;
    }
    this.#place = -1;
  }
}
