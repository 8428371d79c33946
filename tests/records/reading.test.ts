// Reads of records: selected fields, expanded references, and counts.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  lead,
  newCustomField,
  newCustomObject,
  recordsPath,
  walk,
} from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const read = async (object: string, id: string, query: Record<string, string>, credential = key): Promise<Json> =>
  (await expectStatus(200, 'GET', recordsPath(object, id), { key: credential, query })).body.data.record;
const list = async (object: string, query: Record<string, string | number>, credential = key): Promise<Json> =>
  (await expectStatus(200, 'GET', recordsPath(object), { key: credential, query })).body.data;
const refused = async (path: string, query: Record<string, string>): Promise<Json[]> =>
  (await expectStatus(400, 'GET', path, { key, query })).body.error.details.fields;

const common = ['id', 'created_at', 'updated_at'];

describe('id, created_at and updated_at', () => {
  test('filters and sorts by id, created_at and updated_at in every object', async () => {
    const own = await newTenant();
    const visits = await newCustomObject(own, 'visits');
    const bodies: Record<string, (index: number) => object> = {
      leads: (index) => ({ first_name: `${index}`, email: `${index}@x.example` }),
      deals: (index) => ({ name: `${index}` }),
      customers: (index) => ({ first_name: `${index}` }),
      accounts: (index) => ({ name: `${index}` }),
      tasks: (index) => ({ title: `${index}`, scheduled_at: '2030-01-01' }),
      [visits]: (index) => ({ name: `${index}` }),
    };
    const entity = await createRecord(own.key, 'leads', { first_name: 'Entity', email: 'entity@x.example' });
    bodies.activities = (index) => ({
      activity_type: 'Call',
      entity_type: 'lead',
      entity_id: entity.id,
      summary: `${index}`,
    });
    for (const [object, body] of Object.entries(bodies)) {
      const records: Json[] = [];
      for (let index = 0; index < 3; index += 1) records.push(await createRecord(own.key, object, body(index)));
      const made = records.map((record) => record.id);
      const ask = async (query: Record<string, string>): Promise<string[]> =>
        (await walk(own.key, object, { ...query, limit: 1 }))
          .map((record) => record.id)
          .filter((id) => made.includes(id));
      for (const field of common) {
        expect([object, field, await ask({ sort: field })]).toEqual([object, field, made]);
        expect([object, field, await ask({ sort: `-${field}` })]).toEqual([object, field, made.toReversed()]);
        const [, middle] = records;
        const filter = (op: string, value: unknown) => ({ filter: JSON.stringify({ field, op, value }), sort: field });
        expect([object, field, await ask(filter('eq', middle[field]))]).toEqual([object, field, [middle.id]]);
        expect([object, field, await ask(filter('gt', middle[field]))]).toEqual([object, field, made.slice(2)]);
        expect([object, field, await ask(filter('lte', middle[field]))]).toEqual([object, field, made.slice(0, 2)]);
        const outer = [records[0][field], records[2][field]];
        expect([object, field, await ask(filter('in', outer))]).toEqual([object, field, [made[0], made[2]]]);
        expect([object, field, await ask(filter('is_null', true))]).toEqual([object, field, []]);
      }
    }
  });
});

describe('fields', () => {
  test('returns the named fields, and always id, created_at and updated_at', async () => {
    await newCustomField(tenant, 'leads', 'tier');
    const record = await createRecord(key, 'leads', lead({ tier: 'gold' }));
    const names = (query: Record<string, string>) =>
      read('leads', record.id, query).then((shown) => Object.keys(shown));
    expect(await names({ fields: 'tier,email' })).toEqual([...common, 'email', 'tier']);
    expect(await names({ fields: ' email , email,id' })).toEqual([...common, 'email']);
    expect(await names({ fields: '' })).toEqual(common);
    expect(await names({})).toEqual(Object.keys(record));
    const shown = await read('leads', record.id, { fields: 'tier' });
    expect(shown).toEqual({
      id: record.id,
      created_at: record.created_at,
      updated_at: record.updated_at,
      tier: 'gold',
    });
    const { records } = await list('leads', { fields: 'tier' });
    expect(records).toContainEqual(shown);
  });

  test('accepts a cursor with other fields, and filters and sorts by fields that are not selected', async () => {
    const own = await newTenant();
    await createRecords(own.key, 'accounts', [
      { name: 'A', city: 'X' },
      { name: 'B', city: 'X' },
      { name: 'C', city: 'Y' },
    ]);
    const query = { sort: 'name', limit: 1, filter: JSON.stringify({ field: 'city', op: 'eq', value: 'X' }) };
    const first = await list('accounts', { ...query, fields: 'name' }, own.key);
    const second = await list('accounts', { ...query, fields: 'industry', cursor: first.next_cursor }, own.key);
    expect(first.records[0]).toMatchObject({ name: 'A' });
    expect(Object.keys(second.records[0])).toEqual([...common, 'industry']);
  });

  test('rejects unpublished names in fields, and lists the published ones', async () => {
    await newCustomField(tenant, 'accounts', 'hidden_one', { enabled: false });
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    for (const path of [recordsPath('accounts'), recordsPath('accounts', id)]) {
      const problems = await refused(path, { fields: 'name,hidden_one,indusrty' });
      expect(problems).toMatchObject([
        { field: 'hidden_one', code: 'UNKNOWN_FIELD', allowed: expect.arrayContaining(['id', 'name', 'industry']) },
        { field: 'indusrty', code: 'UNKNOWN_FIELD', did_you_mean: 'industry' },
      ]);
      expect(problems[0].allowed).not.toContain('hidden_one');
    }
  });
});

describe('expand', () => {
  test('expands users, list items and records next to their references, with null for none', async () => {
    const user = await newUser(tenant);
    const account = await createRecord(key, 'accounts', { name: 'Blue Lake' });
    const customer = await createRecord(key, 'customers', { first_name: 'C', account_id: account.id });
    const deal = await createRecord(key, 'deals', {
      name: 'D',
      stage: 'Proposal',
      customer_id: customer.id,
      assigned_to: user.id,
    });
    const shown = await read('deals', deal.id, { expand: 'customer_id,assigned_to,stage' });
    expect(shown).toEqual({
      ...deal,
      expanded: {
        customer_id: customer,
        assigned_to: { id: user.id, full_name: expect.any(String), email: user.email },
        stage: { id: deal.stage_id, name: 'Proposal' },
      },
    });
    const { expanded } = await read('deals', deal.id, { fields: 'name', expand: 'account_id,lead_id,source' });
    expect(expanded).toEqual({ account_id: null, lead_id: null, source: null });
    expect((await read('customers', customer.id, { expand: 'account_id' })).expanded).toEqual({ account_id: account });
  });

  test('expands references to records of several objects', async () => {
    const visits = await newCustomObject(tenant, `v${randomUUID().slice(0, 8)}`);
    const { id: entityId } = await createRecord(key, 'leads', lead());
    const visit = await createRecord(key, visits, { name: 'V' });
    const task = (more: object) => ({ title: 'T', scheduled_at: '2030-01-01', ...more });
    const activity = await createRecord(key, 'activities', {
      activity_type: 'Note',
      entity_type: 'lead',
      entity_id: entityId,
      summary: 'x',
    });
    // The note counts as a contact, which the lead shows.
    const entity = await read('leads', entityId, {});
    expect((await read('activities', activity.id, { expand: 'entity_id,activity_type' })).expanded).toEqual({
      entity_id: entity,
      activity_type: { id: expect.any(String), name: 'Note' },
    });
    const tasks = await createRecords(key, 'tasks', [
      task({ object: 'leads', record_id: entity.id }),
      task({ object: visits, record_id: visit.id }),
      task({}),
    ]);
    const { records } = await list('tasks', { expand: 'record_id', sort: 'id', limit: 100 });
    const found = new Map(records.map((record: Json) => [record.id, record.expanded.record_id]));
    expect(tasks.map((each) => found.get(each.id))).toEqual([entity, visit, null]);
  });

  test('expands nothing of an object that the key cannot view, and no invisible records', async () => {
    const own = await newTenant();
    const member = await newUser(own);
    const elsewhere = await createRecord(own.key, 'accounts', { name: 'Elsewhere' });
    const near = await createRecord(own.key, 'accounts', { name: 'Near', assigned_to: member.id });
    const [hidden, seen] = await createRecords(own.key, 'customers', [
      { first_name: 'A', account_id: elsewhere.id, assigned_to: member.id },
      { first_name: 'B', account_id: near.id, assigned_to: member.id },
    ]);
    const branch = { kind: 'branch', id: own.branchId } as const;
    await database()`update users set branch_id = ${own.branchId} where id = ${member.id}`;
    await database()`update users set branch_id = null where id = ${own.admin.id}`;
    const reaching = await newKey(own, { scopes: ['customers:view', 'accounts:view'], reach: branch });
    const blind = await newKey(own, { scopes: ['customers:view'] });
    const query = { expand: 'account_id' };
    expect((await read('customers', seen.id, query, reaching)).expanded).toEqual({ account_id: near });
    expect((await read('customers', hidden.id, query, reaching)).expanded).toEqual({ account_id: null });
    expect((await read('customers', seen.id, query, blind)).expanded).toEqual({ account_id: null });
    await database()`update companies set disabled_modules = '{accounts}' where id = ${own.companyId}`;
    expect((await read('customers', seen.id, query, own.key)).expanded).toEqual({ account_id: null });
  });

  test('expands references of every record of a page', async () => {
    const own = await newTenant();
    const users = await Promise.all([newUser(own), newUser(own)]);
    await createRecords(
      own.key,
      'leads',
      Array.from({ length: 60 }, (_, index) => lead({ assigned_to: users[index % 2]?.id })),
    );
    const { records } = await list('leads', { limit: 100, expand: 'assigned_to,lead_status,source' }, own.key);
    expect(records).toHaveLength(60);
    for (const record of records)
      expect(record.expanded).toMatchObject({
        assigned_to: { id: record.assigned_to },
        lead_status: { id: record.lead_status_id, name: 'New' },
        source: null,
      });
  });

  test('rejects expanding fields that refer to nothing, custom fields, and more than three fields', async () => {
    const path = recordsPath('leads');
    const allowed = ['source', 'lead_status', 'assigned_to', 'converted_customer_id', 'tags', 'sla'];
    const [unknown, other] = await refused(path, { expand: 'assigned,first_name' });
    expect(unknown).toMatchObject({ field: 'expand', code: 'INVALID_OPTION', did_you_mean: 'assigned_to' });
    expect(unknown.message).toBe('expand: assigned is not a field of leads.');
    const links = ['links.deals', 'links.tasks'];
    expect(unknown.allowed.toSorted()).toEqual([...allowed, ...links].toSorted());
    expect(other).toMatchObject({ field: 'expand', code: 'INVALID_OPTION' });
    expect(other.message).toBe('expand: first_name is not a relation.');
    expect(await refused(path, { expand: allowed.join(',') })).toMatchObject([{ field: 'expand', code: 'TOO_LONG' }]);
  });

  test('reserves the field name expanded', async () => {
    const body = { name: 'expanded', label: 'Expanded', type: 'text' };
    const answer = await expectStatus(422, 'POST', '/v1/objects/leads/fields', { key, body, idempotencyKey: true });
    expect(answer.body.error.details.fields).toMatchObject([{ field: 'name', code: 'RESERVED_NAME' }]);
  });
});

describe('count', () => {
  test('counts the records that pass the filter on all pages, only on request', async () => {
    const own = await newTenant();
    await createRecords(
      own.key,
      'accounts',
      Array.from({ length: 7 }, (_, index) => ({ name: `${index}`, city: index < 3 ? 'X' : 'Y' })),
    );
    const filter = JSON.stringify({ field: 'city', op: 'eq', value: 'Y' });
    expect(await list('accounts', { count: 'true', limit: 2 }, own.key)).toMatchObject({
      total: 7,
      total_capped: false,
    });
    const first = await list('accounts', { count: 'true', limit: 2, filter }, own.key);
    expect(first).toMatchObject({ total: 4, total_capped: false, has_more: true });
    const next = await list('accounts', { count: 'true', limit: 2, filter, cursor: first.next_cursor }, own.key);
    expect(next).toMatchObject({ total: 4, has_more: false });
    expect(await list('accounts', { count: 'true' }, own.testKey)).toMatchObject({ total: 0, total_capped: false });
    for (const query of [{}, { count: 'false' }])
      expect(await list('accounts', query as Record<string, string>, own.key)).not.toHaveProperty('total');
    expect(await refused(recordsPath('accounts'), { count: 'yes' })).toMatchObject([{ field: 'count' }]);
  });

  test('counts up to 10,000 records, and reports if there are more', async () => {
    const own = await newTenant();
    const fill = (amount: number) => database()`
      insert into accounts (company_id, test_mode, id, name, created_by_kind, created_by_id, created_at, updated_at)
      select ${own.companyId}, false, gen_random_uuid(), 'A', 'system', 'test', now(), now() from generate_series(1, ${amount}::int)`;
    await fill(10_000);
    expect(await list('accounts', { count: 'true', limit: 1 }, own.key)).toMatchObject({
      total: 10_000,
      total_capped: false,
    });
    await fill(1);
    expect(await list('accounts', { count: 'true', limit: 1 }, own.key)).toMatchObject({
      total: 10_000,
      total_capped: true,
    });
  });
});
