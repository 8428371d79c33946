// An authorization server on loopback, its apps, and a browser in which users consent.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import Provider, { type AdapterFactory, type AdapterPayload, type Configuration } from 'oidc-provider';
import * as openid from 'openid-client';

/** The resource of the tokens, as the authorization server names it. */
export const resource = 'urn:headless-crm';
const scopes = [
  'leads:view',
  'leads:create',
  'deals:view',
  'leads:*',
  '*',
  'messaging:send',
  'onboarding',
  'nonsense:view',
];

export interface Issuer {
  url: string;
  jwksUri: string;
  /** The number of requests for its keys. */
  keyRequests(): number;
  /** Replaces its keys. Apps, sessions and refresh tokens stay. */
  rotate(algorithm: 'ES256' | 'RS256'): Promise<void>;
  /** Replaces the responses for its keys, until called with undefined. */
  breakKeys(answer: ((response: ServerResponse) => void) | undefined): void;
  start(): Promise<void>;
  stop(): Promise<void>;
}

async function newKey(algorithm: 'ES256' | 'RS256'): Promise<JWK> {
  const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: crypto.randomUUID(), alg: algorithm, use: 'sig' };
}

/** Storage of the authorization server, independent of its keys. */
function newMemory(): AdapterFactory {
  const kept = new Map<string, AdapterPayload>();
  return (model) => {
    const buildKey = (id: string): string => `${model}:${id}`;
    const findBy = async (name: 'uid' | 'userCode', value: string) =>
      [...kept].find(([key, payload]) => key.startsWith(`${model}:`) && payload[name] === value)?.[1];
    return {
      upsert: async (id, payload) => void kept.set(buildKey(id), payload),
      find: async (id) => kept.get(buildKey(id)),
      findByUid: (uid) => findBy('uid', uid),
      findByUserCode: (code) => findBy('userCode', code),
      consume: async (id) =>
        void Object.assign(kept.get(buildKey(id)) ?? {}, { consumed: Math.floor(Date.now() / 1000) }),
      destroy: async (id) => void kept.delete(buildKey(id)),
      revokeByGrantId: async (grantId) => {
        for (const [key, payload] of kept) if (payload.grantId === grantId) kept.delete(key);
      },
    };
  };
}

async function newProvider(url: string, algorithm: 'ES256' | 'RS256', adapter: AdapterFactory): Promise<Provider> {
  const server = {
    scope: scopes.join(' '),
    audience: resource,
    accessTokenTTL: 600,
    accessTokenFormat: 'jwt',
    jwt: { sign: { alg: algorithm } },
  } as const;
  const configuration: Configuration = {
    adapter,
    // ID tokens keep the algorithm that the apps registered.
    jwks: { keys: [await newKey('ES256'), ...(algorithm === 'RS256' ? [await newKey('RS256')] : [])] as never },
    clientDefaults: { id_token_signed_response_alg: 'ES256', token_endpoint_auth_method: 'none' },
    routes: { jwks: '/.well-known/jwks.json' },
    cookies: { keys: ['loopback'] },
    scopes: ['openid', 'offline_access'],
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => server,
      },
    },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: () => true,
    ttl: {
      AccessToken: 600,
      AuthorizationCode: 60,
      Grant: 3600,
      IdToken: 600,
      Interaction: 600,
      RefreshToken: 3600,
      Session: 3600,
    },
  };
  return new Provider(url, configuration);
}

/** Signs in the user that the form names, and consents to everything. */
async function answerInteraction(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    const accountId = new URL(request.url ?? '/', 'http://loopback').searchParams.get('user') ?? '';
    await provider.interactionFinished(request, response, { login: { accountId } });
    return;
  }
  const grant =
    (grantId ? await provider.Grant.find(grantId) : undefined) ??
    new provider.Grant({ accountId: session?.accountId ?? '', clientId: String(params.client_id) });
  grant.addOIDCScope('openid offline_access');
  grant.addResourceScope(resource, scopes.join(' '));
  await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

export async function startIssuer(): Promise<Issuer> {
  const memory = newMemory();
  let provider: Provider | undefined;
  let asked = 0;
  let broken: ((response: ServerResponse) => void) | undefined;
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const isForKeys = request.url === '/.well-known/jwks.json';
    if (isForKeys) asked += 1;
    if (isForKeys && broken) broken(response);
    else if (provider && request.url?.startsWith('/interaction/')) void answerInteraction(provider, request, response);
    else provider?.callback()(request, response);
  };
  let server = createServer(answer);
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  provider = await newProvider(url, 'ES256', memory);
  return {
    url,
    jwksUri: `${url}/.well-known/jwks.json`,
    keyRequests: () => asked,
    async rotate(algorithm) {
      provider = await newProvider(url, algorithm, memory);
    },
    breakKeys(how) {
      broken = how;
    },
    async start() {
      server = createServer(answer);
      await listen(port);
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export interface App {
  clientId: string;
  /**
   * Runs the authorization code flow with PKCE in the browser of a user who signs in and consents.
   */
  authorize(userId: string, scope?: string): Promise<openid.TokenEndpointResponse>;
  refresh(refreshToken: string): Promise<openid.TokenEndpointResponse>;
}

const redirectUri = 'https://app.example/callback';

/** Registers an app dynamically, as any app can. */
export async function registerApp(issuer: Issuer, name = 'Loopback app'): Promise<App> {
  const metadata = {
    client_name: name,
    redirect_uris: [redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  };
  const config = await openid.dynamicClientRegistration(new URL(issuer.url), metadata, openid.None(), {
    execute: [openid.allowInsecureRequests],
  });
  return {
    clientId: config.clientMetadata().client_id,
    async authorize(userId, scope = 'openid offline_access') {
      const verifier = openid.randomPKCECodeVerifier();
      const state = openid.randomState();
      const address = openid.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope,
        state,
        resource,
        prompt: 'consent',
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      });
      const callback = await browse(address, userId);
      const checks = { pkceCodeVerifier: verifier, expectedState: state };
      return openid.authorizationCodeGrant(config, callback, checks, { resource });
    },
    refresh: (refreshToken) => openid.refreshTokenGrant(config, refreshToken, { resource }),
  };
}

/** Follows redirects with cookies, as a browser does, until one leads to the app. */
async function browse(start: URL, userId: string): Promise<URL> {
  const cookies = new Map<string, string>();
  let address = start;
  for (let step = 0; step < 10; step += 1) {
    if (address.href.startsWith(redirectUri)) return address;
    if (address.pathname.startsWith('/interaction/')) address.searchParams.set('user', userId);
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(address, { redirect: 'manual', headers: { cookie } });
    for (const set of response.headers.getSetCookie()) {
      const [name = '', value = ''] = set.split(';', 1)[0]?.split('=') ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    const next = response.headers.get('location');
    if (next === null) throw new Error(`${address} answered ${response.status}: ${await response.text()}`);
    address = new URL(next, address);
  }
  throw new Error('the authorization did not come to an end');
}
