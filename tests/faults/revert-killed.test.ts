// A server killed while it applies a revert: the next one goes on, and writes each record once.
import { randomUUID } from 'node:crypto';
import { afterAll, expect, test, vi } from 'vitest';
import { call, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { createRecords } from '../support/records.ts';
import { database, newKey, newTenant, useDatabase } from '../support/tenants.ts';
import { OwnServer } from './support/own-server.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';

const records = Number(process.env.RECORDS ?? 6_000);
const kills = Number(process.env.KILLS ?? 6);
let server: OwnServer | undefined;
let url: string | undefined;

afterAll(async () => {
  useServer(undefined);
  await server?.end();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

test(`${kills} times kill -9 during a revert lose and double no record`, { timeout: 300_000 }, async () => {
  const random = new Random();
  process.stdout.write(`faults: the seed of the kills is ${random.seed}\n`);
  url = await newDatabase();
  await useDatabase(url);
  const tenant = await newTenant();
  const { companyId } = tenant;
  const key = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
  server = await OwnServer.start(settingsFor(url, '.test-data'));
  useServer(server.url);
  const sql = database();
  // One half was created, and the other changed, by one request.
  const [first] = await createRecords(key, 'accounts', [{ name: 'R', city: 'Berlin' }]);
  const request = randomUUID();
  await sql`
    insert into accounts (company_id, test_mode, id, name, city, custom, version, created_by_kind, created_by_id, created_at, updated_at)
    select company_id, test_mode, gen_random_uuid(), name, case when n % 2 = 0 then 'Rome' end, custom, 1, created_by_kind, created_by_id,
      created_at, updated_at
    from accounts, generate_series(1, ${records}) n
    where company_id = ${companyId} and id = ${first.id}`;
  await sql`
    insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, object, record_id, changes, test_mode)
    select company_id, gen_random_uuid(), now(), 'system', 'test', ${request}, '',
      case when city = 'Rome' then 'account.update' else 'account.create' end, 'accounts', id::text,
      case when city = 'Rome' then '{"city": {"from": "Berlin", "to": "Rome"}}'::jsonb end, false
    from accounts where company_id = ${companyId} and id <> ${first.id}`;
  const created = await call('POST', '/v1/reverts', { key, body: { request_id: request } });
  const { id } = created.body.data.revert;
  const position = async (): Promise<Json> =>
    (
      await sql`select status, phase, done, read_id, next_record from reverts where company_id = ${companyId} and id = ${id}`
    )[0];
  const kill = async (): Promise<void> => {
    await server?.restart();
    // As if the lease had ended.
    await sql`update reverts set due_at = now() where company_id = ${companyId} and id = ${id} and due_at is not null`;
  };
  // One while it is planned.
  await kill();
  const read = async (): Promise<Json> => (await call('GET', `/v1/reverts/${id}`, { key })).body.data.revert;
  const planned = await vi.waitUntil(
    async () => {
      const found = await read();
      return found.status === 'planned' && found;
    },
    { timeout: 60_000, interval: 20 },
  );
  expect(planned.counts).toMatchObject({ records, operations: records, conflicts: 0 });
  const body = { digest: planned.digest, conflicts: 'fail' };
  expect((await call('POST', `/v1/reverts/${id}/apply`, { key, body })).status).toBe(202);
  for (let each = 1; each < kills; each += 1) {
    const before = (await position()).done;
    const chunks = random.whole(0, 2);
    await vi.waitUntil(
      async () => {
        const now = await position();
        return now.status === 'completed' || now.done >= before + 500 * chunks;
      },
      { timeout: 60_000, interval: 2 },
    );
    await kill();
  }
  const done = await vi.waitUntil(
    async () => {
      const found = await read();
      return found.status === 'completed' && found;
    },
    { timeout: 120_000, interval: 100 },
  );
  expect(done.counts).toMatchObject({ reverted: records, skipped: 0, conflicts: 0 });
  const [left] = await sql`
    select count(*)::int as records, count(*) filter (where city = 'Berlin' and version = 2)::int as changed
    from accounts where company_id = ${companyId} and id <> ${first.id}`;
  expect(left).toEqual({ records: records / 2, changed: records / 2 });
  const [trash] = await sql`select count(*)::int as records from deleted_records where company_id = ${companyId}`;
  expect(trash).toEqual({ records: records / 2 });
  const [audit] = await sql`
    select count(*)::int as rows, count(distinct record_id)::int as records from audit_logs
    where company_id = ${companyId} and request_id = ${id}`;
  expect(audit).toEqual({ rows: records, records });
  expect(server.failures).toEqual([]);
});
