// Tags: their rules, and automatic tags that every write adds or removes.
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  leftBehind,
  newCustomField,
  patchRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { changeSetting, createSetting, listSettings } from '../support/settings.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const path = (object: string, id?: string): string => `/v1/settings/tags/${object}${id ? `/${id}` : ''}`;

const create = (tenant: Tenant, object: string, body: object): Promise<Json> =>
  createSetting(tenant, path(object), body);
const patch = (tenant: Tenant, object: string, id: string, body: object): Promise<Json> =>
  changeSetting(tenant, path(object, id), body);
const list = (tenant: Tenant, object: string): Promise<Json[]> => listSettings(tenant.key, path(object));
const refused = (status: number, tenant: Tenant, object: string, body: object): Promise<string[]> =>
  refusedFields(status, 'POST', path(object), { key: tenant.key, body });

/** Returns the names of a record's tags by priority and name, manual ones with a star. */
async function readTagNames(recordId: string): Promise<string[]> {
  const rows = await database()<{ name: string; is_manual: boolean }[]>`
    select t.name, r.is_manual from record_tags r join tags t on t.company_id = r.company_id and t.id = r.tag_id
    where r.record_id = ${recordId} order by t.priority, t.name`;
  return rows.map((row) => (row.is_manual ? `${row.name}*` : row.name));
}

async function putOn(tenant: Tenant, tagId: string, object: string, recordId: string): Promise<void> {
  await database()`
    insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
    values (${tenant.companyId}, false, ${object}, ${recordId}, ${tagId}, true)`;
}

const condition = (field: string, operator: string, value?: unknown): object => ({
  field,
  operator,
  ...(value === undefined ? {} : { value }),
});
const urgent = { name: 'Urgent', fields: [condition('priority', 'eq', 1)] };
const lead = { first_name: 'Ada', email: 'ada@x.example' };

describe('a lead tag', () => {
  test('creates a lead tag with defaults, readable in both modes, and audits it', async () => {
    const tenant = await newTenant();
    const tag = await create(tenant, 'leads', { name: ' Urgent ', fields: [condition('priority', 'eq', '1')] });
    expect(tag).toEqual({
      id: tag.id,
      object: 'leads',
      name: 'Urgent',
      description: null,
      color: '#9CA3AF',
      priority: 100,
      fields: [{ field: 'priority', operator: 'eq', value: '1' }],
      created_at: tag.created_at,
      updated_at: tag.created_at,
    });
    expect(await list(tenant, 'leads')).toEqual([tag]);
    const { body } = await expectStatus(200, 'GET', path('leads', tag.id), { key: tenant.testKey });
    expect(body.data.tag).toEqual(tag);
    const { audit } = await leftBehind(tag.id);
    expect(audit).toMatchObject([
      { action: 'settings.tag.create', object: 'leads', changes: { name: { from: null, to: 'Urgent' } } },
    ]);
  });

  test('changes each field of a lead tag alone, and audits it', async () => {
    const tenant = await newTenant();
    let tag = await create(tenant, 'leads', urgent);
    const changes: [string, unknown][] = [
      ['name', 'Very urgent'],
      ['description', 'Call now'],
      ['description', null],
      ['color', '#DC2626'],
      ['priority', 1],
      ['fields', [condition('priority', 'in', [1, 2]), { field: 'email', operator: 'is_null', value: false }]],
    ];
    for (const [field, value] of changes) {
      const changed = await patch(tenant, 'leads', tag.id, { [field]: value });
      expect(changed).toEqual({ ...tag, [field]: value, updated_at: changed.updated_at });
      const { audit } = await leftBehind(tag.id);
      expect(audit.at(-1).action).toBe('settings.tag.update');
      expect(audit.at(-1).changes).toEqual({ [field]: { from: tag[field], to: value } });
      tag = changed;
    }
    expect(await list(tenant, 'leads')).toEqual([tag]);
  });

  test('lists lead tags by priority, then by name', async () => {
    const tenant = await newTenant();
    for (const [name, priority] of [
      ['B', 5],
      ['C', 1],
      ['A', 5],
    ] as const)
      await create(tenant, 'leads', { ...urgent, name, priority });
    expect((await list(tenant, 'leads')).map((tag) => tag.name)).toEqual(['C', 'A', 'B']);
  });

  test('shows the current names of sources and statuses in conditions', async () => {
    const tenant = await newTenant();
    const source = (
      await expectStatus(201, 'POST', '/v1/settings/sources', { key: tenant.key, body: { name: 'Fair' } })
    ).body.data.source;
    const tag = await create(tenant, 'leads', { name: 'Met', fields: [condition('source', 'in', ['fair'])] });
    expect(tag.fields).toEqual([{ field: 'source', operator: 'in', value: ['Fair'] }]);
    await expectStatus(200, 'PATCH', `/v1/settings/sources/${source.id}`, {
      key: tenant.key,
      body: { name: 'Trade fair' },
    });
    expect((await list(tenant, 'leads'))[0].fields).toEqual([
      { field: 'source', operator: 'in', value: ['Trade fair'] },
    ]);
    const { id } = await createRecord(tenant.key, 'leads', { ...lead, source: 'trade fair' });
    expect(await readTagNames(id)).toEqual(['Met']);
  });
});

describe('a customer tag', () => {
  test('lists the fields that conditions of a customer tag use, and creates a manual tag without conditions', async () => {
    const tenant = await newTenant();
    const manual = await create(tenant, 'customers', { name: 'Key account', fields: ['company_name'] });
    expect(manual).toMatchObject({
      object: 'customers',
      fields: ['company_name'],
      conditions: [],
      condition_logic: 'AND',
    });
    const conditions = [condition('country', 'eq', 'GB'), condition('city', 'contains', 'lon')];
    const body = { name: 'London', fields: ['country', 'city'], conditions, condition_logic: 'OR' };
    expect(await create(tenant, 'customers', body)).toMatchObject(body);
  });

  test('changes each field of a customer tag alone, and keeps names that its conditions use', async () => {
    const tenant = await newTenant();
    const conditions = [condition('country', 'eq', 'GB')];
    let tag = await create(tenant, 'customers', { name: 'British', fields: ['country'], conditions });
    const changes: [string, unknown][] = [
      ['fields', ['country', 'city']],
      ['conditions', [condition('city', 'eq', 'York')]],
      ['condition_logic', 'OR'],
      ['fields', ['city']],
      ['conditions', []],
      ['fields', ['created_at']],
    ];
    for (const [field, value] of changes) {
      const changed = await patch(tenant, 'customers', tag.id, { [field]: value });
      expect(changed).toEqual({ ...tag, [field]: value, updated_at: changed.updated_at });
      tag = changed;
    }
    await patch(tenant, 'customers', tag.id, { fields: ['country'], conditions });
    const options = { key: tenant.key, body: { fields: ['city'] } };
    expect(await refusedFields(400, 'PATCH', path('customers', tag.id), options)).toEqual([
      'fields CONFLICTING_FIELDS',
    ]);
  });
});

describe('a tag without conditions', () => {
  test('adds a tag without conditions only by hand, for leads and customers', async () => {
    const tenant = await newTenant();
    for (const object of ['leads', 'customers']) {
      const tag = await create(tenant, object, { name: 'Fair', fields: [] });
      expect(tag.fields).toEqual([]);
      const { id } = await createRecord(tenant.key, object, { ...lead, email: `${object}@x.example` });
      expect(await readTagNames(id)).toEqual([]);
      await patchRecord(tenant.key, object, id, { tags: ['fair'] });
      await patchRecord(tenant.key, object, id, { last_name: 'L' });
      expect(await readTagNames(id)).toEqual(['Fair*']);
    }
  });

  test('removes a tag that lost its conditions with the next write of a record, unless that write names it', async () => {
    const tenant = await newTenant();
    const tag = await create(tenant, 'leads', urgent);
    const [lost, kept] = await createRecords(tenant.key, 'leads', [
      { ...lead, priority: 1 },
      { ...lead, priority: 1 },
    ]);
    expect((await patch(tenant, 'leads', tag.id, { fields: [] })).fields).toEqual([]);
    await patchRecord(tenant.key, 'leads', lost.id, { last_name: 'L' });
    await patchRecord(tenant.key, 'leads', kept.id, { tags: ['Urgent'] });
    expect([await readTagNames(lost.id), await readTagNames(kept.id)]).toEqual([[], ['Urgent*']]);
    await patch(tenant, 'leads', tag.id, { fields: [condition('priority', 'eq', 1)] });
    await patchRecord(tenant.key, 'leads', lost.id, { last_name: 'M' });
    expect(await readTagNames(lost.id)).toEqual(['Urgent']);
  });
});

describe('names', () => {
  test('keeps tag names unique without case within one object', async () => {
    const tenant = await newTenant();
    const { id } = await create(tenant, 'leads', urgent);
    const other = await create(tenant, 'leads', { ...urgent, name: 'Other' });
    const attempts = [
      expectStatus(409, 'POST', path('leads'), { key: tenant.key, body: { ...urgent, name: 'uRGENT' } }),
      expectStatus(409, 'PATCH', path('leads', other.id), { key: tenant.key, body: { name: 'URGENT' } }),
    ];
    for (const { body } of await Promise.all(attempts))
      expect(body.error).toMatchObject({
        code: 'ALREADY_EXISTS',
        details: { matched_fields: ['name'], existing_id: id },
      });
    await create(tenant, 'customers', { name: 'Urgent', fields: ['city'] });
  });

  test('creates one tag for 32 concurrent calls with one name, and rejects the others as existing', async () => {
    const tenant = await newTenant();
    const send = (): Promise<Answer> => call('POST', path('leads'), { key: tenant.key, body: urgent });
    const answers = await Promise.all(Array.from({ length: 32 }, send));
    const codes = answers.map((answer) =>
      answer.status === 201 ? 'made' : `${answer.status} ${answer.body.error.code}`,
    );
    expect(codes.toSorted()).toEqual([...Array.from({ length: 31 }, () => '409 ALREADY_EXISTS'), 'made']);
  });
});

describe('rejected tags', () => {
  const of = (...fields: unknown[]): object => ({ name: 'X', fields });
  test.each<[string, string, object, number, string[]]>([
    ['no name and no fields', 'leads', {}, 400, ['name REQUIRED', 'fields REQUIRED']],
    ['a blank name', 'leads', { ...urgent, name: ' ' }, 400, ['name INVALID_FORMAT']],
    ['a name of 51 characters', 'leads', { ...urgent, name: 'x'.repeat(51) }, 400, ['name TOO_LONG']],
    ['priority 0', 'leads', { ...urgent, priority: 0 }, 400, ['priority OUT_OF_RANGE']],
    ['priority 1001', 'leads', { ...urgent, priority: 1001 }, 400, ['priority OUT_OF_RANGE']],
    ['a colour without #', 'leads', { ...urgent, color: 'DC2626' }, 400, ['color INVALID_FORMAT']],
    [
      '21 conditions',
      'leads',
      of(...Array.from({ length: 21 }, (_, value) => condition('priority', 'neq', value))),
      400,
      ['fields TOO_LONG'],
    ],
    ['a name of a field for a lead', 'leads', of('email'), 422, ['fields[0] INVALID_TYPE']],
    [
      'conditions beside',
      'leads',
      { ...urgent, conditions: [], condition_logic: 'OR' },
      422,
      ['conditions UNKNOWN_FIELD', 'condition_logic UNKNOWN_FIELD'],
    ],
    ['an unknown field', 'leads', of(condition('stage', 'eq', 'x')), 422, ['fields[0].field UNKNOWN_FIELD']],
    [
      'an operator of another type',
      'leads',
      of(condition('priority', 'contains', 1)),
      422,
      ['fields[0].operator INVALID_OPTION'],
    ],
    [
      'an operator that is none',
      'leads',
      of(condition('email', 'like', 'x')),
      400,
      ['fields[0].operator INVALID_OPTION'],
    ],
    [
      'a value of another type',
      'leads',
      of(condition('priority', 'gt', 'high'), condition('email', 'eq', 5)),
      422,
      ['fields[0].value INVALID_TYPE', 'fields[1].value INVALID_TYPE'],
    ],
    ['no value', 'leads', of(condition('email', 'eq')), 422, ['fields[0].value INVALID_TYPE']],
    [
      'a relative date',
      'leads',
      of(condition('created_at', 'gte', { relative: 'last_7_days' })),
      422,
      ['fields[0].value INVALID_TYPE'],
    ],
    [
      'a status that is none',
      'leads',
      of(condition('lead_status', 'eq', 'Zzz')),
      422,
      ['fields[0].value INVALID_OPTION'],
    ],
    ['no operator', 'leads', of({ field: 'email' }), 400, ['fields[0].operator REQUIRED']],
    [
      'something else in a condition',
      'leads',
      of({ ...condition('email', 'eq', 'x'), op: 'eq' }),
      422,
      ['fields[0].op UNKNOWN_FIELD'],
    ],
    ['a number in fields', 'leads', of(5), 422, ['fields[0] INVALID_TYPE']],
    ['a condition for a customer', 'customers', of(condition('city', 'eq', 'x')), 422, ['fields[0] INVALID_TYPE']],
    ['an unknown name', 'customers', of('city', 'priority'), 422, ['fields[1] UNKNOWN_FIELD']],
    ['a name twice', 'customers', of('city', 'city'), 400, ['fields DUPLICATE']],
    [
      'a condition without names of fields',
      'customers',
      { ...of(), conditions: [condition('city', 'eq', 'x')] },
      422,
      ['conditions[0].field INVALID_OPTION'],
    ],
    ['fields that are null', 'leads', { name: 'X', fields: null }, 422, ['fields INVALID_TYPE']],
    [
      'a condition on another name',
      'customers',
      { ...of('city'), conditions: [condition('country', 'eq', 'x')] },
      422,
      ['conditions[0].field INVALID_OPTION'],
    ],
    [
      'an unknown logic',
      'customers',
      { ...of('city'), condition_logic: 'XOR' },
      400,
      ['condition_logic INVALID_OPTION'],
    ],
    [
      'a read-only field',
      'customers',
      { ...of('city'), id: 'x', object: 'x' },
      422,
      ['id READ_ONLY', 'object READ_ONLY'],
    ],
    [
      'problems of both kinds',
      'leads',
      { fields: [condition('zzz', 'eq', 1)], priority: 0 },
      422,
      ['fields[0].field UNKNOWN_FIELD', 'name REQUIRED', 'priority OUT_OF_RANGE'],
    ],
  ])('rejects a tag with %s', async (_, object, body, status, problems) => {
    const tenant = await newTenant();
    expect(await refused(status, tenant, object, body)).toEqual(problems);
    expect(await list(tenant, object)).toEqual([]);
  });

  test('rejects tags of other objects, and more than 500 tags', async () => {
    const tenant = await newTenant();
    for (const object of ['deals', 'accounts', 'Leads'])
      await expectStatus(404, 'GET', path(object), { key: tenant.key });
    await database()`
      insert into tags (company_id, id, object, name, created_at, updated_at)
      select ${tenant.companyId}, gen_random_uuid(), 'leads', 'T' || i, now(), now() from generate_series(1, 500) i`;
    const { body } = await expectStatus(409, 'POST', path('leads'), { key: tenant.key, body: urgent });
    expect(body.error.details).toEqual({ reason: 'tag_limit_reached', limit: 500 });
  });

  test('rejects more than 1,000 conditions in all tags of an object, and long texts in them', async () => {
    const tenant = await newTenant();
    const twenty = Array.from({ length: 20 }, (_, index) => condition('email', 'contains', `x${index}`));
    const nearly = await create(tenant, 'leads', { name: 'Nearly', fields: twenty.slice(1) });
    await database()`
      insert into tags (company_id, id, object, name, fields, created_at, updated_at)
      select ${tenant.companyId}, gen_random_uuid(), 'leads', 'T' || i, ${database().json(twenty as never)}, now(), now()
      from generate_series(1, 49) i`;
    await database()`update companies set config_version = config_version + 1 where id = ${tenant.companyId}`;
    const options = { key: tenant.key, body: { name: 'More', fields: twenty.slice(0, 2) } };
    const refusal = await expectStatus(409, 'POST', path('leads'), options);
    expect(refusal.body.error.details).toEqual({ reason: 'tag_condition_limit_reached', limit: 1000 });
    const more = await create(tenant, 'leads', { name: 'One more', fields: twenty.slice(0, 1) });
    const patched = { key: tenant.key, body: { fields: twenty } };
    for (const { id } of [more, nearly]) await expectStatus(409, 'PATCH', path('leads', id), patched);
    expect((await patch(tenant, 'leads', more.id, { priority: 1 })).priority).toBe(1);
    await create(tenant, 'customers', { name: 'Other list', fields: ['email'], conditions: twenty });
    const long = [condition('email', 'contains', 'x'.repeat(501)), condition('email', 'in', ['x'.repeat(501)])];
    expect(await refused(400, tenant, 'leads', { name: 'Long', fields: long })).toEqual([
      'fields[0].value TOO_LONG',
      'fields[1].value[0] TOO_LONG',
    ]);
  });
});

describe('automatic tags', () => {
  let tenant: Tenant;
  beforeAll(async () => {
    tenant = await newTenant();
    await newCustomField(tenant, 'leads', 'score', { type: 'number' });
    await create(tenant, 'leads', urgent);
    await create(tenant, 'leads', {
      name: 'Hot',
      priority: 1,
      fields: [condition('score', 'eq', 9), condition('city', 'contains', 'BERL')],
    });
  });

  test('adds automatic tags in lead intake, next to the sent ones and in order', async () => {
    await create(tenant, 'leads', { name: 'By hand', priority: 2, fields: [condition('city', 'eq', 'Nowhere')] });
    const body = { ...lead, priority: 1, tags: ['by hand'] };
    const { data } = (await expectStatus(201, 'POST', '/v1/leads', { key: tenant.key, body })).body;
    expect(data.lead.tags).toEqual(['By hand', 'Urgent']);
    expect(await readTagNames(data.lead.id)).toEqual(['By hand*', 'Urgent']);
    const both = { ...lead, email: 'b@x.example', priority: 1, tags: ['Urgent'] };
    const again = (await expectStatus(201, 'POST', '/v1/leads', { key: tenant.key, body: both })).body.data.lead;
    expect(again.tags).toEqual(['Urgent']);
    expect(await readTagNames(again.id)).toEqual(['Urgent*']);
    await patchRecord(tenant.key, 'leads', again.id, { priority: 4 });
    expect(await readTagNames(again.id)).toEqual(['Urgent*']);
  });

  test('adds and removes automatic tags with each change of a record, and keeps manual ones', async () => {
    const { id } = await createRecord(tenant.key, 'leads', { ...lead, priority: 1, score: 9, city: 'Berlin' });
    expect(await readTagNames(id)).toEqual(['Hot', 'Urgent']);
    await patchRecord(tenant.key, 'leads', id, { priority: 2 });
    expect(await readTagNames(id)).toEqual(['Hot']);
    await putOn(tenant, (await list(tenant, 'leads')).find((tag) => tag.name === 'Urgent').id, 'leads', id);
    await patchRecord(tenant.key, 'leads', id, { score: null, priority: 1 });
    expect(await readTagNames(id)).toEqual(['Urgent*']);
    await patchRecord(tenant.key, 'leads', id, { priority: 3, score: 9 });
    expect(await readTagNames(id)).toEqual(['Hot', 'Urgent*']);
  });

  test('adds automatic tags to each record of a batch by its own values', async () => {
    const records = await createRecords(tenant.key, 'leads', [
      { ...lead, priority: 1 },
      { ...lead, score: '9', city: 'East Berlin' },
      { ...lead, priority: 2 },
    ]);
    expect(await Promise.all(records.map((record) => readTagNames(record.id)))).toEqual([['Urgent'], ['Hot'], []]);
  });

  test('adds and removes automatic tags with each item of a batch update', async () => {
    const records = await createRecords(tenant.key, 'leads', [
      { ...lead, priority: 1 },
      { ...lead, priority: 2 },
      { ...lead, priority: 1 },
    ]);
    const [falling, rising, refusedOne] = records.map((record) => record.id);
    const body = {
      records: [
        { id: falling, priority: 2, score: 9, city: 'Berlin' },
        { id: rising, priority: 1 },
        { id: refusedOne, priority: 9 },
      ],
    };
    const batch = `${recordsPath('leads')}:batch-update`;
    const { data } = (await expectStatus(200, 'POST', batch, { key: tenant.key, body, idempotencyKey: true })).body;
    expect(data.failed.map((item: Json) => item.index)).toEqual([2]);
    expect(await Promise.all(records.map((record) => readTagNames(record.id)))).toEqual([
      ['Hot'],
      ['Urgent'],
      ['Urgent'],
    ]);
  });

  test('adds and removes automatic tags in upserts', async () => {
    const upsert = (status: number, record: object) =>
      expectStatus(status, 'POST', `${recordsPath('leads')}:upsert`, {
        key: tenant.key,
        body: { match_on: ['email'], record: { ...lead, email: 'upsert@x.example', ...record } },
        idempotencyKey: true,
      });
    const { id } = (await upsert(201, { priority: 1 })).body.data.record;
    expect(await readTagNames(id)).toEqual(['Urgent']);
    await upsert(200, { priority: 2, score: 9, city: 'Berlin' });
    expect(await readTagNames(id)).toEqual(['Hot']);
  });

  test('adds automatic tags in the mode of the record, and removes them with the record', async () => {
    const { id } = await createRecord(tenant.testKey, 'leads', { ...lead, priority: 1 });
    const rows = await database()`select test_mode, is_manual from record_tags where record_id = ${id}`;
    expect(rows).toEqual([{ test_mode: true, is_manual: false }]);
    await expectStatus(200, 'DELETE', recordsPath('leads', id), { key: tenant.testKey });
    expect(await readTagNames(id)).toEqual([]);
  });

  test('adds no automatic tags in a rejected or replayed write', async () => {
    const idempotencyKey = `tags-${tenant.companyId}`;
    const post = (body: object) => call('POST', recordsPath('leads'), { key: tenant.key, body, idempotencyKey });
    const first = await post({ ...lead, priority: 1 });
    await database()`delete from record_tags where record_id = ${first.body.data.record.id}`;
    expect((await post({ ...lead, priority: 1 })).headers.get('idempotent-replay')).toBe('true');
    expect(await readTagNames(first.body.data.record.id)).toEqual([]);
    await expectStatus(422, 'PATCH', recordsPath('leads', first.body.data.record.id), {
      key: tenant.key,
      body: { priority: 9, city: 'Berlin', score: 9 },
    });
    expect(await readTagNames(first.body.data.record.id)).toEqual([]);
  });

  test('applies changed conditions with the next write of each record', async () => {
    const own = await newTenant();
    const tag = await create(own, 'leads', urgent);
    const { id } = await createRecord(own.key, 'leads', { ...lead, priority: 1 });
    await patch(own, 'leads', tag.id, { fields: [condition('priority', 'eq', 2)] });
    expect(await readTagNames(id)).toEqual(['Urgent']);
    await patchRecord(own.key, 'leads', id, { last_name: 'L' });
    expect(await readTagNames(id)).toEqual([]);
    await patchRecord(own.key, 'leads', id, { priority: 2 });
    expect(await readTagNames(id)).toEqual(['Urgent']);
  });

  test('removes a deleted tag from all records of both modes', async () => {
    const own = await newTenant();
    const tag = await create(own, 'leads', urgent);
    const ids = [own.key, own.testKey].map((key) => createRecord(key, 'leads', { ...lead, priority: 1 }));
    const [live, trial] = await Promise.all(ids);
    const { body } = await expectStatus(200, 'DELETE', path('leads', tag.id), { key: own.key });
    expect(body.data).toEqual({ id: tag.id, deleted: true });
    expect([await readTagNames(live.id), await readTagNames(trial.id)]).toEqual([[], []]);
    await expectStatus(404, 'GET', path('leads', tag.id), { key: own.key });
    expect((await leftBehind(tag.id)).audit.at(-1)).toMatchObject({ action: 'settings.tag.delete', object: 'leads' });
    await patchRecord(own.key, 'leads', live.id, { last_name: 'L' });
  });

  test('combines the conditions of a customer tag by its logic', async () => {
    const own = await newTenant();
    const conditions = [condition('city', 'eq', 'York'), condition('country', 'eq', 'GB')];
    const fields = ['city', 'country'];
    await create(own, 'customers', { name: 'All', fields, conditions });
    await create(own, 'customers', { name: 'Any', fields, conditions, condition_logic: 'OR' });
    await create(own, 'customers', { name: 'Manual', fields });
    const { id } = await createRecord(own.key, 'customers', { first_name: 'C', city: 'York' });
    expect(await readTagNames(id)).toEqual(['Any']);
    await patchRecord(own.key, 'customers', id, { country: 'GB' });
    expect(await readTagNames(id)).toEqual(['All', 'Any']);
    await patchRecord(own.key, 'customers', id, { city: null, country: null });
    expect(await readTagNames(id)).toEqual([]);
  });

  test('updates automatic tags of a lead after changes of its activities', async () => {
    const own = await newTenant();
    await create(own, 'leads', { name: 'Untouched', fields: [condition('last_contacted_at', 'is_null', true)] });
    await create(own, 'leads', { name: 'Planned', fields: [condition('next_followup_at', 'gt', '2020-01-01')] });
    const { id } = await createRecord(own.key, 'leads', lead);
    const batched = await createRecord(own.key, 'leads', { ...lead, email: 'b@x.example' });
    expect(await readTagNames(id)).toEqual(['Untouched']);
    const activity = { activity_type: 'Call', entity_type: 'lead', entity_id: id, summary: 'Called' };
    const logged = await createRecord(own.key, 'activities', { ...activity, followup_at: '2031-01-01T00:00:00Z' });
    expect(await readTagNames(id)).toEqual(['Planned']);
    await patchRecord(own.key, 'activities', logged.id, { followup_at: null });
    expect(await readTagNames(id)).toEqual([]);
    await patchRecord(own.key, 'activities', logged.id, { followup_at: '2031-01-01T00:00:00Z' });
    expect(await readTagNames(id)).toEqual(['Planned']);
    await expectStatus(200, 'DELETE', recordsPath('activities', logged.id), { key: own.key });
    expect(await readTagNames(id)).toEqual([]);
    await createRecords(own.key, 'activities', [{ ...activity, entity_id: batched.id }]);
    expect(await readTagNames(batched.id)).toEqual([]);
    const several = await createRecords(own.key, 'activities', [activity, { ...activity, entity_id: batched.id }]);
    const send = (verb: string, body: object) =>
      expectStatus(200, 'POST', `${recordsPath('activities')}:${verb}`, { key: own.key, body, idempotencyKey: true });
    const planned = several.map((each) => ({ id: each.id, followup_at: '2031-01-01T00:00:00Z' }));
    await send('batch-update', { records: planned });
    expect([await readTagNames(id), await readTagNames(batched.id)]).toEqual([['Planned'], ['Planned']]);
    await send('batch-delete', { ids: planned.map((each) => each.id) });
    expect([await readTagNames(id), await readTagNames(batched.id)]).toEqual([[], []]);
  });

  test('ignores but still shows automatic tags on a disabled field', async () => {
    const own = await newTenant();
    const tag = await create(own, 'leads', { name: 'Berliner', fields: [condition('city', 'neq', 'Hamburg')] });
    const switchCity = (enabled: boolean) =>
      expectStatus(200, 'PATCH', '/v1/objects/leads/fields/city', { key: own.key, body: { enabled } });
    await switchCity(false);
    const { id } = await createRecord(own.key, 'leads', lead);
    expect(await readTagNames(id)).toEqual([]);
    expect(await list(own, 'leads')).toEqual([tag]);
    await switchCity(true);
    await patchRecord(own.key, 'leads', id, { last_name: 'L' });
    expect(await readTagNames(id)).toEqual(['Berliner']);
  });
});

describe('a condition', () => {
  let tenant: Tenant;
  let record: Json;
  beforeAll(async () => {
    tenant = await newTenant();
    await newCustomField(tenant, 'leads', 'score', { type: 'number' });
    await newCustomField(tenant, 'leads', 'vip', { type: 'boolean' });
    await newCustomField(tenant, 'leads', 'since', { type: 'date' });
    await newCustomField(tenant, 'leads', 'empty');
    const user = await newUser(tenant);
    record = await createRecord(tenant.key, 'leads', {
      ...lead,
      last_name: 'Österreich',
      job_title: '😀 wide',
      priority: 2,
      mobile: '+971501234567',
      lead_status: 'Qualified',
      website: 'https://x.example/50%_off',
      assigned_to: user.id,
      score: 10,
      vip: true,
      since: '2026-05-01',
    });
  });

  test.each<[string, string, unknown]>([
    ['first_name', 'eq', 'Ada'],
    ['first_name', 'eq', 'ada'],
    ['first_name', 'neq', 'Bob'],
    ['last_name', 'contains', 'öster'],
    ['last_name', 'gt', 'Z'],
    ['last_name', 'lt', 'Z'],
    ['job_title', 'gt', '～wide'],
    ['job_title', 'lt', '～wide'],
    ['job_title', 'gt', '😀 wid'],
    ['job_title', 'lte', '😁'],
    ['job_title', 'contains', '😀 W'],
    ['last_name', 'in', ['A', 'Österreich']],
    ['website', 'contains', '50%_'],
    ['website', 'contains', '50_%'],
    ['city', 'neq', 'x'],
    ['city', 'eq', 'x'],
    ['city', 'is_null', true],
    ['city', 'is_null', false],
    ['city', 'gt', ''],
    ['email', 'eq', 'ADA@x.example'],
    ['mobile', 'eq', '+971 50 123 4567'],
    ['priority', 'gte', 2],
    ['priority', 'gt', 2],
    ['priority', 'in', [1, 2]],
    ['priority', 'lt', 2.5],
    ['lead_status', 'eq', 'qualified'],
    ['lead_status', 'neq', 'New'],
    ['lead_status', 'in', ['New', 'Contacted']],
    ['created_at', 'gt', '2020-01-01'],
    ['updated_at', 'lt', '2020-01-01'],
    ['converted_at', 'is_null', true],
    ['score', 'eq', 10],
    ['score', 'gt', 9],
    ['score', 'lt', 9],
    ['score', 'in', [10, 11]],
    ['vip', 'eq', true],
    ['vip', 'neq', true],
    ['since', 'gte', '2026-05-01'],
    ['since', 'lt', '2026-05-01'],
    ['empty', 'is_null', true],
    ['empty', 'neq', 'x'],
    ['empty', 'eq', 'x'],
    ['assigned_to', 'is_null', false],
    ['source', 'is_null', true],
    ['origin', 'lte', 'zzz'],
  ])('applies %s %s %j to exactly the records that the same filter finds', async (field, operator, value) => {
    const filter = JSON.stringify({
      and: [
        { field: 'id', op: 'eq', value: record.id },
        { field, op: operator, value },
      ],
    });
    const found = await expectStatus(200, 'GET', recordsPath('leads'), { key: tenant.key, query: { filter } });
    const tag = await create(tenant, 'leads', { name: 'Probe', fields: [condition(field, operator, value)] });
    try {
      await patchRecord(tenant.key, 'leads', record.id, {
        notes: `${field} ${operator} ${JSON.stringify(value)} ${Math.random()}`,
      });
      expect(await readTagNames(record.id)).toEqual(found.body.data.records.length === 1 ? ['Probe'] : []);
    } finally {
      await expectStatus(200, 'DELETE', path('leads', tag.id), { key: tenant.key });
    }
  });

  test('applies a condition on the id of a status or source to records written by name', async () => {
    const own = await newTenant();
    const statuses = (await expectStatus(200, 'GET', '/v1/settings/statuses/leads', { key: own.key })).body.data
      .statuses;
    const contacted = statuses.find((status: Json) => status.name === 'Contacted');
    await create(own, 'leads', { name: 'Probe', fields: [condition('lead_status_id', 'eq', contacted.id)] });
    const { id } = await createRecord(own.key, 'leads', { ...lead, lead_status: 'contacted' });
    expect(await readTagNames(id)).toEqual(['Probe']);
    await patchRecord(own.key, 'leads', id, { lead_status: 'New' });
    expect(await readTagNames(id)).toEqual([]);
  });
});

test('leaves a tag on no record if it is deleted while records are written', async () => {
  const tenant = await newTenant();
  for (let round = 0; round < 5; round += 1) {
    const tag = await create(tenant, 'leads', urgent);
    const writes = Array.from({ length: 6 }, (_, index) =>
      call('POST', recordsPath('leads'), {
        key: tenant.key,
        body: { ...lead, email: `r${round}-${index}@x.example`, priority: 1 },
        idempotencyKey: true,
      }),
    );
    const [deleted, ...written] = await Promise.all([
      call('DELETE', path('leads', tag.id), { key: tenant.key }),
      ...writes,
    ]);
    expect([deleted?.status, ...written.map((answer) => answer?.status)]).toEqual([200, ...written.map(() => 201)]);
    expect(await database()`select from record_tags where tag_id = ${tag.id}`).toHaveLength(0);
  }
});

test('updates automatic tags of a lead after its activities change by their own operations', async () => {
  const tenant = await newTenant();
  await create(tenant, 'leads', { name: 'Planned', fields: [condition('next_followup_at', 'gt', '2020-01-01')] });
  const { id } = await createRecord(tenant.key, 'leads', lead);
  const body = {
    activity_type: 'Call',
    entity_type: 'lead',
    entity_id: id,
    summary: 'Called',
    followup_at: '2031-01-01T00:00:00Z',
  };
  const logged = await expectStatus(201, 'POST', '/v1/activities', { key: tenant.key, body });
  expect(await readTagNames(id)).toEqual(['Planned']);
  const clear = { key: tenant.key, body: { followup_at: null } };
  await expectStatus(200, 'PATCH', `/v1/activities/${logged.body.data.activity.id}`, clear);
  expect(await readTagNames(id)).toEqual([]);
});
