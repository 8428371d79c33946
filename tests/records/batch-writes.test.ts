// Batch updates, deletions and reads: each item alone, or all together if atomic.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  leftBehind,
  listProblems,
  newCustomField,
  newCustomObject,
  readRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

type Verb = 'batch' | 'batch-update' | 'batch-delete' | 'batch-get';
const buildPath = (verb: Verb, object: string) => `${recordsPath(object)}:${verb}`;
const ask = (verb: Verb, object: string, body: unknown, credential = key): Promise<Answer> =>
  call('POST', buildPath(verb, object), {
    key: credential,
    body,
    ...(verb === 'batch-get' ? {} : { idempotencyKey: true }),
  });

async function done(verb: Verb, object: string, body: unknown, credential = key): Promise<Json> {
  const answer = await ask(verb, object, body, credential);
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 200 });
  const { data } = answer.body;
  expect([data.object, data.succeeded_count, data.failed_count]).toEqual([
    object,
    data.succeeded.length,
    data.failed.length,
  ]);
  return data;
}

/** Returns the failed items of an atomic batch that was rolled back. */
async function sendFailingBatch(verb: Verb, object: string, body: object): Promise<Json[]> {
  const answer = await ask(verb, object, { ...body, atomic: true });
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 422 });
  const { code, details } = answer.body.error;
  expect([code, details.reason, details.failed_count]).toEqual([
    'VALIDATION_ERROR',
    'atomic_batch_failed',
    details.failed.length,
  ]);
  return details.failed;
}

const accounts = (...names: string[]): Promise<Json[]> =>
  createRecords(
    key,
    'accounts',
    names.map((name) => ({ name })),
  );
const outcome = (items: Json[]) => items.map((item) => [item.index, item.code]);

/** Returns ids of records that the key cannot see. */
async function hiddenIds(): Promise<string[]> {
  const other = await newTenant();
  const foreign = await createRecord(other.key, 'accounts', { name: 'Foreign' });
  const inTest = await createRecord(tenant.testKey, 'accounts', { name: 'Test' });
  const [gone] = await accounts('Gone');
  await expectStatus(200, 'DELETE', recordsPath('accounts', gone.id), { key });
  const ofOtherObject = await createRecord(key, 'deals', { name: 'Deal' });
  return [foreign.id, inTest.id, gone.id, ofOtherObject.id, randomUUID(), 'x', ''];
}

describe('a batch of changes', () => {
  test('updates each record of a batch alone, and reports its index in the sent list', async () => {
    const user = await newUser(tenant);
    const [a, b, c] = await accounts('A', 'B', 'C');
    const data = await done('batch-update', 'accounts', [
      { id: a.id, city: 'Berlin', assigned_to_email: user.email },
      { id: b.id, name: null, colour: 'red', created_at: '2020-01-01' },
      { id: a.id, city: 'Madrid' },
      { id: c.id.toUpperCase() },
      { city: 'X' },
      'nothing',
      { id: 7 },
      { id: b.id, assigned_to: randomUUID() },
    ]);
    expect(data.succeeded).toEqual([
      {
        index: 0,
        record: { ...a, city: 'Berlin', assigned_to: user.id, updated_at: data.succeeded[0].record.updated_at },
        version: 2,
      },
      { index: 3, record: c, version: 1 },
    ]);
    expect(outcome(data.failed)).toEqual([
      [1, 'VALIDATION_ERROR'],
      [2, 'DUPLICATE_IN_BATCH'],
      [4, 'VALIDATION_ERROR'],
      [5, 'VALIDATION_ERROR'],
      [6, 'VALIDATION_ERROR'],
      [7, 'DUPLICATE_IN_BATCH'],
    ]);
    expect(listProblems(data.failed[0])).toEqual(['name REQUIRED', 'colour UNKNOWN_FIELD', 'created_at READ_ONLY']);
    expect(data.failed[2].details.fields).toMatchObject([{ field: 'id', code: 'REQUIRED' }]);
    expect(await readRecord(key, 'accounts', a.id)).toEqual(data.succeeded[0].record);
    expect(await readRecord(key, 'accounts', b.id)).toEqual(b);
    expect((await leftBehind(a.id)).events.map((row) => row.event)).toEqual(['record.created', 'record.updated']);
    for (const { id } of [b, c]) expect((await leftBehind(id)).events).toHaveLength(1);
  });

  test('fails only the updates with invisible references', async () => {
    const other = await createRecord((await newTenant()).key, 'accounts', { name: 'Foreign' });
    const deals = await createRecords(key, 'deals', [{ name: 'A' }, { name: 'B' }]);
    const [account] = await accounts('A');
    const data = await done('batch-update', 'deals', [
      { id: deals[0].id, account_id: other.id },
      { id: deals[1].id, account_id: account.id, stage: 'won' },
    ]);
    expect(data.failed[0]).toMatchObject({
      index: 0,
      details: { fields: [{ field: 'account_id', code: 'NOT_FOUND' }] },
    });
    expect(data.succeeded[0].record).toMatchObject({
      account_id: account.id,
      stage: 'Won',
      won_at: expect.any(String),
    });
  });

  test('updates no record that the key cannot see', async () => {
    const ids = await hiddenIds();
    const data = await done(
      'batch-update',
      'accounts',
      ids.map((id) => ({ id, city: 'X' })),
    );
    expect(data.failed).toEqual(
      ids.map((_, index) => ({ index, code: 'NOT_FOUND', message: 'There is no such resource.' })),
    );
  });

  test('keeps fields that other calls change during a batch update', async () => {
    const own = await newTenant();
    const visits = await newCustomObject(own, 'visits');
    const names = Array.from({ length: 8 }, (_, index) => `f${index}`);
    for (const name of names) await newCustomField(own, visits, name);
    const records = await createRecords(
      own.key,
      visits,
      Array.from({ length: 10 }, (_, index) => ({ name: `${index}` })),
    );
    const batches = names.map((name, index) => {
      const items = records.map(({ id }) => ({ id, [name]: name }));
      return done('batch-update', visits, index % 2 ? items : items.toReversed(), own.key);
    });
    for (const data of await Promise.all(batches)) expect(data.failed).toEqual([]);
    const expected = Object.fromEntries(names.map((name) => [name, name]));
    for (const record of await walk(own.key, visits)) expect(record).toMatchObject(expected);
  });

  test('moves the leads of activities that a batch updates', async () => {
    const lead = await createRecord(key, 'leads', { first_name: 'L', email: `${randomUUID()}@x.example` });
    const base = { activity_type: 'Call', entity_type: 'lead', entity_id: lead.id, summary: 'x' };
    const [a, b] = await createRecords(key, 'activities', [
      { ...base, performed_at: '2026-01-01T00:00:00Z', followup_at: '2030-01-01' },
      { ...base, performed_at: '2026-01-02T00:00:00Z', followup_at: '2031-01-01' },
    ]);
    const data = await done('batch-update', 'activities', [
      { id: a.id, performed_at: '2026-03-03T00:00:00Z' },
      { id: b.id, followup_at: null },
    ]);
    expect(data.failed).toEqual([]);
    expect(await readRecord(key, 'leads', lead.id)).toMatchObject({
      last_contacted_at: '2026-03-03T00:00:00.000Z',
      next_followup_at: '2030-01-01T00:00:00.000Z',
    });
  });
});

describe('a batch of deletions', () => {
  test('deletes each record of a batch with everything that belongs to it, and nothing else', async () => {
    const leads = await createRecords(
      key,
      'leads',
      Array.from({ length: 3 }, () => ({ first_name: 'L', email: `${randomUUID()}@x.example` })),
    );
    const activity = (lead: Json) => ({ activity_type: 'Call', entity_type: 'lead', entity_id: lead.id, summary: 'x' });
    const task = (object: string, id: string) => ({ title: 'T', scheduled_at: '2030-01-01', object, record_id: id });
    const activities = await createRecords(key, 'activities', leads.map(activity));
    const tasks = await createRecords(key, 'tasks', [
      ...leads.map(({ id }) => task('leads', id)),
      task('activities', activities[0].id),
    ]);
    const [first, second, third] = leads;
    const addNote = (object: string, id: string) =>
      expectStatus(201, 'POST', `/v1/objects/${object}/records/${id}/notes`, { key, body: { content: 'N' } });
    for (const { id } of leads) await addNote('leads', id);
    await addNote('activities', activities[0].id);
    const file = await expectStatus(201, 'POST', `/v1/objects/leads/records/${second.id}/attachments`, {
      key,
      ...fileForm(),
    });
    const data = await done('batch-delete', 'leads', { ids: [second.id, first.id, second.id, randomUUID()] });
    expect(data.succeeded).toEqual([
      { index: 0, id: second.id, deleted: true },
      { index: 1, id: first.id, deleted: true },
    ]);
    expect(outcome(data.failed)).toEqual([
      [2, 'DUPLICATE_IN_BATCH'],
      [3, 'NOT_FOUND'],
    ]);
    const left = async (object: string, records: Json[]) =>
      (await done('batch-get', object, { ids: records.map(({ id }) => id) })).succeeded.map((item: Json) => item.index);
    expect(await left('leads', leads)).toEqual([2]);
    expect(await left('activities', activities)).toEqual([2]);
    expect(await left('tasks', tasks)).toEqual([2]);
    expect((await leftBehind(third.id)).events.map((row) => row.event)).toEqual(['record.created', 'record.updated']);
    const counts = async (id: string) => (await leftBehind(id)).audit.at(-1)?.metadata;
    expect([await counts(first.id), await counts(second.id)]).toEqual([
      { activities: 1, tasks: 2, notes: 2, attachments: 0 },
      { activities: 1, tasks: 1, notes: 1, attachments: 1 },
    ]);
    await expectStatus(404, 'GET', `/v1/attachments/${file.body.data.attachment.id}`, { key });
    const notes = await expectStatus(200, 'GET', `/v1/objects/leads/records/${third.id}/notes`, { key });
    expect(notes.body.data.notes).toHaveLength(1);
    expect((await leftBehind(first.id)).events.map((row) => row.event)).toEqual([
      'record.created',
      'record.updated',
      'record.deleted',
    ]);
  });

  test('deletes no record that the key cannot see', async () => {
    const data = await done('batch-delete', 'accounts', { ids: await hiddenIds() });
    expect(data.succeeded).toEqual([]);
    expect(new Set(data.failed.map((item: Json) => item.code))).toEqual(new Set(['NOT_FOUND']));
  });

  test('recomputes the follow-up of leads whose activities a batch deletes', async () => {
    const lead = await createRecord(key, 'leads', { first_name: 'L', email: `${randomUUID()}@x.example` });
    const base = { activity_type: 'Call', entity_type: 'lead', entity_id: lead.id, summary: 'x' };
    const [a, b] = await createRecords(
      key,
      'activities',
      ['2030-01-01', '2031-01-01', '2032-01-01'].map((followup_at) => ({ ...base, followup_at })),
    );
    await done('batch-delete', 'activities', { ids: [b.id, a.id] });
    expect(await readRecord(key, 'leads', lead.id)).toMatchObject({ next_followup_at: '2032-01-01T00:00:00.000Z' });
  });

  test('deletes each record once for 8 concurrent batches in any order', async () => {
    const records = await accounts(...Array.from({ length: 20 }, (_, index) => `${index}`));
    const ids = records.map(({ id }) => id);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        done('batch-delete', 'accounts', { ids: index % 2 ? ids : ids.toReversed() }),
      ),
    );
    expect(answers.map((data) => data.succeeded_count).reduce((sum, count) => sum + count, 0)).toBe(20);
    for (const id of ids.slice(0, 3)) expect((await leftBehind(id)).events).toHaveLength(2);
  });
});

describe('a batch of reads', () => {
  test('returns records in the order of the ids, including repeated ids, and writes nothing', async () => {
    const [a, b] = await accounts('A', 'B');
    const hidden = await hiddenIds();
    const answer = await ask('batch-get', 'accounts', { ids: [b.id, ...hidden, a.id, b.id] });
    const { data } = answer.body;
    expect(data.succeeded).toEqual([
      { index: 0, record: b, version: 1 },
      { index: hidden.length + 1, record: a, version: 1 },
      { index: hidden.length + 2, record: b, version: 1 },
    ]);
    expect(data.failed).toEqual(
      hidden.map((_, index) => ({ index: index + 1, code: 'NOT_FOUND', message: 'There is no such resource.' })),
    );
    const [audit] =
      await database()`select count(*)::int as rows from audit_logs where request_id = ${answer.headers.get('x-request-id')}`;
    expect(audit).toEqual({ rows: 0 });
  });

  test('selects fields and expands references in a batch read', async () => {
    const [account] = await accounts('A');
    const { id } = await createRecord(key, 'customers', { first_name: 'C', account_id: account.id });
    const read = (query: Record<string, string>, status: number) =>
      expectStatus(status, 'POST', buildPath('batch-get', 'customers'), { key, query, body: { ids: [id] } });
    const { body } = await read({ fields: 'first_name', expand: 'account_id' }, 200);
    const { record } = body.data.succeeded[0];
    expect(Object.keys(record)).toEqual(['id', 'created_at', 'updated_at', 'first_name', 'expanded']);
    expect(record.expanded).toEqual({ account_id: account });
    const post = (status: number, more: object) =>
      expectStatus(status, 'POST', buildPath('batch-get', 'customers'), {
        key,
        body: { ids: [id], fields: ['first_name'] },
        ...more,
      });
    const inBody = await post(200, { query: { expand: 'account_id' } });
    expect(inBody.body.data).toEqual(body.data);
    const twice = await post(422, { query: { fields: 'email' } });
    expect(twice.body.error.details.fields).toMatchObject([{ field: 'fields', code: 'CONFLICTING_FIELDS' }]);
    const unknown = await post(400, { body: { ids: [id], fields: ['firstname'] } });
    expect(unknown.body.error.details.fields).toMatchObject([{ field: 'firstname', did_you_mean: 'first_name' }]);
    const refused = await read({ fields: 'firstname' }, 400);
    expect(refused.body.error.details.fields).toMatchObject([{ field: 'firstname', did_you_mean: 'first_name' }]);
  });

  test('reads only visible records in a batch', async () => {
    const own = await newTenant();
    const member = await newUser(own);
    await database()`update users set branch_id = null where id = ${own.admin.id}`;
    await database()`update users set branch_id = ${own.branchId} where id = ${member.id}`;
    const records = await createRecords(own.key, 'accounts', [
      { name: 'A', assigned_to: member.id },
      { name: 'B', assigned_to: own.admin.id },
    ]);
    const reaching = await newKey(own, { reach: { kind: 'branch', id: own.branchId } });
    const ids = records.map((record) => record.id);
    for (const [verb, body] of [
      ['batch-get', { ids }],
      ['batch-update', records.map(({ id }) => ({ id, city: 'X' }))],
      ['batch-delete', { ids }],
    ] as const) {
      const data = await done(verb, 'accounts', body, reaching);
      expect([verb, data.succeeded.map((item: Json) => item.index), outcome(data.failed)]).toEqual([
        verb,
        [0],
        [[1, 'NOT_FOUND']],
      ]);
    }
    expect(await readRecord(own.key, 'accounts', ids[1])).toEqual(records[1]);
  });
});

describe('atomic batches', () => {
  test('rolls back an atomic batch of creates for one failed item, and lists the failed ones', async () => {
    const [name, bad] = [randomUUID(), { city: 'X' }];
    expect(outcome(await sendFailingBatch('batch', 'accounts', { records: [{ name }, bad, { name }, 'x'] }))).toEqual([
      [1, 'VALIDATION_ERROR'],
      [3, 'VALIDATION_ERROR'],
    ]);
    const filter = JSON.stringify({ field: 'name', op: 'eq', value: name });
    expect(await walk(key, 'accounts', { filter })).toEqual([]);
    const data = await done('batch', 'accounts', { records: [{ name }, { name }], atomic: true });
    expect(data.succeeded_count).toBe(2);
    expect(await walk(key, 'accounts', { filter })).toHaveLength(2);
  });

  test('rolls back an atomic batch of updates for one failed item', async () => {
    const [a, b] = await accounts('A', 'B');
    const good = [
      { id: a.id, name: 'AA' },
      { id: b.id, name: 'BB' },
    ];
    const failed = await sendFailingBatch('batch-update', 'accounts', {
      records: [...good, { id: randomUUID(), name: 'C' }],
    });
    expect(outcome(failed)).toEqual([[2, 'NOT_FOUND']]);
    expect(
      outcome(await sendFailingBatch('batch-update', 'accounts', { records: [good[0], { id: b.id, name: null }] })),
    ).toEqual([[1, 'VALIDATION_ERROR']]);
    for (const record of [a, b]) {
      expect(await readRecord(key, 'accounts', record.id)).toEqual(record);
      expect((await leftBehind(record.id)).events).toHaveLength(1);
    }
    expect(await done('batch-update', 'accounts', { records: good, atomic: true })).toMatchObject({
      succeeded_count: 2,
    });
    expect(await readRecord(key, 'accounts', b.id)).toMatchObject({ name: 'BB' });
  });

  test('rolls back an atomic batch of deletions for one failed item, including everything that belonged to the records', async () => {
    const [a, b] = await accounts('A', 'B');
    const task = await createRecord(key, 'tasks', {
      title: 'T',
      scheduled_at: '2030-01-01',
      object: 'accounts',
      record_id: a.id,
    });
    expect(outcome(await sendFailingBatch('batch-delete', 'accounts', { ids: [a.id, randomUUID(), b.id] }))).toEqual([
      [1, 'NOT_FOUND'],
    ]);
    expect(await readRecord(key, 'accounts', a.id)).toEqual(a);
    expect(await readRecord(key, 'tasks', task.id)).toEqual(task);
    expect((await leftBehind(b.id)).events).toHaveLength(1);
    const data = await done('batch-delete', 'accounts', { ids: [a.id, b.id], atomic: true });
    expect(data.succeeded_count).toBe(2);
    await expectStatus(404, 'GET', recordsPath('tasks', task.id), { key });
  });

  test('stores the rejection of an atomic batch under its key, so a corrected batch needs another key', async () => {
    const options = { key, body: { records: [{}], atomic: true }, idempotencyKey: randomUUID() };
    const first = await expectStatus(422, 'POST', buildPath('batch', 'accounts'), options);
    const again = await expectStatus(422, 'POST', buildPath('batch', 'accounts'), options);
    expect(again.text).toBe(first.text);
  });
});

describe('rejection of the whole call', () => {
  test.each(['batch-update', 'batch-delete', 'batch-get'] as const)(
    'rejects %s without items, with more than 100, and without a list',
    async (verb) => {
      const name = verb === 'batch-update' ? 'records' : 'ids';
      const item = verb === 'batch-update' ? { id: randomUUID() } : randomUUID();
      const refused = (body: unknown) =>
        refusedFields(422, 'POST', buildPath(verb, 'accounts'), { key, body, idempotencyKey: true });
      expect(await refused({ [name]: [] })).toEqual([`${name} TOO_SHORT`]);
      expect(await refused({})).toEqual([`${name} REQUIRED`]);
      expect(await refused({ [name]: item })).toEqual([`${name} INVALID_TYPE`]);
      expect(await refused({ [name]: Array(101).fill(item) })).toEqual([`${name} TOO_LONG`]);
      expect((await done(verb, 'accounts', { [name]: Array(100).fill(item) })).failed_count).toBe(100);
    },
  );

  test.each([
    ['batch-update', 'edit', { records: [{ id: randomUUID() }] }],
    ['batch-delete', 'delete', { ids: [randomUUID()] }],
  ] as const)('%s needs the key, the %s scope and a visible object', async (verb, action, body) => {
    await expectStatus(428, 'POST', buildPath(verb, 'accounts'), { key, body });
    const viewer = await newKey(tenant, { scopes: ['accounts:view'] });
    const answer = await expectStatus(403, 'POST', buildPath(verb, 'accounts'), {
      key: viewer,
      body,
      idempotencyKey: true,
    });
    expect(answer.body.error.details.required_scopes).toEqual([`accounts:${action}`]);
    await expectStatus(404, 'POST', buildPath(verb, 'deals'), { key: viewer, body, idempotencyKey: true });
    await expectStatus(200, 'POST', buildPath('batch-get', 'accounts'), { key: viewer, body: { ids: [randomUUID()] } });
  });

  test('accepts 100 records of 100 KB in total, and rejects one byte more', async () => {
    const records = await accounts(...Array.from({ length: 100 }, (_, index) => `${index}`));
    const body = (filling: number) =>
      JSON.stringify(records.map(({ id }, index) => ({ id, description: 'x'.repeat(index === 0 ? filling : 930) })));
    const filling = 102_400 - body(0).length;
    expect(filling).toBeLessThan(5000);
    const options = (rawBody: string) => ({ key, rawBody, idempotencyKey: true as const });
    const full = await expectStatus(200, 'POST', buildPath('batch-update', 'accounts'), options(body(filling)));
    expect(full.body.data.succeeded_count).toBe(100);
    const over = await expectStatus(400, 'POST', buildPath('batch-update', 'accounts'), options(body(filling + 1)));
    expect(over.body.error.details).toEqual({ reason: 'body_too_large' });
  });
});
