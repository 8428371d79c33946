// Working hours and days off of users.
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { newPolicy } from '../support/scheduling.ts';
import { signIn } from '../support/sign-in.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

const buildPath = (id: string): string => `/v1/users/${id}/working-hours`;
const good = {
  timezone: 'Asia/Tokyo',
  weekly: [{ weekday: 2, start: '10:00', end: '24:00' }],
  days_off: [{ from: '2030-01-01', to: '2030-01-03', reason: 'holiday' }],
  dates: [{ date: '2030-01-05', windows: [{ start: '22:00', end: '02:00' }] }],
};

describe('the hours of a user', () => {
  test('uses the hours of the default policy until a user has their own', async () => {
    const { id } = await newUser(tenant);
    const read = async (): Promise<Json> =>
      (await expectStatus(200, 'GET', buildPath(id), { key: tenant.testKey })).body.data.working_hours;
    expect(await read()).toMatchObject({ user_id: id, timezone: 'Europe/Berlin', is_own: false, days_off: [] });
    const { body } = await expectStatus(200, 'PATCH', buildPath(id), { key: tenant.key, body: good });
    expect(body.data.working_hours).toEqual({ user_id: id, ...good, is_own: true, updated_at: expect.any(String) });
    expect(await read()).toEqual(body.data.working_hours);
    await expectStatus(200, 'PATCH', buildPath(id), { key: tenant.key, body: { timezone: 'UTC', weekly: [] } });
    expect(await read()).toMatchObject({ timezone: 'UTC', weekly: [], days_off: good.days_off });
    const audit = await database()`select action from audit_logs where record_id = ${id}`;
    expect(audit.map(({ action }) => action)).toEqual(['user.working_hours.update', 'user.working_hours.update']);
  });

  test('keeps the parts of the hours that a change does not send', async () => {
    const { id } = await newUser(tenant);
    const change = async (body: object): Promise<Json> =>
      (await expectStatus(200, 'PATCH', buildPath(id), { key: tenant.key, body })).body.data.working_hours;
    const standard = (await expectStatus(200, 'GET', buildPath(id), { key: tenant.key })).body.data.working_hours;
    const { days_off, weekly } = good;
    expect(await change({ days_off })).toEqual({ ...standard, days_off, updated_at: expect.any(String) });
    expect(await change({ weekly })).toMatchObject({ timezone: standard.timezone, weekly, days_off, is_own: true });
    expect(await change({ timezone: 'Asia/Kolkata' })).toMatchObject({ timezone: 'Asia/Kolkata', weekly, days_off });
    expect(await change({ days_off: [] })).toMatchObject({ timezone: 'Asia/Kolkata', weekly, days_off: [] });
    const { error } = (await expectStatus(400, 'PATCH', buildPath(id), { key: tenant.key, body: {} })).body;
    expect(error.code).toBe('VALIDATION_ERROR');
  });

  test('offers the hours of single dates instead of those of the weekday, and nights until their end', async () => {
    const { id } = await newUser(tenant);
    const { id: policy_id } = await newPolicy(tenant, { working_hours: null, duration_minutes: 60, horizon_days: 30 });
    const toDate = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
    const [before, on, after] = [toDate(4), toDate(5), toDate(6)];
    const weekly = [0, 1, 2, 3, 4, 5, 6].map((weekday) => ({ weekday, start: '22:30', end: '00:30' }));
    const change = async (body: object) =>
      (await expectStatus(200, 'PATCH', buildPath(id), { key: tenant.key, body })).body.data.working_hours;
    const listStarts = async (): Promise<string[]> => {
      const query = { member_ids: id, policy_id, from: before, to: after };
      const { slots } = (await expectStatus(200, 'GET', '/v1/scheduling/slots', { key: tenant.key, query })).body.data;
      return slots.map(({ start_at }: Json) => start_at.slice(0, 16));
    };
    await change({ timezone: 'UTC', weekly });
    const usual = [before, on, after].flatMap((date) => [`${date}T22:30`, `${date}T23:00`, `${date}T23:30`]);
    expect(await listStarts()).toEqual(usual.slice(0, -2));
    const dates = [{ date: on, windows: [{ start: '06:00', end: '07:00' }] }];
    expect(await change({ dates })).toMatchObject({ dates, weekly });
    // The night before ends at 00:30 on the date, and the one after the date begins as usual.
    expect(await listStarts()).toEqual([
      `${before}T22:30`,
      `${before}T23:00`,
      `${before}T23:30`,
      `${on}T06:00`,
      `${after}T22:30`,
    ]);
    await change({ dates: [{ date: on, windows: [] }] });
    expect(await listStarts()).not.toContain(`${on}T06:00`);
    const under = await newPolicy(tenant, { duration_minutes: 60 });
    const query = { member_ids: id, policy_id: under.id, from: on, to: on };
    const { slots } = (await expectStatus(200, 'GET', '/v1/scheduling/slots', { key: tenant.key, query })).body.data;
    expect(slots.length).toBeGreaterThan(20);
  });

  test.each([
    ['a repeated date', [1, 2].map(() => ({ date: '2030-01-05', windows: [] })), 'dates[1].date'],
    [
      'a window that ends when it begins',
      [{ date: '2030-01-05', windows: [{ start: '09:00', end: '09:00' }] }],
      'dates[0].windows[0].end',
    ],
    ['a date that does not exist', [{ date: '2030-02-30', windows: [] }], 'dates[0].date'],
  ])('rejects %s', async (_, dates, field) => {
    const { id } = await newUser(tenant);
    const { error } = (await expectStatus(400, 'PATCH', buildPath(id), { key: tenant.key, body: { dates } })).body;
    expect(error.details.fields).toMatchObject([{ field }]);
  });

  test('keeps the changes of all concurrent callers', async () => {
    const { id } = await newUser(tenant);
    for (let round = 0; round < 5; round += 1) {
      const days_off = [{ from: `2031-01-0${round + 1}`, to: '2031-02-01', reason: 'holiday' }];
      const parts = [{ timezone: ['Asia/Tokyo', 'Asia/Kolkata'][round % 2] }, { weekly: good.weekly }, { days_off }];
      await Promise.all(
        parts.map((body) => expectStatus(200, 'PATCH', buildPath(id), { key: tenant.key, body: { ...body } })),
      );
      const { body } = await expectStatus(200, 'GET', buildPath(id), { key: tenant.key });
      expect(body.data.working_hours).toMatchObject(Object.assign({}, ...parts));
    }
  });

  test.each([
    ['an unknown time zone', { timezone: 'Mars/Base' }, 'timezone'],
    [
      'a window that ends before it begins',
      { weekly: [{ weekday: 0, start: '10:00', end: '10:00' }] },
      'weekly[0].end',
    ],
    [
      'a day off that ends before it begins',
      { days_off: [{ from: '2030-01-02', to: '2030-01-01' }] },
      'days_off[0].to',
    ],
    ['an unknown weekday', { weekly: [{ weekday: 7, start: '09:00', end: '10:00' }] }, 'weekly[0].weekday'],
    ['a day that does not exist', { days_off: [{ from: '2030-02-30', to: '2030-03-01' }] }, 'days_off[0].from'],
  ])('rejects working hours with %s', async (_, more, field) => {
    const { id } = await newUser(tenant);
    const body = { ...good, ...more };
    const { error } = (await expectStatus(400, 'PATCH', buildPath(id), { key: tenant.key, body })).body;
    expect(error.details.fields).toMatchObject([{ field }]);
  });

  test('lets the signed-in person or an administrator set working hours', async () => {
    const { id } = await newUser(tenant);
    const { access_token: admin } = await signIn(tenant);
    await expectStatus(200, 'PATCH', buildPath(id), { token: admin, body: good });
    await expectStatus(200, 'PATCH', buildPath(tenant.admin.id), { token: admin, body: good });
    const sql = database();
    await sql`
      update user_roles set role_id = (select id from roles where name = 'Sales_Rep')
      where company_id = ${tenant.companyId} and user_id = ${tenant.admin.id}`;
    const { access_token: person } = await signIn(tenant);
    const refused = await call('PATCH', buildPath(id), { token: person, body: good });
    expect([refused.status, refused.body.error.details.required_scopes]).toEqual([403, ['Company_Admin']]);
    await expectStatus(200, 'PATCH', buildPath(tenant.admin.id), { token: person, body: good });
    await expectStatus(403, 'GET', buildPath(id), { token: person });
  });
});
