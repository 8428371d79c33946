// Batch upserts: each item updates or creates one record, alone or all together.
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  leftBehind,
  listProblems,
  newCustomField,
  readRecord,
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

const buildPath = (object: string) => `${recordsPath(object)}:batch-upsert`;
const post = (object: string, body: object, credential = key): Promise<Answer> =>
  call('POST', buildPath(object), { key: credential, body, idempotencyKey: true });

async function done(object: string, matchOn: string[], records: unknown[], credential = key): Promise<Json> {
  const answer = await post(object, { match_on: matchOn, records }, credential);
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 200 });
  const { data } = answer.body;
  expect([data.object, data.succeeded_count, data.failed_count]).toEqual([
    object,
    data.succeeded.length,
    data.failed.length,
  ]);
  return data;
}

const outcome = (data: Json) => [
  data.succeeded.map(({ index, created }: Json) => [index, created]),
  data.failed.map(({ index, code }: Json) => [index, code]),
];
const address = () => `${randomUUID()}@x.example`;

test('updates existing records and creates the others in order, each with its events and audit rows', async () => {
  const there = await createRecord(key, 'accounts', { name: 'There', email: address(), city: 'Bonn' });
  const same = await createRecord(key, 'accounts', { name: 'Same', email: address() });
  const data = await done(
    'accounts',
    ['email'],
    [
      { name: 'New', email: address() },
      { email: there.email.toUpperCase(), name: 'Changed' },
      { email: same.email, name: 'Same' },
    ],
  );
  expect(outcome(data)).toEqual([
    [
      [0, true],
      [1, false],
      [2, false],
    ],
    [],
  ]);
  for (const { record } of data.succeeded) expect(await readRecord(key, 'accounts', record.id)).toEqual(record);
  expect(data.succeeded[1].record).toMatchObject({ id: there.id, name: 'Changed', city: 'Bonn' });
  expect(data.succeeded[2].record).toEqual(same);
  const events = async (index: number) => (await leftBehind(data.succeeded[index].record.id)).events;
  expect((await events(0)).map(({ event }) => event)).toEqual(['record.created']);
  expect((await events(1)).map(({ event }) => event)).toEqual(['record.created', 'record.updated']);
  expect((await events(2)).map(({ event }) => event)).toEqual(['record.created']);
});

test('fails each invalid item alone, with its own code and field names', async () => {
  const [first, second] = [address(), address()];
  const twins = [await createRecord(key, 'accounts', { name: 'T', email: first })];
  twins.push(await createRecord(key, 'accounts', { name: 'T', email: first }));
  const one = await createRecord(key, 'accounts', { name: 'One', email: second });
  const fresh = address();
  const data = await done(
    'accounts',
    ['email'],
    [
      { name: 'X', email: first },
      { name: 'X' },
      { name: 'X', email: 'nonsense' },
      { email: second, name: null },
      { email: fresh, nmae: 'X' },
      { email: fresh, name: 'kept' },
      { email: fresh.toUpperCase(), name: 'again' },
      'text',
      { email: address(), name: 'X', id: one.id },
    ],
  );
  expect(outcome(data)).toEqual([
    [],
    [
      [0, 'CONFLICT'],
      ...[1, 2, 3, 4].map((index) => [index, 'VALIDATION_ERROR']),
      [5, 'DUPLICATE_IN_BATCH'],
      [6, 'DUPLICATE_IN_BATCH'],
      [7, 'VALIDATION_ERROR'],
      [8, 'VALIDATION_ERROR'],
    ],
  ]);
  expect(data.failed[0].details).toEqual({ reason: 'several_matches', ids: twins.map(({ id }) => id) });
  const problems = (index: number) => listProblems(data.failed[index]);
  expect([1, 2, 3, 4, 8].map(problems)).toEqual([
    ['email REQUIRED'],
    ['email INVALID_FORMAT'],
    ['name REQUIRED'],
    ['nmae UNKNOWN_FIELD', 'name REQUIRED'],
    ['id READ_ONLY'],
  ]);
  for (const record of [...twins, one]) expect(await readRecord(key, 'accounts', record.id)).toEqual(record);
});

test('updates records by id, creates a record for an item without an id, and fails unknown ids', async () => {
  const one = await createRecord(key, 'accounts', { name: 'One' });
  const other = await createRecord((await newTenant()).key, 'accounts', { name: 'Other' });
  const data = await done(
    'accounts',
    ['id'],
    [
      { id: one.id, name: 'Two' },
      { name: 'A' },
      { id: null, name: 'B' },
      { id: other.id, name: 'X' },
      { id: 'nonsense', name: 'X' },
      { id: one.id.toUpperCase(), name: 'Three' },
      { id: 5, name: 'X' },
    ],
  );
  expect(outcome(data)).toEqual([
    [
      [0, false],
      [1, true],
      [2, true],
    ],
    [
      [3, 'NOT_FOUND'],
      [4, 'NOT_FOUND'],
      [5, 'DUPLICATE_IN_BATCH'],
      [6, 'VALIDATION_ERROR'],
    ],
  ]);
  expect((await readRecord(key, 'accounts', one.id)).name).toBe('Two');
});

test('applies an atomic batch of upserts completely or not at all', async () => {
  const there = await createRecord(key, 'accounts', { name: 'There', email: address() });
  const fresh = address();
  const records = [
    { email: there.email, name: 'Changed' },
    { email: fresh, name: 'New' },
    { email: address(), size: 1 },
  ];
  const body = { match_on: ['email'], records, atomic: true };
  const refused = await post('accounts', body);
  expect(refused.status).toBe(422);
  expect(refused.body.error.details).toMatchObject({
    reason: 'atomic_batch_failed',
    failed_count: 1,
    failed: [{ index: 2 }],
  });
  expect(await readRecord(key, 'accounts', there.id)).toEqual(there);
  const filter = JSON.stringify({ field: 'email', op: 'eq', value: fresh });
  expect(await walk(key, 'accounts', { filter })).toEqual([]);
  expect((await post('accounts', { ...body, records: records.slice(0, 2) })).body.data.succeeded_count).toBe(2);
});

test('matches on fields of every kind, and fails only the items that violate preconditions or references', async () => {
  await newCustomField(tenant, 'deals', 'external_ref');
  const deal = await createRecord(key, 'deals', { name: 'D', external_ref: 'ref-1', amount_minor: 5 });
  const data = await done(
    'deals',
    ['external_ref', 'amount_minor'],
    [
      { name: 'Same', external_ref: 'ref-1', amount_minor: '5', stage: 'won' },
      { name: 'Other', external_ref: 'ref-1', amount_minor: 6 },
      { name: 'Bad', external_ref: 'ref-2', amount_minor: 6, customer_id: randomUUID() },
    ],
  );
  expect(outcome(data)).toEqual([
    [
      [0, false],
      [1, true],
    ],
    [[2, 'VALIDATION_ERROR']],
  ]);
  expect(data.succeeded[0].record).toMatchObject({ id: deal.id, name: 'Same', stage: 'Won' });
  expect((await leftBehind(deal.id)).events.map(({ event }) => event)).toContain('deal.stage_changed');
});

test('stores one record per match for 8 concurrent batches in any order', async () => {
  const own = await newTenant();
  const emails = Array.from({ length: 20 }, address);
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, caller) =>
      done(
        'accounts',
        ['email'],
        emails.map((email) => ({ email, name: `${caller}` })).toSorted(() => ((caller * 7) % 3) - 1),
        own.key,
      ),
    ),
  );
  const items = answers.flatMap((data) => data.succeeded);
  expect(items).toHaveLength(8 * 20);
  expect(items.filter(({ created }: Json) => created)).toHaveLength(20);
  const [stored] = await database()`
    select count(*), sum(version) as versions from accounts where company_id = ${own.companyId}`;
  expect([Number(stored?.count), Number(stored?.versions)]).toEqual([20, 160]);
});

test('matches only visible records of the same mode', async () => {
  const [near, far] = [await newUser(tenant), await newUser(tenant)];
  const [branch] = await database()`
    insert into branches (company_id, id, name, created_at)
    values (${tenant.companyId}, ${randomUUID()}, 'Far', now()) returning id`;
  await database()`update users set branch_id = ${branch?.id} where id = ${far.id}`;
  const reaching = await newKey(tenant, { reach: { kind: 'branch', id: tenant.branchId } });
  const [seen, hidden] = [address(), address()];
  const mine = await createRecord(key, 'accounts', { name: 'Near', email: seen, assigned_to: near.id });
  const theirs = await createRecord(key, 'accounts', { name: 'Far', email: hidden, assigned_to: far.id });
  const items = [
    { email: seen, name: 'changed' },
    { email: hidden, name: 'made' },
  ];
  expect(outcome(await done('accounts', ['email'], items, reaching))[0]).toEqual([
    [0, false],
    [1, true],
  ]);
  expect(await readRecord(key, 'accounts', theirs.id)).toEqual(theirs);
  expect((await readRecord(key, 'accounts', mine.id)).name).toBe('changed');
  expect(outcome(await done('accounts', ['email'], items, tenant.testKey))[0]).toEqual([
    [0, true],
    [1, true],
  ]);
});

test('moves the leads of upserted activities, which may repeat what they are logged on', async () => {
  const lead = await createRecord(key, 'leads', { first_name: 'A', email: address() });
  const logged = { activity_type: 'Call', entity_type: 'lead', entity_id: lead.id };
  const first = { ...logged, summary: randomUUID(), performed_at: '2026-05-05T10:00:00.000Z' };
  await done('activities', ['summary'], [first]);
  const again = { ...first, performed_at: '2026-06-06T10:00:00.000Z' };
  expect(outcome(await done('activities', ['summary'], [again]))).toEqual([[[0, false]], []]);
  expect((await readRecord(key, 'leads', lead.id)).last_contacted_at).toBe(again.performed_at);
});

test('rejects the whole batch for unknown match fields, malformed bodies, missing scopes or a missing key', async () => {
  const records = [{ name: 'A' }];
  const refused = async (body: object) => {
    const answer = await post('accounts', body);
    expect(answer.status).toBe(422);
    return listProblems(answer.body.error);
  };
  expect(await refused({ match_on: ['emial', 'name'], records })).toEqual(['match_on[0] INVALID_OPTION']);
  expect(await refused({ match_on: ['created_at'], records })).toEqual(['match_on[0] INVALID_OPTION']);
  expect(await refused({ match_on: ['id', 'name'], records })).toEqual(['match_on CONFLICTING_FIELDS']);
  expect(await refused({ match_on: ['name'], records: [] })).toEqual(['records TOO_SHORT']);
  expect(await refused({ match_on: ['name'], records: Array(101).fill({ name: 'A' }) })).toEqual(['records TOO_LONG']);
  expect(await refused({ records })).toEqual(['match_on REQUIRED']);
  const creating = await newKey(tenant, { scopes: ['accounts:view', 'accounts:create'] });
  const body = { match_on: ['name'], records };
  expect((await post('accounts', body, creating)).body.error.details).toEqual({ required_scopes: ['accounts:edit'] });
  await expectStatus(428, 'POST', buildPath('accounts'), { key, body });
  await expectStatus(404, 'POST', buildPath('object:nothing'), { key, body, idempotencyKey: true });
});

test('upserts 100 records in time, and replays the batch under its key without changes', async () => {
  const records = Array.from({ length: 100 }, (_, index) => ({ email: address(), name: `N${index}` }));
  const options = { key, body: { match_on: ['email'], records }, idempotencyKey: randomUUID() };
  const first = await expectStatus(200, 'POST', buildPath('accounts'), options);
  expect(first.body.data.succeeded_count).toBe(100);
  const replayed = await expectStatus(200, 'POST', buildPath('accounts'), options);
  expect([replayed.text, replayed.headers.get('idempotent-replay')]).toEqual([first.text, 'true']);
  const changed = records.map((record) => ({ ...record, city: 'Berlin' }));
  expect(outcome(await done('accounts', ['email'], changed))[0]).toEqual(records.map((_, index) => [index, false]));
});
