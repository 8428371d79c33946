// The endpoints of the OAuth server, and the consent functions that the console uses.
import { randomUUID } from 'node:crypto';
import { decodeJwt } from 'jose';
import type { BearerVerdict } from '../runtime/credentials/bearer-tokens.ts';
import { isSameText } from '../runtime/credentials/secrets.ts';
import { http } from '../runtime/http/node-http.ts';
import type { PageRequest, PageResponse, PageRoute } from '../runtime/http/page-routes.ts';
import { makeLazy } from '../runtime/lazily.ts';
import type { Allowance } from '../runtime/limits/rate-limits.ts';
import { removeBidiControls } from '../runtime/pages/html.ts';
import type { AskedConsent, Consents } from '../web/pages/requests.ts';
import { readMetadata } from './client-metadata.ts';
import type { ProviderParts } from './provider.ts';
import { collectResponse, type PassedRequest, toLibraryRequest } from './requests.ts';

export interface OAuthParts extends ProviderParts {
  /** If set, programs send this key in the `apikey` header. */
  anonKey: string | undefined;
  /** Verifies an access token of any audience. */
  verify(token: string, now: Date): Promise<BearerVerdict>;
  /** The default scopes of apps. The challenge of a 401 response names the same scopes. */
  firstScopes: string;
}

/** Rate limits of app registrations and token requests, per IP address. */
export const oauthPolicies: Readonly<Record<string, readonly Allowance[]>> = {
  'oauth-registration': [{ limit: 10, window: 3_600_000 }],
  'oauth-token': [{ limit: 120, window: 60_000 }],
};

/**
 * Headers that browser apps send. They include the anon key of a project and the protocol revision
 * of MCP clients.
 */
const corsHeaders = ['Accept', 'Apikey', 'Content-Type', 'MCP-Protocol-Version'];

/** The path of the identity provider on this server, regardless of proxies in front of it. */
const mount = '/auth/v1';

export function createOauthServer(parts: OAuthParts): { screens: PageRoute[]; consents: Consents } {
  const { issuer, resources } = parts;
  // Loaded with the first request that needs it. A server without apps starts faster and uses less
  // memory.
  const library = makeLazy(() => import('./provider.ts'));
  const open = makeLazy(async () => (await library()).openProvider(parts));
  const ask = async (request: PageRequest, passed: PassedRequest): Promise<PageResponse> => {
    const provider = await open();
    return collectResponse(provider.callback(), toLibraryRequest(request, issuer, passed));
  };
  const metadata =
    (kind: string) =>
    async (request: PageRequest): Promise<PageResponse> =>
      withoutCookies(await ask(request, { method: 'GET', target: `/.well-known/${kind}` }));

  const screens: PageRoute[] = [
    ...['oauth-authorization-server', 'openid-configuration'].map(
      (kind): PageRoute => ({
        name: 'oauth_metadata',
        // RFC 8414 puts the issuer's path behind the well-known name, OpenID Connect in front of
        // it.
        path: new RegExp(`^(?:${mount}/\\.well-known/${kind}|/\\.well-known/${kind}${mount})$`),
        methods: ['GET', 'HEAD'],
        fromAnySite: corsHeaders,
        refuse: toErrorResponse,
        show: metadata(kind),
      }),
    ),
    ...resources.map(
      ({ identifier }, index): PageRoute => ({
        name: 'oauth_resource_metadata',
        path: new RegExp(`^/\\.well-known/oauth-protected-resource${index === 0 ? '' : new URL(identifier).pathname}$`),
        methods: ['GET', 'HEAD'],
        fromAnySite: corsHeaders,
        refuse: toErrorResponse,
        show: async () =>
          json(200, {
            resource: identifier,
            authorization_servers: [issuer],
            bearer_methods_supported: ['header'],
            scopes_supported: parts.firstScopes.split(' '),
          }),
      }),
    ),
    {
      name: 'oauth_registration',
      path: new RegExp(`^${mount}/oauth/clients/register$`),
      methods: ['POST'],
      fromAnySite: corsHeaders,
      limit: 'oauth-registration',
      // The body is JSON: see readMetadata.
      unchecked: true,
      refuse: toErrorResponse,
      show: (request) => guarded(request, () => register(request)),
    },
    ...['token', 'revoke'].map(
      (name): PageRoute => ({
        name: `oauth_${name}`,
        path: new RegExp(`^${mount}/oauth/${name}$`),
        methods: ['POST'],
        fromAnySite: corsHeaders,
        limit: 'oauth-token',
        refuse: toErrorResponse,
        show: (request) => guarded(request, () => (name === 'token' ? exchange(request) : revoke(request))),
      }),
    ),
    {
      name: 'oauth_authorize',
      path: new RegExp(`^${mount}/oauth/authorize(?<resume>/[\\w-]+)?$`),
      show: (request) => authorize(request),
    },
  ];
  return { screens, consents: { find, allow, deny } };

  async function guarded(request: PageRequest, show: () => Promise<PageResponse>): Promise<PageResponse> {
    const { anonKey } = parts;
    if (anonKey === undefined || isSameText(String(request.headers.apikey ?? ''), anonKey)) return show();
    return json(401, {
      error: 'invalid_client',
      error_description: 'Send the public key of this project in the apikey header.',
    });
  }

  async function register(request: PageRequest): Promise<PageResponse> {
    const text = request.body?.toString() ?? '';
    const described = readMetadata(parseJson(text));
    if ('error' in described) return json(400, described);
    const body = JSON.stringify(described);
    return ask(request, { method: 'POST', target: '/oauth/clients/register', contentType: 'application/json', body });
  }

  function forward(request: PageRequest, target: string): Promise<PageResponse> {
    const contentType = request.headers['content-type'] ?? '';
    return ask(request, { method: 'POST', target, contentType, body: request.body?.toString() ?? '' });
  }

  /**
   * Revokes a token. Access tokens are signed and not stored, so the library cannot revoke one.
   * Instead the whole consent is destroyed, which ends all its tokens.
   */
  async function revoke(request: PageRequest): Promise<PageResponse> {
    const token = request.form?.get('token') ?? '';
    const verdict = token.split('.').length === 3 ? await parts.verify(token, request.now) : undefined;
    if (verdict?.kind === 'unavailable') return toErrorResponse(503);
    if (verdict === undefined) return forward(request, '/oauth/revoke');
    const isOwn = verdict.kind === 'valid' && verdict.clientId === request.form?.get('client_id');
    // RFC 7009: an invalid token counts as revoked.
    if (isOwn && verdict.grantId && verdict.familyId) {
      const { Grant } = await open();
      await Grant.adapter.destroy(`${verdict.grantId}.${verdict.familyId}`);
    }
    return { status: 200, headers: { 'content-type': 'text/plain' }, body: '' };
  }

  /**
   * Exchanges a code or refresh token. The response's scope lists what the person chose (RFC 6749,
   * 5.1), because apps do not request scopes by name.
   */
  async function exchange(request: PageRequest): Promise<PageResponse> {
    const answer = await forward(request, '/oauth/token');
    if (!('headers' in answer) || answer.status !== 200) return answer;
    const tokens = JSON.parse(String(answer.body));
    const { sub = '', client_id: clientId, aud } = decodeJwt(tokens.access_token);
    const { kind } = resources.find(({ audience }) => audience === aud) ?? resources[0];
    const allowed = await parts.findAllowed(sub, String(clientId), kind);
    return { ...answer, body: JSON.stringify({ ...tokens, scope: (allowed?.scopes ?? []).join(' ') }) };
  }

  async function authorize(request: PageRequest): Promise<PageResponse> {
    const { requestedScopesParameter } = await library();
    const { resume } = request.path;
    if (resume !== undefined) return ask(request, { method: 'GET', target: `/oauth/authorize${resume}` });
    const asked = new URLSearchParams(request.form ?? request.query);
    // The library only knows identity scopes. The consent page shows the other requested scopes to
    // the person, who decides.
    const known = (asked.get('scope') ?? '').split(' ').filter((scope) => scope === 'offline_access');
    asked.set(requestedScopesParameter, asked.get('scope') ?? '');
    asked.set('scope', ['openid', ...new Set(known)].join(' '));
    return ask(request, { method: 'GET', target: `/oauth/authorize?${asked}` });
  }

  async function findInteraction(request: PageRequest) {
    const provider = await open();
    const passed = toLibraryRequest(request, issuer, { method: 'GET', target: '/' });
    const response = new http.ServerResponse(passed);
    try {
      const details = await provider.interactionDetails(passed, response);
      if (details.uid !== request.path.uid) return undefined;
      return { provider, passed, response, details };
    } catch (error) {
      if ((error as Error).name === 'SessionNotFound') return undefined;
      throw error;
    }
  }

  async function find(request: PageRequest): Promise<AskedConsent | undefined> {
    const found = await findInteraction(request);
    if (!found) return undefined;
    const { params } = found.details;
    const clientId = String(params.client_id);
    const client = await found.provider.Client.find(clientId);
    if (!client) return undefined;
    const { findAudience, requestedScopesParameter } = await library();
    return {
      clientId,
      // Apps registered before names were cleaned can still contain bidi controls.
      clientName: removeBidiControls(client.clientName ?? clientId),
      audience: findAudience(resources, String(params.resource ?? '')),
      scope: String(params[requestedScopesParameter] ?? ''),
      redirectUri: String(params.redirect_uri),
      mustAsk: String(params.prompt ?? '')
        .split(' ')
        .includes('consent'),
    };
  }

  async function allow(request: PageRequest, userId: string, grantId: string): Promise<string> {
    const found = await findInteraction(request);
    if (!found) throw new Error('there is no pending consent in this browser');
    const { provider, passed, response, details } = found;
    // The library accepts an id for the grant, but its types omit the property.
    const properties = {
      jti: `${grantId}.${randomUUID()}`,
      accountId: userId,
      clientId: String(details.params.client_id),
    };
    const grant = new provider.Grant(properties);
    grant.addOIDCScope(String(details.params.scope));
    const consent = { grantId: await grant.save() };
    const result = { login: { accountId: userId, remember: false }, consent };
    return provider.interactionResult(passed, response, result, { mergeWithLastSubmission: false });
  }

  async function deny(request: PageRequest): Promise<string> {
    const found = await findInteraction(request);
    if (!found) throw new Error('there is no pending consent in this browser');
    const { provider, passed, response } = found;
    const result = { error: 'access_denied', error_description: 'The user denied the request.' };
    return provider.interactionResult(passed, response, result, { mergeWithLastSubmission: false });
  }
}

const json = (status: number, body: object): PageResponse => ({
  status,
  headers: { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' },
  body: JSON.stringify(body),
});

const refusals: Readonly<Record<number, { error: string; error_description: string }>> = {
  400: { error: 'invalid_request', error_description: 'Parameters must not contain the NUL character.' },
  429: { error: 'slow_down', error_description: 'Too many requests. Try again later.' },
  503: {
    error: 'temporarily_unavailable',
    error_description: 'The service is temporarily unavailable. Try again shortly.',
  },
};

/** Returns the error response if a request is rejected before it reaches the library. */
const toErrorResponse = (status: number): PageResponse => json(status, refusals[status] ?? {});

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON, so there is no metadata. readMetadata returns the error.
    return undefined;
  }
}

function withoutCookies(answer: PageResponse): PageResponse {
  if (!('headers' in answer)) return answer;
  const { 'set-cookie': _unused, ...headers } = answer.headers;
  return { ...answer, headers };
}
