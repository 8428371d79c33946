// Calendars of users: connected to a real CalDAV server, read before bookings, and written.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { TestRadicale } from '../support/radicale.ts';
import { answering, Receiver } from '../support/receivers.ts';
import {
  allHours,
  attendee,
  book,
  halfHour,
  hold,
  meeting,
  newPolicy,
  newPool,
  search,
} from '../support/scheduling.ts';
import { newPerson, tokenFor } from '../support/sessions.ts';
import { signIn } from '../support/sign-in.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

const buildPath = (id: string): string => `/v1/users/${id}/calendar`;
const read = async (id: string, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', buildPath(id), { key })).body.data.calendar;
const internal = { provider: 'internal', url: null, username: null, status: 'not_connected', checked_at: null };
const basic = (moment: Date): string => `${moment.toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
const minutesAfter = (moment: Date, minutes: number): Date => new Date(moment.getTime() + minutes * 60_000);

/** Returns an event in the format of another program, half an hour long by default. */
const external = (uid: string, start: Date, duration = 'PT30M'): string =>
  [
    'BEGIN:VCALENDAR',
    'VERSION:2.0',
    'PRODID:-//test//EN',
    'BEGIN:VEVENT',
    `UID:${uid}`,
    `DTSTAMP:${basic(start)}`,
    `DTSTART:${basic(start)}`,
    `DURATION:${duration}`,
    'SUMMARY:Dentist',
    'END:VEVENT',
    'END:VCALENDAR',
    '',
  ].join('\r\n');

describe('the calendar of a user', () => {
  test('uses the internal calendar until another one is connected', async () => {
    const { id } = await newUser(tenant);
    expect(await read(id)).toEqual({ user_id: id, ...internal });
    const put = await expectStatus(200, 'POST', buildPath(id), { key: tenant.key, body: { provider: 'test' } });
    expect(put.body.data.calendar).toMatchObject({ provider: 'test', url: null, status: 'connected' });
    expect(await read(id, tenant.testKey)).toMatchObject({ provider: 'test' });
    for (const body of [undefined, undefined]) {
      const { body: deleted } = await expectStatus(200, 'DELETE', buildPath(id), { key: tenant.key, body });
      expect(deleted.data.calendar).toEqual({ user_id: id, ...internal });
    }
    await expectStatus(200, 'POST', buildPath(id), { key: tenant.key, body: { provider: 'test' } });
    const { body } = await expectStatus(200, 'POST', buildPath(id), {
      key: tenant.key,
      body: { provider: 'internal' },
    });
    expect(body.data.calendar).toEqual({ user_id: id, ...internal });
    const audit = await database()`select action from audit_logs where record_id = ${id} order by seq`;
    expect(audit.map(({ action }) => action.replace('user.calendar.', ''))).toEqual([
      'connect',
      'disconnect',
      'connect',
      'disconnect',
    ]);
  });

  test.each([
    ['caldav without a URL', { provider: 'caldav' }, ['url', 'username', 'password']],
    ['test with a URL', { provider: 'test', url: 'https://dav.example.com/' }, ['url']],
    ['internal with credentials', { provider: 'internal', username: 'omar', password: 'x' }, ['username', 'password']],
    [
      'an address of another kind',
      { provider: 'caldav', url: 'ftp://dav.example.com/', username: 'o', password: 'x' },
      ['url'],
    ],
    [
      'an address whose host is a dot',
      { provider: 'caldav', url: 'https://./', username: 'o', password: 'x' },
      ['url'],
    ],
    [
      'a password in the address',
      { provider: 'caldav', url: 'https://o:x@dav.example.com/', username: 'o', password: 'x' },
      ['url'],
    ],
    [
      'a query in the address',
      { provider: 'caldav', url: 'http://127.0.0.1/?a', username: 'o', password: 'x' },
      ['url'],
    ],
    ['an unknown provider', { provider: 'google' }, ['provider']],
  ])('rejects the calendar settings: %s', async (_, body, fields) => {
    const { error } = (await expectStatus(400, 'POST', buildPath(tenant.admin.id), { key: tenant.key, body })).body;
    expect(error.details.fields.map(({ field }: Json) => field)).toEqual(fields);
  });

  test('lets the signed-in person or an administrator read and set a calendar', async () => {
    const own = await newPerson(tenant);
    const other = await newPerson(tenant);
    const body = { provider: 'test' };
    for (const token of [await tokenFor(tenant, own), (await signIn(tenant)).access_token]) {
      await expectStatus(200, 'POST', buildPath(own.id), { token, body });
      await expectStatus(200, 'GET', buildPath(own.id), { token });
      await expectStatus(200, 'DELETE', buildPath(own.id), { token });
    }
    const token = await tokenFor(tenant, other);
    await expectStatus(403, 'GET', buildPath(own.id), { token });
    await expectStatus(403, 'POST', buildPath(own.id), { token, body });
    await expectStatus(403, 'DELETE', buildPath(own.id), { token });
  });

  test.each([
    [302, 422, 'url'],
    [401, 422, 'password'],
    [403, 422, 'password'],
    [404, 422, 'url'],
    [500, 503, undefined],
  ])('rejects a calendar whose server responds %d with %d, and stores nothing', async (status, expected, field) => {
    const receiver = await Receiver.start(answering(status));
    const { id } = await newUser(tenant);
    const body = { provider: 'caldav', url: receiver.url, username: 'omar', password: 'x' };
    const { error } = (await expectStatus(expected, 'POST', buildPath(id), { key: tenant.key, body })).body;
    if (field) expect(error.details.fields).toMatchObject([{ field }]);
    else expect(error.details).toMatchObject({ reason: 'provider_error' });
    expect(await read(id)).toMatchObject({ provider: 'internal' });
    await receiver.stop();
  });
});

describe.skipIf(!findProgram('radicale'))(`on a CalDAV server${skipNote('radicale')}`, () => {
  let radicale: TestRadicale;
  beforeAll(async () => {
    radicale = await TestRadicale.start();
  });
  afterAll(() => radicale?.stop());

  /** Returns a user with a calendar. */
  async function connected(name: string) {
    const { id } = await newUser(tenant);
    const calendar = await radicale.newCalendar(name);
    const { url, username, password } = calendar;
    const body = { provider: 'caldav', url, username, password };
    await expectStatus(200, 'POST', buildPath(id), { key: tenant.key, body });
    await untilRead(id);
    return { id, calendar, body };
  }
  /** Waits for the first read of a calendar. */
  const untilRead = (id: string): Promise<void> =>
    vi.waitFor(async () => expect(await availability(id)).toMatchObject({ reasons: [] }));
  /** Makes a calendar due and waits for the read. */
  async function lookAgain(id: string): Promise<void> {
    const due = new Date();
    await database()`update user_calendars set due_at = ${due} where user_id = ${id}`;
    await vi.waitFor(async () => {
      const [row] = await database()`select checked_at from user_calendars where user_id = ${id} and due_at > now()`;
      expect(row?.checked_at.getTime()).toBeGreaterThanOrEqual(due.getTime());
    });
  }
  async function availability(id: string, from = new Date()): Promise<Json> {
    const query = { user_ids: id, from: from.toISOString() };
    return (await expectStatus(200, 'GET', '/v1/scheduling/availability', { key: tenant.key, query })).body.data
      .users[0];
  }
  /** Working hours around the clock, for calls without a policy. */
  const worksAlways = (id: string): Promise<Answer> =>
    expectStatus(200, 'PATCH', `/v1/users/${id}/working-hours`, {
      key: tenant.key,
      body: { timezone: 'UTC', weekly: allHours },
    });
  const booking = (member_ids: string[], more: object): Promise<Answer> =>
    call('POST', '/v1/bookings', {
      key: tenant.key,
      idempotencyKey: true,
      body: { member_ids, attendee, meeting, ...more },
    });
  const readOutcome = ({ status, body }: Answer): unknown[] => [status, body.error?.details?.reason];
  const listStarts = (slots: Json[]): string[] => slots.map(({ start_at }) => start_at);

  test('verifies a calendar before storing it, and never returns its password', async () => {
    const { id, body } = await connected('stored');
    const shown = { user_id: id, provider: 'caldav', url: body.url, username: 'omar', status: 'connected' };
    expect(await read(id)).toEqual({ ...shown, checked_at: expect.any(String) });
    const put = (more: object) => call('POST', buildPath(id), { key: tenant.key, body: { ...body, ...more } });
    const wrong = await put({ password: 'wrong' });
    expect([wrong.status, wrong.body.error.details.fields[0].field]).toEqual([422, 'password']);
    for (const url of [new URL('/omar/nothing/', body.url).href, new URL('/omar/', body.url).href])
      expect([url, (await put({ url })).status]).toEqual([url, 422]);
    await radicale.newCalendar('tasks', 'VTODO');
    expect((await put({ url: new URL('/omar/tasks/', body.url).href })).status).toBe(422);
    // The previous connection stays.
    expect(await read(id)).toMatchObject(shown);
    // A trailing slash does not matter.
    expect((await put({ url: body.url.slice(0, -1) })).body.data.calendar.url).toBe(body.url);
    const [row] = await database()`
      select c.*, (select json_agg(a order by a.seq) from audit_logs a where a.record_id = ${id}) as audit
      from user_calendars c where c.user_id = ${id}`;
    expect(JSON.stringify(row)).not.toContain(body.password);
    expect(row?.audit[0].changes).toMatchObject({ host: { from: null, to: new URL(body.url).host } });
  });

  test('blocks the owner by calendar events, and writes bookings into the calendar', async () => {
    const { id, calendar } = await connected('booked');
    const policy = await newPolicy(tenant);
    const start = halfHour(4);
    await calendar.put('dentist.ics', external('dentist', start));
    const asked = { policy_id: policy.id, from: start.toISOString() };
    const booking = await book(tenant.key, [id], asked);
    expect(booking).toMatchObject({ provider: 'caldav', start_at: minutesAfter(start, 30).toISOString() });
    await vi.waitFor(async () => expect(await calendar.events()).toHaveLength(2));
    const [event] = (await calendar.events()).filter((text) => text.includes(booking.id));
    expect(event).toContain('SUMMARY:First call');
    expect(event).toContain(`DTSTART:${basic(minutesAfter(start, 30))}`);
    expect(event).toContain('sara@example.com');
    // Its own event does not prevent moving a booking to an overlapping time.
    const to = { from: minutesAfter(start, 45).toISOString(), to: minutesAfter(start, 75).toISOString() };
    const path = `/v1/bookings/${booking.id}/reschedule`;
    const moved = (await expectStatus(200, 'POST', path, { key: tenant.key, body: to })).body.data.booking;
    await vi.waitFor(async () => {
      const events = (await calendar.events()).join();
      expect([events.includes(booking.id), events.includes(moved.id)]).toEqual([false, true]);
    });
    const back = { from: minutesAfter(start, 15).toISOString(), to: minutesAfter(start, 45).toISOString() };
    const taken = await call('POST', `/v1/bookings/${moved.id}/reschedule`, { key: tenant.key, body: back });
    expect([taken.status, taken.body.error.details.reason]).toEqual([409, 'slot_conflict']);
    await expectStatus(200, 'POST', `/v1/bookings/${moved.id}/cancel`, { key: tenant.key });
    await vi.waitFor(async () => expect(await calendar.events()).toHaveLength(1));
  });

  test('reads the calendar right before a booking, and books nothing if that fails', async () => {
    const { id, calendar } = await connected('asked');
    const pool = await newPool(tenant, { members: [id] });
    const { slots } = await search(tenant.key, pool, { limit: 2 });
    const [first, second] = await Promise.all(slots.map((slot: Json) => hold(tenant.key, slot)));
    const bookHeld = (slot: Json, reservation: Json) =>
      call('POST', '/v1/bookings', {
        key: tenant.key,
        idempotencyKey: true,
        body: { slot_token: slot.slot_token, reservation_id: reservation.id, attendee, meeting },
      });
    await calendar.put('late.ics', external('late', new Date(slots[0].start_at)));
    const conflict = await bookHeld(slots[0], first);
    expect([conflict.status, conflict.body.error.details.reason]).toEqual([409, 'slot_conflict']);
    await database()`update user_calendars set url = 'http://127.0.0.1:9/' where user_id = ${id}`;
    const failed = await bookHeld(slots[1], second);
    expect([failed.status, failed.body.error.details.reason]).toEqual([503, 'provider_error']);
    const [none] = await database()`select count(*)::int as bookings from bookings where user_id = ${id}`;
    expect(none).toEqual({ bookings: 0 });
    // Test mode does not read calendars.
    const test = await book(tenant.testKey, [id], { policy_id: pool.policy_id });
    expect(test).toMatchObject({ provider: 'test' });
  });

  test('treats the owner as unavailable until the first read, for slots, holds and bookings', async () => {
    const { id, calendar } = await connected('unread');
    await worksAlways(id);
    const pool = await newPool(tenant, { members: [id] });
    const [slot] = (await search(tenant.key, pool, { limit: 1 })).slots;
    // The state right after a connection, without a read in between.
    await database()`update user_calendars set looked_until = null, due_at = now() + interval '1 hour' where user_id = ${id}`;
    const unknown = { user_id: id, reason: 'calendar_not_read_yet' };
    expect(await availability(id)).toMatchObject({
      bookable: false,
      reasons: ['calendar_not_read_yet'],
      free: [],
      calendar: { status: 'connected', provider: 'caldav' },
    });
    const query = { member_ids: id, policy_id: pool.policy_id };
    const { data } = (await expectStatus(200, 'GET', '/v1/scheduling/slots', { key: tenant.key, query })).body;
    expect(data.slots).toEqual([]);
    const none = [409, 'no_calendar'];
    for (const [path, body] of [
      ['/v1/scheduling/slots/search', { pool_id: pool.id }],
      ['/v1/scheduling/reservations', { slot_token: slot.slot_token }],
      ['/v1/bookings', { member_ids: [id], policy_id: pool.policy_id, attendee, meeting }],
    ] as const) {
      const refused = await call('POST', path, { key: tenant.key, body, idempotencyKey: true });
      expect([path, ...readOutcome(refused)]).toEqual([path, ...none]);
      expect(refused.body.error.details.excluded).toEqual([unknown]);
    }
    // A colleague with a read calendar is offered instead.
    const wide = await newPool(tenant, { members: [id, (await newUser(tenant)).id] });
    const path = `/v1/scheduling/pools/${wide.id}/suggestion`;
    const suggested = (await expectStatus(200, 'GET', path, { key: tenant.key })).body.data;
    expect([suggested.eligible_user_ids, suggested.excluded]).toEqual([[wide.member_ids[1]], [unknown]]);
    expect((await search(tenant.key, wide, { limit: 1, exposure: 'merged' })).slots[0].user_ids).not.toContain(id);

    const start = halfHour(6);
    await calendar.put('dentist.ics', external('dentist', start));
    await database()`update user_calendars set due_at = now() where user_id = ${id}`;
    await untilRead(id);
    const { busy } = await availability(id);
    expect(busy).toMatchObject([{ start_at: start.toISOString(), reason: 'external_event' }]);
  });

  test('treats time beyond the read interval as unavailable', async () => {
    const { id } = await connected('read-for-some-days');
    await worksAlways(id);
    const until = halfHour(48);
    await database()`
      update user_calendars set looked_until = ${until}, due_at = now() + interval '1 hour' where user_id = ${id}`;
    const { bookable, free, busy } = await availability(id);
    expect([bookable, free.at(-1).end_at]).toEqual([true, until.toISOString()]);
    expect(busy).toMatchObject([{ start_at: until.toISOString(), reason: 'calendar_not_read_yet' }]);
  });

  test('blocks the new time of our event that was moved, and its booking keeps its own time', async () => {
    const { id, calendar } = await connected('moved');
    await worksAlways(id);
    const { id: policy_id } = await newPolicy(tenant);
    const [start, there] = [halfHour(6), halfHour(12)];
    const at = (from: Date) => ({ policy_id, from: from.toISOString(), to: minutesAfter(from, 30).toISOString() });
    const booked = await book(tenant.key, [id], at(start));
    await vi.waitFor(async () => expect(await calendar.events()).toHaveLength(1));
    // At its original time the event does not count.
    await lookAgain(id);
    const reasonsAt = async (): Promise<unknown[]> =>
      (await availability(id)).busy.map(({ start_at, reason }: Json) => [start_at, reason]);
    expect(await reasonsAt()).toEqual([[start.toISOString(), 'booking']]);

    // Another program moves and extends it.
    const uid = `${booked.id}@${id}`;
    await calendar.put(`${encodeURIComponent(uid)}.ics`, external(uid, there, 'PT1H'));
    for (const from of [there, minutesAfter(there, 30), start])
      expect(readOutcome(await booking([id], at(from)))).toEqual([409, 'no_slot']);
    await lookAgain(id);
    expect(await reasonsAt()).toEqual([
      [start.toISOString(), 'booking'],
      [there.toISOString(), 'external_event'],
    ]);
    // The booking can be moved to its event, which moves along.
    const path = `/v1/bookings/${booked.id}/reschedule`;
    const to = { from: there.toISOString(), to: minutesAfter(there, 30).toISOString() };
    const moved = (await expectStatus(200, 'POST', path, { key: tenant.key, body: to })).body.data.booking;
    await vi.waitFor(async () => {
      const events = await calendar.events();
      expect(events.map((text) => text.includes(moved.id))).toEqual([true]);
    });
    await lookAgain(id);
    expect(await reasonsAt()).toEqual([[there.toISOString(), 'booking']]);
  });

  test('offers no alternatives at times just found to be busy', async () => {
    const { id, calendar } = await connected('alternatives');
    const pool = await newPool(tenant, { members: [id] });
    const { slots } = await search(tenant.key, pool, { limit: 1, from: halfHour(6).toISOString() });
    const [slot] = slots;
    const reservation = await hold(tenant.key, slot);
    const own = await book(tenant.key, [id], { policy_id: pool.policy_id });
    // Longer than everything that one search covers.
    const start = new Date(slot.start_at);
    const end = minutesAfter(start, 20 * 60).toISOString();
    await calendar.put('congress.ics', external('congress', start, 'PT20H'));
    // The job does not read it before.
    await database()`update user_calendars set due_at = now() + interval '1 hour' where user_id = ${id}`;

    const held = { slot_token: slot.slot_token, reservation_id: reservation.id, attendee, meeting };
    const refused = await call('POST', '/v1/bookings', { key: tenant.key, idempotencyKey: true, body: held });
    expect(readOutcome(refused)).toEqual([409, 'slot_conflict']);
    expect(listStarts(refused.body.error.details.alternatives)[0]).toBe(end);

    const to = { from: minutesAfter(start, 60).toISOString(), to: minutesAfter(start, 90).toISOString() };
    const path = `/v1/bookings/${own.id}/reschedule`;
    const kept = await call('POST', path, { key: tenant.key, body: to });
    expect(readOutcome(kept)).toEqual([409, 'slot_conflict']);
    expect(listStarts(kept.body.error.details.alternatives)[0]).toBe(end);

    const window = { policy_id: pool.policy_id, from: to.from };
    const none = await booking([id], { ...window, to: minutesAfter(start, 300).toISOString() });
    expect(readOutcome(none)).toEqual([409, 'no_slot']);
    expect(listStarts(none.body.error.details.alternatives)[0]).toBe(end);
    // The next free time is found after any number of busy times.
    const later = await booking([id], window);
    expect([later.status, later.body.data?.booking.start_at]).toEqual([201, end]);
  });
});
