// The feed of a company and mode: waiting events get the positions by which all callers read them.
// Counts of waiting and of expired events run under the platform role, everything else under the
// tenant's.
import type { Fragment } from 'postgres';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** An event in its position. */
export interface FeedEvent {
  position: number;
  id: string;
  event: string;
  /** null: it is not about an object. */
  object: string | null;
  recordId: string | null;
  occurredAt: Date;
  actor: { kind: 'api_key' | 'oauth_client' | 'user' | 'system'; id: string; name: string | null };
  /** null: caused by the server itself. */
  requestId: string | null;
  data: Record<string, unknown>;
  /** Of updates: the old and the new values. */
  changes: Record<string, { from: unknown; to: unknown }> | null;
}

/** Parts of an event's data that are columns in the feed, and are not stored twice. */
const ofColumns = ['object', 'record_id', 'occurred_at'];

/** Returns how many events wait, and since when. */
export async function countWaiting(sql: Sql): Promise<{ events: number; oldest: Date | null }> {
  const [row] = await sql<{ events: number; oldest: Date | null }[]>`
    select count(*) as events, min(occurred_at) as oldest from outbox_events`;
  return row ?? { events: 0, oldest: null };
}

/**
 * Locks a feed until the transaction ends, so that one process at a time assigns its positions.
 * @returns its last position; undefined while another process holds it
 */
export async function takeFeed(sql: Sql, scope: TenantScope): Promise<number | undefined> {
  const last = await lock(sql, scope, sql`for update skip locked`);
  if (last !== undefined) return last;
  return (await begin(sql, scope)) ? lock(sql, scope, sql`for update skip locked`) : undefined;
}

/** Does the same, but waits for the lock. */
export async function lockFeed(sql: Sql, scope: TenantScope): Promise<number> {
  await begin(sql, scope);
  const last = await lock(sql, scope, sql`for update`);
  if (last === undefined) throw new Error('the feed of a company does not exist');
  return last;
}

async function lock(sql: Sql, { companyId, testMode }: TenantScope, how: Fragment): Promise<number | undefined> {
  const [feed] = await sql<{ last: number }[]>`
    select last_position as last from feeds where company_id = ${companyId} and test_mode = ${testMode} ${how}`;
  return feed?.last;
}

/** @returns false if it already exists */
async function begin(sql: Sql, { companyId, testMode }: TenantScope): Promise<boolean> {
  const made = await sql`
    insert into feeds (company_id, test_mode) values (${companyId}, ${testMode}) on conflict do nothing`;
  return made.count === 1;
}

/**
 * Assigns positions to waiting events, in the order of their numbers. The feed must be locked.
 * @param last the last position of the feed
 * @param limit the maximum number
 * @returns the events, in their order
 */
export async function takeWaiting(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  last: number,
  limit: number,
): Promise<FeedEvent[]> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode}`;
  // Uses a bound, not a list of numbers: with a plan from when the queue was empty, a list would be
  // read once for each waiting event.
  const events = await sql<FeedEvent[]>`
    with taken as (
      delete from outbox_events
      where ${own} and seq <= (select max(seq) from (select seq from outbox_events where ${own} order by seq limit ${limit}) oldest)
      returning *
    ), placed as (
      select ${last}::bigint + row_number() over (order by seq) as position, data ->> 'object' as object, (data ->> 'record_id')::uuid as record_id,
        taken.*
      from taken
    ), kept as (
      insert into feed_events (company_id, test_mode, position, id, event, object, record_id, occurred_at, actor, request_id, data, changes,
        assigned_to, created_by_kind, created_by_id, created_by_user)
      select company_id, test_mode, position, id, event, object, record_id, occurred_at, actor, request_id, data - ${ofColumns}::text[], changes,
        assigned_to, created_by_kind, created_by_id, created_by_user
      from placed
    )
    select position, id, event, object, record_id, occurred_at, actor, request_id, data, changes
    from placed`;
  return events.sort((a, b) => a.position - b.position);
}

/**
 * Returns the events of some positions, both ends inclusive, as they were emitted. Expired ones are
 * missing.
 */
export async function findEvents(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  first: number,
  last: number,
): Promise<FeedEvent[]> {
  const events = await sql<FeedEvent[]>`
    select position, id, event, object, record_id, occurred_at, actor, request_id, data, changes
    from feed_events
    where company_id = ${companyId} and test_mode = ${testMode} and position between ${first} and ${last}
    order by position`;
  return events.map((event) => ({ ...event, data: addFeedColumns(event) }));
}

/** Returns the ids of the events of a request, the oldest first, including those without a position. */
export async function findEventsOfRequest(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  requestId: string,
  limit: number,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    (
      select id from feed_events
      where company_id = ${companyId} and test_mode = ${testMode} and request_id = ${requestId}
      order by position limit ${limit}
    )
    union all
    (
      select id from outbox_events
      where company_id = ${companyId} and test_mode = ${testMode} and request_id = ${requestId}
      order by seq limit ${limit}
    )
    limit ${limit}`;
  return rows.map(({ id }) => id);
}

/** Returns the data of an event, including the parts that are columns of the feed. */
export function addFeedColumns({
  data,
  object,
  recordId,
  occurredAt,
}: Pick<FeedEvent, 'data' | 'object' | 'recordId' | 'occurredAt'>): FeedEvent['data'] {
  return {
    ...data,
    ...(object === null ? {} : { object }),
    ...(recordId === null ? {} : { record_id: recordId }),
    occurred_at: occurredAt.toISOString(),
  };
}

/** Stores the last position of a feed. */
export async function moveFeed(sql: Sql, { companyId, testMode }: TenantScope, last: number): Promise<void> {
  await sql`
    update feeds set last_position = ${last} where company_id = ${companyId} and test_mode = ${testMode}`;
}

/** Returns the last positions of all feeds that exist. */
export async function findLastPositions(
  sql: Sql,
  companyIds: readonly string[],
): Promise<(TenantScope & { last: number })[]> {
  return sql<(TenantScope & { last: number })[]>`
    select company_id, test_mode, last_position as last
    from feeds where company_id = any(${[...companyIds]}::uuid[])`;
}

const day = 86_400_000;
/** Days for which events are kept. */
const keptDays = 30;

/**
 * Removes expired events, from the beginning of each feed, so that there are no gaps.
 * @returns how many; the limit or more: there may be others
 */
export async function sweepEvents(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * day);
  const due = await sql<TenantScope[]>`
    select f.company_id, f.test_mode
    from feeds f
    cross join lateral (
      select e.occurred_at from feed_events e
      where e.company_id = f.company_id and e.test_mode = f.test_mode
      order by e.position
      limit 1
    ) oldest
    where oldest.occurred_at < ${before}
    limit 100`;
  let removed = 0;
  for (const { companyId, testMode } of due) {
    const own = sql`company_id = ${companyId} and test_mode = ${testMode}`;
    const gone = await sql`
      with oldest as (
        select position, occurred_at from feed_events where ${own} order by position limit ${limit}
      )
      delete from feed_events
      where ${own} and position <= (select max(position) from oldest)
        and position < coalesce((select min(position) from oldest where occurred_at >= ${before}), 9223372036854775807)`;
    removed += gone.count;
    if (removed >= limit) break;
  }
  return removed;
}
