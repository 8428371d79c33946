// The composition root: reads the settings, starts the database, joins all parts and serves. The one file that may import everything.
import type { AddressInfo } from 'node:net';
import { type EmbeddedDatabase, EmbeddedDatabaseError, startEmbedded } from './db/embedded.ts';
import { MigrationError, migrate } from './db/migrate.ts';
import { openServerSecrets, SecretKeyError } from './db/server-secrets.ts';
import { handlers } from './handlers/index.ts';
import { startSweeps } from './jobs/sweeps.ts';
import { ConfigError, readConfig } from './runtime/config.ts';
import { docsPages } from './runtime/docs-page.ts';
import { loadDocument } from './runtime/document.ts';
import { openLog } from './runtime/log.ts';
import { Cursors } from './runtime/paging.ts';
import { readSecretKey } from './runtime/secret-key.ts';
import { Secrets } from './runtime/secrets.ts';
import { buildServer } from './runtime/server.ts';
import { newSigningKey, SessionTokens } from './runtime/session-tokens.ts';
import { buildStore, closePools, openPools } from './store.ts';

/** Milliseconds that requests in flight get to finish when the server is told to stop. */
const drainTime = 8000;

/** Names of the per-IP policies that the document may declare. */
const publicLimits = ['health', 'availability', 'onboarding', 'document', 'sign-in'];

let embedded: EmbeddedDatabase | undefined;

async function start(): Promise<void> {
  const config = readConfig(process.env);
  const { log, flush } = openLog(config.logLevel);
  // One request's forgotten promise must not end all the others.
  process.on('unhandledRejection', (error) => {
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    log.error({ err: { message, stack } }, 'unexpected failure');
  });
  if (config.databaseUrl === undefined) embedded = await startEmbedded(config.dataDir, (text) => log.info(text));
  const url = config.databaseUrl ?? (embedded?.url as string);
  const applied = await migrate(url);
  if (applied.length > 0) log.info({ applied }, 'migrated');

  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  const { signingKey } = await openServerSecrets(url, secrets, { newSigningKey });
  const sessionTokens = await SessionTokens.fromKey(config.authUrl, signingKey);
  const document = await loadDocument(new URL('./generated/openapi.json', import.meta.url), publicLimits);
  const pools = openPools(url, config.databasePool, config.databasePrepare);
  const store = buildStore(pools);
  await store.ping();

  const server = buildServer({
    document,
    handlers,
    store,
    log,
    cursors: new Cursors(secrets),
    sessionTokens,
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
    await closePools(pools, 1);
    await embedded?.stop();
    log.info('stopped');
    flush();
    process.exit(0);
  };
  process.on('SIGTERM', () => void stop('SIGTERM'));
  process.on('SIGINT', () => void stop('SIGINT'));
}

const notWritable = 'DATA_DIR is not a folder that this user can write to.';

/** What an operator can do about failures of the system, by their code, and by the call where the code alone is not enough. */
const remedies: Record<string, string> = {
  EADDRINUSE: 'The port is taken: set PORT to a free one.',
  'EACCES listen': 'This user may not listen on that port: set PORT to one above 1023.',
  EACCES: notWritable,
  EEXIST: notWritable,
  ENOTDIR: notWritable,
  EROFS: notWritable,
  ENOSPC: 'The disk is full.',
  EADDRNOTAVAIL: 'HOST is not an address of this machine.',
  ENOTFOUND: 'The host name in DATABASE_URL, or in HOST, is not known.',
  EAI_AGAIN: 'The host name in DATABASE_URL, or in HOST, cannot be resolved at the moment.',
  ECONNREFUSED: 'No database answers at DATABASE_URL.',
  CONNECT_TIMEOUT: 'The database at DATABASE_URL does not answer in time.',
  '28P01': 'The database refuses the user or the password in DATABASE_URL.',
  '28000': 'The database refuses the user in DATABASE_URL.',
  '3D000': 'The database that DATABASE_URL names does not exist.',
  '42501': 'The user in DATABASE_URL must own the database, and be allowed to create roles.',
};

start().catch(async (error: unknown) => {
  const known =
    error instanceof ConfigError ||
    error instanceof EmbeddedDatabaseError ||
    error instanceof MigrationError ||
    error instanceof SecretKeyError;
  const { message, code, syscall, stack } = error as Partial<NodeJS.ErrnoException>;
  const remedy = remedies[`${code} ${syscall}`] ?? remedies[code ?? ''];
  const sentence = known ? message : (remedy ?? stack ?? String(error));
  process.stderr.write(`The server did not start. ${sentence}\n`);
  await embedded?.stop();
  process.exit(1);
});
