// Part of the composition root: what a process that answers requests consists of; the only process, or each worker.
import type { Server } from 'node:http';
import { type AddressInfo, Server as NetServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JWK } from 'jose';
import { handlers } from './handlers/index.ts';
import { BearerTokens } from './runtime/bearer-tokens.ts';
import type { Config } from './runtime/config.ts';
import { docsPages } from './runtime/docs-page.ts';
import { loadDocument } from './runtime/document.ts';
import { Files } from './runtime/files.ts';
import { IssuerKeys, ownKeys } from './runtime/issuer-keys.ts';
import type { OpenLog } from './runtime/log.ts';
import { type MetricValues, openRegistry, watchParts, watchRequests } from './runtime/metrics.ts';
import { Cursors } from './runtime/paging.ts';
import { MemoryCounters } from './runtime/rate-limit-memory.ts';
import { RedisCounters } from './runtime/rate-limit-redis.ts';
import { publicPolicies, RateLimits } from './runtime/rate-limits.ts';
import { readSecretKey } from './runtime/secret-key.ts';
import { Secrets } from './runtime/secrets.ts';
import { buildServer } from './runtime/server.ts';
import { SessionTokens } from './runtime/session-tokens.ts';
import { openStorage, uploadFolder } from './runtime/storage.ts';
import { buildStore, closePools, openPools } from './store.ts';

/** Milliseconds for which connections without a request stay open when the server stops: who sends on one is still answered, and asked to leave. */
const leaveTime = 500;
/** Milliseconds that requests in flight get to finish when the server is told to stop. */
export const drainTime = 8000;

/** What was made ready before anybody serves. */
export interface Prepared {
  databaseUrl: string;
  signingKey: JWK;
}

export interface Serving {
  port: number;
  readMetrics(): Promise<MetricValues>;
  /** Takes no new connections, lets requests in flight finish, and closes everything. */
  stop(): Promise<void>;
}

/** Builds the server and listens. @param worker the number of this worker; undefined for the only process */
export async function serve(
  config: Config,
  { databaseUrl, signingKey }: Prepared,
  { log, noteRequest }: OpenLog,
  worker?: string,
): Promise<Serving> {
  const policies = publicPolicies(config.onboardingPerHour);
  const described = new URL('./generated/openapi.json', import.meta.url);
  const document = await loadDocument(described, Object.keys(policies), config.dashboardUrl);
  const pools = openPools(databaseUrl, config.databasePool, config.databasePrepare);
  const store = buildStore(pools);
  const redis = config.redisUrl === undefined ? undefined : new RedisCounters(config.redisUrl, log);
  await redis?.open();
  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  const sessionTokens = await SessionTokens.fromKey(config.authUrl, signingKey);
  const { issuer, jwksUri, audience } = config.oauth;
  const keys = jwksUri === undefined ? ownKeys(sessionTokens.jwks) : new IssuerKeys(jwksUri, log);

  const inFlight = { requests: 0 };
  const registry = config.metricsPort === undefined ? undefined : openRegistry(worker);
  const measure = registry && watchRequests(registry);
  if (registry) watchParts(registry, { inFlight, ping: store.ping, pools: { ...pools }, redis });
  const server = buildServer({
    document,
    handlers,
    store,
    log,
    noteRequest: measure
      ? (line) => {
          measure(line);
          noteRequest(line);
        }
      : noteRequest,
    inFlight,
    files: new Files({
      storage: openStorage(config),
      folder: uploadFolder(config),
      announce: store.announceFile,
      secrets,
      baseUrl: () => config.baseUrl.replace(/:0$/, `:${(server.address() as AddressInfo).port}`),
      log,
    }),
    cursors: new Cursors(secrets),
    secrets,
    mailIsSent: config.mailServer !== undefined,
    sessionTokens,
    bearerTokens: new BearerTokens({ issuer, audience, keys, isOwn: jwksUri === undefined }),
    limits: new RateLimits(redis ?? new MemoryCounters(), policies),
    trustedProxies: config.trustedProxies,
    anonKey: config.anonKey,
    pages: docsPages(document),
  });
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.listen(config.port, config.host, 1024, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    readMetrics: async () => (await registry?.getMetricsAsJSON()) ?? [],
    async stop() {
      await drain(server);
      redis?.close();
      await store.settled();
      await closePools(pools, 1);
    },
  };
}

async function drain(server: Server): Promise<void> {
  // Not the close of an HTTP server, which would cut idle connections at once, some with a request on the way.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  const cut = setTimeout(() => server.closeAllConnections(), drainTime);
  await Promise.race([closed, sleep(leaveTime)]);
  server.closeIdleConnections();
  await closed;
  clearTimeout(cut);
}
