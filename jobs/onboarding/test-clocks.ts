// Handles what is due in test modes whose clock is ahead of the real time.
import { holdClock } from '../../db/client/test-clocks.ts';
import { type ClockedWork, type DueClock, findDueClocks } from '../../db/onboarding/test-clock.ts';
import type { ClockContext, TenantJobContext } from '../runner.ts';

/** The jobs that do the work, which see only the rows of one test mode. */
export type ClockedJobs = Readonly<Record<ClockedWork, (context: ClockContext) => Promise<unknown>>>;

/** Milliseconds for one kind of work of one clock. The rest waits until the other clocks had their turn. */
const turnMs = 1000;
/** Milliseconds after which a run ends. */
const usualRunMs = 5000;

/**
 * Returns the run of a job that does some kinds of work for each test mode in which they have
 * something to do, at the time of its clock. The jobs leave these test modes out of their own runs.
 * @param runMs milliseconds after which a run ends; the next one continues with the clocks behind it
 */
export function createClockRun(
  works: readonly ClockedWork[],
  runMs = usualRunMs,
): (context: TenantJobContext, jobs: ClockedJobs) => Promise<void> {
  /** The company of the clock that was handled last; undefined: all had their turn. */
  let last: string | undefined;
  return async (context, jobs) => {
    const { platform, batchSize, signal } = context;
    const end = performance.now() + runMs;
    for (let found = batchSize; found === batchSize; ) {
      const clocks = await platform.use((sql) => findDueClocks(sql, works, last, batchSize, context.now()));
      for (const clock of clocks) {
        await takeTurn(context, clock, jobs);
        if (signal.aborted) return;
        last = clock.companyId;
        if (performance.now() >= end) return;
      }
      found = clocks.length;
    }
    last = undefined;
  };
}

/** Does the due work of one clock, for a limited time. */
async function takeTurn(context: TenantJobContext, clock: DueClock, jobs: ClockedJobs): Promise<void> {
  const scope = { companyId: clock.companyId, testMode: true };
  for (const name of clock.work) {
    if (context.signal.aborted) return;
    // It is being removed, or is gone.
    if ((await context.transaction(scope, (sql) => holdClock(sql, scope))) < clock.aheadSeconds) return;
    const removed = new AbortController();
    try {
      await jobs[name](buildClockContext(context, clock, removed));
    } catch (error) {
      if (removed.signal.aborted) return;
      const err = { message: (error as Error).message };
      context.log.warn({ company: clock.companyId, work: name, err }, 'failed to handle a test clock; will retry');
    }
  }
}

/**
 * Returns a context at the time of a clock. Audit rows stay on the real time, as everywhere. If the
 * clock is removed, no further transaction begins, because rows that are due by it no longer are.
 * @param removed aborted if the clock was removed
 */
function buildClockContext(
  context: TenantJobContext,
  { companyId, aheadSeconds }: DueClock,
  removed: AbortController,
): ClockContext {
  return {
    ...context,
    clockOf: companyId,
    real: context,
    signal: AbortSignal.any([context.signal, AbortSignal.timeout(turnMs), removed.signal]),
    now: () => new Date(context.now().getTime() + aheadSeconds * 1000),
    transaction: (scope, work) =>
      context.transaction(scope, async (sql, emit, audit) => {
        // It may have been removed and advanced again.
        if ((await holdClock(sql, scope)) < aheadSeconds) {
          removed.abort();
          throw new Error('the test clock was removed');
        }
        return work(sql, emit, (row) => audit({ ...row, occurredAt: context.now() }));
      }),
  };
}
