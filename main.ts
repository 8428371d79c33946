// The composition root: reads the settings, prepares the database, and serves, or starts workers.
import { AggregatorRegistry } from 'prom-client';
import { stopCompiling } from './app/compiling.ts';
import { buildGreeting, ensureDemo } from './app/demo.ts';
import { KeptDatabase, type Watcher } from './app/embedded-postgres/keeper.ts';
import { type BackgroundJobs, requireJobNames, startBackgroundJobs } from './app/jobs.ts';
import { buildDatabaseSettings, openBackgroundPool, openBackgroundTenantPool } from './app/pools.ts';
import { type Prepared, serve } from './app/serve.ts';
import { explainFailure } from './app/start-failure.ts';
import { openStorage } from './app/storage.ts';
import { startWorkers } from './app/workers.ts';
import { migrate } from './db/client/migrate.ts';
import { isOutage } from './db/client/pool.ts';
import { openServerSecrets } from './db/client/server-secrets.ts';
import { type Config, readConfig } from './runtime/config.ts';
import { readSecretKey } from './runtime/credentials/secret-key.ts';
import { Secrets } from './runtime/credentials/secrets.ts';
import { newSigningKey } from './runtime/credentials/session-tokens.ts';
import { type OpenLog, openLog, raiseAlert, watchUncaught } from './runtime/telemetry/log.ts';
import { serveMetrics } from './runtime/telemetry/metrics-server.ts';

/**
 * The embedded database after it started. It is a separate process, which a failed start must stop.
 */
let embedded: KeptDatabase | undefined;

/** Starts or connects to the database, migrates it, and loads the server's keys. */
async function prepare(config: Config, openedLog: OpenLog): Promise<Prepared> {
  const { log } = openedLog;
  if (config.databaseUrl === undefined) embedded = await KeptDatabase.start(config.dataDir, createWatcher(openedLog));
  const databaseUrl = config.databaseUrl ?? (embedded?.url as string);
  const applied = await migrate(databaseUrl);
  if (applied.length > 0) log.info({ applied }, 'migrated');
  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  const { signingKeys } = await openServerSecrets(databaseUrl, secrets, { newSigningKey });
  return { databaseUrl, signingKeys };
}

/** Logs each death of the embedded database, and exits if it keeps stopping. */
function createWatcher({ log, flush }: OpenLog): Watcher {
  return {
    note: (text) => log.info(text),
    died: (reason, wait) =>
      raiseAlert(log, 'embedded_database_died', 'the embedded PostgreSQL stopped; restarting it', {
        reason,
        again_in_ms: wait,
      }),
    returned: (pid) => log.info({ database_pid: pid }, 'the embedded PostgreSQL is running again'),
    lost: (reason) => {
      raiseAlert(log, 'embedded_database_lost', 'the embedded PostgreSQL keeps stopping; the server exits', { reason });
      flush();
      process.stderr.write(
        `The server exits because its embedded PostgreSQL keeps stopping. ${reason} Restarting the server restarts both.\n`,
      );
      process.exit(1);
    },
  };
}

async function start(): Promise<void> {
  const config = readConfig(process.env);
  requireJobNames(config);
  const openedLog = openLog(config.logLevel);
  const { log, flush } = openedLog;
  watchUncaught(openedLog, isOutage);
  const prepared = await prepare(config, openedLog);
  const storage = openStorage(config);
  const { demo: hasDemo, dataDir } = config;
  const secrets = new Secrets(readSecretKey(config.secretKey, dataDir));
  const demo = hasDemo ? await ensureDemo(prepared.databaseUrl, dataDir, { storage, secrets }, new Date()) : undefined;

  const settings = buildDatabaseSettings(prepared.databaseUrl, config);
  const background = { platform: await openBackgroundPool(settings), tenants: openBackgroundTenantPool(settings) };
  let jobs: BackgroundJobs | undefined;
  const onEvents = (): void => jobs?.wakeDispatcher();
  const serving =
    config.workers > 1
      ? await startWorkers(config, prepared, log, onEvents)
      : await serve(config, prepared, openedLog, onEvents);
  const atRealPort = (address: string): string => address.replace(/:0(?=\/|$)/, `:${serving.port}`);
  const baseUrl = atRealPort(config.baseUrl);
  jobs = await startBackgroundJobs({ config, settings, background, storage, secrets, serving, baseUrl, log });
  const readMetrics = async (): Promise<string> => {
    const parts = [serving.readMetrics(), jobs.readMetrics()];
    return AggregatorRegistry.aggregate(await Promise.all(parts)).metrics();
  };
  const metrics =
    config.metricsPort === undefined
      ? undefined
      : await serveMetrics(config.metricsPort, config.host, readMetrics, log);
  const { port } = serving;
  log.info(
    {
      port,
      workers: config.workers,
      database: embedded ? 'embedded' : 'external',
      database_pid: embedded?.pid,
      metrics_port: metrics?.port,
      ...(config.pausedJobs.length > 0 ? { paused_jobs: config.pausedJobs } : {}),
    },
    'listening',
  );
  // With an external database and no terminal, standard output stays JSON lines only.
  if (demo || embedded || process.stdout.isTTY) {
    flush();
    process.stdout.write(buildGreeting(baseUrl, atRealPort(config.authUrl), demo));
  }

  let stopping = false;
  const stop = async (signal: string): Promise<void> => {
    if (stopping) return;
    stopping = true;
    stopCompiling();
    log.info({ signal }, 'stopping: no new connections, requests in flight finish');
    const requestsEnded = serving.stop();
    await Promise.all([requestsEnded, jobs.stop(requestsEnded)]);
    metrics?.close();
    await Promise.all([background.platform.close(1), background.tenants.close(1)]);
    await embedded?.stop();
    log.info('stopped');
    flush();
    process.exit(0);
  };
  process.on('SIGTERM', () => void stop('SIGTERM'));
  process.on('SIGINT', () => void stop('SIGINT'));
}

// An import, e.g. to compile it ahead, must not start a server.
if (import.meta.main)
  start().catch(async (error: unknown) => {
    process.stderr.write(`The server did not start. ${explainFailure(error)}\n`);
    await embedded?.stop();
    process.exit(1);
  });
