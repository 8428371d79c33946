// Runs of background jobs without a server, with the sizes and timeouts of their table.
import { type BackgroundServices, backgroundJobs, servingJobs } from '../../jobs/index.ts';
import {
  type JobContext,
  type JobPools,
  type RunningJobs,
  startJobs,
  type TenantJobContext,
  tenantContext,
} from '../../jobs/runner.ts';
import { openLog } from '../../runtime/telemetry/log.ts';

/** One for all: each keeps a timer, and waits for the end of the process. */
export const { log: silentLog } = openLog('silent');

/**
 * What a run of a job gets from the runner.
 * @param name of the job
 * @param more what is not as usual: the log is silent, the clock is the machine's, and nobody stops the server
 */
export function contextOf(
  name: string,
  pools: JobPools,
  more: Partial<Pick<JobContext, 'log' | 'now' | 'signal'>> = {},
): TenantJobContext {
  const job = [...backgroundJobs, ...servingJobs].find((each) => each.name === name);
  if (!job) throw new Error(`there is no job ${name}`);
  const usual = { log: silentLog, now: () => new Date(), signal: new AbortController().signal };
  const timeoutMs = 'timeoutMs' in job ? job.timeoutMs : 0;
  return tenantContext({ batchSize: job.batchSize, ...usual, ...more }, pools, timeoutMs);
}

/** Starts jobs of the first process as it does. @param services what these jobs need */
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
    payments: pools,
  };
  const environment = { platform: pools.platform, pools: all, log: silentLog };
  return startJobs(jobs, { ...environment, services: services as BackgroundServices });
}
