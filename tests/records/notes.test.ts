// Notes: stored verbatim, listed in pages, limited by scopes, deleted with their record.
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import {
  addNote,
  childrenPath,
  expectClampedLimits,
  listChildren,
  listIds,
  newAccount,
  task,
  walkChildren,
} from '../support/record-children.ts';
import { createRecord, leftBehind, newCustomObject, recordsPath, refusedFields } from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

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

describe('changing and deleting notes', () => {
  const buildPath = (record: string, id: string): string => `${childrenPath('accounts', record, 'notes')}/${id}`;
  const change = (path: string, content: unknown, of = key) => call('PATCH', path, { key: of, body: { content } });

  test('replaces the text, keeps author and time, and leaves an audit row without the text', async () => {
    const on = await newAccount(key);
    const note = await addNote(key, 'accounts', on);
    const { body } = await expectStatus(200, 'PATCH', buildPath(on, note.id), { key, body: { content: 'Rückfrage' } });
    const changed = body.data.note;
    expect(changed).toEqual({ ...note, content: 'Rückfrage', updated_at: expect.any(String) });
    expect(Date.parse(changed.updated_at)).toBeGreaterThan(Date.parse(note.updated_at));
    expect((await listChildren(key, 'accounts', on, 'notes')).notes).toEqual([changed]);
    const { audit, events } = await leftBehind(on);
    expect(audit.at(-1)).toMatchObject({ action: 'note.update', object: 'accounts', metadata: { note_id: note.id } });
    expect(JSON.stringify(audit)).not.toContain('Rückfrage');
    expect(events).toHaveLength(1);
  });

  test('changes nothing if the text is the same', async () => {
    const on = await newAccount(key);
    const note = await addNote(key, 'accounts', on);
    const { body } = await expectStatus(200, 'PATCH', buildPath(on, note.id), { key, body: { content: note.content } });
    expect(body.data.note).toEqual(note);
    expect((await leftBehind(on)).audit.map(({ action }) => action)).toEqual(['account.create', 'note.create']);
  });

  test.each([
    [400, {}, 'content REQUIRED'],
    [400, { content: ' ' }, 'content INVALID_FORMAT'],
    [422, { content: 5 }, 'content INVALID_TYPE'],
    [422, { content: 'N', created_by: 'x' }, 'created_by READ_ONLY'],
  ])('answers %i to %o', async (status, body, problem) => {
    const on = await newAccount(key);
    const note = await addNote(key, 'accounts', on);
    expect(await refusedFields(status, 'PATCH', buildPath(on, note.id), { key, body })).toContain(problem);
  });

  test('deletes a note once, and leaves an audit row', async () => {
    const on = await newAccount(key);
    const [kept, note] = [await addNote(key, 'accounts', on), await addNote(key, 'accounts', on)];
    const { body } = await expectStatus(200, 'DELETE', buildPath(on, note.id), { key });
    expect(body.data).toEqual({ id: note.id, deleted: true });
    await expectStatus(404, 'DELETE', buildPath(on, note.id), { key });
    expect((await change(buildPath(on, note.id), 'N')).status).toBe(404);
    expect((await listChildren(key, 'accounts', on, 'notes')).notes).toEqual([kept]);
    expect((await leftBehind(on)).audit.at(-1)).toMatchObject({
      action: 'note.delete',
      metadata: { note_id: note.id },
    });
  });

  test('takes settings:configure for notes of others, but not for one’s own', async () => {
    const on = await newAccount(key);
    const scopes = ['accounts:view', 'accounts:edit'];
    const [writer, other] = [await newKey(tenant, { scopes }), await newKey(tenant, { scopes })];
    const configurer = await newKey(tenant, { scopes: [...scopes, 'settings:configure'] });
    const note = await addNote(writer, 'accounts', on);
    const refused = await change(buildPath(on, note.id), 'X', other);
    expect([refused.status, refused.body.error.code, refused.body.error.details.required_scopes]).toEqual([
      403,
      'FORBIDDEN_SCOPE',
      ['settings:configure'],
    ]);
    await expectStatus(403, 'DELETE', buildPath(on, note.id), { key: other });
    expect((await change(buildPath(on, note.id), 'X', writer)).status).toBe(200);
    expect((await change(buildPath(on, note.id), 'Y', configurer)).body.data.note).toMatchObject({
      content: 'Y',
      created_by: note.created_by,
    });
    const viewer = await newKey(tenant, { scopes: ['accounts:view', 'settings:configure'] });
    await expectStatus(403, 'DELETE', buildPath(on, note.id), { key: viewer });
    await expectStatus(200, 'DELETE', buildPath(on, note.id), { key: configurer });
  });

  test('a note that an app wrote for a user is also of another app of that user', async () => {
    const on = await newAccount(key);
    const person = (await newUser(tenant, { role: 'Branch_Manager' })).id;
    await database()`update accounts set assigned_to = ${person} where id = ${on}`;
    const scopes = ['accounts:view', 'accounts:edit'];
    const [first, second, stranger] = [
      await newBearer(tenant, scopes, { userId: person }),
      await newBearer(tenant, scopes, { userId: person }),
      await newBearer(tenant, scopes),
    ];
    const body = { content: 'N' };
    const made = await expectStatus(201, 'POST', childrenPath('accounts', on, 'notes'), { token: first, body });
    const path = buildPath(on, made.body.data.note.id);
    await expectStatus(403, 'PATCH', path, { token: stranger, body: { content: 'X' } });
    await expectStatus(200, 'PATCH', path, { token: second, body: { content: 'X' } });
  });

  test('of another record, mode or workspace are not found', async () => {
    const [on, elsewhere] = [await newAccount(key), await newAccount(key)];
    const note = await addNote(key, 'accounts', on);
    const stranger = await newTenant();
    for (const [path, of] of [
      [buildPath(elsewhere, note.id), key],
      [buildPath(on, uuidv7()), key],
      [buildPath(on, note.id), stranger.key],
      [buildPath(on, note.id), tenant.testKey],
    ] as const) {
      expect((await change(path, 'X', of)).status).toBe(404);
      await expectStatus(404, 'DELETE', path, { key: of });
    }
    expect((await change(buildPath(on.toUpperCase(), note.id.toUpperCase()), 'X')).status).toBe(200);
  });

  test('only one of many concurrent deletions succeeds', async () => {
    const on = await newAccount(key);
    const note = await addNote(key, 'accounts', on);
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => call('DELETE', buildPath(on, note.id), { key })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(9).fill(404)]);
    expect((await leftBehind(on)).audit.filter(({ action }) => action === 'note.delete')).toHaveLength(1);
  });
});

describe('notes across records', () => {
  const list = async (of: string, query: Record<string, string | number> = {}) =>
    (await expectStatus(200, 'GET', '/v1/notes', { key: of, query })).body.data;

  async function walk(of: string, query: Record<string, string | number>): Promise<string[]> {
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const data: Json = await list(of, { ...query, ...(cursor === null ? {} : { cursor }) });
      seen.push(...listIds(data.notes));
      cursor = data.next_cursor;
      expect(data.has_more).toBe(cursor !== null);
    } while (cursor !== null);
    return seen;
  }

  test('are listed newest first, of all objects, by author and time', async () => {
    const own = await newTenant();
    const lead = (await createRecord(own.key, 'leads', { first_name: 'L', email: `${uuidv7()}@x.example` })).id;
    const account = await newAccount(own.key);
    const author = await newKey(own);
    const made: Json[] = [];
    for (const [of, object, id] of [
      [own.key, 'leads', lead],
      [author, 'accounts', account],
      [own.key, 'accounts', account],
    ] as const)
      made.unshift(await addNote(of, object, id));
    expect((await list(own.key)).notes).toEqual(made);
    expect(await walk(own.key, { limit: 1 })).toEqual(listIds(made));
    expect(listIds((await list(own.key, { created_by: made[1].created_by.id })).notes)).toEqual([made[1].id]);
    const [from, to] = [made[1].created_at, made[0].created_at];
    expect(listIds((await list(own.key, { from, to: from })).notes)).toEqual(
      listIds(made.filter((each) => each.created_at === from)),
    );
    expect(listIds((await list(own.key, { from: to })).notes)).toContain(made[0].id);
    expect((await list(own.testKey)).notes).toEqual([]);
    expect(
      await refusedFields(400, 'GET', '/v1/notes', { key, query: { from: '2026-02-01', to: '2026-01-01' } }),
    ).toEqual(['to OUT_OF_RANGE']);
  });

  test('are of objects that the key can view, and of records within its reach', async () => {
    const own = await newTenant();
    const [near, far] = [uuidv7(), uuidv7()];
    for (const branch of [near, far])
      await database()`insert into branches (company_id, id, name, created_at) values (${own.companyId}, ${branch}, ${branch}, now())`;
    const visit = await newCustomObject(own, 'visits');
    const notes: Record<string, string> = {};
    for (const branchId of [near, far]) {
      const person = await newUser(own, { branchId });
      const account = (await createRecord(own.key, 'accounts', { name: 'A', assigned_to: person.id })).id;
      notes[branchId] = (await addNote(own.key, 'accounts', account)).id;
    }
    notes.visit = (await addNote(own.key, visit, (await createRecord(own.key, visit, { name: 'V' })).id)).id;
    const ofBranch = await newKey(own, { reach: { kind: 'branch', id: near } });
    expect(listIds((await list(ofBranch)).notes)).toEqual([notes[near]]);
    expect(await walk(ofBranch, { limit: 1 })).toEqual([notes[near]]);
    const scoped = async (...scopes: string[]) => listIds((await list(await newKey(own, { scopes }))).notes);
    expect(await scoped(`${visit}:view`)).toEqual([notes.visit]);
    expect(await scoped('accounts:view')).toEqual([notes[far], notes[near]]);
    expect(await scoped('tasks:view')).toEqual([]);
  });

  test('continue after many notes that the key cannot see', async () => {
    const own = await newTenant();
    const branch = uuidv7();
    await database()`insert into branches (company_id, id, name, created_at) values (${own.companyId}, ${branch}, 'B', now())`;
    const person = await newUser(own, { branchId: branch });
    const near = (await createRecord(own.key, 'accounts', { name: 'A', assigned_to: person.id })).id;
    const far = await newAccount(own.key);
    const note = await addNote(own.key, 'accounts', near);
    await database()`
      insert into notes (company_id, test_mode, id, object, record_id, content, created_by_kind, created_by_id, created_at, updated_at)
      select ${own.companyId}, false, gen_random_uuid(), 'accounts', ${far}, 'N', 'system', 'test', now() + n * interval '1 second', now()
      from generate_series(1, 4500) n`;
    const ofBranch = await newKey(own, { reach: { kind: 'branch', id: branch } });
    expect(await list(ofBranch)).toMatchObject({ notes: [], has_more: true });
    expect(await walk(ofBranch, {})).toEqual([note.id]);
  });
});
