// The queue of each record in a subscription that is ordered: one delivery is active, the others
// wait without a time of their next attempt.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/**
 * Locks subscriptions until the transaction ends, in the order of their ids. While a queue gets new
 * deliveries, no sender ends the active one.
 * @returns those that exist: a deletion may have ended while the lock waited for it
 */
export async function lockQueues(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionIds: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select id from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${[...subscriptionIds]}::uuid[])
    order by id
    for update`;
  return new Set(rows.map(({ id }) => id));
}

/**
 * Locks all subscriptions of a company and mode until the transaction ends, in the same order as
 * lockQueues.
 */
export async function lockAllQueues(sql: Sql, { companyId, testMode }: TenantScope): Promise<void> {
  await sql`
    select from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode}
    order by id
    for update`;
}

/**
 * Activates the first waiting delivery of each queue that has no active one: that of the earliest
 * event. The subscription must be locked.
 * @param recordIds the records of the queues
 * @returns how many were activated
 */
export async function activateNext(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionId: string,
  recordIds: readonly string[],
  now: Date,
): Promise<number> {
  const ids = [...new Set(recordIds)];
  if (ids.length === 0) return 0;
  const queued = sql`
    company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${subscriptionId}
      and is_ordered and status in ('pending', 'retrying')`;
  const activated = await sql`
    with heads as materialized (
      select head.id
      from unnest(${ids}::uuid[]) as queue (record_id)
      cross join lateral (
        select id from webhook_deliveries
        where ${queued} and record_id = queue.record_id
        order by position, id
        limit 1
      ) head
      where not exists (
        select from webhook_deliveries
        where ${queued} and record_id = queue.record_id and next_attempt_at is not null
      )
    )
    update webhook_deliveries set next_attempt_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(select id from heads))`;
  return activated.count;
}
