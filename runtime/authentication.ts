// From the request's headers to the caller: who it is, for which tenant, with which scopes.
import type { IncomingHttpHeaders } from 'node:http';
import { activeModules, callsPerDay, callsPerMinute } from '../domain/plans.ts';
import { grantsOf, noGrants } from '../domain/scopes.ts';
import { addressSet } from './client-address.ts';
import { ApiError } from './errors.ts';
import type { Caller } from './handler.ts';
import { isKeyShaped, sha256 } from './secrets.ts';
import type { SessionTokens } from './session-tokens.ts';
import type { KeyRecord, Quota, SessionRecord, Store, SubscriptionRecord } from './store.ts';

export interface Authenticated {
  caller: Caller;
  configVersion: number;
  /** Who pays for the call; undefined for people at the screen, whose calls are not counted. */
  subscription: SubscriptionRecord | undefined;
  quota: Quota | undefined;
}

/** What is known of a request before anybody is authenticated. */
export interface RequestFacts {
  requestId: string;
  ip: string;
  userAgent: string | null;
}

const challenge = { 'www-authenticate': 'Bearer' };
const invalidToken = { 'www-authenticate': 'Bearer realm="api", error="invalid_token"' };

const noModules: ReadonlySet<string> = new Set();

/** The caller of a public operation. */
export function anonymous(facts: RequestFacts): Caller {
  return {
    ...facts,
    kind: 'anonymous',
    companyId: '',
    companyName: '',
    testMode: false,
    actor: { kind: 'system', id: 'public', name: null },
    grants: noGrants,
    scopes: [],
    reach: { kind: 'company' },
    expiresAt: null,
    userId: null,
    sessionId: null,
    modules: noModules,
    limits: { perMinute: 0, perHour: 0, tenantPerMinute: 0, tenantPerDay: null },
  };
}

/**
 * Authenticates a request. An API key wins over a bearer token.
 * @throws ApiError 401 for every credential that is missing or not good, always with WWW-Authenticate; 403 IP_NOT_ALLOWED
 */
export async function authenticate(
  headers: IncomingHttpHeaders,
  facts: RequestFacts,
  store: Store,
  tokens: SessionTokens,
  now: Date,
): Promise<Authenticated> {
  const key = headers['x-api-key'];
  if (typeof key === 'string') return byKey(key, facts, store, now);
  const authorization = headers.authorization;
  if (authorization !== undefined) return bySession(authorization, facts, store, tokens, now);
  throw new ApiError(
    'MISSING_API_KEY',
    'Send an API key in the header x-api-key, or an access token in Authorization: Bearer.',
    undefined,
    {
      headers: challenge,
    },
  );
}

async function byKey(key: string, facts: RequestFacts, store: Store, now: Date): Promise<Authenticated> {
  const record = isKeyShaped(key) ? await store.findKey(sha256(key), facts.ip) : undefined;
  if (!record) throw new ApiError('AUTH_INVALID_KEY', 'This API key is not known.', undefined, { headers: challenge });
  if (record.revokedAt)
    throw new ApiError('API_KEY_REVOKED', 'This API key was revoked.', undefined, { headers: challenge });
  if (record.expiresAt && record.expiresAt <= now) {
    throw new ApiError('API_KEY_EXPIRED', 'This API key has expired.', undefined, { headers: challenge });
  }
  if (record.ipAllowlist.length > 0 && !addressSet(record.ipAllowlist).has(facts.ip)) {
    // A stolen key that is useless where it is tried must not use up what its owner paid for.
    if (record.quota?.charged) store.refund(record.quota);
    throw new ApiError('IP_NOT_ALLOWED', 'This API key may not be used from your address.', {});
  }
  const { configVersion, quota } = record;
  return { caller: keyCaller(record, facts), configVersion, subscription: record, quota };
}

function keyCaller(record: KeyRecord, facts: RequestFacts): Caller {
  return {
    ...facts,
    kind: 'api_key',
    companyId: record.companyId,
    companyName: record.companyName,
    testMode: record.testMode,
    actor: { kind: 'api_key', id: record.keyId, name: record.keyName },
    grants: grantsOf(record.scopes),
    scopes: record.scopes,
    reach:
      record.reachKind === 'company' || record.reachId === null
        ? { kind: 'company' }
        : { kind: record.reachKind, id: record.reachId },
    expiresAt: record.expiresAt,
    userId: null,
    sessionId: null,
    modules: activeModules(record.packageCode, record.disabledModules),
    limits: {
      perMinute: record.perMinute,
      perHour: record.perHour,
      tenantPerMinute: callsPerMinute(record),
      tenantPerDay: callsPerDay(record),
    },
  };
}

async function bySession(
  authorization: string,
  facts: RequestFacts,
  store: Store,
  tokens: SessionTokens,
  now: Date,
): Promise<Authenticated> {
  const refused = (code: 'AUTH_INVALID_KEY' | 'API_KEY_EXPIRED', message: string) =>
    new ApiError(code, message, undefined, { headers: invalidToken });
  const token = /^Bearer ([^ ]+)$/i.exec(authorization)?.[1];
  const verdict = token === undefined ? { kind: 'invalid' as const } : await tokens.verify(token, now);
  if (verdict.kind === 'expired')
    throw refused('API_KEY_EXPIRED', 'This token has expired. Refresh it, or sign in again.');
  if (verdict.kind === 'invalid') throw refused('AUTH_INVALID_KEY', 'This bearer token is not valid.');
  const record = await store.findSession(verdict.sessionId);
  if (!record || record.userId !== verdict.userId)
    throw refused('AUTH_INVALID_KEY', 'This session has ended. Sign in again.');
  const { configVersion } = record;
  return {
    caller: sessionCaller(record, verdict.expiresAt, facts),
    configVersion,
    subscription: undefined,
    quota: undefined,
  };
}

function sessionCaller(record: SessionRecord, expiresAt: Date, facts: RequestFacts): Caller {
  return {
    ...facts,
    kind: 'session',
    companyId: record.companyId,
    companyName: record.companyName,
    testMode: false,
    actor: { kind: 'user', id: record.userId, name: record.fullName },
    grants: noGrants,
    scopes: record.roles,
    reach: { kind: 'company' },
    expiresAt,
    userId: record.userId,
    sessionId: record.sessionId,
    modules: activeModules(record.packageCode, record.disabledModules),
    limits: {
      perMinute: 0,
      perHour: 0,
      tenantPerMinute: callsPerMinute(record),
      tenantPerDay: callsPerDay(record),
    },
  };
}
