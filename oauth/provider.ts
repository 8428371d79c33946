// The configuration of the OAuth library: features, token lifetimes and consent lookups.
// Loaded with the first request that needs it.
import type { JWK } from 'jose';
import Provider, { type Configuration, errors, type KoaContextWithOIDC } from 'oidc-provider';
import type { Pool } from '../db/client/pool.ts';
import { familyClaim, grantClaim } from '../runtime/credentials/bearer-tokens.ts';
import type { OutgoingClient } from '../runtime/outbound/client.ts';
import { html, page } from '../runtime/pages/html.ts';
import type { AskedConsent } from '../web/pages/requests.ts';
import { type Consent, createAdapter } from './artifacts.ts';
import { createMetadataFetch } from './client-metadata.ts';
import { recordFault } from './requests.ts';

type Audience = AskedConsent['audience'];

/** A resource that tokens can be issued for. */
export interface Resource {
  /** The resource parameter that apps send. */
  identifier: string;
  /** The `aud` claim of the tokens. */
  audience: string;
  /** The audience that grants store. */
  kind: Audience;
}

export interface ProviderParts {
  issuer: string;
  pool: Pool;
  /** Private keys. The first one signs. */
  signingKeys: readonly JWK[];
  cookieKey: string;
  /** The first is the default if an app names none. */
  resources: readonly [Resource, ...Resource[]];
  outgoing: OutgoingClient;
  /**
   * Returns the API scopes that a user currently grants an app. undefined: there is no active
   * grant.
   */
  findAllowed(
    userId: string,
    clientId: string,
    audience: Audience,
  ): Promise<{ readonly grantId: string; readonly scopes: readonly string[] } | undefined>;
  /**
   * Revokes the access tokens of one consent from the next call on. Access tokens are not stored.
   */
  endFamily(userId: string, clientId: string, audience: Audience, family: Family): Promise<void>;
  /** Returns the address of the consent page. */
  consentUrl(uid: string): string;
}

/** One consent to a grant, with all tokens that were issued from it. */
export interface Family {
  grantId: string;
  id: string;
}

/**
 * Splits the library's consent id into the grant id and the family id. Several copies of an app may
 * share a grant.
 */
export function parseConsentId(consentId: string): Family {
  const [grantId = '', id = ''] = consentId.split('.');
  return { grantId, id };
}

/**
 * The parameter that carries the module scopes of the app through the library, which does not know
 * them.
 */
export const requestedScopesParameter = 'asked_scopes';

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

export function openProvider(parts: ProviderParts): Provider {
  const { issuer, resources, pool, outgoing } = parts;
  const requireResource = (asked: string, { oidc }: KoaContextWithOIDC): Resource => {
    // With several resources, the holder of the refresh token could switch its audience.
    if (Array.isArray(oidc.params?.resource) && oidc.params.resource.length > 1)
      throw new errors.InvalidTarget('Send only one resource.');
    // An address without a path may be written with or without a trailing slash.
    const found = resources.find(({ identifier }) => identifier === asked.replace(/\/$/, ''));
    if (!found)
      throw new errors.InvalidTarget(`resource must be one of ${resources.map((each) => each.identifier).join(', ')}.`);
    return found;
  };
  const configuration: Configuration = {
    adapter: (model) => createAdapter(pool, model, (consent) => endFamily(parts, consent)),
    fetch: createMetadataFetch(outgoing),
    jwks: { keys: parts.signingKeys.map((key) => ({ ...key, alg: 'ES256', use: 'sig' })) as never },
    routes: {
      authorization: '/oauth/authorize',
      token: '/oauth/token',
      registration: '/oauth/clients/register',
      revocation: '/oauth/revoke',
      jwks: '/.well-known/jwks.json',
    },
    scopes: ['openid', 'offline_access'],
    claims: { openid: ['sub'] },
    responseTypes: ['code'],
    clientAuthMethods: ['none'],
    clientDefaults: { id_token_signed_response_alg: 'ES256', token_endpoint_auth_method: 'none' },
    enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
    extraParams: [requestedScopesParameter],
    pkce: { required: () => true },
    cookies: {
      keys: [parts.cookieKey],
      names: { session: 'oauth_session', interaction: 'oauth_consent', resume: 'oauth_resume' },
    },
    features: {
      devInteractions: { enabled: false },
      userinfo: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      dPoP: { enabled: false },
      claimsParameter: { enabled: false },
      // Public clients have no secret, so the holder of a token may revoke it.
      revocation: { enabled: true, allowedPolicy: (_, client, token) => client.clientId === token.clientId },
      registration: { enabled: true, initialAccessToken: false, issueRegistrationAccessToken: false },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02', allowFetch: () => true, allowClient: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resources[0].identifier,
        useGrantedResource: () => true,
        getResourceServerInfo: (context, asked) => ({
          // The person chooses the permissions of an app. The app does not request them as scopes.
          scope: '',
          audience: requireResource(asked, context).audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL: hour,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    } as Configuration['features'],
    ttl: {
      AccessToken: hour,
      AuthorizationCode: minute,
      // A consent is stored as long as its refresh tokens.
      Grant: 30 * day,
      IdToken: hour,
      Interaction: hour,
      RefreshToken: 30 * day,
      Session: hour,
    },
    expiresWithSession: () => false,
    issueRefreshToken: () => true,
    rotateRefreshToken: () => true,
    // A token is only valid while its own consent is. A later consent of the same person does not
    // revive it.
    extraTokenClaims: (_, token) => {
      if (!('grantId' in token) || token.grantId === undefined) return {};
      const { grantId, id } = parseConsentId(token.grantId);
      return { [grantClaim]: grantId, [familyClaim]: id };
    },
    findAccount: (context, userId, token) => findAccount(parts, context, userId, token),
    // Only the consent that the console has just created is used.
    loadExistingGrant: async (context) => {
      const grantId = context.oidc.result?.consent?.grantId;
      return grantId === undefined ? undefined : context.oidc.provider.Grant.find(grantId);
    },
    interactions: { url: (_, interaction) => parts.consentUrl(interaction.uid) },
    renderError: (context, { error, error_description: why }) => {
      context.type = 'html';
      context.body = page(
        'This app could not be connected',
        html`<p role="alert">${why ?? error}</p><p>Return to the app and try again.</p>`,
      );
    },
  };
  const provider = new Provider(issuer, configuration);
  // URLs are built from the issuer, which the forwarded headers of each request carry: see
  // requests.ts.
  provider.proxy = true;
  provider.on('server_error', ({ req }, fault) => recordFault(req, fault));
  return provider;
}

/**
 * Finds the account if it has an active grant for the app. A code or refresh token must belong to
 * the same grant.
 */
async function findAccount(
  { findAllowed, resources }: ProviderParts,
  { oidc }: KoaContextWithOIDC,
  userId: string,
  token: { grantId?: string | undefined; resource?: unknown } | undefined,
) {
  const resource = String(token?.resource ?? oidc.params?.resource ?? resources[0].identifier);
  const allowed = await findAllowed(userId, oidc.client?.clientId ?? '', findAudience(resources, resource));
  const isAllowed =
    allowed !== undefined &&
    (token?.grantId === undefined || parseConsentId(token.grantId).grantId === allowed.grantId);
  return isAllowed ? { accountId: userId, claims: () => ({ sub: userId }) } : undefined;
}

/**
 * Returns the audience of a resource address. An address without a path may have a trailing slash.
 */
export function findAudience(resources: ProviderParts['resources'], resource: string): Audience {
  const address = resource.replace(/\/$/, '');
  return (resources.find(({ identifier }) => identifier === address) ?? resources[0]).kind;
}

/**
 * Ends the family in every audience, because the consent does not store its audience. A grant id
 * belongs to only one.
 */
async function endFamily({ endFamily: end, resources }: ProviderParts, { id, accountId, clientId }: Consent) {
  const family = parseConsentId(id);
  await Promise.all(resources.map(({ kind }) => end(accountId, clientId, kind, family)));
}
