// From the request's headers to the caller: who it is, for which tenant, with which scopes.
import type { IncomingHttpHeaders } from 'node:http';
import { scopesOfToken } from '../domain/oauth-groups.ts';
import { activeModules, callsPerDay, callsPerMinute } from '../domain/plans.ts';
import { permissionsOf, type RoleReach } from '../domain/role-permissions.ts';
import { grantsOf, noGrants } from '../domain/scopes.ts';
import { type BearerTokens, claimsSession } from './bearer-tokens.ts';
import { addressSet } from './client-address.ts';
import { ApiError, serviceUnavailable } from './errors.ts';
import type { Caller, Reach } from './handler.ts';
import { isKeyShaped, sha256 } from './secrets.ts';
import type { SessionTokens } from './session-tokens.ts';
import type { GrantRecord, KeyRecord, Quota, SessionRecord, Store, SubscriptionRecord } from './store.ts';

/** What credentials are checked with. */
export interface CredentialParts {
  store: Store;
  sessionTokens: SessionTokens;
  bearerTokens: BearerTokens;
}

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

/** What an app may call in the name of each person; keys say themselves what they may. */
const callsOfApp = { perMinute: 60, perHour: 1000 };

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

/** What a request was sent with. */
export interface Credential {
  kind: 'api_key' | 'session' | 'access_token';
  text: string;
}

/**
 * Reads the credential of a request. An API key wins over a bearer token.
 * @param ownIssuer who issues session tokens
 * @throws ApiError 401 when there is none
 */
export function readCredential(
  { 'x-api-key': key, authorization }: IncomingHttpHeaders,
  ownIssuer: string,
): Credential {
  if (typeof key === 'string') return { kind: 'api_key', text: key };
  if (authorization === undefined) {
    throw new ApiError(
      'MISSING_API_KEY',
      'Send an API key in the header x-api-key, or an access token in Authorization: Bearer.',
      undefined,
      { headers: challenge },
    );
  }
  const token = /^Bearer ([^ ]+)$/i.exec(authorization)?.[1];
  if (token === undefined) throw badToken('AUTH_INVALID_KEY', 'This is not a bearer token.');
  return { kind: claimsSession(token, ownIssuer) ? 'session' : 'access_token', text: token };
}

/**
 * Finds out who calls.
 * @throws ApiError 401 for every credential that is not good, always with WWW-Authenticate; 403 IP_NOT_ALLOWED, and for apps
 *   that the user does not allow
 */
export function authenticate(
  { kind, text }: Credential,
  facts: RequestFacts,
  parts: CredentialParts,
  now: Date,
): Promise<Authenticated> {
  if (kind === 'api_key') return byKey(text, facts, parts.store, now);
  return kind === 'session' ? bySession(text, facts, parts, now) : byAccessToken(text, facts, parts, now);
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

function badToken(code: 'AUTH_INVALID_KEY' | 'API_KEY_EXPIRED', message: string): ApiError {
  return new ApiError(code, message, undefined, { headers: invalidToken });
}

const expired = () => badToken('API_KEY_EXPIRED', 'This token has expired. Refresh it, or sign in again.');
const invalid = () => badToken('AUTH_INVALID_KEY', 'This bearer token is not valid.');

async function bySession(
  token: string,
  facts: RequestFacts,
  { store, sessionTokens }: CredentialParts,
  now: Date,
): Promise<Authenticated> {
  const verdict = await sessionTokens.verify(token, now);
  if (verdict.kind === 'expired') throw expired();
  if (verdict.kind === 'invalid') throw invalid();
  const record = await store.findSession(verdict.sessionId);
  if (!record || record.userId !== verdict.userId)
    throw badToken('AUTH_INVALID_KEY', 'This session has ended. Sign in again.');
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

async function byAccessToken(
  token: string,
  facts: RequestFacts,
  { store, bearerTokens }: CredentialParts,
  now: Date,
): Promise<Authenticated> {
  const verdict = await bearerTokens.verify(token, now);
  if (verdict.kind === 'unavailable') throw serviceUnavailable();
  if (verdict.kind === 'expired') throw expired();
  if (verdict.kind === 'invalid') throw invalid();
  const record = await store.findGrant(verdict.userId, verdict.clientId);
  if (!record) throw badToken('AUTH_INVALID_KEY', 'The user of this token is not active.');
  const { configVersion, quota } = record;
  return { caller: appCaller(record, verdict, facts), configVersion, subscription: record, quota };
}

/** @throws ApiError 403 when the user allows the app nothing: the token proves who it is for, not what it may do */
function appCaller(
  record: GrantRecord,
  { scopes: asked, expiresAt }: { scopes: string[]; expiresAt: Date },
  facts: RequestFacts,
): Caller {
  const { grant, userId } = record;
  if (!grant || grant.revoked) {
    throw new ApiError('FORBIDDEN_SCOPE', 'The user does not allow this app to act for them. Ask for consent again.', {
      required_scopes: [],
      reason: grant ? 'grant_revoked' : 'no_grant',
    });
  }
  const permissions = permissionsOf(record.roles, record.profile);
  const scopes = scopesOfToken(grant, asked, permissions);
  return {
    ...facts,
    kind: 'oauth_client',
    companyId: record.companyId,
    companyName: record.companyName,
    testMode: false,
    actor: { kind: 'oauth_client', id: `oauth_${record.clientId}`, name: grant.clientName },
    grants: grantsOf(scopes),
    scopes,
    reach: reachOf(permissions.reachOf([]), record),
    reachOf: (asked) => reachOf(permissions.reachOf(asked), record),
    expiresAt,
    userId,
    sessionId: null,
    modules: activeModules(record.packageCode, record.disabledModules),
    limits: { ...callsOfApp, tenantPerMinute: callsPerMinute(record), tenantPerDay: callsPerDay(record) },
  };
}

/** Who belongs to no team or branch sees what is their own. */
function reachOf(kind: RoleReach, { branchId, teamId, userId }: GrantRecord): Reach {
  if (kind === 'company') return { kind };
  const id = { branch: branchId, team: teamId, own: userId }[kind];
  return id === null ? { kind: 'own', id: userId } : { kind, id };
}
