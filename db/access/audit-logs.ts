// The audit log: pages of it, and removal of expired months.
import type { Fragment } from 'postgres';
import type { Actor } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface AuditLogRow {
  id: string;
  occurredAt: Date;
  actor: Actor;
  action: string;
  object: string | null;
  recordId: string | null;
  changes: Record<string, { from: unknown; to: unknown }> | null;
  metadata: Record<string, unknown> | null;
  requestId: string;
  ip: string;
  testMode: boolean;
}

/** Filters of the audit log; undefined: any. */
export interface AuditFilter {
  actorId?: string | undefined;
  action?: string | undefined;
  object?: string | undefined;
  recordId?: string | undefined;
  requestId?: string | undefined;
  /** Both times are inclusive. */
  from?: Date | undefined;
  to?: Date | undefined;
}

/** The position of a row: its time and id. */
export type AuditPlace = readonly [string, string];

/** Rows from a part of the log, and the position at which the next part begins. */
export interface AuditStretch {
  rows: AuditLogRow[];
  /**
   * The last row that was scanned, if there may be matching rows after it; undefined at the end of
   * the log.
   */
  reached: AuditPlace | undefined;
}

/**
 * Returns matching rows, the newest first, from the next part of the log. Rare rows among millions
 * are found in several such queries, none of which takes long. If an index knows the rows of the
 * record, only these are scanned.
 * @param limit the maximum number of rows
 * @param stretch the number of rows to scan
 */
export async function listAuditLogs(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  filter: AuditFilter,
  after: AuditPlace | undefined,
  limit: number,
  stretch: number,
): Promise<AuditStretch> {
  const conditions = buildConditions(sql, filter);
  const rows = await sql<(AuditLogRow & { isMatch: boolean })[]>`
    with looked as (
      select * from audit_logs
      where company_id = ${companyId} and test_mode = ${testMode}
        ${filter.recordId === undefined ? sql`` : sql`and record_id = ${filter.recordId} and ${buildObjectCondition(sql, filter)}`}
        ${filter.from ? sql`and occurred_at >= ${filter.from}` : sql``}
        ${filter.to ? sql`and occurred_at <= ${filter.to}` : sql``}
        ${after ? sql`and (occurred_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
      order by occurred_at desc, id desc
      limit ${stretch}
    ), matching as (
      select * from looked where ${conditions} order by occurred_at desc, id desc limit ${limit}
    ), last as (
      select * from looked order by occurred_at, id limit 1
    )
    select m.id, occurred_at, jsonb_build_object('kind', actor_kind, 'id', actor_id, 'name', coalesce(key_name, u.full_name)) as actor,
      action, object, record_id, changes, m.metadata, request_id, ip, test_mode, true as is_match
    from matching m
    left join users u on u.company_id = ${companyId} and u.id = case when actor_kind = 'user' then actor_id::uuid end
    union all
    select id, occurred_at, null, action, object, record_id, null, null, request_id, ip, test_mode, false
    from last
    where (select count(*) from looked) = ${stretch}
    order by is_match desc, occurred_at desc, id desc`;
  const found = rows.filter(({ isMatch }) => isMatch);
  const last = found.length === limit ? found.at(-1) : rows.find(({ isMatch }) => !isMatch);
  return { rows: found, reached: last && [last.occurredAt.toISOString(), last.id] };
}

/**
 * Returns the changes of the status of a lead or a deal, newest first; of a record of another object,
 * none.
 */
export async function listStatusChanges(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  record: { object: string; id: string },
  after: AuditPlace | undefined,
  limit: number,
): Promise<AuditLogRow[]> {
  // The condition on the object is that of the index, word for word.
  return await sql<AuditLogRow[]>`
    select m.id, occurred_at, jsonb_build_object('kind', actor_kind, 'id', actor_id, 'name', coalesce(key_name, u.full_name)) as actor,
      action, object, record_id, changes, m.metadata, request_id, ip, test_mode
    from (
      select * from audit_logs
      where company_id = ${companyId} and test_mode = ${testMode} and record_id = ${record.id} and object = ${record.object}
        and (object = 'leads' and changes ? 'lead_status' or object = 'deals' and changes ? 'stage')
        ${after ? sql`and (occurred_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
      order by occurred_at desc, id desc
      limit ${limit}
    ) m
    left join users u on u.company_id = ${companyId} and u.id = case when actor_kind = 'user' then actor_id::uuid end
    order by occurred_at desc, m.id desc`;
}

function buildObjectCondition(sql: Sql, { object }: AuditFilter): Fragment {
  return object === undefined ? sql`true` : sql`object = ${object}`;
}

function buildConditions(sql: Sql, filter: AuditFilter): Fragment {
  const { actorId, action, requestId } = filter;
  return sql`${buildObjectCondition(sql, filter)}
    ${actorId === undefined ? sql`` : sql`and actor_id = ${actorId}`}
    ${action === undefined ? sql`` : sql`and action = ${action}`}
    ${requestId === undefined ? sql`` : sql`and request_id = ${requestId}`}`;
}

const day = 86_400_000;
/** Days for which the audit log is kept. */
const keptDays = 400;

/**
 * Drops the expired months of the log.
 * @returns how many; 0 if a concurrent write holds the lock
 */
export async function dropAuditMonths(sql: Sql, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * day).toISOString().slice(0, 10);
  const rows = await sql<{ dropped: number }[]>`select drop_audit_partitions(${before}::date) as dropped`.catch(
    (error: { code?: string }) => {
      if (error.code === lockTimeout) return [];
      throw error;
    },
  );
  return rows[0]?.dropped ?? 0;
}

/**
 * Removes expired rows of months that have no partition.
 * @returns how many, at most the limit
 */
export async function sweepOtherAuditLogs(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * day);
  const due = await sql<DueRow[]>`
    select company_id, id from audit_logs_other
    where occurred_at < ${before} order by occurred_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from audit_logs_other
      where company_id = ${companyId} and occurred_at < ${before} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}

/** PostgreSQL's code for a lock that was not available in time. */
const lockTimeout = '55P03';
