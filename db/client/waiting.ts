// Queues that are emptied company by company: whose rows wait. Asked under the platform role.
import type { Sql } from './pool.ts';
import type { TenantScope } from './tenant.ts';

/** Rows that are looked at for one question. */
const glance = 2000;

export interface Waiting {
  tenants: TenantScope[];
  /** Where it ended, if others may stand behind it. */
  end: TenantScope | undefined;
}

/**
 * Looks for companies and modes that have rows in a queue, in the order of its key; goes on where it ended the last time, so that one that
 * has much hides nobody.
 * @param after what `end` was then
 */
export async function findWaiting(
  sql: Sql,
  queue: 'outbox_events' | 'webhook_backlog' | 'reference_clearings',
  after?: TenantScope,
): Promise<Waiting> {
  const behind = after && sql`where (company_id, test_mode) > (${after.companyId}, ${after.testMode})`;
  const found = await sql<(TenantScope & { rows: number })[]>`
    select company_id, test_mode, count(*)::int as rows
    from (
      select company_id, test_mode from ${sql(queue)} ${behind ?? sql``}
      order by company_id, test_mode
      limit ${glance}
    ) waiting
    group by 1, 2
    order by 1, 2`;
  const looked = found.reduce((sum, { rows }) => sum + rows, 0);
  const tenants = found.map(({ companyId, testMode }) => ({ companyId, testMode }));
  return { tenants, end: looked === glance ? tenants.at(-1) : undefined };
}
