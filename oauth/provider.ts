// How the library is set up: what apps may ask it for, and for how long what it gives is good.
// Loaded with the first request that needs it.
import type { JWK } from 'jose';
import Provider, { type Configuration, errors, type KoaContextWithOIDC } from 'oidc-provider';
import type { Pool } from '../db/connect.ts';
import { grantClaim } from '../runtime/credentials/bearer-tokens.ts';
import { html, page } from '../runtime/html.ts';
import type { OutgoingClient } from '../runtime/outgoing/client.ts';
import { artifactsOf } from './artifacts.ts';
import { documentFetcher } from './client-documents.ts';
import { noteFault } from './requests.ts';

/** What tokens may be for. */
export interface Resource {
  /** As apps name it. */
  identifier: string;
  /** In the tokens. */
  audience: string;
}

export interface ProviderParts {
  issuer: string;
  pool: Pool;
  /** Private keys; the first signs. */
  signingKeys: readonly JWK[];
  cookieKey: string;
  /** The first is meant where an app names none. */
  resources: readonly [Resource, ...Resource[]];
  outgoing: OutgoingClient;
  /** What a user allows an app now, as scopes of the API; undefined where nothing is allowed. */
  findAllowed(
    userId: string,
    clientId: string,
  ): Promise<{ readonly grantId: string; readonly scopes: readonly string[] } | undefined>;
  /** Where a person is asked. */
  consentUrl(uid: string): string;
}

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

export function openProvider(parts: ProviderParts): Provider {
  const { issuer, resources, pool, outgoing } = parts;
  const resourceOf = (asked: string): Resource => {
    // An address without a path may be written with a slash or without.
    const found = resources.find(({ identifier }) => identifier === asked.replace(/\/$/, ''));
    if (!found)
      throw new errors.InvalidTarget(`resource must be one of ${resources.map((each) => each.identifier).join(', ')}`);
    return found;
  };
  const configuration: Configuration = {
    adapter: (model) => artifactsOf(pool, model),
    fetch: documentFetcher(outgoing),
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
      // Public apps have no secret: whoever holds a token may end it.
      revocation: { enabled: true, allowedPolicy: (_, client, token) => client.clientId === token.clientId },
      registration: { enabled: true, initialAccessToken: false, issueRegistrationAccessToken: false },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02', allowFetch: () => true, allowClient: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resources[0].identifier,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, asked) => ({
          // What an app may do is chosen by a person, and not asked for as a scope.
          scope: '',
          audience: resourceOf(asked).audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL: hour,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    } as Configuration['features'],
    ttl: {
      AccessToken: hour,
      AuthorizationCode: minute,
      // Kept for as long as a token that came of it.
      Grant: 30 * day,
      IdToken: hour,
      Interaction: hour,
      RefreshToken: 30 * day,
      Session: hour,
    },
    expiresWithSession: () => false,
    issueRefreshToken: () => true,
    rotateRefreshToken: () => true,
    // A token is as good as the consent that it came of, and no later one of the same person makes it good again.
    extraTokenClaims: (_, token) => ('grantId' in token ? { [grantClaim]: token.grantId?.split('.')[0] } : {}),
    findAccount: (context, userId, token) => findAccount(parts, context, userId, token),
    // None but the one that the console has just made.
    loadExistingGrant: async (context) => {
      const grantId = context.oidc.result?.consent?.grantId;
      return grantId === undefined ? undefined : context.oidc.provider.Grant.find(grantId);
    },
    interactions: { url: (_, interaction) => parts.consentUrl(interaction.uid) },
    renderError: (context, { error, error_description: why }) => {
      context.type = 'html';
      context.body = page(
        'This app could not be connected',
        html`<p role="alert">${why ?? error}</p><p>Go back to the app and begin again.</p>`,
      );
    },
  };
  const provider = new Provider(issuer, configuration);
  // Addresses are made from the issuer, which the requests say: see requests.ts.
  provider.proxy = true;
  provider.on('server_error', ({ req }, fault) => noteFault(req, fault));
  return provider;
}

/** Somebody who allows the app something: for a code or a refresh token, by the same grant that it came of. */
async function findAccount(
  { findAllowed }: ProviderParts,
  { oidc }: KoaContextWithOIDC,
  userId: string,
  token: { grantId?: string } | undefined,
) {
  const allowed = await findAllowed(userId, oidc.client?.clientId ?? '');
  const isAllowed = allowed !== undefined && (token?.grantId === undefined || isOf(allowed.grantId, token.grantId));
  return isAllowed ? { accountId: userId, claims: () => ({ sub: userId }) } : undefined;
}

/** The library's id of a consent begins with that of the grant, which several copies of an app may share. */
const isOf = (grantId: string, id: string): boolean => id.startsWith(`${grantId}.`);
