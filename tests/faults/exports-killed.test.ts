// Exports whose server is killed or stopped: the next one begins again, and no part becomes a file.
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { expectStatus, type Json, useServer } from '../support/client.ts';
import { newDatabase } from '../support/databases.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { OwnServer } from './support/own-server.ts';
import { settingsFor } from './support/settings.ts';

let folder: string;
let tenant: Tenant;
/** The only one of its database, so that it is this one that has the export. */
let server: OwnServer;
const rows = 120_000;

beforeAll(async () => {
  folder = await mkdtemp('.test-data/exports-');
  const url = await newDatabase();
  await useDatabase(url);
  server = await OwnServer.start({ ...settingsFor(url, folder), SECRET_KEY: inject('secretKey') });
  useServer(server.url);
  tenant = await newTenant();
  await database()`
    insert into accounts (company_id, test_mode, id, name, description, created_by_kind, created_by_id, created_at, updated_at)
    select ${tenant.companyId}, false, gen_random_uuid(), 'N ' || number, repeat('x', 300), 'system', 'test', now(), now()
    from generate_series(1, ${rows}) number`;
});
afterAll(async () => {
  useServer(undefined);
  await server?.end();
  await useDatabase(undefined);
  await rm(folder, { recursive: true, force: true });
});

const read = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/exports/${id}`, { key: tenant.key })).body.data.export;

/** Starts an export and waits until a part of it is written. */
async function startedExport(): Promise<string> {
  const body = { object: 'accounts' };
  const { id } = (await expectStatus(202, 'POST', '/v1/exports', { key: tenant.key, body })).body.data.export;
  await vi.waitUntil(() => readdirSync(join(folder, 'uploads')).some((name) => name.startsWith(`export-${id}`)));
  return id;
}

async function expectWhole(id: string): Promise<void> {
  const done = await vi.waitUntil(async () => {
    const found = await read(id);
    return ['queued', 'running'].includes(found.status) ? undefined : found;
  });
  expect(done).toMatchObject({ status: 'completed', rows });
  const file = Buffer.from(await (await fetch(done.download_url)).arrayBuffer());
  expect(file.length).toBe(done.bytes);
  expect(createHash('sha256').update(file).digest('hex')).toBe(done.sha256);
  const ids = file
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).id);
  expect(new Set(ids).size).toBe(rows);
}

describe('an export', () => {
  test('starts again by itself after its server was killed, with a later snapshot', async () => {
    const id = await startedExport();
    await server.kill();
    const [left] = await database()`select status, file_id, sha256 from exports where id = ${id}`;
    expect(left).toMatchObject({ status: 'running', file_id: null, sha256: null });
    await server.restart();
    expect(await read(id)).toMatchObject({ status: 'running', download_url: null, sha256: null });
    await expectWhole(id);
    const [row] = await database()`select attempt from exports where id = ${id}`;
    expect(row?.attempt).toBe(2);
  });

  test('is given back at once by a server that is asked to stop', async () => {
    const id = await startedExport();
    expect(await server.stop()).toBe(0);
    const [left] =
      await database()`select status, rows, claimed_until <= now() as is_due from exports where id = ${id}`;
    expect(left).toMatchObject({ status: 'queued', rows: null, is_due: true });
    expect(readdirSync(join(folder, 'uploads')).filter((name) => name.startsWith(`export-${id}`))).toEqual([]);
    await server.restart();
    await expectWhole(id);
  });

  test('that is cancelled while it is written ends without a file', async () => {
    const id = await startedExport();
    await expectStatus(200, 'POST', `/v1/exports/${id}/cancel`, { key: tenant.key });
    await vi.waitUntil(() => !readdirSync(join(folder, 'uploads')).some((name) => name.startsWith(`export-${id}`)));
    expect(await read(id)).toMatchObject({ status: 'cancelled', rows: null, download_url: null });
  });
});
