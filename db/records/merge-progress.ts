// Merges and undos that a job finishes: which are due, and what has moved so far.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { getRecordTable } from './columns.ts';
import type { Pair } from './merge-moves.ts';
import type { MovedCounts } from './merges.ts';
import { belongsToTenant } from './reached.ts';
import type { ClearingCause } from './reference-clearing.ts';

const isOwn = (sql: Sql, { companyId, testMode }: TenantScope) =>
  sql`company_id = ${companyId} and test_mode = ${testMode}`;

/** A merge that is due to be continued. */
export interface DueMerge {
  id: string;
  object: string;
  sourceId: string;
  targetId: string;
  undoneAt: Date | null;
  moved: MovedCounts;
  remaining: MovedCounts;
  causedBy: ClearingCause;
  attempts: number;
}

/** Tenants with merges that are due to be continued, for the platform role. */
export async function findDueMerges(sql: Sql, limit: number): Promise<TenantScope[]> {
  return await sql<TenantScope[]>`
    select distinct company_id, test_mode
    from (select company_id, test_mode from merges where due_at <= now() order by due_at limit ${limit}) due`;
}

/**
 * Takes a due merge of a tenant until the transaction ends, the one that waits longest. Skips those
 * that another server works on.
 */
export async function takeDueMerge(sql: Sql, scope: TenantScope): Promise<DueMerge | undefined> {
  const [row] = await sql<DueMerge[]>`
    select id, object, source_id, target_id, undone_at, moved, remaining, caused_by, attempts from merges
    where ${isOwn(sql, scope)} and status = 'running' and due_at <= now()
    order by due_at, id
    limit 1
    for update skip locked`;
  return row;
}

/** Stores what moved, and lets the merges that wait longer go first. */
export async function noteProgress(
  sql: Sql,
  scope: TenantScope,
  id: string,
  { moved, remaining }: Pick<DueMerge, 'moved' | 'remaining'>,
): Promise<void> {
  await sql`
    update merges
    set moved = ${sql.json(moved as never)}, remaining = ${sql.json(remaining as never)}, attempts = 0, due_at = now()
    where ${isOwn(sql, scope)} and id = ${id}`;
}

/** Records that everything has moved. */
export async function completeMerge(sql: Sql, scope: TenantScope, id: string): Promise<void> {
  await sql`
    update merges set status = 'completed', remaining = null, caused_by = null, due_at = null
    where ${isOwn(sql, scope)} and id = ${id}`;
}

/** Has a merge whose chunk failed tried again, later each time, but at least every minute. */
export async function retryMerge(sql: Sql, scope: TenantScope, id: string): Promise<void> {
  await sql`
    update merges set attempts = attempts + 1, due_at = now() + least(attempts + 1, 60) * interval '1 second'
    where ${isOwn(sql, scope)} and id = ${id} and status = 'running'`;
}

/** A row that a job moved to the target of a merge. */
export interface MovedRow {
  /** Its table, or `references`. */
  kind: string;
  id: string;
  /** Of a reference, the field. */
  field?: string | undefined;
}

/** Stores which rows moved, for the undo. */
export async function keepMoved(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  mergeId: string,
  moved: readonly MovedRow[],
): Promise<void> {
  if (moved.length === 0) return;
  await sql`
    insert into deleted_items (company_id, test_mode, record_id, kind, id, document)
    select ${companyId}, ${testMode}, ${mergeId}, row.kind, row.id, row.document::jsonb
    from unnest(${moved.map(({ kind }) => `moved_${kind}`)}::text[], ${moved.map(({ id }) => id)}::uuid[],
      ${moved.map(({ field }) => JSON.stringify(field === undefined ? {} : { field }))}::text[]) as row (kind, id, document)`;
}

/** Returns true if a job moved rows in a merge, so that its undo takes a job, too. */
export async function hasMoved(sql: Sql, scope: TenantScope, mergeId: string): Promise<boolean> {
  const rows = await sql`select from deleted_items where ${isOwn(sql, scope)} and record_id = ${mergeId} limit 1`;
  return rows.length > 0;
}

/** Takes some of the rows that a job moved, in the order of their kinds, to move them back. */
export async function takeMoved(sql: Sql, scope: TenantScope, mergeId: string, limit: number): Promise<MovedRow[]> {
  const rows = await sql<MovedRow[]>`
    select substr(kind, 7) as kind, id, document ->> 'field' as field from deleted_items
    where ${isOwn(sql, scope)} and record_id = ${mergeId}
    order by kind, id
    limit ${limit}`;
  const last = rows.at(-1);
  // A range of the key: a join with the rows is planned for few, and takes a second for thousands.
  if (last)
    await sql`
      delete from deleted_items
      where ${isOwn(sql, scope)} and record_id = ${mergeId} and (kind, id) <= (${`moved_${last.kind}`}, ${last.id})`;
  return [...rows];
}

/** Returns true if the record to which items move exists. */
export async function hasDestination(sql: Sql, scope: TenantScope, { object, to }: Pair): Promise<boolean> {
  const table = getRecordTable(object);
  const rows = await sql`
    select from ${sql(table.name)} r where ${belongsToTenant(sql, scope, table)} and r.id = ${to}`;
  return rows.length > 0;
}

/** Locks the record to which items move, as a deletion does: no link is added to it meanwhile. */
export async function lockDestination(sql: Sql, scope: TenantScope, { object, to }: Pair): Promise<void> {
  const table = getRecordTable(object);
  await sql`select from ${sql(table.name)} r where ${belongsToTenant(sql, scope, table)} and r.id = ${to} for update`;
}
