// The dispatcher: gives events their positions in their company’s feed once they are committed.
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findWaiting } from '../../db/client/waiting.ts';
import { type FeedEvent, moveFeed, takeFeed, takeWaiting } from '../../db/records/feed.ts';
import type { TenantJobContext } from '../runner.ts';
import { TenantQueue } from './tenant-queue.ts';

/**
 * Records what else is to be made of events, in the transaction that gives them their positions, so that it is recorded once.
 * Sees and writes the rows of that company and mode alone.
 * @returns whether anything is
 */
export type Note = (sql: Sql, scope: TenantScope, events: readonly FeedEvent[]) => Promise<boolean>;

export interface DispatcherServices {
  note: Note;
  /** Called with how far a feed goes now, and whether more is to be made of it, once that is committed. */
  announce: (scope: TenantScope, last: number, isNoted: boolean) => void;
  /** Called with the milliseconds that each event waited. */
  onWait?: (milliseconds: number) => void;
}

/** Feeds that are moved at the same time, each on a connection of its own. */
export const feedsAtOnce = 2;

/** The dispatcher of this process. Several servers may have one: each feed is moved by one of them at a time. */
export function dispatcher(services: DispatcherServices): TenantQueue {
  return new TenantQueue({
    find: (sql, after) => findWaiting(sql, 'outbox_events', after),
    take: (context, scope, limit) => dispatch(context, services, scope, limit),
    atOnce: feedsAtOnce,
    failureText: 'failed to dispatch events; will retry',
  });
}

/** Moves the feed of a company and mode. @returns how many events were taken, at most the limit; none while another process moves it */
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
  for (const { occurredAt } of events) onWait?.(now - occurredAt.getTime());
  announce(scope, last, isNoted);
  return events.length;
}
