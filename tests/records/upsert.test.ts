// Upserts: one record per match, also for concurrent calls.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
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
} from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const upsertPath = (object: string) => `${recordsPath(object)}:upsert`;
const upsert = (object: string, matchOn: string[], record: object, credential = key): Promise<Answer> =>
  call('POST', upsertPath(object), {
    key: credential,
    body: { match_on: matchOn, record },
    idempotencyKey: true,
  });

async function upserted(status: 200 | 201, object: string, matchOn: string[], record: object): Promise<Json> {
  const answer = await upsert(object, matchOn, record);
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status });
  expect(answer.body.data).toMatchObject({ object, created: status === 201 });
  expect(answer.headers.get('etag')).toMatch(/^"\d+"$/);
  return answer.body.data.record;
}

const refused = (object: string, matchOn: unknown, record: unknown) =>
  refusedFields(422, 'POST', upsertPath(object), { key, body: { match_on: matchOn, record }, idempotencyKey: true });

describe('an upsert', () => {
  test('creates a missing record and updates an existing one, with events and audit rows', async () => {
    const email = `${randomUUID()}@x.example`;
    const created = await upserted(201, 'accounts', ['email'], { name: 'A', email: email.toUpperCase() });
    expect(created).toMatchObject({ name: 'A', email });
    const changed = await upserted(200, 'accounts', ['email'], { name: 'B', email });
    expect(changed).toEqual({ ...created, name: 'B', updated_at: changed.updated_at });
    expect(await upserted(200, 'accounts', ['email'], { name: 'B', email })).toEqual(changed);
    expect(await readRecord(key, 'accounts', created.id)).toEqual(changed);
    const { audit, events } = await leftBehind(created.id);
    expect(audit.map((row) => row.action)).toEqual(['account.create', 'account.update']);
    expect(events.map((row) => row.event)).toEqual(['record.created', 'record.updated']);
    expect(events[1]?.data.changed_fields).toEqual(['name']);
  });

  test('changes only the sent fields in an upsert', async () => {
    const email = `${randomUUID()}@x.example`;
    const { id } = await upserted(201, 'accounts', ['email'], { name: 'A', email, city: 'Berlin' });
    expect(await upserted(200, 'accounts', ['email'], { email, industry: 'Retail' })).toMatchObject({
      id,
      name: 'A',
      city: 'Berlin',
      industry: 'Retail',
    });
  });

  test('matches on numbers, names of lists, custom fields of every type and several fields together', async () => {
    const own = await newTenant();
    const visits = await newCustomObject(own, 'visits');
    const types = { code: 'text', size: 'number', vip: 'boolean', day: 'date', at: 'datetime', mail: 'email' };
    for (const [name, type] of Object.entries(types)) await newCustomField(own, visits, name, { type });
    const values: Record<string, unknown> = {
      name: 'V',
      code: 'Ü-1',
      size: '1e3',
      vip: true,
      day: '2026-03-03',
      at: '2026-03-03T10:00:00+02:00',
      mail: 'A@x.example',
    };
    const first = await upsert(visits, ['code'], values, own.key);
    expect(first.status).toBe(201);
    for (const matchOn of [...Object.keys(values).map((name) => [name]), ['code', 'size', 'vip']]) {
      const again = await upsert(visits, matchOn, values, own.key);
      expect({ matchOn, status: again.status, record: again.body.data?.record }).toEqual({
        matchOn,
        status: 200,
        record: first.body.data.record,
      });
    }
    expect((await upsert(visits, ['code', 'size'], { ...values, size: 999 }, own.key)).status).toBe(201);
    const deal = { name: 'D', stage: 'proposal', amount_minor: 500 };
    expect((await upsert('deals', ['name', 'stage', 'amount_minor'], deal, own.key)).status).toBe(201);
    expect((await upsert('deals', ['amount_minor', 'stage'], { ...deal, stage: 'PROPOSAL' }, own.key)).status).toBe(
      200,
    );
    expect((await upsert('deals', ['stage', 'name'], { ...deal, stage: 'Won' }, own.key)).status).toBe(201);
  });

  test('updates a record by id, creates one without an id, and returns 404 for an unknown id', async () => {
    const created = await upserted(201, 'accounts', ['id'], { name: 'A' });
    expect(await upserted(200, 'accounts', ['id'], { id: created.id, name: 'B' })).toMatchObject({
      id: created.id,
      name: 'B',
    });
    expect((await upserted(201, 'accounts', ['id'], { id: null, name: 'A' })).id).not.toBe(created.id);
    const other = await newTenant();
    const foreign = await createRecord(other.key, 'accounts', { name: 'Foreign' });
    const inTest = await createRecord(tenant.testKey, 'accounts', { name: 'Test' });
    const before = (await walk(key, 'accounts')).length;
    for (const id of [randomUUID(), foreign.id, inTest.id, 'x', '', '0'.repeat(300)]) {
      const answer = await upsert('accounts', ['id'], { id, name: 'C' });
      expect({ id, status: answer.status, error: answer.body.error }).toEqual({
        id,
        status: 404,
        error: { code: 'NOT_FOUND', message: 'There is no such resource.' },
      });
    }
    expect(await walk(key, 'accounts')).toHaveLength(before);
    expect(await readRecord(other.key, 'accounts', foreign.id)).toEqual(foreign);
  });

  test('accepts an upserted activity on its record, and rejects another record', async () => {
    await newCustomField(tenant, 'activities', 'call_sid');
    const lead = await createRecord(key, 'leads', { first_name: 'L', email: `${randomUUID()}@x.example` });
    const other = await createRecord(key, 'leads', { first_name: 'M', email: `${randomUUID()}@x.example` });
    const activity = {
      activity_type: 'Call',
      entity_type: 'lead',
      entity_id: lead.id,
      summary: 'x',
      performed_at: '2026-03-03T00:00:00Z',
      call_sid: randomUUID(),
    };
    const { id } = await upserted(201, 'activities', ['call_sid'], activity);
    const moved = { ...activity, summary: 'y', performed_at: '2026-04-04T00:00:00Z', followup_at: '2030-01-01' };
    expect(await upserted(200, 'activities', ['call_sid'], moved)).toMatchObject({ id, summary: 'y' });
    expect(await readRecord(key, 'leads', lead.id)).toMatchObject({
      last_contacted_at: '2026-04-04T00:00:00.000Z',
      next_followup_at: '2030-01-01T00:00:00.000Z',
    });
    expect(await refused('activities', ['call_sid'], { ...activity, entity_id: other.id })).toEqual([
      'record.entity_id IMMUTABLE',
    ]);
  });

  test('writes nothing if several records match, and names them', async () => {
    const [city, name] = [randomUUID(), 'A'];
    const records = [];
    for (let index = 0; index < 12; index += 1) records.push(await createRecord(key, 'accounts', { name, city }));
    const answer = await upsert('accounts', ['city'], { name: 'B', city });
    expect(answer.status).toBe(409);
    expect(answer.body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'several_matches' } });
    expect(answer.body.error.details.ids).toEqual(records.slice(0, 10).map((record) => record.id));
    for (const record of records) expect(await readRecord(key, 'accounts', record.id)).toEqual(record);
  });

  test('creates one record for 16 concurrent upserts, and updates it by the others', async () => {
    const own = await newTenant();
    await newCustomField(own, 'leads', 'external_ref');
    for (const matchOn of [['email'], ['external_ref'], ['email', 'external_ref']]) {
      const [email, external_ref] = [`${randomUUID()}@x.example`, randomUUID()];
      const answers = await Promise.all(
        Array.from({ length: 16 }, (_, index) =>
          upsert(
            'leads',
            matchOn.toSorted(() => (index % 2) - 0.5),
            { first_name: `${index}`, email, external_ref },
            own.key,
          ),
        ),
      );
      expect(answers.map((answer) => answer.status).toSorted()).toEqual([...Array(15).fill(200), 201]);
      const ids = new Set(answers.map((answer) => answer.body.data.record.id));
      expect(ids.size).toBe(1);
      const [id] = ids;
      const [row] = await database()`select version from leads where id = ${id as string}`;
      expect(row).toEqual({ version: 16 });
      expect((await leftBehind(id as string)).events).toHaveLength(16);
    }
    expect(await walk(own.key, 'leads')).toHaveLength(3);
  });

  test('matches no record of the other mode, another workspace or outside its visibility', async () => {
    const own = await newTenant();
    const email = `${randomUUID()}@x.example`;
    const record = { first_name: 'A', email };
    const member = await newUser(own);
    const made = await createRecord(own.key, 'leads', { ...record, assigned_to: own.admin.id });
    await database()`update users set branch_id = null where id = ${own.admin.id}`;
    await database()`update users set branch_id = ${own.branchId} where id = ${member.id}`;
    const reaching = await newKey(own, { reach: { kind: 'branch', id: own.branchId } });
    for (const credential of [key, own.testKey, reaching]) {
      const answer = await upsert('leads', ['email'], { ...record, first_name: 'B' }, credential);
      expect(answer.status).toBe(201);
      expect(answer.body.data.record.id).not.toBe(made.id);
    }
    expect(await readRecord(own.key, 'leads', made.id)).toEqual(made);
  });

  test('applies the duplicate check of the workspace to upserts that create', async () => {
    const own = await newTenant();
    const email = `${randomUUID()}@x.example`;
    const { id } = await createRecord(own.key, 'leads', { first_name: 'A', email });
    await database()`update duplicate_checks set enabled = true, fields = '{email}' where company_id = ${own.companyId} and object = 'leads'`;
    const answer = await upsert('leads', ['mobile'], { first_name: 'B', email, mobile: '+4930123456' }, own.key);
    expect(answer.status).toBe(409);
    expect(answer.body.error).toMatchObject({ code: 'ALREADY_EXISTS', details: { existing_id: id } });
    expect((await upsert('leads', ['email'], { first_name: 'B', email }, own.key)).status).toBe(200);
  });
});

describe('a rejected upsert', () => {
  test('reports all problems of an upsert by their place in the body, and writes nothing', async () => {
    const record = {
      first_name: 'A',
      email: 'a@refused.example',
      colour: 1,
      priority: 9,
      source_id: 'x',
      id: randomUUID(),
    };
    const created = await refused('leads', ['email'], record);
    expect(created.toSorted()).toEqual([
      'record.colour UNKNOWN_FIELD',
      'record.id READ_ONLY',
      'record.priority OUT_OF_RANGE',
      'record.source_id READ_ONLY',
    ]);
    const { id } = await createRecord(key, 'leads', { first_name: 'A', email: 'b@refused.example' });
    const changed = await refused('leads', ['email'], { email: 'b@refused.example', first_name: null, colour: 1 });
    expect(changed).toEqual(['record.first_name REQUIRED', 'record.colour UNKNOWN_FIELD']);
    expect((await leftBehind(id)).events).toHaveLength(1);
    expect(await walk(key, 'leads', { filter: '{"field":"email","op":"eq","value":"a@refused.example"}' })).toEqual([]);
  });

  test('rejects match fields that are unknown, read-only or without a value', async () => {
    const record = { first_name: 'A', email: 'c@refused.example', last_name: ' ' };
    expect(await refused('leads', ['emial', 'created_at', 'source_id'], record)).toEqual([
      'match_on[0] INVALID_OPTION',
      'match_on[1] INVALID_OPTION',
      'match_on[2] INVALID_OPTION',
    ]);
    expect(await refused('leads', ['mobile', 'last_name'], record)).toEqual([
      'record.mobile REQUIRED',
      'record.last_name REQUIRED',
    ]);
    expect(await refused('leads', ['id', 'email'], record)).toEqual(['match_on CONFLICTING_FIELDS']);
    expect(await refused('leads', ['id'], { ...record, id: 5 })).toEqual(['record.id INVALID_TYPE']);
    expect(await refused('leads', [], record)).toEqual(['match_on TOO_SHORT']);
    expect(await refused('leads', ['email', 'email'], record)).toEqual(['match_on DUPLICATE']);
    expect(await refused('leads', ['a', 'b', 'c', 'd', 'e', 'f'], record)).toEqual(['match_on TOO_LONG']);
    expect(await refused('leads', 'email', record)).toEqual(['match_on INVALID_TYPE']);
    expect(await refused('leads', ['email'], [record])).toEqual(['record INVALID_TYPE']);
    expect(await refused('leads', ['email'], { ...record, email: 'no address' })).toEqual([
      'record.email INVALID_FORMAT',
    ]);
    for (const last_name of ['twin', 'twin'])
      await createRecord(key, 'leads', { ...record, email: 't@x.example', last_name });
    expect(
      await refused('leads', ['last_name', 'email'], { ...record, last_name: 'twin', email: 'no address' }),
    ).toEqual(['record.email INVALID_FORMAT']);
  });

  test('requires the create and edit scopes, a credential and a visible object for an upsert', async () => {
    const body = { match_on: ['name'], record: { name: 'Scoped' } };
    for (const [held, missing] of [
      ['create', 'edit'],
      ['edit', 'create'],
    ]) {
      const credential = await newKey(tenant, { scopes: ['accounts:view', `accounts:${held}`] });
      const answer = await expectStatus(403, 'POST', upsertPath('accounts'), {
        key: credential,
        body,
        idempotencyKey: true,
      });
      expect(answer.body.error.details.required_scopes).toEqual([`accounts:${missing}`]);
    }
    const seeing = await newKey(tenant, { scopes: ['accounts:view'] });
    const without = await expectStatus(403, 'POST', upsertPath('accounts'), {
      key: seeing,
      body,
      idempotencyKey: true,
    });
    expect(without.body.error.message).toBe('This operation requires the scopes accounts:create and accounts:edit.');
    await expectStatus(428, 'POST', upsertPath('accounts'), { key, body });
    await expectStatus(404, 'POST', upsertPath('object:nothing'), { key, body, idempotencyKey: true });
    expect(await walk(key, 'accounts', { filter: '{"field":"name","op":"eq","value":"Scoped"}' })).toEqual([]);
  });

  test('replays an upsert under its key without changes', async () => {
    const email = `${randomUUID()}@x.example`;
    const options = { key, body: { match_on: ['email'], record: { name: 'A', email } }, idempotencyKey: randomUUID() };
    const first = await expectStatus(201, 'POST', upsertPath('accounts'), options);
    await patchRecord(key, 'accounts', first.body.data.record.id, { name: 'B' });
    const again = await expectStatus(201, 'POST', upsertPath('accounts'), options);
    expect(again.text).toBe(first.text);
    expect(await readRecord(key, 'accounts', first.body.data.record.id)).toMatchObject({ name: 'B' });
  });
});
