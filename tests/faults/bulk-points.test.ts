// Imports, undos and exports, killed at each point: the next server loses and doubles nothing.
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { call, expectStatus, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { database, newKey, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { form } from '../support/uploads.ts';
import { OwnServer } from './support/own-server.ts';
import { exportPoints, fatal, importPoints, type Point, Traps, undoPoints } from './support/points.ts';
import { FaultProxy, through } from './support/proxy.ts';
import { settingsFor } from './support/settings.ts';
import { untilAbandoned } from './support/until-abandoned.ts';

/** More than one chunk. One of ten fails. */
const rows = 700;
const failing = rows / 10;
const stored = rows - failing;
const traps = new Traps({});
const timeout = 60_000;
let folder: string;
let url: string;
let proxy: FaultProxy;
let server: OwnServer;
let tenant: Tenant;
let key: string;

beforeAll(async () => {
  folder = await mkdtemp('.test-data/bulk-points-');
  url = await newDatabase();
  await useDatabase(url);
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  server = await OwnServer.start(settingsFor(through(url, proxy), folder));
  useServer(server.url);
  tenant = await newTenant();
  key = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
});
afterAll(async () => {
  useServer(undefined);
  await server?.end();
  await proxy?.close();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
  await rm(folder, { recursive: true, force: true });
});

/** Has the server killed when its next job reaches a point, and another one go on. */
async function killAt({ statement, moment }: Point, begin: () => Promise<string>): Promise<string> {
  const sprung = traps.set({ statement, moment, act: () => undefined });
  const id = await begin();
  await sprung;
  await server.kill();
  await untilAbandoned();
  // As if the leases had ended.
  const sql = database();
  await sql`update imports set due_at = now() where due_at is not null`;
  await sql`update reverts set due_at = now() where due_at is not null`;
  await sql`update exports set claimed_until = now() where status in ('queued', 'running')`;
  await server.restart();
  return id;
}

async function startImport(): Promise<string> {
  const lines = Array.from({ length: rows }, (_, row) => (row % 10 === 9 ? `,${row}` : `R${row},${row}`));
  const parts = form([
    { name: 'options', fileName: null, content: JSON.stringify({ object: 'accounts' }) },
    { fileName: 'accounts.csv', content: `name,city\n${lines.join('\n')}\n` },
  ]);
  const { import: created } = (await expectStatus(201, 'POST', '/v1/imports', { key, ...parts })).body.data;
  return created.id;
}

const readImport = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/imports/${id}`, { key })).body.data.import;

const untilImportIs = (id: string, status: string): Promise<Json> =>
  vi.waitUntil(
    async () => {
      const found = await readImport(id);
      return found.status === status && found;
    },
    { timeout: 30_000, interval: 50 },
  );

/** Counts the records that an import created, by its audit rows. */
async function readCounts(importId: string): Promise<Json> {
  const { companyId } = tenant;
  const [counts] = await database()`
    with written as (
      select record_id from audit_logs
      where company_id = ${companyId} and action = 'account.create' and metadata->>'import_id' = ${importId}
    )
    select (select count(*)::int from written) as audit,
      (select count(distinct record_id)::int from written) as records,
      (select count(*)::int from accounts where company_id = ${companyId} and id::text in (select record_id from written)) as stored,
      (select count(*)::int from import_errors where company_id = ${companyId} and import_id = ${importId}) as errors,
      (select charged_rows from imports where company_id = ${companyId} and id = ${importId}) as charged`;
  return counts;
}

const whole = { audit: stored, records: stored, stored, errors: failing, charged: rows };

describe('an import', () => {
  test.each(fatal(importPoints))('resumes if it is killed with $statement $moment', { timeout }, async (point) => {
    const id = await killAt(point, startImport);
    const done = await untilImportIs(id, 'completed');
    expect(done.counts).toMatchObject({ read: rows, created: stored, failed: failing, unprocessed: 0 });
    expect(await readCounts(id)).toEqual(whole);
    const errors = (await expectStatus(200, 'GET', `/v1/imports/${id}/errors.csv`, { key })).text;
    expect(errors.trim().split('\n')).toHaveLength(failing + 1);
  });
});

describe('an undo of an import', () => {
  test.each(fatal(undoPoints))('resumes if it is killed with $statement $moment', { timeout }, async (point) => {
    const id = await startImport();
    await untilImportIs(id, 'completed');
    const revertId = await killAt(point, async () => {
      const { status, body, text } = await call('POST', `/v1/imports/${id}/undo`, { key, body: {} });
      expect({ status, text }).toMatchObject({ status: 202 });
      return body.data.revert.id;
    });
    await untilImportIs(id, 'undone');
    expect(await readCounts(id)).toEqual({ ...whole, stored: 0 });
    const { revert } = (await expectStatus(200, 'GET', `/v1/reverts/${revertId}`, { key })).body.data;
    expect(revert).toMatchObject({ status: 'completed', counts: { reverted: stored, skipped: 0, conflicts: 0 } });
    const [left] = await database()`
      select count(*)::int as audit, count(distinct record_id)::int as records,
        (select count(*)::int from deleted_records d
         where d.company_id = ${tenant.companyId} and d.id::text in (
           select record_id from audit_logs where company_id = ${tenant.companyId} and request_id = ${revertId})) as trash
      from audit_logs
      where company_id = ${tenant.companyId} and request_id = ${revertId} and record_id is not null`;
    expect(left).toEqual({ audit: stored, records: stored, trash: stored });
  });
});

describe('an export', () => {
  test.each(fatal(exportPoints))('begins again if it is killed with $statement $moment', { timeout }, async (point) => {
    const [before] =
      await database()`select count(*)::int as rows from accounts where company_id = ${tenant.companyId}`;
    const id = await killAt(point, async () => {
      const body = { object: 'accounts', fields: ['name'] };
      return (await expectStatus(202, 'POST', '/v1/exports', { key, body })).body.data.export.id;
    });
    const done = await vi.waitUntil(
      async () => {
        const found = (await expectStatus(200, 'GET', `/v1/exports/${id}`, { key })).body.data.export;
        return !['queued', 'running'].includes(found.status) && found;
      },
      { timeout: 30_000, interval: 50 },
    );
    expect(done).toMatchObject({ status: 'completed', rows: before?.rows });
    const file = Buffer.from(await (await fetch(done.download_url)).arrayBuffer());
    expect([file.length, createHash('sha256').update(file).digest('hex')]).toEqual([done.bytes, done.sha256]);
    const lines = file.toString().trim().split('\n');
    expect(new Set(lines.filter((line) => line !== '')).size).toBe(before?.rows);
    const [audit] = await database()`
      select count(*)::int as rows from audit_logs
      where company_id = ${tenant.companyId} and action = 'export.complete' and metadata->>'export_id' = ${id}`;
    expect(audit).toEqual({ rows: 1 });
  });
});

test('no server has failed unexpectedly', () => {
  expect(server.failures).toEqual([]);
});
