// Single records: responses equal what was written, with audit rows and events.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import {
  createRecord,
  lead,
  leftBehind,
  newCustomField,
  newCustomObject,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newCustomObject(tenant, 'visits');
  for (const object of ['leads', 'object:visits']) {
    await newCustomField(tenant, object, 'size', { type: 'number' });
    await newCustomField(tenant, object, 'vip', { type: 'boolean' });
    await newCustomField(tenant, object, 'tier', { type: 'select', options: [{ value: 'gold' }, { value: 'silver' }] });
    await newCustomField(tenant, object, 'constructor');
  }
});

const refusedCreate = (object: string, body: unknown, withKey = key) =>
  refusedFields(422, 'POST', recordsPath(object), { key: withKey, body, idempotencyKey: true });

/** Returns the required fields of a record of an object. */
async function least(object: string): Promise<Record<string, unknown>> {
  switch (object) {
    case 'leads':
      return lead();
    case 'customers':
      return { first_name: 'Sara' };
    case 'tasks':
      return { title: 'Call back', scheduled_at: '2027-01-01T10:00:00Z' };
    case 'activities':
      return {
        activity_type: 'Call',
        entity_type: 'lead',
        entity_id: (await createRecord(key, 'leads', lead())).id,
        summary: 'Spoke',
      };
    default:
      return { name: 'Blue Lake' };
  }
}

const objects = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'object:visits'];

describe.each(objects)('records of %s', (object) => {
  test('creates, reads, updates and deletes a record, with an audit row and an event each time', async () => {
    const body = await least(object);
    const created = await createRecord(key, object, body);
    expect(await readRecord(key, object, created.id)).toEqual(created);
    expect(created.created_at).toBe(created.updated_at);
    const text =
      object === 'activities'
        ? 'details'
        : object === 'object:visits'
          ? 'constructor'
          : object === 'tasks'
            ? 'description'
            : 'city';
    const field = object === 'deals' ? 'description' : text;
    expect(created[field]).toBeNull();
    const changed = await patchRecord(key, object, created.id, { [field]: 'Berlin' });
    expect(changed).toEqual({ ...created, [field]: 'Berlin', updated_at: changed.updated_at });
    expect(changed.updated_at > created.updated_at).toBe(true);
    expect(await readRecord(key, object, created.id)).toEqual(changed);
    expect((await patchRecord(key, object, created.id, { [field]: null }))[field]).toBeNull();

    const { body: answer } = await expectStatus(200, 'DELETE', recordsPath(object, created.id), { key });
    expect(answer.data).toEqual({ object, id: created.id, deleted: true });
    await expectStatus(404, 'GET', recordsPath(object, created.id), { key });
    await expectStatus(404, 'DELETE', recordsPath(object, created.id), { key });

    const { audit, events } = await leftBehind(created.id);
    const noun = object.startsWith('object:') ? 'record' : ({ activities: 'activity' }[object] ?? object.slice(0, -1));
    expect(audit.map((row) => row.action)).toEqual([
      `${noun}.create`,
      `${noun}.update`,
      `${noun}.update`,
      `${noun}.delete`,
    ]);
    expect(audit.every((row) => row.object === object && row.actor_kind === 'api_key')).toBe(true);
    expect(audit[1].changes).toEqual({ [field]: { from: null, to: 'Berlin' } });
    const facts = { object, record_id: created.id };
    expect(events.map(({ event, data }) => ({ event, data }))).toEqual([
      { event: 'record.created', data: { ...facts, occurred_at: created.created_at } },
      { event: 'record.updated', data: { ...facts, changed_fields: [field], occurred_at: changed.updated_at } },
      { event: 'record.updated', data: { ...facts, changed_fields: [field], occurred_at: expect.any(String) } },
      { event: 'record.deleted', data: { ...facts, occurred_at: expect.any(String) } },
    ]);
  });

  test('rejects read-only and unknown fields on create and update, and stores nothing', async () => {
    const body = await least(object);
    const before = await walk(key, object, { limit: 100 });
    const stored = before[0] ?? (await createRecord(key, object, body));
    const writable = new Set([...Object.keys(body), 'assigned_to_email']);
    const published = Object.keys(stored);
    const readOnly = published.filter((name) =>
      /^(id|created_at|updated_at|created_by)$|^(lead_status|source|stage)_id$|^(converted|won|lost|completed|stage_changed|last_contacted|next_followup)_at$|^converted_customer_id$/.test(
        name,
      ),
    );
    if (object === 'customers') readOnly.push('lead_id');
    expect(readOnly.length).toBeGreaterThanOrEqual(3);
    const unknown = [
      'company_id',
      'test_mode',
      'version',
      'custom',
      'custom_fields',
      'created_by_id',
      'owner',
      'Name',
      'toString',
      'name ',
    ].filter((name) => !published.includes(name) && !writable.has(name));
    const count = (await walk(key, object, { limit: 100 })).length;
    for (const name of [...readOnly, ...unknown]) {
      const expected = [`${name} ${readOnly.includes(name) ? 'READ_ONLY' : 'UNKNOWN_FIELD'}`];
      const value = (Object.hasOwn(stored, name) ? stored[name] : null) ?? 'x';
      expect(await refusedCreate(object, { ...body, [name]: value })).toEqual(expected);
      expect(
        await refusedFields(422, 'PATCH', recordsPath(object, stored.id), { key, body: { [name]: value } }),
      ).toEqual(expected);
      const { body: batch } = await expectStatus(200, 'POST', `${recordsPath(object)}:batch`, {
        key,
        body: [{ ...body, [name]: value }],
        idempotencyKey: true,
      });
      expect(batch.data).toMatchObject({ succeeded_count: 0, failed: [{ code: 'VALIDATION_ERROR' }] });
    }
    expect(await readRecord(key, object, stored.id)).toEqual(stored);
    expect(await walk(key, object, { limit: 100 })).toHaveLength(count);
  });
});

describe('create', () => {
  test('stores values in normalized form, and returns them so', async () => {
    const user = await newUser(tenant);
    const record = await createRecord(key, 'leads', {
      first_name: 'Sara',
      email: 'SARA@X.Example',
      mobile: '+49 30 123456',
      priority: '2',
      lead_status: 'qualified',
      assigned_to_email: user.email.toUpperCase(),
      size: '12',
      vip: 'true',
      tier: 'gold',
      constructor: 'x',
      last_name: '',
      city: '  ',
    });
    expect(record).toMatchObject({
      email: 'sara@x.example',
      mobile: '+4930123456',
      priority: 2,
      lead_status: 'Qualified',
      assigned_to: user.id,
      size: 12,
      vip: true,
      tier: 'gold',
      constructor: 'x',
      last_name: null,
      city: null,
      converted_at: null,
    });
    expect(record.lead_status_id).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('reports all problems of a body together', async () => {
    const body = {
      first_name: 5,
      colour: 'red',
      priority: 9,
      lead_status: 'Nope',
      id: randomUUID(),
      tier: 'bronze',
      assigned_to: randomUUID(),
    };
    const problems = await refusedCreate('leads', body);
    expect(problems.sort()).toEqual([
      'assigned_to NOT_FOUND',
      'colour UNKNOWN_FIELD',
      'email REQUIRED',
      'first_name INVALID_TYPE',
      'id READ_ONLY',
      'lead_status INVALID_OPTION',
      'priority OUT_OF_RANGE',
      'tier INVALID_OPTION',
    ]);
  });

  test('accepts an object name with the colon encoded or not', async () => {
    for (const path of ['/v1/objects/object:visits/records', '/v1/objects/object%3Avisits/records']) {
      const { body } = await expectStatus(201, 'POST', path, { key, body: { name: 'A' }, idempotencyKey: true });
      expect(body.data).toMatchObject({ object: 'object:visits', record: { name: 'A', size: null } });
    }
  });

  test('requires a credential, the create scope and a viewable object to create a record', async () => {
    const path = recordsPath('accounts');
    const without = await expectStatus(428, 'POST', path, { key, body: { name: 'A' } });
    expect(without.body.error.code).toBe('IDEMPOTENCY_KEY_REQUIRED');
    const viewer = await newKey(tenant, { scopes: ['accounts:view'] });
    const refused = await expectStatus(403, 'POST', path, { key: viewer, body: { name: 'A' }, idempotencyKey: true });
    expect(refused.body.error).toMatchObject({
      code: 'FORBIDDEN_SCOPE',
      details: { required_scopes: ['accounts:create'] },
    });
    const blind = await newKey(tenant, { scopes: ['accounts:create'] });
    await expectStatus(404, 'POST', path, { key: blind, body: { name: 'A' }, idempotencyKey: true });
    await expectStatus(404, 'POST', recordsPath('object:nothing'), { key, body: { name: 'A' }, idempotencyKey: true });
    const slug = await newKey(tenant, { scopes: ['object:visits:view', 'object:visits:create'] });
    await expectStatus(201, 'POST', recordsPath('object:visits'), {
      key: slug,
      body: { name: 'A' },
      idempotencyKey: true,
    });
  });

  test('rejects lone surrogates, NUL characters and __proto__', async () => {
    const raw = (text: string) => ({ key, rawBody: text, idempotencyKey: true as const });
    const path = recordsPath('object:visits');
    for (const text of ['{"name":"\\ud800"}', '{"name":"a\\u0000"}'])
      expect(await refusedFields(422, 'POST', path, raw(text))).toEqual(['name INVALID_FORMAT']);
    expect(await refusedFields(422, 'POST', path, raw('{"name":"a","__proto__":{"size":1}}'))).toEqual([
      '__proto__ UNKNOWN_FIELD',
    ]);
    const record = await createRecord(key, 'object:visits', { name: "Robert'); drop table leads;-- \\ 😀" });
    expect(record.name).toBe("Robert'); drop table leads;-- \\ 😀");
  });
});
