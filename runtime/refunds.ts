// Calls that turned out to cost nothing are given back to the quota in the background, many in one statement.
import type { Charge } from './store.ts';

/** Milliseconds until refunds that failed are tried again. */
const pause = 1000;

export class Refunds {
  readonly #give: (refunds: readonly (Charge & { calls: number })[]) => Promise<void>;
  /** By company and month: an outage makes many refunds of few companies. */
  #pending = new Map<string, Charge & { calls: number }>();
  #giving: Promise<void> | undefined;

  /** @param give gives all of them back, or none */
  constructor(give: (refunds: readonly (Charge & { calls: number })[]) => Promise<void>) {
    this.#give = give;
  }

  add(charge: Charge, calls = 1): void {
    const key = `${charge.companyId} ${charge.monthStart.getTime()}`;
    const known = this.#pending.get(key);
    if (known) known.calls += calls;
    else this.#pending.set(key, { ...charge, calls });
    this.#giving ??= this.#run();
  }

  /** Resolves when everything was given back, or could not be. */
  async settled(): Promise<void> {
    await this.#giving;
  }

  async #run(): Promise<void> {
    // Those of one turn of the event loop go together.
    await new Promise(setImmediate);
    while (this.#pending.size > 0) {
      const refunds = [...this.#pending.values()];
      this.#pending = new Map();
      try {
        await this.#give(refunds);
      } catch {
        // The statement says in the log of the database why; what is owed is kept until it can be given.
        this.#giving = undefined;
        setTimeout(() => {
          for (const { calls, ...charge } of refunds) this.add(charge, calls);
        }, pause).unref();
        return;
      }
    }
    this.#giving = undefined;
  }
}
