// What GET /v1/activity-types promises; credentials, scopes and errors are the walk's.
import { expect, test } from 'vitest';
import { activityTypes } from '../domain/defaults.ts';
import { expectStatus } from './support/client.ts';
import { database, newTenant } from './support/tenants.ts';

test('a new workspace has the ten default types, in their order', async () => {
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

test('a type that was switched off is shown as inactive on the very next call', async () => {
  const tenant = await newTenant();
  await expectStatus(200, 'GET', '/v1/activity-types', { key: tenant.key });
  await database()`update activity_types set is_active = false where company_id = ${tenant.companyId} and name = 'Call'`;
  const { body } = await expectStatus(200, 'GET', '/v1/activity-types', { key: tenant.key });
  expect(body.data.activity_types[0]).toMatchObject({ name: 'Call', is_active: false });
});
