// The dispatcher: gives events their positions in their company’s feed once they are committed.

import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findWaiting } from '../../db/client/waiting.ts';
import { type FeedEvent, moveFeed, takeFeed, takeWaiting } from '../../db/records/feed.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { type FeedRounds, patience, startFeedRounds } from './feed-rounds.ts';

export interface DispatcherPools {
  /** Finds whose events wait. */
  platform: Pool;
  /** Everything else, bound to one tenant at a time. */
  tenants: Pool;
}

/**
 * Notes what else is to be made of events, in the transaction that gives them their positions, so that it is noted once.
 * Sees and writes the rows of that company and mode alone.
 * @returns whether anything is
 */
export type Note = (sql: Sql, scope: TenantScope, events: readonly FeedEvent[]) => Promise<boolean>;

export interface DispatcherParts {
  pools: DispatcherPools;
  note: Note;
  /** Hears how far a feed goes now, and whether more is to be made of it, once that is committed. */
  announce: (scope: TenantScope, last: number, isNoted: boolean) => void;
  /** Hears how many milliseconds each event waited. */
  noteWait?: (milliseconds: number) => void;
  log: Log;
}

/** Feeds that are moved at the same time, each on a connection of its own. */
export const feedsAtOnce = 2;

/** Starts looking. Any number of processes may: each feed is moved by one of them at a time. */
export function startDispatcher(parts: DispatcherParts): FeedRounds {
  return startFeedRounds({
    find: (after) => parts.pools.platform.use((sql) => findWaiting(sql, 'outbox_events', after)),
    take: (scope, limit) => dispatch(parts, scope, limit),
    atOnce: feedsAtOnce,
    failed: 'events could not be dispatched; they are tried again',
    log: parts.log.child({ job: 'dispatcher' }),
  });
}

/** Moves the feed of a company and mode. @returns how many events were taken, at most the limit; none while another process moves it */
async function dispatch(
  { pools, note, announce, noteWait }: DispatcherParts,
  scope: TenantScope,
  limit: number,
): Promise<number> {
  let last = 0;
  let isNoted = false;
  const events = await inTransaction(pools.tenants, scope, patience, async (sql) => {
    const before = await takeFeed(sql, scope);
    if (before === undefined) return [];
    const taken = await takeWaiting(sql, scope, before, limit);
    last = before + taken.length;
    if (taken.length > 0) [isNoted] = await Promise.all([note(sql, scope, taken), moveFeed(sql, scope, last)]);
    return taken;
  });
  if (events.length === 0) return 0;
  const now = Date.now();
  for (const { occurredAt } of events) noteWait?.(now - occurredAt.getTime());
  announce(scope, last, isNoted);
  return events.length;
}
