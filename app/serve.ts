// What a process that answers requests consists of: the only process, or each worker.
import type { Server } from 'node:http';
import { type AddressInfo, Server as NetServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JWK } from 'jose';
import { moduleState } from '../domain/billing/plans.ts';
import { builtinObjects } from '../domain/objects/builtin.ts';
import { handlers } from '../handlers/index.ts';
import { eventDoorbell, eventPolicy } from '../integrations/stripe/events.ts';
import { twilioDoor, twilioPolicy } from '../integrations/twilio/inbound.ts';
import type { Offer } from '../mcp/catalogue.ts';
import { mcpEntrance, mcpPath } from '../mcp/entrance.ts';
import { offerOperations } from '../mcp/server.ts';
import { oauthPolicies, oauthServer } from '../oauth/server.ts';
import type { Config } from '../runtime/config.ts';
import { BearerTokens } from '../runtime/credentials/bearer-tokens.ts';
import { IssuerKeys, ownKeys } from '../runtime/credentials/issuer-keys.ts';
import { People } from '../runtime/credentials/people.ts';
import { readSecretKey } from '../runtime/credentials/secret-key.ts';
import { Secrets } from '../runtime/credentials/secrets.ts';
import { SessionTokens } from '../runtime/credentials/session-tokens.ts';
import { SignedTokens } from '../runtime/credentials/signed-tokens.ts';
import { Files } from '../runtime/files/files.ts';
import { noLoad } from '../runtime/http/connections.ts';
import { buildServer } from '../runtime/http/server.ts';
import { MemoryCounters } from '../runtime/limits/rate-limit-memory.ts';
import type { RedisCounters } from '../runtime/limits/rate-limit-redis.ts';
import { publicPolicies, RateLimits } from '../runtime/limits/rate-limits.ts';
import { docsPages } from '../runtime/openapi/docs-page.ts';
import { loadDocument } from '../runtime/openapi/document.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';
import { Cursors } from '../runtime/paging.ts';
import { type FeedPosition, News } from '../runtime/pipeline/feed-notifier.ts';
import type { Log, OpenLog } from '../runtime/telemetry/log.ts';
import { type MetricValues, openRegistry, watchParts, watchRequests } from '../runtime/telemetry/metrics.ts';
import { testPages } from '../web/checkout/test-pages.ts';
import { consolePolicy, consoleScreens } from '../web/console/console.ts';
import { newPasswordPolicy } from '../web/console/forgotten-password.ts';
import { engagementPolicy, engagementScreens } from '../web/recipients/engagement.ts';
import { unsubscribePage, unsubscribePolicy } from '../web/recipients/unsubscribe.ts';
import { calendarClient, openCalendars } from './calendar-provider.ts';
import { buildDatabase, closePools, databaseSettings, openOAuthPool, openPaymentsPool, openPools } from './database.ts';
import { openPayments } from './payments.ts';
import { openStorage, uploadFolder } from './storage.ts';
import { endTokenFamily } from './token-families.ts';
import { startServingJobs } from './workforces.ts';

/** Milliseconds for which connections without a request stay open when the server stops: who sends on one is still answered, and asked to leave. */
const leaveTime = 500;
/** Milliseconds that requests in flight get to finish when the server is told to stop. */
export const drainTime = 8000;

/** What was made ready before anybody serves. */
export interface Prepared {
  databaseUrl: string;
  /** The first signs, all are good. */
  signingKeys: readonly [JWK, ...JWK[]];
}

export interface Serving {
  port: number;
  readMetrics(): Promise<MetricValues>;
  /** Tells those who wait how far a feed goes now. */
  announce(position: FeedPosition): void;
  /** What all requests together have waited for connections since the start. */
  waitedMilliseconds(): number;
  /** Takes no new connections, lets requests in flight finish, and closes everything. */
  stop(): Promise<void>;
}

/** What apps ask for first, by the metadata and by the refusal of a call without a token; people choose the rest. */
const firstScopes = 'openid profile email';

/**
 * Builds the server and listens.
 * @param told runs when events were committed
 * @param worker the number of this worker; undefined for the only process
 * @param offer what assistants are offered, where it is not the operations of the document
 */
export async function serve(
  config: Config,
  { databaseUrl, signingKeys }: Prepared,
  { log, noteRequest }: OpenLog,
  told: () => void,
  worker?: string,
  offer?: Offer,
): Promise<Serving> {
  const policies = publicPolicies(config.onboardingPerHour);
  const described = new URL('../generated/openapi.json', import.meta.url);
  const document = await loadDocument(described, Object.keys(policies), config.dashboardUrl);
  const settings = databaseSettings(databaseUrl, config);
  const pools = openPools(settings, config.databasePool);
  // Beside what else is made ready.
  const opened = Promise.all([pools.tenants, pools.credentials, pools.configuration].map((pool) => pool.open()));
  const paymentsPool = openPaymentsPool(settings);
  const oauthPool = openOAuthPool(settings);
  const database = buildDatabase(pools, told);
  const news = new News((companyIds) => database.lastPositions(companyIds), log);
  const redis = config.redisUrl === undefined ? undefined : await openRedis(config.redisUrl, log);
  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  const signedTokens = new SignedTokens(secrets);
  const sessionTokens = await SessionTokens.fromKeys(config.authUrl, signingKeys);
  const { issuer, jwksUri, audience } = config.oauth;
  const agentAudience = config.baseUrl + mcpPath;
  const builtinNames = builtinObjects.map(({ object }) => object);
  const keys = jwksUri === undefined ? ownKeys(sessionTokens.jwks) : new IssuerKeys(jwksUri, log);
  const bearerTokens = new BearerTokens({ issuer, audience, agentAudience, keys, isOwn: jwksUri === undefined });

  const load = noLoad();
  const registry = config.metricsPort === undefined ? undefined : openRegistry(worker);
  const measure = registry && watchRequests(registry);
  if (registry) watchParts(registry, { load, ping: database.ping, pools: { ...pools }, news, redis });
  const baseUrl = (): string =>
    config.baseUrl.endsWith(':0')
      ? config.baseUrl.replace(/0$/, String((server.address() as AddressInfo).port))
      : config.baseUrl;
  const { provider: payments, stripe } = await openPayments(config, paymentsPool, baseUrl, log);
  // Another issuer, where one is trusted, has its own.
  const oauth =
    jwksUri === undefined
      ? oauthServer({
          ...{ issuer, pool: oauthPool, signingKeys, anonKey: config.anonKey },
          cookieKey: secrets.derive('cookies of the OAuth server').toString('hex'),
          resources: [
            { identifier: config.baseUrl, audience: audience ?? config.baseUrl, kind: 'api' },
            { identifier: agentAudience, audience: agentAudience, kind: 'mcp' },
          ],
          outgoing: new OutgoingClient({ privateAddresses: config.oauthAllowPrivate ? 'allowed' : 'refused' }),
          consentUrl: (uid) => `${config.baseUrl}/console/consent/${uid}`,
          firstScopes,
          async verify(token, now) {
            const forApi = await bearerTokens.verify(token, now);
            return forApi.kind === 'invalid' ? bearerTokens.verify(token, now, agentAudience) : forApi;
          },
          async findAllowed(userId, clientId, kind) {
            const grant = (await database.findGrant(userId, clientId, kind))?.grant;
            return grant && !grant.revoked ? { grantId: grant.id, scopes: grant.permits([]).scopes } : undefined;
          },
          endFamily: (userId, clientId, kind, family) =>
            endTokenFamily({ database, people }, { userId, clientId, audience: kind, ...family }, new Date()),
        })
      : undefined;
  const people = new People({ database, sessionTokens, secrets, moduleState });
  const limits = new RateLimits(redis ?? new MemoryCounters(), {
    ...{
      ...policies,
      ...eventPolicy,
      ...unsubscribePolicy,
      ...engagementPolicy,
      ...twilioPolicy,
      ...consolePolicy,
      ...newPasswordPolicy,
    },
    ...oauthPolicies,
  });
  const signInOperation = { id: 'createSession', publicLimit: 'sign-in' };
  const twilio = config.messagingProvider;
  const inboundUrl = (provider: string, companyId: string, environment: string): string =>
    `${baseUrl()}/v1/inbound/${provider}?company_id=${companyId}&environment=${environment}`;
  const { server, perform } = buildServer({
    document,
    handlers,
    database,
    log,
    noteRequest: measure
      ? (line) => {
          measure(line);
          noteRequest(line);
        }
      : noteRequest,
    load,
    files: new Files({
      storage: openStorage(config),
      folder: uploadFolder(config),
      announce: database.announceFile,
      secrets,
      baseUrl,
      log,
    }),
    cursors: new Cursors(signedTokens),
    signedTokens,
    secrets,
    outgoing: new OutgoingClient({ privateAddresses: config.webhookAllowPrivate ? 'in_test_mode' : 'refused' }),
    payments,
    calendars: openCalendars(calendarClient(config)),
    inboundUrls: (companyId, environment) => ({
      generic: inboundUrl('generic', companyId, environment),
      twilio: twilio ? inboundUrl('twilio', companyId, environment) : null,
    }),
    screens: [
      ...(twilio ? [twilioDoor({ authToken: twilio.authToken, baseUrl, tenants: pools.tenants, told })] : []),
      ...testPages({ tenants: paymentsPool, provider: payments }, stripe ? 'test' : 'live|test'),
      ...(stripe && config.stripe
        ? [eventDoorbell({ ...config.stripe, stripe, platform: pools.platform, tenants: paymentsPool })]
        : []),
      unsubscribePage(pools.tenants, signedTokens),
      ...engagementScreens({ tenants: pools.tenants, tokens: signedTokens, told }),
      ...consoleScreens({
        ...{ people, perform: (order) => perform(order), baseUrl, secrets, tokens: signedTokens },
        consents: oauth?.consents,
        mailIsSent: config.mailServer !== undefined,
        takeSignIn: async (ip, now) => (await limits.takePublic(signInOperation, ip, now.getTime())).allowed,
        takeResetMail: async (email, now) => (await limits.takeResetMail(email, now.getTime())).allowed,
      }),
      ...(oauth?.screens ?? []),
    ],
    entrances: {
      [mcpPath]: mcpEntrance({
        offer: offer ?? offerOperations(document.json, builtinNames),
        baseUrl,
        firstScopes,
      }),
    },
    mailIsSent: config.mailServer !== undefined,
    sessionTokens,
    moduleState,
    news,
    bearerTokens,
    limits,
    trustedProxies: config.trustedProxies,
    anonKey: config.anonKey,
    pages: docsPages(document),
  });
  // Who is sent here from a server that stops comes with all its requests at once.
  await opened;
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    // Each worker has a socket of its own on the port: what waits there goes with it when it dies, and is told so at once.
    const shared = worker !== undefined;
    server.listen({ port: config.port, host: config.host, backlog: 1024, reusePort: shared }, resolve);
  });
  const stopJobs = startServingJobs(settings, pools.platform, database, perform, log);
  return {
    port: (server.address() as AddressInfo).port,
    readMetrics: async () => (await registry?.getMetricsAsJSON()) ?? [],
    announce: (position) => news.announce(position),
    waitedMilliseconds: () => pools.tenants.usage.waitedMilliseconds,
    async stop() {
      news.stop();
      await Promise.all([drain(server), stopJobs()]);
      redis?.close();
      await database.settled();
      await Promise.all([closePools(pools, 1), paymentsPool.close(1), oauthPool.close(1)]);
    },
  };
}

/** Its library is loaded where there is one: a server without starts sooner, and is smaller. */
async function openRedis(url: string, log: Log): Promise<RedisCounters> {
  const { RedisCounters } = await import('../runtime/limits/rate-limit-redis.ts');
  const redis = new RedisCounters(url, log);
  await redis.open();
  return redis;
}

async function drain(server: Server): Promise<void> {
  // What has come in is taken before the socket closes, which resets what still waits there.
  await new Promise((resolve) => setImmediate(resolve));
  // Not the close of an HTTP server, which would cut idle connections at once, some with a request on the way.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  const cut = setTimeout(() => server.closeAllConnections(), drainTime);
  await Promise.race([closed, sleep(leaveTime)]);
  server.closeIdleConnections();
  await closed;
  clearTimeout(cut);
}
