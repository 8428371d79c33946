// Calendars of users: connected to a real CalDAV server, asked before bookings and told of them.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { TestRadicale } from '../support/radicale.ts';
import { answering, Receiver } from '../support/receivers.ts';
import { attendee, book, halfHour, hold, meeting, newPolicy, newPool, search } from '../support/scheduling.ts';
import { newPerson, tokenFor } from '../support/sessions.ts';
import { signIn } from '../support/sign-in.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

const pathOf = (id: string): string => `/v1/users/${id}/calendar`;
const read = async (id: string, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', pathOf(id), { key })).body.data.calendar;
const internal = { provider: 'internal', url: null, username: null, status: 'not_connected', checked_at: null };
const basic = (moment: Date): string => `${moment.toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
const minutesAfter = (moment: Date, minutes: number): Date => new Date(moment.getTime() + minutes * 60_000);

/** An event of half an hour, as another program would write it. */
const external = (uid: string, start: Date): string =>
  [
    ...['BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//test//EN', 'BEGIN:VEVENT', `UID:${uid}`],
    ...[`DTSTAMP:${basic(start)}`, `DTSTART:${basic(start)}`, 'DURATION:PT30M', 'SUMMARY:Dentist'],
    ...['END:VEVENT', 'END:VCALENDAR', ''],
  ].join('\r\n');

describe('the calendar of a user', () => {
  test('is the internal one until another is connected', async () => {
    const { id } = await newUser(tenant);
    expect(await read(id)).toEqual({ user_id: id, ...internal });
    const put = await expectStatus(200, 'POST', pathOf(id), { key: tenant.key, body: { provider: 'test' } });
    expect(put.body.data.calendar).toMatchObject({ provider: 'test', url: null, status: 'connected' });
    expect(await read(id, tenant.testKey)).toMatchObject({ provider: 'test' });
    for (const body of [undefined, undefined]) {
      const { body: deleted } = await expectStatus(200, 'DELETE', pathOf(id), { key: tenant.key, body });
      expect(deleted.data.calendar).toEqual({ user_id: id, ...internal });
    }
    await expectStatus(200, 'POST', pathOf(id), { key: tenant.key, body: { provider: 'test' } });
    const { body } = await expectStatus(200, 'POST', pathOf(id), { key: tenant.key, body: { provider: 'internal' } });
    expect(body.data.calendar).toEqual({ user_id: id, ...internal });
    const audit = await database()`select action from audit_logs where record_id = ${id} order by seq`;
    expect(audit.map(({ action }) => action.replace('user.calendar.', ''))).toEqual([
      ...['connect', 'disconnect', 'connect', 'disconnect'],
    ]);
  });

  test.each([
    ['caldav without more', { provider: 'caldav' }, ['url', 'username', 'password']],
    ['test with more', { provider: 'test', url: 'https://dav.example.com/' }, ['url']],
    ['internal with more', { provider: 'internal', username: 'omar', password: 'x' }, ['username', 'password']],
    [
      'an address of another kind',
      { provider: 'caldav', url: 'ftp://dav.example.com/', username: 'o', password: 'x' },
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
    ['a provider that there is not', { provider: 'google' }, ['provider']],
  ])('is refused as %s', async (_, body, fields) => {
    const { error } = (await expectStatus(400, 'POST', pathOf(tenant.admin.id), { key: tenant.key, body })).body;
    expect(error.details.fields.map(({ field }: Json) => field)).toEqual(fields);
  });

  test('is shown and set by the person, or by an administrator, who is signed in', async () => {
    const own = await newPerson(tenant);
    const other = await newPerson(tenant);
    const body = { provider: 'test' };
    for (const token of [await tokenFor(tenant, own), (await signIn(tenant)).access_token]) {
      await expectStatus(200, 'POST', pathOf(own.id), { token, body });
      await expectStatus(200, 'GET', pathOf(own.id), { token });
      await expectStatus(200, 'DELETE', pathOf(own.id), { token });
    }
    const token = await tokenFor(tenant, other);
    await expectStatus(403, 'GET', pathOf(own.id), { token });
    await expectStatus(403, 'POST', pathOf(own.id), { token, body });
    await expectStatus(403, 'DELETE', pathOf(own.id), { token });
  });

  test.each([
    [302, 422, 'url'],
    [401, 422, 'password'],
    [403, 422, 'password'],
    [404, 422, 'url'],
    [500, 503, undefined],
  ])('where a server answers %d is refused with %d, and nothing is stored', async (status, expected, field) => {
    const receiver = await Receiver.start(answering(status));
    const { id } = await newUser(tenant);
    const body = { provider: 'caldav', url: receiver.url, username: 'omar', password: 'x' };
    const { error } = (await expectStatus(expected, 'POST', pathOf(id), { key: tenant.key, body })).body;
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

  /** A user with a calendar. */
  async function connected(name: string) {
    const { id } = await newUser(tenant);
    const calendar = await radicale.newCalendar(name);
    const { url, username, password } = calendar;
    const body = { provider: 'caldav', url, username, password };
    await expectStatus(200, 'POST', pathOf(id), { key: tenant.key, body });
    return { id, calendar, body };
  }

  test('it is asked before it is stored, and its password is never shown', async () => {
    const { id, body } = await connected('stored');
    const shown = { user_id: id, provider: 'caldav', url: body.url, username: 'omar', status: 'connected' };
    expect(await read(id)).toEqual({ ...shown, checked_at: expect.any(String) });
    const put = (more: object) => call('POST', pathOf(id), { key: tenant.key, body: { ...body, ...more } });
    const wrong = await put({ password: 'wrong' });
    expect([wrong.status, wrong.body.error.details.fields[0].field]).toEqual([422, 'password']);
    for (const url of [new URL('/omar/nothing/', body.url).href, new URL('/omar/', body.url).href])
      expect([url, (await put({ url })).status]).toEqual([url, 422]);
    await radicale.newCalendar('tasks', 'VTODO');
    expect((await put({ url: new URL('/omar/tasks/', body.url).href })).status).toBe(422);
    // What was connected before stays.
    expect(await read(id)).toMatchObject(shown);
    // A slash more or less at the end does not matter.
    expect((await put({ url: body.url.slice(0, -1) })).body.data.calendar.url).toBe(body.url);
    const [row] = await database()`
      select c.*, (select json_agg(a order by a.seq) from audit_logs a where a.record_id = ${id}) as audit
      from user_calendars c where c.user_id = ${id}`;
    expect(JSON.stringify(row)).not.toContain(body.password);
    expect(row?.audit[0].changes).toMatchObject({ host: { from: null, to: new URL(body.url).host } });
  });

  test('what stands in it keeps its owner from being booked, and bookings are written into it', async () => {
    const { id, calendar } = await connected('booked');
    const policy = await newPolicy(tenant);
    const start = halfHour(4);
    await calendar.put('dentist.ics', external('dentist', start));
    const asked = { policy_id: policy.id, from: start.toISOString() };
    const booking = await book(tenant.key, [id], asked);
    expect(booking).toMatchObject({ provider: 'caldav', start_at: minutesAfter(start, 30).toISOString() });
    await vi.waitFor(async () => expect(await calendar.events()).toHaveLength(2), 10_000);
    const [event] = (await calendar.events()).filter((text) => text.includes(booking.id));
    expect(event).toContain('SUMMARY:First call');
    expect(event).toContain(`DTSTART:${basic(minutesAfter(start, 30))}`);
    expect(event).toContain('sara@example.com');
    // Its own event does not keep it from being moved to where it overlaps.
    const to = { from: minutesAfter(start, 45).toISOString(), to: minutesAfter(start, 75).toISOString() };
    const path = `/v1/bookings/${booking.id}/reschedule`;
    const moved = (await expectStatus(200, 'POST', path, { key: tenant.key, body: to })).body.data.booking;
    await vi.waitFor(async () => {
      const events = (await calendar.events()).join();
      expect([events.includes(booking.id), events.includes(moved.id)]).toEqual([false, true]);
    }, 10_000);
    const back = { from: minutesAfter(start, 15).toISOString(), to: minutesAfter(start, 45).toISOString() };
    const taken = await call('POST', `/v1/bookings/${moved.id}/reschedule`, { key: tenant.key, body: back });
    expect([taken.status, taken.body.error.details.reason]).toEqual([409, 'slot_conflict']);
    await expectStatus(200, 'POST', `/v1/bookings/${moved.id}/cancel`, { key: tenant.key });
    await vi.waitFor(async () => expect(await calendar.events()).toHaveLength(1), 10_000);
  });

  test('it is asked once more right before a booking, and where it cannot be asked nothing is booked', async () => {
    const { id, calendar } = await connected('asked');
    const pool = await newPool(tenant, { members: [id] });
    const { slots } = await search(tenant.key, pool, { limit: 2 });
    const [first, second] = await Promise.all(slots.map((slot: Json) => hold(tenant.key, slot)));
    const bookHeld = (slot: Json, reservation: Json) =>
      call('POST', '/v1/bookings', {
        ...{ key: tenant.key, idempotencyKey: true },
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
    // Test mode asks nobody.
    const test = await book(tenant.testKey, [id], { policy_id: pool.policy_id });
    expect(test).toMatchObject({ provider: 'test' });
  });
});
