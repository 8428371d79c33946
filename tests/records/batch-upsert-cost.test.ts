// The cost of looking up the items of a batch upsert among records without statistics.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { findMatchesOfEach } from '../../db/records/matches.ts';
import type { MatchedField } from '../../domain/records/match.ts';
import { call, expectStatus, type Json, useServer } from '../support/client.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { explaining } from '../support/explained-statements.ts';
import { forgetStatements, type StatementCost, statementCosts } from '../support/noted-statements.ts';
import { newCustomField, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, rowDatabase, type Tenant, useDatabase } from '../support/tenants.ts';

/** The numbers of leads in the company, each more than the one before. PostgreSQL has no statistics of them. */
const sizes = [500, 5_000, 10_000];
const items = 100;
/**
 * The pages of 8 KB that the look-up of one item may read: a few of each index and one of the
 * record, for each of two fields.
 */
const mostPagesOfItem = 30;

let databaseUrl: string;
let server: TestServer;
let tenant: Tenant;
// This database counts its statements, and has no statistics of the imported rows.
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
  for (const name of ['ext', 'shop', 'code']) await newCustomField(tenant, 'leads', name, { unique: name === 'code' });
  for (const table of ['leads', 'custom_value_hashes'])
    await database()`alter table ${database()(table)} set (autovacuum_enabled = false)`;
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  await useDatabase(undefined);
  await dropAllDatabases();
});

/** Adds leads up to this number. */
async function fill(rows: number): Promise<void> {
  await database()`
    insert into leads (company_id, test_mode, id, first_name, email, website, custom, version, created_by_kind, created_by_id, created_at, updated_at)
    select ${tenant.companyId}, false, gen_random_uuid(), 'Lead', 'lead' || n || '@x.example', 'https://x.example/' || n,
      jsonb_build_object('ext', 'E' || n, 'shop', 'S' || n % 7), 1, 'system', 'test',
      timestamptz '2025-01-01' + n * interval '1 second', now()
    from generate_series((select count(*) + 1 from leads where created_by_id = 'test'), ${rows}::int) n`;
}

/** Alternates between leads that exist and leads that do not. */
function buildBodies(rows: number): Record<string, string>[] {
  return Array.from({ length: items }, (_, index) => {
    const n = index % 2 ? rows * 1000 + index : Math.floor((index * rows) / items) + 1;
    const website = `https://x.example/${n}`;
    return { first_name: 'Lead', email: `lead${n}@x.example`, website, ext: `E${n}`, shop: `S${n % 7}` };
  });
}

/** Upserts leads. @returns the statements that it sent, with what they cost */
async function upsert(match_on: string[], records: object[]): Promise<StatementCost[]> {
  await forgetStatements(databaseUrl);
  const { body } = await expectStatus(200, 'POST', `${recordsPath('leads')}:batch-upsert`, {
    key: tenant.key,
    body: { match_on, records },
    idempotencyKey: true,
  });
  expect(body.data.failed).toEqual([]);
  return statementCosts(databaseUrl);
}

/** Returns the plans of a look-up, as a request of the tenant runs it. */
async function explainLookUp(sets: MatchedField[][]): Promise<string[]> {
  const plans: string[] = [];
  const { companyId } = tenant;
  const actor = { kind: 'api_key' as const, id: 'test', name: null };
  const scope = { companyId, testMode: false, reach: { kind: 'company' as const }, actor, userId: null };
  await rowDatabase().begin(async (sql) => {
    await sql`select set_config('app.company_id', ${companyId}, true), set_config('app.test_mode', 'false', true)`;
    await sql`set local role crm_app`;
    await findMatchesOfEach(explaining(sql, plans, 'explain analyze') as never, scope, 'leads', sets, 10);
  });
  return plans;
}

/** Checks that one statement was sent, at most as often as a busy machine makes the client repeat the call. */
function expectOne(sent: StatementCost[], mostPages: number): void {
  const [made, ...others] = sent;
  expect(others).toEqual([]);
  expect(made?.calls).toBeGreaterThan(0);
  // A busy machine may answer 503, and then the call is repeated.
  expect(made?.calls).toBeLessThan(5);
  expect((made?.pages ?? 0) / (made?.calls ?? 1)).toBeLessThan(mostPages);
}

describe.each(sizes)('among %i leads', (rows) => {
  beforeAll(() => fill(rows));

  test.each([
    ['a field of the workspace', ['ext'], items * mostPagesOfItem],
    // Each lead has one of seven shops, so the hashes of all leads are read, once for the whole
    // batch.
    ['two fields of the workspace', ['shop', 'ext'], 2 * rows + items * mostPagesOfItem],
    ['a built-in field', ['email'], items * mostPagesOfItem],
    ['a long built-in field', ['website'], items * mostPagesOfItem],
  ])('looks up all items in one statement by %s', async (_, match_on, mostPages) => {
    expectOne(selectLookUps(await upsert(match_on, buildBodies(rows))), mostPages);
  });

  test.each([
    ['ext', 'leads_pkey', (n: number) => `E${n}`],
    ['email', 'leads_by_email', (n: number) => `lead${n}@x.example`],
    ['website', 'leads_same_website_hash', (n: number) => `https://x.example/${n}`],
  ])('reads only leads with the wanted values of %s, by the index %s', async (field, index, toValue) => {
    const sets = buildBodies(rows).map((_, item) => [{ field, value: toValue(item + 1) }]);
    const [plan = '', ...others] = await explainLookUp(sets);
    expect(others).toEqual([]);
    expect(plan.match(/Scan [a-zA-Z ]*using (leads_\w+)/g), plan).toEqual([expect.stringContaining(index)]);
    expect(plan).not.toMatch(/Seq Scan|Rows Removed by Filter/);
  });

  test('finds the holders of unique values in one statement, by their hashes', async () => {
    const records = Array.from({ length: items }, (_, index) => ({
      first_name: 'New',
      email: `new${rows}-${index}@x.example`,
      code: `C${rows}-${index}`,
    }));
    const sent = await upsert(['code'], records);
    expectOne(selectLookUps(sent), items * mostPagesOfItem);
    expectOne(
      sent.filter(({ text }) => text.includes('as stored')),
      items * mostPagesOfItem,
    );
  });
});

test.each([1, 100])(
  'writes the tags of %i records with one statement, and reads those of changed records with one',
  async (count) => {
    const tags = ['Fair', 'VIP', 'Newsletter'];
    for (const name of tags) await newTag(name);
    const body = Array.from({ length: count }, (_, index) => ({
      first_name: 'T',
      email: `t${index}@x.example`,
      tags: tags.slice(index % 3),
    }));
    const send = async (verb: string, records: object[]): Promise<Json[]> => {
      await forgetStatements(databaseUrl);
      const path = `${recordsPath('leads')}:${verb}`;
      const answer = await expectStatus(200, 'POST', path, {
        key: tenant.key,
        body: { records },
        idempotencyKey: true,
      });
      expect(answer.body.data.failed_count).toBe(0);
      return answer.body.data.succeeded;
    };
    /**
     * Returns the statements about tags of records. Each was sent once unless a busy machine
     * answered 503.
     */
    const ofTags = async (): Promise<StatementCost[]> =>
      (await statementCosts(databaseUrl)).filter(({ text }) => text.includes('record_tags'));
    const made = await send('batch', body);
    const [written, ...others] = await ofTags();
    expect([written?.rows, others]).toEqual([body.reduce((sum, each) => sum + each.tags.length, 0), []]);
    expect(written?.calls).toBeLessThan(5);
    await send(
      'batch-update',
      made.map(({ record }, index) => ({ id: record.id, tags: tags.slice((index + 1) % 3) })),
    );
    const sent = await ofTags();
    expect(sent.map(({ text }) => /^\s*(select|with)/.exec(text)?.[1]).toSorted()).toEqual(['select', 'with']);
    for (const { calls } of sent) expect(calls).toBeLessThan(5);
  },
);

async function newTag(name: string): Promise<void> {
  await call('POST', '/v1/settings/tags/leads', { key: tenant.key, body: { name, fields: [] } });
}

/** Returns the statements that look up leads: they order by age and have a limit. */
const selectLookUps = (sent: readonly StatementCost[]): StatementCost[] =>
  sent.filter(
    ({ text }) => text.includes('"leads" r') && /order by.*created_at/.test(text) && /limit|match_rank/.test(text),
  );
