// Creates a serving process: the only process, or each worker.
import type { Server } from 'node:http';
import { type AddressInfo, Server as NetServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JWK } from 'jose';
import { quotaStatements } from '../db/billing/quota.ts';
import { loadWorkspaceRows } from '../db/objects/workspace.ts';
import { findLastPositions } from '../db/records/feed.ts';
import { announceFile } from '../db/records/stored-files.ts';
import { callsPerMonth, extraCalls, getModuleState } from '../domain/billing/plans.ts';
import { builtinObjects } from '../domain/objects/builtin.ts';
import { buildWorkspace } from '../domain/objects/workspace.ts';
import { handlers } from '../handlers/index.ts';
import { createStripeWebhookHandler, eventPolicy } from '../integrations/stripe/events.ts';
import { createTwilioInboundWebhook, twilioPolicy } from '../integrations/twilio/inbound.ts';
import type { Offer } from '../mcp/catalogue.ts';
import { createMcpRoute, mcpPath } from '../mcp/route.ts';
import { offerOperations } from '../mcp/server.ts';
import { createOauthServer, oauthPolicies } from '../oauth/server.ts';
import type { Config } from '../runtime/config.ts';
import { BearerTokens } from '../runtime/credentials/bearer-tokens.ts';
import { CredentialStore } from '../runtime/credentials/credential-store.ts';
import { createOwnKeys, IssuerKeys } from '../runtime/credentials/issuer-keys.ts';
import { People } from '../runtime/credentials/people.ts';
import { readSecretKey } from '../runtime/credentials/secret-key.ts';
import { Secrets } from '../runtime/credentials/secrets.ts';
import { SessionTokens } from '../runtime/credentials/session-tokens.ts';
import { SignedTokens } from '../runtime/credentials/signed-tokens.ts';
import { Files } from '../runtime/files/files.ts';
import { createLoad } from '../runtime/http/connections.ts';
import { serveAssets } from '../runtime/http/page-assets.ts';
import { buildServer, type ServerParts } from '../runtime/http/server.ts';
import { QuotaLedger } from '../runtime/limits/quota-ledger.ts';
import { MemoryCounters } from '../runtime/limits/rate-limit-memory.ts';
import type { RedisCounters } from '../runtime/limits/rate-limit-redis.ts';
import { buildPublicPolicies, RateLimits } from '../runtime/limits/rate-limits.ts';
import { buildDocsPages } from '../runtime/openapi/docs-page.ts';
import { loadDocument } from '../runtime/openapi/document.ts';
import type { Router } from '../runtime/openapi/router.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';
import { pageStyle } from '../runtime/pages/style.ts';
import { Cursors } from '../runtime/paging.ts';
import { FeedNotifier, type FeedPosition } from '../runtime/pipeline/feed-notifier.ts';
import { buildSystemCaller, type Perform } from '../runtime/pipeline/in-process.ts';
import { RequestDatabase } from '../runtime/pipeline/request-database.ts';
import { WorkspaceCache } from '../runtime/pipeline/workspace-cache.ts';
import type { Log, OpenLog } from '../runtime/telemetry/log.ts';
import { type MetricValues, openRegistry, watchParts, watchRequests } from '../runtime/telemetry/metrics.ts';
import { proposals } from '../services/records/proposals.ts';
import { createTestPages } from '../web/checkout/test-pages.ts';
import { bothThemes } from '../web/console/components-page.ts';
import { consolePolicy, createConsoleRoutes } from '../web/console/console.ts';
import { newPasswordPolicy } from '../web/console/forgotten-password.ts';
import { consoleScript } from '../web/pages/script.ts';
import { consoleStyle } from '../web/pages/style.ts';
import { createEngagementRoutes, engagementPolicy } from '../web/recipients/engagement.ts';
import { createLogoRoute, logoPolicy } from '../web/recipients/logos.ts';
import { createMeetingPage, meetingPolicy } from '../web/recipients/meetings.ts';
import { createUnsubscribePage, unsubscribePolicy } from '../web/recipients/unsubscribe.ts';
import { createCalendarClient, openCalendars } from './calendar-provider.ts';
import { credentialQueries } from './credentials.ts';
import { openPayments } from './payments.ts';
import {
  buildDatabaseSettings,
  closePools,
  openOAuthPool,
  openPaymentsPool,
  openPools,
  transactionTimeout,
} from './pools.ts';
import { openRequestLog } from './request-log.ts';
import { openStorage, uploadFolder } from './storage.ts';
import { endTokenFamily } from './token-families.ts';
import { startServingJobs } from './workforces.ts';

/**
 * Milliseconds for which idle connections stay open during shutdown. A request on one is still
 * answered, and the response closes the connection.
 */
const leaveMs = 500;
/** Milliseconds for requests in flight to finish during shutdown. */
export const drainMs = 8000;

/** What main.ts prepares before any process serves. */
export interface Prepared {
  databaseUrl: string;
  /** The first one signs; all verify. */
  signingKeys: readonly [JWK, ...JWK[]];
}

export interface Serving {
  port: number;
  readMetrics(): Promise<MetricValues>;
  /** Resumes calls that wait for events before this position. */
  announce(position: FeedPosition): void;
  /** Returns the total milliseconds that requests have waited for connections since the start. */
  waitedMilliseconds(): number;
  /** Takes no new connections, lets requests in flight finish, and closes everything. */
  stop(): Promise<void>;
}

/**
 * Scopes that apps request initially: in the metadata, and in the response to a call without a
 * token. Users choose further scopes during consent.
 */
const firstScopes = 'openid profile email';

/**
 * Builds the server and listens.
 * @param onEvents called when events were committed
 * @param worker the number of this worker; undefined for the only process
 * @param offer the tools for models, if they are not the operations of the OpenAPI document
 */
export async function serve(
  config: Config,
  prepared: Prepared,
  openedLog: OpenLog,
  onEvents: () => void,
  worker?: string,
  offer?: Offer,
): Promise<Serving> {
  const services = await createServices(config, prepared, openedLog, onEvents, worker);
  // Circular: pages perform operations, and the server that performs them serves the pages.
  const inProcess = {
    perform: (call: Parameters<Perform>[0]) => perform(call),
    route: (method: string, path: string) => route(method, path),
  };
  const routes = createRoutes(config, prepared, services, inProcess, onEvents, offer);
  const { server, perform, route } = buildServer({ ...services.parts, handlers, ...routes });
  await services.opened;
  const port = await listen(server, config, worker);
  services.address.port = port;
  const { parts, pools } = services;
  const settings = buildDatabaseSettings(prepared.databaseUrl, config);
  // Each step of a workforce is an operation, so they run in the processes that serve.
  const stopJobs = startServingJobs(settings, pools.platform, parts.credentials, perform, config.pausedJobs, parts.log);
  return {
    port,
    readMetrics: async () => (await services.registry?.getMetricsAsJSON()) ?? [],
    announce: (position) => parts.news.announce(position),
    waitedMilliseconds: () => pools.tenants.usage.waitedMilliseconds,
    async stop() {
      parts.news.stop();
      await Promise.all([drain(server), stopJobs()]);
      await services.close();
    },
  };
}

type Services = Awaited<ReturnType<typeof createServices>>;

/** Opens pools, storage and providers, and creates what requests are served with. */
async function createServices(
  config: Config,
  { databaseUrl, signingKeys }: Prepared,
  { log, noteRequest }: OpenLog,
  onEvents: () => void,
  worker: string | undefined,
) {
  const policies = buildPublicPolicies(config.onboardingPerHour);
  const described = new URL('../generated/openapi.json', import.meta.url);
  const document = await loadDocument(described, Object.keys(policies), config.dashboardUrl);
  const settings = buildDatabaseSettings(databaseUrl, config);
  const pools = openPools(settings, config.databasePool);
  // Opened while the rest is created, because a server immediately receives all requests of one
  // that stops.
  const opened = Promise.all([pools.tenants, pools.credentials, pools.configuration].map((pool) => pool.open()));
  const paymentsPool = openPaymentsPool(settings);
  const oauthPool = openOAuthPool(settings);
  const requestLog = config.requestLog ? openRequestLog(settings, log) : undefined;

  const database = new RequestDatabase(pools, transactionTimeout, onEvents);
  const catalogue = { callsPerMonth, extraCalls };
  const quota = new QuotaLedger(pools.credentials, transactionTimeout, quotaStatements, catalogue);
  const credentials = new CredentialStore(pools.credentials, credentialQueries, (companyId) =>
    quota.releaseLease(companyId),
  );
  const workspaces = new WorkspaceCache(pools.configuration, transactionTimeout, async (sql, companyId) =>
    buildWorkspace(await loadWorkspaceRows(sql, companyId)),
  );
  const news = new FeedNotifier((companyIds) => pools.platform.use((sql) => findLastPositions(sql, companyIds)), log);
  const redis = config.redisUrl === undefined ? undefined : await openRedis(config.redisUrl, log);
  const limits = new RateLimits(redis ?? new MemoryCounters(), {
    ...policies,
    ...eventPolicy,
    ...unsubscribePolicy,
    ...meetingPolicy,
    ...logoPolicy,
    ...engagementPolicy,
    ...twilioPolicy,
    ...consolePolicy,
    ...newPasswordPolicy,
    ...oauthPolicies,
  });

  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  const signedTokens = new SignedTokens(secrets);
  const sessionTokens = await SessionTokens.fromKeys(config.authUrl, signingKeys);
  const { issuer, jwksUri, audience } = config.oauth;
  const keys = jwksUri === undefined ? createOwnKeys(sessionTokens.jwks) : new IssuerKeys(jwksUri, log);
  const agentAudience = config.baseUrl + mcpPath;
  const bearerTokens = new BearerTokens({ issuer, audience, agentAudience, keys, isOwn: jwksUri === undefined });
  const people = new People({ database, credentials, sessionTokens, secrets, getModuleState });

  /** The port is known once the server listens, if the settings leave it open. */
  const address: { port?: number } = {};
  const baseUrl = (): string =>
    config.baseUrl.endsWith(':0') ? config.baseUrl.replace(/0$/, String(address.port)) : config.baseUrl;
  const inboundUrl = (provider: string, companyId: string, environment: string): string =>
    `${baseUrl()}/v1/inbound/${provider}?company_id=${companyId}&environment=${environment}`;
  const { provider: payments, stripe } = await openPayments(config, paymentsPool, baseUrl, log);
  const files = new Files({
    storage: openStorage(config),
    folder: uploadFolder(config),
    announce: (place) => database.inTenant(place, (sql) => announceFile(sql, place, new Date())),
    secrets,
    baseUrl,
    log,
  });

  const load = createLoad();
  const registry = config.metricsPort === undefined ? undefined : openRegistry(worker);
  const measure = registry && watchRequests(registry);
  if (registry)
    watchParts(registry, { load, ping: () => database.ping(), pools: { ...pools }, news, redis, requestLog });

  const parts: Omit<ServerParts, 'handlers' | 'screens' | 'programRoutes' | 'pages'> = {
    document,
    log,
    load,
    database,
    credentials,
    quota,
    workspaces,
    news,
    limits,
    getModuleState,
    noteRequest: measure
      ? (line) => {
          measure(line);
          noteRequest(line);
        }
      : noteRequest,
    recordRequest: requestLog && ((request) => requestLog.add(request)),
    files,
    secrets,
    signedTokens,
    sessionTokens,
    bearerTokens,
    payments,
    cursors: new Cursors(signedTokens),
    proposals,
    outgoing: new OutgoingClient({ privateAddresses: config.webhookAllowPrivate ? 'in_test_mode' : 'refused' }),
    calendars: openCalendars(createCalendarClient(config)),
    inboundUrls: (companyId, environment) => ({
      generic: inboundUrl('generic', companyId, environment),
      twilio: config.messagingProvider ? inboundUrl('twilio', companyId, environment) : null,
    }),
    mailIsSent: config.mailServer !== undefined,
    trustedProxies: config.trustedProxies,
    anonKey: config.anonKey,
  };
  return {
    parts,
    pools,
    opened,
    paymentsPool,
    oauthPool,
    people,
    stripe,
    agentAudience,
    address,
    baseUrl,
    registry,
    async close(): Promise<void> {
      redis?.close();
      await Promise.all([quota.close(), credentials.flushUses(), requestLog?.close()]);
      await Promise.all([closePools(pools, 1), paymentsPool.close(1), oauthPool.close(1)]);
    },
  };
}

/**
 * Creates the routes outside the OpenAPI document: pages, inbound webhooks, the OAuth server and
 * MCP.
 */
function createRoutes(
  config: Config,
  prepared: Prepared,
  services: Services,
  { perform, route }: { perform: Perform; route: Router },
  onEvents: () => void,
  offer: Offer | undefined,
): Pick<ServerParts, 'screens' | 'programRoutes' | 'pages'> {
  const { pools, paymentsPool, people, stripe, baseUrl } = services;
  const { document, limits, secrets, signedTokens, payments } = services.parts;
  const twilio = config.messagingProvider;
  const oauth = createOAuth(config, prepared, services);
  const signInOperation = { id: 'createSession', publicLimit: 'sign-in' };
  const builtinNames = builtinObjects.map(({ object }) => object);
  return {
    screens: [
      ...(twilio
        ? [createTwilioInboundWebhook({ authToken: twilio.authToken, baseUrl, tenants: pools.tenants, onEvents })]
        : []),
      ...createTestPages({ tenants: paymentsPool, provider: payments }, stripe ? 'test' : 'live|test'),
      ...(stripe && config.stripe
        ? [createStripeWebhookHandler({ ...config.stripe, stripe, platform: pools.platform, tenants: paymentsPool })]
        : []),
      createUnsubscribePage(pools.tenants, signedTokens),
      createMeetingPage({
        tenants: pools.tenants,
        tokens: signedTokens,
        async change(companyId, { operationId, path, body }) {
          const company = await services.parts.credentials.findCompany(companyId);
          if (company?.subscription.access !== 'open') return undefined;
          const by = buildSystemCaller(company, { id: 'attendee', name: 'Attendee' }, ['bookings:edit']);
          return perform({ operationId, path, body, by });
        },
      }),
      createLogoRoute(pools.tenants),
      ...createEngagementRoutes({ tenants: pools.tenants, tokens: signedTokens, onEvents }),
      ...createConsoleRoutes({
        people,
        perform,
        findOperation(method, path) {
          const found = route(method, path);
          if (found.kind !== 'operation') return undefined;
          const { summary, path: template, requirements } = found.operation;
          const declared = requirements.find(({ scheme }) => scheme === 'apiKey')?.scopes ?? [];
          const scopes = declared.map((scope) =>
            scope.replace(/^\{(\w+)\}/, (_, name: string) => found.path[name] ?? ''),
          );
          return { summary, template, parameters: found.path, scopes };
        },
        baseUrl,
        secrets,
        files: services.parts.files,
        loadWorkspace: ({ caller, configVersion }) => services.parts.workspaces.get(caller.companyId, configVersion),
        tokens: signedTokens,
        consents: oauth?.consents,
        mailIsSent: config.mailServer !== undefined,
        takeSignIn: async (ip, now) => (await limits.takePublic(signInOperation, ip, now.getTime())).allowed,
        takeResetMail: async (email, now) => (await limits.takeResetMail(email, now.getTime())).allowed,
      }),
      ...(oauth?.screens ?? []),
    ],
    programRoutes: {
      [mcpPath]: createMcpRoute({
        offer: offer ?? offerOperations(document.json, builtinNames),
        baseUrl,
        firstScopes,
      }),
    },
    pages: {
      ...buildDocsPages(document, baseUrl),
      ...serveAssets([pageStyle, consoleStyle, consoleScript, bothThemes]),
    },
  };
}

/** Creates the OAuth server; undefined if another issuer is trusted, which has its own. */
function createOAuth(config: Config, { signingKeys }: Prepared, services: Services) {
  const { issuer, jwksUri, audience } = config.oauth;
  if (jwksUri !== undefined) return undefined;
  const { oauthPool, people, agentAudience } = services;
  const { bearerTokens, credentials, secrets } = services.parts;
  return createOauthServer({
    issuer,
    pool: oauthPool,
    signingKeys,
    anonKey: config.anonKey,
    firstScopes,
    cookieKey: secrets.derive('cookies of the OAuth server').toString('hex'),
    resources: [
      { identifier: config.baseUrl, audience: audience ?? config.baseUrl, kind: 'api' },
      { identifier: agentAudience, audience: agentAudience, kind: 'mcp' },
    ],
    outgoing: new OutgoingClient({ privateAddresses: config.oauthAllowPrivate ? 'allowed' : 'refused' }),
    consentUrl: (uid) => `${config.baseUrl}/console/consent/${uid}`,
    async verify(token, now) {
      const forApi = await bearerTokens.verify(token, now);
      return forApi.kind === 'invalid' ? bearerTokens.verify(token, now, agentAudience) : forApi;
    },
    async findAllowed(userId, clientId, kind) {
      const grant = (await credentials.findGrant(userId, clientId, kind))?.grant;
      return grant && !grant.revoked ? { grantId: grant.id, scopes: grant.permits([]).scopes } : undefined;
    },
    endFamily: (userId, clientId, kind, family) =>
      endTokenFamily({ credentials, people }, { userId, clientId, audience: kind, ...family }, new Date()),
  });
}

/**
 * @returns the port
 * @throws Error if it cannot be bound
 */
async function listen(server: Server, { port, host }: Config, worker: string | undefined): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    // Each worker has its own socket on the port. If it dies, its pending connections are reset,
    // and clients notice immediately.
    server.listen({ port, host, backlog: 1024, reusePort: worker !== undefined }, resolve);
  });
  return (server.address() as AddressInfo).port;
}

/**
 * Loads the library only if Redis is configured: other servers start sooner and need less memory.
 */
async function openRedis(url: string, log: Log): Promise<RedisCounters> {
  const { RedisCounters } = await import('../runtime/limits/rate-limit-redis.ts');
  const redis = new RedisCounters(url, log);
  await redis.open();
  return redis;
}

async function drain(server: Server): Promise<void> {
  // Accepts pending connections before the socket closes, which would reset them.
  await new Promise((resolve) => setImmediate(resolve));
  // The close of an HTTP server would immediately end idle connections, some with a request in
  // transit.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  const cut = setTimeout(() => server.closeAllConnections(), drainMs);
  await Promise.race([closed, sleep(leaveMs)]);
  server.closeIdleConnections();
  await closed;
  clearTimeout(cut);
}
