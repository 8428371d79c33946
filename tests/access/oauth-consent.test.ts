// The consent page of apps: identity of the app, choices, audiences and revocation.
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { findFreePort } from '../support/free-port.ts';
import { post as postToMcp } from '../support/mcp.ts';
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
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { adminToken } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import { database, type Tenant } from '../support/tenants.ts';

let server: TestServer;
let base: string;
let tenant: Tenant;

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

async function signedIn(of: Tenant = tenant): Promise<AppVisitor> {
  const visitor = new AppVisitor(base);
  await visitor.signIn(of.admin.email);
  return visitor;
}

/** Requests consent. @returns the address and the content of the page */
async function consentPage(visitor: AppVisitor, app: Registered, more: Record<string, string> = {}) {
  const { to } = await visitor.ask(authorizeAddress(app, newProof().challenge, more));
  const address = to ?? '';
  return { address, text: (await visitor.ask(address)).text };
}

describe('the identity of the app', () => {
  /** Without isolation the page would read: Claude … You will be redirected to oi.x.edualc.ai … */
  const disguised = '\u202EedualC';

  test('shows the app without reordering characters, and its host separate from the name', async () => {
    const app = await register(base, 'https://ia.edualc.x.io/callback', { client_name: disguised });
    expect(app).toMatchObject({ client_name: 'edualC' });
    const { text } = await consentPage(await signedIn(), app);
    expect(text).not.toMatch(/\p{Bidi_Control}/u);
    expect(text).toContain('<h1>Allow <bdi>edualC</bdi>?</h1>');
    expect(text).toContain('You will be redirected to <code>ia.edualc.x.io</code>.');
  });

  test('cleans the name of an app that was registered before names were cleaned', async () => {
    const app = await register(base);
    await database()`
      update oauth_artifacts set payload = jsonb_set(payload, '{client_name}', ${JSON.stringify(disguised)}::text::jsonb)
      where model = 'Client' and payload ->> 'client_id' = ${app.client_id}`;
    const visitor = await signedIn();
    const { address, text } = await consentPage(visitor, app);
    expect(text).toContain('<h1>Allow <bdi>edualC</bdi>?</h1>');
    await visitor.decide(address, 'allow', ['records']);
    const rows = await database()`select client_name from oauth_grants where client_id = ${app.client_id}`;
    expect(rows).toEqual([{ client_name: 'edualC' }]);
  });

  test('shows the host of an app in ASCII', async () => {
    const app = await register(base, 'https://\u0430pple.example/callback');
    const { text } = await consentPage(await signedIn(), app);
    expect(text).toContain('<code>xn--pple-43d.example</code>');
    expect(text).not.toContain('\u0430pple');
  });

  test('rejects a name that consists of reordering characters', async () => {
    const { status, body } = await post(base, '/auth/v1/oauth/clients/register', {
      client_name: '\u202E\u2066 ',
      redirect_uris: ['https://app.example/callback'],
    });
    expect([status, body.error]).toEqual([400, 'invalid_client_metadata']);
  });
});

const tokenPath = '/auth/v1/oauth/token';
const callback = 'https://app.example/callback';
const mcp = (): Record<string, string> => ({ resource: `${base}/v1/mcp` });

interface Chosen {
  more?: Record<string, string>;
  groups?: string[];
  scopes?: string[];
  writeMode?: 'direct' | 'propose';
}

/** Consents to an app and exchanges the code. */
async function tokensFor(app: Registered, { more = {}, groups = ['records'], scopes = [], writeMode }: Chosen = {}) {
  const visitor = await signedIn();
  const { verifier, challenge } = newProof();
  const { to } = await visitor.ask(authorizeAddress(app, challenge, { prompt: 'consent', ...more }));
  const back = await visitor.decide(to ?? '', 'allow', groups, scopes, writeMode);
  const exchange = exchangeForm(app, back.searchParams.get('code') ?? '', verifier);
  const { status, body } = await post(base, tokenPath, exchange);
  expect([status, body]).toEqual([200, expect.anything()]);
  return { tokens: body as Tokens, exchange };
}

const refresh = (app: Registered, token: string, more: Record<string, string> = {}) =>
  post(
    base,
    tokenPath,
    new URLSearchParams({ grant_type: 'refresh_token', refresh_token: token, client_id: app.client_id, ...more }),
  );

const boxesIn = (text: string): { name: string; value: string; ticked: boolean }[] =>
  [...text.matchAll(/type="checkbox" name="(\w+)" value="([^"]+)"( checked)?/g)].map(
    ([, name = '', value = '', checked]) => ({
      name,
      value,
      ticked: checked !== undefined,
    }),
  );

describe('the choices', () => {
  test('offers the pipeline group ticked and the calendar group unticked, besides the standard groups', async () => {
    const { text } = await consentPage(await signedIn(), await register(base));
    expect(boxesIn(text).map(({ value, ticked }) => [value, ticked])).toEqual([
      ['records', true],
      ['pipeline', true],
      ['automation', true],
      ['calendar', false],
      ['messaging', false],
      ['billing', false],
      ['admin', false],
      ['propose', false],
    ]);
  });

  test('grants deals, accounts, tasks, reports and custom objects with the pipeline, and bookings with the calendar', async () => {
    const object = { slug: 'visits', label: 'Visit', plural: 'Visits' };
    await expectStatus(201, 'POST', '/v1/objects', { key: tenant.key, body: object });
    const { tokens } = await tokensFor(await register(base), { groups: ['pipeline', 'calendar'] });
    const token = tokens.access_token;
    for (const name of ['deals', 'accounts', 'tasks', 'object%3Avisits'])
      await expectStatus(200, 'GET', `/v1/objects/${name}/records`, { token });
    await expectStatus(404, 'GET', '/v1/objects/leads/records', { token });
    const { scopes } = (await expectStatus(200, 'GET', '/v1/me', { token })).body.data;
    expect(scopes.toSorted()).toEqual(
      [
        ...['deals', 'accounts', 'tasks', 'object:visits', 'bookings'].flatMap((module) =>
          ['view', 'create', 'edit'].map((action) => `${module}:${action}`),
        ),
        'reports:view',
      ].toSorted(),
    );
    const made = await expectStatus(201, 'POST', '/v1/objects/object%3Avisits/records', {
      token,
      idempotencyKey: true,
      body: { name: 'First' },
    });
    const { id } = made.body.data.record;
    const refused = await expectStatus(403, 'DELETE', `/v1/objects/object%3Avisits/records/${id}`, { token });
    expect(refused.body.error.details.required_scopes).toEqual(['object:visits:delete']);
  });

  test('offers requested scopes outside of the groups unticked, and grants the ticked ones', async () => {
    const asked =
      'openid leads:view leads:delete inbox:view bookings:* object:visits:delete object:visits:view * onboarding nope:view messaging:send';
    const app = await register(base);
    const { text, address } = await consentPage(await signedIn(), app, { scope: asked });
    const single = [
      'leads:delete',
      'inbox:view',
      'bookings:view',
      'bookings:create',
      'bookings:edit',
      'bookings:configure',
      'object:visits:delete',
    ];
    expect(boxesIn(text).filter(({ name }) => name === 'scope')).toEqual(
      single.map((value) => ({ name: 'scope', value, ticked: false })),
    );
    expect(address).toContain('/console/consent/');
    const chosen = { more: { scope: asked }, groups: ['records'], scopes: ['leads:delete', 'settings:configure'] };
    const { tokens } = await tokensFor(app, chosen);
    const granted = tokens.scope.split(' ');
    expect(granted).toContain('leads:delete');
    expect(granted).not.toContain('settings:configure');
    const list = await expectStatus(200, 'GET', '/v1/oauth-grants', { token: await adminToken(tenant) });
    expect(list.body.data.oauth_grants.find((each: Json) => each.client_id === app.client_id)).toMatchObject({
      audience: 'api',
      groups: ['records'],
      extra_scopes: ['leads:delete'],
    });
    expect((await (await signedIn()).ask('/console/apps')).text).toContain('records, leads:delete');
  });

  test('grants access that asks before each change', async () => {
    const app = await register(base);
    const { tokens } = await tokensFor(app, { groups: ['records'], writeMode: 'propose' });
    const body = { first_name: 'Sara', email: 'sara@proposed.example' };
    const proposed = await expectStatus(202, 'POST', '/v1/leads', { token: tokens.access_token, body });
    expect(proposed.body.data.change_set).toMatchObject({ status: 'pending', title: 'Create a lead' });
    const list = await expectStatus(200, 'GET', '/v1/oauth-grants', { token: await adminToken(tenant) });
    const grant = list.body.data.oauth_grants.find((each: Json) => each.client_id === app.client_id);
    expect(grant).toMatchObject({ write_mode: 'propose' });
    expect((await (await signedIn()).ask('/console/apps')).text).toContain('proposed, and you approve them');
    // The choice stays ticked, and can be taken back.
    const { text } = await consentPage(await signedIn(), app, { prompt: 'consent' });
    expect(boxesIn(text)).toContainEqual({ name: 'write_mode', value: 'propose', ticked: true });
    const direct = await tokensFor(app, { groups: ['records'] });
    await expectStatus(201, 'POST', '/v1/leads', { token: direct.tokens.access_token, body });
  });

  test('asks again if an authorized app requests more', async () => {
    const app = await register(base);
    await tokensFor(app, { groups: ['records'] });
    const visitor = await signedIn();
    expect((await consentPage(visitor, app, { scope: 'openid leads:view' })).text).toContain(
      'You have already allowed this app',
    );
    const { text, address } = await consentPage(visitor, app, { scope: 'openid deals:view' });
    expect(boxesIn(text).find(({ value }) => value === 'deals:view')).toEqual({
      name: 'scope',
      value: 'deals:view',
      ticked: false,
    });
    await visitor.decide(address, 'allow', ['records'], ['deals:view']);
    expect((await consentPage(visitor, app, { scope: 'openid deals:view' })).text).toContain(
      'You have already allowed this app',
    );
  });
});

describe('the audience of a grant', () => {
  test('names the audience on the page, and offers no billing to assistants', async () => {
    const app = await register(base);
    const visitor = await signedIn();
    const scope = 'openid billing:view billing:configure users:view';
    const api = await consentPage(visitor, app, { scope });
    expect([api.text.includes('for the API'), api.text.includes('value="billing"')]).toEqual([true, true]);
    const agent = await consentPage(visitor, app, { ...mcp(), scope });
    expect([agent.text.includes('for AI assistants (MCP)'), agent.text.includes('billing')]).toEqual([true, false]);
    const { tokens } = await tokensFor(app, {
      more: { ...mcp(), scope },
      groups: ['records', 'billing'],
      scopes: ['billing:configure'],
    });
    expect(tokens.scope).not.toContain('billing');
  });

  test('keeps grants for assistants and for the API separate', async () => {
    const app = await register(base);
    const { tokens: api } = await tokensFor(app, { groups: ['records', 'billing'] });
    const { tokens: agent } = await tokensFor(app, { more: mcp(), groups: ['records'] });
    expect([api.scope.includes('billing'), agent.scope.includes('billing')]).toEqual([true, false]);
    const token = await adminToken(tenant);
    const list = await expectStatus(200, 'GET', '/v1/oauth-grants', { token });
    const own = list.body.data.oauth_grants.filter((each: Json) => each.client_id === app.client_id);
    expect(own.map(({ audience }: Json) => audience).sort()).toEqual(['api', 'mcp']);
    const { id } = own.find(({ audience }: Json) => audience === 'mcp');
    await expectStatus(200, 'DELETE', `/v1/oauth-grants/${id}`, { token });
    await expectStatus(200, 'GET', '/v1/me', { token: api.access_token });
    expect((await postToMcp('tools/list', {}, { token: agent.access_token })).status).toBe(403);
    expect((await refresh(app, agent.refresh_token)).body.error).toBe('invalid_grant');
    expect((await refresh(app, api.refresh_token)).status).toBe(200);
  });

  test('rejects an authorization for both audiences, and keeps refresh tokens on their resource', async () => {
    const app = await register(base);
    const visitor = await signedIn();
    const both = `${authorizeAddress(app, newProof().challenge)}&${new URLSearchParams({ resource: base })}&${new URLSearchParams(mcp())}`;
    const { to } = await visitor.ask(both);
    expect([to?.startsWith(callback), new URL(to ?? '').searchParams.get('error')]).toEqual([true, 'invalid_target']);
    for (const [more, other] of [
      [{}, `${base}/v1/mcp`],
      [mcp(), base],
    ] as const) {
      const { tokens } = await tokensFor(app, { more });
      expect((await refresh(app, tokens.refresh_token, { resource: other })).body.error).toBe('invalid_target');
      const renewed = await refresh(app, tokens.refresh_token);
      expect(decodeJwt(renewed.body.access_token).aud).toBe(decodeJwt(tokens.access_token).aud);
    }
  });

  test('assigns an audience to a grant from before audiences', async () => {
    const app = await register(base);
    const { tokens } = await tokensFor(app, { groups: ['records', 'billing'] });
    await database()`update oauth_grants set audience = null where client_id = ${app.client_id}`;
    await expectStatus(200, 'GET', '/v1/me', { token: tokens.access_token });
    await tokensFor(app, { more: mcp() });
    const rows = await database()`select audience, groups from oauth_grants where client_id = ${app.client_id}`;
    expect(rows).toEqual([{ audience: 'mcp', groups: ['records'] }]);
    await expectStatus(403, 'GET', '/v1/me', { token: tokens.access_token });
  });
});

describe('an app on the computer of the person', () => {
  const local = 'http://127.0.0.1/callback';
  const warning = 'runs on your own computer';

  test('asks every time about an app on the computer of the person', async () => {
    const app = await register(base, local);
    await tokensFor(app);
    const { text } = await consentPage(await signedIn(), app);
    expect([text.includes('value="allow"'), text.includes(warning)]).toEqual([true, true]);
  });

  test('warns if the redirect leads to the computer of the person, even for an app with a web address', async () => {
    const app = await register(base, callback, {
      redirect_uris: [callback, local, 'http://localhost/cb', 'http://[::1]/cb'],
    });
    const visitor = await signedIn();
    expect((await consentPage(visitor, app)).text).not.toContain(warning);
    for (const address of [local, 'http://127.0.0.1:5123/callback', 'http://localhost:5123/cb', 'http://[::1]:5123/cb'])
      expect((await consentPage(visitor, app, { redirect_uri: address })).text).toContain(warning);
  });
});

describe('revocation', () => {
  const opens = async (token: string): Promise<number> => (await call('GET', '/v1/me', { token })).status;
  const endsAt = async (token: string, what: () => Promise<unknown>): Promise<Json> => {
    expect(await opens(token)).toBe(200);
    await what();
    const { body } = await expectStatus(403, 'GET', '/v1/me', { token });
    return body.error.details;
  };
  const revoked = { required_scopes: [], reason: 'grant_revoked' };
  const revoke = (app: Registered, token: string) =>
    post(base, '/auth/v1/oauth/revoke', new URLSearchParams({ token, client_id: app.client_id }));

  test('ends the access tokens of the same consent when a refresh token is revoked, and no others', async () => {
    const app = await register(base);
    const [{ tokens: own }, { tokens: other }] = [await tokensFor(app), await tokensFor(app)];
    const renewed = (await refresh(app, own.refresh_token)).body;
    expect(await opens(own.access_token)).toBe(200);
    expect(await endsAt(renewed.access_token, () => revoke(app, renewed.refresh_token))).toEqual(revoked);
    expect([await opens(own.access_token), await opens(other.access_token)]).toEqual([403, 200]);
    expect((await refresh(app, other.refresh_token)).status).toBe(200);
    const [row] = await database()`
      select actor_kind, actor_id from audit_logs where company_id = ${tenant.companyId} and action = 'oauth_grant.end_tokens'
      order by occurred_at desc limit 1`;
    expect(row).toEqual({ actor_kind: 'oauth_client', actor_id: `oauth_${app.client_id}` });
  });

  test('ends all tokens of a consent when its app revokes an access token', async () => {
    const [app, stranger] = [await register(base), await register(base)];
    for (const more of [{}, mcp()]) {
      const { tokens } = await tokensFor(app, { more });
      const isOpen = async () =>
        'resource' in more
          ? (await postToMcp('tools/list', {}, { token: tokens.access_token })).status
          : opens(tokens.access_token);
      expect((await revoke(stranger, tokens.access_token)).status).toBe(200);
      expect(await isOpen()).toBe(200);
      expect((await revoke(app, tokens.access_token)).status).toBe(200);
      expect(await isOpen()).toBe(403);
      expect((await refresh(app, tokens.refresh_token)).body.error).toBe('invalid_grant');
    }
    expect((await revoke(app, 'a.b.c')).status).toBe(200);
  });

  test('ends the consent when a code is used twice', async () => {
    const app = await register(base);
    const { tokens, exchange } = await tokensFor(app);
    expect(await endsAt(tokens.access_token, () => post(base, tokenPath, exchange))).toEqual(revoked);
    expect((await refresh(app, tokens.refresh_token)).body.error).toBe('invalid_grant');
  });

  test('ends the consent when a refresh token is reused after the grace period', async () => {
    const app = await register(base);
    const { tokens } = await tokensFor(app);
    const renewed = (await refresh(app, tokens.refresh_token)).body;
    await database()`
      update oauth_artifacts set consumed_at = now() - interval '61 seconds'
      where model = 'RefreshToken' and consumed_at is not null and payload ->> 'clientId' = ${app.client_id}`;
    expect(await endsAt(renewed.access_token, () => refresh(app, tokens.refresh_token))).toEqual(revoked);
  });

  test('stores revocations only as long as access tokens are valid', async () => {
    const app = await register(base);
    await tokensFor(app).then(({ tokens }) => revoke(app, tokens.refresh_token));
    await database()`
      update oauth_grants set ended_families = (select jsonb_object_agg(key, now() - interval '3 hours') from jsonb_each(ended_families))
      where client_id = ${app.client_id}`;
    const { tokens } = await tokensFor(app);
    await revoke(app, tokens.refresh_token);
    const [row] =
      await database()`select ended_families as families from oauth_grants where client_id = ${app.client_id}`;
    expect(Object.keys(row?.families)).toEqual([decodeJwt(tokens.access_token).family_id]);
    expect(await opens(tokens.access_token)).toBe(403);
  });
});
