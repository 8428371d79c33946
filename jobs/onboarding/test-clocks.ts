// Handles what is due in test modes whose clock is ahead of the real time.
import { type ClockedWork, type DueClock, findDueClocks } from '../../db/onboarding/test-clock.ts';
import type { TenantJobContext } from '../runner.ts';

/** The jobs that do the work, which see only the rows of one test mode. */
export type ClockedJobs = Readonly<Record<ClockedWork, (context: TenantJobContext) => Promise<unknown>>>;

/**
 * Runs each job for each test mode in which it has something to do, at the time of its clock. The
 * jobs leave these test modes out of their own runs.
 */
export async function runTestClocks(context: TenantJobContext, jobs: ClockedJobs): Promise<void> {
  for (const clock of await context.platform.use((sql) => findDueClocks(sql, context.now()))) {
    const own = buildClockContext(context, clock);
    for (const name of clock.work) {
      if (context.signal.aborted) return;
      try {
        await jobs[name](own);
      } catch (error) {
        const err = { message: (error as Error).message };
        context.log.warn({ company: clock.companyId, work: name, err }, 'failed to handle a test clock; will retry');
      }
    }
  }
}

/** Returns a context at the time of a clock. Audit rows stay on the real time, as everywhere. */
function buildClockContext(context: TenantJobContext, { companyId, aheadSeconds }: DueClock): TenantJobContext {
  return {
    ...context,
    clockOf: companyId,
    now: () => new Date(context.now().getTime() + aheadSeconds * 1000),
    transaction: (scope, work) =>
      context.transaction(scope, (sql, emit, audit) =>
        work(sql, emit, (row) => audit({ ...row, occurredAt: context.now() })),
      ),
  };
}
