// Runs a table of jobs: each at its interval, one run at a time, until the server stops.
import { setTimeout as sleep } from 'node:timers/promises';
import { inTransaction, type TransactionWork } from '../db/client/in-transaction.ts';
import type { Pool } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import type { DueTime } from '../db/client/test-clocks.ts';
import type { Log } from '../runtime/telemetry/log.ts';

/** Milliseconds that shutdown waits for the current run of a job. */
const stopGraceMs = 5000;

interface JobSettings<Services> {
  /** The name in log lines and in PAUSED_JOBS. Jobs of one kind share it. */
  name: string;
  /**
   * Milliseconds between the starts of two runs. A run that takes longer skips the starts that it
   * misses.
   */
  intervalMs: number;
  /** Items per batch. The table of jobs says what the items are. */
  batchSize: number;
  /**
   * The pause before the next run if a wake-up came during a run. Only jobs with it can be woken;
   * they also run immediately at the start.
   */
  batchDelayMs?: number;
  /** True if the job runs until the last request has ended. */
  outlivesRequests?: true;
  /** Work that outlasts a run: how to wait for it at shutdown, and for how long. */
  pending?: { settled: (services: Services) => Promise<void>; shutdownGraceMs: number };
}

/** A job that only sends single statements across tenants. */
interface PlatformJob<Services> extends JobSettings<Services> {
  pool: 'platform';
  run: (context: JobContext, services: Services) => Promise<unknown>;
}

/** A job that finds its work across tenants and performs it in transactions of one tenant. */
interface TenantJob<Services, PoolName extends string> extends JobSettings<Services> {
  /** The pool of its connections. */
  pool: PoolName;
  /** Transaction timeout in milliseconds, because a database that hangs does not report it. */
  timeoutMs: number;
  run: (context: TenantJobContext, services: Services) => Promise<unknown>;
}

/** An entry of a job table. */
export type Job<Services, PoolName extends string> = PlatformJob<Services> | TenantJob<Services, PoolName>;

/** The context of each run. */
export interface JobContext {
  /** For statements across tenants, which find the tenants that are due. */
  platform: Pool;
  batchSize: number;
  log: Log;
  now: () => Date;
  /**
   * The company whose test mode the run handles, by its clock; undefined: everything except test
   * modes with a clock that is ahead.
   */
  clockOf?: string | undefined;
  /** Aborted at shutdown: the run must not start new work and should return soon. */
  signal: AbortSignal;
}

export interface TenantJobContext extends JobContext {
  timeoutMs: number;
  /**
   * Runs work in a transaction that is bound to one tenant.
   * @returns the result of the work after the commit
   */
  transaction<Result>(scope: TenantScope, work: TransactionWork<Result>): Promise<Result>;
  /**
   * In runs of a test clock: the context on the real time, for leases and for work that outlasts the
   * run, because the clock can be advanced or removed meanwhile.
   */
  real?: TenantJobContext | undefined;
}

/** The context of a run that handles the test mode of one company by its clock. */
export type ClockContext = TenantJobContext & { clockOf: string };

/** Returns the context on the real time. */
export const getRealContext = (context: TenantJobContext): TenantJobContext => context.real ?? context;

/** Returns the time by which a run looks for due rows. */
export const getDueTime = ({ now, clockOf }: JobContext): DueTime => ({ now: now(), clockOf });

/** The connections of a job. */
export interface JobPools {
  /** Across tenants. */
  platform: Pool;
  /** Bound to one tenant at a time. */
  tenants: Pool;
}

export interface RunningJobs {
  /** Runs the jobs with this name without waiting for their intervals. */
  wake(name: string): void;
  /**
   * Stops all jobs: starts no further runs and waits a few seconds for current ones.
   * @param requestsEnded resolves when the last request has ended
   */
  stop(requestsEnded?: Promise<unknown>): Promise<void>;
}

/** The dependencies of a job table. */
export interface JobEnvironment<Services, PoolName extends string> {
  /** For jobs that send single statements. */
  platform: Pool;
  pools: Readonly<Record<PoolName, JobPools>>;
  services: Services;
  /** Names of jobs that do not run. */
  paused?: readonly string[];
  log: Log;
}

/** Starts a job table. Several servers may run the same table at the same time. */
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
  return job.run(buildTenantContext(shared, pools[job.pool], job.timeoutMs), services);
}

/** Adds a job's connections and transactions to the shared context. */
export function buildTenantContext(
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
 * Runs work at an interval, skipping starts while a run is active. A failed run is logged, and the
 * next run retries.
 * @param batchDelayMs as in a job
 * @param work receives a signal that is aborted at the stop
 * @returns functions to wake it, which needs `batchDelayMs`, and to stop it, which resolves when
 * the current run has ended, or after five seconds
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
      // Items that arrive during the delay are handled together.
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
