// A worker: one of several processes that answer requests on one port.
// Started by workers.ts, which prepares what it needs.
import cluster from 'node:cluster';
import { isOutage } from '../db/client/pool.ts';
import { readConfig } from '../runtime/config.ts';
import { openLog, watchUncaught } from '../runtime/telemetry/log.ts';
import { stopCompiling } from './compiling.ts';
import { serve } from './serve.ts';
import { explainFailure } from './start-failure.ts';
import type { FromWorker, ToWorker } from './workers.ts';

const send = (message: FromWorker, then?: () => void): void =>
  void process.send?.(message, undefined, undefined, () => then?.());

/** Milliseconds between reports of how long requests waited for connections. */
const reportIntervalMs = 100;
/** Milliseconds in which committed events are combined into one message to the primary. */
const batchDelayMs = 5;
let isBatching = false;

function reportEvents(): void {
  if (isBatching) return;
  isBatching = true;
  setTimeout(() => {
    isBatching = false;
    send({ kind: 'events' });
  }, batchDelayMs);
}

async function start({ prepared, number, port }: Extract<ToWorker, { kind: 'serve' }>): Promise<void> {
  const config = { ...readConfig(process.env), port };
  const openedLog = openLog(config.logLevel);
  const { log, flush } = openedLog;
  watchUncaught(openedLog, isOutage);
  const serving = await serve(config, prepared, openedLog, reportEvents, number);
  log.info({ worker: number }, 'worker ready');

  process.on('message', (message: ToWorker) => {
    if (message.kind === 'announce') serving.announce(message.position);
    if (message.kind !== 'metrics') return;
    void serving.readMetrics().then((values) => send({ kind: 'metrics', id: message.id, values }));
  });
  let waited = 0;
  setInterval(() => {
    const milliseconds = serving.waitedMilliseconds() - waited;
    if (milliseconds === 0) return;
    waited += milliseconds;
    send({ kind: 'waited', milliseconds });
  }, reportIntervalMs).unref();
  let stopping = false;
  process.on('SIGTERM', async () => {
    if (stopping) return;
    stopping = true;
    stopCompiling();
    await serving.stop();
    log.info({ worker: number }, 'worker stopped');
    flush();
    process.exit(0);
  });
  send({ kind: 'ready' });
}

// An import, e.g. to compile it ahead, must not start a worker.
if (import.meta.main) {
  if (!cluster.isWorker) throw new Error('worker.ts is started by main.ts: run make start');
  // A terminal sends SIGINT to all processes. The workers ignore it, and the primary stops them.
  process.on('SIGINT', () => undefined);
  process.once('message', (message: ToWorker) => {
    if (message.kind !== 'serve') return;
    start(message).catch((error: unknown) =>
      send({ kind: 'failed', reason: explainFailure(error) }, () => process.exit(1)),
    );
  });
}
