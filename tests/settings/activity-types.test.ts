// Activity types: reading and configuring. Walks over all operations test credentials and scopes.
import { describe, expect, test } from 'vitest';
import { activityTypes } from '../../domain/onboarding/defaults.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, leftBehind, refusedFields } from '../support/records.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

test('creates a workspace with the ten default types in order', async () => {
  const tenant = await newTenant();
  const { body } = await expectStatus(200, 'GET', '/v1/activity-types', { key: tenant.key });
  expect(body.data.activity_types.map((type: { name: string }) => type.name)).toEqual(activityTypes);
  expect(body.data.activity_types[0]).toMatchObject({
    icon: null,
    is_active: true,
    is_system: true,
    order_position: 1,
  });
});

test('shows a disabled type as inactive from the next call on', async () => {
  const tenant = await newTenant();
  await expectStatus(200, 'GET', '/v1/activity-types', { key: tenant.key });
  await database()`update activity_types set is_active = false where company_id = ${tenant.companyId} and name = 'Call'`;
  const { body } = await expectStatus(200, 'GET', '/v1/activity-types', { key: tenant.key });
  expect(body.data.activity_types[0]).toMatchObject({ name: 'Call', is_active: false });
});

describe('configuring', () => {
  const settings = '/v1/settings/activity-types';
  const list = async (tenant: Tenant): Promise<Json[]> =>
    (await expectStatus(200, 'GET', '/v1/activity-types', { key: tenant.key })).body.data.activity_types;
  const named = async (tenant: Tenant, name: string): Promise<Json> =>
    (await list(tenant)).find((type) => type.name === name);
  const create = async (tenant: Tenant, body: object): Promise<Json> =>
    (await expectStatus(201, 'POST', settings, { key: tenant.key, body })).body.data.activity_type;
  const change = (status: number, tenant: Tenant, id: string, body: object) =>
    expectStatus(status, 'PATCH', `${settings}/${id}`, { key: tenant.key, body });

  test('appends a new type unless it has a position, for use by the next activity', async () => {
    const tenant = await newTenant();
    const visit = await create(tenant, { name: ' Site visit ' });
    expect(visit).toEqual({
      id: expect.any(String),
      name: 'Site visit',
      icon: null,
      color: '#9CA3AF',
      is_active: true,
      is_system: false,
      order_position: 11,
    });
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'S', email: 's@x.example' });
    const activity = { entity_type: 'lead', entity_id: lead.id, activity_type: 'site VISIT', summary: 'x' };
    await expectStatus(201, 'POST', '/v1/activities', { key: tenant.key, body: activity });
    const demo = await create(tenant, {
      name: 'Demo',
      icon: 'play',
      color: '#2563eb',
      is_active: false,
      order_position: 2,
    });
    expect(demo).toMatchObject({ icon: 'play', color: '#2563eb', is_active: false, order_position: 2 });
    const types = await list(tenant);
    expect(types.map((type) => type.name)).toEqual(['Call', 'Demo', ...activityTypes.slice(1), 'Site visit']);
    expect(types.map((type) => type.order_position)).toEqual(types.map((_, index) => index + 1));
    expect((await leftBehind(visit.id)).audit).toMatchObject([
      { action: 'settings.activity_type.create', changes: { name: { from: null, to: 'Site visit' } } },
    ]);
  });

  test('audits the changed fields, shifts other types for a move, and writes nothing without a change', async () => {
    const tenant = await newTenant();
    const { id } = await create(tenant, { name: 'Visit', order_position: 1 });
    const { body } = await change(200, tenant, id, { name: 'Site visit', icon: 'pin', order_position: 99 });
    expect(body.data.activity_type).toMatchObject({ name: 'Site visit', icon: 'pin', order_position: 11 });
    expect((await list(tenant)).map((type) => type.name)).toEqual([...activityTypes, 'Site visit']);
    await change(200, tenant, id, { name: 'Site visit' });
    expect((await change(200, tenant, id, { icon: null })).body.data.activity_type.icon).toBeNull();
    const { audit } = await leftBehind(id);
    expect(audit.map((row) => row.changes)).toEqual([
      {
        name: { from: null, to: 'Visit' },
        color: { from: null, to: '#9CA3AF' },
        is_active: { from: null, to: true },
        is_system: { from: null, to: false },
        order_position: { from: null, to: 1 },
      },
      {
        name: { from: 'Visit', to: 'Site visit' },
        icon: { from: null, to: 'pin' },
        order_position: { from: 1, to: 11 },
      },
      { icon: { from: 'pin', to: null } },
    ]);
  });

  test('keeps names unique without case across 16 concurrent calls, and never renames system types', async () => {
    const tenant = await newTenant();
    const twin = await expectStatus(409, 'POST', settings, { key: tenant.key, body: { name: ' cALL' } });
    const call_ = await named(tenant, 'Call');
    expect(twin.body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['name'], existing_id: call_.id },
    });
    const visit = await create(tenant, { name: 'Visit' });
    expect((await change(409, tenant, visit.id, { name: 'EMAIL' })).body.error.code).toBe('ALREADY_EXISTS');
    await change(200, tenant, visit.id, { name: 'VISIT' });
    expect((await change(409, tenant, call_.id, { name: 'Ring' })).body.error.details.reason).toBe('system_type');
    const same = Array.from({ length: 16 }, () => call('POST', settings, { key: tenant.key, body: { name: 'Same' } }));
    const statuses = (await Promise.all(same)).map((answer) => answer.status).sort();
    expect(statuses).toEqual([201, ...Array(15).fill(409)]);
  });

  test('keeps one active type, and allows at most 200 types', async () => {
    const tenant = await newTenant();
    const types = await list(tenant);
    for (const type of types.slice(1)) await change(200, tenant, type.id, { is_active: false });
    expect((await change(409, tenant, types[0].id, { is_active: false })).body.error.details.reason).toBe(
      'last_active',
    );
    await change(200, tenant, types[1].id, { is_active: true });
    await change(200, tenant, types[0].id, { is_active: false });
    await database()`
      insert into activity_types (company_id, id, name, order_position)
      select ${tenant.companyId}, gen_random_uuid(), 'Type ' || n, n from generate_series(11, 200) n`;
    const { body } = await expectStatus(409, 'POST', settings, { key: tenant.key, body: { name: 'More' } });
    expect(body.error.details).toEqual({ reason: 'type_limit_reached', limit: 200 });
  });

  test.each<[number, object, string[]]>([
    [400, { name: ' ' }, ['name INVALID_FORMAT']],
    [
      400,
      { name: 'x'.repeat(61), color: 'red', order_position: 0 },
      ['color INVALID_FORMAT', 'name TOO_LONG', 'order_position OUT_OF_RANGE'],
    ],
    [422, { name: 1, colour: 'x' }, ['colour UNKNOWN_FIELD', 'name INVALID_TYPE']],
    [422, { name: 'x', is_system: true, id: 'x' }, ['id READ_ONLY', 'is_system READ_ONLY']],
  ])('rejects with %i: %j', async (status, body, problems) => {
    const tenant = await newTenant();
    const { id } = await create(tenant, { name: 'Visit' });
    for (const [method, path] of [
      ['POST', settings],
      ['PATCH', `${settings}/${id}`],
    ] as const)
      expect((await refusedFields(status, method, path, { key: tenant.key, body })).sort()).toEqual(problems);
  });
});
