// What a transaction promises to the others on its connection: nothing that comes late runs in theirs.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { isOutage, Pool } from '../db/connect.ts';
import { Transaction, TransactionEnded } from '../db/transaction.ts';
import { newTenant, type Tenant } from './support/tenants.ts';

let pool: Pool;
let tenant: Tenant;
let stranger: Tenant;
beforeAll(async () => {
  const url = inject('databaseUrl');
  // One connection, so that each transaction has that of the one before.
  pool = new Pool({ url, role: 'crm_app', lanes: 1, prepare: true, wait: 1000, statementTimeout: 1000 });
  [tenant, stranger] = [await newTenant(), await newTenant()];
});
afterAll(() => pool.close(1));

const begin = async ({ companyId }: Tenant) =>
  new Transaction(pool, await pool.acquire(), { companyId, testMode: false });
const companies = (sql: Transaction['sql']) => sql<{ id: string }[]>`select id from companies`;

describe('a handle that was kept', () => {
  test.each(['endRead', 'abandon', 'destroy'] as const)(
    'after %s sends nothing into the transaction that follows',
    async (end) => {
      const first = await begin(tenant);
      const { sql } = first;
      expect(await companies(sql)).toEqual([{ id: tenant.companyId }]);
      first[end]();
      const second = await begin(stranger);
      expect(await companies(second.sql)).toEqual([{ id: stranger.companyId }]);
      expect(() => companies(sql)).toThrow(TransactionEnded);
      expect(() => sql.unsafe('select 1')).toThrow(TransactionEnded);
      expect(() => first.sql).toThrow(TransactionEnded);
      expect(await companies(second.sql)).toEqual([{ id: stranger.companyId }]);
      second.endRead();
    },
  );

  test('from before it stood aside is of no use afterwards; the transaction has another', async () => {
    const first = await begin(tenant);
    const { sql } = first;
    await companies(sql);
    await first.aside(sleep(1));
    expect(() => companies(sql)).toThrow(TransactionEnded);
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    first.abandon();
  });
});

describe('standing aside', () => {
  test('lets others have the connection while nothing was written', async () => {
    const first = await begin(tenant);
    await companies(first.sql);
    let served = false;
    await first.aside(
      (async () => {
        const second = await begin(stranger);
        served = (await companies(second.sql))[0]?.id === stranger.companyId;
        second.endRead();
      })(),
    );
    expect(served).toBe(true);
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    first.endRead();
  });

  test('keeps connection and handle once something was written, so that all of it is one transaction', async () => {
    const first = await begin(tenant);
    const { sql } = first;
    await sql`update companies set name = 'Half done' where id = ${tenant.companyId}`;
    await first.aside(sleep(1));
    expect(await sql`select name from companies`).toEqual([{ name: 'Half done' }]);
    first.abandon();
    const second = await begin(tenant);
    expect(await second.sql`select name from companies`).toEqual([{ name: 'Tenant' }]);
    second.endRead();
  });

  test('passes a failure of the work on, and goes on afterwards', async () => {
    const first = await begin(tenant);
    await expect(first.aside(Promise.reject(new Error('the work failed')))).rejects.toThrow('the work failed');
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    first.endRead();
  });
});

describe('a commit', () => {
  const commit = (transaction: Transaction, left: number) => transaction.commit([], [], undefined, new Date(), left);
  const rename = (sql: Transaction['sql'], name: string) =>
    sql`update companies set name = ${name} where id = ${tenant.companyId}`;

  test('that comes after its deadline is refused as an outage, and leaves the connection as it was', async () => {
    const late = await begin(tenant);
    await rename(late.sql, 'Too late');
    const refused = await commit(late, 0).catch((error: unknown) => error);
    expect(isOutage(refused)).toBe(true);
    const next = await begin(tenant);
    expect(await next.sql`select name from companies`).toEqual([{ name: 'Tenant' }]);
    next.endRead();
  });

  test('before its deadline is done', async () => {
    const inTime = await begin(tenant);
    await rename(inTime.sql, 'In time');
    await commit(inTime, 1800);
    const next = await begin(tenant);
    expect(await next.sql`select name from companies`).toEqual([{ name: 'In time' }]);
    next.endRead();
  });
});
