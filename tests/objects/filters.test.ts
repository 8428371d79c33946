// Compares random filters and sorts with a reference implementation in memory.
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import {
  inOrder,
  passes,
  type ReferenceClock,
  type ReferenceField,
  type ReferenceFilter,
  type ReferenceRelations,
} from '../support/filter-reference.ts';
import { createRecords, newCustomField, newCustomObject, walk } from '../support/records.ts';
import { readSeed } from '../support/seed.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, newUser, rowDatabase, type Tenant } from '../support/tenants.ts';

const runs = Number(process.env.FILTER_RUNS ?? 1000);
const seed = readSeed('FILTER_SEED');
/** Lists that are requested at the same time. */
const lanes = 4;

/** A field with the values that records get and that conditions compare with. */
interface Pool extends ReferenceField {
  stored: readonly unknown[];
  asked: readonly unknown[];
  /** Records have the field, but responses omit it and lists cannot be sorted by it. */
  hidden?: boolean;
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
/** Values of a unique field, which a few records have. */
const codes = ['A-1', 'a-1', 'B-2', 'C-3', '10', '9'];
/** Texts that read as numbers or dates, and some that almost do. */
const readable = [
  '12',
  ' 7 ',
  '1e2',
  '-0.5',
  '1,5',
  '٣',
  '2025-02-29',
  '2024-02-29',
  '2025-01-01T02:00+02:00',
  '0000-01-01',
];
const parts = ['a', 'É', '%', '_', '\\', 'B', '0', '😀', '', 'no such text', "'"];
const days = ['2024-02-29', '2025-01-01', '2025-12-31', '2026-11-20'];
const times = ['2025-01-01T00:00:00.000Z', '2025-01-01T12:30:00.500Z', '2026-11-20T23:55:00.000Z'];
const askedTimes = [...times, '2025-01-01', '2025-01-01T02:00:00+02:00', '2026-01-01'];
const numbers = [1, 2, 3, 4];
const nearDays = [-400, -95, -32, -8, -6, -1, 0, 1, 5, 29, 30, 100].map((days) =>
  new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10),
);
/** Times of day around the midnights of all time zones. */
const nearTimes = nearDays.flatMap((date) => [
  `${date}T00:30:00.000Z`,
  `${date}T11:30:00.000Z`,
  `${date}T23:30:00.000Z`,
]);
const relative = [
  'today',
  'last_1_days',
  'last_7_days',
  'last_3650_days',
  'next_1_days',
  'next_30_days',
  'this_week',
  'this_month',
  'last_month',
  'this_quarter',
  'this_year',
].map((name) => ({ relative: name }));
const askedNumbers = [0, 1, 2, '3', '4', 2.5, -1, '1e1', 99999999999999];

const textPool = (name: string, custom = false): Pool => ({
  name,
  kind: 'text',
  custom,
  stored: words,
  asked: [...words, ...parts],
});
const actors: string[] = [];
const tags = ['Blue', 'Green', 'Ünder', 'Unused'];
const common: Pool[] = [
  {
    name: 'created_at',
    kind: 'datetime',
    stored: [],
    asked: ['2026-01-15', '2026-02-01T10:00:00Z', '2030-01-01', ...relative],
  },
  { name: 'created_by', kind: 'text', stored: [], asked: actors, hidden: true },
  { name: 'updated_by', kind: 'text', stored: [], asked: actors, hidden: true },
];
const customPools: Pool[] = [
  { ...textPool('remark', true), stored: [...words, ...readable] },
  { name: 'size', kind: 'number', custom: true, stored: [9, 10, 2.5, -3, 1e-7, 100], asked: [9, '10', 2.5, 1e-7, 50] },
  { name: 'vip', kind: 'boolean', custom: true, stored: [true, false, 'true'], asked: [true, false] },
  {
    name: 'day',
    kind: 'date',
    custom: true,
    stored: [...days, ...nearDays],
    asked: [...days, ...relative],
  },
  {
    name: 'starts_at',
    kind: 'datetime',
    custom: true,
    stored: [...times, ...nearTimes],
    asked: [...askedTimes, ...relative],
  },
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
      asked: ['A@X.example', 'b@x.example', 'x', 'B', 'a@X', '', '_', '\u{10ffff}'],
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
    { name: 'next_followup_at', kind: 'datetime', stored: [], asked: [...askedTimes, ...relative] },
    ...customPools,
    { ...textPool('code', true), stored: [], asked: [...codes, ...codes, ...parts] },
    {
      name: 'tags',
      kind: 'names',
      stored: [[], ['Blue'], ['Green'], ['Blue', 'Ünder'], tags.slice(0, 3)],
      asked: ['blue', 'GREEN', 'ünder', 'Unused'],
      hidden: true,
    },
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
    {
      name: 'expected_close_date',
      kind: 'date',
      stored: [...days, ...nearDays],
      asked: [...days, ...relative],
    },
    { name: 'stage', kind: 'list', stored: ['New', 'Won', 'Lost'], asked: ['new', 'WON', 'Proposal'] },
    { name: 'won_at', kind: 'datetime', stored: [], asked: askedTimes },
  ],
  'object:visits': [...common, textPool('name'), ...customPools],
};
const sizes: Record<string, number> = { leads: 120, deals: 60, 'object:visits': 60 };

/** A relation of an object. Records of the `to` side name the others in a field, or are in a pair with them. */
interface PooledRelation {
  name: string;
  other: string;
  isToOne: boolean;
  /** The field of this side or the other, for references. */
  field?: string;
  /** Of pairs: the link type, and the place of the other record in each. */
  type?: string;
  place?: 0 | 1;
}
const relations: Record<string, PooledRelation[]> = {
  leads: [
    { name: 'deals', other: 'deals', isToOne: false, field: 'lead_id' },
    { name: 'visits', other: 'object:visits', isToOne: false, type: 'visits', place: 1 },
    { name: 'friends', other: 'leads', isToOne: false, type: 'friends', place: 1 },
    { name: 'friends_of', other: 'leads', isToOne: false, type: 'friends', place: 0 },
  ],
  deals: [
    { name: 'lead', other: 'leads', isToOne: true, field: 'lead_id' },
    { name: 'inspections', other: 'object:visits', isToOne: false, type: 'inspections', place: 1 },
  ],
  'object:visits': [
    { name: 'visitors', other: 'leads', isToOne: false, type: 'visits', place: 0 },
    { name: 'inspected', other: 'deals', isToOne: true, type: 'inspections', place: 0 },
  ],
};
/** Ids of linked records by link type, from the `from` side. */
const pairs = new Map<string, (readonly [string, string])[]>();

let tenant: Tenant;
/** A zone in which midnight is far away, so the day does not change during the test. */
const timezone =
  ['Pacific/Auckland', 'America/Sao_Paulo', 'Europe/Berlin'].find((name) => {
    const hour = Number(new Intl.DateTimeFormat('en', { timeZone: name, hour: '2-digit', hourCycle: 'h23' }).format());
    return hour >= 1 && hour < 22;
  }) ?? 'UTC';
/** Keys that see the whole workspace, a team's records, and no visits. */
const keys = { company: '', team: '', narrow: '' };
type Who = keyof typeof keys;
/** The visible records, by key and object. */
const all = new Map<string, Json[]>();

beforeAll(async () => {
  tenant = await newTenant();
  const sql = database();
  await sql`update companies set country = 'DE', timezone = ${timezone} where id = ${tenant.companyId}`;
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
  await newCustomField(tenant, 'leads', 'code', { unique: true });
  for (const name of tags) await createSetting(tenant, '/v1/settings/tags/leads', { name, fields: [] });
  for (const object of ['leads', 'object:visits']) {
    for (const pool of customPools) {
      const options = [{ value: 'gold' }, { value: 'silver' }, { value: 'bronze', retired: true }];
      await newCustomField(tenant, object, pool.name, {
        type: pool.kind,
        ...(pool.kind === 'select' ? { options } : {}),
      });
    }
  }
  const teamId = randomUUID();
  await sql`insert into teams (company_id, id, branch_id, name, created_at) values (${tenant.companyId}, ${teamId}, ${tenant.branchId}, 'Team', now())`;
  const member = await newUser(tenant, { teamId });
  keys.company = tenant.key;
  keys.team = await newKey(tenant, { reach: { kind: 'team', id: teamId } });
  keys.narrow = await newKey(tenant, { scopes: ['leads:view', 'deals:view'] });
  for (const object of Object.keys(pools)) {
    await arrange(object);
    await putInReach(object, member.id);
  }
  await relate();
  // As autovacuum does: without statistics, a join of links with records is planned for none.
  await rowDatabase()`analyze leads, deals, custom_records, links`;
  for (const object of Object.keys(pools)) {
    const table = object.startsWith('object:') ? 'custom_records' : object;
    const rows = await sql`
      select r.id, r.created_by_id as created_by, r.updated_by_id as updated_by, array(
        select t.name from record_tags rt join tags t on t.company_id = rt.company_id and t.id = rt.tag_id
        where rt.company_id = r.company_id and rt.object = ${object} and rt.record_id = r.id
      ) as tags
      from ${sql(table)} r where r.company_id = ${tenant.companyId}`;
    const hiddenOf = new Map(rows.map((row) => [row.id, row]));
    for (const [who, key] of Object.entries(keys)) {
      if (who === 'narrow' && object === 'object:visits') continue;
      const records = await walk(key, object, { limit: 100 });
      expect(records.length).toBeGreaterThan(10);
      all.set(
        `${who} ${object}`,
        records.map((record) => ({ ...record, ...hiddenOf.get(record.id) })),
      );
    }
    actors.push(...new Set(rows.map((row) => row.created_by)), 'nobody');
  }
});

/** Assigns about half of the records to a member of the team. */
async function putInReach(object: string, memberId: string): Promise<void> {
  const sql = database();
  const table = object.startsWith('object:') ? 'custom_records' : object;
  const change = object.startsWith('object:') ? sql`created_by_user = ${memberId}` : sql`assigned_to = ${memberId}`;
  await sql`
    update ${sql(table)} set ${change} where company_id = ${tenant.companyId} and get_byte(uuid_send(id), 12) % 2 = 0`;
}

/** Most deals have a lead, and the records of each link type are linked at random, within its cardinality. */
async function relate(): Promise<void> {
  const sql = database();
  const { companyId, key } = tenant;
  const listIds = async (table: string): Promise<string[]> =>
    (await sql`select id from ${sql(table)} where company_id = ${companyId} order by id`).map(({ id }) => id);
  const [leads, deals, visits] = await Promise.all(['leads', 'deals', 'custom_records'].map(listIds));
  if (!leads || !deals || !visits) throw new Error('records are missing');
  for (const [index, id] of deals.entries())
    if (index % 3 !== 0)
      await sql`
        update deals set lead_id = ${leads[(index * 7) % 40] ?? null} where company_id = ${companyId} and id = ${id}`;
  // Disabled at the end: its links can still be filtered by.
  const visitsType = await link('visits', 'visitors', ['leads', 'object:visits'], 'many_to_many', [leads, visits]);
  await link('inspections', 'inspected', ['deals', 'object:visits'], 'one_to_many', [deals, visits]);
  await link('friends', 'friends_of', ['leads', 'leads'], 'many_to_many', [leads, leads.toReversed()]);
  await expectStatus(200, 'PATCH', `/v1/link-types/${visitsType}`, { key, body: { is_enabled: false } });
}

/** Creates a link type with links. @returns its id */
async function link(
  name: string,
  inverse: string,
  [from, to]: readonly [string, string],
  cardinality: string,
  [fromIds, toIds]: readonly [readonly string[], readonly string[]],
): Promise<string> {
  const { key } = tenant;
  const labels = { label: name, inverse_label: inverse };
  const names = { name, inverse_name: inverse, from_object: from, to_object: to };
  const type = await expectStatus(201, 'POST', '/v1/link-types', { key, body: { ...names, ...labels, cardinality } });
  const isToMany = cardinality === 'many_to_many';
  const wanted = toIds.flatMap((toId, index) =>
    (isToMany ? [index, index * 5] : index % 4 === 0 ? [] : [index * 3]).map(
      (place) => [fromIds[place % 30] ?? '', toId] as const,
    ),
  );
  const made = wanted.filter(([fromId, toId]) => fromId !== toId);
  for (let start = 0; start < made.length; start += 100) {
    const create = made
      .slice(start, start + 100)
      .map(([record_id, to_id]) => ({ object: from, record_id, link_type: name, to_id }));
    const { body } = await expectStatus(200, 'POST', '/v1/links:batch', {
      key,
      body: { create },
      idempotencyKey: true,
    });
    expect(body.data.created.failed).toEqual([]);
  }
  pairs.set(name, made);
  return type.body.data.link_type.id;
}

/** Returns the relations of an object as a key sees them. */
function buildRelations(object: string, who: Who): ReferenceRelations {
  return new Map(
    (relations[object] ?? []).map(({ name, other, field, type, place = 0, isToOne }) => {
      const visible = new Map((all.get(`${who} ${other}`) ?? []).map((record) => [record.id, record]));
      const listIds = (record: Json): string[] => {
        if (field && isToOne) return [record[field]];
        if (field) return [...visible.values()].filter((each) => each[field] === record.id).map(({ id }) => id);
        return (pairs.get(type ?? '') ?? []).flatMap((pair) => (pair[1 - place] === record.id ? [pair[place]] : []));
      };
      const listRecords = (record: Json) => listIds(record).flatMap((id) => visible.get(id) ?? []);
      return [name, { fields: buildFields(other), listRecords }];
    }),
  );
}

function buildFields(object: string): Map<string, ReferenceField> {
  const fields = new Map<string, ReferenceField>((pools[object] ?? []).map((pool) => [pool.name, pool]));
  return fields.set('id', { name: 'id', kind: 'text' });
}

/**
 * Leaves out the probability of a won or lost deal: its stage sets it, and another value is
 * rejected.
 */
function withoutSetProbability({ probability, ...values }: Record<string, unknown>): Record<string, unknown> {
  const isSet = values.stage === 'Won' || values.stage === 'Lost';
  return probability === undefined || isSet ? values : { ...values, probability };
}

/**
 * Creates records with random values, about a third of them missing. Some share their creation
 * time.
 */
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
    bodies.map((values, index) => ({
      ...required[object],
      ...withoutSetProbability(values),
      // About every tenth lead has a value of the unique field.
      ...(object === 'leads' && index % 10 === 0 && codes[index / 10] ? { code: codes[index / 10] } : {}),
    })),
  );
  const sql = database();
  const table = object.startsWith('object:') ? 'custom_records' : object;
  await sql`
    update ${sql(table)} set created_at = '2026-01-01'::timestamptz + (get_byte(uuid_send(id), 15) % 40) * interval '1 day'
    where company_id = ${tenant.companyId}`;
  await sql`
    update ${sql(table)} set created_by_id = 'another' where company_id = ${tenant.companyId} and get_byte(uuid_send(id), 14) % 3 = 0`;
  await sql`
    update ${sql(table)} set updated_by_id = case get_byte(uuid_send(id), 11) % 3 when 0 then null else 'another' end
    where company_id = ${tenant.companyId} and get_byte(uuid_send(id), 11) % 2 = 0`;
  for (const [index, time] of [times[1] ?? '', ...nearTimes].entries())
    if (object === 'leads')
      await sql`update leads set next_followup_at = ${time} where company_id = ${tenant.companyId} and get_byte(uuid_send(id), 13) % 40 = ${index}`;
}

const ordered = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'between', 'in', 'not_in', 'is_null'];
const parted = ['contains', 'starts_with', 'ends_with'];
const chosen = ['eq', 'neq', 'in', 'not_in', 'is_null'];
const operatorsOf: Record<ReferenceField['kind'], readonly string[]> = {
  text: [...ordered, ...parted],
  email: [...ordered, ...parted],
  phone: [...chosen, ...parted],
  url: [...ordered, ...parted],
  select: chosen,
  list: chosen,
  number: ordered,
  boolean: ['eq', 'neq', 'is_null'],
  date: ordered,
  datetime: ordered,
  names: ['in', 'not_in', 'is_null'],
};

const isRelative = (value: unknown): boolean => typeof value === 'object';

function generateComparison(
  field: { field: string; as?: 'number' | 'date' },
  operators: readonly string[],
  asked: readonly unknown[],
): fc.Arbitrary<ReferenceFilter> {
  const value = fc.constantFrom(...asked);
  const absolute = fc.constantFrom(...asked.filter((each) => !isRelative(each)));
  const values: Record<string, fc.Arbitrary<unknown>> = {
    is_null: fc.constantFrom(true, false, undefined),
    in: fc.array(absolute, { minLength: 1, maxLength: 5 }),
    not_in: fc.array(absolute, { minLength: 1, maxLength: 5 }),
    between: fc.tuple(value, value),
  };
  return fc
    .constantFrom(...operators)
    .chain((op) => (values[op] ?? value).map((each) => ({ ...field, op, value: each })));
}

function generateCondition(object: string, prefix = ''): fc.Arbitrary<ReferenceFilter> {
  return fc.constantFrom(...(pools[object] ?? [])).chain((pool): fc.Arbitrary<ReferenceFilter> => {
    const field = `${prefix}${pool.name}`;
    const plain = generateComparison({ field }, operatorsOf[pool.kind], pool.asked);
    if (!pool.custom) return plain;
    const asNumber = generateComparison({ field, as: 'number' }, ordered, [...askedNumbers, 12, 7, 100, -0.5]);
    const asDate = generateComparison({ field, as: 'date' }, ordered, [...askedTimes, ...days, ...relative]);
    return fc.oneof({ weight: 2, arbitrary: plain }, asNumber, asDate);
  });
}

/**
 * Returns a condition through a relation.
 * @param depth of combinators that the filter of the other records can have
 */
function generateRelatedCondition(object: string, depth: number): fc.Arbitrary<ReferenceFilter> {
  return fc
    .constantFrom(...(relations[object] ?? []))
    .chain(({ name, other, isToOne }): fc.Arbitrary<ReferenceFilter> => {
      const inner = generateCombination(generateCondition(other), Math.min(depth, 2));
      const any = inner.map((filter) => ({ link: name, any: filter }));
      const none = inner.map((filter) => ({ link: name, none: filter }));
      return isToOne
        ? fc.oneof({ weight: 3, arbitrary: generateCondition(other, `${name}.`) }, any, none)
        : fc.oneof(any, none);
    });
}

function generateCombination(condition: fc.Arbitrary<ReferenceFilter>, depth: number): fc.Arbitrary<ReferenceFilter> {
  if (depth === 0) return condition;
  const members = fc.array(generateCombination(condition, depth - 1), { minLength: 1, maxLength: 3 });
  return fc.oneof(
    { weight: 2, arbitrary: condition },
    { weight: 1, arbitrary: members.map((and) => ({ and })) },
    { weight: 1, arbitrary: members.map((or) => ({ or })) },
    { weight: 1, arbitrary: generateCombination(condition, depth - 1).map((not) => ({ not })) },
  );
}

/** Returns a filter within the limits: 3 levels of combinators, 3 conditions through a relation. */
function generateFilter(object: string, depth = 3): fc.Arbitrary<ReferenceFilter> {
  const condition = generateCondition(object);
  const leaf = (left: number) =>
    fc.oneof({ weight: 3, arbitrary: condition }, { weight: 1, arbitrary: generateRelatedCondition(object, left) });
  const of = (left: number): fc.Arbitrary<ReferenceFilter> => {
    if (left === 0) return leaf(0);
    const members = fc.array(of(left - 1), { minLength: 1, maxLength: 3 });
    return fc.oneof(
      { weight: 2, arbitrary: leaf(left) },
      { weight: 1, arbitrary: members.map((and) => ({ and })) },
      { weight: 1, arbitrary: members.map((or) => ({ or })) },
      { weight: 1, arbitrary: of(left - 1).map((not) => ({ not })) },
    );
  };
  return of(depth).filter(
    (filter) => countLeaves(filter, isThroughRelation) <= 3 && countLeaves(filter, () => true) <= 40,
  );
}

const isThroughRelation = (leaf: ReferenceFilter): boolean =>
  'link' in leaf || ('field' in leaf && leaf.field.includes('.'));

/** How many conditions of a filter, and of those inside them, pass the test. */
function countLeaves(filter: ReferenceFilter, test: (leaf: ReferenceFilter) => boolean): number {
  const inner = 'and' in filter ? filter.and : 'or' in filter ? filter.or : 'not' in filter ? [filter.not] : undefined;
  if (inner) return inner.reduce((sum, member) => sum + countLeaves(member, test), 0);
  const related = 'any' in filter ? filter.any : 'none' in filter ? filter.none : undefined;
  return Number(test(filter)) + (related ? countLeaves(related, test) : 0);
}

function generateSort(object: string): fc.Arbitrary<string> {
  const names = [...(pools[object] ?? []).filter((pool) => !pool.hidden).map((pool) => pool.name), 'id'];
  return fc
    .uniqueArray(fc.constantFrom(...names), { minLength: 1, maxLength: 3 })
    .chain((chosen) => fc.tuple(...chosen.map((name) => fc.constantFrom(name, `-${name}`))))
    .map((keys) => keys.join(','));
}

test(`returns the rows of the reference in its order for ${runs} random filters and sorts (seed ${seed})`, {
  timeout: 600_000,
}, async () => {
  process.stdout.write(`F8: ${runs} random filters, seed ${seed}\n`);
  const query = fc.constantFrom(...Object.keys(pools)).chain((object) =>
    fc.record({
      object: fc.constant(object),
      who: fc.constantFrom<Who>(
        'company',
        'company',
        'team',
        ...(object === 'object:visits' ? [] : ['narrow' as const]),
      ),
      filter: generateFilter(object),
      sort: generateSort(object),
      limit: fc.constantFrom(7, 100, 100, 100),
    }),
  );
  let found = 0;
  const clock: ReferenceClock = { now: new Date(), timezone };
  const property = fc.asyncProperty(query, async ({ object, who, filter, sort, limit }) => {
    const fields = buildFields(object);
    const related = buildRelations(object, who);
    const records = all.get(`${who} ${object}`) ?? [];
    const expected = inOrder(
      records.filter((record) => passes(record, filter, fields, clock, related)),
      sort,
      fields,
    );
    const rows = await walk(keys[who], object, { filter: JSON.stringify(filter), sort, limit });
    expect(rows.map((record) => record.id)).toEqual(expected.map((record) => record.id));
    found += rows.length;
  });
  const share = (lane: number) => fc.assert(property, { numRuns: Math.ceil(runs / lanes), seed: seed + lane });
  await Promise.all(Array.from({ length: lanes }, (_, lane) => share(lane)));
  expect(found).toBeGreaterThan(runs);
});
