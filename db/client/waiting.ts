// Finds tenants with rows in a queue, which jobs then empty one by one.
// Runs under the platform role.
import type { Sql } from './pool.ts';
import type { TenantScope } from './tenant.ts';

/** Rows that one query scans. */
const scanLimit = 2000;

export interface Waiting {
  tenants: TenantScope[];
  /** The tenant at which the scan ended, if there may be more behind it. */
  end: TenantScope | undefined;
}

/**
 * Finds companies and modes that have rows in a queue, in the order of its key. Each scan continues
 * after the last one, so that one tenant with many rows hides no others.
 * @param after `end` of the last scan
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
      limit ${scanLimit}
    ) waiting
    group by 1, 2
    order by 1, 2`;
  const scanned = found.reduce((sum, { rows }) => sum + rows, 0);
  const tenants = found.map(({ companyId, testMode }) => ({ companyId, testMode }));
  return { tenants, end: scanned === scanLimit ? tenants.at(-1) : undefined };
}
