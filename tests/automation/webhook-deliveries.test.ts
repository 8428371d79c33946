// Webhook deliveries: listing, details, replays and recoveries.
import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { Receiver } from '../support/receivers.ts';
import { createRecord, recordsPath } from '../support/records.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { newDelivery, newWebhook } from '../support/webhooks.ts';

let tenant: Tenant;
let receiver: Receiver;

beforeAll(async () => {
  [tenant, receiver] = [await newTenant(), await Receiver.start()];
});
afterAll(() => receiver.stop());

const key = (): string => tenant.testKey;
const list = async (id: string, query: Record<string, string> = {}): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/webhooks/${id}/deliveries`, { key: key(), query })).body.data;
const post = (status: number, path: string, body?: object) =>
  expectStatus(status, 'POST', path, { key: key(), ...(body ? { body } : {}) });
const at = (day: number): Date => new Date(Date.UTC(2026, 10, day, 12));

describe('deliveries', () => {
  test('shows a delivery with its body and the response', async () => {
    const { id } = await newWebhook(tenant, 'test');
    const body = '{"id":"evt_1", "spaced": true}';
    const deliveryId = await newDelivery(tenant, 'test', id, { body });
    const path = `/v1/webhooks/${id}/deliveries/${deliveryId}`;
    const { delivery } = (await expectStatus(200, 'GET', path, { key: key() })).body.data;
    const [listed] = (await list(id)).deliveries;
    expect(delivery).toEqual({ ...listed, request_body: body });
    expect(listed).toMatchObject({
      id: deliveryId,
      subscription_id: id,
      status: 'failed',
      attempts: 10,
      last_response_code: 500,
      last_response_snippet: 'no',
      last_error: 'http_error',
      duration_ms: 7,
      is_test: false,
      replay_of: null,
    });
    expect(listed.event_id).toMatch(/^evt_[0-9a-f-]{36}$/);
    // It does not exist for another subscription.
    const other = await newWebhook(tenant, 'test');
    await expectStatus(404, 'GET', `/v1/webhooks/${other.id}/deliveries/${deliveryId}`, { key: key() });
    await expectStatus(404, 'GET', `/v1/webhooks/${uuidv7()}/deliveries`, { key: key() });
  });

  test('hides the time of the next attempt while one is under way', async () => {
    const { id } = await newWebhook(tenant, 'test');
    const soon = new Date(Date.now() + 30_000);
    const open = { status: 'retrying', next_attempt_at: soon, completed_at: null };
    await newDelivery(tenant, 'test', id, open);
    expect((await list(id)).deliveries[0].next_attempt_at).toBe(soon.toISOString());
    await database()`update webhook_deliveries set leased_until = ${soon} where subscription_id = ${id}`;
    expect((await list(id)).deliveries[0].next_attempt_at).toBeNull();
  });

  test('filters deliveries by status, event and time in pages of fifty', async () => {
    const { id } = await newWebhook(tenant, 'test');
    for (let day = 1; day <= 3; day += 1)
      await newDelivery(tenant, 'test', id, {
        created_at: at(day),
        event: `record.${['created', 'updated', 'deleted'][day - 1]}`,
        status: day === 2 ? 'succeeded' : 'failed',
      });
    const events = async (query: Record<string, string>): Promise<string[]> =>
      (await list(id, query)).deliveries.map((each: Json) => each.event);
    expect(await events({})).toEqual(['record.deleted', 'record.updated', 'record.created']);
    expect(await events({ status: 'failed' })).toEqual(['record.deleted', 'record.created']);
    expect(await events({ event: 'record.updated' })).toEqual(['record.updated']);
    expect(await events({ from: '2026-11-02T12:00:00Z' })).toEqual(['record.deleted', 'record.updated']);
    expect(await events({ to: '2026-11-02' })).toEqual(['record.updated', 'record.created']);
    expect(await events({ from: '2026-11-03', to: '2026-11-01' })).toEqual([]);
    for (let count = 0; count < 50; count += 1) await newDelivery(tenant, 'test', id, { created_at: at(4) });
    const page = await list(id);
    expect([page.deliveries.length, page.has_more]).toEqual([50, true]);
    expect((await list(id, { cursor: page.next_cursor })).deliveries).toHaveLength(3);
  });
});

describe('the list over all subscriptions', () => {
  test('lists the deliveries of all subscriptions of a mode by each filter, newest first', async () => {
    const own = await newTenant();
    const [first, second] = [await newWebhook(own, 'test'), await newWebhook(own, 'test')];
    const made = [
      await newDelivery(own, 'test', first.id, { created_at: at(1) }),
      await newDelivery(own, 'test', second.id, { created_at: at(2), status: 'succeeded' }),
      await newDelivery(own, 'test', first.id, { created_at: at(3), event: 'record.deleted' }),
      await newDelivery(own, 'test', second.id, { created_at: at(4), status: 'succeeded', event: 'record.deleted' }),
    ];
    await newDelivery(own, 'live', (await newWebhook(own, 'live')).id, { created_at: at(2) });
    const ask = async (query: Record<string, string>): Promise<Json> =>
      (await expectStatus(200, 'GET', '/v1/webhook-deliveries', { key: own.testKey, query })).body.data;
    const found = async (query: Record<string, string>): Promise<number[]> =>
      (await ask(query)).deliveries.map((each: Json) => made.indexOf(each.id));
    expect(await found({})).toEqual([3, 2, 1, 0]);
    expect(await found({ subscription_id: first.id })).toEqual([2, 0]);
    expect(await found({ status: 'succeeded' })).toEqual([3, 1]);
    expect(await found({ event: 'record.deleted' })).toEqual([3, 2]);
    expect(await found({ event: 'record.deleted', status: 'failed', subscription_id: first.id })).toEqual([2]);
    expect(await found({ from: '2026-11-02', to: '2026-11-03' })).toEqual([2, 1]);
    const page = await ask({ limit: '3' });
    expect([page.deliveries.length, page.has_more]).toEqual([3, true]);
    expect(await found({ limit: '3', cursor: page.next_cursor })).toEqual([0]);
    const [listed] = (await ask({ limit: '1' })).deliveries;
    const path = `/v1/webhooks/${second.id}/deliveries`;
    const { deliveries } = (await expectStatus(200, 'GET', path, { key: own.testKey })).body.data;
    expect(listed).toEqual(deliveries[0]);
    expect(await found({ subscription_id: (await newWebhook(tenant, 'test')).id })).toEqual([]);
  });
});

test('sends the changes of a record in their order to an ordered subscription', async () => {
  const own = await newTenant();
  const ordered = await Receiver.start();
  try {
    const sent = { key: own.testKey, body: { url: ordered.url, events: ['record.*'], ordered: true } };
    await expectStatus(201, 'POST', '/v1/webhooks', sent);
    const { id } = await createRecord(own.testKey, 'leads', { first_name: 'Ada', email: 'ada@x.example' });
    for (const first_name of ['Bea', 'Cem', 'Dan'])
      await expectStatus(200, 'PATCH', recordsPath('leads', id), { key: own.testKey, body: { first_name } });
    await vi.waitFor(() => expect(ordered.requests).toHaveLength(4), 10_000);
    const times = ordered.bodies.map(({ data }) => String(data.occurred_at));
    expect(times).toEqual(times.toSorted());
    expect(ordered.bodies[0]?.event).toBe('record.created');
    expect(ordered.mostAtOnce).toBe(1);
  } finally {
    await ordered.stop();
  }
});

describe('a replay', () => {
  test('replays one delivery as a new copy with the same event id', async () => {
    const { id } = await newWebhook(tenant, 'test', { url: receiver.url });
    const body = JSON.stringify({ id: `evt_${uuidv7()}`, event: 'record.created', data: {} });
    const original = await newDelivery(tenant, 'test', id, { status: 'succeeded', body });
    const { delivery } = (await post(201, `/v1/webhooks/deliveries/${original}/replay`)).body.data;
    expect(delivery).toMatchObject({ status: 'pending', attempts: 0, replay_of: original, last_response_code: null });
    expect(delivery.id).not.toBe(original);
    await vi.waitFor(async () => expect((await list(id)).deliveries[0].status).toBe('succeeded'));
    const sent = receiver.requests.find(({ headers }) => headers['service-delivery-id'] === delivery.id);
    expect(sent?.body).toBe(body);
    expect(sent?.headers).toMatchObject({ 'service-event-id': delivery.event_id, 'service-attempt': '1' });
  });

  test('replays the deliveries of a window except tests, and returns their number', async () => {
    const { id } = await newWebhook(tenant, 'test', { url: receiver.url });
    for (let day = 1; day <= 4; day += 1)
      await newDelivery(tenant, 'test', id, { created_at: at(day), status: day % 2 === 0 ? 'succeeded' : 'failed' });
    await newDelivery(tenant, 'test', id, { created_at: at(2), is_test: true });
    const path = `/v1/webhooks/${id}/replay`;
    expect((await post(202, path, { from: '2026-11-02', to: '2026-11-03' })).body.data).toEqual({ queued: 2 });
    const only = { from: '2026-11-01', to: '2026-11-04', status: 'succeeded' };
    expect((await post(202, path, only)).body.data).toEqual({ queued: 2 });
    await vi.waitFor(async () => {
      const copies = (await list(id)).deliveries.filter((each: Json) => each.replay_of !== null);
      expect(copies.map((each: Json) => each.status)).toEqual(Array(4).fill('succeeded'));
    });
    const { body } = await post(400, path, { from: '2026-11-03', to: '2026-11-01' });
    expect(body.error.details.fields).toMatchObject([{ field: 'to', code: 'OUT_OF_RANGE' }]);
  });

  test('sends the copies of an ordered subscription one after the other, in the order of their events', async () => {
    const { id } = await newWebhook(tenant, 'test', { url: receiver.url, is_ordered: true });
    const record = uuidv7();
    const originals: string[] = [];
    for (const position of [2, 3, 1]) {
      const of = { record_id: record, position, is_ordered: true, created_at: at(position) };
      originals[position] = await newDelivery(tenant, 'test', id, of);
    }
    await post(202, `/v1/webhooks/${id}/replay`, { from: '2026-11-01', to: '2026-11-04' });
    await vi.waitFor(async () => {
      const copies = (await list(id)).deliveries.filter((each: Json) => each.replay_of !== null);
      expect(copies.map((each: Json) => each.status)).toEqual(Array(3).fill('succeeded'));
    });
    const copies = await database()`
      select id, replay_of from webhook_deliveries where subscription_id = ${id} and replay_of is not null`;
    const sent = receiver.requests.flatMap(({ headers }) => {
      const copy = copies.find((each) => each.id === headers['service-delivery-id']);
      return copy ? [copy.replay_of] : [];
    });
    expect(sent).toEqual(originals.slice(1));
    const { delivery } = (await post(201, `/v1/webhooks/deliveries/${originals[1]}/replay`)).body.data;
    expect(delivery).toMatchObject({ status: 'pending', replay_of: originals[1] });
    expect(delivery.next_attempt_at).not.toBeNull();
    const { data } = (await post(202, `/v1/webhooks/${id}/recover`, { since: '2026-11-01' })).body;
    expect(data.queued).toBe(3);
    await vi.waitFor(async () => {
      const all = (await list(id)).deliveries.map((each: Json) => each.status);
      expect(all).toEqual(Array(7).fill('succeeded'));
    });
  });

  test('rejects replays and recoveries while the subscription is disabled', async () => {
    const { id } = await newWebhook(tenant, 'test', { disabled_at: new Date(), disabled_reason: 'failures' });
    const original = await newDelivery(tenant, 'test', id);
    for (const [path, body] of [
      [`/v1/webhooks/deliveries/${original}/replay`, undefined],
      [`/v1/webhooks/${id}/replay`, { from: '2026-11-01', to: '2026-11-02' }],
      [`/v1/webhooks/${id}/recover`, { since: '2026-11-01' }],
    ] as const) {
      const answer = await post(409, path, body);
      expect(answer.body.error.details.reason).toBe('subscription_disabled');
    }
  });
});

test('recovers exactly the deliveries that failed, were cancelled or were skipped since a time', async () => {
  const { id } = await newWebhook(tenant, 'test', { url: receiver.url });
  const made = new Map<string, string>();
  for (const status of ['failed', 'cancelled', 'skipped', 'succeeded'])
    made.set(status, await newDelivery(tenant, 'test', id, { status, created_at: at(3) }));
  await newDelivery(tenant, 'test', id, { status: 'failed', created_at: at(1) });
  await newDelivery(tenant, 'test', id, { status: 'failed', created_at: at(3), is_test: true });
  const before = receiver.requests.length;
  const { data } = (await post(202, `/v1/webhooks/${id}/recover`, { since: '2026-11-02' })).body;
  expect(data).toEqual({ queued: 3, has_more: false });
  await vi.waitFor(() => expect(receiver.requests.length - before).toBe(3));
  const sent = receiver.requests.slice(before).map(({ headers }) => headers['service-delivery-id']);
  expect(sent.sort()).toEqual(['failed', 'cancelled', 'skipped'].map((status) => made.get(status)).sort());
  expect((await post(202, `/v1/webhooks/${id}/recover`, { since: '2026-11-02' })).body.data.queued).toBe(0);
});
