// Customer profiles by id and by email: every group, limited to what the key can see.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { createRecord, newCustomField } from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const path = '/v1/customers';
const read = async (key: string, id: string, include?: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `${path}/${id}`, { key, query: include === undefined ? {} : { include } })).body.data
    .customer;
const find = async (key: string, email: string): Promise<Json> =>
  (await expectStatus(200, 'GET', path, { key, query: { email } })).body.data;
const customer = async (key: string, more: object = {}): Promise<Json> =>
  createRecord(key, 'customers', { first_name: 'Sara', ...more });

async function newTag(tenant: Tenant, name: string, priority: number): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into tags (company_id, id, object, name, color, priority, created_at, updated_at)
    values (${tenant.companyId}, ${id}, 'customers', ${name}, '#2563EB', ${priority}, now(), now())`;
  return id;
}

async function tag(tenant: Tenant, customerId: string, tagId: string, mode: 'live' | 'test' = 'live'): Promise<void> {
  await database()`
    insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
    values (${tenant.companyId}, ${mode === 'test'}, 'customers', ${customerId}, ${tagId}, true)`;
}

/** Creates a customer with an account, a colleague, two deals, two leads and their activities. */
async function arrange(tenant: Tenant) {
  const { key } = tenant;
  const account = await createRecord(key, 'accounts', { name: 'Blue Lake' });
  const origin = await createRecord(key, 'leads', { first_name: 'Sara', email: `${randomUUID()}@x.example` });
  const became = await createRecord(key, 'leads', { first_name: 'Sara', email: `${randomUUID()}@x.example` });
  const sara = await customer(key, {
    last_name: 'Haddad',
    email: `${randomUUID()}@x.example`,
    phone: '+971501234567',
    account_id: account.id,
    job_title: 'Buyer',
    assigned_to: tenant.admin.id,
  });
  const omar = await customer(key, { first_name: 'Omar', mobile: '+971501234568', account_id: account.id });
  await customer(key, { first_name: 'Elsewhere' });
  const sql = database();
  await sql`update customers set lead_id = ${origin.id} where id = ${sara.id}`;
  await sql`update leads set converted_customer_id = ${sara.id} where id = ${became.id}`;
  const deals = [
    await createRecord(key, 'deals', { name: 'One', customer_id: sara.id }),
    await createRecord(key, 'deals', { name: 'Two', customer_id: sara.id }),
  ];
  await createRecord(key, 'deals', { name: 'Other', customer_id: omar.id });
  const entities = [
    ['lead', origin.id],
    ['lead', became.id],
    ['deal', deals[0].id],
  ];
  for (const [entity_type, entity_id] of entities)
    await createRecord(key, 'activities', { entity_type, entity_id, activity_type: 'Call', summary: 'x' });
  return { account, sara, omar, deals, leads: [origin, became] };
}

let tenant: Tenant;
let key: string;
let world: Awaited<ReturnType<typeof arrange>>;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  world = await arrange(tenant);
});

describe('a profile', () => {
  test('returns every field, names for ids, tags by priority, and contacts by default', async () => {
    const { sara, omar, account, leads } = world;
    const [late, early] = [await newTag(tenant, 'Late', 200), await newTag(tenant, 'Early', 1)];
    for (const id of [late, early]) await tag(tenant, sara.id, id);
    expect(await read(key, sara.id)).toEqual({
      id: sara.id,
      first_name: 'Sara',
      last_name: 'Haddad',
      full_name: 'Sara Haddad',
      email: sara.email,
      mobile: null,
      phone: '+971501234567',
      extension: null,
      company_name: null,
      account_id: account.id,
      account: { id: account.id, name: 'Blue Lake' },
      job_title: 'Buyer',
      website: null,
      address: null,
      city: null,
      state: null,
      country: null,
      postal_code: null,
      source: null,
      source_id: null,
      notes: null,
      assigned_to: { id: tenant.admin.id, full_name: 'Ada Admin', email: tenant.admin.email },
      lead_id: leads[0].id,
      last_contacted_at: null,
      tags: [
        { id: early, name: 'Early', color: '#2563EB' },
        { id: late, name: 'Late', color: '#2563EB' },
      ],
      contacts: [
        {
          id: sara.id,
          full_name: 'Sara Haddad',
          email: sara.email,
          phone: '+971501234567',
          job_title: 'Buyer',
          is_primary: true,
        },
        { id: omar.id, full_name: 'Omar', email: null, phone: '+971501234568', job_title: null, is_primary: false },
      ],
      created_by: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      created_at: sara.created_at,
      updated_at: sara.updated_at,
    });
  });

  test('returns null and empty text without account, assignee or names', async () => {
    const { id } = await customer(key);
    await database()`update customers set first_name = null where id = ${id}`;
    expect(await read(key, id)).toMatchObject({
      full_name: '',
      account: null,
      account_id: null,
      assigned_to: null,
      tags: [],
      contacts: [{ id, is_primary: true }],
    });
  });

  const groups = {
    contacts: expect.any(Array),
    deals_count: 2,
    leads_count: 2,
    activities_count: 3,
    custom_fields: {},
  };
  const listNames = (profile: Json) => Object.keys(groups).filter((group) => group in profile);

  test.each(Object.entries(groups))('returns only the requested group with include=%s', async (group, value) => {
    const profile = await read(key, world.sara.id, group);
    expect(listNames(profile)).toEqual([group]);
    expect(profile[group]).toEqual(value);
  });

  test('returns all named groups in any order or repetition, and none for an empty include', async () => {
    const all = Object.keys(groups);
    for (const include of [all.join(','), ` ${all.toReversed().join(' , ')} `, [...all, ...all].join(',')])
      expect(await read(key, world.sara.id, include)).toMatchObject(groups);
    expect(listNames(await read(key, world.sara.id, ''))).toEqual([]);
    const { id } = await customer(key);
    const none = { deals_count: 0, leads_count: 0, activities_count: 0 };
    expect(await read(key, id, Object.keys(none).join(','))).toMatchObject(none);
  });

  test.each(['contact', 'Contacts', 'contacts,', ',', 'contacts;deals_count', 'constructor'])(
    'rejects include=%s, and lists the existing groups',
    async (include) => {
      for (const [where, query] of [
        [`${path}/${world.sara.id}`, { include }],
        [path, { include, email: world.sara.email }],
      ] as const) {
        const { body } = await expectStatus(400, 'GET', where, { key, query });
        expect(body.error.code).toBe('VALIDATION_ERROR');
        const unknown = include.split(',').filter((name) => name !== 'contacts');
        expect(body.error.details.fields).toMatchObject(
          [...new Set(unknown)].map((name) => ({
            field: 'include',
            code: 'INVALID_OPTION',
            message: `include: ${name} is not one of the allowed values.`,
            allowed: Object.keys(groups),
          })),
        );
      }
    },
  );

  test('returns custom fields by name, null without a value, and no disabled ones', async () => {
    const own = await newTenant();
    for (const [name, options] of [
      ['tier', {}],
      ['seats', { type: 'number' }],
      ['retired', { enabled: false }],
    ] as const)
      await newCustomField(own, 'customers', name, options);
    const { id } = await customer(own.key, { seats: 7 });
    expect((await read(own.key, id, 'custom_fields')).custom_fields).toEqual({ tier: null, seats: 7 });
  });

  test('omits disabled fields and everything derived from them', async () => {
    const own = await newTenant();
    const { sara } = await arrange(own);
    for (const name of ['last_name', 'email', 'phone', 'account_id', 'assigned_to', 'lead_id'])
      await database()`
        insert into field_overrides (company_id, object, name, enabled, updated_at)
        values (${own.companyId}, 'customers', ${name}, false, now())`;
    const profile = await read(own.key, sara.id);
    for (const name of ['last_name', 'email', 'phone', 'account_id', 'account', 'assigned_to', 'lead_id'])
      expect(profile).not.toHaveProperty(name);
    expect(profile).toMatchObject({
      full_name: 'Sara',
      contacts: [{ full_name: 'Sara', email: null, phone: null }, {}],
    });
  });
});

describe('profiles by email', () => {
  test('finds the same profile by email in any case', async () => {
    const { sara } = world;
    const found = await find(key, sara.email.toUpperCase());
    expect(found).toEqual({ customer: await read(key, sara.id), other_matches: 0 });
    const { body } = await expectStatus(200, 'GET', path, {
      key,
      query: { email: sara.email, include: 'deals_count' },
    });
    expect(body.data.customer).toMatchObject({ deals_count: 2 });
    expect(body.data.customer).not.toHaveProperty('contacts');
  });

  test('returns the customer changed last among those with one email, and counts the others', async () => {
    const email = `${randomUUID()}@x.example`;
    const first = await customer(key, { email });
    await customer(key, { email });
    await customer(key, { email });
    await database()`update customers set updated_at = updated_at + interval '1 minute' where id = ${first.id}`;
    expect(await find(key, email)).toMatchObject({ customer: { id: first.id }, other_matches: 2 });
  });

  test.each([
    [{}, 'MISSING_REQUIRED_FIELD', 'REQUIRED'],
    [{ email: 'nobody' }, 'INVALID_FIELD_FORMAT', 'INVALID_FORMAT'],
    [{ email: '' }, 'INVALID_FIELD_FORMAT', 'INVALID_FORMAT'],
    [{ email: `${'x'.repeat(250)}@x.example` }, 'VALIDATION_ERROR', 'TOO_LONG'],
  ])('rejects the query %j with 400 %s', async (query, code, problem) => {
    const { body } = await expectStatus(400, 'GET', path, { key, query: query as Record<string, string> });
    expect(body.error.code).toBe(code);
    expect(body.error.details.fields).toContainEqual(expect.objectContaining({ field: 'email', code: problem }));
  });

  test('returns 404 for an email that only a test customer or another tenant has', async () => {
    const other = await newTenant();
    const [testing, foreign] = [`${randomUUID()}@x.example`, `${randomUUID()}@x.example`];
    await customer(tenant.testKey, { email: testing });
    await customer(other.key, { email: foreign });
    for (const email of [testing, foreign, 'nobody@x.example']) {
      const { body } = await expectStatus(404, 'GET', path, { key, query: { email } });
      expect(body.error).toEqual({ code: 'NOT_FOUND', message: 'There is no such resource.' });
    }
    expect((await find(tenant.testKey, testing)).customer.email).toBe(testing);
  });
});

describe('visibility of profiles', () => {
  test('accepts the legacy scope customers:read for profiles', async () => {
    const legacy = await newKey(tenant, { scopes: ['customers:read'], legacy: true });
    expect((await read(legacy, world.sara.id)).id).toBe(world.sara.id);
  });

  test('limits keys of a branch or team to their customers, and account, contacts and counts to visible records', async () => {
    const own = await newTenant();
    const sql = database();
    const [north, team] = [randomUUID(), randomUUID()];
    await sql`insert into branches (company_id, id, name, created_at) values (${own.companyId}, ${north}, 'North', now())`;
    await sql`insert into teams (company_id, id, branch_id, name, created_at) values (${own.companyId}, ${team}, ${north}, 'Team', now())`;
    const inNorth = await newUser(own, { branchId: north });
    const inTeam = await newUser(own);
    await sql`update users set team_id = ${team} where id = ${inTeam.id}`;
    const northKey = await newKey(own, { reach: { kind: 'branch', id: north } });
    const teamKey = await newKey(own, { reach: { kind: 'team', id: team } });
    const { sara, deals, leads } = await arrange(own);
    const email = sara.email;
    for (const reachKey of [northKey, teamKey]) {
      await expectStatus(404, 'GET', `${path}/${sara.id}`, { key: reachKey });
      await expectStatus(404, 'GET', path, { key: reachKey, query: { email } });
    }
    await sql`update customers set assigned_to = ${inNorth.id} where id = ${sara.id}`;
    await sql`update deals set assigned_to = ${inNorth.id} where id = ${deals[0].id}`;
    await sql`update leads set assigned_to = ${inNorth.id} where id = ${leads[1].id}`;
    await createRecord(northKey, 'activities', {
      entity_type: 'lead',
      entity_id: leads[1].id,
      activity_type: 'Call',
      summary: 'x',
    });
    const include = 'contacts,deals_count,leads_count,activities_count';
    const seen = await read(northKey, sara.id, include);
    expect(seen).toMatchObject({ account: null, deals_count: 1, leads_count: 1, activities_count: 1 });
    expect(seen.contacts.map((contact: Json) => contact.id)).toEqual([sara.id]);
    expect((await find(northKey, email)).other_matches).toBe(0);
    await expectStatus(404, 'GET', `${path}/${sara.id}`, { key: teamKey });
    expect(await read(own.key, sara.id, include)).toMatchObject({
      account: { name: 'Blue Lake' },
      contacts: [{}, {}],
      deals_count: 2,
      leads_count: 2,
      activities_count: 4,
    });
  });
});
