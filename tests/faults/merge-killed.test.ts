// A server killed while a job moves the items of a merge, and moves them back: each row moves once.
import { afterAll, expect, test, vi } from 'vitest';
import { call, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { addManyItems, fillLead, prepareFilling, snapshotRecords } from '../support/merges.ts';
import { createRecords, lead, recordsPath } from '../support/records.ts';
import { database, newTenant, useDatabase } from '../support/tenants.ts';
import { OwnServer } from './support/own-server.ts';
import { Random } from './support/random.ts';
import { settingsFor } from './support/settings.ts';

const items = Number(process.env.ITEMS ?? 6_000);
const kills = Number(process.env.KILLS ?? 6);
let server: OwnServer | undefined;
let url: string | undefined;

afterAll(async () => {
  useServer(undefined);
  await server?.end();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

test(`${kills} times kill -9 during a merge and its undo lose and double no row`, { timeout: 300_000 }, async () => {
  const random = new Random();
  process.stdout.write(`faults: the seed of the kills is ${random.seed}\n`);
  url = await newDatabase();
  await useDatabase(url);
  server = await OwnServer.start(settingsFor(url, '.test-data'));
  useServer(server.url);
  const tenant = await newTenant();
  const { companyId, key } = tenant;
  const sql = database();
  await prepareFilling(tenant);
  const [source, target] = await createRecords(key, 'leads', [lead(), lead()]);
  await fillLead(tenant, source.id);
  const deals = items / 4;
  await addManyItems(tenant, source.id, { notes: items, deals });
  const before = await snapshotRecords(tenant);

  const readCounts = async () => {
    const [row] = await sql`
      select (select count(*)::int from notes where company_id = ${companyId} and record_id = ${target.id}) as notes,
        (select count(*)::int from deals where company_id = ${companyId} and lead_id = ${target.id}) as deals,
        (select count(*)::int from notes where company_id = ${companyId} and record_id = any(${[source.id, target.id]})) as all_notes,
        (select count(*)::int from deals where company_id = ${companyId} and lead_id = any(${[source.id, target.id]})) as all_deals`;
    return row as { notes: number; deals: number; all_notes: number; all_deals: number };
  };
  let id = '';
  const readStatus = async () =>
    (await sql`select status from merges where company_id = ${companyId} and id = ${id}`)[0]?.status;
  const killUntilCompleted = async (times: number): Promise<void> => {
    for (let each = 0; each < times; each += 1) {
      const { notes, deals: referring } = await readCounts();
      const start = notes + referring;
      const chunks = random.whole(0, 3);
      await vi.waitUntil(
        async () => {
          const now = await readCounts();
          return (await readStatus()) === 'completed' || Math.abs(now.notes + now.deals - start) >= 500 * chunks;
        },
        { timeout: 60_000, interval: 2 },
      );
      await server?.restart();
      expect(await readCounts()).toMatchObject({ all_notes: items + 1, all_deals: deals + 1 });
    }
    await vi.waitUntil(async () => (await readStatus()) === 'completed', { timeout: 120_000, interval: 20 });
  };

  const merged = await call('POST', `${recordsPath('leads', source.id)}/merge`, { key, body: { into_id: target.id } });
  expect(merged.status).toBe(202);
  id = merged.body.data.merge.id;
  await killUntilCompleted(kills / 2);
  expect(await readCounts()).toMatchObject({ notes: items + 1, deals: deals + 1 });
  const read = async (): Promise<Json> => (await call('GET', `/v1/merges/${id}`, { key })).body.data.merge;
  expect(await read()).toMatchObject({ moved: { notes: items + 1, references: deals + 1 }, remaining: null });

  expect((await call('POST', `/v1/merges/${id}/undo`, { key, body: {} })).status).toBe(202);
  await killUntilCompleted(kills / 2);
  const after = await snapshotRecords(tenant);
  expect(Object.keys(before).filter((table) => before[table]?.join() !== after[table]?.join())).toEqual([]);
  // Twice for each deal that refers to the source.
  const [audit] = await sql`
    select count(*)::int as rows, count(distinct record_id)::int as records from audit_logs
    where company_id = ${companyId} and action = 'deal.update' and metadata ->> 'merge_id' = ${id}`;
  expect(audit).toEqual({ rows: 2 * (deals + 1), records: deals + 1 });
  expect(server.failures).toEqual([]);
});
