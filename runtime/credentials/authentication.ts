// From the request's headers to the caller: who it is, for which tenant, with which scopes.

import type { IncomingHttpHeaders } from 'node:http';
import type { Preconditions } from '../../db/client/preconditions.ts';
import { grantsOf, noGrants } from '../../domain/access/scopes.ts';
import type { Modules } from '../../domain/billing/plans.ts';
import type { Caller } from '../caller.ts';
import { ApiError, serviceUnavailable } from '../errors.ts';
import { addressSet } from '../http/client-address.ts';
import type { SentCredential } from '../limits/rate-limits.ts';
import { type BearerTokens, type BearerVerdict, claimsSession } from './bearer-tokens.ts';
import type { CredentialStore, GrantRecord, KeyRecord, SessionRecord, Subscription } from './credential-store.ts';
import { isKeyShaped, sha256 } from './secrets.ts';
import type { SessionTokens } from './session-tokens.ts';

/** What credentials are checked with. */
export interface CredentialParts {
  credentials: CredentialStore;
  sessionTokens: SessionTokens;
  bearerTokens: BearerTokens;
  /** What access tokens must be meant for, where a route has an audience of its own. */
  audience?: string;
}

export interface Authenticated {
  caller: Caller;
  configVersion: number;
  /** Who pays for the call; undefined for people at the screen, whose calls are not counted. */
  subscription: Subscription | undefined;
  /** What the caller was told by, when that was not asked for this request: its transaction must ask whether it still holds. */
  credential: Preconditions['credential'];
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

const noModules: Modules = new Map();

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
    mustChangePassword: false,
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
      'Send an API key in the x-api-key header, or an access token in the Authorization: Bearer header.',
      undefined,
      { headers: challenge },
    );
  }
  const token = /^Bearer ([^ ]+)$/i.exec(authorization)?.[1];
  if (token === undefined)
    throw badToken('AUTH_INVALID_KEY', 'The Authorization header must be Bearer followed by a token.');
  return { kind: claimsSession(token, ownIssuer) ? 'session' : 'access_token', text: token };
}

/** How failures of a request's credential are counted. Nothing is checked; a key wins over a token, as above. */
export function describeCredential({ 'x-api-key': key, authorization }: IncomingHttpHeaders): SentCredential {
  if (typeof key === 'string') {
    if (!isKeyShaped(key)) return malformed;
    // What all keys begin with, and the first of the characters that are their own.
    const prefix = key.slice(0, key.lastIndexOf('_') + 9);
    return { prefix, identity: sha256(key).toString('hex'), isSecret: true };
  }
  if (authorization === undefined) return { prefix: 'none', identity: undefined, isSecret: false };
  const token = /^Bearer ([^ ]+)$/i.exec(authorization)?.[1];
  if (token === undefined) return malformed;
  // Tokens of an issuer all begin alike.
  const identity = sha256(token).toString('hex');
  return { prefix: identity.slice(0, 16), identity, isSecret: true };
}

const malformed: SentCredential = { prefix: 'malformed', identity: undefined, isSecret: false };

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
  if (kind === 'api_key') return byKey(text, facts, parts.credentials, now);
  return kind === 'session' ? bySession(text, facts, parts, now) : byAccessToken(text, facts, parts, now);
}

/**
 * The same for a remembered API key, without asking the database.
 * @returns undefined if the key is not remembered, or was not valid: only the database may say so
 */
export function authenticateFromCache(
  { kind, text }: Credential,
  facts: RequestFacts,
  { credentials }: CredentialParts,
  now: Date,
): Authenticated | undefined {
  if (kind !== 'api_key' || !isKeyShaped(text)) return undefined;
  const record = credentials.rememberedKey(sha256(text), now);
  if (record?.subscription.access !== 'open' || flawOf(record, facts, now)) return undefined;
  const { companyId, stamp } = record;
  return { ...keyAuthenticated(record, facts), credential: { companyId, stamp } };
}

async function byKey(
  key: string,
  facts: RequestFacts,
  credentials: CredentialStore,
  now: Date,
): Promise<Authenticated> {
  const record = isKeyShaped(key) ? await credentials.findKey(sha256(key)) : undefined;
  if (!record)
    throw new ApiError('AUTH_INVALID_KEY', 'This API key does not exist.', undefined, { headers: challenge });
  const flaw = flawOf(record, facts, now);
  if (flaw) throw flaw;
  return keyAuthenticated(record, facts);
}

/** Why a key is not good for a request; undefined: it is. */
function flawOf(record: KeyRecord, facts: RequestFacts, now: Date): ApiError | undefined {
  if (record.revokedAt)
    return new ApiError('API_KEY_REVOKED', 'This API key was revoked.', undefined, { headers: challenge });
  if (record.expiresAt && record.expiresAt <= now)
    return new ApiError('API_KEY_EXPIRED', 'This API key has expired.', undefined, { headers: challenge });
  if (record.ipAllowlist.length > 0 && !addressSet(record.ipAllowlist).has(facts.ip))
    return new ApiError(
      'IP_NOT_ALLOWED',
      'This API key cannot be used from your IP address. Add the address to the allowlist of the key.',
      {},
    );
  return undefined;
}

function keyAuthenticated(record: KeyRecord, facts: RequestFacts): Authenticated {
  const { configVersion, subscription } = record;
  return { caller: keyCaller(record, facts), configVersion, subscription, credential: undefined };
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
    mustChangePassword: false,
    modules: record.subscription.modules,
    limits: {
      perMinute: record.perMinute,
      perHour: record.perHour,
      tenantPerMinute: record.subscription.callsPerMinute,
      tenantPerDay: record.subscription.callsPerDay,
    },
  };
}

function badToken(code: 'AUTH_INVALID_KEY' | 'API_KEY_EXPIRED', message: string): ApiError {
  return new ApiError(code, message, undefined, { headers: invalidToken });
}

const expired = () => badToken('API_KEY_EXPIRED', 'This token has expired. Refresh it, or sign in again.');
const invalid = () => badToken('AUTH_INVALID_KEY', 'This bearer token is invalid.');

/** For a route that no person at a screen calls. */
export const sessionElsewhere = () =>
  badToken('AUTH_INVALID_KEY', 'Session tokens are not accepted here. Send an API key or an access token.');

async function bySession(
  token: string,
  facts: RequestFacts,
  parts: CredentialParts,
  now: Date,
): Promise<Authenticated> {
  const { record, expiresAt } = await findSession(token, parts, now);
  const { configVersion } = record;
  return {
    caller: sessionCaller(record, expiresAt, facts),
    configVersion,
    subscription: undefined,
    credential: undefined,
  };
}

/** @throws ApiError 401 for a token that is not good, and for a session that has ended */
async function findSession(
  token: string,
  { credentials, sessionTokens }: Pick<CredentialParts, 'credentials' | 'sessionTokens'>,
  now: Date,
): Promise<{ record: SessionRecord; expiresAt: Date }> {
  const verdict = await sessionTokens.verify(token, now);
  if (verdict.kind === 'expired') throw expired();
  if (verdict.kind === 'invalid') throw invalid();
  const record = await credentials.findSession(verdict.companyId, verdict.sessionId);
  if (!record || record.userId !== verdict.userId)
    throw badToken('AUTH_INVALID_KEY', 'This session has ended. Sign in again.');
  return { record, expiresAt: verdict.expiresAt };
}

/** Somebody who is signed in at a screen. */
export type PersonAtScreen = Pick<Authenticated, 'caller' | 'configVersion'>;

/**
 * The user of a session at a screen of this server, with all that their roles permit; the same session opens little over HTTP.
 * @throws ApiError 401 for a token that is not good
 */
export async function authenticatePerson(
  token: string,
  facts: RequestFacts,
  parts: Pick<CredentialParts, 'credentials' | 'sessionTokens'>,
  now: Date,
): Promise<PersonAtScreen> {
  const { record, expiresAt } = await findSession(token, parts, now);
  const { permits, configVersion } = record;
  const { allows, reachOf } = permits;
  const as = { kind: 'person' as const, grants: { allows }, reachOf, reach: reachOf([]) };
  return { caller: { ...sessionCaller(record, expiresAt, facts), ...as }, configVersion };
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
    mustChangePassword: record.mustChangePassword,
    modules: record.subscription.modules,
    limits: {
      perMinute: 0,
      perHour: 0,
      tenantPerMinute: record.subscription.callsPerMinute,
      tenantPerDay: record.subscription.callsPerDay,
    },
  };
}

async function byAccessToken(
  token: string,
  facts: RequestFacts,
  { credentials, bearerTokens, audience }: CredentialParts,
  now: Date,
): Promise<Authenticated> {
  const verdict = await bearerTokens.verify(token, now, audience);
  if (verdict.kind === 'unavailable') throw serviceUnavailable();
  if (verdict.kind === 'expired') throw expired();
  if (verdict.kind === 'invalid') throw invalid();
  const record = await credentials.findGrant(verdict.userId, verdict.clientId, audience === undefined ? 'api' : 'mcp');
  if (!record) throw badToken('AUTH_INVALID_KEY', 'The user of this token is inactive.');
  const { configVersion, subscription } = record;
  return { caller: appCaller(record, verdict, facts), configVersion, subscription, credential: undefined };
}

/** @throws ApiError 403 when the user allows the app nothing: the token proves who it is for, not what it may do */
function appCaller(
  record: GrantRecord,
  { scopes: asked, grantId, familyId, expiresAt }: Extract<BearerVerdict, { kind: 'valid' }>,
  facts: RequestFacts,
): Caller {
  const { grant, userId } = record;
  const isOfAnother = grantId !== undefined && grantId !== grant?.id;
  const hasEnded = familyId !== undefined && grant?.endedFamilies.has(familyId);
  if (!grant || grant.revoked || isOfAnother || hasEnded) {
    throw new ApiError('FORBIDDEN_SCOPE', 'The user has revoked the access of this app. Ask for consent again.', {
      required_scopes: [],
      reason: grant ? 'grant_revoked' : 'no_grant',
    });
  }
  const { scopes, reachOf } = grant.permits(asked);
  return {
    ...facts,
    kind: 'oauth_client',
    companyId: record.companyId,
    companyName: record.companyName,
    testMode: false,
    actor: { kind: 'oauth_client', id: `oauth_${record.clientId}`, name: grant.clientName },
    grants: grantsOf(scopes),
    scopes,
    reach: reachOf([]),
    reachOf,
    expiresAt,
    userId,
    sessionId: null,
    mustChangePassword: false,
    modules: record.subscription.modules,
    limits: {
      ...callsOfApp,
      tenantPerMinute: record.subscription.callsPerMinute,
      tenantPerDay: record.subscription.callsPerDay,
    },
  };
}
