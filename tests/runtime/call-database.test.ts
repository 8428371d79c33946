// The transaction of a call as handlers see it: a handle stays valid for its attempt.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { TransactionEnded } from '../../db/client/preconditions.ts';
import { buildAnonymousCaller } from '../../runtime/credentials/authentication.ts';
import { BoundDatabase, type CallContext } from '../../runtime/pipeline/call-database.ts';
import { Deadline } from '../../runtime/pipeline/deadline.ts';
import { RequestDatabase } from '../../runtime/pipeline/request-database.ts';
import { tried } from '../support/noted-statements.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let pool: Pool;
let tenant: Tenant;
beforeAll(async () => {
  const shared = { url: inject('databaseUrl'), prepare: true, spread: false, wait: 1000, statementTimeout: 1000 };
  pool = new Pool({ ...shared, role: tried('crm_app'), lanes: 2 });
  tenant = await newTenant();
});
afterAll(() => pool.close(1));

async function openCall(): Promise<BoundDatabase> {
  const requests = new RequestDatabase({ tenants: pool, platform: pool, credentials: pool }, 1000, () => undefined);
  const caller = { ...buildAnonymousCaller({ requestId: 'r', ip: '', userAgent: null }), companyId: tenant.companyId };
  const context: CallContext = {
    caller,
    arrivedAt: new Date(),
    now: new Date(),
    configVersion: 1,
    deadline: new Deadline(),
    isVerified: true,
    ...({ operation: { id: 'test' }, trace: {} } as Pick<CallContext, 'operation' | 'trace'>),
  };
  return new BoundDatabase(requests, await requests.open({ companyId: tenant.companyId, testMode: false }), context);
}

const companies = (sql: BoundDatabase['sql']) => sql<{ id: string }[]>`select id from companies`;

test('uses the present connection after the call waited without one', async () => {
  const db = await openCall();
  const { sql } = db;
  expect(await companies(sql)).toEqual([{ id: tenant.companyId }]);
  await db.withoutConnection(sleep(1));
  expect(await companies(sql)).toEqual([{ id: tenant.companyId }]);
  expect(await sql.unsafe('select 1 as one')).toEqual([{ one: 1 }]);
  expect(await sql`select ${sql.json({ one: 1 })} as document`).toEqual([{ document: { one: 1 } }]);
  db.transaction?.endRead();
});

test('uses the present transaction after the call committed and resumed', async () => {
  const db = await openCall();
  const { sql } = db;
  const name = async (): Promise<unknown> =>
    (await sql`select name from companies where id = ${tenant.companyId}`)[0]?.name;
  const before = await name();
  await sql`update companies set name = 'Renamed' where id = ${tenant.companyId}`;
  const during = await db.commitThenRun(async () => {
    expect(() => companies(sql)).toThrow(TransactionEnded);
    return 'outcome';
  });
  expect(during).toBe('outcome');
  expect(await name()).toBe('Renamed');
  await sql`update companies set name = ${before as string} where id = ${tenant.companyId}`;
  db.transaction?.abandon();
  const later = await openCall();
  expect((await later.sql`select name from companies`)[0]?.name).toBe('Renamed');
  later.transaction?.endRead();
});

test('sends nothing after the transaction of its attempt has ended', async () => {
  const db = await openCall();
  const { sql } = db;
  expect(await companies(sql)).toEqual([{ id: tenant.companyId }]);
  db.transaction?.abandon();
  expect(() => companies(sql)).toThrow(TransactionEnded);
  expect(() => sql.unsafe('select 1')).toThrow(TransactionEnded);
  expect(() => db.sql).toThrow(TransactionEnded);
});
