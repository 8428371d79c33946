// Webhook subscriptions: creation, changes, deletion, secrets and tests.
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { verifyWebhook } from '../../sdk/src/index.ts';
import { newBranch } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { answering, Receiver } from '../support/receivers.ts';
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
