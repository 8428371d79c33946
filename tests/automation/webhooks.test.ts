// Webhook subscriptions: creation, changes, deletion, secrets and tests.
import { createPublicKey, verify } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { verifyStandardWebhook, verifyWebhook } from '../../sdk/src/index.ts';
import { newBranch } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { answering, type Received, Receiver } from '../support/receivers.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { newDelivery, newWebhook } from '../support/webhooks.ts';

let tenant: Tenant;
let receiver: Receiver;

beforeAll(async () => {
  [tenant, receiver] = [await newTenant(), await Receiver.start()];
});
afterAll(() => receiver.stop());

const good = { url: 'https://hooks.example.com/crm?token=abc', events: ['record.created', 'sla.*'] };
const create = async (body: object = good, key = tenant.key): Promise<Json> =>
  (await expectStatus(201, 'POST', '/v1/webhooks', { key, body })).body.data;
const refused = async (status: number, body: object, key = tenant.key): Promise<Json[]> =>
  (await expectStatus(status, 'POST', '/v1/webhooks', { key, body })).body.error.details.fields;
const get = async (id: string, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/webhooks/${id}`, { key })).body.data.subscription;
const patch = async (id: string, body: object, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'PATCH', `/v1/webhooks/${id}`, { key, body })).body.data.subscription;
const readAudit = async (id: string): Promise<Json[]> => [
  ...(await database()`select action, changes, metadata from audit_logs where record_id = ${id} order by seq`),
];

describe('a subscription', () => {
  test('shows the secret of a new subscription once and stores it encrypted', async () => {
    const { subscription, secret } = await create({ ...good, include: ['changes'], description: 'D' });
    expect(subscription).toMatchObject({
      ...good,
      filter: null,
      include: ['changes'],
      description: 'D',
      skip_own: false,
      status: 'active',
      disabled_reason: null,
      consecutive_failures: 0,
      last_delivery_at: null,
      secret_last4: secret.slice(-4),
      test_mode: false,
      created_by: { kind: 'api_key', name: 'Test key' },
    });
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(await get(subscription.id)).toEqual(subscription);
    const list = await expectStatus(200, 'GET', '/v1/webhooks', { key: tenant.key });
    expect(list.body.data.subscriptions[0]).toEqual(subscription);
    expect(list.text).not.toContain(secret);
    const [row] = await database()`select * from webhook_subscriptions where id = ${subscription.id}`;
    expect(JSON.stringify(row)).not.toContain(secret.slice(6));
    expect(new Secrets(inject('secretKey')).decrypt(row?.sealed_secret)).toBe(secret);
    // The path of a URL often contains a secret.
    const audit = await readAudit(subscription.id);
    expect(audit).toMatchObject([
      { action: 'webhook.create', changes: { url: { from: null, to: 'https://hooks.example.com/…' } } },
    ]);
    expect(JSON.stringify(audit)).not.toContain('token=abc');
  });

  test('assigns a subscription to the mode of its key', async () => {
    const { subscription } = await create(good, tenant.testKey);
    expect(subscription.test_mode).toBe(true);
    await expectStatus(404, 'GET', `/v1/webhooks/${subscription.id}`, { key: tenant.key });
  });

  test('changes only the sent fields of a subscription', async () => {
    const { subscription } = await create({ ...good, description: 'D' });
    const { id } = subscription;
    const filter = { field: 'object', op: 'eq', value: 'leads' };
    expect(await patch(id, { filter })).toEqual({ ...subscription, filter, updated_at: expect.any(String) });
    expect(await patch(id, { events: ['record.*'], filter: null, description: null, skip_own: true })).toMatchObject({
      events: ['record.*'],
      filter: null,
      description: null,
      skip_own: true,
      url: good.url,
    });
    expect(await patch(id, { url: 'https://hooks.example.com/other', include: ['changes'] })).toMatchObject({
      url: 'https://hooks.example.com/other',
      include: ['changes'],
    });
    const audit = await readAudit(id);
    expect(audit.map(({ action }) => action)).toEqual([
      'webhook.create',
      'webhook.update',
      'webhook.update',
      'webhook.update',
    ]);
    expect(audit[3].changes.url).toEqual({ from: 'https://hooks.example.com/…', to: 'https://hooks.example.com/…' });
  });

  test('writes no audit row if a change changes nothing', async () => {
    const { subscription } = await create();
    expect(await patch(subscription.id, { events: good.events, is_active: true })).toEqual(subscription);
    expect(await readAudit(subscription.id)).toHaveLength(1);
  });

  test('resets the failure state of a subscription that is enabled by hand', async () => {
    const { subscription } = await create();
    const { id } = subscription;
    expect(await patch(id, { is_active: false })).toMatchObject({ status: 'disabled', disabled_reason: 'manual' });
    await database()`
      update webhook_subscriptions
      set consecutive_failures = 7, exhausted_deliveries = 7, failing_since = now(), warned_at = now(), probing_since = now()
      where id = ${id}`;
    expect(await patch(id, { is_active: true })).toMatchObject({
      status: 'active',
      disabled_reason: null,
      disabled_at: null,
      consecutive_failures: 0,
    });
    const [row] = await database()`select * from webhook_subscriptions where id = ${id}`;
    expect(row).toMatchObject({ exhausted_deliveries: 0, failing_since: null, warned_at: null, probing_since: null });
    expect((await create({ ...good, is_active: false })).subscription.status).toBe('disabled');
  });

  test('cancels waiting deliveries of a deleted subscription, and still lists sent ones', async () => {
    const { id } = await newWebhook(tenant, 'live', { disabled_at: new Date(), disabled_reason: 'manual' });
    const waiting = { status: 'pending', next_attempt_at: new Date(), completed_at: null };
    const delivery = await newDelivery(tenant, 'live', id, waiting);
    const { key } = tenant;
    expect((await expectStatus(200, 'DELETE', `/v1/webhooks/${id}`, { key })).body.data).toEqual({ id, deleted: true });
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PATCH', '', { is_active: false }],
      ['DELETE', '', undefined],
      ['POST', '/rotate-secret', {}],
      ['POST', '/test', {}],
      ['POST', '/recover', { since: '2026-01-01' }],
      ['POST', '/replay', { from: '2026-01-01', to: '2036-01-01' }],
    ] as const)
      await expectStatus(404, method, `/v1/webhooks/${id}${path}`, { key, ...(body ? { body } : {}) });
    const list = await expectStatus(200, 'GET', `/v1/webhooks/${id}/deliveries`, { key });
    expect(list.body.data.deliveries).toMatchObject([{ id: delivery, status: 'cancelled' }]);
    const replay = await expectStatus(409, 'POST', `/v1/webhooks/deliveries/${delivery}/replay`, { key });
    expect(replay.body.error.details.reason).toBe('subscription_deleted');
  });
});

describe('an invalid subscription', () => {
  test.each([
    'http://hooks.example.com/crm',
    'ftp://hooks.example.com/crm',
    'https://user:password@hooks.example.com/crm',
    'https://hooks.example.com:22/crm',
    'https://127.0.0.1/crm',
    'https://2130706433/crm',
    'https://[::1]/crm',
    'https://[::ffff:10.0.0.1]/crm',
    'https://169.254.169.254/latest/meta-data',
    'https://localhost/crm',
    'hooks.example.com',
    'https://',
    'https://.',
    'https://..',
    'https://%2e/crm',
    'https://。/crm',
    'https://hooks..example.com/crm',
    'https://.example.com/crm',
    'https://*.example.com/crm',
    `https://${'a'.repeat(64)}.example.com/crm`,
    'javascript:alert(1)',
  ])('rejects the address %s on creation and on change', async (url) => {
    expect(await refused(400, { ...good, url })).toMatchObject([{ field: 'url', code: 'INVALID_FORMAT' }]);
    const { id } = await newWebhook(tenant, 'live');
    const { body } = await expectStatus(400, 'PATCH', `/v1/webhooks/${id}`, { key: tenant.key, body: { url } });
    expect(body.error.details.fields).toMatchObject([{ field: 'url', code: 'INVALID_FORMAT' }]);
  });

  test('rejects an unknown event and suggests a similar one', async () => {
    expect(await refused(422, { ...good, events: ['record.create', 'record.*'] })).toMatchObject([
      { field: 'events[0]', code: 'INVALID_OPTION', did_you_mean: 'record.created' },
    ]);
  });

  test('rejects a filter over fields that its events lack, even if only the events change', async () => {
    const filter = { field: 'level', op: 'eq', value: 0 };
    expect(await refused(422, { ...good, events: ['record.created'], filter })).toMatchObject([
      { field: 'filter', code: 'UNKNOWN_FIELD' },
    ]);
    const { subscription } = await create({ ...good, filter });
    const path = `/v1/webhooks/${subscription.id}`;
    const answer = await expectStatus(422, 'PATCH', path, { key: tenant.key, body: { events: ['record.created'] } });
    expect(answer.body.error.details.fields).toMatchObject([{ field: 'filter', code: 'UNKNOWN_FIELD' }]);
  });

  test('reports all problems of a subscription in one response', async () => {
    const fields = await refused(422, { url: 'http://x.example', events: ['nothing'], colour: 'red', skip_own: 1 });
    expect(fields.map(({ field }) => field).sort()).toEqual(['colour', 'events[0]', 'skip_own', 'url']);
  });

  test('rejects the fifty-first subscription of a mode under concurrent creation', async () => {
    const crowded = await newTenant();
    for (let count = 0; count < 46; count += 1) await newWebhook(crowded, 'live');
    const { key } = crowded;
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => call('POST', '/v1/webhooks', { key, body: good })),
    );
    const refusals = answers.filter(({ status }) => status === 409);
    expect([answers.filter(({ status }) => status === 201).length, refusals.length]).toEqual([4, 4]);
    expect(refusals[0]?.body.error.details).toEqual({ reason: 'subscription_limit', limit: 50 });
    // The other mode has its own limit.
    await create(good, crowded.testKey);
  });

  test('rejects keys with limited visibility for subscriptions and deliveries', async () => {
    const reach = { kind: 'branch', id: await newBranch(tenant) } as const;
    const key = await newKey(tenant, { reach });
    const { id } = await newWebhook(tenant, 'live');
    for (const [method, path, body] of [
      ['POST', '/v1/webhooks', good],
      ['PATCH', `/v1/webhooks/${id}`, { is_active: false }],
      ['GET', `/v1/webhooks/${id}/deliveries`, undefined],
      ['POST', `/v1/webhooks/${id}/rotate-secret`, {}],
    ] as const) {
      const answer = await expectStatus(403, method, path, { key, ...(body ? { body } : {}) });
      expect(answer.body.error.details.reason).toBe('company_reach_required');
    }
    await expectStatus(200, 'GET', `/v1/webhooks/${id}`, { key });
  });
});

describe('a secret', () => {
  test('rotates a secret with an overlap in which the old one stays valid', async () => {
    const { subscription, secret: old } = await create({ ...good, url: receiver.url }, tenant.testKey);
    const path = `/v1/webhooks/${subscription.id}`;
    const key = tenant.testKey;
    const rotated = (await expectStatus(200, 'POST', `${path}/rotate-secret`, { key })).body.data;
    const expires = Date.parse(rotated.previous_secret_expires_at) - Date.parse(rotated.subscription.secret_rotated_at);
    expect(expires).toBe(24 * 3_600_000);
    expect(rotated.secret).not.toBe(old);
    expect(rotated.subscription).toMatchObject({
      secret_last4: rotated.secret.slice(-4),
      previous_secret_expires_at: rotated.previous_secret_expires_at,
    });
    await expectStatus(200, 'POST', `${path}/test`, { key });
    const { headers, body } = receiver.requests.at(-1) ?? { headers: {} as Record<string, string>, body: '' };
    for (const secret of [rotated.secret, old])
      expect(await verifyWebhook(body, String(headers['service-signature']), secret)).toMatchObject({ test: true });
    const body0 = { overlap_hours: 0 };
    const last = (await expectStatus(200, 'POST', `${path}/rotate-secret`, { key, body: body0 })).body.data;
    expect(last.previous_secret_expires_at).toBeNull();
    await expectStatus(200, 'POST', `${path}/test`, { key });
    const after = receiver.requests.at(-1);
    expect(String(after?.headers['service-signature']).match(/v1=/g)).toHaveLength(1);
    expect(
      await verifyWebhook(after?.body ?? '', String(after?.headers['service-signature']), last.secret),
    ).toBeDefined();
    const audit = JSON.stringify(await readAudit(subscription.id));
    for (const secret of [old, rotated.secret, last.secret]) expect(audit).not.toContain(secret);
  });

  test.each([-1, 169, 1.5])('rejects an overlap of %d hours', async (overlap) => {
    const { id } = await newWebhook(tenant, 'live');
    const body = { overlap_hours: overlap };
    expect((await call('POST', `/v1/webhooks/${id}/rotate-secret`, { key: tenant.key, body })).status).toBeOneOf([
      400, 422,
    ]);
  });
});

describe('an own secret', () => {
  const ownSecret = (bytes: number): string => `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`;

  test.each([24, 64])('signs with an own secret of %i bytes, on creation and on rotation', async (bytes) => {
    const secret = ownSecret(bytes);
    const key = tenant.testKey;
    const made = await create({ ...good, url: receiver.url, secret }, key);
    expect(made.secret).toBe(secret);
    expect(made.subscription.secret_last4).toBe(secret.slice(-4));
    const path = `/v1/webhooks/${made.subscription.id}`;
    await expectStatus(200, 'POST', `${path}/test`, { key });
    const first = receiver.requests.at(-1);
    expect(new Webhook(secret).verify(first?.body ?? '', first?.headers as Record<string, string>)).toBeDefined();
    const next = ownSecret(bytes - (bytes > 24 ? 1 : -1));
    const body = { secret: next, overlap_hours: 0 };
    const rotated = await expectStatus(200, 'POST', `${path}/rotate-secret`, { key, body });
    expect(rotated.body.data.secret).toBe(next);
    await expectStatus(200, 'POST', `${path}/test`, { key });
    const second = receiver.requests.at(-1);
    expect(await verifyWebhook(second?.body ?? '', String(second?.headers['service-signature']), next)).toBeDefined();
  });

  test.each([
    ['of 23 bytes', ownSecret(23), 'TOO_SHORT'],
    ['of 65 bytes', ownSecret(65), 'TOO_LONG'],
    ['without its prefix', ownSecret(32).slice(6), 'INVALID_FORMAT'],
    ['in base64url', `whsec_${'-_'.repeat(20)}`, 'INVALID_FORMAT'],
    ['without padding', ownSecret(32).slice(0, -1), 'INVALID_FORMAT'],
    ['with bits that base64 ignores', `${ownSecret(32).slice(0, -2)}d=`, 'INVALID_FORMAT'],
  ])('rejects an own secret %s', async (_, secret, code) => {
    expect(await refused(400, { ...good, secret })).toMatchObject([{ field: 'secret', code }]);
    const { id } = await newWebhook(tenant, 'live');
    const sent = { key: tenant.key, body: { secret } };
    const { body } = await expectStatus(400, 'POST', `/v1/webhooks/${id}/rotate-secret`, sent);
    expect(body.error.details.fields).toMatchObject([{ field: 'secret', code }]);
  });
});

describe('the asymmetric scheme', () => {
  /** The v1a signatures of a request that a public key verifies, by the text of Standard Webhooks. */
  const countMatches = ({ headers, body }: Received, publicKey: string): number => {
    const x = Buffer.from(publicKey.slice('whpk_'.length), 'base64').toString('base64url');
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    const signed = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`);
    return String(headers['webhook-signature'])
      .split(' ')
      .filter((each) => each.startsWith('v1a,'))
      .filter((each) => verify(null, signed, key, Buffer.from(each.slice('v1a,'.length), 'base64'))).length;
  };
  const countSignatures = ({ headers }: Received): number =>
    String(headers['webhook-signature'])
      .split(' ')
      .filter((each) => each.startsWith('v1a,')).length;

  test('adds a signature that the public key of the subscription verifies, and rotates its key with an overlap', async () => {
    const key = tenant.testKey;
    const { subscription, secret } = await create({ ...good, url: receiver.url, signature_scheme: 'asymmetric' }, key);
    const { id, public_key: first } = subscription;
    const send = async (): Promise<Received> => {
      await expectStatus(200, 'POST', `/v1/webhooks/${id}/test`, { key });
      return receiver.requests.at(-1) as Received;
    };
    const rotate = async (hours: number): Promise<Json> => {
      const sent = { key, body: { overlap_hours: hours } };
      return (await expectStatus(200, 'POST', `/v1/webhooks/${id}/rotate-secret`, sent)).body.data.subscription;
    };
    expect(subscription).toMatchObject({ signature_scheme: 'asymmetric', previous_public_key: null });
    const request = await send();
    expect([countSignatures(request), countMatches(request, first)]).toEqual([1, 1]);
    expect(countMatches({ ...request, body: request.body.replace('true', 'false') }, first)).toBe(0);
    expect(await verifyStandardWebhook(request.body, request.headers, first)).toMatchObject({ test: true });
    // The secret signs, too.
    expect(new Webhook(secret).verify(request.body, request.headers as Record<string, string>)).toBeDefined();
    expect(await verifyStandardWebhook(request.body, request.headers, secret)).toBeDefined();
    const { public_key: second, previous_public_key: previous } = await rotate(24);
    expect(previous).toBe(first);
    expect(second).not.toBe(first);
    const during = await send();
    expect([countSignatures(during), countMatches(during, first), countMatches(during, second)]).toEqual([2, 1, 1]);
    const { public_key: third, previous_public_key: none } = await rotate(0);
    expect(none).toBeNull();
    const after = await send();
    expect([countSignatures(after), countMatches(after, second), countMatches(after, third)]).toEqual([1, 0, 1]);
    const [row] = await database()`select * from webhook_subscriptions where id = ${id}`;
    const sealed = new Secrets(inject('secretKey')).decrypt(row?.sealed_signing_key);
    expect(JSON.stringify(row)).not.toContain(sealed);
    expect(JSON.stringify(await readAudit(id))).not.toContain(sealed);
  });

  test('creates a key of its own for each subscription, and deletes it with the scheme', async () => {
    const { subscription } = await create();
    expect(subscription).toMatchObject({ signature_scheme: 'symmetric', public_key: null });
    const made = await patch(subscription.id, { signature_scheme: 'asymmetric' });
    expect(made.public_key).toMatch(/^whpk_[A-Za-z0-9+/]{43}=$/);
    expect(await patch(subscription.id, { signature_scheme: 'asymmetric', description: 'D' })).toMatchObject({
      public_key: made.public_key,
    });
    const other = (await create({ ...good, signature_scheme: 'asymmetric' })).subscription;
    expect(other.public_key).not.toBe(made.public_key);
    expect(await patch(subscription.id, { signature_scheme: 'symmetric' })).toMatchObject({
      signature_scheme: 'symmetric',
      public_key: null,
    });
    const [row] = await database()`select * from webhook_subscriptions where id = ${subscription.id}`;
    expect(row?.sealed_signing_key).toBeNull();
  });
});

describe('rate and order', () => {
  test('has a default of 25 requests per second without an order, and shows changes', async () => {
    const { subscription } = await create();
    expect(subscription).toMatchObject({ max_per_second: 25, ordered: false });
    expect(await patch(subscription.id, { max_per_second: 100, ordered: true })).toMatchObject({
      max_per_second: 100,
      ordered: true,
    });
    expect(await patch(subscription.id, { description: 'D' })).toMatchObject({ max_per_second: 100, ordered: true });
    expect((await create({ ...good, max_per_second: 1, ordered: true })).subscription).toMatchObject({
      max_per_second: 1,
      ordered: true,
    });
    const [, update] = await readAudit(subscription.id);
    expect(update.changes).toEqual({ max_per_second: { from: 25, to: 100 }, ordered: { from: false, to: true } });
  });

  test.each([0, 101, -1])('rejects %i requests per second', async (most) => {
    expect(await refused(400, { ...good, max_per_second: most })).toMatchObject([
      { field: 'max_per_second', code: 'OUT_OF_RANGE' },
    ]);
  });
});

describe('own headers', () => {
  const headers = { Authorization: 'Bearer 7b1d4f', 'X-Gateway': 'crm' };

  test('sends own headers, shows only their names, and stores their values encrypted', async () => {
    const key = tenant.testKey;
    const { subscription } = await create({ ...good, url: receiver.url, headers }, key);
    const path = `/v1/webhooks/${subscription.id}`;
    expect(subscription.header_names).toEqual(['Authorization', 'X-Gateway']);
    await expectStatus(200, 'POST', `${path}/test`, { key });
    expect(receiver.requests.at(-1)?.headers).toMatchObject({ authorization: 'Bearer 7b1d4f', 'x-gateway': 'crm' });
    const changed = { ...headers, Authorization: 'Bearer 99' };
    const after = await patch(subscription.id, { headers: changed }, key);
    expect(after.header_names).toEqual(['Authorization', 'X-Gateway']);
    await expectStatus(200, 'POST', `${path}/test`, { key });
    expect(receiver.requests.at(-1)?.headers.authorization).toBe('Bearer 99');
    const audit = await readAudit(subscription.id);
    const names = ['Authorization', 'X-Gateway'];
    expect(audit.filter(({ action }) => action === 'webhook.update')).toMatchObject([
      { changes: { header_names: { from: names, to: names } } },
    ]);
    const [row] = await database()`select * from webhook_subscriptions where id = ${subscription.id}`;
    const list = await expectStatus(200, 'GET', '/v1/webhooks', { key });
    for (const text of [JSON.stringify(audit), JSON.stringify(row), list.text])
      expect(text).not.toMatch(/7b1d4f|Bearer 99/);
    // The same headers again change nothing.
    expect(await patch(subscription.id, { headers: changed }, key)).toEqual(after);
    expect(await readAudit(subscription.id)).toHaveLength(audit.length);
    expect((await patch(subscription.id, { headers: {} }, key)).header_names).toEqual([]);
    await expectStatus(200, 'POST', `${path}/test`, { key });
    expect(receiver.requests.at(-1)?.headers.authorization).toBeUndefined();
  });

  test('requires own headers again for a URL of another origin', async () => {
    const { id } = (await create({ ...good, headers })).subscription;
    const elsewhere = 'https://other.example.com/crm';
    for (const url of [elsewhere, 'https://hooks.example.com:8443/crm']) {
      const { body } = await expectStatus(400, 'PATCH', `/v1/webhooks/${id}`, { key: tenant.key, body: { url } });
      const [problem, ...others] = body.error.details.fields;
      expect(problem).toMatchObject({ field: 'headers', code: 'REQUIRED' });
      expect(problem.message).toContain('https://hooks.example.com');
      expect(others).toEqual([]);
    }
    expect(await get(id)).toMatchObject({ url: good.url, header_names: ['Authorization', 'X-Gateway'] });
    // The same origin keeps them.
    expect(await patch(id, { url: 'https://HOOKS.example.com:443/new' })).toMatchObject({
      header_names: ['Authorization', 'X-Gateway'],
    });
    expect(await patch(id, { url: elsewhere, headers: { 'X-Own': 'a' } })).toMatchObject({
      url: elsewhere,
      header_names: ['X-Own'],
    });
    expect(await patch(id, { url: good.url, headers: {} })).toMatchObject({ url: good.url, header_names: [] });
    // Without headers, there is nothing to send again.
    expect(await patch(id, { url: elsewhere })).toMatchObject({ url: elsewhere });
  });

  test('stores responses without values of own headers that the receiver repeats', async () => {
    const secrets = ['S1"\\7b1d4f', 'S2-7b1d4f'.repeat(100)];
    const own = { Authorization: 'Bearer S0-7b1d4f', 'X-Quoted': secrets[0], 'X-Long': secrets[1], 'X-Short': 'abc' };
    const key = tenant.testKey;
    const echo = await Receiver.start(({ headers: sent }, response) => {
      const [, token] = String(sent.authorization).split(' ');
      // The limit of what is stored is inside of a value.
      response.writeHead(500).end(`abc ${token} ${JSON.stringify(secrets[0])} ${'.'.repeat(500)}${secrets[1]}`);
    });
    const { id } = (await create({ ...good, url: echo.url, headers: own }, key)).subscription;
    const { text, body } = await expectStatus(200, 'POST', `/v1/webhooks/${id}/test`, { key });
    await echo.stop();
    const { last_response_snippet: snippet } = body.data.delivery;
    expect(snippet).toMatch(/^abc \[removed\] "\[removed\]" \.{500}\[removed\]$/);
    const [row] = await database()`select * from webhook_deliveries where subscription_id = ${id}`;
    for (const each of [text, JSON.stringify({ ...row, body: '' })]) expect(each).not.toContain('7b1d4f');
  });

  test.each([
    'Connection',
    'keep-alive',
    'Proxy-Authorization',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Host',
    'Content-Type',
    'CONTENT-LENGTH',
    'Expect',
    'User-Agent',
    'webhook-id',
    'Webhook-Anything',
    'Service-Signature',
    'service-event',
  ])('rejects the header %s and says why', async (name) => {
    const [problem] = await refused(422, { ...good, headers: { [name]: 'x' } });
    expect(problem).toMatchObject({ field: `headers.${name}`, code: 'INVALID_OPTION' });
    expect(problem.message).toContain('so you cannot set it');
  });

  test.each([
    ['a line break', { 'X-A': 'a\r\nInjected: b' }, 'headers.X-A', 'INVALID_FORMAT'],
    ['a line feed at its end', { 'X-A': 'a\n' }, 'headers.X-A', 'INVALID_FORMAT'],
    ['a character outside of ASCII', { 'X-A': 'ü' }, 'headers.X-A', 'INVALID_FORMAT'],
    ['a space at its start', { 'X-A': ' a' }, 'headers.X-A', 'INVALID_FORMAT'],
    ['a line break in its name', { 'X-A\r\nB': 'a' }, 'headers.X-A\r\nB', 'INVALID_FORMAT'],
    ['a colon in its name', { 'X-A:': 'a' }, 'headers.X-A:', 'INVALID_FORMAT'],
    ['an empty name', { '': 'a' }, 'headers.', 'INVALID_FORMAT'],
    ['a name twice', { 'X-A': 'a', 'x-a': 'b' }, 'headers.x-a', 'DUPLICATE'],
    ['a name of 101 characters', { ['a'.repeat(101)]: 'a' }, `headers.${'a'.repeat(60)}…`, 'TOO_LONG'],
    ['a value of 1,001 characters', { 'X-A': 'a'.repeat(1001) }, 'headers.X-A', 'TOO_LONG'],
    [
      'more than 4,096 characters in all',
      Object.fromEntries(['A', 'B', 'C', 'D', 'E'].map((name) => [name, 'a'.repeat(820)])),
      'headers',
      'TOO_LONG',
    ],
    [
      'an eleventh name',
      Object.fromEntries(Array.from({ length: 11 }, (_, index) => [`X-${index}`, 'a'])),
      'headers',
      'TOO_LONG',
    ],
  ])('rejects a header with %s', async (_, sent, field, code) => {
    const answer = await call('POST', '/v1/webhooks', { key: tenant.key, body: { ...good, headers: sent } });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.fields).toMatchObject([{ field, code }]);
    const { id } = await newWebhook(tenant, 'live');
    await expectStatus(400, 'PATCH', `/v1/webhooks/${id}`, { key: tenant.key, body: { headers: sent } });
  });

  test('accepts ten headers of 4,096 characters in all', async () => {
    const ten = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`X-${index}`, 'a'.repeat(406)]));
    ten['X-9'] += 'a'.repeat(4096 - 10 * 409);
    expect((await create({ ...good, headers: ten }, (await newTenant()).key)).subscription.header_names).toEqual(
      Object.keys(ten),
    );
  });
});

describe('a test', () => {
  const test1 = async (id: string, body?: object): Promise<Json> =>
    (await expectStatus(200, 'POST', `/v1/webhooks/${id}/test`, { key: tenant.testKey, ...(body ? { body } : {}) }))
      .body.data.delivery;

  test('sends a test as one signed request with the example of the event, and lists its outcome', async () => {
    const { id, secret } = await newWebhook(tenant, 'test', {
      url: receiver.url,
      events: ['sla.breached', 'record.*'],
    });
    const delivery = await test1(id);
    expect(delivery).toMatchObject({
      subscription_id: id,
      event: 'sla.breached',
      status: 'succeeded',
      attempts: 1,
      max_attempts: 1,
      is_test: true,
      last_response_code: 200,
      last_response_snippet: 'ok',
      last_error: null,
      next_attempt_at: null,
    });
    const { headers, body } = receiver.requests.at(-1) ?? { headers: {}, body: '' };
    expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toMatchObject({
      test: true,
      test_mode: true,
      event: 'sla.breached',
      id: delivery.event_id,
      data: { level: 0 },
    });
    expect((await test1(id, { event: 'record.deleted' })).event).toBe('record.deleted');
    const list = await expectStatus(200, 'GET', `/v1/webhooks/${id}/deliveries`, { key: tenant.testKey });
    expect(list.body.data.deliveries).toHaveLength(2);
  });

  test('reports a failed test without a retry and without effect on the health of the receiver', async () => {
    const failing = await Receiver.start(answering(500));
    const { id } = await newWebhook(tenant, 'test', { url: failing.url });
    expect(await test1(id)).toMatchObject({ status: 'failed', last_response_code: 500, last_error: 'http_error' });
    await failing.stop();
    expect(await test1(id)).toMatchObject({ status: 'failed', last_response_code: null, last_error: 'connect' });
    expect(await get(id, tenant.testKey)).toMatchObject({ consecutive_failures: 0, last_delivery_at: null });
  });

  test('sends a test of a live subscription to no private address', async () => {
    const { id } = await newWebhook(tenant, 'live', { url: receiver.url });
    const before = receiver.requests.length;
    const answer = await expectStatus(200, 'POST', `/v1/webhooks/${id}/test`, { key: tenant.key });
    expect(answer.body.data.delivery).toMatchObject({ status: 'failed', last_error: 'blocked_address' });
    expect(receiver.requests).toHaveLength(before);
  });

  test('rejects a test of an unknown event', async () => {
    const { id } = await newWebhook(tenant, 'test', { url: receiver.url });
    const options = { key: tenant.testKey, body: { event: 'record.*' } };
    const { body } = await expectStatus(422, 'POST', `/v1/webhooks/${id}/test`, options);
    expect(body.error.details.fields).toMatchObject([{ field: 'event', code: 'INVALID_OPTION' }]);
  });
});
