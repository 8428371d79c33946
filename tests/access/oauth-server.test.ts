// The OAuth server: registration, consent, tokens, and rejected requests.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser, watchedPage } from '../support/browser.ts';
import { anyAddress, expectStatus, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { findFreePort } from '../support/free-port.ts';
import {
  AppVisitor,
  authorizeAddress,
  exchangeForm,
  newProof,
  post,
  type Registered,
  register,
  type Tokens,
} from '../support/oauth-apps.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { adminToken, newPerson } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import { adminPassword, database, type Tenant } from '../support/tenants.ts';

let server: TestServer;
let base: string;
let tenant: Tenant;
const tokenPath = '/auth/v1/oauth/token';

beforeAll(async () => {
  const port = await findFreePort();
  base = `http://127.0.0.1:${port}`;
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: '.test-data',
    PORT: String(port),
    BASE_URL: base,
  });
  useServer(base);
  tenant = await newWideTenant();
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
});

/** Returns a browser in which an admin is signed in. */
async function signedIn(of: Tenant = tenant): Promise<AppVisitor> {
  const visitor = new AppVisitor(base);
  await visitor.signIn(of.admin.email);
  return visitor;
}

/** Authorizes, consents, and returns the code. */
async function codeFor(
  app: Registered,
  challenge: string,
  more: Record<string, string> = {},
  groups = ['records'],
  visitor?: AppVisitor,
) {
  const browser = visitor ?? (await signedIn());
  const asked = await browser.ask(authorizeAddress(app, challenge, { prompt: 'consent', ...more }));
  const back = await browser.decide(asked.to ?? '', 'allow', groups);
  return { code: back.searchParams.get('code') ?? '', back };
}

async function tokensFor(app: Registered, more: Record<string, string> = {}, groups = ['records']): Promise<Tokens> {
  const { verifier, challenge } = newProof();
  const { code } = await codeFor(app, challenge, more, groups);
  const { status, body } = await post(base, tokenPath, exchangeForm(app, code, verifier));
  expect([status, body]).toEqual([200, expect.anything()]);
  return body;
}

const refresh = (app: Registered, token: string, more: Record<string, string> = {}) =>
  post(
    base,
    tokenPath,
    new URLSearchParams({ grant_type: 'refresh_token', refresh_token: token, client_id: app.client_id, ...more }),
  );

describe('server metadata', () => {
  test.each([
    '/auth/v1/.well-known/oauth-authorization-server',
    '/auth/v1/.well-known/openid-configuration',
    '/.well-known/oauth-authorization-server/auth/v1',
    '/.well-known/openid-configuration/auth/v1',
  ])('names addresses of the issuer at %s, regardless of the Host header', async (path) => {
    const answer = await fetch(base + path, {
      headers: { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' },
    });
    const body = (await answer.json()) as Record<string, unknown>;
    expect(body).toMatchObject({
      issuer: `${base}/auth/v1`,
      authorization_endpoint: `${base}/auth/v1/oauth/authorize`,
      token_endpoint: `${base}/auth/v1/oauth/token`,
      registration_endpoint: `${base}/auth/v1/oauth/clients/register`,
      revocation_endpoint: `${base}/auth/v1/oauth/revoke`,
      jwks_uri: `${base}/auth/v1/.well-known/jwks.json`,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['none'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    });
    const more = Object.keys(body).filter((name) =>
      /pushed|dpop|userinfo|introspection|device|backchannel|end_session/.test(name),
    );
    expect([more, answer.headers.get('set-cookie'), answer.headers.get('x-request-id')]).toEqual([
      [],
      null,
      expect.any(String),
    ]);
  });

  test.each([
    ['', ''],
    ['/v1/mcp', '/v1/mcp'],
  ])('names the issuer at /.well-known/oauth-protected-resource%s', async (path, resource) => {
    const answer = await fetch(`${base}/.well-known/oauth-protected-resource${path}`);
    expect(await answer.json()).toEqual({
      resource: base + resource,
      authorization_servers: [`${base}/auth/v1`],
      bearer_methods_supported: ['header'],
      scopes_supported: ['openid', 'profile', 'email'],
    });
  });
});

describe('pages of other sites', () => {
  const from = { origin: 'https://app.example' };
  const rights = (answer: Response): (string | null)[] =>
    ['origin', 'methods', 'headers', 'credentials'].map((name) => answer.headers.get(`access-control-allow-${name}`));

  test.each([
    ['/auth/v1/.well-known/oauth-authorization-server', 'GET'],
    ['/.well-known/oauth-protected-resource', 'GET'],
    ['/.well-known/oauth-protected-resource/v1/mcp', 'GET'],
    ['/auth/v1/oauth/clients/register', 'POST'],
    ['/auth/v1/oauth/token', 'POST'],
    ['/auth/v1/oauth/revoke', 'POST'],
  ])('lets pages of other sites call %s and read the response, including errors', async (path, method) => {
    const asked = {
      ...from,
      'access-control-request-method': method,
      'access-control-request-headers': 'content-type',
    };
    const before = await fetch(base + path, { method: 'OPTIONS', headers: asked });
    expect([before.status, ...rights(before)]).toEqual([
      204,
      '*',
      expect.stringContaining(method),
      expect.stringContaining('Content-Type'),
      null,
    ]);
    const answer = await fetch(base + path, { method, headers: { ...from, 'x-forwarded-for': anyAddress() } });
    expect(answer.status).toBe(method === 'GET' ? 200 : 400);
    expect(rights(answer)).toEqual(['*', null, null, null]);
    expect(answer.headers.get('access-control-expose-headers')).toContain('Retry-After');
  });

  test('lets pages of other sites read the signing keys', async () => {
    const answer = await fetch(`${base}/auth/v1/.well-known/jwks.json`, {
      headers: { ...from, 'x-forwarded-for': anyAddress() },
    });
    expect([answer.status, ...rights(answer)]).toEqual([200, '*', null, null, null]);
    const other = await fetch(`${base}/v1/error-codes`, { headers: { ...from, 'x-forwarded-for': anyAddress() } });
    expect([other.status, ...rights(other)]).toEqual([200, null, null, null, null]);
  });

  test.each(['/auth/v1/oauth/authorize', '/console', '/console/api-keys'])(
    'lets no page of another site call %s',
    async (path) => {
      for (const method of ['OPTIONS', 'GET'])
        expect(rights(await fetch(base + path, { method, headers: from, redirect: 'manual' }))[0]).toBeNull();
    },
  );
});

describe('an app', () => {
  test('keeps an app without consent for thirty days, and an authorized one permanently', async () => {
    const [unused, used] = [await register(base), await register(base)];
    const keptUntil = async ({ client_id: id }: Registered): Promise<Date | null | undefined> =>
      (
        await database()`select expires_at from oauth_artifacts where model = 'Client' and payload ->> 'client_id' = ${id}`
      )[0]?.expires_at;
    const days = (((await keptUntil(used)) as Date).getTime() - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(29.9);
    expect(days).toBeLessThanOrEqual(30);
    await tokensFor(used);
    expect(await keptUntil(used)).toBeNull();
    const late = new Date(Date.now() + 31 * 86_400_000);
    const inFuture =
      await database()`select model, payload ->> 'client_id' as id from oauth_artifacts where expires_at < ${late} and model = 'Client'`;
    expect(inFuture.map(({ id }) => id)).toContain(unused.client_id);
    expect(inFuture.map(({ id }) => id)).not.toContain(used.client_id);
  });

  test('registers an app with refresh tokens and without scopes, regardless of its request', async () => {
    const { status, body } = await post(base, '/auth/v1/oauth/clients/register', {
      client_name: 'Assistant',
      redirect_uris: ['http://127.0.0.1:1234/callback'],
      grant_types: ['authorization_code', 'implicit', 'client_credentials'],
      scope: 'leads:view *',
      token_endpoint_auth_method: 'client_secret_basic',
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      client_id: expect.stringMatching(/^[\w-]{21,}$/),
      client_name: 'Assistant',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    });
    expect(Object.keys(body).filter((name) => /secret|registration|scope/.test(name))).toEqual([]);
  });

  test.each([
    ['plain http', ['http://app.example/callback'], 'invalid_redirect_uri'],
    ['a scheme of its own', ['com.example.app:/callback'], 'invalid_redirect_uri'],
    ['a script', ['javascript:alert(1)'], 'invalid_redirect_uri'],
    ['a fragment', ['https://app.example/callback#x'], 'invalid_redirect_uri'],
    ['a host that is a dot', ['https://./callback'], 'invalid_redirect_uri'],
    ['a host with an empty label', ['https://app..example/callback'], 'invalid_redirect_uri'],
    ['a wildcard in its host', ['https://*.app.example/callback'], 'invalid_redirect_uri'],
    ['an empty fragment', ['https://app.example/callback#'], 'invalid_redirect_uri'],
    ['a user', ['https://user@app.example/callback'], 'invalid_redirect_uri'],
    ['a name that looks like loopback', ['http://127.0.0.1.evil.example/'], 'invalid_redirect_uri'],
    ['one bad among good ones', ['https://app.example/', 'http://app.example/'], 'invalid_redirect_uri'],
    ['a wildcard for a host', ['https://*.app.example/callback'], 'invalid_redirect_uri'],
    ['a wildcard in a host', ['https://a*.app.example/callback'], 'invalid_redirect_uri'],
    ['a wildcard that is encoded', ['https://%2a.app.example/callback'], 'invalid_redirect_uri'],
    ['none', [], 'invalid_redirect_uri'],
    ['a string', 'https://app.example/callback', 'invalid_redirect_uri'],
  ])('rejects the registration of an app with %s as its redirect', async (_what, redirects, error) => {
    const { status, body } = await post(base, '/auth/v1/oauth/clients/register', {
      client_name: 'x',
      redirect_uris: redirects,
    });
    expect([status, body.error, Object.keys(body)]).toEqual([400, error, ['error', 'error_description']]);
  });

  test('rejects metadata that is not JSON or has no valid name', async () => {
    for (const body of [
      [],
      { client_name: '', redirect_uris: ['https://app.example/'] },
      { client_name: 5, redirect_uris: ['https://app.example/'] },
    ])
      expect(await post(base, '/auth/v1/oauth/clients/register', body)).toMatchObject({
        status: 400,
        body: { error: 'invalid_client_metadata' },
      });
    const answer = await fetch(`${base}/auth/v1/oauth/clients/register`, { method: 'POST', body: '{' });
    expect(answer.status).toBe(400);
  });

  test('limits registrations to ten per hour and address', async () => {
    const from = { 'x-forwarded-for': '198.51.100.77', 'content-type': 'application/json' };
    const body = JSON.stringify({ client_name: 'x', redirect_uris: ['https://app.example/'] });
    const statuses: number[] = [];
    for (let index = 0; index < 12; index += 1) {
      const answer = await fetch(`${base}/auth/v1/oauth/clients/register`, { method: 'POST', headers: from, body });
      statuses.push(answer.status);
      if (answer.status === 429) {
        expect(await answer.json()).toMatchObject({ error: 'slow_down' });
        const seconds = Number(answer.headers.get('retry-after'));
        expect(seconds).toBeGreaterThan(3500);
        expect(seconds).toBeLessThanOrEqual(3600);
      }
    }
    expect(statuses).toEqual([...Array(10).fill(201), 429, 429]);
  });
});

describe('a token', () => {
  test('issues tokens with the chosen permissions of the person, and renews them', async () => {
    const app = await register(base);
    const first = await tokensFor(app, {}, ['records']);
    const { body } = await expectStatus(200, 'GET', '/v1/me', { token: first.access_token });
    expect(body.data.actor.id).toBe(`oauth_${app.client_id}`);
    expect(body.data.scopes).toContain('leads:view');
    expect(body.data.scopes.filter((scope: string) => /webhooks|settings|billing|inbox/.test(scope))).toEqual([]);
    expect(first.scope.split(' ').sort()).toEqual(body.data.scopes.toSorted());
    const renewed = await refresh(app, first.refresh_token);
    expect([renewed.status, renewed.body.scope]).toEqual([200, first.scope]);
    await expectStatus(200, 'GET', '/v1/me', { token: renewed.body.access_token });
    const [header, payload] = first.access_token
      .split('.', 2)
      .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()));
    expect(header).toMatchObject({ alg: 'ES256', typ: 'at+jwt' });
    expect(payload).toMatchObject({
      iss: `${base}/auth/v1`,
      sub: tenant.admin.id,
      client_id: app.client_id,
      aud: base,
    });
    expect(payload.exp - payload.iat).toBe(3600);
  });

  test('issues tokens to strict clients too', async () => {
    const options = { execute: [openid.allowInsecureRequests] };
    const config = await openid.dynamicClientRegistration(
      new URL(`${base}/auth/v1`),
      { client_name: 'Strict', redirect_uris: ['https://app.example/callback'] },
      openid.None(),
      options,
    );
    const verifier = openid.randomPKCECodeVerifier();
    const challenge = await openid.calculatePKCECodeChallenge(verifier);
    const app = { client_id: config.clientMetadata().client_id, redirect_uris: ['https://app.example/callback'] };
    const { back } = await codeFor(app, challenge);
    const tokens = await openid.authorizationCodeGrant(config, back, {
      pkceCodeVerifier: verifier,
      expectedState: 'state-of-the-app',
    });
    await expectStatus(200, 'GET', '/v1/me', { token: tokens.access_token });
    const renewed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '');
    await expectStatus(200, 'GET', '/v1/me', { token: renewed.access_token });

    const insecure = { [oauth.allowInsecureRequests]: true };
    const issuer = new URL(`${base}/auth/v1`);
    const found = await oauth.processDiscoveryResponse(
      issuer,
      await oauth
        .discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure })
        .catch(async () => fetch(`${base}/auth/v1/.well-known/oauth-authorization-server`)),
    );
    const client: oauth.Client = { client_id: app.client_id };
    const again = newProof();
    const second = await codeFor(app, again.challenge);
    const parameters = oauth.validateAuthResponse(found, client, second.back, 'state-of-the-app');
    const exchanged = await oauth.authorizationCodeGrantRequest(
      found,
      client,
      oauth.None(),
      parameters,
      'https://app.example/callback',
      again.verifier,
      insecure,
    );
    const result = await oauth.processAuthorizationCodeResponse(found, client, exchanged);
    expect(result.token_type).toBe('bearer');
  });

  test('renews a refresh token twice within the grace period, and afterwards ends all tokens', async () => {
    const app = await register(base);
    const { refresh_token: token } = await tokensFor(app);
    const [one, two] = [await refresh(app, token), await refresh(app, token)];
    expect([one.status, two.status]).toEqual([200, 200]);
    await database()`update oauth_artifacts set consumed_at = now() - interval '61 seconds' where model = 'RefreshToken' and consumed_at is not null and payload ->> 'clientId' = ${app.client_id}`;
    expect((await refresh(app, token)).body).toMatchObject({ error: 'invalid_grant' });
    for (const each of [one, two])
      expect((await refresh(app, each.body.refresh_token)).body).toMatchObject({ error: 'invalid_grant' });
  });

  test('stores tokens only as digests', async () => {
    const app = await register(base);
    const tokens = await tokensFor(app);
    const rows =
      await database()`select oauth_artifacts::text as text from oauth_artifacts where payload ->> 'clientId' = ${app.client_id}`;
    expect(rows.length).toBeGreaterThan(1);
    expect(rows.filter(({ text }) => text.includes(tokens.refresh_token))).toEqual([]);
  });

  test('rejects tokens of a revoked grant, and issues no others until the next consent', async () => {
    const app = await register(base);
    const tokens = await tokensFor(app);
    const token = await adminToken(tenant);
    const { body } = await expectStatus(200, 'GET', '/v1/oauth-grants', { token });
    const grant = body.data.oauth_grants.find((each: { client_id: string }) => each.client_id === app.client_id);
    expect(grant).toMatchObject({
      client_name: 'Assistant',
      user: { id: tenant.admin.id },
      groups: ['records'],
      revoked_at: null,
    });
    for (let time = 0; time < 2; time += 1)
      await expectStatus(200, 'DELETE', `/v1/oauth-grants/${grant.id}`, { token });
    const refused = await expectStatus(403, 'GET', '/v1/me', { token: tokens.access_token });
    expect(refused.body.error.details.reason).toBe('grant_revoked');
    expect((await refresh(app, tokens.refresh_token)).body).toMatchObject({ error: 'invalid_grant' });
    // The page is shown again instead of a silent redirect.
    const visitor = await signedIn();
    const asked = await visitor.ask(authorizeAddress(app, newProof().challenge));
    expect((await visitor.ask(asked.to ?? '')).text).toContain('value="allow"');
    const later = await tokensFor(app);
    await expectStatus(200, 'GET', '/v1/me', { token: later.access_token });
    expect((await refresh(app, tokens.refresh_token)).body).toMatchObject({ error: 'invalid_grant' });
    // Tokens from before stay revoked.
    const dead = await expectStatus(403, 'GET', '/v1/me', { token: tokens.access_token });
    expect(dead.body.error.details.reason).toBe('grant_revoked');
  });
});

describe('consent', () => {
  test('reuses a consent without a question, unless the app demands one', async () => {
    const app = await register(base);
    await tokensFor(app);
    const visitor = await signedIn();
    const { verifier, challenge } = newProof();
    const silent = await visitor.follow(authorizeAddress(app, challenge));
    expect(silent.searchParams.get('iss')).toBe(`${base}/auth/v1`);
    expect(
      (await post(base, tokenPath, exchangeForm(app, silent.searchParams.get('code') ?? '', verifier))).status,
    ).toBe(200);
    const asked = await visitor.ask(authorizeAddress(app, challenge, { prompt: 'consent' }));
    expect((await visitor.ask(asked.to ?? '')).text).toContain('value="allow"');
  });

  test('returns an error to the app if the consent is denied', async () => {
    const visitor = await signedIn();
    const asked = await visitor.ask(authorizeAddress(await register(base), newProof().challenge));
    const back = await visitor.decide(asked.to ?? '', 'deny', []);
    expect(Object.fromEntries(back.searchParams)).toMatchObject({
      error: 'access_denied',
      state: 'state-of-the-app',
      iss: `${base}/auth/v1`,
    });
  });

  test('lets only administrators consent, and tells others whom to ask', async () => {
    const rep = await newPerson(tenant, 'Sales_Rep');
    const visitor = new AppVisitor(base);
    await visitor.signIn(rep.email);
    const app = await register(base);
    const asked = await visitor.ask(authorizeAddress(app, newProof().challenge));
    const page = await visitor.ask(asked.to ?? '');
    expect([page.status, page.text.includes('value="allow"')]).toEqual([403, false]);
    expect(page.text).toContain('Only an administrator');
    const back = await visitor.decide(asked.to ?? '', 'allow', ['admin']);
    expect(back.searchParams.get('error')).toBe('access_denied');
    expect(await database()`select from oauth_grants where client_id = ${app.client_id}`).toHaveLength(0);
  });
});

describe('rejected requests (E11)', () => {
  test('rejects every request of the table', async () => {
    const app = await register(base);
    const other = await register(base, 'https://other.example/callback');
    const proof = newProof();
    const fresh = async () => (await codeFor(app, proof.challenge)).code;
    const good = (code: string, more: Record<string, string> = {}) => exchangeForm(app, code, proof.verifier, more);
    const exchange = async (form: URLSearchParams) => (await post(base, tokenPath, form)).status === 200;
    const used = await fresh();
    expect(await exchange(good(used))).toBe(true);
    const old = await fresh();
    await database()`update oauth_artifacts set expires_at = now() - interval '1 second' where model = 'AuthorizationCode' and payload ->> 'clientId' = ${app.client_id}`;
    const without = good(await fresh());
    without.delete('code_verifier');
    const tokens = await tokensFor(app);
    const agent = await tokensFor(app, { resource: `${base}/v1/mcp` });
    const parallel = await fresh();
    const both = await Promise.all([exchange(good(parallel)), exchange(good(parallel))]);
    const visitor = await signedIn();
    const asksWith = async (more: Record<string, string>, drop?: string) => {
      const address = new URL(authorizeAddress(app, proof.challenge, more), base);
      if (drop) address.searchParams.delete(drop);
      const { to } = await visitor.ask(address.href);
      // Redirected to the consent page, or to an address that the app did not register.
      return (
        to !== null &&
        (to.includes('/console/consent/') || !(to.startsWith('https://app.example/callback') && to.includes('error=')))
      );
    };
    const asked = await visitor.ask(authorizeAddress(app, proof.challenge, { prompt: 'consent' }));
    const page = asked.to ?? '';
    const forged = async (browser: AppVisitor, form: Record<string, string>) => {
      const { to, status } = await browser.ask(page, form);
      return status < 400 && (to?.includes('/oauth/authorize/') ?? false);
    };
    const stranger = await signedIn();
    const calls = async (token: string, path = '/v1/leads') =>
      (await fetch(base + path, { headers: { authorization: `Bearer ${token}` } })).ok;
    const table: [string, boolean][] = [
      ['a code twice', await exchange(good(used))],
      ['a code after its time', await exchange(good(old))],
      ['a code twice at once', both[0] === both[1] && both[0] === true],
      ['a code by another app', await exchange(good(await fresh(), { client_id: other.client_id }))],
      [
        'a code with another redirect',
        await exchange(good(await fresh(), { redirect_uri: 'https://other.example/callback' })),
      ],
      [
        'a code with a longer redirect',
        await exchange(good(await fresh(), { redirect_uri: 'https://app.example/callback/' })),
      ],
      ['a code without the verifier', await exchange(without)],
      ['a code with another verifier', await exchange(good(await fresh(), { code_verifier: newProof().verifier }))],
      [
        'a code with the challenge as verifier',
        await exchange(good(await fresh(), { code_verifier: proof.challenge })),
      ],
      [
        'a code for a resource that was not asked for',
        await exchange(good(await fresh(), { resource: `${base}/v1/mcp` })),
      ],
      ['a made up code', await exchange(good('A'.repeat(43)))],
      ['a refresh token by another app', (await refresh(other, tokens.refresh_token)).status === 200],
      [
        'a refresh token for another resource',
        (await refresh(app, tokens.refresh_token, { resource: `${base}/v1/mcp` })).status === 200,
      ],
      ['a refresh token as an access token', await calls(tokens.refresh_token)],
      ["an agent's token at the API", await calls(agent.access_token)],
      ["an agent's token at /v1/me", await calls(agent.access_token, '/v1/me')],
      [
        'a password grant',
        await exchange(
          new URLSearchParams({
            grant_type: 'password',
            username: tenant.admin.email,
            password: adminPassword,
            client_id: app.client_id,
          }),
        ),
      ],
      [
        'client credentials',
        await exchange(new URLSearchParams({ grant_type: 'client_credentials', client_id: app.client_id })),
      ],
      ['asking without a challenge', await asksWith({}, 'code_challenge')],
      ['asking with a plain challenge', await asksWith({ code_challenge_method: 'plain' })],
      ['asking without a method', await asksWith({}, 'code_challenge_method')],
      ['asking for a token at once', await asksWith({ response_type: 'token' })],
      ['asking for an ID token at once', await asksWith({ response_type: 'code id_token' })],
      ['asking for an unknown resource', await asksWith({ resource: 'https://other.example/' })],
      [
        'asking for another redirect',
        (await visitor.ask(authorizeAddress(app, proof.challenge, { redirect_uri: 'https://evil.example/' }))).to !==
          null,
      ],
      [
        'asking for a redirect below',
        (
          await visitor.ask(
            authorizeAddress(app, proof.challenge, { redirect_uri: 'https://app.example/callback/../evil' }),
          )
        ).to !== null,
      ],
      [
        'asking for a redirect with more',
        (
          await visitor.ask(
            authorizeAddress(app, proof.challenge, { redirect_uri: 'https://app.example/callback?x=1' }),
          )
        ).to !== null,
      ],
      [
        'asking for an app that is not there',
        (await visitor.ask(authorizeAddress({ ...app, client_id: 'nobody' }, proof.challenge))).to !== null,
      ],
      ['consent without its token', await forged(visitor, { action: 'allow', group: 'admin' })],
      ['consent with a made up token', await forged(visitor, { action: 'allow', group: 'admin', token: 'x' })],
      [
        'consent in a browser that did not ask',
        await forged(stranger, {
          action: 'allow',
          group: 'admin',
          token: /name="token" value="([^"]+)"/.exec((await stranger.ask('/console/messages')).text)?.[1] ?? '',
        }),
      ],
      ['consent without a sign-in', await forged(new AppVisitor(base), { action: 'allow', group: 'admin' })],
      [
        'consent in a frame',
        !/frame-ancestors 'none'/.test((await visitor.ask(page)).headers.get('content-security-policy') ?? ''),
      ],
      [
        'resuming without a decision',
        (await visitor.ask(page.replace(/.*\/console\/consent/, '/auth/v1/oauth/authorize'))).to?.startsWith(
          'https://app.example/callback?code',
        ) ?? false,
      ],
      [
        'an app described on this machine',
        (await visitor.ask(authorizeAddress({ ...app, client_id: 'https://127.0.0.1/app.json' }, proof.challenge)))
          .to !== null,
      ],
      [
        'an app described in a private network',
        (
          await visitor.ask(
            authorizeAddress({ ...app, client_id: 'https://169.254.169.254/latest/app.json' }, proof.challenge),
          )
        ).to !== null,
      ],
      [
        'an app described under a name of this machine',
        (await visitor.ask(authorizeAddress({ ...app, client_id: 'https://localhost/app.json' }, proof.challenge)))
          .to !== null,
      ],
      [
        'an app described at another port',
        (await visitor.ask(authorizeAddress({ ...app, client_id: 'https://[::1]:8443/app.json' }, proof.challenge)))
          .to !== null,
      ],
      [
        'signing in to lead elsewhere',
        (await new AppVisitor(base).signIn(tenant.admin.email, adminPassword, { next: '//evil.example' })).to !==
          '/console',
      ],
    ];
    const accepted = table.filter(([, isAccepted]) => isAccepted).map(([what]) => what);
    process.stdout.write(`E11: ${table.length} attempts, ${accepted.length} accepted\n`);
    expect(accepted).toEqual([]);
  });
});

const chromium = findProgram('chromium');
describe.skipIf(chromium === undefined)(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());

  test('lets a person sign in, read who asks, choose, and return to the app', async () => {
    const desktop = createServer((_, response) => response.end('Connected')).listen(0, '127.0.0.1');
    await once(desktop, 'listening');
    const { port } = desktop.address() as AddressInfo;
    // The app chooses its port at start, after the registration.
    const redirect = `http://127.0.0.1:${port}/callback`;
    const app = await register(base, 'http://127.0.0.1/callback', { client_name: 'Desk <b>top</b>' });
    const { verifier, challenge } = newProof();
    const { page, complaints } = await watchedPage(browser, 320, 800);
    await page.goto(base + authorizeAddress(app, challenge, { redirect_uri: redirect }));
    await page.getByLabel('Email').fill(tenant.admin.email);
    await page.getByLabel('Password').fill(adminPassword);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Allow Desk <b>top</b>?' }).waitFor();
    expect(await page.getByRole('alert').textContent()).toContain('runs on your own computer');
    expect(
      await page
        .getByRole('checkbox')
        .evaluateAll((boxes) => boxes.map((box) => (box as unknown as { value: string; checked: boolean }).checked)),
      // The last one is “Ask me before each change”.
    ).toEqual([true, true, true, false, false, false, false, false]);
    for (const width of [1280, 320]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      expect(await accessibilityProblems(page)).toEqual([]);
    }
    await page.getByLabel('Automation').uncheck();
    await page.getByRole('button', { name: 'Allow' }).click();
    await page.waitForURL(/\/callback\?code=/);
    const code = new URL(page.url()).searchParams.get('code') ?? '';
    const { status, body } = await post(base, tokenPath, exchangeForm(app, code, verifier, { redirect_uri: redirect }));
    expect(status).toBe(200);
    const me = await expectStatus(200, 'GET', '/v1/me', { token: body.access_token });
    expect(me.body.data.scopes).toContain('leads:view');
    expect(me.body.data.scopes).not.toContain('webhooks:view');
    await page.goto(`${base}/console/apps`);
    await page.getByRole('button', { name: 'Revoke access of Desk <b>top</b>' }).click();
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.getByRole('status').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await expectStatus(403, 'GET', '/v1/me', { token: body.access_token });
    expect(complaints).toEqual([]);
    await page.context().close();
    desktop.close();
  });
});
