// Filters by tags: matching records and correct totals, compared with a reference in memory.
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { createRecords, lead, recordsPath, refusedFields, walk } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { createSetting } from '../support/settings.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const manual = ['Blue', 'Green', 'Red', 'Ünder'];
const cities = ['Berlin', 'Rome', 'York'];

interface Expected {
  id: string;
  city: string;
  tags: string[];
}

let tenant: Tenant;
let records: Expected[];

beforeAll(async () => {
  tenant = await newWideTenant();
  for (const name of [...manual, 'Unused'])
    await createSetting(tenant, '/v1/settings/tags/leads', { name, fields: [] });
  const fields = [{ field: 'city', operator: 'eq', value: 'Berlin' }];
  await createSetting(tenant, '/v1/settings/tags/leads', { name: 'Berliner', fields });
  // Every combination of tags in every city.
  const wanted = cities.flatMap((city) =>
    Array.from({ length: 2 ** manual.length }, (_, set) => ({ city, tags: manual.filter((_, at) => (set >> at) & 1) })),
  );
  const made = await createRecords(
    tenant.key,
    'leads',
    wanted.map((each) => lead(each)),
  );
  records = made.map(({ id }, index) => {
    const { city = '', tags = [] } = wanted[index] ?? {};
    return { id, city, tags: city === 'Berlin' ? [...tags, 'Berliner'] : tags };
  });
  // The same records in another workspace, and in the other mode.
  const other = await newTenant();
  for (const [key, of] of [
    [tenant.testKey, tenant],
    [other.key, other],
  ] as const) {
    if (of === other) await createSetting(of, '/v1/settings/tags/leads', { name: 'Red', fields: [] });
    await createRecords(key, 'leads', [lead({ tags: ['Red'] }), lead()]);
  }
});

/** Returns true if a record passes the filter as the API documents it. */
function passes(filter: Json, record: Expected): boolean {
  if (filter.and) return filter.and.every((each: Json) => passes(each, record));
  if (filter.or) return filter.or.some((each: Json) => passes(each, record));
  if (filter.not) return !passes(filter.not, record);
  const { field, op, value } = filter;
  if (field === 'city') return op === 'eq' ? record.city === value : record.city !== value;
  if (op === 'is_null') return (record.tags.length === 0) === (value ?? true);
  const hasOne = record.tags.some((tag) => value.some((name: string) => name.toLowerCase() === tag.toLowerCase()));
  return op === 'in' ? hasOne : !hasOne;
}

const has = (...value: string[]) => ({ field: 'tags', op: 'in', value });
const hasNone = (...value: string[]) => ({ field: 'tags', op: 'not_in', value });
const isNull = (value?: boolean) => ({ field: 'tags', op: 'is_null', ...(value === undefined ? {} : { value }) });
const inCity = (value: string) => ({ field: 'city', op: 'eq', value });

describe('a filter by tags', () => {
  test.each<[string, Json]>([
    ['one', has('Red')],
    ['one of several, in any case and repeated', has('rED', 'Blue', 'blue', 'RED')],
    ['one beyond ASCII', has('üNDER')],
    ['an automatic one', has('Berliner')],
    ['one that nothing has', has('Unused')],
    ['none', isNull()],
    ['any', isNull(false)],
    ['none of two', hasNone('red', 'Berliner')],
    ['none of one that nothing has', hasNone('Unused')],
    ['not one', { not: has('Red', 'Blue') }],
    ['not none of one', { not: hasNone('Green') }],
    ['not none', { not: isNull() }],
    ['neither one nor a field', { not: { or: [has('Red'), inCity('Rome')] } }],
    ['one and not another', { and: [has('Green'), { not: { and: [has('Blue'), isNull(false)] } }] }],
    ['two together', { and: [has('Red'), has('Green')] }],
    ['one or none', { or: [has('Red'), isNull(true)] }],
    ['one beside a field', { and: [inCity('Rome'), has('Blue')] }],
    ['a field or one', { or: [inCity('York'), has('Blue')] }],
    [
      'a nest of them',
      { and: [{ or: [has('Red'), { and: [has('Blue'), inCity('Rome')] }] }, isNull(false), has('Green', 'Unused')] },
    ],
  ])('finds the records with %s once each, with the correct total', async (_, filter) => {
    const expected = records.filter((record) => passes(filter, record)).map(({ id }) => id);
    for (const sort of ['created_at', '-email', 'city,id']) {
      const found = await walk(tenant.key, 'leads', { filter: JSON.stringify(filter), sort, limit: 7 });
      expect(found.map(({ id }) => id).toSorted()).toEqual(expected.toSorted());
    }
    const query = { filter: JSON.stringify(filter), count: 'true', limit: 1, expand: 'tags' };
    const { body } = await expectStatus(200, 'GET', recordsPath('leads'), { key: tenant.key, query });
    expect(body.data.total).toBe(expected.length);
    for (const { id, expanded } of body.data.records) {
      const { tags = [] } = records.find((record) => record.id === id) ?? {};
      expect(expanded.tags.map(({ name }: Json) => name).toSorted()).toEqual(tags.toSorted());
    }
  });

  test.each<[string, Json, string]>([
    ['another operator', { field: 'tags', op: 'eq', value: 'Red' }, 'tags INVALID_OPTION'],
    ['between', { field: 'tags', op: 'between', value: ['Blue', 'Red'] }, 'tags INVALID_OPTION'],
    ['another reading', { field: 'tags', op: 'in', value: ['Red'], as: 'number' }, 'tags CONFLICTING_FIELDS'],
    ['an empty list of none', hasNone(), 'tags INVALID_TYPE'],
    ['contains', { field: 'tags', op: 'contains', value: 'Red' }, 'tags INVALID_OPTION'],
    ['an unknown name', has('Red', 'Nope'), 'tags INVALID_OPTION'],
    ['an id', has('00000000-0000-0000-0000-000000000000'), 'tags INVALID_OPTION'],
    ['something else than a name', { field: 'tags', op: 'in', value: [5] }, 'tags INVALID_TYPE'],
    ['null', { field: 'tags', op: 'in', value: [null] }, 'tags INVALID_TYPE'],
    ['no list', { field: 'tags', op: 'in', value: 'Red' }, 'tags INVALID_TYPE'],
    ['an empty list', has(), 'tags INVALID_TYPE'],
    ['101 names', has(...Array.from({ length: 101 }, () => 'Red')), 'tags INVALID_TYPE'],
    ['is_null of a text', { field: 'tags', op: 'is_null', value: 'x' }, 'tags INVALID_TYPE'],
    ['a field that is nearly called so', { field: 'tag', op: 'is_null' }, 'tag UNKNOWN_FIELD'],
  ])('rejects a tag filter with %s', async (_, filter, problem) => {
    const query = { filter: JSON.stringify(filter) };
    expect(await refusedFields(400, 'GET', recordsPath('leads'), { key: tenant.key, query })).toEqual([problem]);
  });

  test('rejects unknown tag names, and lists the existing ones', async () => {
    const query = { filter: JSON.stringify(has('Bleu')) };
    const { body } = await expectStatus(400, 'GET', recordsPath('leads'), { key: tenant.key, query });
    const allowed = ['Berliner', ...manual.slice(0, 3), 'Unused', 'Ünder'].toSorted();
    expect(body.error.details.fields[0].allowed.toSorted()).toEqual(allowed);
    expect(body.error.details.fields[0].did_you_mean).toBe('Blue');
  });

  test('accepts tag filters in campaigns, and rejects them in the conditions of tags', async () => {
    const channel = { channel_type: 'email', enabled: true, subject: 'Hello', body: 'Hello {{first_name}}' };
    const campaign = { name: 'Red ones', object: 'leads', filter: has('red'), channels: [channel] };
    await expectStatus(201, 'POST', '/v1/campaigns', { key: tenant.key, body: campaign });
    const tag = { name: 'Tagged', fields: [{ field: 'tags', operator: 'in', value: ['Red'] }] };
    const options = { key: tenant.key, body: tag };
    expect(await refusedFields(422, 'POST', '/v1/settings/tags/leads', options)).toEqual([
      'fields[0].field UNKNOWN_FIELD',
    ]);
  });
});

test('reads the records of a tag from an index, and the tags of a record from the primary key', async () => {
  const indexes = await database()`
    select pg_get_indexdef(indexrelid) as definition from pg_index where indrelid = 'record_tags'::regclass order by 1`;
  expect(indexes.map(({ definition }) => /\((.*)\)/.exec(definition)?.[1])).toEqual([
    'company_id, tag_id, test_mode, record_id',
    'company_id, test_mode, object, record_id, tag_id',
  ]);
});
