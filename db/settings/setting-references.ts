// Counts records that refer to an item of a configured list, in both modes.
import type { Sql } from '../client/pool.ts';
import { enterTenant } from '../client/tenant.ts';
import type { Scope } from '../client/visibility.ts';

/** Counting one kind stops here. */
const countLimit = 10_000;

export interface References {
  /** By the API's name of the object. */
  counts: Record<string, number>;
  /** True if there are more than were counted. */
  capped: boolean;
}

interface Reference {
  object: 'leads' | 'deals' | 'customers';
  column: 'lead_status_id' | 'pipeline_id' | 'stage_id' | 'source_id';
}

export const referencesTo = {
  sources: [
    { object: 'leads', column: 'source_id' },
    { object: 'deals', column: 'source_id' },
    { object: 'customers', column: 'source_id' },
  ],
  leads: [{ object: 'leads', column: 'lead_status_id' }],
  deals: [{ object: 'deals', column: 'stage_id' }],
  pipelines: [{ object: 'deals', column: 'pipeline_id' }],
} as const satisfies Record<string, readonly Reference[]>;

/**
 * Counts the records that refer to an item, and blocks new references until the transaction ends.
 * @param list the table of the item
 */
export async function countReferences(
  sql: Sql,
  scope: Scope,
  list: 'sources' | 'pipelines' | 'statuses',
  id: string,
  references: readonly Reference[],
): Promise<References> {
  const { companyId, testMode } = scope;
  // Deals refer to a pipeline through their stage.
  const [table, column] = list === 'pipelines' ? ['statuses', 'pipeline_id'] : [list, 'id'];
  const locked =
    sql`select from ${sql(table)} where company_id = ${companyId} and ${sql(column)} = ${id} for update`.execute();
  const counts = Object.fromEntries(references.map(({ object }) => [object, 0]));
  const counting = [testMode, !testMode].flatMap((mode) => [
    // Row-level security shows the records of one mode at a time.
    enterTenant(sql, { companyId, testMode: mode }),
    ...references.map(async ({ object, column }) => {
      const [row] = await sql<{ count: number }[]>`
        select count(*) as count from (
          select from ${sql(object)}
          where company_id = ${companyId} and test_mode = ${mode} and ${sql(column)} = ${id}
          limit ${countLimit + 1}
        ) referring`.execute();
      counts[object] = (counts[object] ?? 0) + (row?.count ?? 0);
    }),
  ]);
  const back = enterTenant(sql, { companyId, testMode });
  await Promise.all([locked, ...counting, back]);
  const capped = Object.values(counts).some((count) => count > countLimit);
  return {
    counts: Object.fromEntries(Object.entries(counts).map(([object, count]) => [object, Math.min(count, countLimit)])),
    capped,
  };
}
