// Backs off under foreground load: while requests wait, background work is done in small batches.
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds from one batch to the next under load. */
const batchDelayMs = 200;
/** Milliseconds for which a measurement of the load is used. */
const measuredForMs = 50;
/**
 * Requests that wait on average, from which on the server is under load. Fewer are no sign of it: a request that comes together with others
 * waits now and then.
 */
const loadThreshold = 0.5;

/** Admits the batches of one kind of work of this process. */
export class LoadShedder {
  readonly #waitedMs: () => number;
  #lastWaitedMs: number;
  #measuredAt = performance.now();
  #isUnderLoad = false;
  #turn = Promise.resolve();

  /** @param waitedMs milliseconds that all requests together have waited for connections since the start */
  constructor(waitedMs: () => number) {
    this.#waitedMs = waitedMs;
    this.#lastWaitedMs = waitedMs();
  }

  /** Waits until the next batch may begin: at once without load, else one batch after the other. @returns true if it must be a small one */
  async waitForTurn(signal?: AbortSignal): Promise<boolean> {
    if (!this.#measure()) return false;
    this.#turn = this.#turn.then(() => sleep(batchDelayMs, undefined, { signal, ref: false }).catch(() => undefined));
    await this.#turn;
    return true;
  }

  #measure(): boolean {
    const now = performance.now();
    const passed = now - this.#measuredAt;
    if (passed < measuredForMs) return this.#isUnderLoad;
    const waitedMs = this.#waitedMs();
    this.#isUnderLoad = waitedMs - this.#lastWaitedMs >= passed * loadThreshold;
    this.#lastWaitedMs = waitedMs;
    this.#measuredAt = now;
    return this.#isUnderLoad;
  }
}
