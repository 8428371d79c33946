// The metrics for Prometheus, one set per process.
// docs/operations.md explains each to operators.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { PoolUsage } from '../../db/client/pool.ts';
import type { Load } from '../http/connections.ts';
import { startResponsiveTimeout } from '../responsive-timeout.ts';
import type { RequestLine } from './log.ts';

/** The sources that are read for each scrape. */
export interface Watched {
  load: Load;
  /** Resolves when the database answers. */
  ping: () => Promise<void>;
  pools: Readonly<Record<string, { usage: PoolUsage }>>;
  news: { waiting: number };
  /** Undefined if rate limits are counted in memory. */
  redis: { answers: () => Promise<boolean>; countedLocally: number } | undefined;
  /** Undefined if the request log is off. */
  requestLog: { dropped: number } | undefined;
}

/** The values of one process, as workers send them to the primary. */
export type MetricValues = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
/** Milliseconds to wait for the database during a scrape. */
const timeoutMs = 1000;

/**
 * Creates a registry with Node's default metrics.
 * @param worker the worker's number, or primary; undefined if there is only one process
 */
export function openRegistry(worker: string | undefined): Registry {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  collectDefaultMetrics({ register: registry });
  return registry;
}

/**
 * Creates the request metrics of a process.
 * @returns a function that records a request
 */
export function watchRequests(registry: Registry): (line: RequestLine) => void {
  const registers = [registry];
  const durations = new Histogram({
    name: 'crm_http_request_duration_seconds',
    help: 'Request duration by operation, method and status class.',
    labelNames: ['operation', 'method', 'status'],
    buckets: seconds,
    registers,
  });
  const errors = new Counter({
    name: 'crm_http_errors_total',
    help: 'Unsuccessful responses by operation and error code.',
    labelNames: ['operation', 'code'],
    registers,
  });
  const refusals = new Counter({
    name: 'crm_rate_limit_refusals_total',
    help: 'Requests rejected by a rate limit.',
    registers,
  });
  const quotaUnavailable = new Counter({
    name: 'crm_quota_unavailable_total',
    help: 'Requests rejected because the monthly quota was unavailable.',
    registers,
  });
  /** Cached, since each request needs one. */
  const labels = new Map<string, { operation: string; method: string; status: string }>();
  return ({ operation: id, method, status, milliseconds, error }) => {
    const operation = id === '' ? 'none' : id;
    const kind = Math.floor(status / 100);
    const key = `${kind}${method}${operation}`;
    let found = labels.get(key);
    if (!found) {
      found = { operation, method, status: `${kind}xx` };
      labels.set(key, found);
    }
    durations.observe(found, milliseconds / 1000);
    if (error === undefined) return;
    errors.inc({ operation, code: error });
    if (error === 'RATE_LIMIT_EXCEEDED') refusals.inc();
    if (error === 'QUOTA_UNAVAILABLE') quotaUnavailable.inc();
  };
}

/** Creates the metrics of a serving process that are read for each scrape. */
export function watchParts(registry: Registry, { load, ping, pools, news, redis, requestLog }: Watched): void {
  gauge(registry, 'crm_http_requests_in_flight', 'Requests in progress.', (set) => set(load.requests));
  gauge(registry, 'crm_http_requests_waiting', 'Requests that wait for earlier responses on their connection.', (set) =>
    set(load.waiting),
  );
  gauge(registry, 'crm_http_unread_bytes', 'Bytes of responses that clients have not read yet.', (set) =>
    set(load.unreadBytes),
  );
  gauge(registry, 'crm_feed_waiting', 'Requests that wait for new events in a feed.', (set) => set(news.waiting));
  total(
    registry,
    'crm_http_connections_cut_total',
    'Connections closed because clients did not read their responses.',
    (set) => set(load.cut),
  );
  const each = (read: (usage: PoolUsage) => number) => (set: (value: number, labels: Labels) => void) => {
    for (const [pool, { usage }] of Object.entries(pools)) set(read(usage), { pool });
  };
  const help = 'Connections by pool';
  gauge(
    registry,
    'crm_database_connections',
    `${help}.`,
    each(({ lanes }) => lanes),
  );
  gauge(
    registry,
    'crm_database_connections_busy',
    `${help} that are in use.`,
    each(({ lanes, free }) => lanes - free),
  );
  gauge(
    registry,
    'crm_database_waiting',
    'Callers that wait for a connection.',
    each(({ waiting }) => waiting),
  );
  total(
    registry,
    'crm_database_waits_total',
    'Callers that had to wait for a connection.',
    each(({ waits }) => waits),
  );
  total(
    registry,
    'crm_database_wait_seconds_total',
    'Time spent waiting for a connection.',
    each(({ waitedMilliseconds }) => waitedMilliseconds / 1000),
  );
  total(
    registry,
    'crm_database_exhausted_total',
    'Callers that timed out waiting for a connection and received 503.',
    each(({ exhausted }) => exhausted),
  );
  // After the pools, so that its own connection is not counted as busy.
  gauge(registry, 'crm_database_up', '1 if the database responded while the metrics were read.', async (set) =>
    set(await isInTime(ping())),
  );
  if (requestLog)
    total(registry, 'crm_request_log_dropped_total', 'Requests that the request log did not record.', (set) =>
      set(requestLog.dropped),
    );
  if (redis) {
    gauge(registry, 'crm_redis_up', '1 if Redis responded while the metrics were read.', async (set) =>
      set(Number(await redis.answers())),
    );
    total(
      registry,
      'crm_rate_limit_local_total',
      'Requests counted by this process on its own because Redis was unavailable.',
      (add) => add(redis.countedLocally),
    );
  }
}

type Labels = { pool: string };
type Read = (note: (value: number, labels?: Labels) => void) => void | Promise<void>;

/** Registers a gauge that is read for each scrape. */
function gauge(registry: Registry, name: string, help: string, read: Read): void {
  const made = new Gauge<string>({
    name,
    help,
    labelNames: ['pool'],
    registers: [registry],
    collect: () => read((value, labels = {} as Labels) => made.set(labels, value)),
  });
}

/** Registers a counter whose total is kept elsewhere. */
function total(registry: Registry, name: string, help: string, read: Read): void {
  const made = new Counter<string>({
    name,
    help,
    labelNames: ['pool'],
    registers: [registry],
    collect: () => {
      made.reset();
      return read((value, labels = {} as Labels) => made.inc(labels, value));
    },
  });
}

/** Returns 1 if the work succeeds in time, otherwise 0. */
async function isInTime(work: Promise<void>): Promise<number> {
  let cancel: (() => void) | undefined;
  const late = new Promise<number>((resolve) => {
    cancel = startResponsiveTimeout(() => resolve(0), timeoutMs);
  });
  const done = work.then(
    () => 1,
    () => 0,
  );
  const verdict = await Promise.race([done, late]);
  cancel?.();
  return verdict;
}
