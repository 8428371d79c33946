// The composition root: reads the settings, starts the database, prepares it, and serves: in this process, or through workers.
import { AggregatorRegistry } from 'prom-client';
import { isOutage } from './db/connect.ts';
import { type EmbeddedDatabase, startEmbedded } from './db/embedded.ts';
import { migrate } from './db/migrate.ts';
import { openServerSecrets } from './db/server-secrets.ts';
import { ensureDemo, greeting } from './demo.ts';
import { startMail } from './jobs/mail.ts';
import { startSla } from './jobs/sla.ts';
import { startSweeps } from './jobs/sweeps.ts';
import { type Config, readConfig } from './runtime/config.ts';
import { type Log, openLog, watchUncaught } from './runtime/log.ts';
import { serveMetrics } from './runtime/metrics-server.ts';
import { readSecretKey } from './runtime/secret-key.ts';
import { Secrets } from './runtime/secrets.ts';
import { newSigningKey } from './runtime/session-tokens.ts';
import { openStorage, uploadFolder } from './runtime/storage.ts';
import { type Prepared, serve } from './serve.ts';
import { whyNot } from './start-failure.ts';
import { openBackgroundPool, openBackgroundTenantPool } from './store.ts';
import { startWorkers } from './workers.ts';

/** The embedded database, once it runs: it is a process of its own, and a start that fails must not leave it behind. */
let embedded: EmbeddedDatabase | undefined;

/** The database with its tables and the server's own keys, ready for whoever serves. */
async function prepare(config: Config, log: Log): Promise<Prepared> {
  if (config.databaseUrl === undefined) embedded = await startEmbedded(config.dataDir, (text) => log.info(text));
  const databaseUrl = config.databaseUrl ?? (embedded?.url as string);
  const applied = await migrate(databaseUrl);
  if (applied.length > 0) log.info({ applied }, 'migrated');
  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  const { signingKey } = await openServerSecrets(databaseUrl, secrets, { newSigningKey });
  return { databaseUrl, signingKey };
}

async function start(): Promise<void> {
  const config = readConfig(process.env);
  const openedLog = openLog(config.logLevel);
  const { log, flush } = openedLog;
  watchUncaught(openedLog, isOutage);
  const prepared = await prepare(config, log);
  const storage = openStorage(config);
  const { demo: hasDemo, dataDir } = config;
  const demo = hasDemo ? await ensureDemo(prepared.databaseUrl, dataDir, storage, new Date()) : undefined;

  const background = await openBackgroundPool(prepared.databaseUrl, config.databasePrepare);
  const backgroundTenants = openBackgroundTenantPool(prepared.databaseUrl, config.databasePrepare);
  const serving =
    config.workers > 1 ? await startWorkers(config, prepared, log) : await serve(config, prepared, openedLog);
  const readMetrics = async (): Promise<string> =>
    AggregatorRegistry.aggregate([await serving.readMetrics()]).metrics();
  const metrics =
    config.metricsPort === undefined
      ? undefined
      : await serveMetrics(config.metricsPort, config.host, readMetrics, log);
  const files = { remove: (key: string) => storage.remove(key), uploads: uploadFolder(config) };
  const stopSweeps = startSweeps(background, files, log);
  const { mailServer, mailFrom: from, dashboardUrl } = config;
  const stopMail = startMail(background, { server: mailServer, from, dashboardUrl }, log);
  const stopSla = startSla({ platform: background, tenants: backgroundTenants }, log);
  const { port } = serving;
  log.info(
    {
      ...{ port, workers: config.workers, database: embedded ? 'embedded' : 'external', database_pid: embedded?.pid },
      metrics_port: metrics?.port,
    },
    'listening',
  );
  // Where nobody reads along, on a server of its own database, the output stays one line of JSON each.
  if (demo || embedded || process.stdout.isTTY) {
    const atRealPort = (address: string) => address.replace(/:0(?=\/|$)/, `:${port}`);
    flush();
    process.stdout.write(greeting(atRealPort(config.baseUrl), atRealPort(config.authUrl), demo));
  }

  let stopping = false;
  const stop = async (signal: string): Promise<void> => {
    if (stopping) return;
    stopping = true;
    log.info({ signal }, 'stopping: no new connections, requests in flight finish');
    stopSweeps();
    await Promise.all([serving.stop(), stopMail(), stopSla()]);
    metrics?.close();
    await Promise.all([background.close(1), backgroundTenants.close(1)]);
    await embedded?.stop();
    log.info('stopped');
    flush();
    process.exit(0);
  };
  process.on('SIGTERM', () => void stop('SIGTERM'));
  process.on('SIGINT', () => void stop('SIGINT'));
}

start().catch(async (error: unknown) => {
  process.stderr.write(`The server did not start. ${whyNot(error)}\n`);
  await embedded?.stop();
  process.exit(1);
});
