// Scheduling policies: creation, changes and deletion.
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { newPolicy, newPool } from '../support/scheduling.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/scheduling/policies';

beforeAll(async () => {
  tenant = await newTenant();
});

const list = async (): Promise<Json[]> =>
  (await expectStatus(200, 'GET', path, { key: tenant.key })).body.data.policies;
const patch = (id: string, body: object) => call('PATCH', `${path}/${id}`, { key: tenant.key, body });
const remove = (id: string) => call('DELETE', `${path}/${id}`, { key: tenant.key });

describe('a workspace', () => {
  test('creates a workspace with a usable policy in its time zone', async () => {
    const fresh = await newTenant();
    const { policies } = (await expectStatus(200, 'GET', path, { key: fresh.testKey })).body.data;
    expect(policies).toMatchObject([
      { name: 'Standard', is_default: true, timezone: 'Europe/Berlin', duration_minutes: 30, exposure: 'individual' },
    ]);
    const [{ working_hours: hours }] = policies;
    expect(hours.map(({ weekday }: Json) => weekday)).toEqual([1, 2, 3, 4, 5]);
  });

  test('keeps exactly one default policy, whichever is chosen', async () => {
    const { id } = await newPolicy(tenant, { is_default: true });
    const other = await newPolicy(tenant);
    expect((await patch(other.id, { is_default: true })).status).toBe(200);
    expect((await list()).filter((policy) => policy.is_default).map((policy) => policy.id)).toEqual([other.id]);
    expect((await patch(other.id, { is_default: false })).body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'default_policy' },
    });
    expect((await remove(other.id)).body.error.details.reason).toBe('default_policy');
    expect((await remove(id)).status).toBe(200);
  });

  test('keeps one default policy under concurrent changes', async () => {
    const made = await Promise.all(Array.from({ length: 8 }, () => newPolicy(tenant, { is_default: true })));
    expect(made).toHaveLength(8);
    expect((await list()).filter((policy) => policy.is_default)).toHaveLength(1);
  });
});

describe('a policy', () => {
  test('uses the time zone of the company and the hours of each user by default', async () => {
    const body = { name: ' Short ' };
    const { policy } = (await expectStatus(201, 'POST', path, { key: tenant.key, body })).body.data;
    expect(policy).toMatchObject({ name: 'Short', timezone: 'Europe/Berlin', working_hours: null, is_default: false });
    const read = await expectStatus(200, 'GET', `${path}/${policy.id}`, { key: tenant.key });
    expect(read.body.data.policy).toEqual(policy);
    const changed = await patch(policy.id, { max_bookings_per_day: 3, working_hours: [] });
    expect(changed.body.data.policy).toMatchObject({ max_bookings_per_day: 3, working_hours: [], name: 'Short' });
    const audit = await database()`select action from audit_logs where record_id = ${policy.id} order by seq`;
    expect(audit.map(({ action }) => action)).toEqual([
      'settings.scheduling_policy.create',
      'settings.scheduling_policy.update',
    ]);
  });

  test.each([
    ['an unknown time zone', { timezone: 'Mars/Base' }, 'timezone'],
    [
      'hours that end when they begin',
      { working_hours: [{ weekday: 0, start: '17:00', end: '17:00' }] },
      'working_hours[0].end',
    ],
    [
      'a hard cap below the time of a hold',
      { reservation_ttl_seconds: 900, reservation_hard_cap_seconds: 600 },
      'reservation_hard_cap_seconds',
    ],
    ['no name', { name: ' ' }, 'name'],
    ['an address of calls that is not one', { meeting_url_template: 'room {booking_id}' }, 'meeting_url_template'],
    ['an unknown placeholder', { meeting_url_template: 'https://x.example/{user}' }, 'meeting_url_template'],
    ['an address of calls with a space', { meeting_url_template: 'https://x.example/a b' }, 'meeting_url_template'],
    ['an address of calls with a line', { meeting_url_template: 'https://x.example/a\nb' }, 'meeting_url_template'],
    ['an address of calls with markup', { meeting_url_template: 'https://x.example/<b>' }, 'meeting_url_template'],
    [
      'an address of calls with credentials',
      { meeting_url_template: 'https://u:p@x.example/' },
      'meeting_url_template',
    ],
    ['an address of calls that runs', { meeting_url_template: 'javascript:alert(1)' }, 'meeting_url_template'],
    [
      'a repeated question',
      {
        questions: [
          { question: 'Why?', required: true },
          { question: ' Why? ', required: false },
        ],
      },
      'questions[1].question',
    ],
  ])('rejects a policy with %s', async (_, more, field) => {
    const body = { name: crypto.randomUUID(), ...more };
    const { error } = (await expectStatus(400, 'POST', path, { key: tenant.key, body })).body;
    expect(error.details.fields).toMatchObject([{ field }]);
  });

  test('requires a unique policy name, ignoring case', async () => {
    const { id, name } = await newPolicy(tenant);
    const body = { name: name.toUpperCase() };
    const { error } = (await expectStatus(409, 'POST', path, { key: tenant.key, body })).body;
    expect(error).toMatchObject({ code: 'ALREADY_EXISTS', details: { existing_id: id, matched_fields: ['name'] } });
  });

  test('rejects deleting a policy that a pool uses', async () => {
    const pool = await newPool(tenant);
    const { error } = (await remove(pool.policy_id)).body;
    expect(error.details).toMatchObject({ reason: 'in_use', references: { pools: 1 } });
  });
});
