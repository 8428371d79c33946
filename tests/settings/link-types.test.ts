// Link types: their names on each side, their limits, and the system link types.
import { describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, leftBehind, newCustomObject, recordsPath, refusedFields } from '../support/records.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

const root = '/v1/link-types';
const contacts = {
  name: 'contacts',
  inverse_name: 'employer',
  label: 'Contacts',
  inverse_label: 'Employer',
  from_object: 'accounts',
  to_object: 'customers',
  cardinality: 'one_to_many',
};

const create = async ({ key }: Tenant, more: object = {}): Promise<Json> =>
  (await expectStatus(201, 'POST', root, { key, body: { ...contacts, ...more } })).body.data.link_type;
const list = async (key: string): Promise<Json[]> =>
  (await expectStatus(200, 'GET', root, { key })).body.data.link_types;

test('creates a link type, shows it in both modes after the system link types, and writes an audit row', async () => {
  const tenant = await newTenant();
  const linkType = await create(tenant, { label: ' Contacts ' });
  expect(linkType).toEqual({
    id: linkType.id,
    ...contacts,
    is_system: false,
    is_enabled: true,
    created_at: linkType.created_at,
    updated_at: linkType.created_at,
  });
  expect((await list(tenant.testKey)).at(-1)).toEqual(linkType);
  const { body } = await expectStatus(200, 'GET', `${root}/${linkType.id}`, { key: tenant.testKey });
  expect(body.data.link_type).toEqual(linkType);
  expect((await leftBehind(linkType.id)).audit).toMatchObject([
    { action: 'settings.link_type.create', changes: { name: { from: null, to: 'contacts' } } },
  ]);
});

test('lists the references of records as system link types, which cannot be changed or deleted', async () => {
  const { key } = await newTenant();
  const system = await list(key);
  expect(system.map((type) => [type.from_object, type.name, type.to_object, type.inverse_name])).toEqual([
    ['customers', 'deals', 'deals', 'customer'],
    ['accounts', 'deals', 'deals', 'account'],
    ['leads', 'deals', 'deals', 'lead'],
    ['accounts', 'customers', 'customers', 'account'],
    [null, 'tasks', 'tasks', 'record'],
  ]);
  for (const type of system) {
    expect(type).toMatchObject({ is_system: true, is_enabled: true, cardinality: 'one_to_many', created_at: null });
    const path = `${root}/${type.id}`;
    expect((await expectStatus(200, 'GET', path, { key })).body.data.link_type).toEqual(type);
    for (const [method, body] of [
      ['PATCH', { label: 'L' }],
      ['DELETE', undefined],
    ] as const) {
      const { error } = (await expectStatus(409, method, path, { key, ...(body ? { body } : {}) })).body;
      expect(error.details.reason).toBe('system_link_type');
    }
  }
});

test('changes labels and the state, and nothing else', async () => {
  const tenant = await newTenant();
  const linkType = await create(tenant);
  const path = `${root}/${linkType.id}`;
  const change = async (body: object) => (await expectStatus(200, 'PATCH', path, { key: tenant.key, body })).body.data;
  const { link_type: changed } = await change({ label: 'People', inverse_label: 'Company', is_enabled: false });
  expect(changed).toEqual({
    ...linkType,
    label: 'People',
    inverse_label: 'Company',
    is_enabled: false,
    updated_at: changed.updated_at,
  });
  expect((await change({ label: 'People' })).link_type).toEqual(changed);
  for (const field of ['name', 'inverse_name', 'from_object', 'to_object', 'cardinality'])
    expect(await refusedFields(422, 'PATCH', path, { key: tenant.key, body: { [field]: linkType[field] } })).toEqual([
      `${field} READ_ONLY`,
    ]);
});

test.each([
  [400, { name: 'Contacts' }, 'name INVALID_FORMAT'],
  [400, { inverse_name: 'x' }, 'inverse_name INVALID_FORMAT'],
  [400, { label: ' ' }, 'label INVALID_FORMAT'],
  [400, { cardinality: 'many_to_one' }, 'cardinality INVALID_OPTION'],
  [422, { from_object: 'account' }, 'from_object INVALID_OPTION'],
  [422, { to_object: 'object:visits' }, 'to_object INVALID_OPTION'],
  [422, { to_object: 5 }, 'to_object INVALID_TYPE'],
  [400, { from_object: 'customers', name: 'employer' }, 'inverse_name DUPLICATE'],
  [422, { is_system: true }, 'is_system READ_ONLY'],
])('rejects with %i: %o', async (status, more, problem) => {
  const { key } = await newTenant();
  expect(await refusedFields(status, 'POST', root, { key, body: { ...contacts, ...more } })).toContain(problem);
  expect(await list(key)).toHaveLength(5);
});

describe('names', () => {
  test('keeps names unique on each object, from both sides and across system link types', async () => {
    const tenant = await newTenant();
    const linkType = await create(tenant);
    const other = { from_object: 'accounts', to_object: 'deals' };
    for (const [more, field, id] of [
      [{ ...other, name: 'contacts', inverse_name: 'seller' }, 'name', linkType.id],
      [
        { from_object: 'deals', to_object: 'accounts', name: 'seller', inverse_name: 'contacts' },
        'inverse_name',
        linkType.id,
      ],
      [{ ...other, name: 'deals', inverse_name: 'seller' }, 'name', '00000000-0000-8000-8000-000000000002'],
      [{ ...other, name: 'tasks', inverse_name: 'seller' }, 'name', '00000000-0000-8000-8000-000000000005'],
    ] as const) {
      const { error } = (await expectStatus(409, 'POST', root, { key: tenant.key, body: { ...contacts, ...more } }))
        .body;
      expect([error.code, error.details]).toEqual(['ALREADY_EXISTS', { matched_fields: [field], existing_id: id }]);
    }
    // The same name on another object is another link type.
    await create(tenant, { from_object: 'leads', to_object: 'deals', name: 'contacts', inverse_name: 'employer' });
  });

  test('requires different names for the two sides of one object', async () => {
    const tenant = await newTenant();
    const visits = await newCustomObject(tenant, 'visits');
    const next = { from_object: visits, to_object: visits, name: 'next_visit', inverse_name: 'previous_visit' };
    expect(await create(tenant, next)).toMatchObject(next);
  });
});

test('allows 50 custom link types per workspace', async () => {
  const tenant = await newTenant();
  await database()`
    insert into link_types (company_id, id, name, inverse_name, label, inverse_label, from_object, to_object, cardinality, created_at, updated_at)
    select ${tenant.companyId}, gen_random_uuid(), 'name_' || n, 'inverse_' || n, 'L', 'L', 'accounts', 'leads', 'many_to_many', now(), now()
    from generate_series(1, 49) n`;
  await create(tenant);
  const body = { ...contacts, name: 'more', inverse_name: 'of' };
  const { error } = (await expectStatus(409, 'POST', root, { key: tenant.key, body })).body;
  expect(error.details).toEqual({ reason: 'link_type_limit', limit: 50 });
});

test('deletes a link type once no link of either mode uses it', async () => {
  const tenant = await newTenant();
  const linkType = await create(tenant);
  const path = `${root}/${linkType.id}`;
  const links: [string, string, string][] = [];
  for (const key of [tenant.key, tenant.testKey, tenant.testKey]) {
    const account = await createRecord(key, 'accounts', { name: 'A' });
    const customer = await createRecord(key, 'customers', { first_name: 'C' });
    const on = `${recordsPath('accounts', account.id)}/links`;
    const body = { link_type: 'contacts', record_id: customer.id };
    links.push([key, on, (await expectStatus(201, 'POST', on, { key, body })).body.data.link.id]);
  }
  const { error } = (await expectStatus(409, 'DELETE', path, { key: tenant.key })).body;
  expect(error.details).toEqual({ reason: 'in_use', references: { links: 3 } });
  for (const [key, on, id] of links) await expectStatus(200, 'DELETE', `${on}/${id}`, { key });
  expect((await expectStatus(200, 'DELETE', path, { key: tenant.key })).body.data).toEqual({
    id: linkType.id,
    deleted: true,
  });
  await expectStatus(404, 'GET', path, { key: tenant.key });
});

test('requires settings:configure and a live key for changes, and never changes link types of another tenant', async () => {
  const [tenant, stranger] = await Promise.all([newTenant(), newTenant()]);
  const linkType = await create(tenant);
  const viewer = await newKey(tenant, { scopes: ['settings:view'] });
  await expectStatus(403, 'POST', root, { key: viewer, body: contacts });
  await expectStatus(403, 'POST', root, { key: tenant.testKey, body: contacts });
  for (const method of ['GET', 'PATCH', 'DELETE'])
    expect(
      (
        await call(method, `${root}/${linkType.id}`, {
          key: stranger.key,
          ...(method === 'PATCH' ? { body: { label: 'L' } } : {}),
        })
      ).status,
    ).toBe(404);
  expect(await list(stranger.key)).toHaveLength(5);
});
