// What hangs on records: notes, tasks, activities and messages, each with its page size, its scopes and its reach.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { newBranch } from './support/arranged-ids.ts';
import { type Answer, call, expectStatus, type Json } from './support/client.ts';
import {
  createRecord,
  leftBehind,
  newCustomField,
  newCustomObject,
  readRecord,
  recordsPath,
  refusedFields,
} from './support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from './support/tenants.ts';

type Child = 'notes' | 'tasks' | 'activities' | 'messages';

let tenant: Tenant;
let key: string;

const under = (object: string, id: string, child: Child): string => `${recordsPath(object, id)}/${child}`;
const newAccount = async (apiKey = key): Promise<string> => (await createRecord(apiKey, 'accounts', { name: 'A' })).id;
const newLead = async (): Promise<string> =>
  (await createRecord(key, 'leads', { first_name: 'Sara', email: `${randomUUID()}@x.example` })).id;
const list = async (
  object: string,
  id: string,
  child: Child,
  query: Record<string, string | number> = {},
  apiKey = key,
): Promise<Json> => (await expectStatus(200, 'GET', under(object, id, child), { key: apiKey, query })).body.data;
const addNote = async (object: string, id: string, content = 'N'): Promise<Json> =>
  (await expectStatus(201, 'POST', under(object, id, 'notes'), { key, body: { content } })).body.data.note;
const task = (more: object = {}) => ({ title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z', ...more });
const addTask = (status: number, id: string, body: object, apiKey = key): Promise<Answer> =>
  expectStatus(status, 'POST', under('accounts', id, 'tasks'), { key: apiKey, body });
const log = async (entityType: 'lead' | 'deal', entityId: string, performedAt: string): Promise<string> =>
  (
    await expectStatus(201, 'POST', '/v1/activities', {
      key,
      body: {
        entity_type: entityType,
        entity_id: entityId,
        activity_type: 'Call',
        summary: 'S',
        performed_at: performedAt,
      },
    })
  ).body.data.activity.id;
const idsOf = (items: Json[]): string[] => items.map((item) => item.id);

async function newMessages(record: string, count: number, more: object = {}): Promise<string[]> {
  const rows = Array.from({ length: count }, (_, index) => ({
    company_id: tenant.companyId,
    test_mode: false,
    id: uuidv7(),
    object: 'accounts',
    record_id: record,
    channel: 'email',
    direction: 'inbound',
    body: 'Hello',
    // Two of each moment, so that the id decides.
    occurred_at: new Date(Date.UTC(2026, 0, 1, 0, Math.floor(index / 2))),
    ...more,
  }));
  await database()`insert into messages ${database()(rows)}`;
  return rows
    .toSorted((a, b) => b.occurred_at.getTime() - a.occurred_at.getTime() || (a.id < b.id ? 1 : -1))
    .map((row) => row.id);
}

/** All ids of a list, page by page, with something new coming in between. */
async function walk(
  object: string,
  id: string,
  child: Child,
  limit: number,
  between: () => Promise<unknown> = async () => undefined,
): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const data: Json = await list(object, id, child, { limit, ...(cursor === null ? {} : { cursor }) });
    seen.push(...idsOf(data[child]));
    expect(data.has_more).toBe(data.next_cursor !== null);
    cursor = data.next_cursor;
    await between();
  } while (cursor !== null);
  return seen;
}

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

describe('notes', () => {
  test('are kept as they are written, on records of any object, and leave an audit row without their text', async () => {
    const object = await newCustomObject(tenant, 'visits');
    const visit = (await createRecord(key, object, { name: 'V' })).id;
    const content = '<b>Späte</b> "Rückfrage"\n😀';
    const note = await addNote(object, visit, content);
    expect(note).toEqual({
      id: expect.any(String),
      object,
      record_id: visit,
      content,
      created_by: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      created_at: expect.any(String),
      updated_at: note.created_at,
    });
    expect(await list(object, visit, 'notes')).toEqual({ notes: [note], next_cursor: null, has_more: false });
    const { audit, events } = await leftBehind(visit);
    expect(audit.at(-1)).toMatchObject({ action: 'note.create', object, metadata: { note_id: note.id } });
    expect(JSON.stringify(audit)).not.toContain('Rückfrage');
    expect(events).toHaveLength(1);
  });

  test.each([
    [400, {}, 'content REQUIRED'],
    [400, { content: '' }, 'content TOO_SHORT'],
    [400, { content: ' \n ' }, 'content INVALID_FORMAT'],
    [400, { content: 'x'.repeat(10_001) }, 'content TOO_LONG'],
    [422, { content: 5 }, 'content INVALID_TYPE'],
    [422, { content: 'N', id: 'x' }, 'id READ_ONLY'],
  ])('answer %i to %o', async (status, body, problem) => {
    const on = await newAccount();
    expect(await refusedFields(status, 'POST', under('accounts', on, 'notes'), { key, body })).toContain(problem);
    expect((await list('accounts', on, 'notes')).notes).toEqual([]);
  });

  test('of 10,000 characters are taken', async () => {
    expect((await addNote('accounts', await newAccount(), 'x'.repeat(10_000))).content).toHaveLength(10_000);
  });

  test('are listed newest first, 100 on a page, neither repeated nor skipped while others come', async () => {
    const on = await newAccount();
    const notes = Array.from({ length: 101 }, (_, index) => ({
      ...{
        company_id: tenant.companyId,
        test_mode: false,
        id: uuidv7(),
        object: 'accounts',
        record_id: on,
        content: 'N',
      },
      ...{
        created_by_kind: 'system',
        created_by_id: 'test',
        created_at: new Date(1e12 + Math.floor(index / 3)),
        updated_at: new Date(),
      },
    }));
    await database()`insert into notes ${database()(notes)}`;
    const first = await list('accounts', on, 'notes');
    expect([first.notes.length, first.has_more]).toEqual([100, true]);
    const wanted = notes.map((note) => note.id).reverse();
    expect(await walk('accounts', on, 'notes', 7, () => addNote('accounts', on))).toEqual(wanted);
    const cursor = first.next_cursor;
    const other = await newAccount();
    await expectStatus(400, 'GET', under('accounts', other, 'notes'), { key, query: { cursor } });
  });

  test('need the edit scope of the object to add, and the view scope to read', async () => {
    const on = await newAccount();
    const viewer = await newKey(tenant, { scopes: ['accounts:view'] });
    const refused = await expectStatus(403, 'POST', under('accounts', on, 'notes'), {
      key: viewer,
      body: { content: 'N' },
    });
    expect(refused.body.error.details.required_scopes).toEqual(['accounts:edit']);
    expect((await list('accounts', on, 'notes', {}, viewer)).notes).toEqual([]);
  });
});

describe('tasks', () => {
  test('are records of the object tasks, with their type by name and whether they are overdue', async () => {
    const on = await newAccount();
    const user = await newUser(tenant);
    const body = task({
      task_type: ' eMAIL ',
      description: 'D',
      priority: 2,
      assigned_to_email: user.email,
      scheduled_at: '2020-01-01T10:00:00+01:00',
    });
    const made = (await addTask(201, on, body)).body.data.task;
    expect(made).toEqual({
      id: expect.any(String),
      title: 'Call back',
      description: 'D',
      task_type: 'Email',
      status: 'open',
      priority: 2,
      scheduled_at: '2020-01-01T09:00:00.000Z',
      object: 'accounts',
      record_id: on,
      assigned_to: user.id,
      completed_at: null,
      overdue: true,
      created_at: expect.any(String),
      updated_at: made.created_at,
    });
    const { audit, events } = await leftBehind(made.id);
    expect(audit).toMatchObject([{ action: 'task.create', object: 'tasks' }]);
    expect(events).toMatchObject([{ event: 'record.created', data: { object: 'tasks' } }]);
    expect(await readRecord(key, 'tasks', made.id)).toMatchObject({ record_id: on, task_type: 'Email' });
    await expectStatus(200, 'PATCH', recordsPath('tasks', made.id), { key, body: { status: 'completed' } });
    const [after] = (await list('accounts', on, 'tasks')).tasks;
    expect(after).toMatchObject({ id: made.id, status: 'completed', overdue: false });
    const later = (await addTask(201, on, task())).body.data.task;
    expect(later).toMatchObject({ priority: 3, task_type: null, overdue: false });
    expect(idsOf((await list('accounts', on, 'tasks')).tasks)).toEqual([later.id, made.id]);
  });

  test.each([
    [400, { title: 'T' }, 'scheduled_at REQUIRED'],
    [400, task({ title: '' }), 'title REQUIRED'],
    [400, task({ scheduled_at: 'tomorrow' }), 'scheduled_at INVALID_FORMAT'],
    [400, task({ priority: 5 }), 'priority OUT_OF_RANGE'],
    [422, task({ task_type: 'Nonsense' }), 'task_type INVALID_OPTION'],
    [422, task({ assigned_to: randomUUID() }), 'assigned_to NOT_FOUND'],
    [422, task({ record_id: randomUUID() }), 'record_id READ_ONLY'],
    [422, task({ zzz: 1 }), 'zzz UNKNOWN_FIELD'],
  ])('answer %i to %o', async (status, body, problem) => {
    const on = await newAccount();
    expect(await refusedFields(status, 'POST', under('accounts', on, 'tasks'), { key, body })).toEqual([problem]);
    expect((await list('accounts', on, 'tasks')).tasks).toEqual([]);
  });

  test('name the types that there are, which GET /v1/task-types lists in order', async () => {
    const { body } = await expectStatus(200, 'GET', '/v1/task-types', { key });
    const names = body.data.task_types.map((type: Json) => type.name);
    expect(names).toEqual(['Call', 'Email', 'Meeting', 'Follow-up', 'Demo', 'Proposal', 'To-do', 'Other']);
    const refused = await addTask(422, await newAccount(), task({ task_type: 'Nonsense' }));
    expect(refused.body.error.details.fields[0].allowed).toEqual(names);
  });

  test('follow what the workspace made of the object', async () => {
    const own = await newTenant();
    const on = await newAccount(own.key);
    await newCustomField(own, 'tasks', 'colour', { required: true });
    await expectStatus(200, 'PATCH', '/v1/objects/tasks/fields/description', {
      key: own.key,
      body: { required: true },
    });
    const refused = await addTask(422, on, task({ colour: 'red' }), own.key);
    expect(refused.body.error.details.fields.map((each: Json) => `${each.field} ${each.code}`).toSorted()).toEqual([
      'colour UNKNOWN_FIELD',
      'description REQUIRED',
    ]);
  });
});

describe('activities', () => {
  test('of a lead or a deal are its own, and of a customer those of its leads and deals', async () => {
    const customer = (await createRecord(key, 'customers', { first_name: 'C' })).id;
    const deal = (await createRecord(key, 'deals', { name: 'D', customer_id: customer })).id;
    const [origin, converted, stranger] = [await newLead(), await newLead(), await newLead()];
    await database()`update customers set lead_id = ${origin} where id = ${customer}`;
    await database()`update leads set converted_customer_id = ${customer} where id = ${converted}`;
    const made = [
      await log('lead', origin, '2026-01-04T00:00:00Z'),
      await log('deal', deal, '2026-01-03T00:00:00Z'),
      await log('lead', converted, '2026-01-02T00:00:00Z'),
    ];
    await log('lead', stranger, '2026-01-05T00:00:00Z');
    expect(await walk('customers', customer, 'activities', 2)).toEqual(made);
    expect(await walk('deals', deal, 'activities', 2)).toEqual([made[1]]);
    expect(await walk('leads', converted, 'activities', 2)).toEqual([made[2]]);
    const { activities_count } = (
      await expectStatus(200, 'GET', `/v1/customers/${customer}`, { key, query: { include: 'activities_count' } })
    ).body.data.customer;
    expect(activities_count).toBe(3);
    expect((await list('accounts', await newAccount(), 'activities')).activities).toEqual([]);
  });
});

describe('messages', () => {
  test('are shown newest first, 50 on a page, with the first 500 characters of their body', async () => {
    const on = await newAccount();
    const made = await newMessages(on, 51, { body: `${'😀'.repeat(500)}x` });
    const data = await list('accounts', on, 'messages');
    expect([data.messages.length, data.has_more]).toEqual([50, true]);
    expect(data.messages[0]).toEqual({
      id: made[0],
      channel: 'email',
      direction: 'inbound',
      source: null,
      from: null,
      to: null,
      subject: null,
      preview: '😀'.repeat(500),
      status: null,
      record_id: on,
      campaign_id: null,
      draft_id: null,
      occurred_at: '2026-01-01T00:25:00.000Z',
    });
    expect(await walk('accounts', on, 'messages', 7)).toEqual(made);
  });

  test('need the add-on inbox', async () => {
    const poor = await newTenant();
    await database()`update subscriptions set package_code = 'starter' where company_id = ${poor.companyId}`;
    const on = await newAccount(poor.key);
    const answer = await expectStatus(403, 'GET', under('accounts', on, 'messages'), { key: poor.key });
    expect(answer.body.error).toMatchObject({
      code: 'MODULE_DISABLED',
      details: { module: 'inbox', reason: 'not_in_plan' },
    });
  });
});

test.each<Child>(['notes', 'tasks', 'activities', 'messages'])(
  '%s move an unreasonable limit to the nearest bound',
  async (child) => {
    const on = await newAccount();
    for (const limit of [-1, 0, 101, 1000])
      await expectStatus(200, 'GET', under('accounts', on, child), { key, query: { limit } });
  },
);

test('a record that is deleted while others write notes and tasks on it leaves none of them', async () => {
  const on = await newAccount();
  const calls = Array.from({ length: 20 }, (_, index) =>
    index === 10
      ? call('DELETE', recordsPath('accounts', on), { key })
      : index % 2
        ? call('POST', under('accounts', on, 'notes'), { key, body: { content: 'N' } })
        : call('POST', under('accounts', on, 'tasks'), { key, body: task() }),
  );
  const statuses = (await Promise.all(calls)).map((answer) => answer.status);
  expect(statuses[10]).toBe(200);
  expect(statuses.every((status) => [200, 201, 404].includes(status))).toBe(true);
  const [left] = await database()<{ notes: number; tasks: number }[]>`
    select (select count(*)::int from notes where record_id = ${on}) as notes, (select count(*)::int from tasks where record_id = ${on}) as tasks`;
  expect(left).toEqual({ notes: 0, tasks: 0 });
});

test('a key of a branch sees what hangs on a record that it sees, and of tasks only those within its reach', async () => {
  const branch = await newBranch(tenant);
  const colleague = await newUser(tenant, { branchId: branch });
  const on = (await createRecord(key, 'accounts', { name: 'A', assigned_to: colleague.id })).id;
  const near = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
  await addNote('accounts', on);
  await addTask(201, on, task());
  const mine = (await addTask(201, on, task({ assigned_to: colleague.id }))).body.data.task;
  expect((await list('accounts', on, 'notes', {}, near)).notes).toHaveLength(1);
  expect(idsOf((await list('accounts', on, 'tasks', {}, near)).tasks)).toEqual([mine.id]);
});
