// References to deleted rows are cleared, even if no foreign key can do that.
import { randomUUID } from 'node:crypto';
import type { ISql } from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { beforeEach, expect, test, vi } from 'vitest';
import { createRecord } from '../support/records.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

/** The SQLSTATE of a violated foreign key. */
const violated = '23503';

let tenant: Tenant;

beforeEach(async () => {
  tenant = await newTenant();
});

const catchCode = (statement: PromiseLike<unknown>): Promise<string | undefined> =>
  Promise.resolve(statement).then(
    () => undefined,
    (error: { code?: string }) => error.code,
  );

const convert = (sql: ISql, lead: string, customer: string): PromiseLike<unknown> =>
  sql`update leads set converted_customer_id = ${customer} where company_id = ${tenant.companyId} and id = ${lead}`;

const remove = (sql: ISql, table: string, id: string): PromiseLike<unknown> =>
  sql`delete from ${sql(table)} where company_id = ${tenant.companyId} and id = ${id}`;

/** Creates a record with required columns only. */
async function newRecord(whose: Tenant, mode: 'live' | 'test', table: string): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into ${database()(table)} (company_id, test_mode, id, created_by_kind, created_by_id, created_at, updated_at)
    values (${whose.companyId}, ${mode === 'test'}, ${id}, 'system', 'test', now(), now())`;
  return id;
}

/** Runs the second statement while the transaction of the first is open. @returns both SQLSTATEs */
async function runConcurrently(
  first: (sql: ISql) => PromiseLike<unknown>,
  second: (sql: ISql) => PromiseLike<unknown>,
): Promise<(string | undefined)[]> {
  let waiting: Promise<string | undefined> | undefined;
  const begun = await catchCode(
    database().begin(async (sql) => {
      await first(sql);
      waiting = catchCode(second(database()));
      // The second statement waits for a lock of the first.
      await vi.waitUntil(async () => {
        const blocked =
          await sql`select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))`;
        return blocked.length > 0;
      });
    }),
  );
  return [begun, await waiting];
}

test.each([
  ['accounts', 'customers', 'account_id'],
  ['accounts', 'deals', 'account_id'],
  ['leads', 'customers', 'lead_id'],
  ['leads', 'deals', 'lead_id'],
  ['customers', 'deals', 'customer_id'],
  ['customers', 'leads', 'converted_customer_id'],
])('clears references to deleted %s in %s', async (table, referring, column) => {
  const sql = database();
  const gone = await newRecord(tenant, 'live', table);
  const stays = await newRecord(tenant, 'live', table);
  const [first, second] = [await newRecord(tenant, 'live', referring), await newRecord(tenant, 'live', referring)];
  const refer = (id: string, to: string) =>
    sql`update ${sql(referring)} set ${sql(column)} = ${to} where company_id = ${tenant.companyId} and id = ${id}`;
  await refer(first, gone);
  await refer(second, stays);
  await remove(sql, table, gone);
  const left = await sql<{ id: string; to: string | null }[]>`
    select id, ${sql(column)} as to from ${sql(referring)} where company_id = ${tenant.companyId} and id in (${first}, ${second})`;
  expect(Object.fromEntries(left.map(({ id, to }) => [id, to]))).toEqual({ [first]: null, [second]: stays });
});

test('clears the manager of a branch and a team when the user is deleted', async () => {
  const sql = database();
  const { id } = await newUser(tenant);
  await sql`update branches set manager_user_id = ${id} where company_id = ${tenant.companyId}`;
  await sql`
    insert into teams (company_id, id, branch_id, name, manager_user_id, created_at)
    values (${tenant.companyId}, ${uuidv7()}, ${tenant.branchId}, 'Team', ${id}, now())`;
  await remove(sql, 'users', id);
  const left = await sql`
    select manager_user_id from branches where company_id = ${tenant.companyId}
    union all select manager_user_id from teams where company_id = ${tenant.companyId}`;
  expect(left).toEqual([{ manager_user_id: null }, { manager_user_id: null }]);
});

test('rejects converting a lead to a customer that is missing, of another company or of the other mode', async () => {
  const sql = database();
  const other = await newTenant();
  const lead = await newRecord(tenant, 'live', 'leads');
  const customers = [
    randomUUID(),
    await newRecord(other, 'live', 'customers'),
    await newRecord(tenant, 'test', 'customers'),
  ];
  for (const customer of customers) {
    expect(await catchCode(convert(sql, lead, customer))).toBe(violated);
    const inserting = sql`
      insert into leads (company_id, test_mode, id, converted_customer_id, created_by_kind, created_by_id, created_at, updated_at)
      values (${tenant.companyId}, false, ${uuidv7()}, ${customer}, 'system', 'test', now(), now())`;
    expect(await catchCode(inserting)).toBe(violated);
  }
});

test('rejects a manager of a branch or team who is missing or of another company', async () => {
  const sql = database();
  const stranger = await newUser(await newTenant());
  for (const id of [randomUUID(), stranger.id]) {
    const managing = sql`update branches set manager_user_id = ${id} where company_id = ${tenant.companyId}`;
    expect(await catchCode(managing)).toBe(violated);
    const inserting = sql`
      insert into teams (company_id, id, branch_id, name, manager_user_id, created_at)
      values (${tenant.companyId}, ${uuidv7()}, ${tenant.branchId}, 'Team', ${id}, now())`;
    expect(await catchCode(inserting)).toBe(violated);
  }
});

test('leaves no reference if a customer is deleted while a lead converts to it, in either order', async () => {
  const lead = await newRecord(tenant, 'live', 'leads');
  const gone = await newRecord(tenant, 'live', 'customers');
  expect(
    await runConcurrently(
      (sql) => remove(sql, 'customers', gone),
      (sql) => convert(sql, lead, gone),
    ),
  ).toEqual([undefined, violated]);
  const chosen = await newRecord(tenant, 'live', 'customers');
  expect(
    await runConcurrently(
      (sql) => convert(sql, lead, chosen),
      (sql) => remove(sql, 'customers', chosen),
    ),
  ).toEqual([undefined, undefined]);
  const [row] =
    await database()`select converted_customer_id as to from leads where company_id = ${tenant.companyId} and id = ${lead}`;
  expect(row).toEqual({ to: null });
});

test('purges a company whose records refer to each other', async () => {
  const sql = database();
  const account = await createRecord(tenant.key, 'accounts', { name: 'A' });
  const lead = await createRecord(tenant.key, 'leads', { first_name: 'L', email: 'l@example.com' });
  const customer = await createRecord(tenant.key, 'customers', { first_name: 'C', account_id: account.id });
  await sql`update customers set lead_id = ${lead.id} where company_id = ${tenant.companyId} and id = ${customer.id}`;
  await convert(sql, lead.id, customer.id);
  const { id } = await newUser(tenant);
  await sql`update branches set manager_user_id = ${id} where company_id = ${tenant.companyId}`;
  // As the purge job does.
  const purge = () => sql`select purge_some(${tenant.companyId}, 1000) as removed`;
  while ((await purge())[0]?.removed > 0);
  await sql`delete from companies where id = ${tenant.companyId}`;
  for (const table of ['accounts', 'leads', 'customers', 'branches', 'users', 'api_keys', 'sign_ins'])
    expect([table, await sql`select from ${sql(table)} where company_id = ${tenant.companyId}`]).toEqual([table, []]);
});
