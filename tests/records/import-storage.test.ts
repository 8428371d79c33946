// Imports with files in S3 storage: stored in parts, and read again after a failure.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { call, expectStatus, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { ObjectStore } from '../support/object-store.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

const url = '/v1/imports';
const folder = mkdtempSync(join(tmpdir(), 'crm-imports-'));
let databaseUrl: string;
let store: ObjectStore;
let server: TestServer;
let tenant: Tenant;
let key: string;

// A database of its own, because a server with another storage must not run the imports.
beforeAll(async () => {
  databaseUrl = await newDatabase();
  store = await ObjectStore.start(join(folder, 'store'));
  server = await startServer({
    ...testSettings,
    DATABASE_URL: databaseUrl,
    SECRET_KEY: inject('secretKey'),
    DATA_DIR: folder,
    STORAGE: store.address,
  });
  useServer(server.url);
  await useDatabase(databaseUrl);
  tenant = await newTenant();
  key = tenant.key;
});

afterAll(async () => {
  useServer(undefined);
  await useDatabase(undefined);
  await server?.stop();
  await store?.close();
  rmSync(folder, { recursive: true, force: true });
  if (databaseUrl) await dropDatabase(databaseUrl);
});

/** Lets two copies of an import run, so that it waits. */
async function holdImports(id: string): Promise<void> {
  await database()`
    insert into imports
    select (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'status', 'running', 'due_at', now() + interval '1 hour'))).*
    from imports r, generate_series(1, 2) where company_id = ${tenant.companyId} and id = ${id}`;
}

async function releaseImports(): Promise<void> {
  await database()`
    delete from imports where company_id = ${tenant.companyId} and status = 'running' and due_at > now() + interval '30 minutes'`;
}

const create = async (): Promise<string> =>
  (await expectStatus(201, 'POST', url, { key, body: { object: 'accounts' } })).body.data.import.id;
const upload = (id: string, number: number, content: Buffer) =>
  call('POST', `${url}/${id}/parts?number=${number}`, {
    key,
    rawBody: content,
    headers: { 'content-type': 'text/csv' },
  });
const untilEnded = (id: string): Promise<Json> =>
  vi.waitUntil(
    async () => {
      const { body } = await expectStatus(200, 'GET', `${url}/${id}`, { key });
      return ['completed', 'failed'].includes(body.data.import.status) && body.data.import;
    },
    { timeout: 60_000, interval: 50 },
  );

test('the file of an import is stored in parts and read across them, and so is the file of its failed rows', async () => {
  const id = await create();
  const wide = 'w'.repeat(4500);
  const rows = Array.from({ length: 3000 }, (_, row) => (row % 1000 === 999 ? `,${wide}` : `Über ${row},${wide}`));
  const content = Buffer.from(`name,description\n${rows.join('\n')}\n`);
  // In the middle of a character.
  const border = content.indexOf('Ü', content.length / 2) + 1;
  for (const [index, part] of [content.subarray(0, border), content.subarray(border)].entries())
    expect((await upload(id, index + 1, part)).status).toBe(200);
  const parts = await database()<{ fileId: string }[]>`
    select file_id as "fileId" from import_parts where company_id = ${tenant.companyId} and import_id = ${id}`;
  const stored = readdirSync(join(folder, 'store', 'files', tenant.companyId, 'live'));
  for (const { fileId } of parts) expect(stored.some((name) => name.startsWith(fileId))).toBe(true);
  await expectStatus(202, 'POST', `${url}/${id}/start`, { key });
  const done = await untilEnded(id);
  expect(done).toMatchObject({ status: 'completed', counts: { read: 3000, created: 2997, failed: 3 } });
  const [found] = await database()`
    select count(*)::int as rows, count(distinct name)::int as names from accounts
    where company_id = ${tenant.companyId} and name like 'Über %' and length(description) = 4500`;
  expect(found).toEqual({ rows: 2997, names: 2997 });
  const errors = await expectStatus(200, 'GET', `${url}/${id}/errors.csv`, { key });
  expect(errors.text.trim().split('\n')).toHaveLength(4);
});

test('the file of an import is read again after the store was down', async () => {
  const id = await create();
  const content = Buffer.from(`name\n${Array.from({ length: 1200 }, (_, row) => `Down ${row}`).join('\n')}\n`);
  await upload(id, 1, content);
  // While the store is down, the job tries again: the workspace has two other imports that run.
  await holdImports(id);
  await expectStatus(202, 'POST', `${url}/${id}/start`, { key });
  await store.close();
  await releaseImports();
  await vi.waitUntil(() => server.output().includes('failed to continue an import'), { timeout: 30_000 });
  await store.restart();
  expect(await untilEnded(id)).toMatchObject({ status: 'completed', counts: { read: 1200, created: 1200 } });
});
