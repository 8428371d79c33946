// Suggestions in errors: what the caller probably meant, and never what it may not see.
import { beforeAll, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { createRecord, newCustomField, recordsPath } from '../support/records.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newCustomField(tenant, 'leads', 'tier', { type: 'select', options: [{ value: 'gold' }, { value: 'silver' }] });
  await newCustomField(tenant, 'leads', 'secret_score', { enabled: false });
});

async function findProblems(body: object): Promise<Record<string, Json>> {
  const answer = await expectStatus(422, 'POST', recordsPath('leads'), { key, body, idempotencyKey: true });
  return Object.fromEntries(answer.body.error.details.fields.map((each: Json) => [each.field, each]));
}

const meantBy = async (name: string): Promise<string | undefined> => {
  const problem = (await findProblems({ [name]: 'x' }))[name];
  expect(problem).toMatchObject({ code: 'UNKNOWN_FIELD' });
  return problem.did_you_mean;
};

test.each([
  ['firstname', 'first_name'],
  ['First-Name', 'first_name'],
  ['fist_name', 'first_name'],
  ['first_naem', 'first_name'],
  ['frst_nam', 'first_name'],
  ['e_mail', 'email'],
  ['emial', 'email'],
  ['priorty', 'priority'],
  ['mobile_number', 'mobile'],
  ['tire', 'tier'],
  ['stat', 'state'],
  ['first', 'first_name'],
  ['source_idd', 'source'],
])('answers the unknown field %s with the suggestion %s', async (name, meant) => {
  expect(await meantBy(name)).toBe(meant);
});

test.each(['zzzz', 'x', 'id2', 'secret_scor', 'created', 'updated', '__', `first_name${'e'.repeat(60)}`])(
  'suggests nothing for %s, whose close names are hidden, read-only or missing',
  async (name) => {
    expect(await meantBy(name)).toBeUndefined();
  },
);

test('suggests the closest of several names', async () => {
  await newCustomField(tenant, 'accounts', 'regions');
  await newCustomField(tenant, 'accounts', 'region');
  const answer = await expectStatus(422, 'POST', recordsPath('accounts'), {
    key,
    body: { name: 'A', regon: 'x' },
    idempotencyKey: true,
  });
  expect(answer.body.error.details.fields).toMatchObject([{ field: 'regon', did_you_mean: 'region' }]);
});

test('suggests the closest option for an unknown one', async () => {
  const problems = await findProblems({ first_name: 'A', email: 'a@x.example', lead_status: 'Contacte', tier: 'glod' });
  expect(problems.lead_status).toMatchObject({ code: 'INVALID_OPTION', did_you_mean: 'Contacted' });
  expect(problems.tier).toMatchObject({ did_you_mean: 'gold', allowed: ['gold', 'silver'] });
  const far = await findProblems({ first_name: 'A', email: 'a@x.example', tier: 'platinum' });
  expect(far.tier).not.toHaveProperty('did_you_mean');
});

test('names the writable field for the read-only id of a configured list', async () => {
  const problems = await findProblems({ first_name: 'A', email: 'a@x.example', source_id: 'x', id: 'x' });
  expect(problems.source_id).toMatchObject({ code: 'READ_ONLY', hint: 'Send source with the name instead.' });
  expect(problems.id.hint).toBe('Omit this field. It is set automatically.');
});

test('suggests names for unknown fields, operators and values of filters, sorts and query parameters', async () => {
  const refused = async (query: Record<string, string>): Promise<Json> =>
    (await expectStatus(400, 'GET', recordsPath('leads'), { key, query })).body.error.details.fields[0];
  expect(await refused({ sort: '-create_at' })).toMatchObject({
    did_you_mean: 'created_at',
    allowed: expect.arrayContaining(['id', 'created_at', 'updated_at', 'first_name', 'tier']),
  });
  const filter = (field: string, op: string, value: string) => ({ filter: JSON.stringify({ field, op, value }) });
  expect(await refused(filter('lastname', 'eq', 'A'))).toMatchObject({ did_you_mean: 'last_name' });
  expect(await refused(filter('last_name', 'contain', 'A'))).toMatchObject({ did_you_mean: 'contains' });
  expect(await refused(filter('lead_status', 'eq', 'Qualifed'))).toMatchObject({ did_you_mean: 'Qualified' });
  expect(await refused({ limitt: '5' })).toMatchObject({ code: 'UNKNOWN_FIELD', did_you_mean: 'limit' });
});

test('suggests field names for bodies that the OpenAPI document describes', async () => {
  const body = { emial: 'a@x.example', full_name: 'A B', role: 'Sales_Rep' };
  const answer = await expectStatus(422, 'POST', '/v1/users', { key, body, idempotencyKey: true });
  expect(answer.body.error.details.fields).toContainEqual(
    expect.objectContaining({ field: 'emial', code: 'UNKNOWN_FIELD', did_you_mean: 'email' }),
  );
});

test('names the right place for fields that lead intake does not accept, and suggests only accepted names', async () => {
  const refused = async (more: object): Promise<Json> => {
    const body = { first_name: 'A', email: 'a@x.example', ...more };
    return (await expectStatus(422, 'POST', '/v1/leads', { key, body })).body.error.details.fields[0];
  };
  expect(await refused({ tier: 'gold' })).toMatchObject({
    code: 'UNKNOWN_FIELD',
    hint: 'Send this field as custom_fields.tier.',
  });
  expect(await refused({ assigned_to: 'A' })).toMatchObject({
    code: 'UNKNOWN_FIELD',
    hint: 'Use POST /v1/objects/leads/records to set this field.',
  });
  const unknown = await refused({ asigned_to: 'A' });
  expect(unknown).toMatchObject({ code: 'UNKNOWN_FIELD', allowed: expect.arrayContaining(['custom_fields', 'tags']) });
  expect(unknown).not.toHaveProperty('did_you_mean');
  expect(await refused({ emial: 'x' })).toMatchObject({ did_you_mean: 'email' });
});

test('suggests names of statuses, types and groups in paths, queries and bodies', async () => {
  const first = async (status: number, method: string, path: string, body?: object): Promise<Json> =>
    (await expectStatus(status, method, path, { key, ...(body ? { body } : {}) })).body.error.details.fields[0];
  const { id } = await createRecord(key, 'deals', { name: 'D' });
  expect(await first(422, 'POST', `/v1/deals/${id}/stage`, { stage: 'Propsal' })).toMatchObject({
    did_you_mean: 'Proposal',
  });
  expect(await first(400, 'GET', '/v1/activities?activity_type=Meting')).toMatchObject({ did_you_mean: 'Meeting' });
  expect(await first(400, 'GET', `/v1/customers/${id}?include=contact`)).toMatchObject({
    message: 'include: contact is not one of the allowed values.',
    did_you_mean: 'contacts',
  });
});

test('lists only accepted names for a body, and words its problems', async () => {
  const lead = await createRecord(key, 'leads', { first_name: 'A', email: 'words@x.example' });
  const body = { entity_type: 'lead', entity_id: lead.id, activity_type: 'Call', summary: 'x' };
  const { activity } = (await expectStatus(201, 'POST', '/v1/activities', { key, body })).body.data;
  const names = ['summary', 'details', 'activity_type', 'performed_at', 'followup_at'];
  for (const [status, patch] of [
    [400, {}],
    [422, { colour: 1 }],
  ] as const) {
    const answer = await expectStatus(status, 'PATCH', `/v1/activities/${activity.id}`, { key, body: patch });
    expect(answer.body.error.details.fields[0].allowed).toEqual(names);
  }
  const message = async (status: number, method: string, path: string, more: object): Promise<string> =>
    (await expectStatus(status, method, path, { key, ...more })).body.error.message;
  const notes = `${recordsPath('leads', lead.id)}/notes`;
  expect(await message(400, 'POST', notes, { body: { content: ' ' } })).toBe('content must not be blank.');
  const empty = await expectStatus(400, 'POST', notes, { key, body: { content: '' } });
  expect(empty.body.error.details.fields).toMatchObject([{ field: 'content', code: 'TOO_SHORT' }]);
  const batch = `${recordsPath('leads')}:batch`;
  expect(await message(422, 'POST', batch, { body: [], idempotencyKey: true })).toBe(
    'The body must have at least 1 item.',
  );
  expect(await message(400, 'GET', '/v1/activities', { query: { offset: -1 } })).toBe('offset must be at least 0.');
});

test('rejects a body of long unknown names in time', async () => {
  const body = Object.fromEntries(Array.from({ length: 99 }, (_, index) => [`${'ab'.repeat(28)}${index}`, 1]));
  expect(Object.keys(await findProblems(body))).toEqual(expect.arrayContaining(Object.keys(body)));
});
