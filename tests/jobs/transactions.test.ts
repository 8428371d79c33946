// Transactions of jobs: work and events commit together, and hanging ones are rolled back.

import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { EventRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { Pool, type Sql } from '../../db/client/pool.ts';
import { recordedEvents } from '../support/events.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let pool: Pool;
let tenant: Tenant;
beforeAll(async () => {
  pool = new Pool({
    url: inject('databaseUrl'),
    role: 'crm_app',
    lanes: 1,
    prepare: true,
    spread: false,
    wait: 10_000,
    statementTimeout: 10_000,
  });
  tenant = await newTenant();
});
afterAll(() => pool.close(1));

const scope = () => ({ companyId: tenant.companyId, testMode: false });
const rename = (sql: Sql, name: string) =>
  sql`update companies set name = ${name} where id = ${tenant.companyId}`.execute();
const buildEvent = (event: string): EventRow => ({
  ...scope(),
  event,
  occurredAt: new Date(),
  actor: { kind: 'system', id: 'test', name: null },
  requestId: null,
  data: {},
});
const stored = async () => {
  const [company] = await database()`select name from companies where id = ${tenant.companyId}`;
  const events =
    await database()`select event from ${recordedEvents(database())} where company_id = ${tenant.companyId}`;
  return { name: company?.name, events: events.map(({ event }) => event) };
};

test('commits changes and events before it returns', async () => {
  const result = await inTransaction(pool, scope(), 5000, async (sql, emit) => {
    await rename(sql, 'Renamed');
    emit(buildEvent('test.renamed'));
    return 7;
  });
  expect(result).toBe(7);
  expect(await stored()).toEqual({ name: 'Renamed', events: ['test.renamed'] });
});

test('rolls back if the work throws, and releases the connection', async () => {
  const before = await stored();
  const failing = inTransaction(pool, scope(), 5000, async (sql, emit) => {
    await rename(sql, 'Undone');
    emit(buildEvent('test.undone'));
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  expect(await stored()).toEqual(before);
  expect(await inTransaction(pool, scope(), 5000, async (sql) => (await sql`select 1 as one`)[0])).toEqual({ one: 1 });
});

test('rolls back a transaction that exceeds its timeout', async () => {
  const before = await stored();
  const hanging = inTransaction(pool, scope(), 500, async (sql) => {
    await rename(sql, 'Late');
    await sql`select pg_sleep(60)`;
  });
  await expect(hanging).rejects.toThrow();
  expect(await stored()).toEqual(before);
  expect(await inTransaction(pool, scope(), 5000, async (sql) => (await sql`select 1 as one`)[0])).toEqual({ one: 1 });
});
