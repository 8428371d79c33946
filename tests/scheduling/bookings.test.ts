// Bookings: created from holds or for the first free person; shown, moved and cancelled.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { createRecord, lead } from '../support/records.ts';
import {
  attendee,
  book,
  halfHour,
  hold,
  meeting,
  newBooking,
  newPolicy,
  newPool,
  search,
} from '../support/scheduling.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

const get = async (id: string, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/bookings/${id}`, { key })).body.data.booking;
const post = (path: string, body: object, key = tenant.key) => call('POST', path, { key, body, idempotencyKey: true });
const refusal = async (path: string, body: object, key = tenant.key): Promise<Json> => {
  const { status, body: answer } = await post(path, body, key);
  return { ...answer.error.details, status, code: answer.error.code };
};
const later = (booking: Json, minutes: number): object => ({
  from: new Date(Date.parse(booking.start_at) + minutes * 60_000).toISOString(),
  to: new Date(Date.parse(booking.end_at) + minutes * 60_000).toISOString(),
});
/** Returns a user, and a policy under which everyone can be booked. */
const somebody = async (): Promise<{ id: string; policy_id: string }> => ({
  id: (await newUser(tenant)).id,
  policy_id: (await newPolicy(tenant)).id,
});

describe('a held slot', () => {
  test('finds, holds and books a slot, which is then unavailable to others', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const record = await createRecord(tenant.key, 'leads', lead());
    const { slots } = await search(tenant.key, pool, { limit: 3, timezone: 'Asia/Dubai' });
    const reservation = await hold(tenant.key, slots[1]);
    const held = { status: 'held', user_id: pool.member_ids[0], start_at: slots[1].start_at, ttl_seconds: 600 };
    expect(reservation).toMatchObject(held);
    const { slot_token } = slots[1];
    const body = { slot_token, reservation_id: reservation.id, attendee, meeting, record_id: record.id };
    const { body: answer } = await expectStatus(201, 'POST', '/v1/bookings', {
      key: tenant.key,
      body,
      idempotencyKey: true,
    });
    const { booking } = answer.data;
    expect(booking).toMatchObject({
      status: 'confirmed',
      user_id: pool.member_ids[0],
      user_name: 'Uma User',
      pool_id: pool.id,
      start_at: slots[1].start_at,
      end_at: slots[1].end_at,
      provider: 'internal',
      policy_id: pool.policy_id,
      attendee: { ...attendee, phone: null, timezone: 'Asia/Dubai', locale: null },
      object: 'leads',
      record_id: record.id,
      meeting_title: 'First call',
      location_kind: 'video',
      rescheduled_from: null,
      test_mode: false,
    });
    expect(await get(booking.id)).toEqual(booking);
    await expectStatus(404, 'GET', `/v1/scheduling/reservations/${reservation.id}`, { key: tenant.key });
    expect(await refusal('/v1/bookings', body)).toMatchObject({ status: 404 });
    const starts = (await search(tenant.key, pool, { limit: 3 })).slots.map((slot: Json) => slot.start_at);
    expect(starts).not.toContain(slots[1].start_at);
    const { alternatives, ...refused } = await refusal('/v1/scheduling/reservations', { slot_token });
    expect(refused).toMatchObject({ status: 409, code: 'CONFLICT', reason: 'slot_conflict' });
    expect(alternatives).toHaveLength(5);
    await hold(tenant.key, alternatives[0]);
  });

  test('books a held slot only with its own token', async () => {
    const pool = await newPool(tenant);
    const { slots } = await search(tenant.key, pool, { limit: 2 });
    const reservation = await hold(tenant.key, slots[0]);
    const other = { slot_token: slots[1].slot_token, reservation_id: reservation.id, attendee, meeting };
    expect(await refusal('/v1/bookings', other)).toMatchObject({ status: 400, fields: [{ field: 'reservation_id' }] });
    const forged = { ...other, slot_token: `${slots[0].slot_token}x` };
    expect(await refusal('/v1/bookings', forged)).toMatchObject({ status: 400, reason: 'invalid_slot_token' });
    const foreign = await newTenant();
    const refused = await refusal('/v1/scheduling/reservations', { slot_token: slots[0].slot_token }, foreign.key);
    expect(refused).toMatchObject({ status: 400, reason: 'invalid_slot_token' });
    const test = await refusal('/v1/scheduling/reservations', { slot_token: slots[0].slot_token }, tenant.testKey);
    expect(test).toMatchObject({ status: 400, reason: 'invalid_slot_token' });
  });
});

describe('the first free person', () => {
  test('books the earliest time, and of several free people the one with the fewest meetings ahead', async () => {
    const ids = (await Promise.all([newUser(tenant), newUser(tenant)])).map(({ id }) => id);
    const { id: policy_id } = await newPolicy(tenant);
    const booked: Json[] = [];
    for (let count = 0; count < 4; count += 1) booked.push(await book(tenant.key, ids, { policy_id }));
    const starts = booked.map((each) => Date.parse(each.start_at));
    expect(starts[1]).toBe(starts[0]);
    expect(starts[3]).toBe(starts[2]);
    expect(starts[2]).toBe((starts[0] as number) + 1_800_000);
    expect(booked.map((each) => each.user_id)).toEqual([ids[0], ids[1], ids[0], ids[1]]);
  });

  test('rejects a booking with later times if no one is free in the window', async () => {
    const { id, policy_id } = await somebody();
    const window = { from: halfHour(4).toISOString(), to: halfHour(5).toISOString() };
    await book(tenant.key, [id], { policy_id, ...window });
    const asked = { member_ids: [id], policy_id, ...window, attendee, meeting };
    const { alternatives, ...refused } = await refusal('/v1/bookings', asked);
    expect(refused).toMatchObject({ status: 409, reason: 'no_slot' });
    expect(alternatives).toHaveLength(5);
    const next = { start_at: halfHour(5).toISOString(), end_at: halfHour(6).toISOString(), user_ids: [id] };
    expect(alternatives[0]).toEqual(next);
  });

  test('requires active visible users', async () => {
    const inactive = await newUser(tenant, { status: 'inactive' });
    const stranger = await newUser(await newTenant());
    for (const { id } of [inactive, stranger]) {
      const refused = await refusal('/v1/bookings', { member_ids: [id], attendee, meeting });
      const expected = { status: 400, code: 'VALIDATION_ERROR', unknown_user_ids: [id] };
      expect(refused).toMatchObject({ ...expected, fields: [{ field: 'member_ids' }] });
    }
  });
});

describe('a body', () => {
  const member_ids = [crypto.randomUUID()];
  const bothWays = { slot_token: 'x', reservation_id: crypto.randomUUID(), member_ids };
  const unreachable = { member_ids, attendee: { name: 'Sara' } };
  const misdialled = { member_ids, attendee: { name: 'Sara', phone: '123' } };
  const onMars = { member_ids, attendee: { ...attendee, timezone: 'Mars/Base' } };
  test.each([
    ['with a slot and members', bothWays, 'member_ids', 'CONFLICTING_FIELDS'],
    ['without a slot and members', {}, 'member_ids', 'REQUIRED'],
    ['with a slot token but no reservation', { slot_token: 'x' }, 'reservation_id', 'REQUIRED'],
    ['whose attendee has no address', unreachable, 'attendee.email', 'REQUIRED'],
    ['whose attendee has an invalid phone number', misdialled, 'attendee.phone', 'INVALID_FORMAT'],
    ['with an unknown time zone', onMars, 'attendee.timezone', 'INVALID_FORMAT'],
  ])('rejects a body %s', async (_, more, field, code) => {
    const refused = await refusal('/v1/bookings', { attendee, meeting, ...more });
    expect(refused).toMatchObject({ status: 400, code: 'VALIDATION_ERROR', fields: [{ field, code }] });
  });

  test('rejects a booking about an unknown record, and books nothing', async () => {
    const { id, policy_id } = await somebody();
    const about = { member_ids: [id], policy_id, attendee, meeting, record_id: crypto.randomUUID() };
    const refused = await refusal('/v1/bookings', about);
    expect(refused).toMatchObject({ status: 422, fields: [{ field: 'record_id', code: 'NOT_FOUND' }] });
    expect(await database()`select from taken_times where user_id = ${id}`).toHaveLength(0);
  });
});

describe('a booking', () => {
  test('moves a booking by a new one that refers to the old one', async () => {
    const before = await get(await newBooking(tenant, tenant.key));
    const moved = await post(`/v1/bookings/${before.id}/reschedule`, { ...later(before, 90), reason: 'Asked for' });
    expect(moved.status).toBe(200);
    const after = moved.body.data.booking;
    const { user_id, attendee: same } = before;
    expect(after).toMatchObject({ status: 'confirmed', rescheduled_from: before.id, user_id, attendee: same });
    expect(Date.parse(after.start_at)).toBe(Date.parse(before.start_at) + 90 * 60_000);
    expect(await get(before.id)).toMatchObject({ status: 'rescheduled', rescheduled_to: after.id });
    const again = await refusal(`/v1/bookings/${before.id}/reschedule`, later(before, 120));
    expect(again).toMatchObject({ status: 409, reason: 'not_confirmed' });
    // Its old time is free again.
    const { start_at } = await book(tenant.key, [user_id], { policy_id: before.policy_id });
    expect(start_at).toBe(before.start_at);
  });

  test('moves a booking by less than its own length', async () => {
    const before = await get(await newBooking(tenant, tenant.key));
    const body = later(before, 10);
    await expectStatus(200, 'POST', `/v1/bookings/${before.id}/reschedule`, { key: tenant.key, body });
  });

  test('rejects moving a booking to a busy time, another length or the past', async () => {
    const { id, policy_id } = await somebody();
    const [first, second] = [await book(tenant.key, [id], { policy_id }), await book(tenant.key, [id], { policy_id })];
    const path = `/v1/bookings/${second.id}/reschedule`;
    const refused = await refusal(path, { from: first.start_at, to: first.end_at });
    expect(refused).toMatchObject({ status: 409, reason: 'slot_conflict' });
    expect(refused.alternatives.length).toBeGreaterThan(0);
    const longer = await refusal(path, { from: second.start_at, to: halfHour(9).toISOString() });
    expect(longer).toMatchObject({ status: 400, fields: [{ field: 'to', code: 'OUT_OF_RANGE' }] });
    const past = await refusal(path, later(second, -1_000_000));
    expect(past).toMatchObject({ status: 400, fields: [{ field: 'from', code: 'OUT_OF_RANGE' }] });
    expect(await get(second.id)).toEqual(second);
  });

  test('rejects moving a booking of an inactive user, and permits cancelling it', async () => {
    const { id, policy_id } = await somebody();
    const booking = await book(tenant.key, [id], { policy_id });
    await database()`update users set status = 'inactive' where id = ${id}`;
    const refused = await refusal(`/v1/bookings/${booking.id}/reschedule`, later(booking, 60));
    expect(refused).toMatchObject({ status: 409, reason: 'no_eligible_rep' });
    expect(await get(booking.id)).toEqual(booking);
    await expectStatus(200, 'POST', `/v1/bookings/${booking.id}/cancel`, { key: tenant.key });
  });

  test('cancels a booking once and frees its time', async () => {
    const booking = await get(await newBooking(tenant, tenant.key));
    const cancel = async (body: object): Promise<Json> =>
      (await expectStatus(200, 'POST', `/v1/bookings/${booking.id}/cancel`, { key: tenant.key, body })).body.data
        .booking;
    const cancelled = await cancel({ reason: 'Ill' });
    const at = expect.any(String);
    expect(cancelled).toMatchObject({ status: 'cancelled', cancellation_reason: 'Ill', cancelled_at: at });
    expect(await cancel({ reason: 'Other' })).toEqual(cancelled);
    expect(await get(booking.id)).toEqual(cancelled);
    const { start_at } = await book(tenant.key, [booking.user_id], { policy_id: booking.policy_id });
    expect(start_at).toBe(booking.start_at);
    const moved = await refusal(`/v1/bookings/${booking.id}/reschedule`, later(booking, 60));
    expect(moved).toMatchObject({ status: 409, reason: 'not_confirmed' });
  });

  test('emits booking events in live mode only', async () => {
    const record = await createRecord(tenant.key, 'leads', lead());
    const { id, policy_id } = await somebody();
    const booking = await book(tenant.key, [id], { policy_id, record_id: record.id });
    const moved = await post(`/v1/bookings/${booking.id}/reschedule`, { ...later(booking, 60), reason: 'Asked for' });
    const { id: movedId, start_at, end_at } = moved.body.data.booking;
    await post(`/v1/bookings/${movedId}/cancel`, {});
    await book(tenant.testKey, [id], { policy_id });
    const recorded = await database()`
      select event, data from ${recordedEvents(database())}
      where company_id = ${tenant.companyId} and data ->> 'user_id' = ${id} order by occurred_at`;
    const about = { object: 'leads', record_id: record.id, user_id: id };
    const [first, second] = [
      { appointment_id: booking.id, scheduled_at: booking.start_at, end_at: booking.end_at },
      { appointment_id: movedId, scheduled_at: start_at, end_at },
    ];
    const why = { previous_scheduled_at: booking.start_at, reason: 'Asked for' };
    expect(recorded).toMatchObject([
      { event: 'appointment.scheduled', data: { ...about, ...first } },
      { event: 'appointment.rescheduled', data: { ...about, ...second, ...why } },
      { event: 'appointment.cancelled', data: { ...about, ...second } },
    ]);
  });

  test('keeps test bookings separate, so that the person is free in live mode', async () => {
    const { id, policy_id } = await somebody();
    const [trial, real] = [
      await book(tenant.testKey, [id], { policy_id }),
      await book(tenant.key, [id], { policy_id }),
    ];
    expect(trial).toMatchObject({ provider: 'test', test_mode: true, start_at: real.start_at });
    await expectStatus(404, 'GET', `/v1/bookings/${trial.id}`, { key: tenant.key });
  });

  test('shows and changes bookings only with visibility of the person', async () => {
    const { id: elsewhere } = await newUser(tenant, { branchId: tenant.branchId });
    const [own] = await database()`
      insert into branches (company_id, id, name, is_default, created_at)
      values (${tenant.companyId}, gen_random_uuid(), 'Other', false, now()) returning id`;
    const key = await newKey(tenant, { reach: { kind: 'branch', id: own?.id } });
    const id = await newBooking(tenant, tenant.key, elsewhere);
    await expectStatus(404, 'GET', `/v1/bookings/${id}`, { key });
    await expectStatus(404, 'POST', `/v1/bookings/${id}/cancel`, { key, body: {} });
    const { body } = await expectStatus(200, 'GET', '/v1/bookings', { key });
    expect(body.data.bookings).toEqual([]);
    const reaching = await newKey(tenant, { reach: { kind: 'branch', id: tenant.branchId } });
    await expectStatus(200, 'GET', `/v1/bookings/${id}`, { key: reaching });
  });
});

describe('a missed booking', () => {
  test('can be marked from its start on, once it is confirmed or completed', async () => {
    const { id, policy_id } = await somebody();
    const booking = await book(tenant.key, [id], { policy_id });
    const path = `/v1/bookings/${booking.id}/no-show`;
    const refused = { status: 409, reason: 'not_started', start_at: booking.start_at };
    expect(await refusal(path, {})).toMatchObject(refused);
    await database()`
      update bookings set start_at = now() - interval '1 second', end_at = now() + interval '30 minutes' where id = ${booking.id}`;
    const answers = await Promise.all(Array.from({ length: 4 }, () => post(path, {})));
    expect(answers.map(({ body }) => body.data.booking.status)).toEqual(Array(4).fill('no_show'));
    const audit = await database()`
      select changes from audit_logs where record_id = ${booking.id} and action = 'booking.no_show'`;
    expect(audit).toMatchObject([{ changes: { status: { from: 'confirmed', to: 'no_show' } } }]);
    expect(await refusal(`/v1/bookings/${booking.id}/cancel`, {})).toMatchObject({ reason: 'not_confirmed' });
    await database()`update bookings set status = 'completed' where id = ${booking.id}`;
    expect((await post(path, {})).body.data.booking.status).toBe('no_show');
    await database()`update bookings set status = 'cancelled' where id = ${booking.id}`;
    expect(await refusal(path, {})).toMatchObject({ status: 409, reason: 'not_confirmed' });
  });

  test('follows the clock of test mode', async () => {
    const own = await newTenant();
    const user = await newUser(own);
    const { id: policy_id } = await newPolicy(own);
    const booking = await book(own.testKey, [user.id], { policy_id, from: halfHour(4).toISOString() });
    const path = `/v1/bookings/${booking.id}/no-show`;
    expect(await refusal(path, {}, own.testKey)).toMatchObject({ reason: 'not_started' });
    const to = new Date(Date.parse(booking.start_at) + 60_000).toISOString();
    await expectStatus(200, 'POST', '/v1/test-mode/clock', { key: own.testKey, body: { set_to: to } });
    expect((await post(path, {}, own.testKey)).body.data.booking.status).toBe('no_show');
  });
});

describe('the details of a booking', () => {
  test('keeps guests, answers and metadata through a move, and invites each guest once', async () => {
    const { id } = await somebody();
    const questions = [
      { question: 'How large is your roof?', required: true },
      { question: 'Anything else?', required: false },
    ];
    const { id: policy_id, ...policy } = await newPolicy(tenant, { questions });
    expect(policy.questions).toEqual(questions);
    const guest = `${randomUUID()}@example.com`;
    const answers = [{ question: ' How large is your roof? ', answer: '80 square meters' }];
    const more = {
      guests: [guest.toUpperCase(), guest, attendee.email],
      answers,
      metadata: { campaign: 'spring', empty: '' },
    };
    const booking = await book(tenant.key, [id], { policy_id, ...more });
    const kept = {
      guests: [guest],
      answers: [{ question: 'How large is your roof?', answer: '80 square meters' }],
      metadata: more.metadata,
    };
    expect(booking).toMatchObject(kept);
    expect(await get(booking.id)).toEqual(booking);
    const moved = (await post(`/v1/bookings/${booking.id}/reschedule`, later(booking, 240))).body.data.booking;
    expect(await get(moved.id)).toMatchObject(kept);
    await post(`/v1/bookings/${moved.id}/cancel`, {});
    const mails = await database()`select template from mails where recipient = ${guest} order by id`;
    expect(mails.map(({ template }) => template)).toEqual(['booking_scheduled', 'booking_moved', 'booking_cancelled']);
    const test = await book(tenant.testKey, [id], { policy_id, ...more });
    expect(test).toMatchObject(kept);
    const sent = await database()`select count(*)::int as count from mails where recipient = ${guest}`;
    expect(sent[0]?.count).toBe(3);
  });

  test('books nothing without answers to required questions, in both ways', async () => {
    const question = 'How large is your roof?';
    const pool = await newPool(tenant, { members: 1, policy: { questions: [{ question, required: true }] } });
    const { policy_id, member_ids } = pool;
    const [slot] = (await search(tenant.key, pool, { limit: 1 })).slots;
    const { id: reservation_id } = await hold(tenant.key, slot);
    const held = { slot_token: slot.slot_token, reservation_id, attendee, meeting };
    for (const body of [held, { member_ids, policy_id, attendee, meeting }])
      for (const answers of [undefined, [], [{ question: 'Another one?', answer: 'Yes' }]]) {
        const fields = [{ field: 'answers', code: 'REQUIRED' }];
        expect(await refusal('/v1/bookings', { ...body, answers })).toMatchObject({ status: 400, fields });
      }
    const answers = [{ question, answer: 'Large' }];
    expect((await post('/v1/bookings', { ...held, answers })).status).toBe(201);
  });

  test('gives video calls the address of the policy, and keeps it through a move', async () => {
    const { id } = await somebody();
    const { id: policy_id } = await newPolicy(tenant, {
      meeting_url_template: 'https://meet.example.com/{booking_id}',
    });
    const booking = await book(tenant.key, [id], { policy_id });
    const url = `https://meet.example.com/${booking.id}`;
    expect(booking).toMatchObject({ location: url, meeting_url: url });
    const moved = (await post(`/v1/bookings/${booking.id}/reschedule`, later(booking, 240))).body.data.booking;
    expect(moved.meeting_url).toBe(url);
    const own = { title: 'x', location: 'https://own.example.com/room' };
    expect(await book(tenant.key, [id], { policy_id, meeting: own })).toMatchObject({ meeting_url: own.location });
    const phone = { title: 'x', location_kind: 'phone' };
    expect(await book(tenant.key, [id], { policy_id, meeting: phone })).toMatchObject({
      location: null,
      meeting_url: null,
    });
  });

  test.each([
    ['guests', { guests: Array.from({ length: 11 }, (_, index) => `guest${index}@example.com`) }, 'guests'],
    ['a guest without an address', { guests: ['Omar'] }, 'guests[0]'],
    [
      'metadata',
      { metadata: Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`key${index}`, 'x'])) },
      'metadata',
    ],
    ['a long key of metadata', { metadata: { ['k'.repeat(41)]: 'x' } }, 'metadata'],
    ['an empty key of metadata', { metadata: { '': 'x' } }, 'metadata'],
    ['a key of metadata with two lines', { metadata: { 'a\nb': 'x' } }, 'metadata'],
    [
      'two answers to one question',
      {
        answers: [
          { question: 'x', answer: 'a' },
          { question: ' x', answer: 'b' },
        ],
      },
      'answers[1].question',
    ],
    ['a number in metadata', { metadata: { size: 3 } }, 'metadata.size', 422],
    ['an empty answer', { answers: [{ question: 'x', answer: ' ' }] }, 'answers[0].answer'],
  ])('rejects invalid %s', async (_, more, field, status = 400) => {
    const { id, policy_id } = await somebody();
    const refused = await refusal('/v1/bookings', { member_ids: [id], policy_id, attendee, meeting, ...more });
    expect(refused).toMatchObject({ status, fields: [{ field }] });
  });
});

describe('the next follow-up of a lead or deal', () => {
  const followup = async (object: string, id: string): Promise<string | null> =>
    (await expectStatus(200, 'GET', `/v1/objects/${object}/records/${id}`, { key: tenant.key })).body.data.record
      .next_followup_at;

  test.each(['leads', 'deals'])(
    'is the earliest confirmed meeting or planned contact of a record of %s',
    async (object) => {
      const { id, policy_id } = await somebody();
      const record = await createRecord(tenant.key, object, object === 'leads' ? lead() : { name: 'A deal' });
      const about = { policy_id, object, record_id: record.id };
      const first = await book(tenant.key, [id], about);
      expect(await followup(object, record.id)).toBe(first.start_at);
      const second = await book(tenant.key, [id], about);
      expect(await followup(object, record.id)).toBe(first.start_at);
      const moved = (await post(`/v1/bookings/${first.id}/reschedule`, later(first, 240))).body.data.booking;
      expect(await followup(object, record.id)).toBe(second.start_at);
      await post(`/v1/bookings/${second.id}/cancel`, {});
      expect(await followup(object, record.id)).toBe(moved.start_at);
      const contact = { entity_type: object.slice(0, -1), entity_id: record.id, activity_type: 'Call', summary: 'x' };
      const planned = { ...contact, followup_at: new Date(Date.parse(moved.start_at) + 86_400_000).toISOString() };
      const { activity } = (await post('/v1/activities', planned)).body.data;
      await post(`/v1/bookings/${moved.id}/cancel`, {});
      expect(await followup(object, record.id)).toBe(activity.followup_at);
      const next = await book(tenant.key, [id], about);
      expect(await followup(object, record.id)).toBe(next.start_at);
      await expectStatus(200, 'PATCH', `/v1/activities/${activity.id}`, {
        key: tenant.key,
        body: { followup_at: null },
      });
      expect(await followup(object, record.id)).toBe(next.start_at);
      await post(`/v1/bookings/${next.id}/cancel`, {});
      expect(await followup(object, record.id)).toBeNull();
      const timeline = await expectStatus(200, 'GET', `/v1/objects/${object}/records/${record.id}/timeline`, {
        key: tenant.key,
        query: { kinds: 'booking' },
      });
      const kept = timeline.body.data.timeline.map((item: Json) => item.id);
      expect(kept.toSorted()).toEqual([first.id, second.id, moved.id, next.id].toSorted());
    },
  );

  test('follows a merge, and an audit row and an event name the change', async () => {
    const { id, policy_id } = await somebody();
    const [source, target] = [
      await createRecord(tenant.key, 'leads', lead()),
      await createRecord(tenant.key, 'leads', lead()),
    ];
    const booked = await book(tenant.key, [id], { policy_id, record_id: source.id });
    const merge = `/v1/objects/leads/records/${source.id}/merge`;
    await expectStatus(200, 'POST', merge, { key: tenant.key, body: { into_id: target.id } });
    expect(await followup('leads', target.id)).toBe(booked.start_at);
    await post(`/v1/bookings/${booked.id}/cancel`, {});
    expect(await followup('leads', target.id)).toBeNull();
    const events = await database()`
      select data from ${recordedEvents(database())}
      where company_id = ${tenant.companyId} and event = 'record.updated' and data ->> 'record_id' = ${target.id}`;
    expect(JSON.stringify(events)).toContain('next_followup_at');
  });

  test('stays right under concurrent bookings, moves and cancellations, without a deadlock', async () => {
    const record = await createRecord(tenant.key, 'leads', lead());
    const { id: policy_id } = await newPolicy(tenant);
    const users = await Promise.all(Array.from({ length: 4 }, async () => (await newUser(tenant)).id));
    const about = { policy_id, record_id: record.id };
    const booked = await Promise.all(users.flatMap((id) => [0, 1].map(() => book(tenant.key, [id], about))));
    const answers = await Promise.all(
      booked.map((each, index) => {
        if (index % 3 === 0) return post(`/v1/bookings/${each.id}/cancel`, {});
        if (index % 3 === 1) return post(`/v1/bookings/${each.id}/reschedule`, later(each, 60 * (index + 4)));
        return post('/v1/bookings', { member_ids: users, attendee, meeting, ...about });
      }),
    );
    expect(answers.map(({ status }) => status).filter((status) => status >= 300)).toEqual([]);
    const [earliest] = await database()`
      select min(start_at) as at from bookings where record_id = ${record.id} and status = 'confirmed'`;
    expect(await followup('leads', record.id)).toBe(earliest?.at.toISOString());
  });
});

describe('the list of bookings', () => {
  test('lists bookings latest first, page by page, by user, status and time', async () => {
    const { id, policy_id } = await somebody();
    const made: string[] = [];
    for (let count = 0; count < 3; count += 1) made.push((await book(tenant.key, [id], { policy_id })).id);
    const list = async (query: Record<string, string | number>): Promise<Json> =>
      (await expectStatus(200, 'GET', '/v1/bookings', { key: tenant.key, query: { user_id: id, ...query } })).body.data;
    const ids = ({ bookings }: Json): string[] => bookings.map((each: Json) => each.id);
    const first = await list({ limit: 2 });
    expect(ids(first)).toEqual([made[2], made[1]]);
    expect(ids(await list({ limit: 2, cursor: first.next_cursor }))).toEqual([made[0]]);
    await post(`/v1/bookings/${made[1]}/cancel`, {});
    expect(ids(await list({ status: 'cancelled,completed' }))).toEqual([made[1]]);
    const { start_at } = await get(made[1] as string);
    expect(ids(await list({ from: start_at }))).toEqual([made[2], made[1]]);
    expect(ids(await list({ to: start_at }))).toEqual([made[1], made[0]]);
    const query = { status: 'confirmed,lost' };
    const wrong = await expectStatus(400, 'GET', '/v1/bookings', { key: tenant.key, query });
    expect(wrong.body.error.details.fields).toMatchObject([{ field: 'status', code: 'INVALID_OPTION' }]);
  });

  test('filters bookings by record, attendee, pool and future, in both orders', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const record = await createRecord(tenant.key, 'leads', lead());
    const [slot] = (await search(tenant.key, pool, { limit: 1 })).slots;
    const reservation = await hold(tenant.key, slot);
    const email = `${record.id}@example.com`;
    const held = await post('/v1/bookings', {
      slot_token: slot.slot_token,
      reservation_id: reservation.id,
      attendee: { name: 'Sara Ali', email: email.toUpperCase() },
      meeting,
    });
    const first = held.body.data.booking.id;
    const { policy_id } = pool;
    const second = (await book(tenant.key, pool.member_ids, { policy_id, record_id: record.id })).id;
    const third = (await book(tenant.key, pool.member_ids, { policy_id })).id;
    await post(`/v1/bookings/${third}/cancel`, {});
    const list = async (query: Record<string, string | number>): Promise<Json> =>
      (await expectStatus(200, 'GET', '/v1/bookings', { key: tenant.key, query })).body.data;
    const ids = ({ bookings }: Json): string[] => bookings.map((each: Json) => each.id);
    const [user_id = ''] = pool.member_ids;
    expect(ids(await list({ pool_id: pool.id }))).toEqual([first]);
    expect(ids(await list({ attendee_email: email }))).toEqual([first]);
    expect(ids(await list({ object: 'leads', record_id: record.id.toUpperCase() }))).toEqual([second]);
    expect(ids(await list({ object: 'deals', record_id: record.id }))).toEqual([]);
    expect(ids(await list({ user_id, order: 'asc' }))).toEqual([first, second, third]);
    expect(ids(await list({ user_id, order: 'desc' }))).toEqual([third, second, first]);
    expect(ids(await list({ user_id, upcoming: 'true', order: 'asc' }))).toEqual([first, second]);
    await database()`update bookings set start_at = now() - interval '1 minute' where id = ${first}`;
    expect(ids(await list({ user_id, upcoming: 'true' }))).toEqual([second]);
    const page = await list({ user_id, order: 'asc', limit: 2 });
    expect(ids(await list({ user_id, order: 'asc', limit: 2, cursor: page.next_cursor }))).toEqual([third]);
    const other = { user_id, order: 'desc', cursor: page.next_cursor };
    await expectStatus(400, 'GET', '/v1/bookings', { key: tenant.key, query: other });
  });

  test.each([
    [{ object: 'leads' }, 'record_id REQUIRED'],
    [{ record_id: '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9e10' }, 'object REQUIRED'],
    [{ object: 'nothing', record_id: '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9e10' }, 'object NOT_FOUND'],
    [{ upcoming: 'true', status: 'confirmed' }, 'status CONFLICTING_FIELDS'],
    [{ order: 'up' }, 'order INVALID_OPTION'],
  ])('rejects the filters %j', async (query: Record<string, string>, expected) => {
    const { body } = await expectStatus(400, 'GET', '/v1/bookings', { key: tenant.key, query });
    const [{ field, code }] = body.error.details.fields;
    expect(`${field} ${code}`).toBe(expected);
  });
});
