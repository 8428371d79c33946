// The cost of lists and counts by tag among records without and with statistics.
import type { Fragment } from 'postgres';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { expectStatus, type Json, useServer } from '../support/client.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { forgetStatements, statementCosts } from '../support/noted-statements.ts';
import { recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { createSetting } from '../support/settings.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

const rows = 6_000;

let databaseUrl: string;
let server: TestServer;
let tenant: Tenant;
// This database counts its statements, and has no statistics of the rows.
beforeAll(async () => {
  databaseUrl = await newDatabase();
  server = await startServer({
    ...testSettings,
    DATABASE_URL: databaseUrl,
    SECRET_KEY: inject('secretKey'),
    DATA_DIR: '.test-data',
  });
  useServer(server.url);
  await useDatabase(databaseUrl);
  tenant = await newTenant();
  for (const table of ['leads', 'record_tags'])
    await database()`alter table ${database()(table)} set (autovacuum_enabled = false)`;
  await insertLeads(tenant, rows);
  // More records have the second one than are read one by one.
  for (const [name, tagged] of [
    ['Third', database()`n % 3 = 0`],
    ['Most', database()`n > 500`],
    ['Rare', database()`n <= 3`],
  ] as const) {
    await tagLeads(tenant, name, rows, tagged);
  }
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  await useDatabase(undefined);
  await dropAllDatabases();
});

async function insertLeads({ companyId }: Tenant, count: number): Promise<void> {
  await database()`
    insert into leads (company_id, test_mode, id, first_name, city, version, created_by_kind, created_by_id, created_at, updated_at)
    select ${companyId}, false, md5(${companyId}::text || n)::uuid, (array['Even', 'Odd'])[1 + n % 2], case when n % 5 > 0 then 'City ' || n % 5 end, 1,
      'system', 'test', timestamptz '2025-01-01' + n * interval '1 second', now()
    from generate_series(1, ${count}::int) n`;
}

/** Adds a tag to those of the first leads that pass a condition on their number `n`. */
async function tagLeads(of: Tenant, name: string, count: number, passes: Fragment): Promise<void> {
  const tag = await createSetting(of, '/v1/settings/tags/leads', { name, fields: [] });
  await database()`
    insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
    select ${of.companyId}, false, 'leads', md5(${of.companyId}::text || n)::uuid, ${tag.id}, true
    from generate_series(1, ${count}::int) n where ${passes}`;
}

const has = (...value: string[]) => ({ field: 'tags', op: 'in', value });
const hasNone = (...value: string[]) => ({ field: 'tags', op: 'not_in', value });
const isNull = (value: boolean) => ({ field: 'tags', op: 'is_null', value });
const isOdd = { field: 'first_name', op: 'eq', value: 'Odd' };

/**
 * The pages of 8 KB that a page of the list may read in an order with index, and what it may read in
 * another and a count: about half more than they do. Twice the reading exceeds it.
 */
test.each<[string, Json, number, number, number]>([
  ['few records', has('Third'), 2000, 12_000, 12_000],
  ['many records', has('Most'), 5500, 8_000, 40_000],
  ['one of two tags', has('Third', 'Most'), 5666, 8_000, 45_000],
  ['one of two rare tags', has('Rare', 'Third'), 2002, 12_000, 12_000],
  ['any tag', isNull(false), 5668, 10_000, 48_000],
  ['no tag', isNull(true), 332, 25_000, 27_000],
  ['none of two', hasNone('Third', 'Most'), 334, 36_000, 39_000],
  ['one tag of few and a value', { and: [isOdd, has('Third')] }, 1000, 12_000, 15_000],
  ['one tag of many and a value', { and: [isOdd, has('Most')] }, 2750, 9_000, 33_000],
  ['two tags', { and: [has('Most'), has('Third')] }, 1834, 28_000, 28_000],
  ['two tags, one of few', { and: [has('Third'), has('Rare', 'Most'), isOdd] }, 918, 22_000, 24_000],
  ['one tag and not another', { and: [has('Most'), hasNone('Third')] }, 3666, 9_000, 56_000],
])(
  'lists and counts records with %s, and reads each at most once',
  async (_, filter, total, mostInOrder, mostInAll) => {
    for (const [sort, mostOfPage] of [
      ['-created_at', mostInOrder],
      ['city', mostInOrder],
      ['-lead_status,first_name', mostInAll],
    ] as const) {
      await forgetStatements(databaseUrl);
      const query = { filter: JSON.stringify(filter), count: 'true', sort, limit: 100 };
      const { body } = await expectStatus(200, 'GET', recordsPath('leads'), { key: tenant.key, query });
      expect(body.data.total).toBe(total);
      expect(new Set(body.data.records.map(({ id }: Json) => id)).size).toBe(100);
      const sent = (await statementCosts(databaseUrl)).filter(({ text }) => text.includes('record_tags t'));
      expect(sent.length).toBeGreaterThan(1);
      for (const { pages, calls, text } of sent)
        expect(pages / calls, text).toBeLessThan(text.includes('count(*) as total') ? mostInAll : mostOfPage);
    }
  },
);

describe('if few of many records have a tag, and PostgreSQL has statistics', () => {
  const all = 20_000;
  let other: Tenant;
  beforeAll(async () => {
    other = await newTenant();
    await insertLeads(other, all);
    await tagLeads(other, 'Old', all, database()`n <= 6000`);
    await tagLeads(other, 'Halves', all, database()`n <= 12000 and n % 2 = 0`);
    await database()`analyze leads, record_tags`;
  });

  test.each<[string, Json, number]>([
    ['the tag', has('Old'), 6000],
    ['the tag and a value', { and: [{ field: 'first_name', op: 'contains', value: 'DD' }, has('Old')] }, 3000],
    ['two such tags', { and: [has('Old'), has('Halves')] }, 3000],
  ])(
    'records with %s are listed in an order without index and counted, and tags are read once',
    async (_, filter, total) => {
      await forgetStatements(databaseUrl);
      const query = { filter: JSON.stringify(filter), count: 'true', sort: '-lead_status,first_name', limit: 100 };
      const { body } = await expectStatus(200, 'GET', recordsPath('leads'), { key: other.key, query });
      expect(body.data.total).toBe(total);
      expect(body.data.records).toHaveLength(100);
      const sent = (await statementCosts(databaseUrl)).filter(({ text }) => text.includes('record_tags t'));
      expect(sent.length).toBeGreaterThan(1);
      // One look-up for each lead would already read three pages of each.
      for (const { pages, calls, text } of sent) expect(pages / calls, text).toBeLessThan(2 * all);
    },
  );

  test.each<[string, (id: string) => Json]>([
    ['an id and one tag', (id) => ({ and: [has('Old'), { field: 'id', op: 'eq', value: id }] })],
    ['ids and two tags', (id) => ({ and: [has('Halves'), { field: 'id', op: 'in', value: [id] }, has('Old')] })],
    ['an indexed value and one tag', () => ({ and: [{ field: 'first_name', op: 'eq', value: 'Unique' }, has('Old')] })],
  ])('a record with %s is found and counted without reading others with the tag', async (_, filter) => {
    const [{ id } = {}] = await database()`
      update leads set first_name = 'Unique'
      where company_id = ${other.companyId} and created_at = timestamptz '2025-01-01' + interval '4 seconds' returning id`;
    await forgetStatements(databaseUrl);
    const query = { filter: JSON.stringify(filter(id)), count: 'true' };
    const { body } = await expectStatus(200, 'GET', recordsPath('leads'), { key: other.key, query });
    expect(body.data).toMatchObject({ total: 1, records: [{ id }] });
    const sent = (await statementCosts(databaseUrl)).filter(({ text }) => text.includes('record_tags t'));
    expect(sent.length).toBeGreaterThan(1);
    for (const { pages, calls, text } of sent) expect(pages / calls, text).toBeLessThan(100);
  });
});
