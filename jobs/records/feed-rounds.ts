// Rounds over companies that have something waiting: for the dispatcher and the webhooks' matcher.
import type { TenantScope } from '../../db/client/tenant.ts';
import type { Waiting } from '../../db/client/waiting.ts';
import type { Log } from '../../runtime/telemetry/log.ts';

export interface FeedWork {
  /** Whose work waits, in one order. @param after where the question before ended */
  find(after: TenantScope | undefined): Promise<Waiting>;
  /**
   * Does some of what waits, in a transaction of its own.
   * @param limit events at most
   * @returns how many; the limit where there may be more, none while another process is at it
   */
  take(scope: TenantScope, limit: number): Promise<number>;
  /** Companies that are worked for at the same time, each on a connection of its own. */
  atOnce: number;
  /** What the log says of a company's work that failed, and is tried again. */
  failed: string;
  log: Log;
}

export interface FeedRounds {
  /** Something waits: does not wait for the next look. */
  wake(): void;
  /** Ends it, once the transactions on their way have ended or a few seconds have passed. */
  stop(): Promise<void>;
}

/** Milliseconds between two looks for what other processes left. */
const every = 100;
/** Milliseconds from one round to the next while more keeps coming: what comes meanwhile is taken together. */
const breath = 50;
/** Milliseconds before a company whose work failed is tried again. */
const penalty = 1000;
/** Events that are taken in one transaction: so many unless these proved too many, and never fewer than the least. */
const batch = 500;
const least = 50;
/** Milliseconds after which a transaction is given up. */
export const patience = 3000;
/** Milliseconds that a stopping server waits for a round on its way. */
const longestStop = 5000;

/** Starts looking. Any number of processes may: each company is worked for by one of them at a time. */
export function startFeedRounds(work: FeedWork): FeedRounds {
  const { log } = work;
  const memory: Memory = { failed: new Map(), limits: new Limits() };
  let woken = false;
  let stopped = false;
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const round = async (): Promise<void> => {
    woken = false;
    try {
      for (const [companyId, until] of memory.failed) if (until <= performance.now()) memory.failed.delete(companyId);
      await takeAll(work, memory, () => stopped);
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
async function takeAll(work: FeedWork, { failed, limits }: Memory, isStopped: () => boolean): Promise<void> {
  for (;;) {
    const scopes = (await findAll(work)).filter(({ companyId }) => !failed.has(companyId));
    let isMore = false;
    const take = async (scope: TenantScope): Promise<void> => {
      if (isStopped()) return;
      const limit = limits.of(scope.companyId);
      const start = performance.now();
      try {
        const taken = await work.take(scope, limit);
        if (taken === 0) return;
        limits.note(scope.companyId, limit, performance.now() - start);
        isMore ||= taken === limit;
      } catch (error) {
        limits.note(scope.companyId, limit, Number.POSITIVE_INFINITY);
        // The events of other companies do not wait for those of one that fails.
        failed.set(scope.companyId, performance.now() + penalty);
        const { message } = error as Error;
        work.log.warn({ company: scope.companyId, err: { message } }, work.failed);
      }
    };
    await inLanes(scopes, work.atOnce, take);
    if (isStopped() || !isMore) return;
  }
}

async function findAll({ find }: FeedWork): Promise<TenantScope[]> {
  const all: TenantScope[] = [];
  let after: TenantScope | undefined;
  do {
    const { tenants, end } = await find(after);
    all.push(...tenants);
    after = end;
  } while (after);
  return all;
}

async function inLanes<Item>(
  items: readonly Item[],
  lanes: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const lane = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
