// Notes: stored verbatim, listed in pages, limited by scopes, deleted with their record.
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus } from '../support/client.ts';
import {
  addNote,
  childrenPath,
  expectClampedLimits,
  listChildren,
  newAccount,
  task,
  walkChildren,
} from '../support/record-children.ts';
import { createRecord, leftBehind, newCustomObject, recordsPath, refusedFields } from '../support/records.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

describe('notes', () => {
  test('stores notes verbatim on records of any object, and audits them without their text', async () => {
    const object = await newCustomObject(tenant, 'visits');
    const visit = (await createRecord(key, object, { name: 'V' })).id;
    const content = '<b>Späte</b> "Rückfrage"\n😀';
    const note = await addNote(key, object, visit, content);
    expect(note).toEqual({
      id: expect.any(String),
      object,
      record_id: visit,
      content,
      created_by: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      created_at: expect.any(String),
      updated_at: note.created_at,
    });
    expect(await listChildren(key, object, visit, 'notes')).toEqual({
      notes: [note],
      next_cursor: null,
      has_more: false,
    });
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
  ])('returns %i for a note of %o', async (status, body, problem) => {
    const on = await newAccount(key);
    expect(await refusedFields(status, 'POST', childrenPath('accounts', on, 'notes'), { key, body })).toContain(
      problem,
    );
    expect((await listChildren(key, 'accounts', on, 'notes')).notes).toEqual([]);
  });

  test('accepts notes of 10,000 characters', async () => {
    expect((await addNote(key, 'accounts', await newAccount(key), 'x'.repeat(10_000))).content).toHaveLength(10_000);
  });

  test('lists 100 notes per page, newest first, without repeats or gaps while notes are added', async () => {
    const on = await newAccount(key);
    const notes = Array.from({ length: 101 }, (_, index) => ({
      company_id: tenant.companyId,
      test_mode: false,
      id: uuidv7(),
      object: 'accounts',
      record_id: on,
      content: 'N',
      created_by_kind: 'system',
      created_by_id: 'test',
      created_at: new Date(1e12 + Math.floor(index / 3)),
      updated_at: new Date(),
    }));
    await database()`insert into notes ${database()(notes)}`;
    const first = await listChildren(key, 'accounts', on, 'notes');
    expect([first.notes.length, first.has_more]).toEqual([100, true]);
    const wanted = notes.map((note) => note.id).reverse();
    expect(await walkChildren(key, 'accounts', on, 'notes', 7, () => addNote(key, 'accounts', on))).toEqual(wanted);
    const cursor = first.next_cursor;
    const other = await newAccount(key);
    await expectStatus(400, 'GET', childrenPath('accounts', other, 'notes'), { key, query: { cursor } });
  });

  test('requires the edit scope of the object to add notes, and the view scope to read them', async () => {
    const on = await newAccount(key);
    const viewer = await newKey(tenant, { scopes: ['accounts:view'] });
    const refused = await expectStatus(403, 'POST', childrenPath('accounts', on, 'notes'), {
      key: viewer,
      body: { content: 'N' },
    });
    expect(refused.body.error.details.required_scopes).toEqual(['accounts:edit']);
    expect((await listChildren(viewer, 'accounts', on, 'notes')).notes).toEqual([]);
  });
});

test('clamps an out-of-range limit on notes', () => expectClampedLimits(key, 'notes'));

test('leaves no notes or tasks on a record that is deleted while others write them', async () => {
  const on = await newAccount(key);
  const calls = Array.from({ length: 20 }, (_, index) =>
    index === 10
      ? call('DELETE', recordsPath('accounts', on), { key })
      : index % 2
        ? call('POST', childrenPath('accounts', on, 'notes'), { key, body: { content: 'N' } })
        : call('POST', childrenPath('accounts', on, 'tasks'), { key, body: task() }),
  );
  const statuses = (await Promise.all(calls)).map((answer) => answer.status);
  expect(statuses[10]).toBe(200);
  expect(statuses.every((status) => [200, 201, 404].includes(status))).toBe(true);
  const [left] = await database()<{ notes: number; tasks: number }[]>`
    select (select count(*)::int from notes where record_id = ${on}) as notes, (select count(*)::int from tasks where record_id = ${on}) as tasks`;
  expect(left).toEqual({ notes: 0, tasks: 0 });
});
