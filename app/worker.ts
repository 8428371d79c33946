// A worker: one of several processes that answer requests on one port.
// Started by workers.ts, which prepares what it needs.
import cluster from 'node:cluster';
import { isOutage } from '../db/client/pool.ts';
import { readConfig } from '../runtime/config.ts';
import { openLog, watchUncaught } from '../runtime/telemetry/log.ts';
import { compileNothingMore } from './compiling.ts';
import { serve } from './serve.ts';
import { whyNot } from './start-failure.ts';
import type { FromWorker, ToWorker } from './workers.ts';

const tell = (message: FromWorker, then?: () => void): void =>
  void process.send?.(message, undefined, undefined, () => then?.());

/** Milliseconds between two looks at how long requests had to wait. */
const between = 100;
/** Milliseconds in which all that is told is one message to the primary. */
const gathering = 5;
let isTelling = false;

function tellOnce(): void {
  if (isTelling) return;
  isTelling = true;
  setTimeout(() => {
    isTelling = false;
    tell({ kind: 'told' });
  }, gathering);
}

async function start({ prepared, number, port }: Extract<ToWorker, { kind: 'serve' }>): Promise<void> {
  const config = { ...readConfig(process.env), port };
  const openedLog = openLog(config.logLevel);
  const { log, flush } = openedLog;
  watchUncaught(openedLog, isOutage);
  const serving = await serve(config, prepared, openedLog, tellOnce, number);
  log.info({ worker: number }, 'worker ready');

  process.on('message', (message: ToWorker) => {
    if (message.kind === 'announce') serving.announce(message.position);
    if (message.kind !== 'metrics') return;
    void serving.readMetrics().then((values) => tell({ kind: 'metrics', id: message.id, values }));
  });
  let waited = 0;
  setInterval(() => {
    const milliseconds = serving.waitedMilliseconds() - waited;
    if (milliseconds === 0) return;
    waited += milliseconds;
    tell({ kind: 'waited', milliseconds });
  }, between).unref();
  let stopping = false;
  process.on('SIGTERM', async () => {
    if (stopping) return;
    stopping = true;
    compileNothingMore();
    await serving.stop();
    log.info({ worker: number }, 'worker stopped');
    flush();
    process.exit(0);
  });
  tell({ kind: 'ready' });
}

// Whoever compiles it beforehand starts nothing.
if (import.meta.main) {
  if (!cluster.isWorker) throw new Error('worker.ts is started by main.ts: run make start');
  // A terminal sends it to all processes at once; the primary tells its workers to stop.
  process.on('SIGINT', () => undefined);
  process.once('message', (message: ToWorker) => {
    if (message.kind !== 'serve') return;
    start(message).catch((error: unknown) => tell({ kind: 'failed', reason: whyNot(error) }, () => process.exit(1)));
  });
}
