// Duplicate checks on request: return every visible duplicate, and write nothing.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { createRecord, newCustomField, newCustomObject, recordsPath, refusedFields, walk } from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newCustomField(tenant, 'leads', 'tax_id');
  await newCustomField(tenant, 'leads', 'size', { type: 'number' });
  await newCustomField(tenant, 'leads', 'vip', { type: 'boolean' });
});

const buildPath = (object: string) => `${recordsPath(object)}:check-duplicates`;
const ask = async (object: string, body: object, credential = key): Promise<Json> =>
  (await expectStatus(200, 'POST', buildPath(object), { key: credential, body })).body.data;
const email = () => `${randomUUID()}@x.example`;

async function select(of: Tenant, object: string, fields: string[], enabled = true): Promise<void> {
  await database()`
    update duplicate_checks set enabled = ${enabled}, fields = ${fields} where company_id = ${of.companyId} and object = ${object}`;
}

describe('duplicates by given fields', () => {
  test('returns the records of any object that share all given values, oldest first', async () => {
    const visits = await newCustomObject(tenant, 'visits');
    await newCustomField(tenant, visits, 'code');
    const body = { name: 'V', code: randomUUID() };
    const first = await createRecord(key, visits, body);
    const second = await createRecord(key, visits, body);
    await createRecord(key, visits, { ...body, name: 'W' });
    expect(await ask(visits, { record: body, fields: ['code', 'name'] })).toEqual({
      object: visits,
      compared_fields: ['code', 'name'],
      matches: [first, second].map(({ id }) => ({ id, matched_fields: ['code', 'name'] })),
    });
    expect((await ask(visits, { record: { code: body.code }, fields: ['code', 'name'] })).matches).toHaveLength(3);
    expect(await ask(visits, { record: {}, fields: ['code'] })).toMatchObject({ compared_fields: [], matches: [] });
  });

  test('compares values in their stored form', async () => {
    const address = email();
    const lead = {
      first_name: 'A',
      email: address,
      mobile: '+4930123456',
      size: 1000,
      vip: true,
      lead_status: 'Qualified',
    };
    const { id } = await createRecord(key, 'leads', lead);
    const record = {
      email: address.toUpperCase(),
      mobile: '+49 30 123456',
      size: '1e3',
      vip: 'true',
      lead_status: 'QUALIFIED',
    };
    const fields = Object.keys(record);
    expect((await ask('leads', { record, fields })).matches).toEqual([{ id, matched_fields: fields }]);
    expect((await ask('leads', { record: { ...record, size: 999 }, fields })).matches).toEqual([]);
  });

  test('returns at most 20 duplicates', async () => {
    const city = randomUUID();
    for (let index = 0; index < 21; index += 1) await createRecord(key, 'accounts', { name: 'A', city });
    expect((await ask('accounts', { record: { city }, fields: ['city'] })).matches).toHaveLength(20);
  });
});

describe('duplicates by the check of the workspace', () => {
  test('compares leads by the selected fields that are given, or by the email alone', async () => {
    const own = await newTenant();
    await newCustomField(own, 'leads', 'tax_id');
    const [one, two] = [email(), email()];
    const a = await createRecord(own.key, 'leads', { first_name: 'A', email: one, tax_id: '1' });
    const b = await createRecord(own.key, 'leads', { first_name: 'B', email: two, tax_id: '1' });
    const record = { email: two, tax_id: '1' };
    expect(await ask('leads', { record }, own.key)).toMatchObject({ compared_fields: [], matches: [] });
    await select(own, 'leads', ['email', 'tax_id']);
    expect(await ask('leads', { record }, own.key)).toEqual({
      object: 'leads',
      compared_fields: ['email', 'tax_id'],
      matches: [{ id: b.id, matched_fields: ['email', 'tax_id'] }],
    });
    expect((await ask('leads', { record: { ...record, tax_id: '2' } }, own.key)).matches).toEqual([
      { id: b.id, matched_fields: ['email'] },
    ]);
    expect((await ask('leads', { record: { tax_id: '1' } }, own.key)).matches).toEqual(
      [a, b].map(({ id }) => ({ id, matched_fields: ['tax_id'] })),
    );
    await select(own, 'leads', ['email', 'tax_id'], false);
    expect((await ask('leads', { record }, own.key)).compared_fields).toEqual([]);
  });

  test('finds a deal that a create would reject', async () => {
    const own = await newTenant();
    await select(own, 'deals', ['name', 'stage']);
    const { id } = await createRecord(own.key, 'deals', { name: 'D' });
    const record = { name: 'D' };
    expect((await ask('deals', { record }, own.key)).matches).toEqual([{ id, matched_fields: ['name', 'stage'] }]);
    const refused = await expectStatus(409, 'POST', recordsPath('deals'), {
      key: own.key,
      body: record,
      idempotencyKey: true,
    });
    expect(refused.body.error.details.existing_id).toBe(id);
    const other = { name: 'D', stage: 'Won' };
    expect((await ask('deals', { record: other }, own.key)).matches).toEqual([]);
    await createRecord(own.key, 'deals', other);
  });

  test('requires fields for objects without a duplicate check', async () => {
    expect(await refusedFields(422, 'POST', buildPath('accounts'), { key, body: { record: { name: 'A' } } })).toEqual([
      'fields REQUIRED',
    ]);
  });
});

test('returns only visible duplicates', async () => {
  const own = await newTenant();
  const member = await newUser(own);
  await database()`update users set branch_id = null where id = ${own.admin.id}`;
  await database()`update users set branch_id = ${own.branchId} where id = ${member.id}`;
  const address = email();
  const lead = (id: string) => ({ first_name: 'A', email: address, assigned_to: id });
  const near = await createRecord(own.key, 'leads', lead(member.id));
  const far = await createRecord(own.key, 'leads', lead(own.admin.id));
  const body = { record: { email: address }, fields: ['email'] };
  const findIds = async (credential: string) =>
    (await ask('leads', body, credential)).matches.map((match: Json) => match.id);
  expect(await findIds(own.key)).toEqual([near.id, far.id]);
  expect(await findIds(await newKey(own, { reach: { kind: 'branch', id: own.branchId } }))).toEqual([near.id]);
  expect(await findIds(own.testKey)).toEqual([]);
  expect(await findIds(key)).toEqual([]);
});

test('writes nothing in a duplicate check, even a rejected one', async () => {
  const before = (await walk(key, 'leads')).length;
  const record = { email: 'no address', colour: 'red', source_id: 'x', created_at: '2020-01-01', lead_status: 'Nww' };
  const body = { record, fields: ['emial', 'created_at'] };
  const answer = await expectStatus(422, 'POST', buildPath('leads'), { key, body });
  const problems = answer.body.error.details.fields;
  expect(problems.map((each: Json) => `${each.field} ${each.code}`).toSorted()).toEqual([
    'fields[0] INVALID_OPTION',
    'fields[1] INVALID_OPTION',
    'record.colour UNKNOWN_FIELD',
    'record.created_at READ_ONLY',
    'record.email INVALID_FORMAT',
    'record.lead_status INVALID_OPTION',
    'record.source_id READ_ONLY',
  ]);
  expect(problems.find((each: Json) => each.field === 'fields[0]').did_you_mean).toBe('email');
  await ask('leads', { record: { email: email() }, fields: ['email'] });
  expect(await walk(key, 'leads')).toHaveLength(before);
});

test('requires the view scope and a visible object for a duplicate check', async () => {
  const body = { record: { name: 'A' }, fields: ['name'] };
  const viewer = await newKey(tenant, { scopes: ['accounts:view'] });
  await expectStatus(200, 'POST', buildPath('accounts'), { key: viewer, body });
  await expectStatus(404, 'POST', buildPath('deals'), { key: viewer, body });
  await expectStatus(404, 'POST', buildPath('object:nothing'), { key, body });
});
