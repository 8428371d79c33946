// Refunds free calls to the quota in the background.
import type { Charge } from './quota-leases.ts';

/** Milliseconds until failed refunds are retried. */
const retryMs = 1000;

type Refund = Charge & { calls: number };

export class Refunds {
  readonly #give: (refunds: readonly Refund[]) => Promise<readonly PromiseSettledResult<unknown>[]>;
  /** By company and month, because an outage causes many refunds for few companies. */
  #pending = new Map<string, Refund>();
  #giving: Promise<void> | undefined;

  /** @param give resolves with the result of each refund; rejects if all failed */
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

  /** Resolves after the pending refunds were attempted. */
  async settled(): Promise<void> {
    await this.#giving;
  }

  async #run(): Promise<void> {
    // Refunds of the same turn of the event loop are written together.
    await new Promise(setImmediate);
    while (this.#pending.size > 0) {
      const refunds = [...this.#pending.values()];
      this.#pending = new Map();
      const owed = await this.#give(refunds).then(
        (given) => refunds.filter((_, index) => given[index]?.status !== 'fulfilled'),
        () => refunds,
      );
      if (owed.length > 0) {
        // The database logs the reason. The refunds stay pending until they succeed.
        this.#giving = undefined;
        setTimeout(() => {
          for (const { calls, ...charge } of owed) this.add(charge, calls);
        }, retryMs).unref();
        return;
      }
    }
    this.#giving = undefined;
  }
}
