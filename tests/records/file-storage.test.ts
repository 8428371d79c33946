// Attachments and imports in S3 storage: the same guarantees, and the STORAGE setting.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { readConfig } from '../../runtime/config.ts';
import { call, expectStatus, type Json, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { createRecord, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

interface Store {
  run(): Promise<AddressInfo>;
  close(): Promise<void>;
  httpServer: Server;
}

const StoreServer = createRequire(import.meta.url)('s3rver') as new (options: object) => Store;

const folder = mkdtempSync(join(tmpdir(), 'crm-storage-'));
let port = 0;
let store: Store;
let server: TestServer;
let tenant: Tenant;
let key: string;
let path: string;

async function startStore(): Promise<void> {
  store = new StoreServer({
    port,
    address: '127.0.0.1',
    silent: true,
    directory: join(folder, 'store'),
    configureBuckets: [{ name: 'files' }],
  });
  port = (await store.run()).port;
}

beforeAll(async () => {
  await startStore();
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: folder,
    DATABASE_POOL: '2',
    STORAGE: `s3://S3RVER:S3RVER@127.0.0.1:${port}/files?tls=0&region=eu-central-1`,
  });
  useServer(server.url);
  tenant = await newTenant();
  key = tenant.key;
  const account = await createRecord(key, 'accounts', { name: 'A' });
  path = `${recordsPath('accounts', account.id)}/attachments`;
});

afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  await store?.close();
  rmSync(folder, { recursive: true, force: true });
});

afterEach(() => {
  expect(readdirSync(join(folder, 'uploads'))).toEqual([]);
});

const upload = async (part: Parameters<typeof fileForm>[0]): Promise<Json> =>
  (await expectStatus(201, 'POST', path, { key, ...fileForm(part) })).body.data.attachment;
const readLink = async (id: string): Promise<string> =>
  (await expectStatus(200, 'GET', `/v1/attachments/${id}`, { key })).body.data.attachment.download_url;

describe('a store that speaks S3', () => {
  test('stores files under the ids of the tenant, and downloads them through a presigned link', async () => {
    const content = Buffer.alloc(10_485_760, 'abc');
    const { id, sha256 } = await upload({ fileName: 'größe 1.bin.pdf'.replace('bin.', ''), content });
    expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    const link = await readLink(id);
    const [row] = await database()<{ file_id: string }[]>`select file_id from attachments where id = ${id}`;
    expect(new URL(link).pathname).toBe(`/files/${tenant.companyId}/live/${row?.file_id}`);
    expect(Object.fromEntries(new URL(link).searchParams)).toMatchObject({
      'X-Amz-Expires': '600',
      'X-Amz-Signature': expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    const response = await fetch(link);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-disposition')).toBe(
      `attachment; filename="gr__e 1.pdf"; filename*=UTF-8''gr%C3%B6%C3%9Fe%201.pdf`,
    );
    expect(Buffer.from(await response.arrayBuffer()).equals(content)).toBe(true);
  });

  test('removes the file when its attachment is deleted', async () => {
    const { id } = await upload({});
    const link = await readLink(id);
    await expectStatus(200, 'DELETE', `/v1/attachments/${id}`, { key });
    await vi.waitUntil(async () => {
      const response = await fetch(link);
      await response.text();
      return response.status === 404;
    });
  });

  test('returns 503 without attaching while the storage is down, and accepts the retry', async () => {
    const before = (await expectStatus(200, 'GET', path, { key })).body.data.attachments.length;
    await store.close();
    const form = { ...fileForm(), idempotencyKey: 'the-same-upload' };
    const answer = await call('POST', path, { key, ...form });
    expect([answer.status, answer.body.error.code]).toEqual([503, 'SERVICE_UNAVAILABLE']);
    expect((await expectStatus(200, 'GET', path, { key })).body.data.attachments).toHaveLength(before);
    await startStore();
    await expectStatus(201, 'POST', path, { key, ...form });
  });

  test('never logs the storage with its secret', async () => {
    await vi.waitUntil(() => server.output().includes('failed to store a file'));
    expect(server.output()).not.toContain('S3RVER');
  });
});

describe('the file of an import', () => {
  const url = '/v1/imports';
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

  test('is stored in parts of many megabytes, and read across their borders, with the file of the failed rows', async () => {
    const id = await create();
    const wide = 'w'.repeat(9000);
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
      where company_id = ${tenant.companyId} and name like 'Über %' and length(description) = 9000`;
    expect(found).toEqual({ rows: 2997, names: 2997 });
    const errors = await expectStatus(200, 'GET', `${url}/${id}/errors.csv`, { key });
    expect(errors.text.trim().split('\n')).toHaveLength(4);
  });

  test('is read again from the row where it stopped after the store was down', async () => {
    const id = await create();
    const content = Buffer.from(`name\n${Array.from({ length: 1200 }, (_, row) => `Down ${row}`).join('\n')}\n`);
    await upload(id, 1, content);
    // The job waits until the store is down.
    await database()`
      insert into imports (company_id, test_mode, id, object, options, dry_run, status, reach_kind, created_by_kind, created_by_id, due_at, created_at)
      select company_id, test_mode, gen_random_uuid(), object, options, dry_run, 'running', reach_kind, created_by_kind, created_by_id,
        now() + interval '1 hour', created_at
      from imports, generate_series(1, 2) where company_id = ${tenant.companyId} and id = ${id}`;
    await expectStatus(202, 'POST', `${url}/${id}/start`, { key });
    await store.close();
    await database()`
      delete from imports where company_id = ${tenant.companyId} and status = 'running' and due_at > now() + interval '30 minutes'`;
    await vi.waitUntil(() => server.output().includes('failed to continue an import'), { timeout: 30_000 });
    await startStore();
    expect(await untilEnded(id)).toMatchObject({ status: 'completed', counts: { read: 1200, created: 1200 } });
  });
});

describe('STORAGE', () => {
  test('parses a store with percent-encoded keys', () => {
    expect(readConfig({ STORAGE: 's3://key:a%2Fb%3A%40@store.example:9000/files?region=eu-1&tls=0' }).storage).toEqual({
      endpoint: 'http://store.example:9000',
      bucket: 'files',
      region: 'eu-1',
      accessKeyId: 'key',
      secretAccessKey: 'a/b:@',
    });
    expect(readConfig({ STORAGE: 's3://key:secret@store.example/files' }).storage).toMatchObject({
      endpoint: 'https://store.example',
      region: 'us-east-1',
    });
    expect(readConfig({}).storage).toBeUndefined();
  });

  test.each([
    'files',
    'https://key:secret@store.example/files',
    's3://store.example/files',
    's3://key:secret@store.example',
    's3://key:secret@store.example/a/b',
    's3://key:secret@store.example/files?tls=yes',
    's3://key:secret@store.example/files?acl=public',
  ])('rejects the STORAGE %s without its secret in the error', (value) => {
    expect(() => readConfig({ STORAGE: value })).toThrow(/^STORAGE must be (?!.*secret@)/);
  });
});
