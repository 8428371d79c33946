// The request log: adding rows, pages of it, and removal of expired days.
import type { Fragment } from 'postgres';
import type { LoggedRequest } from '../../domain/access/logged-requests.ts';
import type { Actor } from '../client/created-by.ts';
import { Insertion } from '../client/insertion.ts';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';

const insertion = new Insertion({ table: 'request_log', documents: [] });

/** Adds requests of one company. Runs under the platform role. */
export async function insertRequests(sql: Sql, rows: readonly LoggedRequest[]): Promise<void> {
  await insertion.of(sql, rows as unknown as readonly Record<string, unknown>[]);
}

export interface RequestRow {
  id: string;
  method: string;
  path: string;
  operation: string;
  status: number;
  errorCode: string | null;
  durationMs: number;
  actor: Actor;
  ip: string;
  userAgent: string | null;
  idempotentReplay: boolean;
  testMode: boolean;
}

/** A request with what is only shown of a single one. */
export interface WholeRequestRow extends RequestRow {
  requestBody: string | null;
  error: string | null;
}

/** Filters of the request log; undefined: any. */
export interface RequestFilter {
  method?: string | undefined;
  operation?: string | undefined;
  /** Both statuses are inclusive. */
  status?: { from: number; to: number } | undefined;
  errorCode?: string | undefined;
  apiKeyId?: string | undefined;
  actorId?: string | undefined;
  /** The beginning of the path. */
  path?: string | undefined;
  /** Both ids are inclusive. */
  lowestId?: string | undefined;
  highestId?: string | undefined;
}

/** Rows from a part of the log, and the id at which the next part begins. */
export interface RequestStretch {
  rows: RequestRow[];
  /** The last row that was scanned, if there may be matching rows after it. */
  reached: string | undefined;
}

const columns = (sql: Sql, companyId: string) => sql`
  m.id, method, path, operation, m.status, error_code, round(duration_ms::numeric, 1) as duration_ms,
  jsonb_build_object('kind', actor_kind, 'id', actor_id, 'name', coalesce(key_name, (
    select full_name from users u where u.company_id = ${companyId} and u.id = case when actor_kind = 'user' then actor_id::uuid end
  ))) as actor, ip, user_agent, idempotent_replay, test_mode`;

/**
 * Returns matching requests, newest first, from the next part of the log. One filter is served by
 * an index. The others are checked within the part, so that no query scans more than it.
 * @param limit the maximum number of rows
 * @param stretch the number of rows to scan
 */
export async function listRequests(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  filter: RequestFilter,
  after: string | undefined,
  limit: number,
  stretch: number,
): Promise<RequestStretch> {
  const rows = await sql<(RequestRow & { isMatch: boolean })[]>`
    with looked as (
      select * from request_log
      where company_id = ${companyId} and test_mode = ${testMode} ${buildIndexedCondition(sql, filter)}
        ${filter.lowestId === undefined ? sql`` : sql`and id >= ${filter.lowestId}`}
        ${filter.highestId === undefined ? sql`` : sql`and id <= ${filter.highestId}`}
        ${after === undefined ? sql`` : sql`and id < ${after}`}
      order by id desc
      limit ${stretch}
    ), matching as (
      select * from looked where ${buildConditions(sql, filter)} order by id desc limit ${limit}
    )
    select ${columns(sql, companyId)}, true as is_match from matching m
    union all
    select id, '', '', '', 0, null, 0, null, '', null, false, test_mode, false
    from (select id, test_mode from looked order by id limit 1) last
    where (select count(*) from looked) = ${stretch}
    order by is_match desc, id desc`;
  const found = rows.filter(({ isMatch }) => isMatch);
  const last = found.length === limit ? found.at(-1) : rows.find(({ isMatch }) => !isMatch);
  return { rows: found, reached: last?.id };
}

/** The filter that an index serves: the one that usually matches the fewest requests. */
function buildIndexedCondition(sql: Sql, { errorCode, actorId, apiKeyId, operation }: RequestFilter): Fragment {
  if (errorCode !== undefined) return sql`and error_code = ${errorCode}`;
  const actor = apiKeyId ?? actorId;
  if (actor !== undefined) return sql`and actor_id = ${actor}`;
  return operation === undefined ? sql`` : sql`and operation = ${operation}`;
}

function buildConditions(sql: Sql, filter: RequestFilter): Fragment {
  const { method, operation, status, apiKeyId, actorId, path } = filter;
  return sql`true
    ${method === undefined ? sql`` : sql`and method = ${method}`}
    ${operation === undefined ? sql`` : sql`and operation = ${operation}`}
    ${status === undefined ? sql`` : sql`and status between ${status.from} and ${status.to}`}
    ${apiKeyId === undefined ? sql`` : sql`and actor_kind = 'api_key' and actor_id = ${apiKeyId}`}
    ${actorId === undefined ? sql`` : sql`and actor_id = ${actorId}`}
    ${path === undefined ? sql`` : sql`and starts_with(path, ${path})`}`;
}

/** Returns one request; undefined if it is not in the log. */
export async function findRequest(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<WholeRequestRow | undefined> {
  const [row] = await sql<WholeRequestRow[]>`
    select ${columns(sql, companyId)}, request_body, error from request_log m
    where m.company_id = ${companyId} and m.test_mode = ${testMode} and m.id = ${id}`;
  return row;
}

/**
 * Returns the ids of the audit log entries of a request, the oldest first.
 * @param from entries before this time are not scanned
 * @param to entries after this time are not scanned
 */
export async function findAuditLogsOfRequest(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  requestId: string,
  { from, to }: { from: Date; to: Date },
  limit: number,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from audit_logs
    where company_id = ${companyId} and test_mode = ${testMode} and occurred_at between ${from} and ${to}
      and request_id = ${requestId}
    order by seq limit ${limit}`;
  return rows.map(({ id }) => id);
}

const day = 86_400_000;
/** Days for which the log is kept. */
const keptDays = 30;

/** Returns the first day that is kept. */
const firstKeptDay = (now: Date): string => new Date(now.getTime() - keptDays * day).toISOString().slice(0, 10);

/**
 * Drops the expired days of the log.
 * @returns how many; 0 if a concurrent write holds the lock
 */
export async function dropRequestDays(sql: Sql, now: Date): Promise<number> {
  const rows = await sql<{ dropped: number }[]>`
    select drop_request_partitions(${firstKeptDay(now)}::date) as dropped`.catch((error: { code?: string }) => {
    if (error.code === lockTimeout) return [];
    throw error;
  });
  return rows[0]?.dropped ?? 0;
}

/**
 * Removes expired requests of days that have no partition.
 * @returns how many, at most the limit
 */
export async function sweepOtherRequests(sql: Sql, limit: number, now: Date): Promise<number> {
  const expired = sql`id < first_request_id(${firstKeptDay(now)}::date)`;
  const due = await sql<DueRow[]>`
    select company_id, id from request_log_other where ${expired} order by id limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from request_log_other
      where company_id = ${companyId} and ${expired} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}

/** PostgreSQL's code for a lock that was not available in time. */
const lockTimeout = '55P03';
