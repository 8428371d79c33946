// The feed as a credential reads it: events of the objects that it sees, in its reach.
import type { Sql } from '../client/pool.ts';
import { inReach, type Scope } from '../client/visibility.ts';
import { type FeedEvent, withColumns } from './feed.ts';

export interface FeedQuestion {
  /** Those that the caller may hear of. */
  objects: readonly string[];
  /** Leaves out what this credential did itself. */
  skipOwn: boolean;
  /** Reads what fields were and are, too. */
  withChanges: boolean;
}

/** An event, with its changes if they were asked for. */
export interface ReadEvent extends FeedEvent {
  /** True where the event took the record from the caller's reach, or out of the world. */
  wasInReach: boolean;
}

/** A part of a feed, and where the feed begins and ends, all as of one moment. */
export interface FeedStretch {
  /** The position before the oldest event that is kept. */
  start: number;
  last: number;
  events: ReadEvent[];
}

/**
 * Events behind a position, in their order.
 * @param after undefined: from the oldest one on
 * @param stretch how many positions are looked through at most
 * @param limit how many events are read at most
 */
export async function readFeed(
  sql: Sql,
  scope: Scope,
  { objects, skipOwn, withChanges }: FeedQuestion,
  after: number | undefined,
  stretch: number,
  limit: number,
): Promise<FeedStretch> {
  const { companyId, testMode, actor } = scope;
  const isOther = sql`and (actor ->> 'kind', actor ->> 'id') <> (${actor.kind}, ${actor.id})`;
  const begin = sql`coalesce(${after ?? null}::bigint, ends.start)`;
  const rows = await sql<(Partial<ReadEvent> & { start: number; last: number })[]>`
    select ends.start, ends.last, e.*
    from (
      select f.last_position as last, coalesce((
        select position - 1 from feed_events
        where company_id = ${companyId} and test_mode = ${testMode}
        order by position
        limit 1
      ), f.last_position) as start
      from feeds f
      where f.company_id = ${companyId} and f.test_mode = ${testMode}
    ) ends
    left join lateral (
      select position, id, event, object, record_id, occurred_at, actor, request_id,
        data, ${withChanges ? sql`changes` : sql`null::jsonb as changes`}, coalesce(${inReach(sql, scope)}, false) as was_in_reach
      from feed_events
      where company_id = ${companyId} and test_mode = ${testMode}
        and position > ${begin} and position <= least(ends.last, ${begin} + ${stretch}::bigint)
        and object = any(${[...objects]}::text[])
        ${skipOwn ? isOther : sql``}
      order by position
      limit ${limit}
    ) e on true
    order by e.position`;
  const [first] = rows;
  if (!first) return { start: 0, last: 0, events: [] };
  const events = rows
    .filter((row): row is ReadEvent & typeof row => typeof row.position === 'number')
    .map((event) => ({ ...event, data: withColumns(event) }));
  return { start: first.start, last: first.last, events };
}
