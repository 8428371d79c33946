// Lets requests go first: while they wait for connections, other work is done in small turns.
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds from one turn to the next while requests wait. */
const between = 200;
/** Milliseconds for which it is taken to be as it was found. */
const glance = 50;
/** Of each millisecond, how many requests must have waited on average to be said to wait: one that comes with others waits now and then. */
const pressing = 0.5;

/** The turns of one kind of work of this process. */
export class Pace {
  readonly #waited: () => number;
  #seen: number;
  #seenAt = performance.now();
  #isPressed = false;
  #turn = Promise.resolve();

  /** @param waited milliseconds that all requests together have waited for connections since the start */
  constructor(waited: () => number) {
    this.#waited = waited;
    this.#seen = waited();
  }

  /** Waits for a turn, of which there is one at a time while requests wait. @returns true where it is to be a small one */
  async turn(stop?: AbortSignal): Promise<boolean> {
    if (!this.#look()) return false;
    this.#turn = this.#turn.then(() => sleep(between, undefined, { signal: stop, ref: false }).catch(() => undefined));
    await this.#turn;
    return true;
  }

  #look(): boolean {
    const now = performance.now();
    const passed = now - this.#seenAt;
    if (passed < glance) return this.#isPressed;
    const waited = this.#waited();
    this.#isPressed = waited - this.#seen >= passed * pressing;
    this.#seen = waited;
    this.#seenAt = now;
    return this.#isPressed;
  }
}
