// Authenticates requests: from the headers to the caller with its tenant and scopes.

import type { IncomingHttpHeaders } from 'node:http';
import type { Preconditions } from '../../db/client/preconditions.ts';
import { noGrants, parseGrants } from '../../domain/access/scopes.ts';
import type { Modules } from '../../domain/billing/plans.ts';
import type { Caller } from '../caller.ts';
import { ApiError, serviceUnavailable } from '../errors.ts';
import { createAddressSet } from '../http/client-address.ts';
import type { SentCredential } from '../limits/rate-limits.ts';
import { toTenantTime } from '../test-time.ts';
import type { AccessTrace } from './access-checks.ts';
import { type BearerTokens, type BearerVerdict, looksLikeSessionToken } from './bearer-tokens.ts';
import type {
  CredentialStore,
  GrantRecord,
  KeyRecord,
  PersonRecord,
  SessionRecord,
  Subscription,
} from './credential-store.ts';
import { isKeyShaped, sha256 } from './secrets.ts';
import type { SessionTokens } from './session-tokens.ts';

/** The parts that authentication needs. */
export interface CredentialParts {
  credentials: CredentialStore;
  sessionTokens: SessionTokens;
  bearerTokens: BearerTokens;
  /** The audience that access tokens must have, if the route has its own. */
  audience?: string;
}

export interface Authenticated {
  caller: Caller;
  configVersion: number;
  /**
   * The subscription that pays for the call; undefined for users in the console, whose calls are
   * not counted.
   */
  subscription: Subscription | undefined;
  /**
   * Set if the credential came from the cache: the transaction must verify that it is unchanged.
   */
  credential: Preconditions['credential'];
}

/** Facts about a request before it is authenticated. */
export interface RequestFacts {
  requestId: string;
  ip: string;
  userAgent: string | null;
}

const challenge = { 'www-authenticate': 'Bearer' };
const invalidToken = { 'www-authenticate': 'Bearer realm="api", error="invalid_token"' };

/** Rate limits of an app per user that it acts for. API keys have their own. */
const appRateLimits = { perMinute: 60, perHour: 1000 };

const noModules: Modules = new Map();

/** Returns the caller of a public operation. */
export function buildAnonymousCaller(facts: RequestFacts): Caller {
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

/** The credential of a request. */
export interface Credential {
  kind: 'api_key' | 'session' | 'access_token';
  text: string;
}

/**
 * Reads the credential of a request. An API key takes precedence over a bearer token.
 * @param ownIssuer the issuer of session tokens
 * @throws ApiError 401 if there is none
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
  return { kind: looksLikeSessionToken(token, ownIssuer) ? 'session' : 'access_token', text: token };
}

/**
 * Returns the identity under which failures of a request's credential are counted. The credential
 * is not verified. An API key takes precedence over a token.
 */
export function describeCredential({ 'x-api-key': key, authorization }: IncomingHttpHeaders): SentCredential {
  if (typeof key === 'string') {
    if (!isKeyShaped(key)) return malformed;
    // The common prefix of keys, and the first eight of the random characters.
    const prefix = key.slice(0, key.lastIndexOf('_') + 9);
    return { prefix, identity: sha256(key).toString('hex'), isSecret: true };
  }
  if (authorization === undefined) return { prefix: 'none', identity: undefined, isSecret: false };
  const token = /^Bearer ([^ ]+)$/i.exec(authorization)?.[1];
  if (token === undefined) return malformed;
  // All tokens of an issuer start with the same characters, so the hash is used.
  const identity = sha256(token).toString('hex');
  return { prefix: identity.slice(0, 16), identity, isSecret: true };
}

const malformed: SentCredential = { prefix: 'malformed', identity: undefined, isSecret: false };

/**
 * Authenticates a credential.
 * @throws ApiError 401 with WWW-Authenticate if the credential is invalid; 403 IP_NOT_ALLOWED; 403
 * for an app that the user does not allow
 */
export function authenticate(
  { kind, text }: Credential,
  facts: RequestFacts,
  parts: CredentialParts,
  now: Date,
): Promise<Authenticated> {
  if (kind === 'api_key') return authenticateKey(text, facts, parts.credentials, now);
  return kind === 'session' ? authenticateSession(text, facts, parts, now) : authenticateToken(text, facts, parts, now);
}

/**
 * Authenticates a cached API key without a query.
 * @returns undefined if the key is not cached or was not valid: only the database may reject a key
 */
export function authenticateFromCache(
  { kind, text }: Credential,
  facts: RequestFacts,
  { credentials }: CredentialParts,
  now: Date,
): Authenticated | undefined {
  if (kind !== 'api_key' || !isKeyShaped(text)) return undefined;
  const record = credentials.rememberedKey(sha256(text), now);
  if (record?.subscription.access !== 'open' || findKeyFlaw(record, facts.ip, now)) return undefined;
  const { companyId, stamp } = record;
  return { ...keyAuthenticated(record, facts), credential: { companyId, stamp } };
}

async function authenticateKey(
  key: string,
  facts: RequestFacts,
  credentials: CredentialStore,
  now: Date,
): Promise<Authenticated> {
  const record = isKeyShaped(key) ? await credentials.findKey(sha256(key)) : undefined;
  if (!record)
    throw new ApiError('AUTH_INVALID_KEY', 'This API key does not exist.', undefined, { headers: challenge });
  const flaw = findKeyFlaw(record, facts.ip, now);
  if (flaw) throw new RejectedKey(flaw, keyCaller(record, facts));
  return keyAuthenticated(record, facts);
}

/** Rejects a key that exists. */
export class RejectedKey extends ApiError {
  readonly caller: Caller;

  constructor({ code, message, details, headers }: ApiError, caller: Caller) {
    super(code, message, details, headers ? { headers } : {});
    this.caller = caller;
  }
}

/**
 * Returns why a key is not valid for a request; undefined if it is valid.
 * @param ip undefined: the address is not judged
 * @param trace follows the checks, for explanations of access
 */
function findKeyFlaw(record: KeyRecord, ip: string | undefined, now: Date, trace?: AccessTrace): ApiError | undefined {
  trace?.begin('credential');
  if (record.revokedAt)
    return new ApiError('API_KEY_REVOKED', 'This API key was revoked.', undefined, { headers: challenge });
  if (record.expiresAt && record.expiresAt <= toTenantTime(now, record))
    return new ApiError('API_KEY_EXPIRED', 'This API key has expired.', undefined, { headers: challenge });
  trace?.pass('The API key is neither revoked nor expired.');
  const { ipAllowlist } = record;
  if (ip === undefined && ipAllowlist.length > 0) return undefined;
  trace?.begin('ip_allowlist');
  if (ip !== undefined && ipAllowlist.length > 0 && !createAddressSet(ipAllowlist).has(ip))
    return new ApiError(
      'IP_NOT_ALLOWED',
      'This API key cannot be used from your IP address. Add the address to the allowlist of the key.',
      {},
    );
  trace?.pass(
    ipAllowlist.length > 0
      ? 'The address is in the allowlist of the key.'
      : 'The key has no allowlist, so it is accepted from every address.',
  );
  return undefined;
}

/**
 * Returns the caller that a key would be, for explanations of access.
 * @param ip undefined: the address is not judged
 * @throws ApiError 401 or 403 if the key is not valid
 */
export function judgeKey(
  record: KeyRecord,
  facts: RequestFacts,
  ip: string | undefined,
  now: Date,
  trace: AccessTrace,
): Caller {
  const flaw = findKeyFlaw(record, ip, now, trace);
  if (flaw) throw flaw;
  return keyCaller(record, facts);
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
    clockAheadSeconds: record.clockAheadSeconds,
    actor: { kind: 'api_key', id: record.keyId, name: record.keyName },
    grants: parseGrants(record.scopes),
    scopes: record.scopes,
    reach:
      record.reachKind === 'company' || record.reachId === null
        ? { kind: 'company' }
        : { kind: record.reachKind, id: record.reachId },
    mustPropose: record.writeMode === 'propose',
    hasProposals: record.hasProposals,
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

/** Returns the error for session tokens on a route that does not accept them. */
export const sessionTokenNotAccepted = () =>
  badToken('AUTH_INVALID_KEY', 'Session tokens are not accepted here. Send an API key or an access token.');

async function authenticateSession(
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

/** @throws ApiError 401 if the token is invalid or its session has ended */
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

/** A user who is signed in to the console. */
export interface PersonAtScreen
  extends Pick<Authenticated, 'caller' | 'configVersion'>,
    Pick<SessionRecord, 'timezone' | 'logo'> {}

/**
 * Authenticates a console session, with all permissions of the user's roles. Over HTTP, the same
 * session has few.
 * @throws ApiError 401 if the token is invalid
 */
export async function authenticatePerson(
  token: string,
  facts: RequestFacts,
  parts: Pick<CredentialParts, 'credentials' | 'sessionTokens'>,
  now: Date,
): Promise<PersonAtScreen> {
  const { record, expiresAt } = await findSession(token, parts, now);
  const caller = personCaller(record, sessionCaller(record, expiresAt, facts));
  const { configVersion, timezone, logo } = record;
  return { caller, configVersion, timezone, logo };
}

/** Returns the caller with all permissions of the user's roles. */
function personCaller({ permits: { allows, computeReach } }: Pick<PersonRecord, 'permits'>, session: Caller): Caller {
  return { ...session, kind: 'person', grants: { allows }, computeReach, reach: computeReach([]) };
}

/**
 * Returns the caller that a user would be in the console, for explanations of access.
 * @throws ApiError 401 if the user is inactive
 */
export function judgeUser(record: PersonRecord, facts: RequestFacts, trace: AccessTrace): Caller {
  trace.begin('credential');
  if (!record.isActive) throw inactiveUser();
  trace.pass('The user is active.');
  return personCaller(record, sessionCaller({ ...record, sessionId: null }, null, facts));
}

const inactiveUser = () => badToken('AUTH_INVALID_KEY', 'The user of this token is inactive.');

function sessionCaller(
  record: Omit<SessionRecord, 'sessionId'> & { sessionId: string | null },
  expiresAt: Date | null,
  facts: RequestFacts,
): Caller {
  return {
    ...facts,
    kind: 'session',
    companyId: record.companyId,
    companyName: record.companyName,
    testMode: false,
    clockAheadSeconds: record.clockAheadSeconds,
    actor: { kind: 'user', id: record.userId, name: record.fullName },
    grants: noGrants,
    ofUser: {
      grants: { allows: record.permits.allows },
      computeReach: record.permits.computeReach,
      access: record.subscription.access,
    },
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

async function authenticateToken(
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
  if (!record) throw inactiveUser();
  const { configVersion, subscription } = record;
  return { caller: appCaller(record, verdict, facts), configVersion, subscription, credential: undefined };
}

/**
 * @throws ApiError 403 if there is no active grant: the token proves the user, not what the app may
 * do
 */
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
  const { scopes, computeReach } = grant.permits(asked);
  return {
    ...facts,
    kind: 'oauth_client',
    companyId: record.companyId,
    companyName: record.companyName,
    testMode: false,
    actor: { kind: 'oauth_client', id: `oauth_${record.clientId}`, name: grant.clientName },
    grants: parseGrants(scopes),
    scopes,
    reach: computeReach([]),
    computeReach,
    mustPropose: grant.writeMode === 'propose',
    hasProposals: record.hasProposals,
    expiresAt,
    userId,
    sessionId: null,
    mustChangePassword: false,
    modules: record.subscription.modules,
    limits: {
      ...appRateLimits,
      tenantPerMinute: record.subscription.callsPerMinute,
      tenantPerDay: record.subscription.callsPerDay,
    },
  };
}
