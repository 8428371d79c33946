// What single records promise: what is written is what is answered, everything else is refused by name, and every change leaves its traces.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from './support/client.ts';
import {
  createRecord,
  leftBehind,
  newCustomField,
  newCustomObject,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
  walk,
} from './support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from './support/tenants.ts';

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

const lead = (more: object = {}) => ({ first_name: 'Sara', email: `${randomUUID()}@x.example`, ...more });
const post = (object: string, body: unknown, withKey = key) => ({
  key: withKey,
  body,
  idempotencyKey: true as const,
  path: recordsPath(object),
});
const refusedCreate = async (object: string, body: unknown, withKey = key) => {
  const { path, ...options } = post(object, body, withKey);
  return refusedFields(422, 'POST', path, options);
};

/** The least that a record of each object needs. */
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
  test('are created, read, changed and deleted, and leave an audit row and an event each time', async () => {
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

  test('refuse every read-only and every unknown field on create and change, and store nothing', async () => {
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
  test('stores values in their form and answers them so', async () => {
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

  test('lists every problem of the body at once', async () => {
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

  test('an object is found by its name with the colon encoded or not', async () => {
    for (const path of ['/v1/objects/object:visits/records', '/v1/objects/object%3Avisits/records']) {
      const { body } = await expectStatus(201, 'POST', path, { key, body: { name: 'A' }, idempotencyKey: true });
      expect(body.data).toMatchObject({ object: 'object:visits', record: { name: 'A', size: null } });
    }
  });

  test('needs the key, the create scope and an object that the key can view', async () => {
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

  test('half a surrogate pair, a NUL character and __proto__ are refused, not stored', async () => {
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

describe('references', () => {
  test('must be of the tenant and the mode, and in reach; a user must be active', async () => {
    const other = await newTenant();
    const branch = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branch}, 'North', now())`;
    const narrow = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
    const inactive = await newUser(tenant, { status: 'inactive' });
    const foreign = await newUser(other);
    const account = { name: 'A' };
    const mine = await createRecord(key, 'accounts', account);
    const hidden = [
      (await createRecord(other.key, 'accounts', account)).id,
      (await createRecord(tenant.testKey, 'accounts', account)).id,
      randomUUID(),
    ];
    for (const id of hidden) {
      expect(await refusedCreate('deals', { name: 'D', account_id: id })).toEqual(['account_id NOT_FOUND']);
      expect(
        await refusedCreate('tasks', { title: 'T', scheduled_at: '2027-01-01', object: 'accounts', record_id: id }),
      ).toEqual(['record_id NOT_FOUND']);
      expect(
        await refusedCreate('activities', { activity_type: 'Call', entity_type: 'deal', entity_id: id, summary: 'x' }),
      ).toEqual(['entity_id NOT_FOUND']);
    }
    expect(await refusedCreate('deals', { name: 'D', account_id: mine.id }, narrow)).toEqual(['account_id NOT_FOUND']);
    for (const id of [inactive.id, foreign.id, randomUUID()])
      expect(await refusedCreate('deals', { name: 'D', assigned_to: id })).toEqual(['assigned_to NOT_FOUND']);
    for (const { email } of [inactive, foreign])
      expect(await refusedCreate('deals', { name: 'D', assigned_to_email: email })).toEqual([
        'assigned_to_email NOT_FOUND',
      ]);
    const deal = await createRecord(key, 'deals', { name: 'D', account_id: mine.id.toUpperCase() });
    expect(deal.account_id).toBe(mine.id);
    expect(
      await refusedFields(422, 'PATCH', recordsPath('deals', deal.id), {
        key,
        body: { account_id: hidden[0], customer_id: hidden[2] },
      }),
    ).toEqual(['account_id NOT_FOUND', 'customer_id NOT_FOUND']);
    const visit = await createRecord(key, 'object:visits', { name: 'V' });
    expect(
      await createRecord(key, 'tasks', {
        title: 'T',
        scheduled_at: '2027-01-01',
        object: 'object:visits',
        record_id: visit.id,
      }),
    ).toMatchObject({ object: 'object:visits', record_id: visit.id });
  });

  test('a deleted record is taken out of the records that refer to it, and takes its own activities, tasks and tags along', async () => {
    const account = await createRecord(key, 'accounts', { name: 'A' });
    const source = await createRecord(key, 'leads', lead());
    const deal = await createRecord(key, 'deals', { name: 'D', account_id: account.id, lead_id: source.id });
    const activity = await createRecord(key, 'activities', {
      activity_type: 'Call',
      entity_type: 'lead',
      entity_id: source.id,
      summary: 'x',
    });
    const kept = await createRecord(key, 'activities', {
      activity_type: 'Call',
      entity_type: 'deal',
      entity_id: deal.id,
      summary: 'x',
    });
    const task = await createRecord(key, 'tasks', {
      title: 'T',
      scheduled_at: '2027-01-01',
      object: 'leads',
      record_id: source.id,
    });
    const [tag] = [randomUUID()];
    const sql = database();
    await sql`insert into tags (company_id, id, object, name, created_at, updated_at) values (${tenant.companyId}, ${tag}, 'leads', ${tag}, now(), now())`;
    await sql`insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual) values (${tenant.companyId}, false, 'leads', ${source.id}, ${tag}, true)`;
    for (const [object, id] of [
      ['accounts', account.id],
      ['leads', source.id],
    ] as const)
      await expectStatus(200, 'DELETE', recordsPath(object, id), { key });
    expect(await readRecord(key, 'deals', deal.id)).toMatchObject({ account_id: null, lead_id: null });
    await expectStatus(404, 'GET', recordsPath('activities', activity.id), { key });
    await expectStatus(404, 'GET', recordsPath('tasks', task.id), { key });
    await readRecord(key, 'activities', kept.id);
    expect(await sql`select from record_tags where record_id = ${source.id}`).toHaveLength(0);
    const { audit, events } = await leftBehind(source.id);
    expect(audit[audit.length - 1]).toMatchObject({ action: 'lead.delete', metadata: { activities: 1, tasks: 1 } });
    expect(events[events.length - 1].event).toBe('record.deleted');
    expect((await leftBehind(activity.id)).events.map((row) => row.event)).toEqual(['record.created']);
  });
});

describe('change', () => {
  test('custom fields are merged, null clears one of them', async () => {
    const record = await createRecord(key, 'leads', lead({ size: 5, vip: true, tier: 'gold' }));
    expect(await patchRecord(key, 'leads', record.id, { vip: null, tier: 'silver' })).toMatchObject({
      size: 5,
      vip: null,
      tier: 'silver',
    });
    const [row] = await database()`select custom, version from leads where id = ${record.id}`;
    expect(row).toEqual({ custom: { size: 5, tier: 'silver' }, version: 2 });
  });

  test('required fields cannot be cleared, and one of email and mobile stays', async () => {
    const record = await createRecord(key, 'leads', lead({ mobile: '+4930123456' }));
    const refused = (body: object) => refusedFields(422, 'PATCH', recordsPath('leads', record.id), { key, body });
    expect(await refused({ first_name: null })).toEqual(['first_name REQUIRED']);
    expect(await refused({ email: null, mobile: '' })).toEqual(['email REQUIRED']);
    const { email } = await patchRecord(key, 'leads', record.id, { email: null });
    expect(email).toBeNull();
    expect(await refused({ mobile: null })).toEqual(['email REQUIRED']);
    const visit = await createRecord(key, 'object:visits', { name: 'V' });
    expect(
      await refusedFields(422, 'PATCH', recordsPath('object:visits', visit.id), { key, body: { name: null } }),
    ).toEqual(['name REQUIRED']);
  });

  test('what changes nothing writes nothing', async () => {
    const record = await createRecord(key, 'leads', lead({ size: 5, priority: 2 }));
    const same = {
      first_name: 'Sara',
      email: record.email.toUpperCase(),
      size: '5',
      priority: '2',
      lead_status: 'NEW',
      city: null,
      tier: null,
    };
    for (const body of [same, {}]) expect(await patchRecord(key, 'leads', record.id, body)).toEqual(record);
    const { audit, events } = await leftBehind(record.id);
    expect(audit).toHaveLength(1);
    expect(events).toHaveLength(1);
    const [row] = await database()`select version from leads where id = ${record.id}`;
    expect(row?.version).toBe(1);
  });

  test('the audit row keeps both values, but of telephone numbers only the last digits', async () => {
    const record = await createRecord(key, 'leads', lead({ mobile: '+4930123456' }));
    await patchRecord(key, 'leads', record.id, { mobile: '+4930654321', lead_status: 'Qualified' });
    const { audit, events } = await leftBehind(record.id);
    expect(audit[1].changes).toMatchObject({
      mobile: { from: '…3456', to: '…4321' },
      lead_status: { from: 'New', to: 'Qualified' },
      lead_status_id: { from: record.lead_status_id, to: expect.any(String) },
    });
    expect(events[1].data.changed_fields.sort()).toEqual(['lead_status', 'lead_status_id', 'mobile']);
    expect(JSON.stringify(audit)).not.toContain('0654321');
  });

  test('needs the edit scope; delete needs the delete scope', async () => {
    const record = await createRecord(key, 'accounts', { name: 'A' });
    const viewer = await newKey(tenant, { scopes: ['accounts:view', 'accounts:create'] });
    const path = recordsPath('accounts', record.id);
    const patch = await expectStatus(403, 'PATCH', path, { key: viewer, body: { name: 'B' } });
    expect(patch.body.error.details.required_scopes).toEqual(['accounts:edit']);
    const remove = await expectStatus(403, 'DELETE', path, { key: viewer });
    expect(remove.body.error.details.required_scopes).toEqual(['accounts:delete']);
    expect(await readRecord(viewer, 'accounts', record.id)).toEqual(record);
  });

  test('an Idempotency-Key is honoured: the replay changes and deletes nothing again', async () => {
    const record = await createRecord(key, 'accounts', { name: 'A' });
    const path = recordsPath('accounts', record.id);
    const [change, remove] = [randomUUID(), randomUUID()];
    const first = await expectStatus(200, 'PATCH', path, { key, body: { name: 'B' }, idempotencyKey: change });
    await patchRecord(key, 'accounts', record.id, { name: 'C' });
    const again = await expectStatus(200, 'PATCH', path, { key, body: { name: 'B' }, idempotencyKey: change });
    expect(again.text).toBe(first.text);
    expect((await readRecord(key, 'accounts', record.id)).name).toBe('C');
    const gone = await expectStatus(200, 'DELETE', path, { key, idempotencyKey: remove });
    expect((await expectStatus(200, 'DELETE', path, { key, idempotencyKey: remove })).text).toBe(gone.text);
    await expectStatus(404, 'DELETE', path, { key });
  });
});

describe('ids of others', () => {
  test('of another tenant, of the other mode, deleted, random and malformed answer the same 404', async () => {
    const other = await newTenant();
    const record = { name: 'A' };
    const deleted = await createRecord(key, 'accounts', record);
    await expectStatus(200, 'DELETE', recordsPath('accounts', deleted.id), { key });
    const foreign = await createRecord(other.key, 'accounts', record);
    const test = await createRecord(tenant.testKey, 'accounts', record);
    const wrongObject = await createRecord(key, 'deals', { name: 'D' });
    const errors: Json[] = [];
    for (const id of [foreign.id, test.id, deleted.id, wrongObject.id, randomUUID(), 'not-an-id', '1']) {
      for (const method of ['GET', 'PATCH', 'DELETE'])
        errors.push(
          (
            await expectStatus(404, method, recordsPath('accounts', id), {
              key,
              ...(method === 'PATCH' ? { body: { name: 'B' } } : {}),
            })
          ).body.error,
        );
    }
    expect(new Set(errors.map((error) => JSON.stringify(error)))).toEqual(new Set([JSON.stringify(errors[0])]));
    expect((await readRecord(other.key, 'accounts', foreign.id)).name).toBe('A');
    expect((await readRecord(tenant.testKey, 'accounts', test.id)).name).toBe('A');
  });
});
