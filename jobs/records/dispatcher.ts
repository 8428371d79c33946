// The dispatcher: assigns committed events their positions in the feed of their tenant.
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findWaiting } from '../../db/client/waiting.ts';
import { type FeedEvent, moveFeed, takeFeed, takeWaiting } from '../../db/records/feed.ts';
import type { TenantJobContext } from '../runner.ts';
import { TenantQueue } from './tenant-queue.ts';

/**
 * Records follow-up work for events, in the transaction that assigns their positions, so that it is
 * recorded once. Sees only the rows of this tenant.
 * @returns true if there is any
 */
export type Note = (sql: Sql, scope: TenantScope, events: readonly FeedEvent[]) => Promise<boolean>;

export interface DispatcherServices {
  note: Note;
  /**
   * Called after the commit, with the last position of the feed and whether there is follow-up
   * work.
   */
  announce: (scope: TenantScope, last: number, isNoted: boolean) => void;
  /** Called with the milliseconds that each event waited. */
  onWait?: (milliseconds: number) => void;
}

/** Feeds that are processed at the same time, each on its own connection. */
export const feedsAtOnce = 2;

/**
 * Creates the dispatcher of this process. Several servers may run one: each feed is processed by
 * one of them at a time.
 */
export function createDispatcher(services: DispatcherServices): TenantQueue {
  return new TenantQueue({
    find: (sql, after) => findWaiting(sql, 'outbox_events', after),
    take: (context, scope, limit) => dispatch(context, services, scope, limit),
    atOnce: feedsAtOnce,
    failureText: 'failed to dispatch events; will retry',
  });
}

/**
 * Processes the feed of a tenant.
 * @returns the number of events taken, at most the limit; 0 while another process works on it
 */
async function dispatch(
  { transaction }: TenantJobContext,
  { note, announce, onWait }: DispatcherServices,
  scope: TenantScope,
  limit: number,
): Promise<number> {
  let last = 0;
  let isNoted = false;
  const events = await transaction(scope, async (sql) => {
    const before = await takeFeed(sql, scope);
    if (before === undefined) return [];
    const taken = await takeWaiting(sql, scope, before, limit);
    last = before + taken.length;
    if (taken.length > 0) [isNoted] = await Promise.all([note(sql, scope, taken), moveFeed(sql, scope, last)]);
    return taken;
  });
  if (events.length === 0) return 0;
  const now = Date.now();
  // Events of a test mode can be ahead of the real time.
  for (const { occurredAt } of events) onWait?.(Math.max(0, now - occurredAt.getTime()));
  announce(scope, last, isNoted);
  return events.length;
}
