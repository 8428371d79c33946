// Processes a queue tenant by tenant, for the dispatcher and the webhook matcher.
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import type { Waiting } from '../../db/client/waiting.ts';
import type { TenantJobContext } from '../runner.ts';

export interface QueueWork {
  /**
   * Finds tenants with waiting items, in a stable order.
   * @param after the end of the previous page
   */
  find(sql: Sql, after: TenantScope | undefined): Promise<Waiting>;
  /**
   * Processes some waiting items in one transaction.
   * @param limit maximum number of events
   * @returns the number processed; the limit if there may be more, 0 while another process works on
   * the tenant
   */
  take(context: TenantJobContext, scope: TenantScope, limit: number): Promise<number>;
  /** Tenants that are processed at the same time, each on its own connection. */
  atOnce: number;
  /** The log text if a tenant's work failed and will be retried. */
  failureText: string;
}

/** Milliseconds before a failed tenant is retried. */
const retryAfterMs = 1000;
/** The minimum batch size. */
const smallestBatch = 50;

/** The state of a queue in this process. Each tenant is processed by one process at a time. */
export class TenantQueue {
  readonly #work: QueueWork;
  readonly #limits = new BatchLimits();
  /** Tenants that failed, with the time until which they are skipped. */
  readonly #failed = new Map<string, number>();

  constructor(work: QueueWork) {
    this.#work = work;
  }

  /**
   * Processes the waiting items of all tenants, and continues while there are full batches. Items
   * that arrive meanwhile are left for the next run.
   */
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
          // A tenant that fails does not delay the events of others.
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
 * Batch sizes per tenant. Tenants with many webhooks get smaller batches, because each delivery is
 * a row to write. The limit is halved after a failure, and doubled if a batch of twice the size
 * would still be fast enough. It is never lowered for slowness alone: on a busy server, small
 * batches take as long as large ones.
 */
class BatchLimits {
  /** Tenants whose limit is below the batch size. */
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
