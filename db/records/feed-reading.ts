// The feed as a credential sees it: events of the objects and records that it can view.
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { addFeedColumns, type FeedEvent } from './feed.ts';

export interface FeedQuestion {
  /** The objects that the caller can view. */
  objects: readonly string[];
  /** Leaves out changes by this credential. */
  skipOwn: boolean;
  /** Also reads the old and new values of fields. */
  withChanges: boolean;
}

/** An event, with its changes if they were requested. */
export interface ReadEvent extends FeedEvent {
  /**
   * True if the caller could see the record before the event, which deleted it or took it out of
   * the caller's visibility.
   */
  wasInReach: boolean;
}

/** A part of a feed, and the feed's first and last position, from one snapshot. */
export interface FeedStretch {
  /** The position before the oldest stored event. */
  start: number;
  last: number;
  events: ReadEvent[];
}

/**
 * Returns events after a position, in their order.
 * @param after undefined: from the oldest one
 * @param stretch the maximum number of positions to scan
 * @param limit the maximum number of events
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
        data, ${withChanges ? sql`changes` : sql`null::jsonb as changes`}, coalesce(${isVisibleTo(sql, scope)}, false) as was_in_reach
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
    .map((event) => ({ ...event, data: addFeedColumns(event) }));
  return { start: first.start, last: first.last, events };
}
