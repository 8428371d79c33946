// Filters and sorts mean what the document says: random ones against a reference in memory, and each rule of the grammar.
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from './support/client.ts';
import { inOrder, passes, type ReferenceField, type ReferenceFilter } from './support/filter-reference.ts';
import {
  createRecord,
  createRecords,
  newCustomField,
  newCustomObject,
  recordsPath,
  refusedFields,
  walk,
} from './support/records.ts';
import { database, newTenant, type Tenant } from './support/tenants.ts';

const runs = Number(process.env.FILTER_RUNS ?? 2000);
const seed = Number(process.env.FILTER_SEED ?? Date.now() % 2 ** 31);

/** A field with the values that records get and that conditions compare with. */
interface Pool extends ReferenceField {
  stored: readonly unknown[];
  asked: readonly unknown[];
}

const words = [
  'alpha',
  'Alpha',
  'ÉTÉ',
  'été',
  'a_b',
  'a%b',
  'a\\b',
  '100%',
  '10',
  '9',
  '😀',
  '～wide',
  ' lead',
  "o'clock",
];
const parts = ['a', 'É', '%', '_', '\\', 'B', '0', '😀', '', 'no such text', "'"];
const days = ['2024-02-29', '2025-01-01', '2025-12-31', '2026-11-20'];
const times = ['2025-01-01T00:00:00.000Z', '2025-01-01T12:30:00.500Z', '2026-11-20T23:55:00.000Z'];
const askedTimes = [...times, '2025-01-01', '2025-01-01T02:00:00+02:00', '2026-01-01'];
const numbers = [1, 2, 3, 4];
const askedNumbers = [0, 1, 2, '3', '4', 2.5, -1, '1e1', 99999999999999];

const textPool = (name: string, custom = false): Pool => ({
  name,
  kind: 'text',
  custom,
  stored: words,
  asked: [...words, ...parts],
});
const common: Pool[] = [
  { name: 'created_at', kind: 'datetime', stored: [], asked: ['2026-01-15', '2026-02-01T10:00:00Z', '2030-01-01'] },
];
const customPools: Pool[] = [
  textPool('remark', true),
  { name: 'size', kind: 'number', custom: true, stored: [9, 10, 2.5, -3, 1e-7, 100], asked: [9, '10', 2.5, 1e-7, 50] },
  { name: 'vip', kind: 'boolean', custom: true, stored: [true, false, 'true'], asked: [true, false] },
  { name: 'day', kind: 'date', custom: true, stored: days, asked: days },
  { name: 'starts_at', kind: 'datetime', custom: true, stored: times, asked: askedTimes },
  { name: 'tier', kind: 'select', custom: true, stored: ['gold', 'silver'], asked: ['gold', 'silver', 'bronze'] },
];
const pools: Record<string, Pool[]> = {
  leads: [
    ...common,
    textPool('last_name'),
    { ...textPool('notes'), stored: [...words, 'long '.repeat(60)] },
    {
      name: 'email',
      kind: 'email',
      stored: ['a@x.example', 'B@x.example'],
      asked: ['A@X.example', 'b@x.example', 'x'],
    },
    {
      name: 'mobile',
      kind: 'phone',
      stored: ['+4930123456', '+4930123457'],
      asked: ['030 123456', '+49 30 123457', '+4930'],
    },
    {
      name: 'website',
      kind: 'url',
      stored: ['https://x.example', 'http://y.example/a%b'],
      asked: ['https://x.example', 'Y.EX'],
    },
    { name: 'priority', kind: 'number', stored: numbers, asked: askedNumbers },
    {
      name: 'lead_status',
      kind: 'list',
      stored: ['New', 'contacted', 'Qualified'],
      asked: ['NEW', 'Contacted', 'Converted'],
    },
    { name: 'source', kind: 'list', stored: ['Website', 'referral'], asked: ['website', 'Referral', 'Closed down'] },
    { name: 'next_followup_at', kind: 'datetime', stored: [], asked: askedTimes },
    ...customPools,
  ],
  deals: [
    ...common,
    textPool('name'),
    {
      name: 'amount_minor',
      kind: 'number',
      stored: [0, 100, 250000, 9007199254740991],
      asked: [...askedNumbers, 250000],
    },
    { name: 'probability', kind: 'number', stored: [0, 50, 100], asked: [0, 50, '100', 33.3] },
    { name: 'expected_close_date', kind: 'date', stored: days, asked: days },
    { name: 'stage', kind: 'list', stored: ['New', 'Won', 'Lost'], asked: ['new', 'WON', 'Proposal'] },
    { name: 'won_at', kind: 'datetime', stored: [], asked: askedTimes },
  ],
  'object:visits': [...common, textPool('name'), ...customPools],
};
const sizes: Record<string, number> = { leads: 120, deals: 60, 'object:visits': 60 };

let tenant: Tenant;
const all = new Map<string, Json[]>();

beforeAll(async () => {
  tenant = await newTenant();
  const sql = database();
  await sql`update companies set country = 'DE' where id = ${tenant.companyId}`;
  for (const [name, enabled] of [
    ['Website', true],
    ['Referral', true],
    ['Closed down', false],
  ] as const) {
    await sql`
      insert into sources (company_id, id, name, is_enabled, created_at, updated_at)
      values (${tenant.companyId}, gen_random_uuid(), ${name}, ${enabled}, now(), now())`;
  }
  await newCustomObject(tenant, 'visits');
  for (const object of ['leads', 'object:visits']) {
    for (const pool of customPools) {
      const options = [{ value: 'gold' }, { value: 'silver' }, { value: 'bronze', retired: true }];
      await newCustomField(tenant, object, pool.name, {
        type: pool.kind,
        ...(pool.kind === 'select' ? { options } : {}),
      });
    }
  }
  for (const object of Object.keys(pools)) {
    await arrange(object);
    all.set(object, await walk(tenant.key, object, { limit: 100 }));
  }
});

/** Records of random values, about a third of them missing; created at different times, some at the same. */
async function arrange(object: string): Promise<void> {
  const required: Record<string, object> = {
    leads: { first_name: 'Some', mobile: '+4930999999' },
    deals: { name: 'Some' },
    'object:visits': { name: 'Some' },
  };
  const body = fc.record(
    Object.fromEntries(
      (pools[object] ?? [])
        .filter((pool) => pool.stored.length > 0)
        .map((pool) => [pool.name, fc.constantFrom(...pool.stored)]),
    ),
    { requiredKeys: [] },
  );
  const bodies = fc.sample(body, { numRuns: sizes[object] ?? 0, seed });
  await createRecords(
    tenant.key,
    object,
    bodies.map((values) => ({ ...required[object], ...values })),
  );
  const sql = database();
  const table = object.startsWith('object:') ? 'custom_records' : object;
  await sql`
    update ${sql(table)} set created_at = '2026-01-01'::timestamptz + (get_byte(uuid_send(id), 15) % 40) * interval '1 day'
    where company_id = ${tenant.companyId}`;
  if (object === 'leads')
    await sql`update leads set next_followup_at = ${times[1] ?? ''} where company_id = ${tenant.companyId} and get_byte(uuid_send(id), 15) % 3 = 0`;
}

const operatorsOf: Record<ReferenceField['kind'], readonly string[]> = {
  text: ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'contains', 'in', 'is_null'],
  email: ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'contains', 'in', 'is_null'],
  phone: ['eq', 'neq', 'contains', 'in', 'is_null'],
  url: ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'contains', 'in', 'is_null'],
  select: ['eq', 'neq', 'in', 'is_null'],
  list: ['eq', 'neq', 'in', 'is_null'],
  number: ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'is_null'],
  boolean: ['eq', 'neq', 'is_null'],
  date: ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'is_null'],
  datetime: ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'is_null'],
};

function conditionOf(object: string): fc.Arbitrary<ReferenceFilter> {
  return fc.constantFrom(...(pools[object] ?? [])).chain((pool) =>
    fc.constantFrom(...operatorsOf[pool.kind]).chain((op): fc.Arbitrary<ReferenceFilter> => {
      const value = fc.constantFrom(...pool.asked);
      if (op === 'is_null')
        return fc.record({
          field: fc.constant(pool.name),
          op: fc.constant(op),
          value: fc.constantFrom(true, false, undefined),
        });
      return fc.record({
        field: fc.constant(pool.name),
        op: fc.constant(op),
        value: op === 'in' ? fc.array(value, { minLength: 1, maxLength: 5 }) : value,
      });
    }),
  );
}

function filterOf(object: string, depth = 3): fc.Arbitrary<ReferenceFilter> {
  const condition = conditionOf(object);
  if (depth === 0) return condition;
  const members = fc.array(filterOf(object, depth - 1), { minLength: 1, maxLength: 3 });
  return fc.oneof(
    { weight: 2, arbitrary: condition },
    { weight: 1, arbitrary: members.map((and) => ({ and })) },
    { weight: 1, arbitrary: members.map((or) => ({ or })) },
  );
}

function sortOf(object: string): fc.Arbitrary<string> {
  const names = [...(pools[object] ?? []).map((pool) => pool.name), 'id'];
  return fc
    .uniqueArray(fc.constantFrom(...names), { minLength: 1, maxLength: 3 })
    .chain((chosen) => fc.tuple(...chosen.map((name) => fc.constantFrom(name, `-${name}`))))
    .map((keys) => keys.join(','));
}

test(`${runs} random filters and sorts find the rows of the reference, in its order (seed ${seed})`, {
  timeout: 600_000,
}, async () => {
  process.stdout.write(`F8: ${runs} random filters, seed ${seed}\n`);
  const query = fc.constantFrom(...Object.keys(pools)).chain((object) =>
    fc.record({
      object: fc.constant(object),
      filter: filterOf(object),
      sort: sortOf(object),
      limit: fc.constantFrom(7, 100, 100, 100),
    }),
  );
  let found = 0;
  await fc.assert(
    fc.asyncProperty(query, async ({ object, filter, sort, limit }) => {
      const fields = new Map<string, ReferenceField>((pools[object] ?? []).map((pool) => [pool.name, pool]));
      fields.set('id', { name: 'id', kind: 'text' });
      const records = all.get(object) ?? [];
      const expected = inOrder(
        records.filter((record) => passes(record, filter, fields)),
        sort,
        fields,
      );
      const rows = await walk(tenant.key, object, { filter: JSON.stringify(filter), sort, limit });
      expect(rows.map((record) => record.id)).toEqual(expected.map((record) => record.id));
      found += rows.length;
    }),
    { numRuns: runs, seed },
  );
  expect(found).toBeGreaterThan(runs);
});

describe('the grammar', () => {
  const refused = (filter: unknown, object = 'leads') =>
    refusedFields(400, 'GET', recordsPath(object), {
      key: tenant.key,
      query: { filter: typeof filter === 'string' ? filter : JSON.stringify(filter) },
    });
  const condition = { field: 'first_name', op: 'eq', value: 'x' };
  const nested = (depth: number): ReferenceFilter => (depth === 0 ? condition : { and: [nested(depth - 1)] });

  test.each([
    ['no JSON', '{"field"'],
    ['an empty text', ''],
    ['a list', [condition]],
    ['a text', '"x"'],
    ['an empty object', {}],
    ['an empty combinator', { and: [] }],
    ['a combinator that is no list', { or: condition }],
    ['two combinators in one object', { and: [condition], or: [condition] }],
    ['a combinator beside a condition', { ...condition, and: [condition] }],
    ['a further key', { ...condition, not: true }],
    ['a condition without a field', { op: 'eq', value: 'x' }],
    ['a member that is no object', { and: [condition, null] }],
    ['four combinators deep', nested(4)],
  ])('refuses %s', async (_, filter) => {
    expect(await refused(filter)).toEqual(['filter INVALID_FORMAT']);
  });

  test('takes three combinators deep and 50 conditions, and refuses 51', async () => {
    const fifty = { or: Array.from({ length: 50 }, () => condition) };
    for (const filter of [nested(3), fifty])
      await expectStatus(200, 'GET', recordsPath('leads'), {
        key: tenant.key,
        query: { filter: JSON.stringify(filter) },
      });
    expect(await refused({ and: [fifty, condition] })).toEqual(['filter TOO_LONG']);
  });

  test.each([
    ['an unknown field', { field: 'colour', op: 'eq', value: 1 }, 'colour UNKNOWN_FIELD'],
    ['a field of the prototype', { field: '__proto__', op: 'eq', value: 1 }, '__proto__ UNKNOWN_FIELD'],
    ['an unknown operator', { ...condition, op: 'like' }, 'first_name INVALID_OPTION'],
    ['a missing operator', { field: 'first_name', value: 'x' }, 'first_name INVALID_OPTION'],
    ['contains on a number', { field: 'priority', op: 'contains', value: '1' }, 'priority INVALID_OPTION'],
    ['gt on a select', { field: 'lead_status', op: 'gt', value: 'New' }, 'lead_status INVALID_OPTION'],
    ['gt on a boolean', { field: 'vip', op: 'gt', value: true }, 'vip INVALID_OPTION'],
    ['a number for a text', { ...condition, value: 5 }, 'first_name INVALID_TYPE'],
    ['null for a text', { ...condition, value: null }, 'first_name INVALID_TYPE'],
    ['no value', { field: 'first_name', op: 'eq' }, 'first_name INVALID_TYPE'],
    ['an object for a text', { ...condition, value: {} }, 'first_name INVALID_TYPE'],
    ['NUL in a text', { ...condition, value: 'a\0b' }, 'first_name INVALID_FORMAT'],
    ['a text for a number', { field: 'priority', op: 'eq', value: 'high' }, 'priority INVALID_TYPE'],
    ['an empty text for a number', { field: 'priority', op: 'eq', value: '' }, 'priority INVALID_TYPE'],
    ['a text for a custom number', { field: 'size', op: 'gt', value: 'big' }, 'size INVALID_TYPE'],
    ['a text for a boolean', { field: 'vip', op: 'eq', value: 'yes' }, 'vip INVALID_TYPE'],
    ['no time', { field: 'created_at', op: 'gt', value: 'yesterday' }, 'created_at INVALID_FORMAT'],
    ['no day', { field: 'created_at', op: 'gt', value: '2025-02-30' }, 'created_at INVALID_FORMAT'],
    ['an unknown status', { field: 'lead_status', op: 'eq', value: 'Nope' }, 'lead_status INVALID_OPTION'],
    ['an unknown option', { field: 'tier', op: 'in', value: ['gold', 'lead'] }, 'tier INVALID_OPTION'],
    ['an empty list', { ...condition, op: 'in', value: [] }, 'first_name INVALID_TYPE'],
    ['no list', { ...condition, op: 'in', value: 'x' }, 'first_name INVALID_TYPE'],
    ['101 values', { ...condition, op: 'in', value: Array(101).fill('x') }, 'first_name INVALID_TYPE'],
    ['a wrong value in a list', { field: 'priority', op: 'in', value: [1, 'x'] }, 'priority INVALID_TYPE'],
    ['is_null with a text', { field: 'priority', op: 'is_null', value: 'yes' }, 'priority INVALID_TYPE'],
  ])('refuses %s and names the field', async (_, filter, expected) => {
    expect(await refused(filter)).toEqual([expected]);
  });

  test('names every problem at once, with the fields and operators that there are', async () => {
    const filter = {
      or: [
        { field: 'colour', op: 'eq', value: 1 },
        { field: 'priority', op: 'contains', value: 1 },
      ],
    };
    const { body } = await expectStatus(400, 'GET', recordsPath('leads'), {
      key: tenant.key,
      query: { filter: JSON.stringify(filter), sort: 'flavour' },
    });
    const [flavour, colour, priority] = body.error.details.fields;
    expect(flavour).toMatchObject({ field: 'flavour', code: 'UNKNOWN_FIELD' });
    expect(colour.message).toBe('filter: colour is not a field of leads');
    expect(colour.allowed).toEqual(expect.arrayContaining(['first_name', 'tier', 'id', 'created_at', 'updated_at']));
    expect(priority.allowed).toEqual(['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'is_null']);
  });

  test('an id is compared as text: what is none equals no record and is no failure', async () => {
    const [lead] = all.get('leads') ?? [];
    const count = async (op: string, value: unknown) =>
      (await walk(tenant.key, 'leads', { limit: 100, filter: JSON.stringify({ field: 'id', op, value }) })).length;
    const total = sizes.leads ?? 0;
    expect(await count('eq', lead.id)).toBe(1);
    expect(await count('eq', 'no id')).toBe(0);
    expect(await count('neq', 'no id')).toBe(total);
    expect(await count('in', ['no id', lead.id])).toBe(1);
    expect(await count('in', ['no id'])).toBe(0);
    expect(await count('contains', lead.id.slice(9, 20))).toBeGreaterThan(0);
    expect((await count('gte', lead.id)) + (await count('lt', lead.id))).toBe(total);
  });

  test('a field that is switched off, or that collides with a built-in one, is unknown or means the built-in one', async () => {
    const other = await newTenant();
    await newCustomField(other, 'leads', 'retired', { enabled: false });
    await newCustomField(other, 'leads', 'city', { type: 'number' });
    await database()`insert into field_overrides (company_id, object, name, enabled, updated_at) values (${other.companyId}, 'leads', 'state', false, now())`;
    const lead = await createRecord(other.key, 'leads', { first_name: 'A', email: 'a@x.example', city: 'Berlin' });
    const ask = (field: string) => ({
      key: other.key,
      query: { filter: JSON.stringify({ field, op: 'eq', value: 'Berlin' }) },
    });
    expect(await refusedFields(400, 'GET', recordsPath('leads'), ask('retired'))).toEqual(['retired UNKNOWN_FIELD']);
    expect(await refusedFields(400, 'GET', recordsPath('leads'), ask('state'))).toEqual(['state UNKNOWN_FIELD']);
    const { body } = await expectStatus(200, 'GET', recordsPath('leads'), ask('city'));
    expect(body.data.records.map((record: Json) => record.id)).toEqual([lead.id]);
  });
});
