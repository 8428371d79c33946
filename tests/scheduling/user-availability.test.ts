// The availability of people, and the reasons against bookings.
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { book, hold, newPolicy, newPool, search } from '../support/scheduling.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const day = 86_400_000;

beforeAll(async () => {
  tenant = await newTenant();
});

/** Tomorrow or later, at an hour in UTC. */
const at = (hour: number, days = 1): string => {
  const midnight = Math.floor(Date.now() / day) * day;
  return new Date(midnight + days * day + hour * 3_600_000).toISOString();
};
const range = (start: number, end: number) => ({ start_at: at(start), end_at: at(end) });
const availability = async (ids: string, key = tenant.key): Promise<Json[]> => {
  const query = { user_ids: ids, from: at(0), to: at(24) };
  return (await expectStatus(200, 'GET', '/v1/scheduling/availability', { key, query })).body.data.users;
};
const hours = (start: string, end: string) => [0, 1, 2, 3, 4, 5, 6].map((weekday) => ({ weekday, start, end }));
const work = async (id: string, weekly: object[], days_off: object[] = []): Promise<void> => {
  const body = { timezone: 'UTC', weekly, days_off };
  await expectStatus(200, 'PATCH', `/v1/users/${id}/working-hours`, { key: tenant.key, body });
};

describe('a person', () => {
  test('reports a person as free in their hours except bookings and holds', async () => {
    const pool = await newPool(tenant, { members: 1, policy: { buffer_after_minutes: 30 } });
    const [id] = pool.member_ids;
    await work(id, hours('09:00', '17:00'));
    await book(tenant.key, [id], { policy_id: pool.policy_id, from: at(10), to: at(11) });
    await hold(tenant.key, (await search(tenant.key, pool, { from: at(12), to: at(13), limit: 1 })).slots[0]);
    const [person] = await availability(id);
    expect(person).toEqual({
      user_id: id,
      full_name: 'Uma User',
      bookable: true,
      reasons: [],
      timezone: 'UTC',
      working_hours: [range(9, 17)],
      free: [range(9, 10), range(11, 12), range(13, 17)],
      busy: [
        { ...range(10, 10.5), reason: 'booking' },
        { ...range(10.5, 11), reason: 'buffer' },
        { ...range(12, 12.5), reason: 'reservation' },
        { ...range(12.5, 13), reason: 'buffer' },
      ],
      calendar: { status: 'connected', provider: 'internal', checked_at: null },
    });
    // A booking in one mode takes no time in the other.
    const [trial] = await availability(id, tenant.testKey);
    expect(trial).toMatchObject({ busy: [], calendar: { status: 'connected', provider: 'test' } });
  });

  test('reports a person as not bookable on a day off, without hours, or when inactive', async () => {
    const users = await Promise.all([newUser(tenant), newUser(tenant), newUser(tenant, { status: 'inactive' })]);
    const [off = '', idle = '', gone = ''] = users.map(({ id }) => id);
    const date = at(0).slice(0, 10);
    await work(off, hours('09:00', '17:00'), [{ from: date, to: date, reason: 'holiday' }]);
    await work(idle, []);
    await work(gone, hours('09:00', '17:00'));
    const [first, second, third] = await availability([off, idle, gone].join(','));
    expect(first).toMatchObject({ bookable: false, reasons: ['holiday'], free: [], busy: [{ reason: 'holiday' }] });
    expect(second).toMatchObject({ bookable: false, reasons: ['outside_working_hours'], working_hours: [] });
    expect(third).toMatchObject({ bookable: false, reasons: ['user_inactive'], free: [] });
  });

  test('shows availability to any key of the workspace, and to none of another', async () => {
    const { id } = await newUser(tenant);
    const other = await newTenant();
    const query = { user_ids: id };
    const { error } = (await expectStatus(400, 'GET', '/v1/scheduling/availability', { key: other.key, query })).body;
    expect(error.details.unknown_user_ids).toEqual([id]);
  });

  test('uses the last read of an external calendar, and reports a person as not bookable if it fails', async () => {
    const { id } = await newUser(tenant);
    await work(id, hours('09:00', '17:00'));
    const sql = database();
    await sql`
      insert into user_calendars (company_id, user_id, provider, checked_at, busy, looked_until, due_at, created_at, updated_at)
      values (${tenant.companyId}, ${id}, 'caldav', now(), ${sql.json([at(9), at(10)].map((moment) => Date.parse(String(moment))))}, now() + interval '60 days', now() + interval '1 day',
        now(), now())`;
    const [person] = await availability(id);
    expect(person).toMatchObject({
      bookable: true,
      free: [range(10, 17)],
      busy: [{ ...range(9, 10), reason: 'external_event' }],
      calendar: { status: 'connected', provider: 'caldav', checked_at: expect.any(String) },
    });
    await sql`update user_calendars set fault = 'unreachable' where user_id = ${id}`;
    const [broken] = await availability(id);
    expect(broken).toMatchObject({
      bookable: false,
      reasons: ['calendar_error'],
      free: [],
      calendar: { status: 'error' },
    });
  });

  test('reports buffers around a meeting as busy, with their own reason', async () => {
    const { id } = await newUser(tenant);
    await work(id, hours('09:00', '10:30'));
    const policy = await newPolicy(tenant, { buffer_before_minutes: 30, buffer_after_minutes: 30 });
    await book(tenant.key, [id], { policy_id: policy.id, from: at(9.5), to: at(10) });
    const [person] = await availability(id);
    expect(person).toMatchObject({
      bookable: false,
      reasons: ['booking', 'buffer'],
      free: [],
      busy: [
        { ...range(9, 9.5), reason: 'buffer' },
        { ...range(9.5, 10), reason: 'booking' },
        { ...range(10, 10.5), reason: 'buffer' },
      ],
    });
    // The suggestion of a pool gives the same reasons.
    const pool = await newPool(tenant, { members: [id, (await newUser(tenant)).id], policy: { duration_minutes: 5 } });
    const path = `/v1/scheduling/pools/${pool.id}/suggestion`;
    const reasonsAt = async (moment: string): Promise<Json> =>
      (await expectStatus(200, 'GET', path, { key: tenant.key, query: { at: moment } })).body.data.excluded;
    expect(await reasonsAt(at(9.25))).toEqual([{ user_id: id, reason: 'buffer' }]);
    expect(await reasonsAt(at(9.45))).toEqual([{ user_id: id, reason: 'booking' }]);
    expect(await reasonsAt(at(10.25))).toEqual([{ user_id: id, reason: 'buffer' }]);
  });
});
