// The request log: adding blocks of requests, finding them, and removal of expired days.
import type { RequestBlock } from '../../domain/access/request-blocks.ts';
import { Insertion } from '../client/insertion.ts';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';

const insertion = new Insertion({ table: 'request_log', documents: [] });

/** Adds blocks of requests of any companies. Runs under the platform role. */
export async function insertRequestBlocks(sql: Sql, blocks: readonly RequestBlock[]): Promise<void> {
  await insertion.of(sql, blocks as unknown as readonly Record<string, unknown>[]);
}

/** The part of the log to search: bounds of the ids of blocks, and terms that they must contain. */
export interface BlockFilter {
  /** The lowest and the highest last id of a block; both are inclusive. */
  lowestId: string;
  highestId: string;
  /** The highest first id of a block, inclusive. */
  highestFirstId: string;
  failuresOnly: boolean;
  terms: readonly string[];
}

/** Blocks from a part of the log, and the id at which the next part begins. */
export interface BlockPart {
  blocks: { id: string; requests: string }[];
  /** The last block that was scanned, if there may be further ones. */
  reached: string | undefined;
}

/**
 * Returns matching blocks from the next part of the log, the latest first. No query scans more than
 * the part.
 * @param before the last block of the previous part
 * @param limit the maximum number of blocks to return
 * @param scanLimit the maximum number of blocks to scan
 */
export async function findBlocks(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { lowestId, highestId, highestFirstId, failuresOnly, terms }: BlockFilter,
  before: string | undefined,
  limit: number,
  scanLimit: number,
): Promise<BlockPart> {
  const rows = await sql<{ id: string; requests: string | null }[]>`
    with scanned as materialized (
      select id, terms, requests from request_log
      where company_id = ${companyId} and test_mode = ${testMode} and id between ${lowestId} and ${highestId}
        and first_id <= ${highestFirstId} ${failuresOnly ? sql`and has_failures` : sql``}
        ${before === undefined ? sql`` : sql`and id < ${before}`}
      order by id desc
      limit ${scanLimit}
    )
    (select id, requests from scanned where terms @> ${[...terms]}::text[] order by id desc limit ${limit})
    union all
    select id, null from (select id from scanned order by id limit 1) last
    where (select count(*) from scanned) = ${scanLimit}`;
  const blocks = rows.flatMap(({ id, requests }) => (requests === null ? [] : [{ id, requests }]));
  const last = blocks.length === limit ? blocks.at(-1) : rows.find(({ requests }) => requests === null);
  return { blocks, reached: last?.id };
}

/**
 * Returns the block of a request; undefined if the request is not in the log.
 * @param between the request's id, and the highest last id that its block can have
 * @param entryStart the text with which the entry of the request begins
 */
export async function findBlock(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  [id, highestId]: readonly [string, string],
  entryStart: string,
): Promise<{ requests: string; details: string | null } | undefined> {
  const [block] = await sql<{ requests: string; details: string | null }[]>`
    select requests, details from request_log
    where company_id = ${companyId} and test_mode = ${testMode} and id between ${id} and ${highestId} and first_id <= ${id}
      and strpos(requests, ${entryStart}) > 0`;
  return block;
}

/** Returns the names of users by their ids. */
export async function findUserNames(
  sql: Sql,
  companyId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await sql<{ id: string; fullName: string }[]>`
    select id, full_name from users where company_id = ${companyId} and id = any(${[...ids]}::uuid[])`;
  return new Map(rows.map(({ id, fullName }) => [id, fullName]));
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
