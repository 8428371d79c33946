// The oracle of the fault runs: it must detect every kind of fault.
import { beforeAll, expect, inject, test } from 'vitest';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { check } from './support/oracle.ts';
import { Random } from './support/random.ts';
import { type Write, Writers } from './support/writers.ts';

let tenant: Tenant;
let writes: readonly Write[];

beforeAll(async () => {
  tenant = await newTenant();
  const writers = new Writers({ servers: [inject('baseUrl')], apiKey: tenant.key, random: new Random(), count: 4 });
  while (new Set(writers.writes.map((write) => write.kind)).size < 6) await writers.progress(10);
  await writers.settle();
  await writers.replayAll();
  writes = writers.writes;
  expect(writers.violations).toEqual([]);
});

test('reports no problems of a correct run', async () => {
  const waiting = () => database()`select from outbox_events where company_id = ${tenant.companyId}`;
  await expect.poll(async () => (await waiting()).length).toBe(0);
  expect(await check(database(), tenant.companyId, writes)).toEqual([]);
});

test.each([
  ['a lost record', 'delete from leads where id = (select id from leads where company_id = $1 limit 1)'],
  ['a lost change', 'update accounts set version = 1, description = null where company_id = $1 and version > 1'],
  [
    'a doubled record',
    `insert into leads (company_id, test_mode, id, first_name, created_by_kind, created_by_id, created_at, updated_at)
     select company_id, test_mode, gen_random_uuid(), first_name, created_by_kind, created_by_id, created_at, updated_at
     from leads where company_id = $1 limit 1`,
  ],
  ['a lost event', 'delete from feed_events where id = (select id from feed_events where company_id = $1 limit 1)'],
  [
    'a doubled event',
    `insert into feed_events select (jsonb_populate_record(e, jsonb_build_object('position', e.position + 1000000))).*
     from feed_events e where company_id = $1 limit 1`,
  ],
  ['a lost audit row', 'delete from audit_logs where id = (select id from audit_logs where company_id = $1 limit 1)'],
  ['an altered stored response', "update idempotency_records set body = body || ' ' where company_id = $1"],
  ['a lost stored response', 'delete from idempotency_records where company_id = $1'],
])('detects %s', async (_, harm) => {
  const sql = database();
  const undo = new Error('undone');
  let noticed: string[] = [];
  await sql
    .begin(async (transaction) => {
      await transaction.unsafe(harm, [tenant.companyId]);
      noticed = await check(transaction, tenant.companyId, writes);
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error;
    });
  expect(noticed).not.toEqual([]);
});
