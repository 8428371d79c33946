// Search: the searched objects and fields, the ranking, and queries as plain text.
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { computePlaces, createSignature, findBlocksWith, markTexts } from '../../db/reports/signature.ts';
import { newBearer } from '../support/access-tokens.ts';
import { newActivity } from '../support/arranged-ids.ts';
import { expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  lead,
  newCustomField,
  newCustomObject,
  patchRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { readSeed } from '../support/seed.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const seed = readSeed('SEARCH_SEED');
const runs = Number(process.env.SEARCH_RUNS ?? 150);

async function search(key: string, q: string, query: Record<string, string | number> = {}): Promise<Json> {
  return (await expectStatus(200, 'GET', '/v1/search', { key, query: { q, ...query } })).body.data;
}
const listHits = (data: Json, object: string): Json[] =>
  data.groups.find((group: Json) => group.object === object)?.hits ?? [];
const listIds = (data: Json, object: string): string[] => listHits(data, object).map((hit) => hit.id);

async function switchOff(tenant: Tenant, object: string, ...names: string[]): Promise<void> {
  for (const name of names)
    await database()`
      insert into field_overrides (company_id, object, name, enabled, updated_at) values (${tenant.companyId}, ${object}, ${name}, false, now())`;
}

describe('matches', () => {
  test('finds records of every object in groups with label, field and record', async () => {
    const tenant = await newTenant();
    const visits = await newCustomObject(tenant, 'visits');
    const [account, deal, task, visit, person] = await Promise.all([
      createRecord(tenant.key, 'accounts', { name: 'Blue Lake Trading' }),
      createRecord(tenant.key, 'deals', { name: 'Seats', description: 'for the blue lake office' }),
      createRecord(tenant.key, 'tasks', { title: 'Call Blue Lake', scheduled_at: '2030-01-01' }),
      createRecord(tenant.key, visits, { name: 'blue lake, first floor' }),
      createRecord(tenant.key, 'leads', lead({ last_name: 'Haddad', company_name: 'BLUE LAKE' })),
    ]);
    const data = await search(tenant.key, 'Blue LAKE');
    expect(data).toMatchObject({ query: 'Blue LAKE', total_hits: 5, total_capped: false });
    expect(data.objects).toEqual(['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', visits]);
    expect(
      data.groups.map(({ object, label, total, hits: [hit] }: Json) => [
        object,
        label,
        total,
        hit.id,
        hit.label,
        hit.matched_field,
      ]),
    ).toEqual([
      ['leads', 'Lead', 1, person.id, 'Sara Haddad', 'company_name'],
      ['deals', 'Deal', 1, deal.id, 'Seats', 'description'],
      ['accounts', 'Account', 1, account.id, 'Blue Lake Trading', 'name'],
      ['tasks', 'Task', 1, task.id, 'Call Blue Lake', 'title'],
      [visits, 'visits', 1, visit.id, 'blue lake, first floor', 'name'],
    ]);
    expect(listHits(data, 'accounts')[0].record).toEqual(account);
  });

  test('finds changed records only by their new texts, and no deleted ones', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'accounts', { name: 'Before' });
    await patchRecord(key, 'accounts', id, { name: 'Afterwards' });
    expect(listIds(await search(key, 'before'), 'accounts')).toEqual([]);
    expect(listIds(await search(key, 'afterwards'), 'accounts')).toEqual([id]);
    await expectStatus(200, 'DELETE', recordsPath('accounts', id), { key });
    expect((await search(key, 'afterwards')).groups).toEqual([]);
  });

  test('finds phone numbers and addresses by any part', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', {
      first_name: 'Sara',
      email: 'Sara.H@BlueLake.example',
      mobile: '+971501234567',
    });
    for (const [q, field] of [
      ['0123456', 'mobile'],
      ['+9715', 'mobile'],
      ['.h@blue', 'email'],
    ] as const)
      expect(listHits(await search(key, q), 'leads')).toMatchObject([{ id, matched_field: field }]);
  });

  test('finds every script in any case, with at least two characters', async () => {
    const { key } = await newTenant();
    const names = ['ÉTÉ ÖLÇÜ', 'سارة حداد', '王小明', 'Ελένη', '😀😎 party', 'Żółć', "O'Clock", 'a--b'];
    const accounts = await createRecords(
      key,
      'accounts',
      names.map((name) => ({ name })),
    );
    for (const [q, index] of [
      ['été', 0],
      ['lç', 0],
      ['حد', 1],
      ['小明', 2],
      ['λέν', 3],
      ['😀😎', 4],
      ['żółć', 5],
      ["o'", 6],
      ['--', 7],
    ] as const)
      expect([q, listIds(await search(key, q), 'accounts')]).toEqual([q, [accounts[index].id]]);
  });

  test('finds people by first and last name together', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const names = { first_name: 'Jane', last_name: 'Doe-Smith' };
    const { id } = await createRecord(key, 'leads', lead(names));
    const customer = await createRecord(key, 'customers', names);
    await createRecord(key, 'leads', lead({ first_name: 'Jane', last_name: null }));
    for (const q of ['jane doe-smith', 'JANE DOE', 'ane D']) {
      const data = await search(key, q);
      for (const [object, wanted] of [
        ['leads', id],
        ['customers', customer.id],
      ] as const)
        expect(listHits(data, object)).toMatchObject([
          { id: wanted, label: 'Jane Doe-Smith', matched_field: 'full_name' },
        ]);
    }
    expect(listHits(await search(key, 'jane'), 'leads')).toMatchObject([{}, { id, matched_field: 'first_name' }]);
    await patchRecord(key, 'leads', id, { last_name: 'Roe' });
    expect(listIds(await search(key, 'jane doe'), 'leads')).toEqual([]);
    expect(listIds(await search(key, 'jane roe'), 'leads')).toEqual([id]);
    await switchOff(tenant, 'leads', 'last_name');
    expect(listIds(await search(key, 'jane roe'), 'leads')).toEqual([]);
  });

  test('searches the first 1,000 characters of long texts', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'deals', { name: 'Long', description: `${'é'.repeat(995)}zebra quagga` });
    expect(listIds(await search(key, 'zebra'), 'deals')).toEqual([id]);
    expect(listIds(await search(key, 'quagga'), 'deals')).toEqual([]);
  });
});

describe('searched fields', () => {
  test('searches six fields of leads: names, company, email, mobile and job title', async () => {
    const { key } = await newTenant();
    const values = {
      first_name: 'needle1',
      last_name: 'needle2',
      company_name: 'needle3',
      email: 'needle4@x.example',
      job_title: 'needle6',
    };
    const { id } = await createRecord(key, 'leads', {
      ...values,
      city: 'needle7',
      notes: 'needle8',
      origin: 'needle9',
    });
    for (const [name, value] of Object.entries(values))
      expect(listHits(await search(key, value), 'leads')).toMatchObject([{ id, matched_field: name }]);
    for (const q of ['needle7', 'needle8', 'needle9']) expect(listIds(await search(key, q), 'leads')).toEqual([]);
  });

  test('replaces disabled fields by others, and never searches disabled ones', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await newCustomField(tenant, 'leads', 'nickname');
    const { id } = await createRecord(
      key,
      'leads',
      lead({ last_name: 'hidden1', job_title: 'hidden2', city: 'shown1', nickname: 'shown2' }),
    );
    expect((await search(key, 'shown')).groups).toEqual([]);
    await switchOff(
      tenant,
      'leads',
      'last_name',
      'job_title',
      'website',
      'state',
      'country',
      'postal_code',
      'inquiry_details',
      'notes',
      'origin',
    );
    expect((await search(key, 'hidden')).groups).toEqual([]);
    for (const [q, field] of [
      ['shown1', 'city'],
      ['shown2', 'nickname'],
    ] as const)
      expect(listHits(await search(key, q), 'leads')).toMatchObject([{ id, matched_field: field }]);
  });

  test('searches custom texts, but no numbers, dates, selects and disabled fields', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await newCustomField(tenant, 'deals', 'remark', { type: 'textarea' });
    await newCustomField(tenant, 'deals', 'size', { type: 'number' });
    await newCustomField(tenant, 'deals', 'tier', { type: 'select', options: [{ value: 'needle-gold' }] });
    await newCustomField(tenant, 'deals', 'secret');
    const { id } = await createRecord(key, 'deals', {
      name: 'Seats',
      remark: 'needle-remark',
      size: 424242,
      tier: 'needle-gold',
      secret: 'needle-secret',
    });
    expect(listHits(await search(key, 'needle-r'), 'deals')).toMatchObject([{ id, matched_field: 'remark' }]);
    expect(listIds(await search(key, 'needle-s'), 'deals')).toEqual([id]);
    await database()`update custom_fields set enabled = false where company_id = ${tenant.companyId} and name = 'secret'`;
    for (const q of ['424242', 'needle-gold', 'needle-secret'])
      expect(listIds(await search(key, q), 'deals')).toEqual([]);
  });

  test('finds no ids', async () => {
    const tenant = await newTenant();
    const { key, admin } = tenant;
    await createRecord(key, 'deals', { name: 'Seats', assigned_to: admin.id });
    expect((await search(key, admin.id.slice(0, 18))).groups).toEqual([]);
  });
});

describe('ranking', () => {
  test('ranks whole fields, then beginnings, then parts, each newest first', async () => {
    const { key } = await newTenant();
    const created = await createRecords(
      key,
      'accounts',
      ['Old Acme', 'acme', 'Acme West', 'New Acme', 'Acme East', 'ACME', 'Other'].map((name) => ({ name })),
    );
    const id = (index: number): string => created[index].id;
    const data = await search(key, 'Acme');
    expect(listIds(data, 'accounts')).toEqual([5, 1, 4, 2, 3].map(id));
    expect(data.groups[0]).toMatchObject({ total: 6, total_capped: false });
    expect(listIds(await search(key, 'Acme', { limit: 25 }), 'accounts')).toEqual([5, 1, 4, 2, 3, 0].map(id));
  });

  test('names the best matching field of a hit, the first one among equals', async () => {
    const { key } = await newTenant();
    await createRecord(key, 'leads', lead({ first_name: 'Marina', last_name: 'Mari', company_name: 'Mari' }));
    expect(listHits(await search(key, 'mari'), 'leads')[0].matched_field).toBe('last_name');
  });

  test('clamps the limit to 1 to 25, and defaults to 5', async () => {
    const { key } = await newTenant();
    await createRecords(
      key,
      'accounts',
      Array.from({ length: 30 }, (_, index) => ({ name: `Branch ${index}` })),
    );
    const lengths = [];
    for (const limit of [undefined, 0, -5, 1, 25, 26, 1000]) {
      const data = await search(key, 'branch', limit === undefined ? {} : { limit });
      lengths.push(listHits(data, 'accounts').length);
      expect(data.total_hits).toBe(30);
    }
    expect(lengths).toEqual([5, 1, 1, 1, 25, 25, 25]);
  });

  test('returns what a reference in memory returns for random queries and texts', async () => {
    const { key } = await newTenant();
    const letter = fc.constantFrom('a', 'A', 'b', 'É', 'é', '%', '_', '\\', "'", ' ', '小', '1');
    const text = fc
      .array(letter, { minLength: 1, maxLength: 6 })
      .map((letters) => letters.join(''))
      .filter((each) => each.trim() !== '');
    const rows = fc.sample(fc.record({ first_name: text, last_name: text, company_name: text }), {
      numRuns: 120,
      seed,
    });
    const records = await createRecords(
      key,
      'leads',
      rows.map((row) => ({ ...row, mobile: '+4930123456' })),
    );
    const fields = ['first_name', 'last_name', 'company_name', 'email', 'mobile', 'job_title'];
    const newest = records.toSorted((a, b) =>
      a.created_at === b.created_at ? (a.id < b.id ? 1 : -1) : a.created_at < b.created_at ? 1 : -1,
    );
    const expected = (q: string): [string, string][][] =>
      [0, 1, 2].map((wanted) =>
        newest.flatMap((record): [string, string][] => {
          const texts = [...fields.map((name) => record[name]), `${record.first_name} ${record.last_name}`];
          const kinds = texts.map((text) => rankMatch(text, q));
          const best = Math.min(...kinds);
          return best === wanted ? [[record.id, [...fields, 'full_name'][kinds.indexOf(best)] as string]] : [];
        }),
      );
    await fc.assert(
      fc.asyncProperty(fc.array(letter, { minLength: 2, maxLength: 4 }), async (letters) => {
        const q = letters.join('');
        const all = expected(q).flat();
        const data = await search(key, q, { limit: 25, objects: 'leads' });
        expect(listHits(data, 'leads').map((hit) => [hit.id, hit.matched_field])).toEqual(all.slice(0, 25));
        expect(data.total_hits).toBe(all.length);
      }),
      { numRuns: runs, seed, endOnFailure: true },
    );
  });

  test('returns the same for objects that are too large to scan', async () => {
    const { key, companyId } = await newTenant();
    // None of the newest 1,000 contains what the queries look for in older ones.
    await database()`
      insert into leads (company_id, test_mode, id, first_name, last_name, company_name, email, created_by_kind, created_by_id, created_at, updated_at)
      select ${companyId}, false, gen_random_uuid(), 'Common', 'Person', case when n % 7 = 0 then 'Frequent' else 'Company' end,
        'p' || n || '@x.example', 'system', 'x', timestamptz '2020-01-01' + n * interval '1 minute', now()
      from generate_series(1, 4000) n`;
    const old = async (day: number, values: object): Promise<string> => {
      const { id } = await createRecord(key, 'leads', lead(values));
      await database()`update leads set created_at = ${`2019-01-0${day}`} where company_id = ${companyId} and id = ${id}`;
      return id;
    };
    const part = await old(1, { company_name: 'The Zebras' });
    const begin = await old(2, { last_name: 'Zebrano' });
    const whole = await old(3, { last_name: 'zebra' });
    expect(listIds(await search(key, 'ZEBRA'), 'leads')).toEqual([whole, begin, part]);
    expect((await search(key, 'zebra')).groups[0]).toMatchObject({ total: 3, total_capped: false });
    // Matches in many newer records do not hide an older one that ranks higher.
    const exact = await old(4, { last_name: 'mon' });
    const beginning = await old(5, { last_name: 'monday' });
    const found = await search(key, 'mon');
    expect(listIds(found, 'leads').slice(0, 2)).toEqual([exact, beginning]);
    expect(listHits(found, 'leads')).toHaveLength(5);
    expect(found.groups[0].total_capped).toBe(true);
    expect(found.groups[0].total).toBeGreaterThanOrEqual(1000);
    // Two characters, and the last digit of a number that all have.
    expect(listIds(await search(key, 'zz'), 'leads')).toEqual([]);
    expect(listIds(await search(key, 'ze'), 'leads')).toEqual([whole, begin, part]);
    expect(listHits(await search(key, 'p17@'), 'leads')).toMatchObject([{ matched_field: 'email' }]);
  });
});

/** Returns 0 for the whole field, 1 for its beginning, 2 for a part, and Infinity for no match. */
function rankMatch(value: string | null, q: string): number {
  const at = value === null ? -1 : value.toLowerCase().indexOf(q.toLowerCase());
  if (at === -1) return Number.POSITIVE_INFINITY;
  if (at > 0) return 2;
  return value?.length === q.length ? 0 : 1;
}

describe('visibility', () => {
  test('searches only objects that the key can view, and accepts the names of others', async () => {
    const tenant = await newTenant();
    const visits = await newCustomObject(tenant, 'visits');
    for (const [object, body] of [
      ['accounts', { name: 'Needle' }],
      ['leads', lead({ last_name: 'Needle' })],
      [visits, { name: 'Needle' }],
    ] as const)
      await createRecord(tenant.key, object, body);
    const objects = async (scopes: string[], query: Record<string, string> = {}) => {
      const data = await search(await newKey(tenant, { scopes }), 'needle', query);
      return [data.objects, data.groups.map((group: Json) => group.object)];
    };
    expect(await objects(['accounts:view'])).toEqual([['accounts'], ['accounts']]);
    expect(await objects(['leads:read', `${visits}:view`])).toEqual([
      ['leads', visits],
      ['leads', visits],
    ]);
    expect(await objects(['leads:create', 'settings:view'])).toEqual([[], []]);
    expect(await objects(['accounts:view'], { objects: 'leads, accounts,accounts' })).toEqual([
      ['accounts'],
      ['accounts'],
    ]);
  });

  test('returns 404 for an unknown or disabled object', async () => {
    const tenant = await newTenant();
    const visits = await newCustomObject(tenant, 'visits');
    await database()`update custom_objects set enabled = false where company_id = ${tenant.companyId}`;
    for (const objects of ['nothing', 'leads,nothing', visits, 'leads,', 'constructor', '%'])
      await expectStatus(404, 'GET', '/v1/search', { key: tenant.key, query: { q: 'needle', objects } });
  });

  test('omits objects of disabled modules', async () => {
    const tenant = await newTenant();
    await createRecord(tenant.key, 'accounts', { name: 'Needle' });
    await database()`update companies set disabled_modules = '{accounts}' where id = ${tenant.companyId}`;
    const data = await search(tenant.key, 'needle');
    expect(data.groups).toEqual([]);
    expect(data.objects).not.toContain('accounts');
  });

  test('finds nothing of another tenant or the other mode', async () => {
    const [tenant, other] = await Promise.all([newTenant(), newTenant()]);
    const mine = await createRecord(tenant.key, 'accounts', { name: 'Needle live' });
    const tried = await createRecord(tenant.testKey, 'accounts', { name: 'Needle test' });
    await createRecord(other.key, 'accounts', { name: 'Needle foreign' });
    expect(listIds(await search(tenant.key, 'needle'), 'accounts')).toEqual([mine.id]);
    expect(listIds(await search(tenant.testKey, 'needle'), 'accounts')).toEqual([tried.id]);
  });

  test('finds and counts for a branch key only records of its branch and those that it created', async () => {
    const tenant = await newTenant();
    const branchId = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branchId}, 'West', now())`;
    const user = await newUser(tenant, { branchId });
    const key = await newKey(tenant, { reach: { kind: 'branch', id: branchId } });
    const visits = await newCustomObject(tenant, 'visits');
    await createRecord(tenant.key, 'accounts', { name: 'Needle of others' });
    await createRecord(tenant.key, visits, { name: 'Needle of others' });
    const assigned = await createRecord(tenant.key, 'accounts', { name: 'Needle of West', assigned_to: user.id });
    const own = await createRecord(key, 'accounts', { name: 'Needle of the key' });
    const visit = await createRecord(key, visits, { name: 'Needle' });
    const data = await search(key, 'needle');
    expect(listIds(data, 'accounts')).toEqual([own.id, assigned.id]);
    expect(listIds(data, visits)).toEqual([visit.id]);
    expect(data.total_hits).toBe(3);
  });

  test('limits search in large objects to visible records, regardless of the creator of others', async () => {
    const tenant = await newTenant();
    const branchId = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branchId}, 'West', now())`;
    const user = await newUser(tenant, { branchId });
    await database()`
      insert into leads (company_id, test_mode, id, first_name, assigned_to, created_by_kind, created_by_id, created_at, updated_at)
      select ${tenant.companyId}, false, gen_random_uuid(), 'Needle', case when n = 3 then ${user.id}::uuid end, 'system', 'x',
        timestamptz '2020-01-01' + n * interval '1 minute', now()
      from generate_series(1, 3000) n`;
    const key = await newKey(tenant, { reach: { kind: 'branch', id: branchId } });
    const data = await search(key, 'needle');
    expect(listHits(data, 'leads')).toMatchObject([{ record: { assigned_to: user.id } }]);
    expect(data.groups[0]).toMatchObject({ total: 1, total_capped: false });
    // Adds more newer records than a search scans. It may then miss older ones among so many of
    // others, and the response says so.
    await database()`
      insert into leads (company_id, test_mode, id, first_name, assigned_to, created_by_kind, created_by_id, created_at, updated_at)
      select ${tenant.companyId}, false, gen_random_uuid(), case when n > 1100 then 'Needle' else 'Other' end, case when n <= 1100 then ${user.id}::uuid end,
        'system', 'x', timestamptz '2021-01-01' + n * interval '1 minute', now()
      from generate_series(1, 8000) n`;
    expect(await search(key, 'needle')).toMatchObject({ total_capped: true });
  });

  test('limits an OAuth token to the records of its user', async () => {
    const tenant = await newTenant();
    await createRecord(tenant.key, 'accounts', { name: 'Needle' });
    const token = await newBearer(tenant, ['accounts:view']);
    const { body } = await expectStatus(200, 'GET', '/v1/search', { token, query: { q: 'needle' } });
    expect(body.data.objects).toEqual(['accounts']);
  });

  test('finds activities by summary and details', async () => {
    const tenant = await newTenant();
    const id = await newActivity(tenant, 'live');
    await database()`update activities set summary = 'Talked about needles' where company_id = ${tenant.companyId} and id = ${id}`;
    expect(listHits(await search(tenant.key, 'needle'), 'activities')).toMatchObject([
      { id, label: 'Talked about needles', matched_field: 'summary' },
    ]);
  });
});

describe('hostile queries', () => {
  test.each([
    ['too short', { q: 'a' }, ['q TOO_SHORT']],
    ['empty', { q: '' }, ['q TOO_SHORT']],
    ['missing', {}, ['q REQUIRED']],
    ['too long', { q: 'a'.repeat(101) }, ['q TOO_LONG']],
    ['with NUL', { q: 'ab\0c' }, ['q INVALID_FORMAT']],
    ['with an unknown parameter', { q: 'ab', filter: 'x' }, ['filter UNKNOWN_FIELD']],
  ])('rejects a q that is %s', async (_, query, problems) => {
    const { key } = await newTenant();
    expect(await refusedFields(400, 'GET', '/v1/search', { key, query: query as Record<string, string> })).toEqual(
      problems,
    );
  });

  test.each([
    ['%%'],
    ['__'],
    ['\\\\'],
    ["''"],
    ["' or 1=1 --"],
    ['"; drop table leads; --'],
    ['$1$2'],
    ['{a,b}'],
    ['\u0002sa'],
    ['\u0003sara'],
    ['\uFEFF\u200B'],
    ['😀'.repeat(100)],
    ['a'.repeat(100)],
    ['\t\n'],
    ['  '],
  ])('treats nothing in %j as syntax', async (q) => {
    const { key } = await newTenant();
    await createRecords(key, 'accounts', [{ name: 'Sara' }, { name: 'Plain' }]);
    expect((await search(key, q)).groups).toEqual([]);
  });
});

describe('search blocks', () => {
  /**
   * Creates old leads, which no search scans one by one, and waits until their texts are stored in
   * blocks.
   */
  async function newLargeTenant(rows: number): Promise<Tenant> {
    const tenant = await newTenant();
    await database()`
      insert into leads (company_id, test_mode, id, first_name, last_name, created_by_kind, created_by_id, created_at, updated_at)
      select ${tenant.companyId}, false, gen_random_uuid(), case when n = 1 then 'ΣΟΦΟΣ İ' when n <= ${rows - 1600} then 'Old' || n else 'New' end, 'Person', 'system', 'x',
        timestamptz '2020-01-01' + n * interval '1 minute', now()
      from generate_series(1, ${rows}::int) n`;
    await untilStored(tenant);
    return tenant;
  }
  async function untilStored({ companyId }: Pick<Tenant, 'companyId'>): Promise<void> {
    await expect.poll(() => database()`select from search_changes where company_id = ${companyId}`).toHaveLength(0);
  }
  const oldest = ({ companyId }: Tenant, name: string) =>
    database()<{ id: string }[]>`select id from leads where company_id = ${companyId} and first_name = ${name}`;

  test('finds parts, beginnings and whole texts in blocks with and without a signature', async () => {
    // Blocks have 256 records. 32 of them share a signature, and the rest has none yet.
    const tenant = await newLargeTenant(10_400);
    const [signatures] = await database()`
      select count(*)::int as count from search_signatures where company_id = ${tenant.companyId}`;
    expect(signatures?.count).toBe(1);
    for (const name of ['Old77', 'Old8500']) {
      const [row] = await oldest(tenant, name);
      for (const q of [name.toLowerCase(), `${name} Person`]) {
        const ids = listIds(await search(tenant.key, q, { limit: 1 }), 'leads');
        expect([q, ids]).toEqual([q, [row?.id]]);
      }
    }
    const { groups } = await search(tenant.key, 'ld8123', { limit: 25 });
    expect(groups[0]).toMatchObject({ total: 1, total_capped: false, hits: [{ matched_field: 'first_name' }] });
    expect((await search(tenant.key, 'old99999')).groups).toEqual([]);
    // JavaScript and PostgreSQL lower these differently.
    const [wise] = await oldest(tenant, 'ΣΟΦΟΣ İ');
    for (const q of ['ΣΟΦΟΣ', 'ΟΦΟΣ İ', 'Σ İ'])
      expect([q, listIds(await search(tenant.key, q), 'leads')]).toEqual([q, [wise?.id]]);
  });

  test('updates and deletes texts in blocks with their records', async () => {
    const tenant = await newLargeTenant(2000);
    const [[changed], [gone]] = await Promise.all([oldest(tenant, 'Old17'), oldest(tenant, 'Old18')]);
    await patchRecord(tenant.key, 'leads', String(changed?.id), { first_name: 'Zacharias' });
    await expectStatus(200, 'DELETE', recordsPath('leads', String(gone?.id)), { key: tenant.key });
    const check = async (): Promise<void> => {
      expect(listIds(await search(tenant.key, 'zacharias'), 'leads')).toEqual([changed?.id]);
      expect(listIds(await search(tenant.key, 'old17', { limit: 25 }), 'leads')).not.toContain(changed?.id);
      expect(listIds(await search(tenant.key, 'old18', { limit: 25 }), 'leads')).not.toContain(gone?.id);
    };
    await check();
    // The job removes the texts from the blocks, together with all other pending changes.
    await untilStored(tenant);
    await check();
    const texts = await database()<{ text: string }[]>`
      select text from search_blocks, unnest(texts) text where company_id = ${tenant.companyId}`;
    const lines = texts.map(({ text }) => text.split('\u001f'));
    expect(lines).toHaveLength(1999);
    expect(lines.filter((line) => line.includes('old17') || line.includes('old18'))).toEqual([]);
    expect(lines.filter((line) => line.includes('zacharias'))).toHaveLength(1);
  });

  test('removes a thousand records from their blocks in one run, for any number of blocks', async () => {
    const { companyId } = await newTenant();
    await database()`
      insert into search_blocks (company_id, test_mode, object, block, record_ids, texts)
      select ${companyId}, false, 'leads', block, array_agg(gen_random_uuid()), array_agg('x'::text)
      from generate_series(0, 2099) block, generate_series(1, 256)
      group by block`;
    await database()`
      insert into search_changes (company_id, test_mode, object, record_id, due_at)
      select company_id, test_mode, object, record_ids[1], now() from search_blocks where company_id = ${companyId} and block % 2 = 1`;
    await untilStored({ companyId });
    const sizes = await database()`
      select cardinality(record_ids) as ids, cardinality(texts) as texts, block % 2 = 1 as changed, count(*)::int as blocks
      from search_blocks where company_id = ${companyId}
      group by 1, 2, 3 order by 1`;
    expect(sizes).toEqual([
      { ids: 255, texts: 255, changed: true, blocks: 1050 },
      { ids: 256, texts: 256, changed: false, blocks: 1050 },
    ]);
  });

  test("sets the bits of every part of a block's texts in its signature", () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.string({ unit: 'grapheme', maxLength: 12 }), { maxLength: 4 }), {
          minLength: 1,
          maxLength: 32,
        }),
        fc.nat(),
        fc.nat(),
        fc.integer({ min: 2, max: 8 }),
        (blocks, block, start, length) => {
          const words = createSignature();
          for (const [at, texts] of blocks.entries()) markTexts(words, at, texts);
          const at = block % blocks.length;
          const text = blocks[at]?.[start % Math.max(1, blocks[at]?.length ?? 0)] ?? '';
          const part = text.slice(start % Math.max(1, text.length), (start % Math.max(1, text.length)) + length);
          fc.pre(part.length >= 2);
          expect(
            findBlocksWith(
              computePlaces(part).map((place) => words[place] as number),
              3,
            ),
          ).toContain(3 * 32 + at);
        },
      ),
      { seed },
    );
  });

  test('excludes most blocks without a part by their signature', () => {
    const words = createSignature();
    const texts = Array.from({ length: 256 }, (_, number) => `lead${number * 7919}@bluelake.example`);
    markTexts(words, 0, texts);
    const parts = Array.from({ length: 1000 }, (_, number) => `x${number}y`);
    const found = parts.filter(
      (part) =>
        findBlocksWith(
          computePlaces(part).map((place) => words[place] as number),
          0,
        ).length > 0,
    );
    expect(found.length).toBeLessThan(50);
  });
});
