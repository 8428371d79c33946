// Sources: one list with unique names, disabled instead of deleted.
import { describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, leftBehind, patchRecord, readRecord, recordsPath, refusedFields } from '../support/records.ts';
import { changeSetting, createSetting, listSettings } from '../support/settings.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

const root = '/v1/settings/sources';
const create = (tenant: Tenant, body: object): Promise<Json> => createSetting(tenant, root, body);
const patch = (tenant: Tenant, id: string, body: object): Promise<Json> => changeSetting(tenant, `${root}/${id}`, body);
const list = (tenant: Tenant): Promise<Json[]> => listSettings(tenant.key, root);
const lead = { first_name: 'Ada', email: 'ada@x.example' };

test('creates a source with defaults, readable in both modes, and audits it', async () => {
  const tenant = await newTenant();
  expect(await list(tenant)).toEqual([]);
  const source = await create(tenant, { name: ' Trade fair ' });
  expect(source).toEqual({
    id: source.id,
    name: 'Trade fair',
    description: null,
    is_enabled: true,
    created_at: source.created_at,
    updated_at: source.created_at,
  });
  expect(await list(tenant)).toEqual([source]);
  const { body } = await expectStatus(200, 'GET', `${root}/${source.id}`, { key: tenant.testKey });
  expect(body.data.source).toEqual(source);
  expect((await leftBehind(source.id)).audit).toMatchObject([
    { action: 'settings.source.create', changes: { name: { from: null, to: 'Trade fair' } } },
  ]);
});

test('changes each field of a source alone, and audits it', async () => {
  const tenant = await newTenant();
  let source = await create(tenant, { name: 'Fair' });
  const changes: [string, unknown][] = [
    ['name', 'FAIR'],
    ['description', 'x'.repeat(500)],
    ['description', null],
    ['is_enabled', false],
    ['name', 'x'.repeat(100)],
  ];
  for (const [field, value] of changes) {
    const changed = await patch(tenant, source.id, { [field]: value });
    expect(changed).toEqual({ ...source, [field]: value, updated_at: changed.updated_at });
    expect((await leftBehind(source.id)).audit.at(-1)).toMatchObject({
      action: 'settings.source.update',
      changes: { [field]: { from: source[field], to: value } },
    });
    source = changed;
  }
  expect(await list(tenant)).toEqual([source]);
});

test('lists all sources by name, including disabled ones and more than a page', async () => {
  const tenant = await newTenant();
  const names = Array.from({ length: 130 }, (_, index) => `Source ${String(index).padStart(3, '0')}`);
  await database()`
    insert into sources (company_id, id, name, is_enabled, created_at, updated_at)
    select ${tenant.companyId}, gen_random_uuid(), name, name like '%7', now(), now() from unnest(${names}::text[]) name`;
  expect((await list(tenant)).map((source) => source.name)).toEqual(names);
});

test('accepts a new source in the next call, and rejects but still shows a disabled one', async () => {
  const tenant = await newTenant();
  const { id } = await create(tenant, { name: 'Fair' });
  const made = await createRecord(tenant.key, 'leads', { ...lead, source: 'fair' });
  expect(made).toMatchObject({ source: 'Fair', source_id: id });
  await patch(tenant, id, { is_enabled: false, name: 'Old fair' });
  for (const [object, body] of [
    ['leads', lead],
    ['deals', { name: 'D' }],
    ['customers', { first_name: 'C' }],
  ] as const) {
    const options = { key: tenant.key, body: { ...body, source: 'Old fair' }, idempotencyKey: true as const };
    expect(await refusedFields(422, 'POST', recordsPath(object), options)).toEqual(['source INVALID_OPTION']);
  }
  await expectStatus(422, 'POST', '/v1/leads', { key: tenant.key, body: { ...lead, source: 'Old fair' } });
  expect((await readRecord(tenant.key, 'leads', made.id)).source).toBe('Old fair');
  expect((await patchRecord(tenant.key, 'leads', made.id, { first_name: 'B' })).source).toBe('Old fair');
});

describe('names', () => {
  test('keeps source names unique without case, including disabled ones', async () => {
    const tenant = await newTenant();
    const { id } = await create(tenant, { name: 'Größe', is_enabled: false });
    const other = await create(tenant, { name: 'Other' });
    for (const [method, path, name] of [
      ['POST', root, 'GRÖßE '],
      ['PATCH', `${root}/${other.id}`, 'größe'],
    ] as const) {
      const { body } = await expectStatus(409, method, path, { key: tenant.key, body: { name } });
      expect(body.error).toMatchObject({
        code: 'ALREADY_EXISTS',
        details: { matched_fields: ['name'], existing_id: id },
      });
    }
  });

  test('creates one source for 32 concurrent calls with one name, and rejects the others as existing', async () => {
    const tenant = await newTenant();
    const send = (): Promise<Answer> => call('POST', root, { key: tenant.key, body: { name: 'Fair' } });
    const answers = await Promise.all(Array.from({ length: 32 }, send));
    const codes = answers.map((answer) =>
      answer.status === 201 ? 'made' : `${answer.status} ${answer.body.error.code}`,
    );
    expect(codes.toSorted()).toEqual([...Array.from({ length: 31 }, () => '409 ALREADY_EXISTS'), 'made']);
    expect(await list(tenant)).toHaveLength(1);
  });

  test('renames one of 32 sources to one name, and keeps the others', async () => {
    const tenant = await newTenant();
    const made = await Promise.all(Array.from({ length: 32 }, (_, index) => create(tenant, { name: `S${index}` })));
    const answers = await Promise.all(
      made.map(({ id }) => call('PATCH', `${root}/${id}`, { key: tenant.key, body: { name: 'Same' } })),
    );
    const codes = answers.map((answer) => (answer.status === 200 ? 'done' : answer.body.error.code));
    expect(codes.toSorted()).toEqual([...Array.from({ length: 31 }, () => 'ALREADY_EXISTS'), 'done']);
  });
});

describe('rejected sources', () => {
  test.each<[string, object, number, string[]]>([
    ['no name', {}, 400, ['name REQUIRED']],
    ['an empty name', { name: '' }, 400, ['name TOO_SHORT']],
    ['a blank name', { name: '\t ' }, 400, ['name INVALID_FORMAT']],
    ['a name of 101 characters', { name: 'x'.repeat(101) }, 400, ['name TOO_LONG']],
    ['a description of 501', { name: 'X', description: 'x'.repeat(501) }, 400, ['description TOO_LONG']],
    ['null for a name', { name: null }, 422, ['name INVALID_TYPE']],
    ['an unknown field', { name: 'X', enabled: true }, 422, ['enabled UNKNOWN_FIELD']],
    ['a read-only field', { name: 'X', created_at: 'x' }, 422, ['created_at READ_ONLY']],
  ])('rejects a source with %s', async (_, body, status, problems) => {
    const tenant = await newTenant();
    expect(await refusedFields(status, 'POST', root, { key: tenant.key, body })).toEqual(problems);
    expect(await list(tenant)).toEqual([]);
  });

  test('rejects more than 500 sources', async () => {
    const tenant = await newTenant();
    await database()`
      insert into sources (company_id, id, name, created_at, updated_at)
      select ${tenant.companyId}, gen_random_uuid(), 'S' || i, now(), now() from generate_series(1, 500) i`;
    const { body } = await expectStatus(409, 'POST', root, { key: tenant.key, body: { name: 'X' } });
    expect(body.error.details).toEqual({ reason: 'source_limit_reached', limit: 500 });
  });

  test('rejects changes of sources by a read-only key and a test key', async () => {
    const tenant = await newTenant();
    const reader = await newKey(tenant, { scopes: ['settings:view'] });
    for (const key of [reader, tenant.testKey]) await expectStatus(403, 'POST', root, { key, body: { name: 'X' } });
  });
});

describe('a source in use', () => {
  test('rejects deleting a source while leads or deals of either mode have it, and counts both', async () => {
    const tenant = await newTenant();
    const { id } = await create(tenant, { name: 'Fair' });
    const first = await createRecord(tenant.key, 'leads', { ...lead, source: 'Fair' });
    await createRecord(tenant.testKey, 'leads', { ...lead, source: 'Fair' });
    const deal = await createRecord(tenant.testKey, 'deals', { name: 'D', source: 'Fair' });
    const refusal = async (): Promise<Json> =>
      (await expectStatus(409, 'DELETE', `${root}/${id}`, { key: tenant.key })).body.error;
    expect(await refusal()).toMatchObject({ code: 'CONFLICT' });
    expect((await refusal()).details).toEqual({ reason: 'in_use', references: { leads: 2, deals: 1 } });
    await patchRecord(tenant.key, 'leads', first.id, { source: null });
    await database()`delete from leads where company_id = ${tenant.companyId} and test_mode`;
    expect((await refusal()).details.references).toEqual({ leads: 0, deals: 1 });
    await expectStatus(200, 'DELETE', recordsPath('deals', deal.id), { key: tenant.testKey });
    const customer = await createRecord(tenant.key, 'customers', { first_name: 'C', source: 'Fair' });
    expect((await refusal()).details.references).toEqual({ leads: 0, deals: 0, customers: 1 });
    await patchRecord(tenant.key, 'customers', customer.id, { source: null });
    const { body } = await expectStatus(200, 'DELETE', `${root}/${id}`, { key: tenant.key });
    expect(body.data).toEqual({ id, deleted: true });
    await expectStatus(404, 'DELETE', `${root}/${id}`, { key: tenant.key });
    expect((await leftBehind(id)).audit.at(-1)).toMatchObject({
      action: 'settings.source.delete',
      changes: { name: { from: 'Fair', to: null } },
      test_mode: false,
    });
  });

  test('either deletes a source or assigns it to a record, if both happen at the same time', async () => {
    const tenant = await newTenant();
    for (let round = 0; round < 8; round += 1) {
      const { id, name } = await create(tenant, { name: `Race ${round}` });
      const [deleted, created] = await Promise.all([
        call('DELETE', `${root}/${id}`, { key: tenant.key }),
        call('POST', recordsPath('deals'), {
          key: tenant.key,
          body: { name: 'D', source: name },
          idempotencyKey: true,
        }),
      ]);
      expect([deleted.status === 200, created.status === 201].filter(Boolean)).toHaveLength(1);
      if (deleted.status !== 200) expect(deleted.body.error.details.reason).toBe('in_use');
    }
  });
});
