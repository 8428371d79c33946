// Attachments in S3 storage: the same guarantees, and the STORAGE setting.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { readConfig } from '../../runtime/config.ts';
import { call, expectStatus, type Json, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { ObjectStore } from '../support/object-store.ts';
import { createRecord, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

const folder = mkdtempSync(join(tmpdir(), 'crm-storage-'));
let store: ObjectStore;
let server: TestServer;
let tenant: Tenant;
let key: string;
let path: string;

beforeAll(async () => {
  store = await ObjectStore.start(join(folder, 'store'));
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: folder,
    DATABASE_POOL: '2',
    STORAGE: store.address,
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
    await store.restart();
    await expectStatus(201, 'POST', path, { key, ...form });
  });

  test('never logs the storage with its secret', async () => {
    await vi.waitUntil(() => server.output().includes('failed to store a file'));
    expect(server.output()).not.toContain('S3RVER');
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
