// Filters and sorts mean what the document says: random ones against a reference in memory.
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { inOrder, passes, type ReferenceField, type ReferenceFilter } from '../support/filter-reference.ts';
import { createRecords, newCustomField, newCustomObject, walk } from '../support/records.ts';
import { readSeed } from '../support/seed.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const runs = Number(process.env.FILTER_RUNS ?? 1000);
const seed = readSeed('FILTER_SEED');
/** Lists that are asked for at a time. */
const lanes = 4;

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

/** A won or lost stage sets the probability: any other is refused. */
function withoutSetProbability({ probability, ...values }: Record<string, unknown>): Record<string, unknown> {
  const isSet = values.stage === 'Won' || values.stage === 'Lost';
  return probability === undefined || isSet ? values : { ...values, probability };
}

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
    bodies.map((values) => ({ ...required[object], ...withoutSetProbability(values) })),
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
  const property = fc.asyncProperty(query, async ({ object, filter, sort, limit }) => {
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
  });
  const share = (lane: number) => fc.assert(property, { numRuns: Math.ceil(runs / lanes), seed: seed + lane });
  await Promise.all(Array.from({ length: lanes }, (_, lane) => share(lane)));
  expect(found).toBeGreaterThan(runs);
});
