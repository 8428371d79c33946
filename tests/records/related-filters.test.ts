// Filters through relations, and related records in responses.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  newCustomField,
  newCustomObject,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newLinkType(tenant, 'contacts', 'employer', 'accounts', 'customers', 'one_to_many');
  await newLinkType(tenant, 'site', 'site_of', 'accounts', 'leads', 'one_to_one');
});

async function newLinkType(
  of: Tenant,
  name: string,
  inverse: string,
  from: string,
  to: string,
  cardinality: string,
): Promise<string> {
  const names = { name, inverse_name: inverse, label: name, inverse_label: inverse };
  const body = { ...names, from_object: from, to_object: to, cardinality };
  return (await expectStatus(201, 'POST', '/v1/link-types', { key: of.key, body })).body.data.link_type.id;
}

const link = (object: string, id: string, type: string, to: string, of = key) =>
  expectStatus(201, 'POST', `${recordsPath(object, id)}/links`, { key: of, body: { link_type: type, record_id: to } });
/** Returns a user in a team of their own, and a key that sees only the team's records. */
async function newTeamKey(): Promise<{ user: { id: string }; of: string }> {
  const teamId = randomUUID();
  await database()`
    insert into teams (company_id, id, branch_id, name, created_at)
    values (${tenant.companyId}, ${teamId}, ${tenant.branchId}, ${teamId}, now())`;
  return { user: await newUser(tenant, { teamId }), of: await newKey(tenant, { reach: { kind: 'team', id: teamId } }) };
}
const ids = (records: readonly Json[]): string[] => records.map(({ id }) => id).sort();
const find = async (object: string, filter: unknown, of = key): Promise<string[]> =>
  ids(await walk(of, object, { limit: 100, filter: JSON.stringify(filter) }));
const list = async (object: string, query: Record<string, string | number | boolean>, of = key): Promise<Json> =>
  (await expectStatus(200, 'GET', recordsPath(object), { key: of, query: query as never })).body.data;
const refused = (filter: unknown, object = 'deals') =>
  refusedFields(400, 'GET', recordsPath(object), { key, query: { filter: JSON.stringify(filter) } });
const findProblems = async (filter: unknown, object = 'deals'): Promise<Json[]> =>
  (await expectStatus(400, 'GET', recordsPath(object), { key, query: { filter: JSON.stringify(filter) } })).body.error
    .details.fields;

test('finds VIP contacts at accounts in retail with an open deal over 10,000 in one call', async () => {
  const own = await newTenant();
  const of = own.key;
  await createSetting(own, '/v1/settings/tags/customers', { name: 'VIP', fields: [] });
  const [retail, mining] = await createRecords(of, 'accounts', [
    { name: 'Blue Lake', industry: 'Retail' },
    { name: 'Deep Rock', industry: 'Mining' },
  ]);
  const person = (first_name: string, account: Json | undefined, tags: string[]) => ({
    first_name,
    last_name: 'Ahmed',
    ...(account ? { account_id: account.id } : {}),
    tags,
  });
  const [wanted, plain, elsewhere, cheap, won, without, split] = await createRecords(of, 'customers', [
    person('Wanted', retail, ['VIP']),
    person('Plain', retail, []),
    person('Elsewhere', mining, ['VIP']),
    person('Cheap', retail, ['VIP']),
    person('Won', retail, ['VIP']),
    person('Without', undefined, ['VIP']),
    person('Split', retail, ['VIP']),
  ]);
  const deal = (customer: Json, amount_minor: number, stage?: string) => ({
    name: `Deal of ${customer.first_name}`,
    customer_id: customer.id,
    amount_minor,
    ...(stage ? { stage } : {}),
  });
  await createRecords(of, 'deals', [
    deal(wanted, 1_000_001),
    deal(wanted, 5_000_000),
    deal(plain, 5_000_000),
    deal(elsewhere, 5_000_000),
    deal(cheap, 1_000_000),
    deal(won, 5_000_000, 'Won'),
    deal(without, 5_000_000),
    // An open deal and a large one, but none that is both.
    deal(split, 5),
    deal(split, 5_000_000, 'Lost'),
  ]);
  const filter = JSON.stringify({
    and: [
      { field: 'tags', op: 'in', value: ['VIP'] },
      { field: 'account.industry', op: 'eq', value: 'Retail' },
      {
        link: 'deals',
        any: {
          and: [
            { field: 'amount_minor', op: 'gt', value: 1_000_000 },
            { field: 'won_at', op: 'is_null' },
            { field: 'lost_at', op: 'is_null' },
          ],
        },
      },
    ],
  });
  const data = await list('customers', { filter, count: true, expand: 'links.deals' }, of);
  expect(ids(data.records)).toEqual([wanted.id]);
  expect(data.total).toBe(1);
  expect(data.records[0].expanded.links.deals.items).toHaveLength(2);
});

describe('a condition', () => {
  let retail: Json;
  let deals: Json[];
  beforeAll(async () => {
    [retail] = await createRecords(key, 'accounts', [{ name: 'Blue Lake', industry: 'Retail' }]);
    const blank = await createRecord(key, 'accounts', { name: 'No industry' });
    deals = await createRecords(key, 'deals', [
      { name: 'of retail', account_id: retail.id },
      { name: 'of no industry', account_id: blank.id },
      { name: 'of nobody' },
    ]);
  });
  const named = async (filter: object, of = key) =>
    (await walk(of, 'deals', { limit: 100, filter: JSON.stringify(filter) })).map(({ name }) => name).sort();
  const on = (op: string, value?: unknown) => named({ field: 'account.industry', op, value });

  test('without a related record fulfills only is_null, neq and none', async () => {
    expect(await on('eq', 'Retail')).toEqual(['of retail']);
    expect(await on('is_null')).toEqual(['of no industry', 'of nobody']);
    expect(await on('is_null', false)).toEqual(['of retail']);
    expect(await on('neq', 'Retail')).toEqual(['of no industry', 'of nobody']);
    expect(await on('not_in', ['Retail'])).toEqual(['of no industry']);
    expect(await on('contains', '')).toEqual(['of retail']);
    const isRetail = { field: 'industry', op: 'eq', value: 'Retail' };
    expect(await named({ link: 'account', none: isRetail })).toEqual(['of no industry', 'of nobody']);
    expect(await named({ not: { field: 'account.industry', op: 'eq', value: 'Retail' } })).toEqual([
      'of no industry',
      'of nobody',
    ]);
  });

  test('sees no related record that is out of reach', async () => {
    const { user, of: own } = await newTeamKey();
    const sql = database();
    await sql`update deals set assigned_to = ${user.id} where company_id = ${tenant.companyId} and id = ${deals[0]?.id}`;
    const isNone = { field: 'account.industry', op: 'is_null' };
    expect(await named(isNone, own)).toEqual(['of retail']);
    expect(await named({ field: 'account.industry', op: 'eq', value: 'Retail' }, own)).toEqual([]);
    await sql`
      update accounts set assigned_to = ${user.id} where company_id = ${tenant.companyId} and id = ${retail.id}`;
    expect(await named(isNone, own)).toEqual([]);
    expect(await named({ field: 'account.industry', op: 'eq', value: 'Retail' }, own)).toEqual(['of retail']);
  });

  test('sees no related record of an object without the scope or with the module off', async () => {
    const narrow = await newKey(tenant, { scopes: ['deals:view'] });
    const isRetail = { field: 'account.industry', op: 'eq', value: 'Retail' };
    const none = { link: 'account', none: { field: 'industry', op: 'eq', value: 'Retail' } };
    expect(await named(isRetail, narrow)).toEqual([]);
    expect(await named(none, narrow)).toHaveLength(3);
    const other = await newTenant();
    const account = await createRecord(other.key, 'accounts', { name: 'A', industry: 'Retail' });
    await createRecord(other.key, 'deals', { name: 'of retail', account_id: account.id });
    expect(await named(isRetail, other.key)).toEqual(['of retail']);
    await database()`
      update companies set disabled_modules = array['accounts'] where id = ${other.companyId}`;
    expect(await named(isRetail, other.key)).toEqual([]);
    expect(await named({ field: 'account.industry', op: 'is_null' }, other.key)).toEqual(['of retail']);
  });
});

test('follows own link types from both sides, also if they are disabled', async () => {
  const own = await newTenant();
  const of = own.key;
  const type = await newLinkType(own, 'contacts', 'employer', 'accounts', 'customers', 'one_to_many');
  await newLinkType(own, 'site', 'site_of', 'accounts', 'leads', 'one_to_one');
  const [big, small] = await createRecords(of, 'accounts', [{ name: 'Big' }, { name: 'Small' }]);
  const [sara, omar, uma] = await createRecords(
    of,
    'customers',
    ['Sara', 'Omar', 'Uma'].map((first_name) => ({ first_name, last_name: 'A' })),
  );
  const lead = await createRecord(of, 'leads', { first_name: 'L', email: `${randomUUID()}@x.example` });
  await link('accounts', big.id, 'contacts', sara.id, of);
  await link('accounts', big.id, 'contacts', omar.id, of);
  await link('accounts', small.id, 'contacts', uma.id, of);
  await link('accounts', big.id, 'site', lead.id, of);
  const isFound = async () => {
    const hasA = { link: 'contacts', any: { field: 'last_name', op: 'eq', value: 'A' } };
    // Two contacts fit, and the account is found and counted once.
    const { records, total } = await list('accounts', { filter: JSON.stringify(hasA), count: true }, of);
    expect([ids(records), total]).toEqual([ids([big, small]), 2]);
    const hasSara = { field: 'first_name', op: 'eq', value: 'Sara' };
    expect(await find('accounts', { link: 'contacts', none: hasSara }, of)).toEqual([small.id]);
    expect(await find('customers', { field: 'employer.name', op: 'eq', value: 'Big' }, of)).toEqual(ids([sara, omar]));
    expect(await find('leads', { field: 'site_of.name', op: 'starts_with', value: 'b' }, of)).toEqual([lead.id]);
    expect(await find('accounts', { field: 'site.first_name', op: 'is_null' }, of)).toEqual([small.id]);
  };
  await isFound();
  await expectStatus(200, 'PATCH', `/v1/link-types/${type}`, { key: of, body: { is_enabled: false } });
  await isFound();
});

test('finds tasks by fields that the objects of their records have', async () => {
  const own = await newTenant();
  const of = own.key;
  const account = await createRecord(of, 'accounts', { name: 'Blue Lake' });
  const lead = await createRecord(of, 'leads', { first_name: 'Sara', email: `${randomUUID()}@x.example` });
  const task = async (object: string, id: string) =>
    (
      await expectStatus(201, 'POST', `${recordsPath(object, id)}/tasks`, {
        key: of,
        body: { title: 'Call', scheduled_at: '2030-01-01T00:00:00Z' },
        idempotencyKey: true,
      })
    ).body.data.task.id;
  const [ofAccount, ofLead] = [await task('accounts', account.id), await task('leads', lead.id)];
  expect(await find('tasks', { field: 'record.name', op: 'eq', value: 'Blue Lake' }, of)).toEqual([ofAccount]);
  expect(await find('tasks', { field: 'record.first_name', op: 'eq', value: 'Sara' }, of)).toEqual([ofLead]);
  expect(await find('tasks', { field: 'record.first_name', op: 'is_null' }, of)).toEqual([ofAccount]);
  expect(await find('tasks', { field: 'record.id', op: 'in', value: [account.id, lead.id] }, of)).toHaveLength(2);
  expect(await find('leads', { link: 'tasks', any: { field: 'title', op: 'eq', value: 'Call' } }, of)).toEqual([
    lead.id,
  ]);
  const query = { filter: JSON.stringify({ field: 'record.colour', op: 'eq', value: 1 }) };
  const { body } = await expectStatus(400, 'GET', recordsPath('tasks'), { key: of, query });
  expect(body.error.details.fields).toMatchObject([
    { field: 'record.colour', code: 'UNKNOWN_FIELD', message: 'filter: record.colour is not a field of any object.' },
  ]);
  const { records } = await list('tasks', { expand: 'links.record' }, of);
  const labels = records.map(({ expanded }: Json) => expanded.links.record.items[0]);
  expect(labels).toEqual(
    expect.arrayContaining([
      { id: account.id, object: 'accounts', label: 'Blue Lake' },
      { id: lead.id, object: 'leads', label: 'Sara' },
    ]),
  );
});

test('compares custom fields, relative dates and tags of related records', async () => {
  const own = await newTenant();
  const of = own.key;
  await newCustomField(own, 'customers', 'size', { type: 'number' });
  await createSetting(own, '/v1/settings/tags/customers', { name: 'VIP', fields: [] });
  const [big, small] = await createRecords(of, 'customers', [
    { first_name: 'Big', last_name: 'A', size: 100, tags: ['VIP'] },
    { first_name: 'Small', last_name: 'A', size: 9 },
  ]);
  const [ofBig, ofSmall] = await createRecords(of, 'deals', [
    { name: 'b', customer_id: big.id },
    { name: 's', customer_id: small.id },
  ]);
  const deals = (field: string, op: string, value: unknown, more: object = {}) =>
    find('deals', { field: `customer.${field}`, op, value, ...more }, of);
  expect(await deals('size', 'eq', 100)).toEqual([ofBig.id]);
  expect(await deals('size', 'gt', 50, { as: 'number' })).toEqual([ofBig.id]);
  expect(await deals('tags', 'in', ['vip'])).toEqual([ofBig.id]);
  expect(await deals('tags', 'not_in', ['vip'])).toEqual([ofSmall.id]);
  expect(await deals('created_at', 'eq', { relative: 'last_2_days' })).toHaveLength(2);
  expect(await deals('created_at', 'neq', { relative: 'last_2_days' })).toEqual([]);
});

test('reports count records by their related ones, with the view scope of the object', async () => {
  const own = await newTenant();
  const account = await createRecord(own.key, 'accounts', { name: 'A', industry: 'Retail' });
  await createRecords(own.key, 'deals', [{ name: 'a', account_id: account.id }, { name: 'b' }]);
  const filter = { field: 'account.industry', op: 'eq', value: 'Retail' };
  const report = (body: object, of = own.key, status = 200) =>
    expectStatus(status, 'POST', '/v1/reports/query', { key: of, body: { object: 'deals', ...body } });
  expect((await report({ filter })).body.data.total.count).toBe(1);
  const wrong = await report({ filter: { field: 'account.colour', op: 'eq', value: 1 } }, own.key, 400);
  expect(wrong.body.error.details.fields).toMatchObject([{ field: 'account.colour', code: 'UNKNOWN_FIELD' }]);
  const figures = await newKey(own, { scopes: ['reports:view', 'accounts:view'] });
  const isRecent = { field: 'account.created_at', op: 'gt', value: '2020-01-01' };
  const { body } = await report({ filter: isRecent }, figures, 403);
  expect(body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['deals:view'] } });
});

describe('the grammar', () => {
  const dotted = { field: 'account.industry', op: 'eq', value: 'Retail' };
  const inner = { field: 'name', op: 'eq', value: 'A' };
  const nested = (depth: number): object => (depth === 0 ? inner : { and: [nested(depth - 1)] });

  test.each([
    ['neither any nor none', { link: 'account' }],
    ['both any and none', { link: 'account', any: inner, none: inner }],
    ['a further key', { link: 'account', any: inner, op: 'eq' }],
    ['a name that is no text', { link: 5, any: inner }],
    ['no filter inside', { link: 'account', any: null }],
    ['a link inside a link', { link: 'account', any: { link: 'deals', any: inner } }],
    ['a dotted field inside a link', { link: 'account', any: { field: 'deals.name', op: 'eq', value: 'A' } }],
    ['two hops', { field: 'account.owner.name', op: 'eq', value: 'A' }],
    ['four combinators deep across a link', { and: [{ or: [{ link: 'account', any: nested(2) }] }] }],
  ])('refuses %s', async (_, filter) => {
    expect(await refused(filter)).toEqual(['filter INVALID_FORMAT']);
  });

  test('takes three combinators deep across a link, 3 conditions through a relation and 50 in all', async () => {
    const three = { and: [dotted, dotted, { link: 'account', none: inner }] };
    const many = { or: Array.from({ length: 50 }, () => inner) };
    for (const filter of [three, { and: [{ link: 'account', any: nested(2) }] }, { link: 'account', any: many }])
      await find('deals', filter);
    expect(await refused({ and: [three, dotted] })).toEqual(['filter TOO_LONG']);
    expect(await refused({ and: [three, { link: 'account', any: inner }] })).toEqual(['filter TOO_LONG']);
    expect(await refused({ and: [inner, { link: 'account', any: many }] })).toEqual(['filter TOO_LONG']);
  });

  test('names unknown relations and fields with the allowed ones', async () => {
    const [relation] = await findProblems({ field: 'acount.industry', op: 'eq', value: 'x' });
    expect(relation).toEqual({
      field: 'acount.industry',
      code: 'UNKNOWN_FIELD',
      message: 'filter: acount is not a relation of deals.',
      allowed: ['customer', 'account', 'lead'],
      did_you_mean: 'account',
    });
    const [field] = await findProblems({ field: 'account.industri', op: 'eq', value: 'x' });
    expect(field).toMatchObject({
      field: 'account.industri',
      code: 'UNKNOWN_FIELD',
      message: 'filter: industri is not a field of accounts.',
      allowed: expect.arrayContaining(['account.industry', 'account.created_by']),
      did_you_mean: 'account.industry',
    });
    const [link] = await findProblems({ link: 'contact', any: inner }, 'accounts');
    expect(link).toMatchObject({
      field: 'contact',
      code: 'UNKNOWN_FIELD',
      allowed: ['deals', 'customers', 'tasks', 'contacts', 'site'],
      did_you_mean: 'contacts',
    });
    const [several] = await findProblems({ field: 'contacts.name', op: 'eq', value: 'x' }, 'accounts');
    expect(several).toMatchObject({ field: 'contacts.name', code: 'UNKNOWN_FIELD', allowed: ['site'] });
    expect(several?.hint).toContain('{"link": "contacts", "any"');
    expect(await refused({ link: 'contacts', any: { field: 'colour', op: 'eq', value: 1 } }, 'accounts')).toEqual([
      'contacts.colour UNKNOWN_FIELD',
    ]);
    expect(await refused({ field: 'account.employee_count', op: 'eq', value: 'x' })).toEqual([
      'account.employee_count INVALID_TYPE',
    ]);
    expect(await refused({ field: '__proto__.name', op: 'eq', value: 'x' })).toEqual(['__proto__.name UNKNOWN_FIELD']);
  });

  test('does not know relations to an object that is disabled', async () => {
    const own = await newTenant();
    const boats = await newCustomObject(own, 'boats');
    await newLinkType(own, 'boats', 'owner', 'customers', boats, 'one_to_many');
    const query = { filter: JSON.stringify({ link: 'boats', any: inner }) };
    await expectStatus(200, 'GET', recordsPath('customers'), { key: own.key, query });
    await database()`update custom_objects set enabled = false where company_id = ${own.companyId}`;
    // A change of configuration that the cache notices by its version.
    expect(await refusedFields(400, 'GET', recordsPath('customers'), { key: own.key, query })).toEqual([
      'boats UNKNOWN_FIELD',
    ]);
  });

  test.each([
    ['a field with a dot', dotted],
    ['a link', { link: 'deals', any: { field: 'name', op: 'eq', value: 'A' } }],
  ])('campaigns, workforces and webhooks refuse %s', async (_, filter) => {
    const wide = await newWideTenant();
    const message = expect.stringContaining('goes through a relation. Only filters of lists and reports can do that.');
    const channels = [{ channel_type: 'email', subject: 'S', body: 'B' }];
    const campaign = { name: 'C', object: 'customers', filter, channels };
    const workforce = {
      name: 'W',
      subject_types: ['customer'],
      steps: [{ kind: 'wait', minutes: 5 }],
      stop_when: filter,
    };
    const webhook = { url: 'https://hooks.example.com/crm', events: ['record.updated'], filter };
    for (const [path, body, status] of [
      ['/v1/campaigns', campaign, 400],
      ['/v1/workforces', workforce, 422],
      ['/v1/webhooks', webhook, 422],
    ] as const) {
      const answer = await expectStatus(status, 'POST', path, { key: wide.key, body, idempotencyKey: true });
      expect(answer.body.error.details.fields).toMatchObject([{ code: 'UNKNOWN_FIELD', message }]);
    }
  });
});

describe('expand=links.<name>', () => {
  test('shows the newest 25 related records with labels, and whether there are more', async () => {
    const [account, other] = await createRecords(key, 'accounts', [{ name: 'Many' }, { name: 'One' }]);
    const deals = await createRecords(
      key,
      'deals',
      Array.from({ length: 27 }, (_, index) => ({ name: `D${index}`, account_id: account.id })),
    );
    await createRecord(key, 'deals', { name: 'single', account_id: other.id });
    for (const [index, { id }] of deals.entries())
      await database()`
        update deals set created_at = '2026-01-01'::timestamptz + ${index} * interval '1 day'
        where company_id = ${tenant.companyId} and id = ${id}`;
    const newest = deals.slice(2).toReversed();
    const expected = { items: newest.map(({ id, name }) => ({ id, object: 'deals', label: name })), has_more: true };
    const one = (
      await expectStatus(200, 'GET', recordsPath('accounts', account.id), { key, query: { expand: 'links.deals' } })
    ).body.data.record;
    expect(one.expanded).toEqual({ links: { deals: expected } });
    const filter = JSON.stringify({ field: 'id', op: 'in', value: [account.id, other.id] });
    const { records } = await list('accounts', { filter, expand: 'links.deals,links.contacts', sort: 'name' });
    expect(records.map(({ expanded }: Json) => expanded.links.deals.has_more)).toEqual([true, false]);
    expect(records[1].expanded.links).toEqual({
      deals: { items: [{ id: expect.any(String), object: 'deals', label: 'single' }], has_more: false },
      contacts: { items: [], has_more: false },
    });
    const batch = await expectStatus(200, 'POST', `${recordsPath('accounts')}:batch-get`, {
      key,
      query: { expand: 'links.deals' },
      body: { ids: [account.id] },
    });
    expect(batch.body.data.succeeded[0].record.expanded.links.deals).toEqual(expected);
  });

  test('follows links and references from both sides, newest link first', async () => {
    const account = await createRecord(key, 'accounts', { name: 'Employer' });
    const [sara, omar] = await createRecords(key, 'customers', [
      { first_name: 'Sara', last_name: 'Ahmed' },
      { first_name: 'Omar', last_name: 'Haddad', account_id: account.id },
    ]);
    await link('accounts', account.id, 'contacts', omar.id);
    await link('accounts', account.id, 'contacts', sara.id);
    const expanded = async (object: string, id: string, expand: string) =>
      (await expectStatus(200, 'GET', recordsPath(object, id), { key, query: { expand } })).body.data.record.expanded;
    const contacts = [
      { id: sara.id, object: 'customers', label: 'Sara Ahmed' },
      { id: omar.id, object: 'customers', label: 'Omar Haddad' },
    ];
    expect(await expanded('accounts', account.id, 'links.contacts')).toEqual({
      links: { contacts: { items: contacts, has_more: false } },
    });
    const employer = { items: [{ id: account.id, object: 'accounts', label: 'Employer' }], has_more: false };
    expect(await expanded('customers', omar.id, 'links.employer,links.account,account_id')).toMatchObject({
      links: { employer, account: employer },
      account_id: { id: account.id },
    });
    expect(await expanded('customers', sara.id, 'links.account')).toEqual({
      links: { account: { items: [], has_more: false } },
    });
  });

  test('leaves out records that the key cannot see', async () => {
    const { user, of } = await newTeamKey();
    const account = await createRecord(key, 'accounts', { name: 'Seen', assigned_to: user.id });
    const [seen, unseen] = await createRecords(key, 'customers', [
      { first_name: 'Seen', last_name: 'A', assigned_to: user.id },
      { first_name: 'Unseen', last_name: 'A' },
    ]);
    for (const { id } of [seen, unseen]) await link('accounts', account.id, 'contacts', id);
    const items = async (by: string) =>
      (
        await expectStatus(200, 'GET', recordsPath('accounts', account.id), {
          key: by,
          query: { expand: 'links.contacts' },
        })
      ).body.data.record.expanded.links.contacts.items;
    expect(ids(await items(of))).toEqual([seen.id]);
    expect(await items(await newKey(tenant, { scopes: ['accounts:view'] }))).toEqual([]);
    expect(await items(key)).toHaveLength(2);
  });

  test('names an unknown link type with the allowed names', async () => {
    const { body } = await expectStatus(400, 'GET', recordsPath('accounts'), {
      key,
      query: { expand: 'links.contact' },
    });
    expect(body.error.details.fields).toEqual([
      {
        field: 'expand',
        code: 'INVALID_OPTION',
        message: 'expand: links.contact is not a link type of accounts.',
        allowed: ['assigned_to', 'links.deals', 'links.customers', 'links.tasks', 'links.contacts', 'links.site'],
        did_you_mean: 'links.contacts',
      },
    ]);
  });
});
