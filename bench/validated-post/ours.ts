// The runtime only: all its work for a public operation, with a stub of the database.
import { openCalendars } from '../../app/calendar-provider.ts';
import { BearerTokens } from '../../runtime/credentials/bearer-tokens.ts';
import { createOwnKeys } from '../../runtime/credentials/issuer-keys.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { newSigningKey, SessionTokens } from '../../runtime/credentials/session-tokens.ts';
import { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { Files } from '../../runtime/files/files.ts';
import { DiskStorage } from '../../runtime/files/storage-disk.ts';
import { createLoad } from '../../runtime/http/connections.ts';
import { buildServer } from '../../runtime/http/server.ts';
import { type Counters, RateLimits } from '../../runtime/limits/rate-limits.ts';
import { loadDocument } from '../../runtime/openapi/document.ts';
import { OutgoingClient } from '../../runtime/outbound/client.ts';
import { Cursors } from '../../runtime/paging.ts';
import { FeedNotifier } from '../../runtime/pipeline/feed-notifier.ts';
import type { RequestDatabase } from '../../runtime/pipeline/request-database.ts';
import { openLog } from '../../runtime/telemetry/log.ts';
import { listen } from '../announce.ts';
import { type LeadBody, toLead } from './lead.ts';

const nothing = {
  get sql(): never {
    throw new Error('there is no database here');
  },
  verifyPreconditions: async () => 'ok',
  commit: async () => undefined,
  firstFailure: async () => undefined,
  endRead: () => undefined,
  abandon: () => undefined,
  destroy: () => undefined,
  broken: false,
};

/** A public operation only opens a transaction and commits it. */
const database = {
  open: () => Promise.resolve(nothing),
  commit: () => Promise.resolve(),
} as unknown as RequestDatabase;
const unused = {} as never;

/** The other sides have no rate limits either. */
const uncounted: Counters = {
  take: (_layers, now) => ({ allowed: true, limit: 60, remaining: 60, reset: now }),
  isLocal: false,
  remember: () => undefined,
  remembers: () => false,
  forget: () => undefined,
};

const createLead = async (call: { request: { body: LeadBody }; now: Date }) => ({
  status: 201,
  data: { lead: toLead(call.request.body, call.now) },
});

const unpaid = (): Promise<never> => Promise.reject(new Error('there are no payments here'));
const { log, ...opened } = openLog(process.env.LOG_LEVEL ?? 'info');
const secrets = new Secrets('5e'.repeat(32));
const signedTokens = new SignedTokens(secrets);
const sessionTokens = await SessionTokens.fromKeys('http://127.0.0.1', [await newSigningKey('bench')]);
listen(
  buildServer({
    document: await loadDocument(new URL('./document.json', import.meta.url), ['none'], 'http://127.0.0.1'),
    handlers: { createLead },
    proposals: unused,
    database,
    credentials: unused,
    quota: unused,
    workspaces: unused,
    log,
    ...opened,
    recordRequest: undefined,
    news: new FeedNotifier(async () => [], log),
    files: new Files({
      storage: new DiskStorage(''),
      folder: '',
      announce: async () => undefined,
      secrets,
      baseUrl: () => '',
      log,
    }),
    load: createLoad(),
    secrets,
    getModuleState: () => 'on',
    outgoing: new OutgoingClient({ privateAddresses: 'refused' }),
    calendars: openCalendars(new OutgoingClient({ privateAddresses: 'refused' })),
    payments: {
      keepsBooks: () => false,
      refresh: unpaid,
      refreshCheckout: unpaid,
      preview: unpaid,
      settle: unpaid,
      openCheckout: unpaid,
      openPortal: unpaid,
    },
    inboundUrls: () => ({ generic: '', twilio: null }),
    screens: [],
    programRoutes: {},
    mailIsSent: false,
    cursors: new Cursors(signedTokens),
    signedTokens,
    sessionTokens,
    bearerTokens: new BearerTokens({
      issuer: sessionTokens.issuer,
      audience: undefined,
      agentAudience: 'urn:agents',
      keys: createOwnKeys(sessionTokens.jwks),
      isOwn: true,
    }),
    limits: new RateLimits(uncounted, {}),
    trustedProxies: [],
    anonKey: undefined,
    pages: {},
  }).server,
);
