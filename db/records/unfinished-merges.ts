// Merges and undos that a job still finishes, of which deletions and further merges must know.
import type { Fragment } from 'postgres';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** A record of a merge that is not finished. */
export interface UnfinishedMerge {
  id: string;
  recordId: string;
}

const isOwn = (sql: Sql, { companyId, testMode }: TenantScope) =>
  sql`company_id = ${companyId} and test_mode = ${testMode}`;

/** A merge whose items have not all moved. */
export interface MovingMerge {
  sourceId: string;
  targetId: string;
}

/** Returns the unfinished merges of records. Sends its statement immediately. */
export async function findUnfinishedMerges(
  sql: Sql,
  scope: TenantScope,
  recordIds: readonly string[],
): Promise<UnfinishedMerge[]> {
  const ids = [...recordIds];
  const rows = await sql<{ id: string; sourceId: string; targetId: string }[]>`
    select id, source_id, target_id from merges
    where ${isOwn(sql, scope)} and status = 'running' and (source_id = any(${ids}::uuid[]) or target_id = any(${ids}::uuid[]))
    order by id`.execute();
  const named = new Set(ids);
  return rows.flatMap(({ id, sourceId, targetId }) =>
    [sourceId, targetId].filter((recordId) => named.has(recordId)).map((recordId) => ({ id, recordId })),
  );
}

/** Returns the records whose items still move to some others, or away from them. */
export async function findMergedWith(
  sql: Sql,
  scope: TenantScope,
  object: string,
  recordIds: readonly string[],
): Promise<string[]> {
  const ids = [...recordIds];
  const rows = await sql<{ sourceId: string }[]>`
    select source_id from merges
    where ${isOwn(sql, scope)} and object = ${object} and status = 'running' and target_id = any(${ids}::uuid[])`;
  return rows.map(({ sourceId }) => sourceId);
}

/**
 * Returns the merges, without undos, of which some records are the source or the target, and whose
 * items have not all moved. Sends its statement immediately.
 */
export async function findMovingMerges(
  sql: Sql,
  scope: TenantScope,
  recordIds: readonly string[],
): Promise<MovingMerge[]> {
  const ids = [...recordIds];
  if (ids.length === 0) return [];
  return await sql<MovingMerge[]>`
    select source_id, target_id from merges
    where ${isOwn(sql, scope)} and status = 'running' and undone_at is null
      and (source_id = any(${ids}::uuid[]) or target_id = any(${ids}::uuid[]))`.execute();
}

/** Returns the query for the target of a merge that has not moved all items of a record. */
export function selectMergeTarget(sql: Sql, scope: TenantScope, recordId: Fragment): Fragment {
  return sql`
    select target_id from merges
    where ${isOwn(sql, scope)} and source_id = ${recordId} and undone_at is null and status = 'running'`;
}

/** Returns the query for the records whose items a merge still moves to a record. */
export function selectMergeSources(sql: Sql, scope: TenantScope, recordId: Fragment): Fragment {
  return sql`
    select source_id from merges
    where ${isOwn(sql, scope)} and target_id = ${recordId} and undone_at is null and status = 'running'`;
}
