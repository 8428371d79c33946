// Telephone numbers in the spellings that people and programs send.
import { describe, expect, test } from 'vitest';
import { type CountryCode, readPhoneNumber } from '../../domain/objects/phone-numbers.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  newCustomField,
  newCustomObject,
  patchRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, type Tenant } from '../support/tenants.ts';

const spellings: readonly [text: string, country: CountryCode | undefined, stored: string | undefined][] = [
  ['+971 50 123 4567', undefined, '+971501234567'],
  ['0049 30 1234567', 'DE', '+49301234567'],
  ['0049-30-1234567', 'AE', '+49301234567'],
  // Americans dial 011, not 00.
  ['0049301234567', 'US', '+49301234567'],
  ['0049301234567', undefined, '+49301234567'],
  ['971501234567', undefined, '+971501234567'],
  ['971501234567', 'AE', '+971501234567'],
  ['4915112345678', 'AE', '+4915112345678'],
  ['030 1234567', 'DE', '+49301234567'],
  ['050 123 4567', 'AE', '+971501234567'],
  ['(202) 555-0123', 'US', '+12025550123'],
  ['tel:+49-30-1234567', undefined, '+49301234567'],
  ['TEL:030-1234567', 'DE', '+49301234567'],
  ['030 1234567', undefined, undefined],
  ['+49 30 1234567 ext. five', 'DE', undefined],
  ['0049301234567 call me', 'US', undefined],
  ['12', 'AE', undefined],
  ['00', 'DE', undefined],
  ['tel:', 'DE', undefined],
  ['call me', 'DE', undefined],
];

test.each(spellings)('parses %j in a workspace of %s as %s', (text, country, stored) => {
  expect(readPhoneNumber(text, country)?.number).toBe(stored);
  expect(readPhoneNumber(text, country)?.extension).toBeUndefined();
});

const extended: readonly [text: string, country: CountryCode | undefined, stored: string, extension: string][] = [
  ['+49 30 1234567 ext. 5', undefined, '+49301234567', '5'],
  ['030 1234567 x12', 'DE', '+49301234567', '12'],
  ['(202) 555-0123 #0042', 'US', '+12025550123', '0042'],
  ['+49 30 1234567 extension 512', undefined, '+49301234567', '512'],
  ['tel:+49-30-1234567;ext=5', undefined, '+49301234567', '5'],
  ['0049301234567 ext. 5', 'US', '+49301234567', '5'],
  ['4915112345678 x7', 'AE', '+4915112345678', '7'],
];

test.each(extended)(
  'parses %j in a workspace of %s as %s with the extension %s',
  (text, country, number, extension) => {
    expect(readPhoneNumber(text, country)).toEqual({ number, extension });
  },
);

async function newGermanTenant(): Promise<Tenant> {
  const tenant = await newWideTenant();
  await database()`update companies set country = 'Germany' where id = ${tenant.companyId}`;
  return tenant;
}

test('reads a number with the country of the workspace wherever it is sent', async () => {
  const { key } = await newGermanTenant();
  const written = '030 1234567';
  const stored = '+49301234567';
  const created = await createRecord(key, 'leads', { first_name: 'A', mobile: written });
  expect(created.mobile).toBe(stored);
  const post = async (status: number, path: string, body: object) =>
    (await expectStatus(status, 'POST', path, { key, body, idempotencyKey: true })).body.data;
  const upserted = await post(200, `${recordsPath('leads')}:upsert`, {
    match_on: ['mobile'],
    record: { first_name: 'B', mobile: '0049 30 1234567' },
  });
  expect(upserted.record.id).toBe(created.id);
  const batch = await post(200, `${recordsPath('leads')}:batch`, {
    records: [{ first_name: 'C', mobile: '4930 1234567' }],
  });
  expect(batch.succeeded[0].record.mobile).toBe(stored);
  const taken = await post(201, '/v1/leads', { first_name: 'D', mobile: 'tel:030-1234567' });
  expect(taken.lead.mobile).toBe(stored);
  expect((await patchRecord(key, 'leads', taken.lead.id, { mobile: '030/1234568' })).mobile).toBe('+49301234568');
  const filter = JSON.stringify({ field: 'mobile', op: 'eq', value: '030 1234567 ext. 9' });
  expect(await walk(key, 'leads', { filter })).toHaveLength(2);
  const { matches } = await post(200, `${recordsPath('leads')}:check-duplicates`, {
    record: { mobile: '(030) 1234567' },
    fields: ['mobile'],
  });
  expect(matches).toHaveLength(2);
  expect((await post(201, '/v1/messages/drafts', { channel: 'sms', to: written, body: 'Hi' })).draft.to).toBe(stored);
  expect((await post(201, '/v1/dnc-list', { phone_number: written })).entry.phone_number).toBe(stored);
});

describe('extensions', () => {
  test('stores the extension of a number in the field extension', async () => {
    const { key } = await newGermanTenant();
    const number = '030 1234567 ext. 12';
    const extended = { extension: '12' };
    const lead = await createRecord(key, 'leads', { first_name: 'A', mobile: number });
    expect(lead).toMatchObject({ mobile: '+49301234567', ...extended });
    const customer = await createRecord(key, 'customers', { first_name: 'A', mobile: '+4915112345678', phone: number });
    expect(customer).toMatchObject({ mobile: '+4915112345678', phone: '+49301234567', ...extended });
    expect(await createRecord(key, 'accounts', { name: 'A', phone: number })).toMatchObject(extended);
    const intake = await expectStatus(201, 'POST', '/v1/leads', { key, body: { first_name: 'A', mobile: number } });
    expect(intake.body.data.lead).toMatchObject({ mobile: '+49301234567', ...extended });
    const profile = await expectStatus(200, 'GET', `/v1/customers/${customer.id}`, { key });
    expect(profile.body.data.customer).toMatchObject(extended);
  });

  test('keeps the extension of an updated record unless the update sends another one', async () => {
    const { key } = await newGermanTenant();
    const { id } = await createRecord(key, 'leads', { first_name: 'A', mobile: '030 1234567', extension: '12' });
    const patch = (body: object) => patchRecord(key, 'leads', id, body);
    expect(await patch({ mobile: '030 1234568' })).toMatchObject({ mobile: '+49301234568', extension: '12' });
    expect(await patch({ mobile: '030 1234568 x7' })).toMatchObject({ mobile: '+49301234568', extension: '7' });
    expect(await patch({ extension: '8', mobile: '030 1234568 x8' })).toMatchObject({ extension: '8' });
    expect(await patch({ extension: null })).toMatchObject({ mobile: '+49301234568', extension: null });
  });

  test('moves the extension to the customer of a converted lead', async () => {
    const { key } = await newGermanTenant();
    const { id } = await createRecord(key, 'leads', { first_name: 'A', mobile: '030 1234567 x12' });
    const { body } = await expectStatus(200, 'POST', `/v1/leads/${id}/convert`, {
      key,
      body: {},
      idempotencyKey: true,
    });
    const customers: Json[] = await walk(key, 'customers');
    expect(customers.find((customer) => customer.id === body.data.customer.id)?.extension).toBe('12');
  });

  test.each([
    [{ mobile: '030 1234567 x5', extension: '6' }, 'mobile CONFLICTING_FIELDS'],
    [{ extension: '6', mobile: '030 1234567 x5' }, 'mobile CONFLICTING_FIELDS'],
    [{ mobile: '030 1234567 x5', phone: '030 1234567 x6' }, 'phone CONFLICTING_FIELDS'],
    [{ mobile: '030 1234567 x5', extension: '6'.repeat(21) }, 'extension TOO_LONG'],
  ])('rejects a record with two extensions: %j', async (body, expected) => {
    const { key } = await newGermanTenant();
    const asked = { key, body: { first_name: 'A', ...body }, idempotencyKey: true } as const;
    expect(await refusedFields(422, 'POST', recordsPath('customers'), asked)).toEqual([expected]);
  });

  test('takes an empty extension for none, in a create as in an update', async () => {
    const { key } = await newGermanTenant();
    const record = { first_name: 'A', email: 'a@example.com', mobile: '030 1234567 x5', extension: null };
    const upsert = () =>
      call('POST', `${recordsPath('customers')}:upsert`, {
        key,
        body: { match_on: ['email'], record },
        idempotencyKey: true,
      });
    for (const status of [201, 200]) {
      const answer = await upsert();
      expect([answer.status, answer.body.data?.record?.extension], answer.text).toEqual([status, '5']);
    }
  });

  test('rejects an extension that no field can keep', async () => {
    const tenant = await newGermanTenant();
    const { key } = tenant;
    const number = '030 1234567 ext. 12';
    const visits = await newCustomObject(tenant, 'visits');
    await newCustomField(tenant, visits, 'line', { type: 'phone' });
    await newCustomField(tenant, 'leads', 'line', { type: 'phone' });
    await database()`
      insert into field_overrides (company_id, object, name, enabled, updated_at)
      values (${tenant.companyId}, 'accounts', 'extension', false, now())`;
    for (const [object, body, field] of [
      [visits, { name: 'A', line: number }, 'line'],
      ['leads', { first_name: 'A', email: 'a@x.example', line: number }, 'line'],
      ['accounts', { name: 'A', phone: number }, 'phone'],
    ] as const) {
      const refused = await call('POST', recordsPath(object), { key, body, idempotencyKey: true });
      expect([refused.status, refused.body.error.details.fields]).toMatchObject([
        422,
        [{ field, code: 'INVALID_FORMAT', message: expect.stringContaining('without an extension') }],
      ]);
    }
    const draft = { key, body: { channel: 'sms', to: number, body: 'Hi' }, idempotencyKey: true } as const;
    expect(await refusedFields(400, 'POST', '/v1/messages/drafts', draft)).toEqual(['to INVALID_FORMAT']);
  });
});
