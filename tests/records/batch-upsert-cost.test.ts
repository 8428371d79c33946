// The cost of looking up the items of a batch upsert, right after an import.
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { call, expectStatus, type Json, useServer } from '../support/client.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { forgetStatements, type StatementCost, statementCosts } from '../support/noted-statements.ts';
import { newCustomField, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

/** The number of imported leads. */
// Without statistics, PostgreSQL guesses the number of rows from the size of the table. With 5,000 of
// them, reading all of the company's records seems as cheap as a hundred look-ups in an index.
const rows = Number(process.env.UPSERT_ROWS ?? 10_000);
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
  for (const name of ['ext', 'shop']) await newCustomField(tenant, 'leads', name);
  const sql = database();
  for (const table of ['leads', 'custom_value_hashes'])
    await sql`alter table ${sql(table)} set (autovacuum_enabled = false)`;
  await sql`
    insert into leads (company_id, test_mode, id, first_name, email, website, custom, version, created_by_kind, created_by_id, created_at, updated_at)
    select ${tenant.companyId}, false, gen_random_uuid(), 'Lead', 'lead' || n || '@x.example', 'https://x.example/' || n,
      jsonb_build_object('ext', 'E' || n, 'shop', 'S' || n % 7), 1, 'system', 'test', now(), now()
    from generate_series(1, ${rows}::int) n`;
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  await useDatabase(undefined);
  await dropAllDatabases();
});

/** Alternates between leads that exist and leads that do not. */
const bodies = Array.from({ length: items }, (_, index) => {
  const n = index % 2 ? rows + index : Math.floor((index * rows) / items) + 1;
  const website = `https://x.example/${n}`;
  return { first_name: 'Lead', email: `lead${n}@x.example`, website, ext: `E${n}`, shop: `S${n % 7}` };
});

test.each([
  ['a field of the workspace', ['ext'], items * mostPagesOfItem],
  // Each lead has one of seven shops, so the hashes of all leads are read, once for the whole
  // batch.
  ['two fields of the workspace', ['shop', 'ext'], 2 * rows],
  ['a built-in field', ['email'], items * mostPagesOfItem],
  ['a long built-in field', ['website'], items * mostPagesOfItem],
])('looks up all items in one statement by %s', async (_, match_on, mostPages) => {
  const before = await lookUps();
  const started = performance.now();
  const { body } = await expectStatus(200, 'POST', `${recordsPath('leads')}:batch-upsert`, {
    key: tenant.key,
    body: { match_on, records: bodies },
    idempotencyKey: true,
  });
  if (process.env.UPSERT_ROWS) process.stdout.write(`${match_on}: ${Math.round(performance.now() - started)} ms\n`);
  expect(body.data).toMatchObject({ succeeded_count: items, failed_count: 0 });

  const sent = (await lookUps()).map(({ text, calls, pages }) => {
    const known = before.find((each) => each.text === text);
    return { text, calls: calls - (known?.calls ?? 0), pages: pages - (known?.pages ?? 0) };
  });
  const [made, ...others] = sent.filter(({ calls }) => calls > 0);
  expect(others).toEqual([]);
  // A busy machine may answer 503, and then the call is repeated.
  expect(made?.calls).toBeLessThan(5);
  expect((made?.pages ?? 0) / (made?.calls ?? 1)).toBeLessThan(mostPages);
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
async function lookUps(): Promise<StatementCost[]> {
  const costs = await statementCosts(databaseUrl);
  return costs.filter(
    ({ text }) => text.includes('"leads" r') && /order by.*created_at/.test(text) && /limit|match_rank/.test(text),
  );
}
