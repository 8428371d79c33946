// The composition root: reads the settings, starts the database, joins all parts and serves. The one file that may import everything.
import type { AddressInfo } from 'node:net';
import { isOutage } from './db/connect.ts';
import { type EmbeddedDatabase, startEmbedded } from './db/embedded.ts';
import { migrate } from './db/migrate.ts';
import { openServerSecrets } from './db/server-secrets.ts';
import { ensureDemo, greeting } from './demo.ts';
import { handlers } from './handlers/index.ts';
import { startSweeps } from './jobs/sweeps.ts';
import { readConfig } from './runtime/config.ts';
import { docsPages } from './runtime/docs-page.ts';
import { loadDocument } from './runtime/document.ts';
import { openLog } from './runtime/log.ts';
import { Cursors } from './runtime/paging.ts';
import { MemoryCounters } from './runtime/rate-limit-memory.ts';
import { RedisCounters } from './runtime/rate-limit-redis.ts';
import { publicPolicies, RateLimits } from './runtime/rate-limits.ts';
import { readSecretKey } from './runtime/secret-key.ts';
import { Secrets } from './runtime/secrets.ts';
import { buildServer } from './runtime/server.ts';
import { newSigningKey, SessionTokens } from './runtime/session-tokens.ts';
import { whyNot } from './start-failure.ts';
import { buildStore, closePools, openPools } from './store.ts';

/** Milliseconds that requests in flight get to finish when the server is told to stop. */
const drainTime = 8000;

/** The embedded database, once it runs: it is a process of its own, and a start that fails must not leave it behind. */
let embedded: EmbeddedDatabase | undefined;

async function start(): Promise<void> {
  const config = readConfig(process.env);
  const { log, noteRequest, flush } = openLog(config.logLevel);
  // One request's forgotten promise must not end all the others.
  process.on('unhandledRejection', (error) => {
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    // The driver asks for the database's types on its own account, and nobody waits for that.
    if (isOutage(error)) log.warn({ err: { message } }, 'the database could not serve its driver');
    else log.error({ err: { message, stack } }, 'unexpected failure');
  });
  if (config.databaseUrl === undefined) embedded = await startEmbedded(config.dataDir, (text) => log.info(text));
  const url = config.databaseUrl ?? (embedded?.url as string);
  const applied = await migrate(url);
  if (applied.length > 0) log.info({ applied }, 'migrated');

  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  const { signingKey } = await openServerSecrets(url, secrets, { newSigningKey });
  const sessionTokens = await SessionTokens.fromKey(config.authUrl, signingKey);
  const demo = config.demo ? await ensureDemo(url, config.dataDir, new Date()) : undefined;
  const policies = publicPolicies(config.onboardingPerHour);
  const document = await loadDocument(new URL('./generated/openapi.json', import.meta.url), Object.keys(policies));
  const pools = openPools(url, config.databasePool, config.databasePrepare);
  const store = buildStore(pools);
  await store.ping();
  const redis = config.redisUrl === undefined ? undefined : new RedisCounters(config.redisUrl, log);
  await redis?.open();

  const server = buildServer({
    document,
    handlers,
    store,
    log,
    noteRequest,
    cursors: new Cursors(secrets),
    sessionTokens,
    limits: new RateLimits(redis ?? new MemoryCounters(), policies),
    trustedProxies: config.trustedProxies,
    anonKey: config.anonKey,
    pages: docsPages(document),
  });
  const stopSweeps = startSweeps(pools.platform, log);
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.listen(config.port, config.host, 1024, resolve);
  });
  const { port } = server.address() as AddressInfo;
  log.info({ port, database: embedded ? 'embedded' : 'external', database_pid: embedded?.pid }, 'listening');
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
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    const cut = setTimeout(() => server.closeAllConnections(), drainTime);
    await closed;
    clearTimeout(cut);
    redis?.close();
    await closePools(pools, 1);
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
