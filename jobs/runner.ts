// Runs the jobs of a table: each at its interval, one run at a time, until the server stops.
import { setTimeout as sleep } from 'node:timers/promises';
import { inTransaction, type TransactionWork } from '../db/client/in-transaction.ts';
import type { Pool } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import type { Log } from '../runtime/telemetry/log.ts';

/** Milliseconds that a stopping server waits for the run that a job is in. */
const stopGraceMs = 5000;

interface JobSettings<Services> {
  /** In log lines and in PAUSED_JOBS. Jobs of one kind share it. */
  name: string;
  /** From the start of one run to the start of the next. A run that takes longer skips the starts that it misses. */
  intervalMs: number;
  /** What it finds or handles at once; the table says what that is. */
  batchSize: number;
  /** Present in jobs that can be woken, which also run as soon as they start: the pause before the next run if the wake-up came during one. */
  batchDelayMs?: number;
  /** True for a job that runs until the last request has ended. */
  outlivesRequests?: true;
  /** Work that outlasts a run: how to wait for it when the server stops, and for how long. */
  pending?: { settled: (services: Services) => Promise<void>; shutdownGraceMs: number };
}

/** A job that only sends single statements across tenants. */
interface PlatformJob<Services> extends JobSettings<Services> {
  pool: 'platform';
  run: (context: JobContext, services: Services) => Promise<unknown>;
}

/** A job that finds its work across tenants, and does it in transactions of one tenant each. */
interface TenantJob<Services, PoolName extends string> extends JobSettings<Services> {
  /** The connections that it runs on. */
  pool: PoolName;
  /** After which one of its transactions is given up: a database that hangs does not say so. */
  timeoutMs: number;
  run: (context: TenantJobContext, services: Services) => Promise<unknown>;
}

/** One entry of a table of jobs. */
export type Job<Services, PoolName extends string> = PlatformJob<Services> | TenantJob<Services, PoolName>;

/** What each run gets. */
export interface JobContext {
  /** For statements across tenants: they find whose turn it is. */
  platform: Pool;
  batchSize: number;
  log: Log;
  now: () => Date;
  /** Aborted when the server stops: begin nothing more, and return soon. */
  signal: AbortSignal;
}

export interface TenantJobContext extends JobContext {
  timeoutMs: number;
  /** Runs work in a transaction that is bound to one tenant. @returns what the work returned, once it is committed */
  transaction<Result>(scope: TenantScope, work: TransactionWork<Result>): Promise<Result>;
}

/** The connections of a job. */
export interface JobPools {
  /** Across tenants. */
  platform: Pool;
  /** Bound to one tenant at a time. */
  tenants: Pool;
}

export interface RunningJobs {
  /** Has the jobs of a name run without waiting for their intervals. */
  wake(name: string): void;
  /**
   * Stops all jobs: begins no run, and waits a few seconds for those that have begun.
   * @param requestsEnded resolves when the last request has ended
   */
  stop(requestsEnded?: Promise<unknown>): Promise<void>;
}

/** What the jobs of a table work with. */
export interface JobEnvironment<Services, PoolName extends string> {
  /** For jobs that send single statements. */
  platform: Pool;
  pools: Readonly<Record<PoolName, JobPools>>;
  services: Services;
  /** Names of jobs that do not run. */
  paused?: readonly string[];
  log: Log;
}

/** Starts the jobs of a table. Several servers may run the same table at the same time. */
export function startJobs<Services, PoolName extends string>(
  jobs: readonly Job<Services, PoolName>[],
  environment: JobEnvironment<Services, PoolName>,
): RunningJobs {
  const { services, paused = [] } = environment;
  const started = jobs.filter(({ name }) => !paused.includes(name));
  const running = started.map((job) => {
    const log = environment.log.child({ job: job.name });
    const loop = runPeriodically(job, (signal) => runJob(job, environment, log, signal), log);
    const stop = async (): Promise<void> => {
      await loop.stop();
      if (!job.pending) return;
      const { settled, shutdownGraceMs } = job.pending;
      await Promise.race([settled(services), sleep(shutdownGraceMs, undefined, { ref: false })]);
    };
    return { job, wake: loop.wake, stop };
  });
  return {
    wake(name) {
      for (const { job, wake } of running) if (job.name === name) wake();
    },
    async stop(requestsEnded) {
      await Promise.all(
        running.map(async ({ job, stop }) => {
          if (job.outlivesRequests) await requestsEnded;
          await stop();
        }),
      );
    },
  };
}

async function runJob<Services, PoolName extends string>(
  job: Job<Services, PoolName>,
  { platform, pools, services }: JobEnvironment<Services, PoolName>,
  log: Log,
  signal: AbortSignal,
): Promise<unknown> {
  const { batchSize } = job;
  const shared = { batchSize, log, now: () => new Date(), signal };
  if (!('timeoutMs' in job)) return job.run({ ...shared, platform }, services);
  return job.run(tenantContext(shared, pools[job.pool], job.timeoutMs), services);
}

/** Adds a job's connections and transactions to what all runs get. */
export function tenantContext(
  shared: Omit<JobContext, 'platform'>,
  { platform, tenants }: JobPools,
  timeoutMs: number,
): TenantJobContext {
  return {
    ...shared,
    platform,
    timeoutMs,
    transaction: (scope, work) => inTransaction(tenants, scope, timeoutMs, work),
  };
}

/**
 * Runs work at an interval, unless the run before has not ended. A run that fails is logged, and the next one tries again.
 * @param batchDelayMs as in a job
 * @param work gets a signal that is aborted by the stop
 * @returns how to wake it, which needs a `batchDelayMs`, and how to stop it: resolves when its run has ended, or after five seconds
 */
export function runPeriodically(
  { intervalMs, batchDelayMs }: { intervalMs: number; batchDelayMs?: number | undefined },
  work: (signal: AbortSignal) => Promise<unknown>,
  log: Log,
): { wake(): void; stop(): Promise<void> } {
  const stopping = new AbortController();
  let isWoken = false;
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const runOnce = async (): Promise<void> => {
    const startedAt = performance.now();
    isWoken = false;
    try {
      await work(stopping.signal);
    } catch (error) {
      log.warn({ err: { message: (error as Error).message } }, 'job run failed; will retry');
    } finally {
      running = undefined;
      // What comes in meanwhile is handled together.
      if (isWoken && batchDelayMs !== undefined) schedule(batchDelayMs);
      else schedule(intervalMs - ((performance.now() - startedAt) % intervalMs));
    }
  };
  const begin = (): void => {
    running ??= runOnce();
  };
  const schedule = (milliseconds: number): void => {
    if (stopping.signal.aborted) return;
    timer = setTimeout(begin, milliseconds);
    timer.unref();
  };
  if (batchDelayMs === undefined) schedule(intervalMs);
  else begin();
  return {
    wake() {
      if (isWoken || batchDelayMs === undefined) return;
      isWoken = true;
      if (running) return;
      clearTimeout(timer);
      schedule(0);
    },
    async stop() {
      clearTimeout(timer);
      stopping.abort();
      await Promise.race([running, sleep(stopGraceMs, undefined, { ref: false })]);
    },
  };
}
