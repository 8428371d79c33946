// Empties a queue tenant by tenant: for the dispatcher and the webhooks' matcher.
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import type { Waiting } from '../../db/client/waiting.ts';
import type { TenantJobContext } from '../runner.ts';

export interface QueueWork {
  /** Finds tenants that have something waiting, in one order. @param after where the question before ended */
  find(sql: Sql, after: TenantScope | undefined): Promise<Waiting>;
  /**
   * Handles some of what waits, in a transaction of its own.
   * @param limit events at most
   * @returns how many; the limit if there may be more, none while another process is at it
   */
  take(context: TenantJobContext, scope: TenantScope, limit: number): Promise<number>;
  /** Tenants that are worked for at the same time, each on a connection of its own. */
  atOnce: number;
  /** What the log says of a tenant's work that failed, and is tried again. */
  failureText: string;
}

/** Milliseconds before a tenant whose work failed is tried again. */
const retryAfterMs = 1000;
/** Events of one transaction are never limited to fewer. */
const smallestBatch = 50;

/** What this process knows of a queue. Each tenant is worked for by one process at a time. */
export class TenantQueue {
  readonly #work: QueueWork;
  readonly #limits = new BatchLimits();
  /** Tenants that are left out after a failure, with the time until which they are. */
  readonly #failed = new Map<string, number>();

  constructor(work: QueueWork) {
    this.#work = work;
  }

  /** Handles what waits, of all tenants; once more if there was much. What comes meanwhile is for the next run. */
  async run(context: TenantJobContext): Promise<void> {
    const { batchSize, timeoutMs, log, signal } = context;
    for (const [companyId, until] of this.#failed) if (until <= performance.now()) this.#failed.delete(companyId);
    for (;;) {
      const scopes = (await this.#findAll(context)).filter(({ companyId }) => !this.#failed.has(companyId));
      let isMore = false;
      const take = async (scope: TenantScope): Promise<void> => {
        if (signal.aborted) return;
        const limit = this.#limits.of(scope.companyId, batchSize);
        const start = performance.now();
        try {
          const taken = await this.#work.take(context, scope, limit);
          if (taken === 0) return;
          const isQuick = performance.now() - start < timeoutMs / 2;
          this.#limits.adapt(scope.companyId, isQuick ? limit * 2 : limit, batchSize);
          isMore ||= taken === limit;
        } catch (error) {
          this.#limits.adapt(scope.companyId, limit >> 1, batchSize);
          // The events of other tenants do not wait for those of one that fails.
          this.#failed.set(scope.companyId, performance.now() + retryAfterMs);
          const { message } = error as Error;
          log.warn({ company: scope.companyId, err: { message } }, this.#work.failureText);
        }
      };
      await forEachAtOnce(scopes, this.#work.atOnce, take);
      if (signal.aborted || !isMore) return;
    }
  }

  async #findAll({ platform }: TenantJobContext): Promise<TenantScope[]> {
    const all: TenantScope[] = [];
    let after: TenantScope | undefined;
    do {
      const from = after;
      const { tenants, end } = await platform.use((sql) => this.#work.find(sql, from));
      all.push(...tenants);
      after = end;
    } while (after);
    return all;
  }
}

/**
 * How many events of each tenant are taken at once: fewer of a tenant with many webhooks, since each delivery is a row to be written. The
 * limit is halved if the transaction failed, and doubled if twice as many would not take too long either. It is not lowered for less: on a
 * busy server few events take as long as many.
 */
class BatchLimits {
  /** Of tenants whose limit is below the batch size. */
  readonly #lower = new Map<string, number>();

  of(companyId: string, batchSize: number): number {
    return this.#lower.get(companyId) ?? batchSize;
  }

  adapt(companyId: string, wanted: number, batchSize: number): void {
    const limit = Math.max(smallestBatch, Math.min(batchSize, wanted));
    if (limit === batchSize) this.#lower.delete(companyId);
    else this.#lower.set(companyId, limit);
  }
}

async function forEachAtOnce<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const workOnRest = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, workOnRest));
}
