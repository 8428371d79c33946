// Starts workers, replaces dead ones, collects their metrics and stops them.
import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Counter, Gauge } from 'prom-client';
import { type Config, ConfigError } from '../runtime/config.ts';
import type { FeedPosition } from '../runtime/pipeline/feed-notifier.ts';
import { type Log, raiseAlert } from '../runtime/telemetry/log.ts';
import { type MetricValues, openRegistry } from '../runtime/telemetry/metrics.ts';
import { drainMs, type Prepared, type Serving } from './serve.ts';

export type ToWorker =
  | { kind: 'serve'; prepared: Prepared; number: string; port: number }
  | { kind: 'metrics'; id: number }
  | { kind: 'announce'; position: FeedPosition };

export type FromWorker =
  | { kind: 'ready' }
  | { kind: 'failed'; reason: string }
  /** Events were committed. */
  | { kind: 'events' }
  /** Requests have waited for connections: milliseconds since the last report. */
  | { kind: 'waited'; milliseconds: number }
  | { kind: 'metrics'; id: number; values: MetricValues };

/**
 * Milliseconds before a worker that died young is replaced: after the first death, and at most.
 * `young` is the lifetime below which a death counts; older workers are replaced immediately.
 */
const backoff = { first: 100, most: 5000, young: 10_000 };
/** Milliseconds to wait for a worker's metrics; a worker that hangs is omitted. */
const metricsTimeoutMs = 2000;
/** Milliseconds after the drain time until a worker that does not stop is killed. */
const stopGraceMs = 3000;
/** `.ts`, or `.js` in dist/. */
const ownExtension = import.meta.filename.slice(-3);

/**
 * Starts the configured number of workers.
 * @param onEvents runs when a worker committed events
 * @throws ConfigError if a worker does not start listening
 */
export async function startWorkers(
  config: Config,
  prepared: Prepared,
  log: Log,
  onEvents: () => void,
): Promise<Serving> {
  const port = await findPort(config);
  const workers = new Workers(config, prepared, port, log, onEvents);
  await workers.start();
  return {
    port,
    readMetrics: () => workers.readMetrics(),
    announce: (position) => workers.announce(position),
    waitedMilliseconds: () => workers.waitedMilliseconds,
    stop: () => workers.stop(),
  };
}

/**
 * Returns the port for all workers, each of which has its own socket.
 * @throws Error if another process listens there: the workers would share the port with it
 * unnoticed
 */
async function findPort({ port, host }: Config): Promise<number> {
  const server = createServer().listen(port, host);
  await once(server, 'listening');
  const found = (server.address() as AddressInfo).port;
  server.close();
  await once(server, 'close');
  return found;
}

class Workers {
  readonly #count: number;
  readonly #prepared: Prepared;
  readonly #port: number;
  readonly #log: Log;
  readonly #onEvents: () => void;
  #phase: 'starting' | 'serving' | 'stopping' = 'starting';
  readonly #serving = new Set<Worker>();
  readonly #registry;
  readonly #deaths;
  readonly #gathering = new Map<number, (values: MetricValues) => void>();
  #asked = 0;
  /** Total milliseconds that requests of all workers have waited for connections. */
  waitedMilliseconds = 0;

  constructor(config: Config, prepared: Prepared, port: number, log: Log, onEvents: () => void) {
    this.#count = config.workers;
    this.#prepared = prepared;
    this.#port = port;
    this.#log = log;
    this.#onEvents = onEvents;
    cluster.setupPrimary({ exec: fileURLToPath(new URL(`./worker${ownExtension}`, import.meta.url)) });
    this.#registry = openRegistry('primary');
    const registers = [this.#registry];
    const serving = this.#serving;
    new Gauge({ name: 'crm_workers', help: 'Configured number of workers.', registers }).set(this.#count);
    new Gauge({
      name: 'crm_workers_serving',
      help: 'Workers that serve requests.',
      registers,
      collect() {
        this.set(serving.size);
      },
    });
    this.#deaths = new Counter({
      name: 'crm_worker_deaths_total',
      help: 'Workers that exited unexpectedly.',
      registers,
    });
  }

  async start(): Promise<void> {
    const numbers = Array.from({ length: this.#count }, (_, index) => String(index + 1));
    await Promise.all(
      numbers.map((number) => new Promise<void>((resolve, reject) => this.#fork(number, 0, resolve, reject))),
    );
    this.#phase = 'serving';
  }

  /** @param deaths number of predecessors in a row that died young */
  #fork(number: string, deaths: number, ready?: () => void, failed?: (error: Error) => void): void {
    const worker = cluster.fork();
    const sendToWorker = (message: ToWorker): void => void worker.send(message);
    const born = performance.now();
    let reason: string | undefined;
    worker.once('online', () => sendToWorker({ kind: 'serve', prepared: this.#prepared, number, port: this.#port }));
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'metrics') this.#gathering.get(message.id)?.(message.values);
      else if (message.kind === 'events') this.#onEvents();
      else if (message.kind === 'waited') this.waitedMilliseconds += message.milliseconds;
      else if (message.kind === 'failed') reason = message.reason;
      else if (message.kind === 'ready') {
        this.#serving.add(worker);
        ready?.();
      }
    });
    worker.on('error', () => undefined);
    worker.once('exit', (code, signal) => {
      const served = this.#serving.delete(worker);
      if (this.#phase === 'stopping') return;
      const ended = signal ? `by ${signal}` : `with ${code}`;
      if (this.#phase === 'starting') {
        failed?.(new ConfigError(reason ?? `A worker exited ${ended} before it was listening.`));
        return;
      }
      if (served && code === 0) {
        this.#log.info({ worker: number }, 'a worker is stopping; starting a replacement');
        this.#fork(number, 0);
        return;
      }
      this.#deaths.inc();
      const again = performance.now() - born < backoff.young ? deaths + 1 : 0;
      const wait = again === 0 ? 0 : Math.min(backoff.first * 2 ** (again - 1), backoff.most);
      raiseAlert(this.#log, 'worker_died', `a worker exited ${ended}; starting a replacement`, {
        worker: number,
        worker_pid: worker.process.pid,
        again_in_ms: wait,
        ...(reason === undefined ? {} : { reason }),
      });
      setTimeout(() => {
        if (this.#phase === 'serving') this.#fork(number, again);
      }, wait);
    });
  }

  /** Returns the metrics of this process and of all workers that respond in time. */
  async readMetrics(): Promise<MetricValues> {
    const asked = [...this.#serving].map(async (worker) => {
      const id = ++this.#asked;
      const reply = new Promise<MetricValues>((resolve) => {
        this.#gathering.set(id, resolve);
        worker.send({ kind: 'metrics', id } satisfies ToWorker);
      });
      const values = await Promise.race([reply, sleep(metricsTimeoutMs, [] as MetricValues)]);
      this.#gathering.delete(id);
      return values;
    });
    const own = await this.#registry.getMetricsAsJSON();
    return [...own, ...(await Promise.all(asked)).flat()];
  }

  announce(position: FeedPosition): void {
    for (const worker of this.#serving) worker.send({ kind: 'announce', position } satisfies ToWorker);
  }

  async stop(): Promise<void> {
    this.#phase = 'stopping';
    const running = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
    await Promise.all(
      running.map(async (worker) => {
        if (worker.isDead()) return;
        const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
        worker.process.kill('SIGTERM');
        const kill = setTimeout(() => worker.process.kill('SIGKILL'), drainMs + stopGraceMs);
        await ended;
        clearTimeout(kill);
      }),
    );
  }
}
