// Calls that turned out to cost nothing, given back to the quota in the background.
import type { Charge } from './quota-leases.ts';

/** Milliseconds until refunds that failed are tried again. */
const pause = 1000;

type Refund = Charge & { calls: number };

export class Refunds {
  readonly #give: (refunds: readonly Refund[]) => Promise<readonly PromiseSettledResult<unknown>[]>;
  /** By company and month: an outage makes many refunds of few companies. */
  #pending = new Map<string, Refund>();
  #giving: Promise<void> | undefined;

  /** @param give tells of each whether it was given back; throws when none was */
  constructor(give: (refunds: readonly Refund[]) => Promise<readonly PromiseSettledResult<unknown>[]>) {
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
      const owed = await this.#give(refunds).then(
        (given) => refunds.filter((_, index) => given[index]?.status !== 'fulfilled'),
        () => refunds,
      );
      if (owed.length > 0) {
        // The statement says in the log of the database why; what is owed is kept until it can be given.
        this.#giving = undefined;
        setTimeout(() => {
          for (const { calls, ...charge } of owed) this.add(charge, calls);
        }, pause).unref();
        return;
      }
    }
    this.#giving = undefined;
  }
}
