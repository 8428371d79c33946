// Due billing work: subscriptions, and operations that were left unfinished.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';

/**
 * Finds subscriptions with a change that is due, the longest overdue first.
 * @param besides companies that are left out
 */
export async function findDueSubscriptions(
  sql: Sql,
  besides: readonly string[],
  limit: number,
  due: DueTime,
): Promise<TenantScope[]> {
  return await sql<TenantScope[]>`
    (
      select company_id, false as test_mode, due_at from subscriptions
      where due_at <= ${due.now} and company_id <> all(${[...besides]}::uuid[]) and ${belongsToRun(sql, 'subscriptions', due, sql`false`)}
      order by due_at limit ${limit}
    )
    union all
    (
      select company_id, true, due_at from test_subscriptions
      where due_at <= ${due.now} and company_id <> all(${[...besides]}::uuid[]) and ${belongsToRun(sql, 'test_subscriptions', due, sql`true`)}
      order by due_at limit ${limit}
    )
    order by due_at
    limit ${limit}`;
}

export interface LeftOperation extends TenantScope {
  id: string;
}

/**
 * Finds billing operations that were left unfinished, the oldest first.
 * @param besides companies that are left out
 */
export async function findAbandonedOperations(
  sql: Sql,
  besides: readonly string[],
  limit: number,
  due: DueTime,
): Promise<LeftOperation[]> {
  return await sql<LeftOperation[]>`
    select company_id, test_mode, id from billing_operations
    where status = 'pending' and leased_until <= ${due.now} and company_id <> all(${[...besides]}::uuid[])
      and ${belongsToRun(sql, 'billing_operations', due)}
    order by leased_until
    limit ${limit}`;
}
