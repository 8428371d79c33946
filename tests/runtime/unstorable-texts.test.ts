// Texts that the database cannot store, at routes outside the OpenAPI document: never 500.
import Stripe from 'stripe';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { computeTwilioSignature } from '../../integrations/twilio/inbound.ts';
import { anyAddress, type Json, useServer } from '../support/client.ts';
import { furnishedTenant, listPages } from '../support/console.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { findFreePort } from '../support/free-port.ts';
import { connect, type McpClient, post as postMcp } from '../support/mcp.ts';
import { newPhoneNumber } from '../support/messaging.ts';
import { newProof, post, register } from '../support/oauth-apps.ts';
import { Visitor } from '../support/page-client.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, type Tenant, useDatabase } from '../support/tenants.ts';

const redirect = 'https://app.example/callback';
const providers = { twilio: 'token-of-the-account', stripe: 'whsec_test' };

let databaseUrl: string;
let base: string;
let server: TestServer;
let tenant: Tenant;
let pages: Readonly<Record<string, string>>;

beforeAll(async () => {
  databaseUrl = await newDatabase();
  await useDatabase(databaseUrl);
  const port = await findFreePort();
  base = `http://127.0.0.1:${port}`;
  server = await startServer({
    ...testSettings,
    DATABASE_URL: databaseUrl,
    SECRET_KEY: '5e'.repeat(32),
    DATA_DIR: '.test-data/unstorable',
    PORT: String(port),
    BASE_URL: base,
    MESSAGING_URL: `twilio://AC1:${providers.twilio}@127.0.0.1:1?insecure=1`,
    STRIPE_SECRET_KEY: 'sk_test_none',
    STRIPE_WEBHOOK_SECRET: providers.stripe,
    STRIPE_API_BASE: 'http://127.0.0.1:1',
  });
  useServer(base);
  const furnished = await furnishedTenant();
  tenant = furnished.tenant;
  pages = listPages(furnished);
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  await useDatabase(undefined);
  await dropDatabase(databaseUrl);
});

/** A NUL, and both halves of a surrogate pair, as JSON escapes. */
const inJson = ['a\0b', 'a\ud800b', 'a\udc00b'];
/** The same in forms and URLs, which decode invalid UTF-8 as U+FFFD. */
const inForms = ['a%00b', 'a%ED%A0%80b'];

function expectNoFault(): void {
  const lines = server.output().split('\n');
  expect(lines.filter((line) => line.includes('unexpected error'))).toEqual([]);
}

describe('an app that registers with such a text', () => {
  test.each(inJson)(
    'rejects unstorable text in the name or redirect of an app (%j) as RFC 7591 requires',
    async (text) => {
      const named = await post(base, '/auth/v1/oauth/clients/register', {
        client_name: text,
        redirect_uris: [redirect],
      });
      expect([named.status, named.body.error]).toEqual([400, 'invalid_client_metadata']);
      const redirected = await post(base, '/auth/v1/oauth/clients/register', {
        redirect_uris: [`${redirect}/${text}`],
      });
      expect([redirected.status, redirected.body.error]).toEqual([400, 'invalid_redirect_uri']);
      expectNoFault();
    },
  );
});

describe('a request of an app with such a text', () => {
  const parameters = [
    'client_id',
    'redirect_uri',
    'response_type',
    'response_mode',
    'scope',
    'state',
    'nonce',
    'prompt',
    'display',
    'login_hint',
    'id_token_hint',
    'acr_values',
    'ui_locales',
    'claims_locales',
    'max_age',
    'resource',
    'request',
    'code_challenge',
    'code_challenge_method',
    'claims',
    'registration',
    'unknown',
  ];

  test.each(['GET', 'POST'])('rejects unstorable text in any parameter of %s /oauth/authorize', async (method) => {
    const app = await register(base);
    const good = {
      response_type: 'code',
      client_id: app.client_id,
      redirect_uri: app.redirect_uris[0] ?? '',
      scope: 'openid',
      code_challenge: newProof().challenge,
      code_challenge_method: 'S256',
    };
    for (const name of parameters)
      for (const text of inForms) {
        const query = `${new URLSearchParams(Object.entries(good).filter(([each]) => each !== name))}&${name}=${text}`;
        const answer = await fetch(`${base}/auth/v1/oauth/authorize${method === 'GET' ? `?${query}` : ''}`, {
          method,
          redirect: 'manual',
          headers: {
            'x-forwarded-for': anyAddress(),
            ...(method === 'POST' ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
          },
          ...(method === 'POST' ? { body: query } : {}),
        });
        const expected = text === inForms[0] ? [400] : [303, 302, 400];
        expect(expected, `${name} ${text} ${await answer.text()}`).toContain(answer.status);
      }
    expectNoFault();
  });

  test.each(['token', 'revoke'])(
    'rejects unstorable text in any parameter of /oauth/%s in the format of the endpoint',
    async (path) => {
      const app = await register(base);
      const good = { grant_type: 'refresh_token', client_id: app.client_id, refresh_token: 'r', token: 't', code: 'c' };
      for (const name of [
        ...Object.keys(good),
        'redirect_uri',
        'code_verifier',
        'resource',
        'scope',
        'token_type_hint',
      ])
        for (const text of inForms) {
          const form = `${new URLSearchParams(Object.entries(good).filter(([each]) => each !== name))}&${name}=${text}`;
          const { status, body } = await post(base, `/auth/v1/oauth/${path}`, new URLSearchParams(form));
          if (text === inForms[0]) expect([name, status, body.error]).toEqual([name, 400, 'invalid_request']);
          else expect(status).toBeLessThan(500);
        }
      expectNoFault();
    },
  );
});

describe('a page or form of the console with such a text', () => {
  const names = [
    'cursor',
    'after',
    'done',
    'status',
    'next',
    'mode',
    'again',
    'request_id',
    'actor',
    'action',
    'from',
    'to',
    'email',
    'password',
    'reason',
    'hash',
    'group',
    'name',
    'url',
    'events',
    'scopes',
    'filter',
    'token',
    'unknown',
  ];

  test('rejects unstorable text in pages and forms of the console, with and without a session', async () => {
    const signedIn = new Visitor(base);
    await signedIn.signIn(tenant.admin.email);
    const token = (await signedIn.readForm('/console/password', '/console/password')).token ?? '';
    const guest = new Visitor(base);
    const places = [...Object.values(pages), '/console/sign-in', '/console/sign-out'];
    const uploads = new Set(['/console/imports/new', '/console/workspace']);
    for (const place of places)
      for (const visitor of [signedIn, guest]) {
        const [path = ''] = place.split('?');
        const all = names.map((name) => `${name}=a%00b`).join('&');
        expect([place, (await visitor.ask(`${path}?${all}`)).status]).toEqual([place, 400]);
        const form = new URLSearchParams(`${all}&token=${encodeURIComponent(token)}`);
        // Forms with a file are not received from guests, who are redirected to the sign-in page.
        const expected = visitor === guest && uploads.has(path) ? 303 : 400;
        expect([place, (await visitor.ask(path, form)).status]).toEqual([place, expected]);
      }
    expectNoFault();
  });
});

describe('a call of a provider with such a text', () => {
  test('accepts a call that Twilio signed without the unstorable text', async () => {
    const number = (await newPhoneNumber(tenant.key)).phone_number;
    const path = `/v1/inbound/twilio?company_id=${tenant.companyId}&environment=live`;
    const good = { MessageSid: 'SM1', From: '+971501234567', To: number, Body: 'Hello', SmsStatus: 'received' };
    for (const name of Object.keys(good)) {
      const form = { ...good, [name]: `${good[name as keyof typeof good]}\0` };
      const signature = computeTwilioSignature(providers.twilio, base + path, new Map(Object.entries(form)));
      const headers = { 'x-twilio-signature': signature };
      const answer = await fetch(base + path, { method: 'POST', headers, body: new URLSearchParams(form) });
      expect([name, answer.status]).toEqual([name, 200]);
    }
    expectNoFault();
  });

  const customer = (id: string): Json => ({
    id: 'evt_1',
    type: 'customer.updated',
    data: { object: { object: 'customer', id } },
  });
  test.each([
    ['a customer with a NUL', JSON.stringify(customer('cus_\0'))],
    ['a customer with half of a pair', JSON.stringify(customer('cus_\ud800'))],
    ['no event', '{}'],
    ['an event about nothing', '{"id": "evt_1", "type": "customer.updated"}'],
    ['no JSON', 'nothing'],
    ['a list', '[]'],
    ['null', 'null'],
  ])('rejects a call that Stripe signed with %s', async (_, body) => {
    const header = new Stripe('sk_test_none').webhooks.generateTestHeaderString({
      payload: body,
      secret: providers.stripe,
    });
    const headers = { 'content-type': 'application/json', 'stripe-signature': header };
    const answer = await fetch(`${base}/v1/billing/provider-events`, { method: 'POST', headers, body });
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('VALIDATION_ERROR')]);
    expectNoFault();
  });

  test('accepts a call that Stripe signed with an escaped NUL in an unused field', async () => {
    const body = JSON.stringify({ ...customer('cus_unknown'), note: 'a%00b' });
    const header = new Stripe('sk_test_none').webhooks.generateTestHeaderString({
      payload: body,
      secret: providers.stripe,
    });
    const headers = { 'content-type': 'application/json', 'stripe-signature': header };
    expect((await fetch(`${base}/v1/billing/provider-events`, { method: 'POST', headers, body })).status).toBe(200);
  });
});

describe('a tool of MCP with such a text', () => {
  let client: McpClient;
  let key: string;

  beforeAll(async () => {
    key = await newKey(tenant, { perMinute: 1_000_000, perHour: 1_000_000 });
    await database()`update subscriptions set api_rate_limit_per_minute = 1000000 where company_id = ${tenant.companyId}`;
    client = await connect({ 'x-api-key': tenant.key }, '2026-07-28', base);
  });
  afterAll(() => client?.close());

  test('returns a client error for unstorable text in any argument of a tool', async () => {
    const { tools } = await client.listTools();
    for (const { name, inputSchema } of tools)
      for (const argument of Object.keys(inputSchema.properties ?? {}))
        for (const value of ['a\0b', { 'a\ud800b': 1 }]) {
          const given: Record<string, unknown> = { object: 'leads', id: tenant.companyId, [argument]: value };
          const known = Object.entries(given).filter(([each]) => Object.hasOwn(inputSchema.properties, each));
          const { status, text: answer } = await postMcp(
            'tools/call',
            { name, arguments: Object.fromEntries(known) },
            { key },
          );
          expect([name, argument, value, status]).toEqual([name, argument, value, expect.toSatisfy((of) => of < 500)]);
          expect(answer).not.toContain('INTERNAL_ERROR');
        }
    expectNoFault();
  });

  test('rejects unstorable text in the name of a tool, a resource or a method', async () => {
    for (const text of inJson) {
      for (const [method, params] of [
        ['tools/call', { name: text }],
        ['resources/read', { uri: `crm://${text}` }],
        ['prompts/get', { name: text }],
        [text, {}],
      ] as const) {
        // Not a valid header value either, so it is only in the message.
        const headers = { 'mcp-name': 'name', 'mcp-method': 'method' };
        const { status } = await postMcp(method, params, { key: tenant.key, headers });
        expect(status).toBeLessThan(500);
      }
    }
    expectNoFault();
  });
});
