// Statements find rows by key even if most companies have few rows and one has many.
import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Pool, type Sql } from '../../db/client/pool.ts';
import { Transaction } from '../../db/client/transaction.ts';
import { findSuppressedEmails } from '../../db/messaging/email-suppression.ts';
import { deleteRecords } from '../../db/records/deletion.ts';
import { updateRecords } from '../../db/records/writing.ts';
import { noteContacts } from '../../db/sales/activity-effects.ts';
import { newDatabase } from '../support/databases.ts';
import { database, useDatabase } from '../support/tenants.ts';

const actor = { kind: 'api_key' as const, id: randomUUID(), name: 'Test' };
const scope = {
  companyId: randomUUID(),
  testMode: false,
  reach: { kind: 'company' as const },
  actor,
  userId: null,
};

let pool: Pool;
beforeAll(async () => {
  const url = await newDatabase();
  await useDatabase(url);
  // 4,000 companies have four leads, tasks and suppressed addresses each, and one company has
  // 4,000.
  await database().begin(async (sql) => {
    await sql`set local session_replication_role = replica`;
    await sql`
      insert into leads (company_id, test_mode, id, first_name, created_by_kind, created_by_id, created_at, updated_at)
      select company_id, false, gen_random_uuid(), 'Lead', 'system', 'x', now() + n * interval '1 second', now()
      from (
        select gen_random_uuid() as company_id, 4 as leads from generate_series(1, 4000)
        union all
        select ${scope.companyId}, 4000
      ) companies, generate_series(1, leads) n`;
    await sql`
      insert into email_suppressions (company_id, test_mode, id, email, reason, source, created_at)
      select company_id, false, id, id || '@example.com', 'manual', 'api', created_at from leads`;
    await sql`
      insert into tasks (company_id, test_mode, id, title, object, record_id, created_by_kind, created_by_id, created_at, updated_at)
      select company_id, false, id, 'Task', 'leads', id, 'system', 'x', created_at, updated_at from leads`;
  });
  await database()`analyze leads, tasks, email_suppressions`;
  const settings = { prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
  pool = new Pool({ url, role: 'crm_app', lanes: 1, ...settings });
});
afterAll(async () => {
  await pool.close(1);
  await useDatabase(undefined);
});

/** Sends a statement. @returns the generic plan of the prepared statement that begins so */
async function readPlan(beginning: string, send: (sql: Sql) => Promise<unknown>): Promise<string> {
  return pool.use(async (sql) => {
    await sql`
      select set_config('plan_cache_mode', 'force_generic_plan', false), set_config('app.company_id', ${scope.companyId}, false),
        set_config('app.test_mode', 'false', false)`;
    await send(sql);
    const kept = await sql<{ name: string; parameters: number }[]>`
      select name, cardinality(parameter_types) as parameters from pg_prepared_statements
      where statement ~ ${`^\\s*${beginning}`}`;
    expect(kept).toHaveLength(1);
    const values = Array.from({ length: kept[0]?.parameters ?? 0 }, () => 'null');
    const lines = await sql.unsafe(`explain execute "${kept[0]?.name}" (${values.join(', ')})`);
    await sql`deallocate all`;
    return lines.map((line) => line['QUERY PLAN']).join('\n');
  });
}

/** Matches conditions on the whole key, not on the company alone. */
const byKey = /Index Cond: \(\(company_id = \$\d+\) AND \(test_mode = \$\d+\) AND \(id = (?:\$\d|\w+\.id|ANY)/g;
const newRecord = () => ({
  id: randomUUID(),
  version: 1,
  createdAt: new Date(),
  updatedAt: new Date(),
  values: {},
  custom: {},
});

test.each([1, 3])('finds %i updated records by key', async (count) => {
  const records = Array.from({ length: count }, newRecord);
  const plan = await readPlan('update "leads"', (sql) =>
    updateRecords(sql, scope, 'leads', records, true).stored.catch((error) =>
      expect(error).toHaveProperty('message', 'a record of leads no longer exists'),
    ),
  );
  expect(plan.match(byKey), plan).toHaveLength(1);
});

test('finds the tasks of deleted records and of their activities by record', async () => {
  const [lead] = await database()<{ id: string }[]>`select id from leads where company_id = ${scope.companyId}`;
  const plan = await readPlan('with gone_activities as', (sql) =>
    deleteRecords(sql, scope, 'leads', [String(lead?.id)]),
  );
  expect(plan.match(/ on tasks\b.*\n\s+Index Cond: .*\(record_id = ANY/g), plan).toHaveLength(2);
});

test('finds suppressed addresses by email', async () => {
  const plan = await readPlan('select email from email_suppressions', (sql) =>
    findSuppressedEmails(sql, scope, ['one@example.com', 'other@example.com']),
  );
  expect(plan).toMatch(/Index Cond: .*\(email = ANY/);
});

test('finds the record of a logged activity by key', async () => {
  const contact = {
    entityType: 'lead' as const,
    entityId: randomUUID(),
    contactedAt: new Date().toISOString(),
    followupAt: null,
  };
  const plan = await readPlan('with contact as', (sql) => noteContacts(sql, scope, [contact], new Date()));
  expect(plan.match(byKey), plan).toHaveLength(2);
});

test('finds a claimed Idempotency-Key by key, even with a plan from an empty table', async () => {
  await database()`
    insert into companies (id, name, email, region, industry, timezone, currency, created_at, updated_at)
    values (${scope.companyId}, 'Large', 'large@example.com', 'EU', 'Trade', 'UTC', 'EUR', now(), now())`;
  const rowsRead = async () => {
    const claim = { ...scope, endpoint: 'test', key: randomUUID(), requestHash: randomBytes(32) };
    const transaction = await Transaction.open(pool, scope, { claim });
    expect(await transaction.verifyPreconditions()).toBe('ok');
    const [table] = await transaction.sql<{ rows: number }[]>`
      select seq_tup_read::int as rows from pg_stat_xact_user_tables where relname = 'idempotency_records'`;
    await transaction.undo();
    return table?.rows;
  };
  // PostgreSQL uses a generic plan from the sixth execution on.
  for (let time = 0; time < 10; time += 1) expect(await rowsRead()).toBe(0);
  await database()`
    insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
    select ${scope.companyId}, false, 'test', n, '', 201, '{}', now() from generate_series(1, 5000) n`;
  expect(await rowsRead()).toBe(0);
});
