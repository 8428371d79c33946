// Duplicate checks: their settings, and new records compared with stored ones by any field.
import { describe, expect, test } from 'vitest';
import { findBuiltinObject } from '../../domain/objects/builtin.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  newCustomField,
  patchRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const root = '/v1/settings/duplicate-check';
const put = async (tenant: Tenant, object: string, body: object): Promise<Json> =>
  (await expectStatus(200, 'PUT', `${root}/${object}`, { key: tenant.key, body })).body.data.duplicate_check;
const read = async (key: string): Promise<Json> =>
  (await expectStatus(200, 'GET', root, { key })).body.data.duplicate_checks;
const post = (tenant: Tenant, object: string, body: object): Promise<Answer> =>
  call('POST', recordsPath(object), { key: tenant.key, body, idempotencyKey: true });

test('checks nothing in a new workspace, and shows and audits a set check in both modes', async () => {
  const tenant = await newTenant();
  const off = [
    { object: 'leads', enabled: false, fields: [] },
    { object: 'deals', enabled: false, fields: [] },
  ];
  expect(await read(tenant.key)).toEqual(off);
  const check = { object: 'leads', enabled: true, fields: ['mobile', 'email'] };
  expect(await put(tenant, 'leads', { enabled: true, fields: ['mobile', 'email'] })).toEqual(check);
  for (const key of [tenant.key, tenant.testKey]) expect(await read(key)).toEqual([check, off[1]]);
  // A PUT without a change is audited as well, because it sets the whole check.
  await put(tenant, 'leads', { enabled: true, fields: ['mobile', 'email'] });
  const audit = await database()`
    select action, object, changes from audit_logs where company_id = ${tenant.companyId} order by id`;
  const noted = { action: 'settings.duplicate_check.update', object: 'leads' };
  expect(audit).toEqual([
    { ...noted, changes: { enabled: { from: false, to: true }, fields: { from: [], to: ['mobile', 'email'] } } },
    { ...noted, changes: {} },
  ]);
  expect(await put(tenant, 'leads', { enabled: false, fields: [] })).toEqual(off[0]);
  expect(await read(tenant.key)).toEqual(off);
});

test('sets a check in a workspace without a stored one', async () => {
  const tenant = await newTenant();
  await database()`delete from duplicate_checks where company_id = ${tenant.companyId}`;
  expect(await read(tenant.key)).toMatchObject([{ enabled: false }, { enabled: false }]);
  await put(tenant, 'deals', { enabled: true, fields: ['name'] });
  expect(await read(tenant.key)).toMatchObject([{ enabled: false }, { enabled: true, fields: ['name'] }]);
});

describe('rejected checks', () => {
  test.each<[string, object, number, string[]]>([
    ['to enable without fields', { enabled: true, fields: [] }, 400, ['fields TOO_SHORT']],
    ['no fields', { enabled: true }, 400, ['fields REQUIRED']],
    ['nothing', {}, 400, ['enabled REQUIRED', 'fields REQUIRED']],
    ['a field twice', { enabled: true, fields: ['email', 'email'] }, 400, ['fields DUPLICATE']],
    [
      '21 fields',
      { enabled: false, fields: Array.from({ length: 21 }, (_, index) => `f${index}`) },
      422,
      [...Array.from({ length: 21 }, (_, index) => `fields[${index}] UNKNOWN_FIELD`), 'fields TOO_LONG'],
    ],
    [
      'an unknown field, also while it is off',
      { enabled: false, fields: ['email', 'stage'] },
      422,
      ['fields[1] UNKNOWN_FIELD'],
    ],
    [
      'read-only fields',
      { enabled: true, fields: ['source_id', 'last_contacted_at'] },
      422,
      ['fields[0] INVALID_OPTION', 'fields[1] INVALID_OPTION'],
    ],
    ['fields that every record has', { enabled: true, fields: ['id'] }, 422, ['fields[0] UNKNOWN_FIELD']],
    ['text for a switch', { enabled: 'true', fields: ['email'] }, 422, ['enabled INVALID_TYPE']],
    ['the object in the body', { enabled: true, fields: ['email'], object: 'leads' }, 422, ['object READ_ONLY']],
    ['something unknown', { enabled: true, fields: ['email'], zzz: 1 }, 422, ['zzz UNKNOWN_FIELD']],
  ])('rejects a check with %s', async (_, body, status, problems) => {
    const tenant = await newTenant();
    expect(await refusedFields(status, 'PUT', `${root}/leads`, { key: tenant.key, body })).toEqual(problems);
    expect(await read(tenant.key)).toMatchObject([{ enabled: false, fields: [] }, {}]);
  });

  test('rejects checks of other objects, and changes with a test key', async () => {
    const tenant = await newTenant();
    const body = { enabled: true, fields: ['email'] };
    for (const object of ['customers', 'accounts', 'Leads', 'object:x'])
      await expectStatus(404, 'PUT', `${root}/${object}`, { key: tenant.key, body });
    await expectStatus(403, 'PUT', `${root}/leads`, { key: tenant.testKey, body });
  });

  test('ignores a disabled field of a check, and rejects selecting one', async () => {
    const tenant = await newTenant();
    await put(tenant, 'leads', { enabled: true, fields: ['city', 'last_name'] });
    const lead = { first_name: 'A', email: 'a@x.example', city: 'Berlin', last_name: 'L' };
    await createRecord(tenant.key, 'leads', lead);
    const disable = { key: tenant.key, body: { enabled: false } };
    await expectStatus(200, 'PATCH', '/v1/objects/leads/fields/city', disable);
    const { city: _, ...rest } = lead;
    expect((await post(tenant, 'leads', rest)).body.error.details.matched_fields).toEqual(['last_name']);
    const options = { key: tenant.key, body: { enabled: true, fields: ['city'] } };
    expect(await refusedFields(422, 'PUT', `${root}/leads`, options)).toEqual(['fields[0] UNKNOWN_FIELD']);
  });
});

/** Returns a value for each writable field that no other record of the tenant has. */
async function buildValues(tenant: Tenant, object: 'leads' | 'deals'): Promise<Record<string, unknown>> {
  await database()`
    insert into sources (company_id, id, name, created_at, updated_at)
    values (${tenant.companyId}, gen_random_uuid(), 'Fair', now(), now()) on conflict do nothing`;
  const user = await newUser(tenant);
  const long = 'x'.repeat(1500);
  const leads = {
    first_name: 'Ada',
    last_name: 'Österreich',
    email: 'ada@x.example',
    mobile: '+971501234567',
    extension: '12',
    company_name: 'Co',
    job_title: 'CTO',
    website: `https://x.example/${long}`,
    city: 'Berlin',
    state: 'BE',
    country: 'DE',
    postal_code: '10115',
    inquiry_details: `€${long}`,
    notes: `n${long}`,
    source: 'Fair',
    priority: 1,
    origin: 'fair',
    lead_status: 'Qualified',
    assigned_to: user.id,
  };
  if (object === 'leads') return leads;
  const account = await createRecord(tenant.key, 'accounts', { name: 'A' });
  const customer = await createRecord(tenant.key, 'customers', { first_name: 'C' });
  const lead = await createRecord(tenant.key, 'leads', { first_name: 'L', email: 'l@x.example' });
  return {
    name: 'Deal',
    amount_minor: 1234,
    currency_code: 'JPY',
    pipeline: 'Sales',
    stage: 'Proposal',
    probability: 55,
    expected_close_date: '2030-01-02',
    priority: 1,
    source: 'Fair',
    lost_reason: 'r'.repeat(500),
    description: `d${long}`,
    customer_id: customer.id,
    account_id: account.id,
    lead_id: lead.id,
    assigned_to: user.id,
  };
}

describe.each(['leads', 'deals'] as const)('%s', (object) => {
  const writable = (findBuiltinObject(object)?.fields ?? [])
    .filter((field) => !field.readOnly)
    .map((field) => field.name);

  test('compares new records with stored ones by each writable field', async () => {
    const tenant = await newTenant();
    const values = await buildValues(tenant, object);
    expect(Object.keys(values).toSorted()).toEqual(writable.toSorted());
    const stored = await createRecord(tenant.key, object, values);
    const basis = (index: number) =>
      object === 'leads' ? { first_name: `B${index}`, email: `b${index}@x.example` } : { name: `B${index}` };
    for (const [index, field] of writable.entries()) {
      await put(tenant, object, { enabled: true, fields: [field] });
      const { status, body } = await post(tenant, object, { ...basis(index), [field]: values[field] });
      expect([field, status, body.error?.code, body.error?.details]).toEqual([
        field,
        409,
        'ALREADY_EXISTS',
        { matched_fields: [field], existing_id: stored.id },
      ]);
    }
  });

  test('has an index for each of these fields, so no check reads a whole tenant', async () => {
    const rows = await database()<{ definition: string }[]>`
      select indexdef as definition from pg_indexes where tablename = ${object}`;
    const leading = rows.map(({ definition }) => definition.match(/\((?:company_id), (?:test_mode, )?(\w+)/)?.[1]);
    const columns = await database()<{ name: string }[]>`
      select column_name as name from information_schema.columns where table_name = ${object}`;
    const names = new Set(columns.map((column) => column.name));
    const indexed = (field: string): boolean =>
      [field, `${field}_hash`, `${field}_id`].some((name) => names.has(name) && leading.includes(name));
    expect(writable.filter((field) => !indexed(field))).toEqual([]);
  });

  test.each([
    ['text', 'T-1', 'T-2'],
    ['textarea', 'x'.repeat(5000), 'x'.repeat(4999)],
    ['number', 12.5, 12],
    ['currency', '1200', 1201],
    ['boolean', true, false],
    ['date', '2026-01-01', '2026-01-02'],
    ['datetime', '2026-01-01T00:00:00+01:00', '2026-01-01T00:00:00Z'],
    ['email', 'X@y.example', 'x@z.example'],
    ['phone', '+971 50 123 4567', '+971501234568'],
    ['url', 'https://x.example', 'https://x.example/'],
    ['select', 'red', 'blue'],
  ])('compares new records with stored ones by a custom field of the type %s', async (type, same, other) => {
    const tenant = await newTenant();
    const options = type === 'select' ? { options: [{ value: 'red' }, { value: 'blue' }] } : {};
    await newCustomField(tenant, object, 'mark', { type, ...options });
    await put(tenant, object, { enabled: true, fields: ['mark'] });
    const basis = object === 'leads' ? { first_name: 'A', mobile: '+4930123456' } : { name: 'A' };
    const { id } = await createRecord(tenant.key, object, { ...basis, mark: same });
    expect((await post(tenant, object, { ...basis, mark: same })).body.error.details).toEqual({
      matched_fields: ['mark'],
      existing_id: id,
    });
    const changed = await createRecord(tenant.key, object, { ...basis, mark: other });
    await patchRecord(tenant.key, object, changed.id, { mark: null });
    expect((await post(tenant, object, { ...basis, mark: other })).status).toBe(201);
    await patchRecord(tenant.key, object, id, { mark: null });
    expect((await post(tenant, object, { ...basis, mark: same })).status).toBe(201);
    await createRecord(tenant.key, object, basis);
  });

  test('removes the hashes of custom fields when records are deleted', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, object, 'mark');
    const basis = object === 'leads' ? { first_name: 'A', mobile: '+4930123456' } : { name: 'A' };
    const { id } = await createRecord(tenant.key, object, { ...basis, mark: 'x' });
    const hashes = () => database()`select from custom_value_hashes where record_id = ${id}`;
    expect(await hashes()).toHaveLength(1);
    await patchRecord(tenant.key, object, id, { mark: 'y' });
    expect(await hashes()).toHaveLength(1);
    await expectStatus(200, 'DELETE', recordsPath(object, id), { key: tenant.key });
    expect(await hashes()).toHaveLength(0);
  });
});

test('applies a check to the next call of both lead operations, but not to changes and batches', async () => {
  const tenant = await newTenant();
  const lead = { first_name: 'A', email: 'a@x.example', mobile: '+971501234567' };
  const { id } = await createRecord(tenant.key, 'leads', lead);
  await put(tenant, 'leads', { enabled: true, fields: ['mobile'] });
  const details = { matched_fields: ['mobile'], existing_id: id };
  const same = { first_name: 'B', mobile: '+971 50 123-4567' };
  expect((await post(tenant, 'leads', same)).body.error.details).toEqual(details);
  const intake = await expectStatus(409, 'POST', '/v1/leads', { key: tenant.key, body: same });
  expect(intake.body.error).toMatchObject({ code: 'ALREADY_EXISTS', details });
  // Intake always compares the email, selected or not.
  const byAddress = { key: tenant.key, body: { first_name: 'B', email: 'A@x.example' } };
  const { body } = await expectStatus(409, 'POST', '/v1/leads', byAddress);
  expect(body.error.details).toEqual({ matched_fields: ['email'], existing_id: id });
  const other = await createRecord(tenant.key, 'leads', { first_name: 'B', email: 'a@x.example' });
  await patchRecord(tenant.key, 'leads', other.id, { mobile: lead.mobile });
  expect(await createRecords(tenant.key, 'leads', [lead])).toHaveLength(1);
  await put(tenant, 'leads', { enabled: false, fields: ['mobile'] });
  expect((await post(tenant, 'leads', same)).status).toBe(201);
});
