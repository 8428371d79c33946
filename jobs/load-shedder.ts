// Backs off under foreground load: while requests wait, background work runs in small batches.
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds between two batches under load. */
const batchDelayMs = 200;
/** Milliseconds for which a load measurement is valid. */
const measuredForMs = 50;
/**
 * The average number of waiting requests from which on the server counts as loaded. Lower values
 * are normal, because requests that arrive together sometimes wait.
 */
const loadThreshold = 0.5;

/** Admits the batches of one kind of work in this process. */
export class LoadShedder {
  readonly #waitedMs: () => number;
  #lastWaitedMs: number;
  #measuredAt = performance.now();
  #isUnderLoad = false;
  #turn = Promise.resolve();

  /**
   * @param waitedMs total milliseconds that requests have waited for connections since the start
   */
  constructor(waitedMs: () => number) {
    this.#waitedMs = waitedMs;
    this.#lastWaitedMs = waitedMs();
  }

  /**
   * Waits until the next batch may start: immediately without load, otherwise one batch at a time.
   * @returns true if the batch must be small
   */
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
