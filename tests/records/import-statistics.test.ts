// After a large import, PostgreSQL plans with the statistics of the rows that it wrote.
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { PausedJobs } from '../support/paused-jobs.ts';
import { createSetting } from '../support/settings.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

/** A database of its own, whose statistics no other test changes. */
let paused: PausedJobs;
let tenant: Tenant;
let key: string;

beforeAll(async () => {
  paused = await PausedJobs.of('sweeps');
  tenant = await newTenant();
  key = tenant.key;
  // So that only the import analyzes.
  for (const table of ['leads', 'accounts', 'customers', 'record_tags', 'custom_value_hashes'])
    await database().unsafe(`alter table ${table} set (autovacuum_enabled = off)`);
});
afterAll(() => paused?.close());

/** @returns its id */
async function start(object: string, rows: readonly string[], options: Json = {}): Promise<string> {
  const body = { object, check_duplicates: false, ...options };
  const { id } = (await expectStatus(201, 'POST', '/v1/imports', { key, body })).body.data.import;
  await expectStatus(200, 'POST', `/v1/imports/${id}/parts?number=1`, {
    key,
    rawBody: Buffer.from(rows.join('\n')),
    headers: { 'content-type': 'text/csv' },
  });
  await expectStatus(202, 'POST', `/v1/imports/${id}/start`, { key });
  return id;
}

const waitFor = (id: string, isReached: (found: Json) => boolean): Promise<Json> =>
  vi.waitUntil(
    async () => {
      const found = (await expectStatus(200, 'GET', `/v1/imports/${id}`, { key })).body.data.import;
      return isReached(found) && found;
    },
    { timeout: 60_000, interval: 20 },
  );

async function run(object: string, rows: readonly string[], options: Json = {}): Promise<Json> {
  return waitFor(await start(object, rows, options), ({ status }) => ['completed', 'failed'].includes(status));
}

async function readEstimate(table: string): Promise<number> {
  const [row] = await database().unsafe(
    `explain (format json) select from ${table} where company_id = '${tenant.companyId}' and not test_mode`,
  );
  return row?.['QUERY PLAN'][0].Plan['Plan Rows'];
}

const countAnalyzed = async (table: string): Promise<number> => {
  const [row] = await database()`
    select reltuples::int as rows from pg_class where oid = ${table}::regclass`;
  return row?.rows;
};

test('an import of 5,000 rows refreshes the statistics of the records and their tags', async () => {
  await createSetting(tenant, '/v1/settings/tags/leads', { name: 'Fair', fields: [] });
  const rows = Array.from({ length: 5000 }, (_, row) => `L${row},l${row}@bluelake.example,Fair`);
  const done = await run('leads', ['first_name,email,tags', ...rows]);
  expect(done).toMatchObject({ status: 'completed', counts: { created: 5000 } });
  await vi.waitUntil(async () => (await countAnalyzed('leads')) >= 5000, { timeout: 10_000, interval: 20 });
  expect(await countAnalyzed('record_tags')).toBeGreaterThanOrEqual(5000);
  expect(await readEstimate('leads')).toBeGreaterThan(2500);
  expect(await readEstimate('record_tags')).toBeGreaterThan(2500);
  const filter = JSON.stringify({ field: 'tags', op: 'in', value: ['Fair'] });
  const query = { filter, count: 'true', limit: '1' };
  const { body } = await expectStatus(200, 'GET', '/v1/objects/leads/records', { key, query });
  expect(body.data.total).toBe(5000);
});

test('a small import and a dry run do not', async () => {
  const analyzed = await countAnalyzed('accounts');
  const build = (count: number) => ['name', ...Array.from({ length: count }, (_, row) => `A${row}`)];
  await run('accounts', build(900));
  await run('accounts', build(1500), { dry_run: true });
  expect(await countAnalyzed('accounts')).toBe(analyzed);
});

test('a cancelled import refreshes the statistics, too', async () => {
  const names = Array.from({ length: 20_000 }, (_, row) => `C${row}`);
  const id = await start('customers', ['first_name', ...names]);
  await waitFor(id, ({ counts }) => counts.created >= 1000);
  await expectStatus(202, 'POST', `/v1/imports/${id}/cancel`, { key });
  await vi.waitUntil(async () => (await countAnalyzed('customers')) >= 1000, { timeout: 10_000, interval: 20 });
});

test('a table is analyzed if a tenth of its rows changed, or as many as it has within a minute', async () => {
  // A table that no import fills, with the estimate of rows that the last ANALYZE would have left.
  const sql = postgres(paused.url, { max: 1 });
  const refresh = async (written: number): Promise<number> => {
    await sql`select analyze_records('tasks', ${written})`;
    const [row] = await sql<{ count: number }[]>`select pg_stat_get_analyze_count('tasks'::regclass)::int as count`;
    return row?.count ?? -1;
  };
  try {
    await sql`update pg_class set reltuples = 1000 where oid = 'tasks'::regclass`;
    await sql`select pg_stat_reset_single_table_counters('tasks'::regclass)`;
    expect(await refresh(100)).toBe(0);
    expect(await refresh(101)).toBe(1);
    await sql`update pg_class set reltuples = 1000 where oid = 'tasks'::regclass`;
    expect(await refresh(1000)).toBe(1);
    expect(await refresh(1001)).toBe(2);
  } finally {
    await sql.end();
  }
});

test('a table that another process has locked is left out, and the others are analyzed', async () => {
  const before = await countAnalyzed('accounts');
  const holder = postgres(paused.url, { max: 1 });
  const held = await holder.reserve();
  await held`begin`;
  await held`lock table record_tags in share update exclusive mode`;
  try {
    const rows = ['name', ...Array.from({ length: 1500 }, (_, row) => `B${row}`)];
    expect(await run('accounts', rows)).toMatchObject({ status: 'completed', counts: { created: 1500 } });
    await vi.waitUntil(async () => (await countAnalyzed('accounts')) >= Math.max(before, 0) + 1500, {
      timeout: 10_000,
      interval: 20,
    });
  } finally {
    await held`rollback`;
    held.release();
    await holder.end();
  }
});

test('an import is completed although its tables cannot be analyzed', async () => {
  await database()`revoke execute on function analyze_records(text, int) from crm_app`;
  const rows = ['name', ...Array.from({ length: 1500 }, (_, row) => `D${row}`)];
  expect(await run('accounts', rows)).toMatchObject({ status: 'completed', counts: { created: 1500 } });
  await vi.waitUntil(() => paused.output().includes('failed to refresh statistics'), { timeout: 10_000 });
});
