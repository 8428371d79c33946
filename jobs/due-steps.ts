// Jobs that go on with something long in steps, each in a transaction of its own.
import type { TransactionWork } from '../db/client/in-transaction.ts';
import type { Sql } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import type { TenantJobContext } from './runner.ts';

/** What is due: it is found by its id, and belongs to a tenant. */
export interface DueItem extends TenantScope {
  id: string;
}

/** Items that are found at once; each takes a step before the first takes its next. */
const foundAtOnce = 20;

/**
 * Takes steps of everything that is due until nothing is. Servers may do so at the same time. An item that fails is logged and left out; it
 * is due again in the next run, and the others do not wait for it.
 * @param find returns due items, those that have waited longest first
 * @param step returns false if another server works on the item
 * @param failure how the log names an item that fails: the field of its id, and the text
 * @returns how many steps were taken
 */
export async function runDueSteps(
  { platform, transaction, log, now, signal }: TenantJobContext,
  find: (sql: Sql, limit: number, now: Date) => Promise<DueItem[]>,
  step: (scope: TenantScope, id: string, ...to: Parameters<TransactionWork<boolean>>) => Promise<boolean>,
  failure: { field: string; text: string },
): Promise<number> {
  const failed = new Set<string>();
  let steps = 0;
  for (;;) {
    const due = await platform.use((sql) => find(sql, foundAtOnce + failed.size, now()));
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
