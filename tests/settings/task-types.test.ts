// Task types: one ordered list of names for tasks.
import { expect, test } from 'vitest';
import { as, type Json, workspace } from '../support/api.ts';
import { newAccount, task } from '../support/record-children.ts';

test('accepts the types that GET /v1/task-types lists in order for tasks', async () => {
  const { key } = await workspace();
  const { task_types } = await as(key).get('/v1/task-types');
  const names = task_types.map((type: Json) => type.name);
  expect(names).toEqual(['Call', 'Email', 'Meeting', 'Follow-up', 'Demo', 'Proposal', 'To-do', 'Other']);
  const path = `/v1/objects/accounts/records/${await newAccount(key)}/tasks`;
  const error = await as(key).rejects(422, 'POST', path, task({ task_type: 'Nonsense' }));
  expect(error.details.fields[0].allowed).toEqual(names);
});
