// The clock of test mode: everything that depends on time follows it, and live mode does not.
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { lockActiveKeyCount } from '../../db/access/api-keys.ts';
import { findKeyAccess, isCredentialValid } from '../../db/access/current-access.ts';
import { Pool, type Sql } from '../../db/client/pool.ts';
import { removeClock } from '../../db/onboarding/test-clock.ts';
import { type ClockedJobs, createClockRun } from '../../jobs/onboarding/test-clocks.ts';
import type { ClockContext, JobPools } from '../../jobs/runner.ts';
import { storedSubscription, subscribed } from '../support/billing.ts';
import { proposeAccount } from '../support/change-sets.ts';
import { type CallOptions, expectStatus, type Json } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { changesAfter, now, readFeed } from '../support/feeds.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { Receiver } from '../support/receivers.ts';
import { createRecord, createRecords, lead, readRecord, recordsPath, walk } from '../support/records.ts';
import { sharedToken } from '../support/requests.ts';
import { book, hold, newPool, search } from '../support/scheduling.ts';
import { database, newKey, newTenant, newUser, rowDatabase, type Tenant, useDatabase } from '../support/tenants.ts';
import { newDelivery, newWebhook } from '../support/webhooks.ts';

const path = '/v1/test-mode/clock';
const hour = 3600;
const day = 24 * hour;
const twoYears = 730 * day;
/** Jobs handle what became due within this time. */
const soon = { timeout: 30_000, interval: 100 };

const getClock = async (key: string): Promise<Json> => (await expectStatus(200, 'GET', path, { key })).body.data.clock;
const advance = async (key: string, seconds: number, more: CallOptions = {}): Promise<Json> =>
  (await expectStatus(200, 'POST', path, { key, body: { advance_seconds: seconds }, ...more })).body.data.clock;
const resetClock = async (key: string): Promise<Json> =>
  (await expectStatus(200, 'DELETE', path, { key })).body.data.clock;
/** Advances the clock, and waits until its jobs have handled what became due. */
async function advanceAndWait(key: string, seconds: number): Promise<void> {
  await advance(key, seconds);
  await vi.waitFor(async () => expect((await getClock(key)).status).toBe('ready'), soon);
}
/** The seconds by which a time is after the real time. */
const secondsAhead = (time: string): number => (new Date(time).getTime() - Date.now()) / 1000;
/** Matches a time that is some seconds after the real time, within the duration of a slow test. */
const isAhead = (time: string, seconds: number): void => {
  expect(secondsAhead(time)).toBeGreaterThan(seconds - 60);
  expect(secondsAhead(time)).toBeLessThanOrEqual(seconds + 1);
};

const findEvents = async ({ companyId }: Tenant, event: string): Promise<Json[]> => [
  ...(await database()`select * from ${recordedEvents(database())} where company_id = ${companyId} and event = ${event}`),
];

/**
 * Imports an account in test mode, and waits for its end. The import itself is on the real time.
 * @returns its id
 */
async function importAccount(key: string, name: string): Promise<string> {
  const { body } = await expectStatus(201, 'POST', '/v1/imports', { key, body: { object: 'accounts' } });
  const { id, created_at } = body.data.import;
  isAhead(created_at, 0);
  const part = { rawBody: Buffer.from(`name\n${name}\n`), headers: { 'content-type': 'text/csv' } };
  await expectStatus(200, 'POST', `/v1/imports/${id}/parts?number=1`, { key, ...part });
  await expectStatus(202, 'POST', `/v1/imports/${id}/start`, { key });
  const status = async () => (await expectStatus(200, 'GET', `/v1/imports/${id}`, { key })).body.data.import.status;
  await vi.waitFor(async () => expect(await status()).toBe('completed'), soon);
  return id;
}

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

describe('the clock', () => {
  test('is at the real time until it is advanced, and then runs on', async () => {
    const { testKey: key } = await newTenant();
    const before = await getClock(key);
    expect(before).toEqual({ now: expect.any(String), offset_seconds: 0, status: 'ready' });
    isAhead(before.now, 0);
    const advanced = await advance(key, hour);
    expect(advanced.offset_seconds).toBe(hour);
    isAhead(advanced.now, hour);
    expect(await advance(key, day)).toMatchObject({ offset_seconds: hour + day });
    const after = await getClock(key);
    expect(new Date(after.now).getTime()).toBeGreaterThan(new Date(advanced.now).getTime());
  });

  test('is set to a time that is not before its own, and never goes backwards', async () => {
    const { testKey: key } = await newTenant();
    const target = new Date(Date.now() + day * 1000);
    const setTo = (time: Date, status: number) =>
      expectStatus(status, 'POST', path, { key, body: { set_to: time.toISOString() } });
    const { clock } = (await setTo(target, 200)).body.data;
    expect(new Date(clock.now).getTime() - target.getTime()).toBeGreaterThanOrEqual(0);
    expect(new Date(clock.now).getTime() - target.getTime()).toBeLessThan(1000);
    const { error } = (await setTo(new Date(target.getTime() - 1000), 409)).body;
    expect(error).toMatchObject({ code: 'CONFLICT', details: { reason: 'clock_backwards', now: expect.any(String) } });
    isAhead(error.details.now, clock.offset_seconds);
    await setTo(new Date(0), 409);
    expect(await getClock(key)).toMatchObject({ offset_seconds: clock.offset_seconds });
  });

  test('says what time it is to each concurrent call that would set it backwards', async () => {
    const { testKey: key } = await newTenant();
    const times = Array.from({ length: 8 }, (_, at) => new Date(Date.now() + (8 - at) * day * 1000));
    const answers = await Promise.all(
      times.map((time) => expectStatus([200, 409], 'POST', path, { key, body: { set_to: time.toISOString() } })),
    );
    expect((await getClock(key)).offset_seconds).toBeGreaterThan(8 * day - 60);
    for (const [at, { status, body }] of answers.entries())
      if (status === 409)
        expect(new Date(body.error.details.now).getTime()).toBeGreaterThan((times[at] as Date).getTime());
  });

  test('is ready only after deliveries that are being sent, and merges that are running', async () => {
    const own = await newTenant();
    const sql = database();
    const readStatus = async (): Promise<string> => (await getClock(own.testKey)).status;
    const leased = { status: 'pending', completed_at: null, leased_until: new Date(Date.now() + hour * 1000) };
    const id = await newDelivery(own, 'test', randomUUID(), leased);
    expect(await readStatus()).toBe('advancing');
    await sql`update webhook_deliveries set leased_until = null where id = ${id}`;
    expect(await readStatus()).toBe('ready');
    const merge = randomUUID();
    await sql`
      insert into merges (company_id, test_mode, id, object, source_id, target_id, moved, fields, status, undo_until, created_by_kind,
        created_by_id, created_at)
      values (${own.companyId}, true, ${merge}, 'leads', ${randomUUID()}, ${randomUUID()}, '{}', '{}', 'running', now(), 'api_key', 'x', now())`;
    expect(await readStatus()).toBe('advancing');
    await sql`update merges set status = 'completed' where id = ${merge}`;
    expect(await readStatus()).toBe('ready');
  });

  test('is at most two years ahead in all', async () => {
    const { testKey: key } = await newTenant();
    await advance(key, twoYears - hour);
    for (const body of [{ advance_seconds: hour + 1 }, { set_to: '2400-01-01T00:00:00Z' }]) {
      const { error } = (await expectStatus(422, 'POST', path, { key, body })).body;
      expect(error.details.fields).toMatchObject([{ field: Object.keys(body)[0], code: 'RULE_FAILED' }]);
    }
    expect(await advance(key, hour)).toMatchObject({ offset_seconds: twoYears });
  });

  test('takes exactly one of the two fields, and only whole positive seconds', async () => {
    const { testKey: key } = tenant;
    const both = { advance_seconds: 1, set_to: new Date().toISOString() };
    for (const body of [{}, both]) await expectStatus(400, 'POST', path, { key, body });
    const invalid = [
      { advance_seconds: 0 },
      { advance_seconds: 1.5 },
      { advance_seconds: twoYears + 1 },
      { set_to: 'soon' },
    ];
    for (const body of invalid) await expectStatus([400, 422], 'POST', path, { key, body });
    expect(await getClock(key)).toMatchObject({ offset_seconds: 0 });
  });

  test('adds up concurrent advances, and advances once for a repeated Idempotency-Key', async () => {
    const { testKey: key } = await newTenant();
    await Promise.all(Array.from({ length: 8 }, () => advance(key, hour)));
    expect(await getClock(key)).toMatchObject({ offset_seconds: 8 * hour });
    const first = await advance(key, hour, { idempotencyKey: 'advanced-once' });
    // The stored response is kept for 24 hours of the real time.
    await advance(key, 30 * day);
    expect(await advance(key, hour, { idempotencyKey: 'advanced-once' })).toEqual(first);
    expect(await getClock(key)).toMatchObject({ offset_seconds: 9 * hour + 30 * day });
  });

  test('belongs to test keys with the scope, and to the test mode of one workspace', async () => {
    const own = await newTenant();
    for (const [method, body] of [['GET'], ['POST', { advance_seconds: 1 }], ['DELETE']] as const) {
      const { error } = (await expectStatus(403, method, path, { key: own.key, body })).body;
      expect(error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { reason: 'test_key_required' } });
    }
    const reader = await newKey(own, { environment: 'test', scopes: ['settings:view'] });
    await expectStatus(403, 'POST', path, { key: reader, body: { advance_seconds: 1 } });
    await expectStatus(403, 'DELETE', path, { key: reader });
    await advance(own.testKey, day);
    expect(await getClock(reader)).toMatchObject({ offset_seconds: day });
    expect(await getClock(tenant.testKey)).toMatchObject({ offset_seconds: 0 });
    isAhead((await createRecord(own.key, 'leads', lead())).created_at, 0);
    isAhead((await createRecord(tenant.testKey, 'leads', lead())).created_at, 0);
  });

  test('is recorded in the audit log, which stays on the real time', async () => {
    const own = await newTenant();
    await advance(own.testKey, day);
    const { id } = await createRecord(own.testKey, 'leads', lead());
    await createRecords(own.testKey, 'leads', [lead()]);
    await resetClock(own.testKey);
    // The times of the record itself stay in the future, and those of its changes follow them.
    for (const first_name of ['Ada', 'Bea', 'Cleo'])
      await expectStatus(200, 'PATCH', recordsPath('leads', id), { key: own.testKey, body: { first_name } });
    isAhead((await readRecord(own.testKey, 'leads', id)).updated_at, day);
    const rows = await database()`
      select action, record_id, metadata, occurred_at, changes from audit_logs where company_id = ${own.companyId} and test_mode order by occurred_at, id`;
    const names = rows.flatMap(({ record_id, changes }) =>
      record_id === id && changes?.first_name?.to ? [changes.first_name.to] : [],
    );
    expect(names.slice(-3)).toEqual(['Ada', 'Bea', 'Cleo']);
    expect(rows.map(({ action }) => action)).toEqual(
      expect.arrayContaining(['test_clock.advance', 'test_clock.reset']),
    );
    expect(rows.find(({ record_id }) => record_id === id)).toBeDefined();
    for (const { occurred_at: at } of rows) expect(secondsAhead(at)).toBeLessThan(1);
  });
});

describe('data of test mode', () => {
  test('gets the times of the clock, with events that stay in order', async () => {
    const { testKey: key } = await newTenant();
    const cursor = await now(key);
    const first = await createRecord(key, 'leads', lead());
    await advance(key, 400 * day);
    const second = await createRecord(key, 'leads', lead());
    isAhead(second.created_at, 400 * day);
    const answer = await expectStatus(200, 'GET', recordsPath('leads', second.id), { key });
    isAhead(answer.body.meta.timestamp, 0);
    await vi.waitFor(async () => expect(await changesAfter(key, cursor)).toHaveLength(2), soon);
    const changes = await changesAfter(key, cursor);
    expect(changes.map((each) => each.record_id)).toEqual([first.id, second.id]);
    isAhead(changes[1].occurred_at, 400 * day);
    await resetClock(key);
    const third = await createRecord(key, 'leads', lead());
    isAhead(third.created_at, 0);
    await vi.waitFor(
      async () =>
        expect((await changesAfter(key, cursor)).map((each) => each.record_id)).toEqual([
          first.id,
          second.id,
          third.id,
        ]),
      soon,
    );
  });

  test('is found by relative dates of the clock: follow-ups become overdue', async () => {
    const { testKey: key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const followup_at = new Date(Date.now() + 3 * day * 1000).toISOString();
    const activity = { entity_type: 'lead', entity_id: id, activity_type: 'Call', summary: 'Spoke', followup_at };
    await expectStatus(201, 'POST', '/v1/activities', { key, body: activity });
    const filter = JSON.stringify({ field: 'next_followup_at', op: 'lt', value: { relative: 'today' } });
    const list = async () => (await walk(key, 'leads', { filter })).map((each) => each.id);
    expect(await list()).toEqual([]);
    await advance(key, 4 * day);
    expect(await list()).toEqual([id]);
  });

  test('is also written at the time of the clock by imports, which stay on the real time', async () => {
    const { testKey: key } = await newTenant();
    await advance(key, 40 * day);
    const name = `Imported ${Math.random()}`;
    await importAccount(key, name);
    const [row] = await database()`select created_at from accounts where name = ${name} and test_mode`;
    isAhead(row?.created_at, 40 * day);
  });
});

describe('what becomes due by the clock', () => {
  test('includes holds, which free their slots', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    const pool = await newPool(own, { members: 1 });
    const at = new Date(Math.ceil(Date.now() / day / 1000) * day * 1000 + 2 * day * 1000);
    const range = { from: at.toISOString(), to: new Date(at.getTime() + 2 * hour * 1000).toISOString() };
    const [slot] = (await search(key, pool, range)).slots;
    const held = await hold(key, slot);
    const starts = async () => (await search(key, pool, range)).slots.map((each: Json) => each.start_at);
    expect(await starts()).not.toContain(slot.start_at);
    await advance(key, day);
    await expectStatus(404, 'GET', `/v1/scheduling/reservations/${held.id}`, { key });
    expect(await starts()).toContain(slot.start_at);
    // Slots are offered from the time of the clock on.
    await advance(key, 3 * day);
    expect(await starts()).toEqual([]);
  });

  test('includes bookings, which are completed after their end', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    const { id } = await newUser(own);
    await newPool(own, { members: [id] });
    const booking = await book(key, [id]);
    const live = await book(own.key, [id]);
    const read = async (bookingId: string, by: string) =>
      (await expectStatus(200, 'GET', `/v1/bookings/${bookingId}`, { key: by })).body.data.booking.status;
    await advance(key, Math.ceil(secondsAhead(booking.end_at)) + hour);
    await vi.waitFor(async () => expect(await read(booking.id, key)).toBe('completed'), soon);
    expect(await read(live.id, own.key)).toBe('confirmed');
  });

  test('includes SLA deadlines, in test mode only and once', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    const policy = { name: 'Answer', entity_type: 'lead', first_response_time: 60 };
    await expectStatus(201, 'POST', '/v1/settings/sla-policies', { key: own.key, body: policy });
    const cursor = await now(key);
    const late = await createRecord(key, 'leads', lead());
    const live = await createRecord(own.key, 'leads', lead());
    await advanceAndWait(key, 2 * hour);
    const breaches = async () => (await changesAfter(key, cursor)).filter(({ event }) => event === 'sla.breached');
    await vi.waitFor(async () => expect(await breaches()).toMatchObject([{ record_id: late.id }]), soon);
    const [breach] = await breaches();
    isAhead(breach.occurred_at, 2 * hour);
    const [clock] = await database()`select breached_at from sla_clocks where record_id = ${live.id}`;
    expect(clock).toEqual({ breached_at: null });
    // A lead that is created by the advanced clock has its own deadline.
    const next = await createRecord(key, 'leads', lead());
    await advanceAndWait(key, hour / 2);
    expect(await breaches()).toHaveLength(1);
    await advanceAndWait(key, hour);
    await vi.waitFor(
      async () => expect((await breaches()).map((each) => each.record_id)).toEqual([late.id, next.id]),
      soon,
    );
  });

  test('includes change sets, which expire', async () => {
    const own = await newTenant();
    const set = await proposeAccount(own.testKey);
    const live = await proposeAccount(own.key);
    await advance(own.testKey, 4 * day);
    const [first] = await database()`select status from change_sets where id = ${set.id}`;
    expect(['pending', 'expired']).toContain(first?.status);
    const read = async (id: string, key: string) =>
      (await expectStatus(200, 'GET', `/v1/change-sets/${id}`, { key })).body.data.change_set.status;
    expect(await read(set.id, own.testKey)).toBe('expired');
    await vi.waitFor(async () => {
      expect(await findEvents(own, 'change_set.expired')).toMatchObject([{ test_mode: true }]);
    }, soon);
    expect(await read(live.id, own.key)).toBe('pending');
  });

  test('includes trials and periods of the subscription of test mode, one after the other', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    await subscribed(own, 'live');
    const before = await storedSubscription(own, 'live');
    await subscribed(own, 'test');
    const { period_end: end } = await storedSubscription(own, 'test');
    await advanceAndWait(key, 100 * day);
    const after = await storedSubscription(own, 'test');
    expect(after.status).toBe('active');
    // Three renewals: the period contains the time of the clock.
    expect(after.period_start.getTime()).toBeGreaterThan(end.getTime() + 30 * day * 1000);
    expect(secondsAhead(after.period_end)).toBeGreaterThan(100 * day - 60);
    expect(await storedSubscription(own, 'live')).toEqual(before);
    const trialEndsAt = new Date(Date.now() + 110 * day * 1000);
    await subscribed(own, 'test', { status: 'trialing', trial_ends_at: trialEndsAt, due_at: trialEndsAt });
    await advanceAndWait(key, 5 * day);
    expect((await storedSubscription(own, 'test')).status).toBe('trialing');
    await advanceAndWait(key, 6 * day);
    expect((await storedSubscription(own, 'test')).status).toBe('none');
  });

  test('includes test keys, which expire, and are announced before', async () => {
    const own = await newTenant();
    const expiresAt = new Date(Date.now() + 30 * day * 1000);
    const key = await newKey(own, { environment: 'test', expiresAt });
    const live = await newKey(own, { expiresAt });
    const sql = rowDatabase();
    const { companyId } = own;
    const findIds = () => database()<{ id: string; environment: string }[]>`
      select id, environment from api_keys where company_id = ${companyId} and expires_at is not null order by environment`;
    const [liveId, testId] = (await findIds()).map(({ id }) => id) as [string, string];
    /** By jobs and by calls that waited. */
    const readValidity = async (id: string): Promise<boolean[]> => [
      (await findKeyAccess(sql, companyId, id)) !== undefined,
      await isCredentialValid(sql, { companyId, actor: { kind: 'api_key', id, name: null }, userId: null }, ''),
    ];
    const active = await lockActiveKeyCount(sql, companyId, new Date());
    await advance(own.testKey, 25 * day);
    await expectStatus(200, 'GET', recordsPath('leads'), { key });
    expect(await readValidity(testId)).toEqual([true, true]);
    await vi.waitFor(async () => {
      expect(await findEvents(own, 'api_key.expiring')).toMatchObject([{ test_mode: true }]);
    }, soon);
    await advance(own.testKey, 6 * day);
    const { error } = (await expectStatus(401, 'GET', recordsPath('leads'), { key })).body;
    expect(error.code).toBe('API_KEY_EXPIRED');
    expect([await readValidity(testId), await readValidity(liveId)]).toEqual([
      [false, false],
      [true, true],
    ]);
    expect(await lockActiveKeyCount(sql, companyId, new Date())).toBe(active - 1);
    const token = await sharedToken(own);
    const { body } = await expectStatus(200, 'GET', '/v1/api-keys', { token, query: { status: 'expired' } });
    expect(body.data.api_keys).toMatchObject([{ environment: 'test', status: 'expired' }]);
    await expectStatus(200, 'GET', recordsPath('leads'), { key: live });
  });

  test('includes the trash, which is emptied after 30 days', async () => {
    const own = await newTenant();
    const ids: Record<string, string> = {};
    for (const key of [own.testKey, own.key]) {
      const { id } = await createRecord(key, 'leads', lead());
      await expectStatus(200, 'DELETE', recordsPath('leads', id), { key });
      ids[key] = id;
    }
    await advanceAndWait(own.testKey, 31 * day);
    const rows = await database()`select id from deleted_records where company_id = ${own.companyId}`;
    expect(rows).toEqual([{ id: ids[own.key] }]);
  });
});

describe('webhooks of test mode', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
  });
  afterAll(() => receiver.stop());

  test('are retried by the clock, with signatures of the real time', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    receiver.behave = (_, response) => void response.writeHead(500).end();
    const body = { url: receiver.url, events: ['record.created'] };
    const { subscription } = (await expectStatus(201, 'POST', '/v1/webhooks', { key, body })).body.data;
    await createRecord(key, 'leads', lead());
    const deliveries = async () =>
      (await expectStatus(200, 'GET', `/v1/webhooks/${subscription.id}/deliveries`, { key })).body.data.deliveries;
    await vi.waitFor(async () => expect(await deliveries()).toMatchObject([{ status: 'retrying', attempts: 1 }]), soon);
    const [failed] = await deliveries();
    receiver.behave = (_, response) => void response.end('ok');
    await advance(key, Math.ceil(secondsAhead(failed.next_attempt_at)) + 1);
    await vi.waitFor(
      async () => expect(await deliveries()).toMatchObject([{ status: 'succeeded', attempts: 2 }]),
      soon,
    );
    const sent = Number(/t=(\d+)/.exec(String(receiver.requests.at(-1)?.headers['service-signature']))?.[1]);
    expect(Math.abs(sent - Date.now() / 1000)).toBeLessThan(60);
    // Without a further advance, new events are delivered as usual; also after the clock was reset.
    await createRecord(key, 'leads', lead());
    await vi.waitFor(async () => expect(await deliveries()).toMatchObject([{ status: 'succeeded' }, {}]), soon);
    await advance(key, 30 * day);
    await expectStatus(201, 'POST', '/v1/webhooks', { key, body: { ...body, url: `${receiver.url}/second` } });
    await resetClock(key);
    const before = receiver.requests.length;
    await createRecord(key, 'leads', lead());
    await vi.waitFor(() => expect(receiver.requests.length).toBe(before + 2), soon);
  });

  test('are sent once if the clock is advanced or reset during an attempt', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    const held: ServerResponse[] = [];
    receiver.behave = ({ path: to }, response) => void (to === '/hook/slow' ? held.push(response) : response.end());
    const sentTo = (to: string) => receiver.requests.filter(({ path: each }) => each === to);
    const subscribe = async (to: string): Promise<string> => {
      const body = { url: `${receiver.url}/${to}`, events: ['record.created'] };
      return (await expectStatus(201, 'POST', '/v1/webhooks', { key, body })).body.data.subscription.id;
    };
    const slow = await subscribe('slow');
    await subscribe('prompt');
    const steps = [async () => {}, () => advance(key, hour), () => resetClock(key)];
    for (const [index, step] of steps.entries()) {
      await step();
      await createRecord(key, 'leads', lead());
      // The sender has processed what is due after the step.
      await vi.waitFor(() => expect(sentTo('/hook/prompt')).toHaveLength(index + 1), soon);
      await vi.waitFor(() => expect(held.length).toBeGreaterThan(index), soon);
    }
    for (const response of held) response.end();
    receiver.behave = (_, response) => void response.end();
    await vi.waitFor(async () => {
      const { body } = await expectStatus(200, 'GET', `/v1/webhooks/${slow}/deliveries`, { key });
      expect(body.data.deliveries).toEqual(
        steps.map(() => expect.objectContaining({ status: 'succeeded', attempts: 1 })),
      );
    }, soon);
    const ids = sentTo('/hook/slow').map(({ headers }) => headers['service-delivery-id']);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('receive events of imports if they were created at a time of the clock', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    await advance(key, 40 * day);
    receiver.behave = (_, response) => void response.end('ok');
    const body = { url: receiver.url, events: ['import.completed', 'import.undone'] };
    const { subscription } = (await expectStatus(201, 'POST', '/v1/webhooks', { key, body })).body.data;
    const events = async (): Promise<string[]> =>
      (await expectStatus(200, 'GET', `/v1/webhooks/${subscription.id}/deliveries`, { key })).body.data.deliveries.map(
        (each: Json) => each.event,
      );
    const id = await importAccount(key, `Imported ${Math.random()}`);
    await vi.waitFor(async () => expect(await events()).toEqual(['import.completed']), soon);
    await expectStatus(202, 'POST', `/v1/imports/${id}/undo`, { key });
    await vi.waitFor(async () => expect(await events()).toContain('import.undone'), soon);
    for (const name of ['import.completed', 'import.undone']) {
      const [event] = await findEvents(own, name);
      isAhead(event?.occurred_at, 40 * day);
      expect(event?.data.occurred_at).toBe(event?.occurred_at.toISOString());
    }
  });

  test('wait for their retry if only the clock of another workspace is advanced', async () => {
    const own = await newTenant();
    const at = new Date(Date.now() + hour * 1000);
    const { id } = await newWebhook(own, 'test', { due_at: at, url: receiver.url });
    // A webhook of the other workspace, which is due at the same time and is processed.
    const other = await newTenant();
    const processed = await newWebhook(other, 'test', { due_at: at, url: receiver.url });
    await advance(other.testKey, day);
    const readDueTime = async (webhook: string) => {
      const [row] = await database()`select due_at from webhook_subscriptions where id = ${webhook}`;
      return row?.due_at;
    };
    await vi.waitFor(async () => expect(await readDueTime(processed.id)).toBeNull(), soon);
    expect(await readDueTime(id)).toEqual(at);
  });
});

// In its own database, so that no server does the work.
describe('the job of test clocks', () => {
  let url: string;
  let pools: JobPools;
  let tenants: Tenant[];
  const names = (companyIds: readonly string[]): string[] => companyIds.toSorted();

  beforeAll(async () => {
    url = await newDatabase();
    await useDatabase(url);
    const settings = { url, lanes: 1, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
    pools = {
      platform: new Pool({ ...settings, role: 'crm_platform' }),
      tenants: new Pool({ ...settings, role: 'crm_app' }),
    };
    tenants = [await newTenant(), await newTenant(), await newTenant()];
    for (const each of tenants) {
      await newWebhook(each, 'test', { due_at: new Date() });
      await setClock(each, day);
    }
  });
  afterAll(async () => {
    await Promise.all([pools.platform.close(1), pools.tenants.close(1)]);
    await useDatabase(undefined);
    await dropDatabase(url);
  });

  const setClock = ({ companyId }: Tenant, seconds: number) => database()`
    insert into test_clocks (company_id, ahead_seconds) values (${companyId}, ${seconds})
    on conflict (company_id) do update set ahead_seconds = ${seconds}`;

  /** Runs the job with pages of one clock, and some work in place of the sending of webhooks. */
  async function run(
    work: (context: ClockContext) => Promise<unknown>,
    runClocks = createClockRun(['webhooks'], 60_000),
  ) {
    const context = { ...buildJobContext('test-clocks', pools), batchSize: 1 };
    await runClocks(context, { webhooks: work } as Partial<ClockedJobs> as ClockedJobs);
  }

  test('ends the turn of a clock with endless work, and continues with the next ones', async () => {
    const served: string[] = [];
    await run(async ({ clockOf, signal }) => {
      served.push(clockOf);
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    });
    expect(served).toEqual(names(tenants.map(({ companyId }) => companyId)));
  });

  test('continues behind the last clock if a run ends before all had their turn', async () => {
    const served: string[] = [];
    const runClocks = createClockRun(['webhooks'], 0);
    for (let turn = 0; turn < 3; turn += 1) await run(async ({ clockOf }) => served.push(clockOf), runClocks);
    expect(served).toEqual(names(tenants.map(({ companyId }) => companyId)));
  });

  test('does nothing more at the time of a clock that was removed, also if it was advanced again', async () => {
    const [own] = tenants as [Tenant];
    const ends: Record<string, boolean> = {};
    const runAfter = (name: string, change: () => PromiseLike<unknown>) =>
      run(async (context) => {
        if (context.clockOf !== own.companyId) return;
        await change();
        let isDone = false;
        const scope = { companyId: own.companyId, testMode: true };
        const work = async () => {
          isDone = true;
        };
        await context.transaction(scope, work).catch(() => undefined);
        ends[name] = isDone && !context.signal.aborted;
      });
    const remove = () => database()`delete from test_clocks where company_id = ${own.companyId}`;
    await runAfter('advanced', () => setClock(own, 2 * day));
    await runAfter('removed', remove);
    await setClock(own, 2 * day);
    await runAfter('removed and advanced again', async () => {
      await remove();
      await setClock(own, day);
    });
    expect(ends).toEqual({ advanced: true, removed: false, 'removed and advanced again': false });
  });
});

describe('the end of the clock', () => {
  const findResets = (companyId: string) => database()`
    select from audit_logs where company_id = ${companyId} and test_mode and action = 'test_clock.reset'`;

  test('keeps all data with its times, and can be repeated', async () => {
    const { testKey: key, companyId } = await newTenant();
    await advance(key, day);
    const { id } = await createRecord(key, 'leads', lead());
    expect(await resetClock(key)).toMatchObject({ offset_seconds: 0 });
    expect(await resetClock(key)).toMatchObject({ offset_seconds: 0 });
    expect(await findResets(companyId)).toHaveLength(1);
    isAhead((await getClock(key)).now, 0);
    isAhead((await readRecord(key, 'leads', id)).created_at, day);
  });

  test('continues what was begun: deliveries, approved messages and campaigns', async () => {
    const own = await newTenant();
    const { testKey: key, companyId } = own;
    await advance(key, 400 * day);
    const sql = database();
    const later = new Date(Date.now() + (400 * day + hour) * 1000);
    // Disabled, so that no sender takes the delivery.
    const { id: webhook } = await newWebhook(own, 'test', { disabled_at: new Date(), disabled_reason: 'manual' });
    const waiting = { status: 'retrying', next_attempt_at: later, completed_at: null };
    const delivery = await newDelivery(own, 'test', webhook, waiting);
    const [draft, running, scheduled] = [randomUUID(), randomUUID(), randomUUID()];
    await sql`
      insert into message_drafts (company_id, test_mode, id, channel, status, recipient, body, due_at, created_by_kind, created_by_id, created_at,
        updated_at)
      values (${companyId}, true, ${draft}, 'sms', 'approved', '+15555550100', 'Hi', ${later}, 'api_key', 'x', now(), now())`;
    for (const [id, status] of [
      [running, 'running'],
      [scheduled, 'scheduled'],
    ] as const)
      await sql`
        insert into campaigns (company_id, test_mode, id, name, object, channels, status, due_at, created_by_kind, created_by_id, created_at,
          updated_at)
        values (${companyId}, true, ${id}, 'C', 'leads', '[]', ${status}, ${later}, 'api_key', 'x', now(), now())`;
    await resetClock(key);
    /** Jobs may have taken it already. */
    const isDue = async (table: string, column: string, id: string): Promise<boolean> => {
      const [row] =
        await sql`select coalesce(${sql(column)} <= now(), true) as is_due from ${sql(table)} where id = ${id}`;
      return row?.is_due;
    };
    expect(await isDue('webhook_deliveries', 'next_attempt_at', delivery)).toBe(true);
    expect(await isDue('message_drafts', 'due_at', draft)).toBe(true);
    expect(await isDue('campaigns', 'due_at', running)).toBe(true);
    expect(await isDue('campaigns', 'due_at', scheduled)).toBe(false);
  });

  test('continues a change of the subscription that was begun', async () => {
    const { testKey: key, companyId } = await newTenant();
    await advance(key, 400 * day);
    const now = new Date();
    const later = new Date(now.getTime() + 400 * day * 1000);
    const read = async (sql: Sql): Promise<Json> => {
      await sql`
        insert into billing_operations (company_id, test_mode, id, change, leased_until, created_at)
        values (${companyId}, true, ${randomUUID()}, '{}', ${later}, ${later})`;
      await removeClock(sql, companyId, now);
      const [row] =
        await sql`select leased_until from billing_operations where company_id = ${companyId} and test_mode`;
      // Rolled back, so that no job carries out this change, which is no real one.
      throw Object.assign(new Error('rolled back'), { row });
    };
    const rolledBack = await rowDatabase()
      .begin((sql) => read(sql as unknown as Sql))
      .catch((error: unknown) => error);
    expect(rolledBack).toMatchObject({ row: { leasedUntil: now } });
  });

  test('ends the overlap of rotated keys and secrets after the time that it had left', async () => {
    const own = await newTenant();
    const { testKey: key } = own;
    await advance(key, 40 * day);
    const rotated = await newKey(own, { environment: 'test' });
    const unlimited = new Date(Date.now() + 300 * day * 1000);
    const other = await newKey(own, { environment: 'test', expiresAt: unlimited });
    const token = await sharedToken(own);
    const { api_keys } = (await expectStatus(200, 'GET', '/v1/api-keys', { token })).body.data;
    const find = (of: string): Json => api_keys.find((each: Json) => of.endsWith(each.last4));
    await expectStatus(201, 'POST', `/v1/api-keys/${find(rotated).id}/rotate`, { token });
    const { subscription } = (
      await expectStatus(201, 'POST', '/v1/webhooks', {
        key,
        body: { url: 'https://hooks.example.com/crm', events: ['record.created'] },
      })
    ).body.data;
    const path = `/v1/webhooks/${subscription.id}/rotate-secret`;
    const { previous_secret_expires_at } = (await expectStatus(200, 'POST', path, { key })).body.data;
    isAhead(previous_secret_expires_at, 41 * day);
    const readExpiry = async (of: string): Promise<string> =>
      (await expectStatus(200, 'GET', `/v1/api-keys/${find(of).id}`, { token })).body.data.api_key.expires_at;
    isAhead(await readExpiry(rotated), 41 * day);
    await resetClock(key);
    isAhead(await readExpiry(rotated), day);
    expect(await readExpiry(other)).toBe(unlimited.toISOString());
    const [row] = await database()`
      select previous_secret_expires_at as until from webhook_subscriptions where id = ${subscription.id}`;
    isAhead(row?.until, day);
  });

  test('comes with the reset of all test data, but not with that of some objects', async () => {
    const { testKey: key, companyId } = await newTenant();
    await advance(key, day);
    await createRecord(key, 'leads', lead());
    await expectStatus(200, 'POST', '/v1/test-mode/reset', { key, body: { objects: ['tasks'] } });
    expect(await getClock(key)).toMatchObject({ offset_seconds: day });
    const { deleted } = (await expectStatus(200, 'POST', '/v1/test-mode/reset', { key })).body.data;
    expect(deleted).toMatchObject({ leads: 1 });
    expect(await getClock(key)).toMatchObject({ offset_seconds: 0, status: 'ready' });
    expect((await readFeed(key)).changes).toEqual([]);
    expect(await findResets(companyId)).toHaveLength(1);
  });
});
