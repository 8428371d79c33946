// A server killed while it applies a change set: nothing is applied, and the set stays pending.
import { randomUUID } from 'node:crypto';
import { afterAll, expect, test, vi } from 'vitest';
import { call, expectStatus, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { adminToken } from '../support/sessions.ts';
import { database, newTenant, useDatabase } from '../support/tenants.ts';
import { OwnServer } from './support/own-server.ts';
import { settingsFor } from './support/settings.ts';

const path = '/v1/change-sets';
const records = '/v1/objects/accounts/records';
let server: OwnServer | undefined;
let url: string | undefined;

afterAll(async () => {
  useServer(undefined);
  await server?.end();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

test('a set whose application is cut off can be applied later', { timeout: 120_000 }, async () => {
  url = await newDatabase();
  await useDatabase(url);
  const tenant = await newTenant();
  server = await OwnServer.start(settingsFor(url, '.test-data'));
  useServer(server.url);
  const token = await adminToken(tenant);
  const name = randomUUID();
  const operations = [
    { method: 'POST', path: records, body: { name }, ref: 'account' },
    { method: 'POST', path: `${records}/$ref.account.id/notes`, body: { content: 'Called' } },
  ];
  const body = { title: 'Two operations', operations };
  const proposed = await expectStatus(201, 'POST', path, { key: tenant.key, body });
  const { id, digest } = proposed.body.data.change_set;
  const approve = () => call('POST', `${path}/${id}/approve`, { token, body: { digest } });
  const sql = database();
  const count = async (): Promise<object | undefined> =>
    (
      await sql`
        select (select count(*)::int from accounts where company_id = ${tenant.companyId}) as accounts,
          (select count(*)::int from notes where company_id = ${tenant.companyId}) as notes,
          (select status from change_sets where company_id = ${tenant.companyId} and id = ${id}) as status,
          (select count(*)::int from audit_logs where company_id = ${tenant.companyId} and action = 'change_set.approve') as audits`
    )[0];

  // The second operation waits for this lock, after the first one was carried out.
  const holder = await sql.reserve();
  await holder`begin`;
  await holder`lock table notes in exclusive mode`;
  const cut = approve().catch((error: Error) => error);
  const waiting = () => holder<{ pid: number }[]>`
    select pid from pg_locks where relation = 'notes'::regclass and not granted`;
  const [blocked] = await vi.waitUntil(
    async () => {
      const found = await waiting();
      return found.length > 0 && found;
    },
    { timeout: 30_000, interval: 5 },
  );
  await server.kill();
  await cut;
  await holder`commit`;
  holder.release();
  await vi.waitUntil(
    async () => (await sql`select from pg_stat_activity where pid = ${blocked?.pid ?? 0}`).length === 0,
    { timeout: 30_000, interval: 20 },
  );
  expect(await count()).toEqual({ accounts: 0, notes: 0, status: 'pending', audits: 0 });

  await server.restart();
  const applied = await vi.waitUntil(
    async () => {
      const answer = await approve();
      return answer.status !== 503 && answer;
    },
    { timeout: 30_000, interval: 50 },
  );
  expect(applied).toMatchObject({ status: 200, body: { data: { change_set: { status: 'applied' } } } });
  expect(await count()).toEqual({ accounts: 1, notes: 1, status: 'applied', audits: 1 });
  expect(server.failures).toEqual([]);
});
