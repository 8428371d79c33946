// The runtime alone: everything it does for a public operation, with a store that opens nothing.
import { BearerTokens } from '../../runtime/bearer-tokens.ts';
import { loadDocument } from '../../runtime/document.ts';
import { Files } from '../../runtime/files.ts';
import { ownKeys } from '../../runtime/issuer-keys.ts';
import { openLog } from '../../runtime/log.ts';
import { Cursors } from '../../runtime/paging.ts';
import { type Counters, RateLimits } from '../../runtime/rate-limits.ts';
import { Secrets } from '../../runtime/secrets.ts';
import { buildServer } from '../../runtime/server.ts';
import { newSigningKey, SessionTokens } from '../../runtime/session-tokens.ts';
import { DiskStorage } from '../../runtime/storage-disk.ts';
import type { Store, Transaction } from '../../runtime/store.ts';
import { listen } from '../announce.ts';
import { type LeadBody, leadOf } from './lead.ts';

const nothing: Transaction = {
  get sql(): never {
    throw new Error('there is no database here');
  },
  claim: async () => ({ kind: 'ours' }),
  aside: (work) => work,
  commit: async () => undefined,
  keepFailure: async () => undefined,
  endRead: () => undefined,
  abandon: () => undefined,
  destroy: () => undefined,
  broken: false,
};

const store: Store = {
  open: () => Promise.resolve(nothing),
  findKey: async () => undefined,
  refund: () => undefined,
  findSession: async () => undefined,
  findGrant: async () => undefined,
  workspace: () => Promise.reject(new Error('there is no workspace here')),
  ping: async () => undefined,
  isOutage: () => false,
  isOverdue: () => false,
  isRace: () => false,
};

/** The other sides count nothing either. */
const uncounted: Counters = {
  take: (_layers, now) => ({ allowed: true, limit: 60, remaining: 60, reset: now }),
  isOpen: false,
};

const createLead = async (call: { body: LeadBody; now: Date }) => ({
  status: 201,
  data: { lead: leadOf(call.body, call.now) },
});

const { log, ...opened } = openLog(process.env.LOG_LEVEL ?? 'info');
const secrets = new Secrets('5e'.repeat(32));
const sessionTokens = await SessionTokens.fromKey('http://127.0.0.1', await newSigningKey('bench'));
listen(
  buildServer({
    document: await loadDocument(new URL('./document.json', import.meta.url), ['none'], 'http://127.0.0.1'),
    handlers: { createLead },
    store,
    log,
    ...opened,
    files: new Files({
      storage: new DiskStorage(''),
      folder: '',
      announce: async () => undefined,
      secrets,
      baseUrl: () => '',
      log,
    }),
    inFlight: { requests: 0 },
    secrets,
    mailIsSent: false,
    cursors: new Cursors(secrets),
    sessionTokens,
    bearerTokens: new BearerTokens({
      issuer: sessionTokens.issuer,
      audience: undefined,
      keys: ownKeys(sessionTokens.jwks),
      isOwn: true,
    }),
    limits: new RateLimits(uncounted, {}),
    trustedProxies: [],
    anonKey: undefined,
    pages: {},
  }),
);
