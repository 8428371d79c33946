// OAuth access tokens of a real issuer: access and revocation.

import { decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { readConfig } from '../../runtime/config.ts';
import { newGrant } from '../support/access-tokens.ts';
import { call, expectStatus } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { type App, type Issuer, registerApp, resource, startIssuer } from '../support/issuer.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let issuer: Issuer;
let app: App;
let servers: TestServer[];

const newServer = (settings: Record<string, string> = {}): Promise<TestServer> =>
  startServer({
    ...testSettings,
    ...besideCommon(),
    OAUTH_ISSUER: issuer.url,
    ...settings,
  });

beforeAll(async () => {
  issuer = await startIssuer();
  app = await registerApp(issuer);
  servers = await Promise.all([newServer(), newServer()]);
});

afterAll(async () => {
  await Promise.all((servers ?? []).map((server) => server.stop()));
  await issuer?.stop();
});

const baseUrl = (): string => servers[0]?.url ?? '';

async function requestToken(userId: string, scope?: string): Promise<string> {
  return (await app.authorize(userId, scope)).access_token;
}

/** Consents to the app and returns a token. */
async function consented(tenant: Tenant, groups: string[], userId = tenant.admin.id): Promise<string> {
  await newGrant(tenant, { userId, clientId: app.clientId, groups });
  return requestToken(userId);
}

describe('an authorized app', () => {
  test('acts in the workspace of the user under the name of the app, with the consented groups', async () => {
    const tenant = await newTenant('Blue Lake');
    const token = await consented(tenant, ['records']);
    const { body } = await expectStatus(200, 'GET', '/v1/me', { token, baseUrl: baseUrl() });
    const objects = ['leads', 'customers', 'activities'];
    expect(body.data).toMatchObject({
      actor: { kind: 'oauth_client', id: `oauth_${app.clientId}`, name: 'Test app' },
      company: { id: tenant.companyId, name: 'Blue Lake' },
      environment: 'live',
      scopes: objects.flatMap((object) => ['view', 'create', 'edit'].map((action) => `${object}:${action}`)),
      roles: [],
      reach: { kind: 'company', id: null },
      limits: { rate_limit_per_minute: 60, rate_limit_per_hour: 1000 },
    });
    const left = new Date(body.data.expires_at).getTime() - Date.now();
    expect(left).toBeGreaterThan(500_000);
    expect(left).toBeLessThanOrEqual(600_000);
  });

  test('records the app in audit rows, events and records, without a key', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const lead = { first_name: 'Sara', email: 'sara@example.com' };
    const { body, headers } = await expectStatus(201, 'POST', '/v1/leads', { token, body: lead, baseUrl: baseUrl() });
    const actor = { kind: 'oauth_client', id: `oauth_${app.clientId}`, name: 'Test app' };
    expect(body.data.lead.created_by).toEqual(actor);
    const sql = database();
    const [row] = await sql`select * from audit_logs where request_id = ${headers.get('x-request-id')}`;
    expect(row).toMatchObject({
      company_id: tenant.companyId,
      actor_kind: 'oauth_client',
      actor_id: actor.id,
      api_key_id: null,
      key_name: null,
      test_mode: false,
    });
    const [event] =
      await sql`select actor from ${recordedEvents(sql)} where request_id = ${headers.get('x-request-id')}`;
    expect(event?.actor).toEqual(actor);
  });

  test('rejects an app with 403 and the scope if the group was not granted', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const path = '/v1/objects/leads/records/x';
    const { body } = await expectStatus(403, 'DELETE', path, { token, baseUrl: baseUrl() });
    expect(body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['leads:delete'] } });
    await expectStatus(404, 'GET', '/v1/objects/deals/records', { token, baseUrl: baseUrl() });
  });

  test('accepts scopes named in the token, and ignores identity scopes', async () => {
    const tenant = await newTenant();
    await newGrant(tenant, { clientId: app.clientId });
    const scopesWith = async (scope: string): Promise<string[]> => {
      const token = await requestToken(tenant.admin.id, scope);
      return (await expectStatus(200, 'GET', '/v1/me', { token, baseUrl: baseUrl() })).body.data.scopes;
    };
    expect(await scopesWith('openid offline_access')).toEqual([]);
    expect(await scopesWith('openid leads:view deals:view')).toEqual(['leads:view', 'deals:view']);
    expect(await scopesWith('openid * messaging:send onboarding nonsense:view')).toEqual([]);
    expect(await scopesWith('openid leads:*')).toEqual(['leads:view', 'leads:create', 'leads:edit', 'leads:delete']);
  });

  test('accepts a refreshed token', async () => {
    const tenant = await newTenant();
    await newGrant(tenant, { clientId: app.clientId, groups: ['records'] });
    const first = await app.authorize(tenant.admin.id);
    const renewed = await app.refresh(first.refresh_token ?? '');
    expect(renewed.access_token).not.toBe(first.access_token);
    await expectStatus(200, 'GET', '/v1/me', { token: renewed.access_token, baseUrl: baseUrl() });
  });

  test('limits an app to 60 calls per minute, endpoint and user', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const other = await newUser(tenant);
    const forOther = await consented(tenant, ['records'], other.id);
    const answers = await Promise.all(
      Array.from({ length: 61 }, () => call('GET', '/v1/me', { token, baseUrl: baseUrl() })),
    );
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([...Array(60).fill(200), 429]);
    await expectStatus(200, 'GET', '/v1/me', { token: forOther, baseUrl: baseUrl() });
    await expectStatus(200, 'GET', '/v1/objects', { token, baseUrl: baseUrl() });
  });

  test('ignores the access token if an API key is sent too', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const { body } = await expectStatus(200, 'GET', '/v1/me', { token, key: tenant.testKey, baseUrl: baseUrl() });
    expect(body.data).toMatchObject({ actor: { kind: 'api_key' }, environment: 'test' });
    await expectStatus(401, 'GET', '/v1/me', { token, key: 'svc_live_0', baseUrl: baseUrl() });
  });
});

describe('a token without consent', () => {
  test('rejects a token with 403 if the user never authorized the app', async () => {
    const tenant = await newTenant();
    const token = await requestToken(tenant.admin.id);
    const { body } = await expectStatus(403, 'GET', '/v1/me', { token, baseUrl: baseUrl() });
    expect(body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { reason: 'no_grant' } });
    // The consent of another user in the same workspace does not count.
    await newGrant(tenant, { clientId: app.clientId, userId: (await newUser(tenant)).id, groups: ['records'] });
    await expectStatus(403, 'GET', '/v1/me', { token, baseUrl: baseUrl() });
  });

  test('rejects a token on every server from the call after the revocation until the next consent (C8)', async () => {
    let [asked, accepted] = [0, 0];
    for (let round = 0; round < 8; round += 1) {
      const tenant = await newTenant();
      const token = await consented(tenant, ['records']);
      let revokedAt = Number.POSITIVE_INFINITY;
      let acceptedBefore = 0;
      const callers = Array.from({ length: 8 }, async (_, index) => {
        for (let after = 0; after < 3; ) {
          const began = performance.now();
          const path = `/v1/objects/leads/records/${index}-${round}`;
          const answer = await call('GET', path, { token, baseUrl: servers[index % 2]?.url ?? '' });
          if (began < revokedAt) acceptedBefore += answer.status === 404 ? 1 : 0;
          else {
            after += 1;
            asked += 1;
            if (answer.status !== 403 || answer.body.error.details.reason !== 'grant_revoked') accepted += 1;
          }
        }
      });
      await expect.poll(() => acceptedBefore, { interval: 5 }).toBeGreaterThan(4);
      await database()`
        update oauth_grants set revoked_at = now()
        where company_id = ${tenant.companyId} and client_id = ${app.clientId} and revoked_at is null`;
      revokedAt = performance.now();
      await Promise.all(callers);
      await newGrant(tenant, { clientId: app.clientId, groups: ['records'] });
      for (const { url } of servers) await expectStatus(200, 'GET', '/v1/objects', { token, baseUrl: url });
    }
    process.stdout.write(`C8: ${asked} calls of apps after a revocation, ${accepted} accepted\n`);
    expect(accepted).toBe(0);
  });

  test('rejects a token with 401 if the user is inactive, removed or unknown, or the workspace is closed', async () => {
    const tenant = await newTenant();
    const user = await newUser(tenant, { role: 'Company_Admin' });
    const token = await consented(tenant, ['records'], user.id);
    const expectUnknown = async (each: string): Promise<void> => {
      const { body, headers } = await expectStatus(401, 'GET', '/v1/me', { token: each, baseUrl: baseUrl() });
      expect(body.error.code).toBe('AUTH_INVALID_KEY');
      expect(headers.get('www-authenticate')).toBe('Bearer realm="api", error="invalid_token"');
    };
    const sql = database();
    await sql`update users set status = 'inactive' where id = ${user.id}`;
    await expectUnknown(token);
    await sql`update users set status = 'active' where id = ${user.id}`;
    await expectStatus(200, 'GET', '/v1/me', { token, baseUrl: baseUrl() });
    await sql`update companies set status = 'closed' where id = ${tenant.companyId}`;
    await expectUnknown(token);
    await sql`delete from users where id = ${user.id}`;
    await expectUnknown(token);
    await expectUnknown(await requestToken(crypto.randomUUID()));
    await expectUnknown(await requestToken('somebody'));
  });
});

describe('the content of a token', () => {
  test('keeps the content of tokens out of logs and tables (E10)', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const { refresh_token: refreshToken = '' } = await app.authorize(tenant.admin.id);
    const lead = { first_name: 'Sara', email: 'sara@example.com' };
    await expectStatus(201, 'POST', '/v1/leads', { token, body: lead, idempotencyKey: true, baseUrl: baseUrl() });
    await expectStatus(401, 'GET', '/v1/me', { token: `${token}A`, baseUrl: baseUrl() });
    await expectStatus(401, 'GET', '/v1/me', { token: refreshToken, baseUrl: baseUrl() });
    await expectStatus(401, 'GET', '/v1/me', { key: token, baseUrl: baseUrl() });
    await expectStatus(400, 'GET', '/v1/objects', { token, query: { token }, baseUrl: baseUrl() });
    const last = await expectStatus(200, 'GET', '/v1/me', { token, baseUrl: baseUrl() });
    await expect.poll(() => servers[0]?.output()).toContain(last.body.meta.request_id);
    for (const secret of [token.split('.')[2] ?? '', token.split('.')[1] ?? '', refreshToken]) {
      expect(servers[0]?.output()).not.toContain(secret);
      for (const table of [
        'audit_logs',
        'outbox_events',
        'feed_events',
        'idempotency_records',
        'leads',
        'oauth_grants',
      ]) {
        const sql = database();
        const [row] = await sql`select from ${sql(table)} t where strpos(t::text, ${secret}) > 0`;
        expect([table, row]).toEqual([table, undefined]);
      }
    }
  });
});

describe('signing keys of the issuer', () => {
  test('accepts rotated signing keys of the issuer immediately, in either algorithm, and rejects old ones', async () => {
    const tenant = await newTenant();
    await newGrant(tenant, { clientId: app.clientId, groups: ['records'] });
    const server = await newServer();
    const before = await app.authorize(tenant.admin.id);
    expect(decodeProtectedHeader(before.access_token)).toMatchObject({ alg: 'ES256', typ: 'at+jwt' });
    await expectStatus(200, 'GET', '/v1/me', { token: before.access_token, baseUrl: server.url });
    await issuer.rotate('RS256');
    // The server does not know about the rotation yet.
    await expectStatus(200, 'GET', '/v1/me', { token: before.access_token, baseUrl: server.url });
    const after = await app.refresh(before.refresh_token ?? '');
    expect(decodeProtectedHeader(after.access_token).alg).toBe('RS256');
    await expectStatus(200, 'GET', '/v1/me', { token: after.access_token, baseUrl: server.url });
    const { body } = await expectStatus(401, 'GET', '/v1/me', { token: before.access_token, baseUrl: server.url });
    expect(body.error.code).toBe('AUTH_INVALID_KEY');
    await server.stop();
  });

  test('fetches unknown signing keys from the issuer once, however many tokens name them', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const server = await newServer();
    const asked = issuer.keyRequests();
    await Promise.all(
      Array.from({ length: 20 }, () => expectStatus(200, 'GET', '/v1/me', { token, baseUrl: server.url })),
    );
    expect(issuer.keyRequests()).toBe(asked + 1);
    const [, claims, signature] = token.split('.');
    const unknown = Array.from({ length: 40 }, () => {
      const header = { ...decodeProtectedHeader(token), kid: crypto.randomUUID() };
      return `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${claims}.${signature}`;
    });
    const refuse = (each: string) => expectStatus(401, 'GET', '/v1/me', { token: each, baseUrl: server.url });
    await Promise.all(unknown.slice(0, 20).map(refuse));
    expect(issuer.keyRequests()).toBe(asked + 2);
    for (const each of unknown.slice(20)) await refuse(each);
    expect(issuer.keyRequests()).toBe(asked + 2);
    await server.stop();
  });

  test('keeps verifying with known keys while the issuer is down, and otherwise returns 503 and logs it once', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const [warm, cold] = await Promise.all([newServer(), newServer()]);
    await expectStatus(200, 'GET', '/v1/me', { token, baseUrl: warm.url });
    await issuer.stop();
    try {
      await expectStatus(200, 'GET', '/v1/me', { token, baseUrl: warm.url });
      for (let index = 0; index < 5; index += 1) {
        const { body } = await expectStatus(503, 'GET', '/v1/me', { token, baseUrl: cold.url });
        expect(body.error.code).toBe('SERVICE_UNAVAILABLE');
      }
      // Tokens that no issuer could have signed need no request.
      await expectStatus(401, 'GET', '/v1/me', { token: 'e30.e30.e30', baseUrl: cold.url });
    } finally {
      await issuer.start();
    }
    await expect.poll(async () => (await call('GET', '/v1/me', { token, baseUrl: cold.url })).status).toBe(200);
    await expect.poll(() => cold.output()).toContain('are available again');
    expect(cold.output().match(/failed to fetch OAuth issuer keys/g)).toHaveLength(1);
    await Promise.all([warm.stop(), cold.stop()]);
  });
});

describe('the settings', () => {
  test('reads the expected audience and the location of the signing keys from the settings', async () => {
    const tenant = await newTenant();
    const token = await consented(tenant, ['records']);
    const elsewhere = await startIssuer();
    const settings: Record<string, string>[] = [
      { OAUTH_EXPECTED_AUDIENCE: resource, OAUTH_JWKS_URI: issuer.jwksUri },
      { OAUTH_EXPECTED_AUDIENCE: `${resource}/` },
      { OAUTH_JWKS_URI: elsewhere.jwksUri },
    ];
    const started = await Promise.all(settings.map((each) => newServer(each)));
    try {
      // A busy issuer may respond late.
      const statuses = started.map(({ url }) =>
        vi.waitUntil(async () => {
          const { status } = await call('GET', '/v1/me', { token, baseUrl: url });
          return status === 503 ? undefined : status;
        }),
      );
      expect(await Promise.all(statuses)).toEqual([200, 401, 401]);
      expect(elsewhere.keyRequests()).toBeGreaterThan(0);
    } finally {
      await Promise.all([...started.map((server) => server.stop()), elsewhere.stop()]);
    }
  });

  test('rejects settings that are not URLs by name', () => {
    for (const name of ['OAUTH_ISSUER', 'OAUTH_JWKS_URI'])
      expect(() => readConfig({ [name]: 'issuer.example' })).toThrow(
        `${name} must be an http or https URL; it is "issuer.example".`,
      );
  });
});
