// Runs of background jobs without a server, with the sizes and timeouts of their table.
import { type BackgroundServices, backgroundJobs, servingJobs } from '../../jobs/index.ts';
import {
  buildTenantContext,
  type JobContext,
  type JobPools,
  type RunningJobs,
  startJobs,
  type TenantJobContext,
} from '../../jobs/runner.ts';
import { openLog } from '../../runtime/telemetry/log.ts';

/** Shared, because each log keeps a timer and waits for the end of the process. */
export const { log: silentLog } = openLog('silent');

/**
 * Returns the context that the runner passes to a job.
 * @param name of the job
 * @param more replaces the silent log, the system clock, or the signal that never aborts
 */
export function buildJobContext(
  name: string,
  pools: JobPools,
  more: Partial<Pick<JobContext, 'log' | 'now' | 'signal'>> = {},
): TenantJobContext {
  const job = [...backgroundJobs, ...servingJobs].find((each) => each.name === name);
  if (!job) throw new Error(`there is no job ${name}`);
  const usual = { log: silentLog, now: () => new Date(), signal: new AbortController().signal };
  const timeoutMs = 'timeoutMs' in job ? job.timeoutMs : 0;
  return buildTenantContext({ batchSize: job.batchSize, ...usual, ...more }, pools, timeoutMs);
}

/**
 * Starts jobs as the first process of a server does.
 * @param services what these jobs need
 */
export function startNamedJobs(
  names: readonly string[],
  pools: JobPools,
  services: Partial<BackgroundServices>,
): RunningJobs {
  const jobs = backgroundJobs.filter(({ name }) => names.includes(name));
  const all = {
    background: pools,
    dispatcher: pools,
    webhooks: pools,
    messages: pools,
    calendars: pools,
    imports: pools,
    reverts: pools,
    payments: pools,
    exports: pools,
  };
  const environment = { platform: pools.platform, pools: all, log: silentLog };
  return startJobs(jobs, { ...environment, services: services as BackgroundServices });
}
