// Tags in record writes: the set of manual tags, and the tags in responses.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { newTeam } from '../support/arranged-ids.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { changesAfter, now } from '../support/feeds.ts';
import {
  audited,
  createRecord,
  lead,
  leftBehind,
  listProblems,
  newCustomField,
  newCustomObject,
  patchRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

/** Three manual tags and one with a condition, in display order. */
const definitions = [
  { name: 'VIP', color: '#111111', priority: 10 },
  { name: 'Berlin', color: '#222222', priority: 20, condition: { field: 'city', operator: 'eq', value: 'Berlin' } },
  { name: 'Fair', color: '#333333', priority: 30 },
  { name: 'Newsletter', color: '#444444', priority: 40 },
];

/** Creates the four tags of an object. @returns their ids by name */
async function newTags(of: Tenant, object: 'leads' | 'customers'): Promise<Record<string, string>> {
  const ids: Record<string, string> = {};
  for (const { condition, ...tag } of definitions) {
    const rule =
      object === 'leads'
        ? { fields: condition ? [condition] : [] }
        : { fields: condition ? ['city'] : [], conditions: condition ? [condition] : [] };
    ids[tag.name] = (await createSetting(of, `/v1/settings/tags/${object}`, { ...tag, ...rule })).id;
  }
  return ids;
}

const tagIds: Record<string, Record<string, string>> = {};

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  for (const object of ['leads', 'customers'] as const) tagIds[object] = await newTags(tenant, object);
});

/** Returns the tags that `expand=tags` shows. */
async function readExpandedTags(id: string, object = 'leads', by = key): Promise<Json[]> {
  const query = { expand: 'tags' };
  const { body } = await expectStatus(200, 'GET', recordsPath(object, id), { key: by, query });
  return body.data.record.expanded.tags;
}

/** Returns the names of a record's tags, automatic ones with a star. */
const listTagNames = async (id: string, object = 'leads', by = key): Promise<string[]> =>
  (await readExpandedTags(id, object, by)).map(({ name, automatic }) => (automatic ? `${name}*` : name));

const newLead = (more: object = {}, by = key): Promise<Json> => createRecord(by, 'leads', lead(more));
const write = (status: number, verb: string, body: object, object = 'leads', by = key): Promise<Answer> =>
  expectStatus(status, 'POST', `${recordsPath(object)}${verb}`, { key: by, body, idempotencyKey: true });
const updatedTags = async (id: string): Promise<Json[]> =>
  (await leftBehind(id)).events
    .filter(({ event }) => event === 'record.updated')
    .map(({ data }) => data.changed_fields);

describe.each(['leads', 'customers'])('tags of %s', (object) => {
  const create = (more: object): Promise<Json> => createRecord(key, object, lead(more));

  test('sets tags on create, in any case and repeated, and returns them by priority with all properties', async () => {
    const { id } = await create({ tags: ['fair', 'vip', 'FAIR', ' VIP '], city: 'Berlin' });
    expect(await readExpandedTags(id, object)).toEqual([
      { id: tagIds[object]?.VIP, name: 'VIP', color: '#111111', automatic: false },
      { id: tagIds[object]?.Berlin, name: 'Berlin', color: '#222222', automatic: true },
      { id: tagIds[object]?.Fair, name: 'Fair', color: '#333333', automatic: false },
    ]);
    const rows = await database()`
      select distinct company_id, test_mode, object from record_tags where record_id = ${id}`;
    expect(rows).toEqual([{ company_id: tenant.companyId, test_mode: false, object }]);
  });

  test('replaces the manual tags on update, and keeps automatic ones', async () => {
    const { id } = await create({ tags: ['VIP'], city: 'Berlin' });
    await patchRecord(key, object, id, { tags: ['Newsletter', 'Fair'] });
    expect(await listTagNames(id, object)).toEqual(['Berlin*', 'Fair', 'Newsletter']);
    await patchRecord(key, object, id, { city: 'Rome', tags: ['Fair'] });
    expect(await listTagNames(id, object)).toEqual(['Fair']);
    await patchRecord(key, object, id, { city: 'Berlin' });
    expect(await listTagNames(id, object)).toEqual(['Berlin*', 'Fair']);
    await patchRecord(key, object, id, { tags: [] });
    expect(await listTagNames(id, object)).toEqual(['Berlin*']);
  });

  test('sets tags in single upserts that create or update', async () => {
    const record = lead({ tags: ['VIP'] });
    const created = await write(201, ':upsert', { match_on: ['email'], record }, object);
    const { id } = created.body.data.record;
    expect(await listTagNames(id, object)).toEqual(['VIP']);
    await write(200, ':upsert', { match_on: ['email'], record: { ...record, tags: ['Fair'] } }, object);
    expect(await listTagNames(id, object)).toEqual(['Fair']);
    await write(200, ':upsert', { match_on: ['email'], record: { ...record, tags: undefined, city: 'Rome' } }, object);
    expect(await listTagNames(id, object)).toEqual(['Fair']);
  });

  test('sets tags in batches of creates, updates and upserts, each item alone', async () => {
    const items = [
      lead({ tags: ['VIP'] }),
      lead({ tags: ['Nobody'] }),
      lead(),
      lead({ city: 'Berlin', tags: ['Fair'] }),
    ];
    const { data } = (await write(200, ':batch', items, object)).body;
    const ids: string[] = data.succeeded.map((item: Json) => item.record.id);
    expect(data.failed).toMatchObject([
      {
        index: 1,
        code: 'VALIDATION_ERROR',
        details: {
          fields: [{ field: 'tags[0]', code: 'INVALID_OPTION', allowed: definitions.map(({ name }) => name) }],
        },
      },
    ]);
    const names = () => Promise.all(ids.map((id) => listTagNames(id, object)));
    expect(await names()).toEqual([['VIP'], [], ['Berlin*', 'Fair']]);

    const changed = [
      { id: ids[0], tags: [] },
      { id: ids[1], tags: ['VIP', 'Fair'], city: 'Berlin' },
      { id: ids[2], tags: [5] },
    ];
    const updated = (await write(200, ':batch-update', { records: changed }, object)).body.data;
    expect(updated.failed.map((item: Json) => [item.index, ...listProblems(item)])).toEqual([
      [2, 'tags[0] INVALID_TYPE'],
    ]);
    expect(await names()).toEqual([[], ['VIP', 'Berlin*', 'Fair'], ['Berlin*', 'Fair']]);

    const records = [
      { ...items[0], tags: ['Newsletter'] },
      { ...items[3], city: 'Rome' },
      lead({ tags: ['Fair', 'fair'] }),
    ];
    const upserted = (await write(200, ':batch-upsert', { match_on: ['email'], records }, object)).body.data;
    expect(upserted.succeeded.map((item: Json) => item.created)).toEqual([false, false, true]);
    ids.push(upserted.succeeded[2].record.id);
    expect(await names()).toEqual([['Newsletter'], ['VIP', 'Berlin*', 'Fair'], ['Fair'], ['Fair']]);
  });

  test('sets all tags of an atomic batch or none', async () => {
    const { id } = await create({ tags: ['VIP'] });
    const records = [
      { id, tags: ['Fair'] },
      { id: randomUUID(), tags: [] },
    ];
    await write(422, ':batch-update', { records, atomic: true }, object);
    expect(await listTagNames(id, object)).toEqual(['VIP']);
  });
});

describe('a tag with conditions', () => {
  test('neither adds nor keeps an automatic tag by its name, and accepts the name', async () => {
    const { id } = await newLead({ tags: ['Berlin', 'VIP'] });
    expect(await listTagNames(id)).toEqual(['VIP']);
    await patchRecord(key, 'leads', id, { city: 'Berlin', tags: ['berlin', 'vip'] });
    expect(await listTagNames(id)).toEqual(['VIP', 'Berlin*']);
    await patchRecord(key, 'leads', id, { city: 'Rome', tags: ['berlin', 'vip'] });
    expect(await listTagNames(id)).toEqual(['VIP']);
  });

  test('keeps an automatic tag manual while a write names it, and returns it to its conditions otherwise', async () => {
    const { id } = await newLead({ city: 'Rome' });
    await expectStatus(201, 'POST', `${recordsPath('leads', id)}/tags`, { key, body: { name: 'Berlin' } });
    await patchRecord(key, 'leads', id, { tags: ['Berlin', 'Fair'] });
    expect(await listTagNames(id)).toEqual(['Berlin', 'Fair']);
    await patchRecord(key, 'leads', id, { tags: ['Fair'], city: 'Berlin' });
    expect(await listTagNames(id)).toEqual(['Berlin*', 'Fair']);
  });

  test('changes nothing if all names that a record shows are sent back', async () => {
    const { id } = await newLead({ city: 'Berlin', tags: ['VIP', 'Fair'] });
    const before = await expectStatus(200, 'GET', recordsPath('leads', id), { key });
    const shown = await readExpandedTags(id);
    const answer = await expectStatus(200, 'PATCH', recordsPath('leads', id), {
      key,
      body: { tags: shown.map(({ name }) => name) },
    });
    expect(answer.headers.get('etag')).toBe(before.headers.get('etag'));
    expect(answer.body.data.record.updated_at).toBe(before.body.data.record.updated_at);
    expect(await audited(answer)).toEqual([]);
    expect(await updatedTags(id)).toEqual([]);
    expect(await readExpandedTags(id)).toEqual(shown);
  });
});

describe('a change of tags', () => {
  test('counts a change of tags as a change of the record: version, event, history and audit row', async () => {
    const { id } = await newLead({ tags: ['VIP', 'Fair'] });
    const first = await expectStatus(200, 'GET', recordsPath('leads', id), { key });
    const answer = await expectStatus(200, 'PATCH', recordsPath('leads', id), {
      key,
      body: { tags: ['Newsletter', 'VIP'] },
    });
    expect(first.headers.get('etag')).toBe('"1"');
    expect(answer.headers.get('etag')).toBe('"2"');
    expect(answer.body.data.record.updated_at > first.body.data.record.updated_at).toBe(true);
    const tags = { from: ['VIP', 'Fair'], to: ['VIP', 'Newsletter'] };
    expect(await audited(answer)).toMatchObject([{ action: 'lead.update', record_id: id, changes: { tags } }]);
    expect(await updatedTags(id)).toEqual([['tags']]);
    const { history } = (await expectStatus(200, 'GET', `${recordsPath('leads', id)}/history`, { key })).body.data;
    expect(history[0]).toMatchObject({ action: 'lead.update', changes: { tags } });
  });

  test('lists changed tags next to changed fields, also automatic ones, and only if tags changed', async () => {
    const { id } = await newLead({ city: 'Rome' });
    await patchRecord(key, 'leads', id, { first_name: 'Ada' });
    await patchRecord(key, 'leads', id, { city: 'Berlin' });
    await patchRecord(key, 'leads', id, { first_name: 'Eva', tags: ['VIP'] });
    await patchRecord(key, 'leads', id, { first_name: 'Ida', tags: ['VIP'] });
    expect(await updatedTags(id)).toEqual([['first_name'], ['city', 'tags'], ['first_name', 'tags'], ['first_name']]);
  });

  test('counts the operations on single tags as changes of the record', async () => {
    const { id } = await newLead();
    const path = `${recordsPath('leads', id)}/tags`;
    for (const _ of [1, 2]) await expectStatus(201, 'POST', path, { key, body: { name: 'VIP' } });
    await expectStatus(200, 'DELETE', `${path}/${tagIds.leads?.VIP}`, { key });
    expect(await updatedTags(id)).toEqual([['tags'], ['tags']]);
    const read = await expectStatus(200, 'GET', recordsPath('leads', id), { key });
    expect(read.headers.get('etag')).toBe('"3"');
  });

  test('lists tag changes that follow from an activity in the event of the lead', async () => {
    const own = await newTenant();
    await createSetting(own, '/v1/settings/tags/leads', {
      name: 'Untouched',
      fields: [{ field: 'last_contacted_at', operator: 'is_null' }],
    });
    const { id } = await newLead({}, own.key);
    const body = { activity_type: 'Call', entity_type: 'lead', entity_id: id, summary: 'Called' };
    await expectStatus(201, 'POST', '/v1/activities', { key: own.key, body });
    expect(await updatedTags(id)).toEqual([['last_contacted_at', 'tags']]);
    await expectStatus(201, 'POST', '/v1/activities', { key: own.key, body });
    expect((await updatedTags(id))[1]).toEqual(['last_contacted_at']);
  });

  test('obeys If-Match for a change of tags, and replays it by its Idempotency-Key', async () => {
    const { id } = await newLead({ tags: ['VIP'] });
    const path = recordsPath('leads', id);
    const stale = await expectStatus(409, 'PATCH', path, { key, body: { tags: [] }, headers: { 'If-Match': '"9"' } });
    expect(stale.body.error.details.reason).toBe('version_mismatch');
    expect(await listTagNames(id)).toEqual(['VIP']);
    const idempotencyKey = randomUUID();
    const send = () => expectStatus(200, 'PATCH', path, { key, body: { tags: ['Fair'] }, idempotencyKey });
    await send();
    await patchRecord(key, 'leads', id, { tags: ['VIP'] });
    expect((await send()).headers.get('idempotent-replay')).toBe('true');
    expect(await listTagNames(id)).toEqual(['VIP']);
  });

  test('writes nothing for a rejected change of tags', async () => {
    const { id } = await newLead({ tags: ['VIP'] });
    const options = { key, body: { tags: ['Fair', 'Nope'], priority: 2 } };
    expect(await refusedFields(422, 'PATCH', recordsPath('leads', id), options)).toEqual(['tags[1] INVALID_OPTION']);
    expect(await listTagNames(id)).toEqual(['VIP']);
    expect(await updatedTags(id)).toEqual([]);
  });

  test('sets tags together with a status change of a lead', async () => {
    const { id } = await newLead({ tags: ['VIP'] });
    const body = { lead_status: 'Contacted', fields: { tags: ['Fair'] } };
    await expectStatus(200, 'POST', `/v1/leads/${id}/status`, { key, body });
    expect(await listTagNames(id)).toEqual(['Fair']);
  });
});

describe('a write', () => {
  test.each<[string, unknown, string[]]>([
    ['no list', 'VIP', ['tags INVALID_TYPE']],
    ['null', null, ['tags INVALID_TYPE']],
    ['an object', { 0: 'VIP' }, ['tags INVALID_TYPE']],
    [
      'other things than names',
      ['VIP', 5, null, ['Fair']],
      ['tags[1] INVALID_TYPE', 'tags[2] INVALID_TYPE', 'tags[3] INVALID_TYPE'],
    ],
    ['unknown names, each', ['Nope', 'VIP', ''], ['tags[0] INVALID_OPTION', 'tags[2] INVALID_OPTION']],
    ['an id', ['00000000-0000-0000-0000-000000000000'], ['tags[0] INVALID_OPTION']],
    ['more than 100 names', Array.from({ length: 101 }, () => 'VIP'), ['tags TOO_LONG']],
  ])('rejects tags with %s', async (_, tags, problems) => {
    const options = { key, body: lead({ tags }), idempotencyKey: true } as const;
    expect(await refusedFields(422, 'POST', recordsPath('leads'), options)).toEqual(problems);
    const { id } = await newLead();
    expect(await refusedFields(422, 'PATCH', recordsPath('leads', id), { key, body: { tags } })).toEqual(problems);
    const upsert = { key, body: { match_on: ['email'], record: lead({ tags }) }, idempotencyKey: true } as const;
    const inside = problems.map((each) => `record.${each}`);
    expect(await refusedFields(422, 'POST', `${recordsPath('leads')}:upsert`, upsert)).toEqual(inside);
  });

  test('rejects a tag of another object, and suggests an allowed name', async () => {
    await createSetting(tenant, '/v1/settings/tags/customers', { name: 'Loyal', fields: [] });
    const { body } = await write(422, '', lead({ tags: ['Loyal', 'Newsleter'] }));
    const allowed = definitions.map(({ name }) => name);
    expect(body.error.details.fields).toMatchObject([
      { field: 'tags[0]', code: 'INVALID_OPTION', allowed },
      { field: 'tags[1]', code: 'INVALID_OPTION', allowed, did_you_mean: 'Newsletter' },
    ]);
    expect(await createRecord(key, 'leads', lead({ tags: Array.from({ length: 100 }, () => 'VIP') }))).toBeTruthy();
  });

  test('rejects tags of objects without tags in a body, in expand, in a filter and in match_on', async () => {
    const visits = await newCustomObject(tenant, `visits-${randomUUID().slice(0, 8)}`);
    for (const object of ['deals', 'accounts', visits]) {
      const body = { name: 'X', tags: ['VIP'] };
      const options = { key, body, idempotencyKey: true } as const;
      expect(await refusedFields(422, 'POST', recordsPath(object), options)).toEqual(['tags UNKNOWN_FIELD']);
      for (const query of [{ expand: 'tags' }, { filter: '{"field":"tags","op":"is_null"}' }])
        await expectStatus(400, 'GET', recordsPath(object), { key, query });
    }
    const upsert = {
      key,
      body: { match_on: ['tags'], record: lead({ tags: ['VIP'] }) },
      idempotencyKey: true,
    } as const;
    expect(await refusedFields(422, 'POST', `${recordsPath('leads')}:upsert`, upsert)).toEqual([
      'match_on[0] INVALID_OPTION',
    ]);
    for (const query of [{ sort: 'tags' }, { fields: 'tags' }])
      await expectStatus(400, 'GET', recordsPath('leads'), { key, query });
  });
});

describe('the tags of a workspace', () => {
  test('rejects setting tags from another workspace, in the other mode, and without scope or visibility', async () => {
    const { id } = await newLead({ tags: ['VIP'] });
    const other = await newTenant();
    await newTags(other, 'leads');
    const patch = (by: string): Promise<Answer> =>
      call('PATCH', recordsPath('leads', id), { key: by, body: { tags: [] } });
    expect((await patch(other.key)).status).toBe(404);
    expect((await patch(tenant.testKey)).status).toBe(404);
    expect((await patch(await newKey(tenant, { scopes: ['leads:view'] }))).body.error.code).toBe('FORBIDDEN_SCOPE');
    const reach = { kind: 'team' as const, id: await newTeam(tenant) };
    const local = await newKey(tenant, { scopes: ['leads:view', 'leads:edit', 'leads:create'], reach });
    expect((await patch(local)).status).toBe(404);
    expect(await listTagNames(id)).toEqual(['VIP']);
    const own = await newLead({ tags: ['Fair'] }, local);
    expect(await listTagNames(own.id, 'leads', local)).toEqual(['Fair']);
    const filter = JSON.stringify({ field: 'tags', op: 'is_null', value: false });
    expect((await walk(local, 'leads', { filter })).map((each) => each.id)).toEqual([own.id]);
    const batch = await write(
      200,
      ':batch-update',
      {
        records: [
          { id, tags: [] },
          { id: own.id, tags: [] },
        ],
      },
      'leads',
      local,
    );
    expect(batch.body.data.failed).toMatchObject([{ index: 0, code: 'NOT_FOUND' }]);
    expect([await listTagNames(id), await listTagNames(own.id)]).toEqual([['VIP'], []]);
  });

  test('shares tags between both modes, but not their records', async () => {
    const own = await newTenant();
    await newTags(own, 'leads');
    const live = await newLead({ tags: ['VIP'] }, own.key);
    const trial = await newLead({ tags: ['VIP', 'Fair'] }, own.testKey);
    const filter = JSON.stringify({ field: 'tags', op: 'in', value: ['VIP'] });
    expect((await walk(own.key, 'leads', { filter })).map(({ id }) => id)).toEqual([live.id]);
    expect((await walk(own.testKey, 'leads', { filter })).map(({ id }) => id)).toEqual([trial.id]);
    expect(await listTagNames(trial.id, 'leads', own.testKey)).toEqual(['VIP', 'Fair']);
  });
});

describe('concurrent writes', () => {
  test('leaves the result of some sequential order after concurrent sets and additions of tags', async () => {
    const { id } = await newLead({ city: 'Berlin' });
    const sets = [['VIP'], ['Fair'], ['VIP', 'Newsletter'], []];
    const add = () => call('POST', `${recordsPath('leads', id)}/tags`, { key, body: { name: 'Berlin' } });
    const writes = Array.from({ length: 24 }, (_, index) =>
      index % 6 === 5 ? add() : call('PATCH', recordsPath('leads', id), { key, body: { tags: sets[index % 4] } }),
    );
    for (const { status } of await Promise.all(writes)) expect([200, 201]).toContain(status);
    const names = await listTagNames(id);
    const manual = names.filter((name) => !name.startsWith('Berlin'));
    expect(sets.map(String)).toContain(String(manual));
    // In the audit log, each change begins with the result of the previous one.
    const rows = (await leftBehind(id)).audit.filter(({ changes }) => changes?.tags);
    for (const [index, { changes }] of rows.entries())
      if (index > 0) expect(changes.tags.from).toEqual(rows[index - 1].changes.tags.to);
    expect(rows.at(-1).changes.tags.to.toSorted()).toEqual(names.map((name) => name.replace('*', '')).toSorted());
  });

  test('finishes concurrent batches in opposite orders without deadlocks', async () => {
    const leads = await Promise.all(Array.from({ length: 8 }, () => newLead()));
    const ids = leads.map((each) => each.id);
    const batch = (order: string[], tags: string[]) =>
      write(200, ':batch-update', { records: order.map((id) => ({ id, tags })) });
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        index % 2 ? batch(ids, ['VIP']) : batch(ids.toReversed(), ['Fair', 'VIP']),
      ),
    );
    for (const { body } of answers) expect(body.data.failed).toEqual([]);
    const names = await Promise.all(ids.map((id) => listTagNames(id)));
    expect(new Set(names.map(String)).size).toBe(1);
  });
});

describe('reading', () => {
  test('returns the tags of every record in lists, batch reads and the feed, or an empty list', async () => {
    const own = await newTenant();
    await newTags(own, 'leads');
    await newTags(own, 'customers');
    const cursor = await now(own.key);
    const tagged = await newLead({ tags: ['VIP', 'Fair'], city: 'Berlin' }, own.key);
    const plain = await newLead({}, own.key);
    const customer = await createRecord(own.key, 'customers', lead({ tags: ['Newsletter'] }));
    const account = await createRecord(own.key, 'accounts', { name: 'Blue Lake' });
    const names = (record: Json): string[] => record.expanded.tags.map(({ name }: Json) => name);
    const listed = await walk(own.key, 'leads', { expand: 'tags,lead_status', limit: 1, sort: 'created_at' });
    expect(listed.map(names)).toEqual([['VIP', 'Berlin', 'Fair'], []]);
    expect(listed[0].expanded.lead_status).toMatchObject({ name: 'New' });
    const few = await walk(own.key, 'leads', { expand: 'tags', fields: 'email', sort: 'created_at' });
    expect(Object.keys(few[0]).toSorted()).toEqual(['created_at', 'email', 'expanded', 'id', 'updated_at']);
    const got = await expectStatus(200, 'POST', `${recordsPath('leads')}:batch-get`, {
      key: own.key,
      query: { expand: 'tags' },
      body: { ids: [plain.id, tagged.id] },
    });
    expect(got.body.data.succeeded.map(({ record }: Json) => names(record))).toEqual([[], ['VIP', 'Berlin', 'Fair']]);

    await patchRecord(own.key, 'leads', plain.id, { tags: ['Fair'] });
    const changes = await changesAfter(own.key, cursor);
    expect(changes.every(({ record }) => record.expanded === undefined)).toBe(true);
    const { body } = await expectStatus(200, 'GET', '/v1/changes', { key: own.key, query: { cursor, expand: 'tags' } });
    const fed = body.data.changes.map(({ record_id, record }: Json) => [
      record_id,
      record.expanded?.tags?.map(({ name }: Json) => name),
    ]);
    expect(fed).toEqual([
      [tagged.id, ['VIP', 'Berlin', 'Fair']],
      [plain.id, ['Fair']],
      [customer.id, ['Newsletter']],
      [account.id, undefined],
      [plain.id, ['Fair']],
    ]);
    expect(body.data.changes.at(-1).changed_fields).toEqual(['tags']);
    const withChanges = await changesAfter(own.key, cursor, { include: 'changes' });
    expect(withChanges.at(-1)?.data.changes).toEqual({ tags: { from: [], to: ['Fair'] } });
    await expectStatus(400, 'GET', '/v1/changes', { key: own.key, query: { cursor, expand: 'assigned_to' } });
    const unknown = await expectStatus(400, 'GET', recordsPath('leads'), { key: own.key, query: { expand: 'tag' } });
    expect(unknown.body.error.details.fields[0]).toMatchObject({ code: 'INVALID_OPTION', did_you_mean: 'tags' });
  });
});

describe('deletion of tags', () => {
  test('removes a deleted tag from all records, rejects its name, and keeps the others', async () => {
    const own = await newTenant();
    const ids = await newTags(own, 'leads');
    const { id } = await newLead({ tags: ['VIP', 'Fair'] }, own.key);
    await expectStatus(200, 'DELETE', `/v1/settings/tags/leads/${ids.VIP}`, { key: own.key });
    expect(await listTagNames(id, 'leads', own.key)).toEqual(['Fair']);
    const options = { key: own.key, body: { tags: ['VIP'] } };
    expect(await refusedFields(422, 'PATCH', recordsPath('leads', id), options)).toEqual(['tags[0] INVALID_OPTION']);
    await patchRecord(own.key, 'leads', id, { tags: ['Newsletter'] });
    expect(await listTagNames(id, 'leads', own.key)).toEqual(['Newsletter']);
  });

  test('removes tags with deleted records and test resets, and keeps those of converted leads', async () => {
    const own = await newTenant();
    await newTags(own, 'leads');
    await newTags(own, 'customers');
    const gone = await newLead({ tags: ['VIP'] }, own.key);
    const trial = await newLead({ tags: ['VIP'] }, own.testKey);
    const kept = await newLead({ tags: ['VIP', 'Fair'] }, own.key);
    await expectStatus(200, 'DELETE', recordsPath('leads', gone.id), { key: own.key });
    const { customer } = (await expectStatus(200, 'POST', `/v1/leads/${kept.id}/convert`, { key: own.key, body: {} }))
      .body.data;
    expect(await listTagNames(kept.id, 'leads', own.key)).toEqual(['VIP', 'Fair']);
    expect(await listTagNames(customer.id, 'customers', own.key)).toEqual([]);
    await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: own.testKey, body: {} });
    const left = await database()`select distinct record_id from record_tags where company_id = ${own.companyId}`;
    expect(left).toEqual([{ record_id: kept.id }]);
    expect(trial.id).not.toBe(kept.id);
  });

  test('imports 5,000 contacts with tags in 50 calls', async () => {
    const own = await newTenant();
    await newTags(own, 'customers');
    await newCustomField(own, 'customers', 'score', { type: 'number' });
    const sets = [['VIP'], ['Fair', 'Newsletter'], [], ['vip', 'FAIR']];
    for (let call = 0; call < 50; call += 1) {
      const records = Array.from({ length: 100 }, (_, index) =>
        lead({ score: index, city: index % 10 ? 'Rome' : 'Berlin', tags: sets[index % 4] }),
      );
      const { data } = (await write(200, ':batch', { records }, 'customers', own.key)).body;
      expect(data).toMatchObject({ succeeded_count: 100, failed_count: 0 });
    }
    const rows = await database()`
      select t.name, count(*)::int as count from record_tags r join tags t on t.company_id = r.company_id and t.id = r.tag_id
      where r.company_id = ${own.companyId} group by 1 order by 1`;
    expect(rows).toEqual([
      { name: 'Berlin', count: 500 },
      { name: 'Fair', count: 2500 },
      { name: 'Newsletter', count: 1250 },
      { name: 'VIP', count: 2500 },
    ]);
  });
});
