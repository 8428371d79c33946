// Merges: two records become one, and both come back as they were.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { newBranch } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { fillLead, prepareFilling, snapshotRecords } from '../support/merges.ts';
import { addNote } from '../support/record-children.ts';
import {
  createRecord,
  createRecords,
  lead,
  newCustomObject,
  patchRecord,
  readRecord,
  recordsPath,
} from '../support/records.ts';
import { goodRequest } from '../support/requests.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const tryMerge = (object: string, id: string, body: Json, options: Json = {}) =>
  call('POST', `${recordsPath(object, id)}/merge`, { key, body, ...options });
const merge = async (object: string, id: string, into: string, more: Json = {}): Promise<Json> => {
  const { status, body } = await tryMerge(object, id, { into_id: into, ...more });
  expect([status, body.error]).toEqual([200, undefined]);
  return body.data;
};
const tryUndo = (id: string, body: Json = {}, of = key) => call('POST', `/v1/merges/${id}/undo`, { key: of, body });
const undo = async (id: string, body: Json = {}): Promise<Json> => {
  const { status, body: answer } = await tryUndo(id, body);
  expect([status, answer.error]).toEqual([200, undefined]);
  return answer.data;
};
const account = (fields: Json = {}) => createRecord(key, 'accounts', { name: `Account ${randomUUID()}`, ...fields });
const readReason = ({ status, body }: { status: number; body: Json }) => [status, body.error?.details?.reason];

const snapshot = () => snapshotRecords(tenant);

test('fills the empty fields of the target, moves what hangs on the source, and undoes both', async () => {
  const [source, target] = await createRecords(key, 'leads', [
    lead({ city: 'Berlin', job_title: 'Buyer' }),
    lead({ city: 'Hamburg' }),
  ]);
  await addNote(key, 'leads', source.id, 'A note');
  const activity = await createRecord(key, 'activities', {
    ...{ entity_type: 'lead', entity_id: source.id, activity_type: 'Call', summary: 'Called' },
    performed_at: '2026-11-01T09:00:00Z',
  });
  const task = await createRecord(key, 'tasks', {
    ...{ title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z', object: 'leads', record_id: source.id },
  });
  const deal = await createRecord(key, 'deals', { name: 'A deal', lead_id: source.id });
  const before = await snapshot();
  const cursor = await now(key);
  const merged = await merge('leads', source.id, target.id);
  expect(merged.merge).toMatchObject({ object: 'leads', source_id: source.id, target_id: target.id, undone_at: null });
  expect(merged.merge.moved).toMatchObject({ notes: 1, activities: 1, tasks: 1, references: 1 });
  expect(merged.merge.fields).toContainEqual({
    ...{ field: 'job_title', source: 'Buyer', target: null, chosen: 'source' },
  });
  expect(merged.record).toMatchObject({ city: 'Hamburg', job_title: 'Buyer' });
  expect(merged.record.last_contacted_at).toBe('2026-11-01T09:00:00.000Z');
  expect(await readRecord(key, 'deals', deal.id)).toMatchObject({ lead_id: target.id });
  expect(await readRecord(key, 'tasks', task.id)).toMatchObject({ record_id: target.id });
  expect(await readRecord(key, 'activities', activity.id)).toMatchObject({ entity_id: target.id });
  const events = await changesAfter(key, cursor);
  const named = events.map((event: Json) => `${event.event} ${event.object} ${event.record_id}`);
  for (const expected of [
    `record.merged leads ${source.id}`,
    `record.updated leads ${target.id}`,
    `record.updated activities ${activity.id}`,
    `record.updated tasks ${task.id}`,
    `record.updated deals ${deal.id}`,
  ])
    expect(named).toContain(expected);

  const trashed = await expectStatus(200, 'GET', `/v1/objects/leads/deleted-records/${source.id}`, { key });
  expect(trashed.body.data.deleted_record.merged_into).toBe(target.id);
  const restored = await call('POST', `/v1/objects/leads/deleted-records/${source.id}/restore`, { key });
  expect(readReason(restored)).toEqual([409, 'merged']);
  expect(restored.body.error.details).toMatchObject({ merge_id: merged.merge.id, merged_into: target.id });

  const undone = await undo(merged.merge.id);
  expect(undone).toMatchObject({ conflicts: [], warnings: [], dry_run: false });
  expect(await snapshot()).toEqual(before);
  expect(readReason(await tryUndo(merged.merge.id))).toEqual([409, 'not_merged']);
  const after = (await changesAfter(key, cursor)).map((event: Json) => `${event.event} ${event.record_id}`);
  expect(after).toContain(`record.unmerged ${source.id}`);
});

describe('what hangs on the source', () => {
  let of: Tenant;
  beforeAll(async () => {
    of = await newTenant();
    await prepareFilling(of);
  });

  const mergeIn = async (source: string, target: string): Promise<Json> => {
    const options = { key: of.key, body: { into_id: target } };
    return (await expectStatus(200, 'POST', `${recordsPath('leads', source)}/merge`, options)).body.data.merge;
  };

  test('moves to the target with every table, and comes back byte for byte', async () => {
    const [source, target] = await createRecords(of.key, 'leads', [lead(), lead()]);
    await fillLead(of, source.id);
    const before = await snapshotRecords(of);
    const countRows = (snapshot: Record<string, string[]>, id: string) =>
      Object.entries(snapshot)
        .map(([table, rows]) => [table, rows.filter((row) => row.includes(id)).length] as const)
        .filter(([table, count]) => count > 0 && !['leads', 'deleted_records'].includes(table));
    const { id, moved } = await mergeIn(source.id, target.id);
    expect(moved).toEqual({
      ...{ notes: 1, tasks: 1, activities: 1, messages: 1, attachments: 1, links: 1, tags: 0, bookings: 1, drafts: 1 },
      references: 1,
    });
    const merged = await snapshotRecords(of);
    // The clock of the target goes on. That of the source has ended, and waits for the undo.
    expect(countRows(merged, source.id)).toEqual([['sla_clocks', 1]]);
    expect(countRows(merged, target.id)).toEqual(countRows(before, source.id));
    expect((await tryUndo(id, {}, of.key)).status).toBe(200);
    expect(await snapshotRecords(of)).toEqual(before);
  });

  test('stays behind if it is an active run of a workforce in which the target has one', async () => {
    const [source, target] = await createRecords(of.key, 'leads', [lead(), lead()]);
    await fillLead(of, source.id);
    await database()`
      insert into workforce_runs
      select (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'record_id', ${target.id}::text))).*
      from workforce_runs r where company_id = ${of.companyId} and record_id = ${source.id} and ended_at is null`;
    const countRuns = async (id: string) =>
      (
        await database()`select count(*)::int as runs from workforce_runs where company_id = ${of.companyId} and record_id = ${id}`
      )[0]?.runs;
    const { id } = await mergeIn(source.id, target.id);
    expect([await countRuns(source.id), await countRuns(target.id)]).toEqual([1, 2]);
    expect((await tryUndo(id, {}, of.key)).status).toBe(200);
    expect([await countRuns(source.id), await countRuns(target.id)]).toEqual([2, 1]);
  });

  test('goes on as an SLA clock of the target if the target has none, and comes back', async () => {
    const readClocks = async (id: string): Promise<Json[]> => [
      ...(await database()`
        select id, kind, due_at, ended_at, satisfied_at from sla_clocks where company_id = ${of.companyId} and record_id = ${id}`),
    ];
    const [source, idle, contacted] = await createRecords(of.key, 'leads', [lead(), lead(), lead()]);
    const [clock] = await readClocks(source.id);
    await database()`delete from sla_clocks where company_id = ${of.companyId} and record_id = ${idle.id}`;
    const first = await mergeIn(source.id, idle.id);
    expect([await readClocks(source.id), await readClocks(idle.id)]).toEqual([[], [clock]]);
    expect((await tryUndo(first.id, {}, of.key)).status).toBe(200);
    expect([await readClocks(source.id), await readClocks(idle.id)]).toEqual([[clock], []]);

    // A record that was contacted awaits no first response.
    await createRecord(of.key, 'activities', {
      ...{ entity_type: 'lead', entity_id: contacted.id, activity_type: 'Call', summary: 'Called' },
      performed_at: new Date().toISOString(),
    });
    const second = await mergeIn(source.id, contacted.id);
    expect(await readClocks(source.id)).toEqual([{ ...clock, ended_at: expect.any(Date) }]);
    expect((await tryUndo(second.id, {}, of.key)).status).toBe(200);
    expect(await readClocks(source.id)).toEqual([clock]);
  });
});

describe('a key that does not see all records', () => {
  test('merges only what it sees, moves everything, and undoes what it still sees', async () => {
    const of = await newTenant();
    const reach = { kind: 'branch', id: of.branchId } as const;
    const near = await newKey(of, { reach });
    const create = async (credential: string) => (await createRecord(credential, 'accounts', { name: 'A' })).id;
    const [own, other, hidden] = [await create(near), await create(near), await create(of.key)];
    const attempt = (source: string, target: string) =>
      call('POST', `${recordsPath('accounts', source)}/merge`, { key: near, body: { into_id: target } });
    expect((await attempt(hidden, own)).status).toBe(404);
    expect((await attempt(own, hidden)).status).toBe(422);
    await addNote(of.key, 'accounts', own, 'Of another key');
    const { status, body } = await attempt(own, other);
    expect([status, body.data.merge.moved.notes]).toEqual([200, 1]);
    const { id } = body.data.merge;

    const far = await newUser(of, { branchId: await newBranch(of) });
    await patchRecord(of.key, 'accounts', other, { assigned_to: far.id });
    expect((await tryUndo(id, {}, near)).status).toBe(404);
    const gone = await call('GET', recordsPath('accounts', own), { key: near });
    expect([gone.status, gone.body.error.details]).toEqual([404, undefined]);
    await patchRecord(of.key, 'accounts', other, { assigned_to: null });
    expect((await tryUndo(id, {}, near)).status).toBe(200);
    await readRecord(near, 'accounts', own);
  });
});

describe('every kind of record', () => {
  test.each(['leads', 'deals', 'customers', 'accounts', 'custom'])('merges %s and undoes it', async (kind) => {
    const object = kind === 'custom' ? await newCustomObject(tenant, 'boats') : kind;
    const person = (name: string) => ({ first_name: name, email: `${randomUUID()}@bluelake.example` });
    const body = (name: string) => (kind === 'leads' || kind === 'customers' ? person(name) : { name });
    const [source, target] = [await createRecord(key, object, body('A')), await createRecord(key, object, body('B'))];
    await addNote(key, object, source.id, 'A note');
    const before = await snapshot();
    const merged = await merge(object, source.id, target.id);
    expect(merged.merge.moved.notes).toBe(1);
    await expectStatus(404, 'GET', recordsPath(object, source.id), { key });
    await undo(merged.merge.id);
    expect(await snapshot()).toEqual(before);
  });

  test.each(['tasks', 'activities'])('does not merge %s', async (object) => {
    const { status } = await tryMerge(object, randomUUID(), { into_id: randomUUID() });
    expect(status).toBe(404);
  });
});

test('takes the values that field_choices names, and rejects fields that it cannot take', async () => {
  const [source, target] = [await account({ city: 'Berlin' }), await account({ city: 'Hamburg', industry: 'Retail' })];
  const choose = (choices: Json) => tryMerge('accounts', source.id, { into_id: target.id, field_choices: choices });
  for (const [choices, code] of [
    [{ nonsense: 'source' }, 'UNKNOWN_FIELD'],
    [{ last_contacted_at: 'source' }, 'READ_ONLY'],
  ] as const) {
    const { status, body } = await choose(choices);
    expect([status, body.error.details.fields[0].code]).toEqual([422, code]);
  }
  const { record, merge: made } = await merge('accounts', source.id, target.id, {
    field_choices: { city: 'source', industry: 'source' },
  });
  expect(record).toMatchObject({ city: 'Berlin', industry: null });
  await undo(made.id);
  expect(await readRecord(key, 'accounts', target.id)).toMatchObject({ city: 'Hamburg', industry: 'Retail' });
});

test.each([
  ['+49301234567 x5', '+49301234568', {}, ['+49301234568', null]],
  ['+49301234567 x5', '+49301234567', {}, ['+49301234567', '5']],
  ['+49301234567 x5', null, {}, ['+49301234567', '5']],
  ['+49301234567', '+49301234568 x6', { phone: 'source' }, ['+49301234567', null]],
  ['+49301234567 x5', '+49301234568 x6', {}, ['+49301234568', '6']],
  ['+49301234567 x5', '+49301234568', { extension: 'source' }, ['+49301234568', '5']],
])('merges the numbers %s and %s with their extensions: %j', async (from, to, field_choices, expected) => {
  const [source, target] = [await account({ phone: from }), await account({ phone: to })];
  const { record } = await merge('accounts', source.id, target.id, { field_choices });
  expect([record.phone, record.extension]).toEqual(expected);
});

test('gives a unique value from the source to the target and back', async () => {
  await expectStatus(201, 'POST', '/v1/objects/accounts/fields', {
    key,
    body: { name: 'vat_no', label: 'VAT', type: 'text', unique: true },
  });
  const [source, target] = [await account({ vat_no: 'DE-1' }), await account()];
  const { record, merge: made } = await merge('accounts', source.id, target.id);
  expect(record.vat_no).toBe('DE-1');
  await undo(made.id);
  expect(await readRecord(key, 'accounts', source.id)).toMatchObject({ vat_no: 'DE-1' });
  expect(await readRecord(key, 'accounts', target.id)).toMatchObject({ vat_no: null });
});

test('keeps what was written to the target since, and lists it in conflicts', async () => {
  const [source, target] = [await account({ city: 'Berlin', industry: 'Retail' }), await account()];
  const { merge: made } = await merge('accounts', source.id, target.id);
  await patchRecord(key, 'accounts', target.id, { city: 'Munich', phone: '+4930123456' });
  const undone = await undo(made.id);
  expect(undone.conflicts).toEqual([{ field: 'city', before: null, current: 'Munich' }]);
  expect(undone.target).toMatchObject({ city: 'Munich', phone: '+4930123456', industry: null });
  expect(undone.source).toMatchObject({ city: 'Berlin', industry: 'Retail' });
});

test('follows chains of merges, and undoes them from the last one', async () => {
  const [a, b, c] = [await account(), await account(), await account()];
  const note = await addNote(key, 'accounts', a.id, 'Of the first');
  const before = await snapshot();
  const first = await merge('accounts', a.id, b.id);
  const second = await merge('accounts', b.id, c.id);
  for (const path of [recordsPath('accounts', a.id), `${recordsPath('accounts', a.id)}/notes`]) {
    const { body } = await expectStatus(404, 'GET', path, { key });
    expect(body.error.details).toEqual({ merged_into: c.id });
  }
  const again = await tryMerge('accounts', a.id, { into_id: c.id });
  expect([again.status, again.body.error.details]).toEqual([404, { merged_into: c.id }]);
  const inner = await tryUndo(first.merge.id);
  expect(readReason(inner)).toEqual([409, 'merge_superseded']);
  expect(inner.body.error.details.by).toBe(second.merge.id);
  await undo(second.merge.id);
  await undo(first.merge.id);
  expect(await snapshot()).toEqual(before);
  expect(note).toBeDefined();
});

test('supersedes a merge by a later one into the same record that changed the same field', async () => {
  const [a, b, target] = [await account({ city: 'Berlin' }), await account({ city: 'Bonn' }), await account()];
  const first = await merge('accounts', a.id, target.id);
  const second = await merge('accounts', b.id, target.id, { field_choices: { city: 'source' } });
  expect(readReason(await tryUndo(first.merge.id))).toEqual([409, 'merge_superseded']);
  await undo(second.merge.id);
  await undo(first.merge.id);
  expect(await readRecord(key, 'accounts', target.id)).toMatchObject({ city: null });
});

test('leaves links with the source that the target cannot have', async () => {
  await expectStatus(201, 'POST', '/v1/link-types', {
    key,
    body: {
      ...{ name: 'head_office', inverse_name: 'office_of', label: 'Head office', inverse_label: 'Office of' },
      ...{ from_object: 'accounts', to_object: 'customers', cardinality: 'one_to_one' },
    },
  });
  const [source, target] = [await account(), await account()];
  const people = await createRecords(key, 'customers', [{ first_name: 'One' }, { first_name: 'Two' }]);
  for (const [index, of] of [source, target].entries())
    await expectStatus(201, 'POST', `${recordsPath('accounts', of.id)}/links`, {
      key,
      body: { link_type: 'head_office', record_id: people[index].id },
    });
  const before = await snapshot();
  const merged = await merge('accounts', source.id, target.id);
  expect([merged.merge.moved.links, merged.links_left]).toEqual([0, 1]);
  await undo(merged.merge.id);
  expect(await snapshot()).toEqual(before);
});

test('rejects itself, a changed target, records of others and of the other mode', async () => {
  const [source, target] = [await account(), await account()];
  expect(readReason(await tryMerge('accounts', source.id, { into_id: source.id }))).toEqual([409, 'self_merge']);
  const stale = await tryMerge('accounts', source.id, { into_id: target.id }, { headers: { 'If-Match': '"7"' } });
  expect(readReason(stale)).toEqual([409, 'version_mismatch']);
  const other = await newTenant();
  const theirs = await createRecord(other.key, 'accounts', { name: 'Theirs' });
  expect((await tryMerge('accounts', source.id, { into_id: theirs.id })).status).toBe(422);
  expect((await tryMerge('accounts', theirs.id, { into_id: target.id })).status).toBe(404);
  const made = (await merge('accounts', source.id, target.id)).merge;
  for (const outsider of [other.key, tenant.testKey]) {
    expect((await call('GET', `/v1/merges/${made.id}`, { key: outsider })).status).toBe(404);
    expect((await tryUndo(made.id, {}, outsider)).status).toBe(404);
  }
  const reader = await newKey(tenant, { scopes: ['accounts:view'] });
  const listed = await expectStatus(200, 'GET', '/v1/merges', { key: reader, query: { target_id: target.id } });
  expect(listed.body.data.merges.map(({ id }: Json) => id)).toEqual([made.id]);
  expect((await tryUndo(made.id, {}, reader)).status).toBe(403);
});

test('a dry run answers the same and changes nothing', async () => {
  const [source, target] = [await account({ city: 'Berlin' }), await account()];
  await addNote(key, 'accounts', source.id, 'A note');
  const before = await snapshot();
  const cursor = await now(key);
  const rehearsed = await merge('accounts', source.id, target.id, { dry_run: true });
  expect(rehearsed).toMatchObject({
    dry_run: true,
    record: { city: 'Berlin' },
    merge: { id: null, moved: { notes: 1 } },
  });
  expect(await snapshot()).toEqual(before);
  // The flag and the header are one dry run: neither stores anything under the key.
  const idempotencyKey = `dry-${randomUUID()}`;
  const flag = await tryMerge('accounts', source.id, { into_id: target.id, dry_run: true }, { idempotencyKey });
  const headers = { 'dry-run': 'true' };
  const header = await tryMerge('accounts', source.id, { into_id: target.id }, { idempotencyKey, headers });
  expect(flag.body.meta).toMatchObject({ dry_run: true, would: header.body.meta.would });
  expect(flag.body.data.record.city).toBe(header.body.data.record.city);
  const refused = await tryMerge('accounts', source.id, { into_id: source.id, dry_run: true });
  expect([refused.status, refused.body.meta.dry_run]).toEqual([409, true]);
  const { merge: made } = (await tryMerge('accounts', source.id, { into_id: target.id }, { idempotencyKey })).body.data;
  expect(made.id).not.toBe(null);
  const merged = await snapshot();
  expect(await undo(made.id, { dry_run: true })).toMatchObject({ dry_run: true, target: { city: null } });
  expect(await snapshot()).toEqual(merged);
  const names = (await changesAfter(key, cursor)).map(({ event }: Json) => event);
  expect(names.filter((name: string) => name === 'record.merged' || name === 'record.unmerged')).toEqual([
    'record.merged',
  ]);
});

test.each(operations.filter(({ path }) => path.startsWith('/v1/objects/{object}/records/{id}')))(
  '$id names the record that a merged one is part of now',
  async (operation) => {
    const [source, target] = [await account(), await account()];
    await merge('accounts', source.id, target.id);
    const { path, options } = await goodRequest(operation, tenant);
    const merged = path.replace(/records\/[^/]+/, `records/${source.id}`).replace(/objects\/[^/]+/, 'objects/accounts');
    const { status, body } = await call(operation.method, merged, options);
    expect([status, body.error?.details]).toEqual([404, { merged_into: target.id }]);
  },
);

describe('at the same time', () => {
  test('twenty merges of one pair give one merge', async () => {
    const [source, target] = [await account(), await account()];
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => tryMerge('accounts', source.id, { into_id: target.id })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    for (const { status, body } of answers)
      if (status !== 200) expect([status, body.error.details]).toEqual([404, { merged_into: target.id }]);
  });

  test('merges in both directions give one merge, and writes to the target are not lost', async () => {
    const [a, b] = [await account(), await account()];
    const answers = await Promise.all([
      tryMerge('accounts', a.id, { into_id: b.id }),
      tryMerge('accounts', b.id, { into_id: a.id }),
    ]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);

    const [source, target] = [await account({ city: 'Berlin' }), await account()];
    await Promise.all([
      merge('accounts', source.id, target.id),
      patchRecord(key, 'accounts', target.id, { industry: 'Retail' }),
    ]);
    expect(await readRecord(key, 'accounts', target.id)).toMatchObject({ city: 'Berlin', industry: 'Retail' });
  });

  test('two undos give one', async () => {
    const [source, target] = [await account(), await account()];
    const { merge: made } = await merge('accounts', source.id, target.id);
    const answers = await Promise.all([tryUndo(made.id), tryUndo(made.id)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
  });
});

test('can no longer be undone once the source was removed from the trash', async () => {
  const [source, target] = [await account({ city: 'Berlin' }), await account()];
  const { merge: made } = await merge('accounts', source.id, target.id);
  await expectStatus(200, 'DELETE', `/v1/objects/accounts/deleted-records/${source.id}`, { key });
  expect(readReason(await tryUndo(made.id))).toEqual([409, 'undo_expired']);
  const { body } = await expectStatus(200, 'GET', `/v1/merges/${made.id}`, { key });
  expect(body.data.merge.fields).toEqual([]);
});

test('asks to restore a target that was deleted', async () => {
  const [source, target] = [await account(), await account()];
  const { merge: made } = await merge('accounts', source.id, target.id);
  await expectStatus(200, 'DELETE', recordsPath('accounts', target.id), { key });
  expect(readReason(await tryUndo(made.id))).toEqual([409, 'related_record_deleted']);
  await expectStatus(200, 'POST', `/v1/objects/accounts/deleted-records/${target.id}/restore`, { key });
  await undo(made.id);
  await expectStatus(200, 'GET', recordsPath('accounts', source.id), { key });
});
