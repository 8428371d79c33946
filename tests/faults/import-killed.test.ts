// A server killed while it runs an import: the next one goes on, with no row lost or written twice.
import { afterAll, expect, test, vi } from 'vitest';
import { call, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { database, newKey, newTenant, useDatabase } from '../support/tenants.ts';
import { OwnServer } from './support/own-server.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';

const rows = Number(process.env.ROWS ?? 12_000);
const kills = Number(process.env.KILLS ?? 6);
let server: OwnServer | undefined;
let url: string | undefined;

afterAll(async () => {
  useServer(undefined);
  await server?.end();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

test(`an import loses and repeats no row, although the server is killed ${kills} times`, {
  timeout: 300_000,
}, async () => {
  const random = new Random();
  process.stdout.write(`faults: the seed of the kills is ${random.seed}\n`);
  // The job of another server has no access to the files of this one.
  url = await newDatabase();
  await useDatabase(url);
  const tenant = await newTenant();
  const key = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
  server = await OwnServer.start(settingsFor(url, '.test-data'));
  useServer(server.url);
  // One of ten rows fails.
  const lines = Array.from({ length: rows }, (_, row) => (row % 10 === 9 ? `,${row}` : `R${row},${row}`));
  const created = await call('POST', '/v1/imports', { key, body: { object: 'accounts', mapping: { row: 'city' } } });
  const { id } = created.body.data.import;
  const headers = { 'content-type': 'text/csv' };
  await call('POST', `/v1/imports/${id}/parts?number=1`, { key, headers, rawBody: `name,row\n${lines.join('\n')}\n` });
  expect((await call('POST', `/v1/imports/${id}/start`, { key })).status).toBe(202);

  const sql = database();
  const position = async (): Promise<Json> => (await sql`select next_row, status from imports where id = ${id}`)[0];
  for (let kill = 0; kill < kills; kill += 1) {
    const before = (await position()).next_row;
    const chunks = random.whole(0, 2);
    await vi.waitUntil(
      async () => {
        const now = await position();
        return now.status === 'completed' || now.next_row >= before + 500 * chunks;
      },
      { timeout: 60_000, interval: 2 },
    );
    await server.restart();
    // As if the lease had ended.
    await sql`update imports set due_at = now() where id = ${id} and due_at is not null`;
  }
  const done = await vi.waitUntil(
    async () => {
      const answer = await call('GET', `/v1/imports/${id}`, { key });
      return answer.body.data.import.status === 'completed' && answer.body.data.import;
    },
    { timeout: 120_000, interval: 100 },
  );
  const failed = Math.floor(rows / 10);
  expect(done.counts).toMatchObject({ read: rows, created: rows - failed, failed });
  const [stored] = await sql`
    select count(*)::int as records, count(distinct name)::int as names from accounts where company_id = ${tenant.companyId}`;
  expect(stored).toEqual({ records: rows - failed, names: rows - failed });
  const [audit] = await sql`
    select count(*)::int as rows, count(distinct record_id)::int as records from audit_logs
    where company_id = ${tenant.companyId} and action = 'account.create'`;
  expect(audit).toEqual({ rows: rows - failed, records: rows - failed });
  const [errors] = await sql`select count(*)::int as rows from import_errors where import_id = ${id}`;
  expect(errors).toEqual({ rows: failed });
  const [charged] = await sql`select charged_rows from imports where id = ${id}`;
  expect(charged).toEqual({ charged_rows: rows });
  expect(server.failures).toEqual([]);
});
