// What task types promise: one list in order, whose names tasks take.
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { addTask, newAccount, task } from '../support/record-children.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

describe('tasks', () => {
  test('name the types that there are, which GET /v1/task-types lists in order', async () => {
    const { body } = await expectStatus(200, 'GET', '/v1/task-types', { key });
    const names = body.data.task_types.map((type: Json) => type.name);
    expect(names).toEqual(['Call', 'Email', 'Meeting', 'Follow-up', 'Demo', 'Proposal', 'To-do', 'Other']);
    const refused = await addTask(key, 422, await newAccount(key), task({ task_type: 'Nonsense' }));
    expect(refused.body.error.details.fields[0].allowed).toEqual(names);
  });
});
