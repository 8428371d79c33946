// Filters by the actor that created a record, and by the one that changed it last.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { createRecord, createRecords, patchRecord, recordsPath, walk } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newKey, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
/** Two keys of the workspace. */
let first: string;
let second: string;
let idOf: Map<string, string>;

beforeAll(async () => {
  tenant = await newWideTenant();
  first = await newKey(tenant);
  second = await newKey(tenant);
  idOf = new Map();
  for (const key of [first, second]) {
    const { id } = await createRecord(key, 'accounts', { name: 'Probe' });
    const [row] = await database()`select created_by_id from accounts where id = ${id}`;
    idOf.set(key, row?.created_by_id);
  }
});

const account = (key: string, more: object = {}) =>
  createRecord(key, 'accounts', { name: `Account ${randomUUID()}`, ...more });

/** Returns which of the two keys a filter finds a record by. */
async function findActor(object: string, id: string, field: 'created_by' | 'updated_by'): Promise<string[]> {
  const found: string[] = [];
  for (const [name, key] of Object.entries({ first, second })) {
    const and = [
      { field: 'id', op: 'eq', value: id },
      { field, op: 'eq', value: idOf.get(key) },
    ];
    const records = await walk(tenant.key, object, { filter: JSON.stringify({ and }) });
    if (records.length > 0) found.push(name);
  }
  return found;
}

describe('the actor of the last change', () => {
  test('is the creator until the record changes', async () => {
    const { id } = await account(first);
    expect(await findActor('accounts', id, 'updated_by')).toEqual(['first']);
    await patchRecord(second, 'accounts', id, { city: 'Berlin' });
    expect(await findActor('accounts', id, 'updated_by')).toEqual(['second']);
    expect(await findActor('accounts', id, 'created_by')).toEqual(['first']);
  });

  test('is the creator of a lead that was taken in', async () => {
    const body = { first_name: 'A', email: `${randomUUID()}@x.example` };
    const { data } = (await expectStatus(201, 'POST', '/v1/leads', { key: second, body })).body;
    expect(await findActor('leads', data.lead.id, 'updated_by')).toEqual(['second']);
  });

  test('is set by batches, upserts and status changes', async () => {
    const made = await createRecords(
      first,
      'leads',
      [1, 2, 3].map(() => ({ first_name: 'A', email: `${randomUUID()}@x.example` })),
    );
    const [one, two, three] = made;
    await expectStatus(200, 'POST', `${recordsPath('leads')}:batch-update`, {
      key: second,
      body: { records: [{ id: one.id, city: 'Berlin' }] },
      idempotencyKey: true,
    });
    const record = { first_name: 'B', email: two.email };
    const upsert = { key: second, body: { match_on: ['email'], record }, idempotencyKey: true } as const;
    await expectStatus(200, 'POST', `${recordsPath('leads')}:upsert`, upsert);
    const status = { key: second, body: { lead_status: 'Contacted' } };
    await expectStatus(200, 'POST', `/v1/leads/${three.id}/status`, { ...status, idempotencyKey: true });
    for (const { id } of made) expect(await findActor('leads', id, 'updated_by')).toEqual(['second']);
  });

  test('is the actor whose activity or deletion changed the record', async () => {
    const { id: accountId } = await account(first);
    const customer = await createRecord(first, 'customers', { first_name: 'A', account_id: accountId });
    const lead = await createRecord(first, 'leads', { first_name: 'A', email: `${randomUUID()}@x.example` });
    const body = { activity_type: 'Call', entity_type: 'lead', entity_id: lead.id, summary: 'Called' };
    await createRecord(second, 'activities', body);
    expect(await findActor('leads', lead.id, 'updated_by')).toEqual(['second']);
    await expectStatus(200, 'DELETE', recordsPath('accounts', accountId), { key: second });
    expect(await findActor('customers', customer.id, 'updated_by')).toEqual(['second']);
  });

  test('is the actor that merges, for the records that then refer to another one', async () => {
    const [from, into] = [await account(first), await account(first)];
    const customer = await createRecord(first, 'customers', { first_name: 'A', account_id: from.id });
    const merge = { key: second, body: { into_id: into.id } };
    await expectStatus(200, 'POST', `${recordsPath('accounts', from.id)}/merge`, merge);
    expect(await findActor('customers', customer.id, 'updated_by')).toEqual(['second']);
  });

  test('is the actor that restores a record, for the records whose references come back', async () => {
    const { id } = await account(first);
    const customer = await createRecord(first, 'customers', { first_name: 'A', account_id: id });
    await expectStatus(200, 'DELETE', recordsPath('accounts', id), { key: first });
    await expectStatus(200, 'POST', `/v1/objects/accounts/deleted-records/${id}/restore`, { key: second });
    await vi.waitUntil(async () => (await findActor('customers', customer.id, 'updated_by'))[0] === 'second');
    expect(await findActor('accounts', id, 'updated_by')).toEqual(['first']);
  });

  test('counts in reports, and only for keys that view the object', async () => {
    const { id } = await account(second);
    const filter = {
      and: [
        { field: 'id', op: 'eq', value: id },
        { field: 'updated_by', op: 'eq', value: idOf.get(second) },
      ],
    };
    const ask = { body: { object: 'accounts', filter } };
    const { body } = await expectStatus(200, 'POST', '/v1/reports/query', { key: first, ...ask });
    expect(body.data.total.count).toBe(1);
    const narrow = await newKey(tenant, { scopes: ['reports:view'] });
    await expectStatus(403, 'POST', '/v1/reports/query', { key: narrow, ...ask });
  });
});
