// Tasks on records: records of their own object, validated, and limited by visibility.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { newBranch } from '../support/arranged-ids.ts';
import { expectStatus } from '../support/client.ts';
import {
  addNote,
  addTask,
  childrenPath,
  expectClampedLimits,
  listChildren,
  listIds,
  newAccount,
  task,
} from '../support/record-children.ts';
import {
  createRecord,
  leftBehind,
  listProblems,
  newCustomField,
  readRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

describe('tasks', () => {
  test('creates tasks as records of the object tasks, with the type by name and an overdue flag', async () => {
    const on = await newAccount(key);
    const user = await newUser(tenant);
    const body = task({
      task_type: ' eMAIL ',
      description: 'D',
      priority: 2,
      assigned_to_email: user.email,
      scheduled_at: '2020-01-01T10:00:00+01:00',
    });
    const made = (await addTask(key, 201, on, body)).body.data.task;
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
    const [after] = (await listChildren(key, 'accounts', on, 'tasks')).tasks;
    expect(after).toMatchObject({ id: made.id, status: 'completed', overdue: false });
    const later = (await addTask(key, 201, on, task())).body.data.task;
    expect(later).toMatchObject({ priority: 3, task_type: null, overdue: false });
    expect(listIds((await listChildren(key, 'accounts', on, 'tasks')).tasks)).toEqual([later.id, made.id]);
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
  ])('returns %i for a task of %o', async (status, body, problem) => {
    const on = await newAccount(key);
    expect(await refusedFields(status, 'POST', childrenPath('accounts', on, 'tasks'), { key, body })).toEqual([
      problem,
    ]);
    expect((await listChildren(key, 'accounts', on, 'tasks')).tasks).toEqual([]);
  });

  test('applies required and custom fields of the workspace to tasks', async () => {
    const own = await newTenant();
    const on = await newAccount(own.key);
    await newCustomField(own, 'tasks', 'colour', { required: true });
    await expectStatus(200, 'PATCH', '/v1/objects/tasks/fields/description', {
      key: own.key,
      body: { required: true },
    });
    const refused = await addTask(own.key, 422, on, task({ colour: 'red' }));
    expect(listProblems(refused.body.error).toSorted()).toEqual(['colour UNKNOWN_FIELD', 'description REQUIRED']);
  });
});

test('clamps an out-of-range limit on tasks', () => expectClampedLimits(key, 'tasks'));

test('shows a branch key everything on its visible records, but only the tasks within its visibility', async () => {
  const branch = await newBranch(tenant);
  const colleague = await newUser(tenant, { branchId: branch });
  const on = (await createRecord(key, 'accounts', { name: 'A', assigned_to: colleague.id })).id;
  const near = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
  await addNote(key, 'accounts', on);
  await addTask(key, 201, on, task());
  const mine = (await addTask(key, 201, on, task({ assigned_to: colleague.id }))).body.data.task;
  expect((await listChildren(near, 'accounts', on, 'notes')).notes).toHaveLength(1);
  expect(listIds((await listChildren(near, 'accounts', on, 'tasks')).tasks)).toEqual([mine.id]);
});
