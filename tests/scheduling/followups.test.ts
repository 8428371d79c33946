// The next follow-up of leads and deals: the earlier of the planned one and the next meeting.
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { createRecord, lead } from '../support/records.ts';
import { book, newPolicy } from '../support/scheduling.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let policyId: string;

beforeAll(async () => {
  tenant = await newTenant();
  policyId = (await newPolicy(tenant, { horizon_days: 90 })).id;
});

const day = 86_400_000;
const inDays = (days: number): string => new Date(Math.floor(Date.now() / day) * day + days * day).toISOString();
const newLead = async (key = tenant.key): Promise<string> => (await createRecord(key, 'leads', lead())).id;
const readLead = async (id: string, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/objects/leads/records/${id}`, { key })).body.data.record;
const followup = async (id: string, key = tenant.key): Promise<string | null> =>
  (await readLead(id, key)).next_followup_at;
const plan = async (id: string, days: number, object = 'lead'): Promise<Json> =>
  createRecord(tenant.key, 'activities', {
    activity_type: 'Call',
    entity_type: object,
    entity_id: id,
    summary: 'x',
    followup_at: inDays(days),
  });
const meet = async (id: string, days: number, key = tenant.key): Promise<Json> => {
  const window = { from: inDays(days), to: inDays(days + 1) };
  return book(key, [(await newUser(tenant)).id], { policy_id: policyId, record_id: id, ...window });
};
const cancel = async (booking: Json): Promise<void> => {
  await expectStatus(200, 'POST', `/v1/bookings/${booking.id}/cancel`, {
    key: tenant.key,
    body: {},
    idempotencyKey: true,
  });
};

describe('a planned follow-up and a meeting', () => {
  test('the meeting stays the next follow-up if a later follow-up is planned', async () => {
    const id = await newLead();
    const booking = await meet(id, 3);
    const before = await readLead(id);
    const { id: activityId } = await plan(id, 60);
    expect(await followup(id)).toBe(booking.start_at);
    // Only last_contacted_at and the version changed, and no second event follows.
    await expectStatus(200, 'PATCH', `/v1/activities/${activityId}`, {
      key: tenant.key,
      body: { followup_at: inDays(50) },
    });
    const [row] = await database()`select version from leads where id = ${id}`;
    const events = await database()`
      select from ${recordedEvents(database())}
      where company_id = ${tenant.companyId} and event = 'record.updated' and data ->> 'record_id' = ${id}`;
    expect(row?.version).toBe(1 + events.length);
    expect(before.next_followup_at).toBe(booking.start_at);
    await cancel(booking);
    expect(await followup(id)).toBe(inDays(50));
  });

  test('a canceled meeting restores the planned follow-up, and not one that was replaced', async () => {
    const id = await newLead();
    await plan(id, 2);
    await plan(id, 20);
    const booking = await meet(id, 5);
    expect(await followup(id)).toBe(booking.start_at);
    await cancel(booking);
    expect(await followup(id)).toBe(inDays(20));
  });

  test('an overdue follow-up remains the next one before, during and after a meeting', async () => {
    const id = await newLead();
    await plan(id, 2);
    const overdue = inDays(-2);
    await database()`update activities set followup_at = ${overdue} where entity_id = ${id}`;
    await database()`update leads set planned_followup_at = ${overdue}, next_followup_at = ${overdue} where id = ${id}`;
    const booking = await meet(id, 5);
    expect(await followup(id)).toBe(overdue);
    await cancel(booking);
    expect(await followup(id)).toBe(overdue);
  });
});

test('a completed meeting makes the next one the follow-up, with an audit row and an event of the system', async () => {
  const own = await newTenant();
  const { id: policy_id } = await newPolicy(own, { horizon_days: 90 });
  const user = (await newUser(own)).id;
  const id = await newLead(own.testKey);
  const about = { policy_id, record_id: id };
  const [first, second] = [
    await book(own.testKey, [user], { ...about, from: inDays(2), to: inDays(3) }),
    await book(own.testKey, [user], { ...about, from: inDays(12), to: inDays(13) }),
  ];
  expect(await followup(id, own.testKey)).toBe(first.start_at);
  await expectStatus(200, 'POST', '/v1/test-mode/clock', { key: own.testKey, body: { advance_seconds: 4 * 86_400 } });
  const isReady = async () =>
    (await expectStatus(200, 'GET', '/v1/test-mode/clock', { key: own.testKey })).body.data.clock.status;
  await vi.waitFor(async () => expect(await isReady()).toBe('ready'), { timeout: 30_000, interval: 100 });
  const { booking } = (await expectStatus(200, 'GET', `/v1/bookings/${first.id}`, { key: own.testKey })).body.data;
  expect(booking.status).toBe('completed');
  expect(await followup(id, own.testKey)).toBe(second.start_at);
  const changes = { next_followup_at: { from: first.start_at, to: second.start_at } };
  const [audit] = await database()`
    select actor_kind, actor_id, action, changes from audit_logs
    where company_id = ${own.companyId} and record_id = ${id} and actor_kind = 'system'`;
  expect(audit).toEqual({ actor_kind: 'system', actor_id: 'bookings', action: 'lead.update', changes });
  const events = await database()`
    select data, request_id from ${recordedEvents(database())}
    where company_id = ${own.companyId} and event = 'record.updated' and data ->> 'record_id' = ${id} and request_id is null`;
  expect(events.map(({ data }) => data.changed_fields)).toEqual([['next_followup_at']]);
});

describe('records that come back', () => {
  test('a restored record does not have the time of a meeting that was canceled meanwhile', async () => {
    const id = await newLead();
    await plan(id, 20);
    const booking = await meet(id, 5);
    await expectStatus(200, 'DELETE', `/v1/objects/leads/records/${id}`, { key: tenant.key });
    await cancel(booking);
    const { body, headers } = await expectStatus(200, 'POST', `/v1/objects/leads/deleted-records/${id}/restore`, {
      key: tenant.key,
    });
    expect(body.data.record.next_followup_at).toBe(inDays(20));
    const now = await expectStatus(200, 'GET', `/v1/objects/leads/records/${id}`, { key: tenant.key });
    expect(now.body.data.record).toEqual(body.data.record);
    expect([null, now.headers.get('etag')]).toContain(headers.get('etag'));
  });

  test('both records of an undone merge have their own planned follow-ups and meetings', async () => {
    const [source, target] = [await newLead(), await newLead()];
    await plan(source, 20);
    await plan(target, 30);
    const [canceled, kept] = [await meet(source, 5), await meet(target, 10)];
    const { merge } = (
      await expectStatus(200, 'POST', `/v1/objects/leads/records/${source}/merge`, {
        key: tenant.key,
        body: { into_id: target },
      })
    ).body.data;
    expect(await followup(target)).toBe(canceled.start_at);
    await cancel(canceled);
    expect(await followup(target)).toBe(kept.start_at);
    const undone = await expectStatus(200, 'POST', `/v1/merges/${merge.id}/undo`, { key: tenant.key });
    expect(undone.body.data.conflicts).toEqual([]);
    expect([await followup(source), await followup(target)]).toEqual([inDays(20), kept.start_at]);
    await cancel(kept);
    expect(await followup(target)).toBe(inDays(30));
  });

  test('a merge joins the planned follow-ups, apart from the meetings', async () => {
    const [source, target] = [await newLead(), await newLead()];
    await plan(source, 20);
    await plan(target, 30);
    const booking = await meet(target, 5);
    await expectStatus(200, 'POST', `/v1/objects/leads/records/${source}/merge`, {
      key: tenant.key,
      body: { into_id: target },
    });
    expect(await followup(target)).toBe(booking.start_at);
    await cancel(booking);
    expect(await followup(target)).toBe(inDays(20));
  });
});
