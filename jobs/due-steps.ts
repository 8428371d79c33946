// Runs long work in steps, each in its own transaction.
import type { TransactionWork } from '../db/client/in-transaction.ts';
import type { Sql } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import type { DueTime } from '../db/client/test-clocks.ts';
import { getDueTime, type TenantJobContext } from './runner.ts';

/** A due item of a tenant. */
export interface DueItem extends TenantScope {
  id: string;
}

/** Items per query. Each item takes one step before the first takes its next. */
const foundAtOnce = 20;

/**
 * Takes steps of due items until nothing is due. Several servers may run it at the same time. An
 * item that fails is logged and skipped. It is due again in the next run and does not delay others.
 * @param find returns due items, longest waiting first
 * @param step returns false if another server works on the item
 * @param failure the log field of the item's id, and the log text
 * @returns the number of steps
 */
export async function runDueSteps(
  context: TenantJobContext,
  find: (sql: Sql, limit: number, due: DueTime) => Promise<DueItem[]>,
  step: (scope: TenantScope, id: string, ...to: Parameters<TransactionWork<boolean>>) => Promise<boolean>,
  failure: { field: string; text: string },
): Promise<number> {
  const { platform, transaction, log, signal } = context;
  const failed = new Set<string>();
  let steps = 0;
  for (;;) {
    const due = await platform.use((sql) => find(sql, foundAtOnce + failed.size, getDueTime(context)));
    let done = 0;
    for (const { id, ...scope } of due.filter((each) => !failed.has(each.id))) {
      if (signal.aborted) return steps;
      try {
        if (await transaction(scope, (...to) => step(scope, id, ...to))) done += 1;
      } catch (error) {
        failed.add(id);
        const err = { message: (error as Error).message };
        log.warn({ company: scope.companyId, [failure.field]: id, err }, failure.text);
      }
    }
    steps += done;
    if (done === 0) return steps;
  }
}
