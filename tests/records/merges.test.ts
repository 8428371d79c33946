// Merges: two records become one, and both come back as they were.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { changesAfter, now } from '../support/feeds.ts';
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
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

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
const reasonOf = ({ status, body }: { status: number; body: Json }) => [status, body.error?.details?.reason];

const tables = [
  ...['leads', 'deals', 'customers', 'accounts', 'custom_records', 'custom_value_hashes', 'notes', 'tasks'],
  ...['activities', 'attachments', 'record_tags', 'links', 'deleted_records', 'deleted_items'],
];

/** Every row of the tenant's records, except for versions and times of change, which only grow. */
async function snapshot(): Promise<Record<string, string[]>> {
  const rows = await Promise.all(
    tables.map(async (table) => {
      const found = await database()<{ row: string }[]>`
        select (to_jsonb(r) - 'version' - 'updated_at')::text as row from ${database()(table)} r
        where company_id = ${tenant.companyId} order by 1`;
      return [table, found.map(({ row }) => row)] as const;
    }),
  );
  return Object.fromEntries(rows);
}

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
  expect(reasonOf(restored)).toEqual([409, 'merged']);
  expect(restored.body.error.details).toMatchObject({ merge_id: merged.merge.id, merged_into: target.id });

  const undone = await undo(merged.merge.id);
  expect(undone).toMatchObject({ conflicts: [], warnings: [], dry_run: false });
  expect(await snapshot()).toEqual(before);
  expect(reasonOf(await tryUndo(merged.merge.id))).toEqual([409, 'not_merged']);
  const after = (await changesAfter(key, cursor)).map((event: Json) => `${event.event} ${event.record_id}`);
  expect(after).toContain(`record.unmerged ${source.id}`);
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
  expect(reasonOf(inner)).toEqual([409, 'merge_superseded']);
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
  expect(reasonOf(await tryUndo(first.merge.id))).toEqual([409, 'merge_superseded']);
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
  expect(reasonOf(await tryMerge('accounts', source.id, { into_id: source.id }))).toEqual([409, 'self_merge']);
  const stale = await tryMerge('accounts', source.id, { into_id: target.id }, { headers: { 'If-Match': '"7"' } });
  expect(reasonOf(stale)).toEqual([409, 'version_mismatch']);
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
  const { merge: made } = await merge('accounts', source.id, target.id);
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
  expect(reasonOf(await tryUndo(made.id))).toEqual([409, 'undo_expired']);
  const { body } = await expectStatus(200, 'GET', `/v1/merges/${made.id}`, { key });
  expect(body.data.merge.fields).toEqual([]);
});

test('asks to restore a target that was deleted', async () => {
  const [source, target] = [await account(), await account()];
  const { merge: made } = await merge('accounts', source.id, target.id);
  await expectStatus(200, 'DELETE', recordsPath('accounts', target.id), { key });
  expect(reasonOf(await tryUndo(made.id))).toEqual([409, 'related_record_deleted']);
  await expectStatus(200, 'POST', `/v1/objects/accounts/deleted-records/${target.id}/restore`, { key });
  await undo(made.id);
  await expectStatus(200, 'GET', recordsPath('accounts', source.id), { key });
});
