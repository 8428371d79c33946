// How the library is set up: what apps may ask it for, and for how long what it gives is good.
// Loaded with the first request that needs it.
import type { JWK } from 'jose';
import Provider, { type Configuration, errors, type KoaContextWithOIDC } from 'oidc-provider';
import type { Pool } from '../db/client/pool.ts';
import { familyClaim, grantClaim } from '../runtime/credentials/bearer-tokens.ts';
import type { OutgoingClient } from '../runtime/outbound/client.ts';
import { html, page } from '../runtime/pages/html.ts';
import type { AskedConsent } from '../web/pages/requests.ts';
import { artifactsOf, type Consent } from './artifacts.ts';
import { documentFetcher } from './client-metadata.ts';
import { noteFault } from './requests.ts';

type Audience = AskedConsent['audience'];

/** What tokens may be for. */
export interface Resource {
  /** As apps name it. */
  identifier: string;
  /** In the tokens. */
  audience: string;
  /** What grants call it. */
  kind: Audience;
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
    audience: Audience,
  ): Promise<{ readonly grantId: string; readonly scopes: readonly string[] } | undefined>;
  /** Ends the access tokens that came of one consent, which nobody keeps: from the next call on they open nothing. */
  endFamily(userId: string, clientId: string, audience: Audience, family: Family): Promise<void>;
  /** Where a person is asked. */
  consentUrl(uid: string): string;
}

/** One consent to a grant, and all that came of it. */
export interface Family {
  grantId: string;
  id: string;
}

/** The library's id of a consent is that of the grant, which several copies of an app may share, and one of its own. */
export function familyOf(consentId: string): Family {
  const [grantId = '', id = ''] = consentId.split('.');
  return { grantId, id };
}

/** The parameter that carries the module scopes that an app asks for, which the library does not know. */
export const askedScopesParameter = 'asked_scopes';

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

export function openProvider(parts: ProviderParts): Provider {
  const { issuer, resources, pool, outgoing } = parts;
  const resourceOf = (asked: string, { oidc }: KoaContextWithOIDC): Resource => {
    // Such a refresh token would change its audience as its holder likes.
    if (Array.isArray(oidc.params?.resource) && oidc.params.resource.length > 1)
      throw new errors.InvalidTarget('Send only one resource.');
    // An address without a path may be written with a slash or without.
    const found = resources.find(({ identifier }) => identifier === asked.replace(/\/$/, ''));
    if (!found)
      throw new errors.InvalidTarget(`resource must be one of ${resources.map((each) => each.identifier).join(', ')}.`);
    return found;
  };
  const configuration: Configuration = {
    adapter: (model) => artifactsOf(pool, model, (consent) => endFamily(parts, consent)),
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
    extraParams: [askedScopesParameter],
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
        getResourceServerInfo: (context, asked) => ({
          // What an app may do is chosen by a person, and not asked for as a scope.
          scope: '',
          audience: resourceOf(asked, context).audience,
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
    extraTokenClaims: (_, token) => {
      if (!('grantId' in token) || token.grantId === undefined) return {};
      const { grantId, id } = familyOf(token.grantId);
      return { [grantClaim]: grantId, [familyClaim]: id };
    },
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
        html`<p role="alert">${why ?? error}</p><p>Return to the app and try again.</p>`,
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
  { findAllowed, resources }: ProviderParts,
  { oidc }: KoaContextWithOIDC,
  userId: string,
  token: { grantId?: string | undefined; resource?: unknown } | undefined,
) {
  const resource = String(token?.resource ?? oidc.params?.resource ?? resources[0].identifier);
  const allowed = await findAllowed(userId, oidc.client?.clientId ?? '', kindOf(resources, resource));
  const isAllowed =
    allowed !== undefined && (token?.grantId === undefined || familyOf(token.grantId).grantId === allowed.grantId);
  return isAllowed ? { accountId: userId, claims: () => ({ sub: userId }) } : undefined;
}

/** What a resource is for, by its address. An address without a path may be written with a slash or without. */
export function kindOf(resources: ProviderParts['resources'], resource: string): Audience {
  const address = resource.replace(/\/$/, '');
  return (resources.find(({ identifier }) => identifier === address) ?? resources[0]).kind;
}

/** The consent does not say which of the two it was for: grants of one id are of one audience. */
async function endFamily({ endFamily: end, resources }: ProviderParts, { id, accountId, clientId }: Consent) {
  const family = familyOf(id);
  await Promise.all(resources.map(({ kind }) => end(accountId, clientId, kind, family)));
}
