// The dispatcher: gives events their positions in their company’s feed once they are committed.
import type { Pool, Sql } from '../db/connect.ts';
import { type FeedEvent, findWaiting, moveFeed, takeFeed, takeWaiting } from '../db/records/feed.ts';
import type { TenantScope } from '../db/tenant.ts';
import type { Log } from '../runtime/log.ts';
import { inTransaction } from './transactions.ts';

export interface DispatcherPools {
  /** Finds whose events wait. */
  platform: Pool;
  /** Everything else, bound to one tenant at a time. */
  tenants: Pool;
}

/**
 * What else is made of events, in the transaction that gives them their positions, so that it is made once: deliveries, for example.
 * Sees and writes the rows of that company and mode alone.
 */
export type Deliver = (sql: Sql, scope: TenantScope, events: readonly FeedEvent[]) => Promise<void>;

export interface DispatcherParts {
  pools: DispatcherPools;
  deliver: Deliver;
  /** Hears how far a feed goes now, once that is committed. */
  announce: (scope: TenantScope, last: number) => void;
  /** Hears how many milliseconds each event waited. */
  noteWait?: (milliseconds: number) => void;
  log: Log;
}

export interface Dispatcher {
  /** Something was told: does not wait for the next look. */
  wake(): void;
  /** Ends it, once the transactions on their way have ended or a few seconds have passed. */
  stop(): Promise<void>;
}

/** Milliseconds between two looks for what other processes told. */
const every = 100;
/** Milliseconds from one round to the next while events keep coming: what comes meanwhile is taken together. */
const breath = 20;
/** Milliseconds before a company whose events could not be taken is tried again. */
const penalty = 1000;
/** Events that are taken in one transaction: so many unless these proved too many, and never fewer than the least. */
const batch = 500;
const least = 50;
/** Milliseconds after which a transaction is given up. */
const patience = 3000;
/** Milliseconds that a stopping server waits for a round on its way. */
const longestStop = 5000;

/** Starts looking. Any number of processes may: each feed is moved by one of them at a time. */
export function startDispatcher(parts: DispatcherParts): Dispatcher {
  const log = parts.log.child({ job: 'dispatcher' });
  const failed = new Map<string, number>();
  const limits = new Limits();
  let woken = false;
  let stopped = false;
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const round = async (): Promise<void> => {
    woken = false;
    try {
      for (const [companyId, until] of failed) if (until <= performance.now()) failed.delete(companyId);
      await dispatchAll(parts, { failed, limits }, () => stopped, log);
    } catch (error) {
      log.warn({ err: { message: (error as Error).message } }, 'a round failed; the next one tries again');
    } finally {
      running = undefined;
      schedule(woken ? breath : every);
    }
  };
  const begin = (): void => {
    clearTimeout(timer);
    if (!stopped) running ??= round();
  };
  const schedule = (milliseconds: number): void => {
    if (stopped) return;
    timer = setTimeout(begin, milliseconds);
    timer.unref();
  };
  begin();
  return {
    wake() {
      if (woken) return;
      woken = true;
      if (running) return;
      clearTimeout(timer);
      schedule(0);
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      const late = new Promise<void>((resolve) => setTimeout(resolve, longestStop).unref());
      await Promise.race([running, late]);
    },
  };
}

/** How many events of each company are taken at once: of those that many webhooks are told of fewer, since each is a row to be written. */
class Limits {
  /** Of companies where it is not the most. */
  readonly #lower = new Map<string, number>();

  of(companyId: string): number {
    return this.#lower.get(companyId) ?? batch;
  }

  /**
   * Halves the limit where the transaction failed, and doubles it where that would not take too long either. Nothing less: on a busy server
   * few events take as long as many.
   * @param milliseconds that it lasted; infinity where it failed
   */
  note(companyId: string, limit: number, milliseconds: number): void {
    const isFailed = milliseconds === Number.POSITIVE_INFINITY;
    const higher = milliseconds < patience / 2 ? Math.min(batch, limit * 2) : limit;
    const next = isFailed ? Math.max(least, limit >> 1) : higher;
    if (next === batch) this.#lower.delete(companyId);
    else this.#lower.set(companyId, next);
  }
}

/** What the rounds before have left. */
interface Memory {
  /** Companies that are left out for now, with when no longer. */
  failed: Map<string, number>;
  limits: Limits;
}

/** Takes what waits, of all companies; once more where there was much. What comes meanwhile is for the next round. */
async function dispatchAll(
  parts: DispatcherParts,
  { failed, limits }: Memory,
  isStopped: () => boolean,
  log: Log,
): Promise<void> {
  const { platform } = parts.pools;
  for (;;) {
    const scopes = await platform.use((sql) => findWaiting(sql, [...failed.keys()]));
    let isMore = false;
    const take = async (scope: TenantScope): Promise<void> => {
      if (isStopped()) return;
      const limit = limits.of(scope.companyId);
      const start = performance.now();
      try {
        const taken = await dispatch(parts, scope, limit);
        if (taken === 0) return;
        limits.note(scope.companyId, limit, performance.now() - start);
        isMore ||= taken === limit;
      } catch (error) {
        limits.note(scope.companyId, limit, Number.POSITIVE_INFINITY);
        // The events of other companies do not wait for those of one that fails.
        failed.set(scope.companyId, performance.now() + penalty);
        // Others may have stood behind it.
        isMore = true;
        const { message } = error as Error;
        log.warn(
          { company: scope.companyId, err: { message } },
          'events could not be dispatched; they are tried again',
        );
      }
    };
    await inLanes(scopes, take);
    if (isStopped() || !isMore) return;
  }
}

/** Feeds that are moved at the same time, each on a connection of its own. */
export const feedsAtOnce = 2;

async function inLanes<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const rest = items.values();
  const lane = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: feedsAtOnce }, lane));
}

/** Moves the feed of a company and mode. @returns how many events were taken, at most the limit; none while another process moves it */
async function dispatch(
  { pools, deliver, announce, noteWait }: DispatcherParts,
  scope: TenantScope,
  limit: number,
): Promise<number> {
  let last = 0;
  const events = await inTransaction(pools.tenants, scope, patience, async (sql) => {
    const before = await takeFeed(sql, scope);
    if (before === undefined) return [];
    const taken = await takeWaiting(sql, scope, before, limit);
    last = before + taken.length;
    if (taken.length > 0) await Promise.all([moveFeed(sql, scope, last), deliver(sql, scope, taken)]);
    return taken;
  });
  if (events.length === 0) return 0;
  const now = Date.now();
  for (const { occurredAt } of events) noteWait?.(now - occurredAt.getTime());
  announce(scope, last);
  return events.length;
}
