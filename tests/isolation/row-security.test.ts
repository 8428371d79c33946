// Isolation by the database itself: row-level security on every table, for every role.
import { randomUUID } from 'node:crypto';
import type { TransactionSql } from 'postgres';
import { beforeAll, describe, expect, test } from 'vitest';
import { newGrant } from '../support/access-tokens.ts';
import {
  newActivity,
  newAttachment,
  newField,
  newMessage,
  newNote,
  newObject,
  newProfile,
  newRecord,
  newSlaPolicy,
} from '../support/arranged-ids.ts';
import { billed } from '../support/billing.ts';
import { messaged } from '../support/messaging.ts';
import { tried, triedRoles } from '../support/noted-statements.ts';
import { scheduled } from '../support/scheduling.ts';
import { newSentForm } from '../support/sessions.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { newDelivery, newWebhook } from '../support/webhooks.ts';
import { enrolled } from '../support/workforces.ts';

/** Tables that no request under crm_app may read, each with its reason. */
const closedToTenants = {
  mails: 'requests write them, and only the delivery job reads them, as crm_platform',
  refresh_tokens: 'sessions are renewed before the tenant is known, as crm_platform',
  api_key_places: 'requests write them, and only the credential lookup reads them, as crm_platform',
  user_places: 'the same',
  provider_customer_places: 'requests write them, and only the lookup of provider events reads them, as crm_platform',
  purged_companies: 'operators read it, because its companies no longer exist',
};

let tenant: Tenant;
let other: Tenant;
let tables: string[];
let partitions: string[];

beforeAll(async () => {
  [tenant, other] = await Promise.all([newTenant(), newTenant()]);
  for (const each of [tenant, other]) {
    await newUser(each);
    await newProfile(each);
    await newField(each, await newObject(each));
    await newGrant(each);
    await newSlaPolicy(each);
    await billed(each);
    await scheduled(each);
    await messaged(each);
    await enrolled(each);
    await newSentForm(each);
    // Search blocks only exist for objects with hundreds of records.
    await database()`insert into search_blocks values (${each.companyId}, false, 'tasks', 0, '{}', '{}')`;
    await database()`insert into search_signatures values (${each.companyId}, false, 'tasks', 0, '')`;
    for (const mode of ['live', 'test'] as const) {
      await newActivity(each, mode);
      await newRecord(each, mode, 'customers');
      await newRecord(each, mode, 'accounts');
      await newAttachment(each, mode);
      await newNote(each, mode);
      await newMessage(each, mode);
      await newDelivery(each, mode, (await newWebhook(each, mode)).id);
    }
  }
  const rows = await database()<{ name: string; partition: boolean }[]>`
    select c.table_name as name, p.relispartition as partition
    from information_schema.columns c join pg_class p on p.oid = format('%I.%I', c.table_schema, c.table_name)::regclass
    where c.table_schema = 'public' and c.column_name = 'company_id' and p.relkind in ('r', 'p')
    order by 1`;
  tables = rows.filter((row) => !row.partition).map((row) => row.name);
  partitions = rows.filter((row) => row.partition).map((row) => row.name);
});

/** Runs statements in a transaction that is rolled back. */
async function rollBackAfter<T>(work: (sql: TransactionSql) => Promise<T>): Promise<T> {
  const undo = new Error('undo');
  let result: T | undefined;
  await database()
    .begin(async (sql) => {
      result = await work(sql);
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error;
    });
  return result as T;
}

/** Runs statements as a role of the server, and rolls them back. */
function asTenant<T>(
  settings: { companyId?: string; testMode?: boolean },
  work: (sql: TransactionSql) => Promise<T>,
  role = 'crm_app',
): Promise<T> {
  return rollBackAfter(async (sql) => {
    await sql`select set_config('app.company_id', ${settings.companyId ?? ''}, true), set_config('app.test_mode', ${String(settings.testMode ?? '')}, true)`;
    await sql`set local role ${sql(tried(role))}`;
    return work(sql);
  });
}

/** Returns the SQLSTATE of a rejected statement, or undefined. */
async function catchSqlState(
  sql: TransactionSql,
  statement: (sql: TransactionSql) => Promise<unknown>,
): Promise<string | undefined> {
  try {
    await sql.savepoint(statement);
    return undefined;
  } catch (error) {
    return (error as { code?: string }).code;
  }
}

const count = async (sql: TransactionSql, table: string): Promise<number> =>
  (await sql<{ count: number }[]>`select count(*)::int as count from ${sql(table)}`)[0]?.count ?? -1;

async function mayDo(action: string, table: string, role = 'crm_app'): Promise<boolean> {
  const [row] = await database()<{ may: boolean }[]>`select has_table_privilege(${role}, ${table}, ${action}) as may`;
  return row?.may === true;
}

/** Returns the columns of a table that crm_app may insert or update. */
async function openColumns(
  action: 'insert' | 'update',
  table: string,
): Promise<{ name: string; type: string; needed: boolean }[]> {
  return database()<{ name: string; type: string; needed: boolean }[]>`
    select attname as name, format_type(atttypid, atttypmod) as type, attnotnull and not atthasdef as needed
    from pg_attribute where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attidentity = ''
      and has_column_privilege('crm_app', attrelid, attnum, ${action}) order by attnum`;
}

const isReadable = (table: string): boolean => !Object.hasOwn(closedToTenants, table);

test('has a row in every table that tenants can read, so that the tests below have something to find', async () => {
  const empty: string[] = [];
  for (const table of tables.filter(isReadable)) {
    const [row] = await database()`select from ${database()(table)} limit 1`;
    if (!row) empty.push(table);
  }
  // Only requests fill these. The inserts below test their isolation.
  expect(
    empty.filter(
      (table) =>
        ![
          'audit_logs',
          'request_log',
          'idempotency_records',
          'outbox_events',
          'link_types',
          'links',
          'record_tags',
          'test_clocks',
          'test_mode_resets',
          'sessions',
          'sources',
          'tags',
          'teams',
          'deals',
          'tasks',
          'custom_records',
          'field_overrides',
          'custom_value_hashes',
          'saved_reports',
          'saved_views',
          'sla_clocks',
          'notifications',
          'api_key_days',
          'webhook_backlog',
          'reference_clearings',
          'deleted_records',
          'deleted_items',
          'merges',
          'exports',
          'imports',
          'import_parts',
          'import_errors',
          'reverts',
          'revert_items',
          'change_sets',
          'company_logos',
        ].includes(table),
    ),
  ).toEqual([]);
});

test('enables and forces row-level security on every table with a company, including partitions', async () => {
  const rows = await database()<{ name: string; enabled: boolean; forced: boolean }[]>`
    select relname as name, relrowsecurity as enabled, relforcerowsecurity as forced
    from pg_class where relnamespace = 'public'::regnamespace and relname = any(${[...tables, ...partitions, 'companies']})`;
  expect(rows.length).toBe(tables.length + partitions.length + 1);
  expect(partitions.length).toBeGreaterThanOrEqual(3);
  expect(rows.filter((row) => !row.enabled || !row.forced).map((row) => row.name)).toEqual([]);
});

test('enables row-level security on later partitions', async () => {
  const made = await rollBackAfter(async (sql) => {
    await sql`select make_audit_partitions('2031-05-05'), make_request_partitions('2031-05-05')`;
    return sql<{ name: string }[]>`
      select relname as name from pg_class
      where relname ~ '2031_05|2031_06' and relkind = 'r' and relrowsecurity and relforcerowsecurity order by 1`;
  });
  expect(made.map((row) => row.name)).toEqual([
    'audit_logs_2031_05',
    'audit_logs_2031_06',
    'request_log_2031_05_05',
    'request_log_2031_05_06',
    'request_log_2031_05_07',
  ]);
});

test('stores nothing of a company in tables without one', async () => {
  const rows = await database()<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname <> all(${[...tables, ...partitions]}) order by 1`;
  // oauth_artifacts names users, and only its own role can access it: see below.
  expect(rows.map((row) => row.name)).toEqual([
    'companies',
    'migrations',
    'oauth_artifacts',
    'roles',
    'server_secrets',
  ]);
});

describe('the roles of the server', () => {
  test('uses roles that are no superusers, do not bypass row-level security, cannot sign in and own nothing', async () => {
    const roles = await database()`
      select rolname, rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb,
        (select count(*)::int from pg_class where relowner = pg_roles.oid) as owned
      from pg_roles where rolname like 'crm\\_%' and rolname <> all(${triedRoles.map(tried)}) order by 1`;
    const nothing = {
      rolsuper: false,
      rolbypassrls: false,
      rolcanlogin: false,
      rolcreaterole: false,
      rolcreatedb: false,
      owned: 0,
    };
    expect(roles).toEqual([
      { rolname: 'crm_app', ...nothing },
      { rolname: 'crm_oauth', ...nothing },
      { rolname: 'crm_platform', ...nothing },
      { rolname: 'crm_purge', ...nothing },
    ]);
  });

  test('makes no role a member of another role', async () => {
    expect(
      await database()`select from pg_auth_members where member in ('crm_app'::regrole, 'crm_oauth'::regrole, 'crm_platform'::regrole, 'crm_purge'::regrole)`,
    ).toHaveLength(0);
  });

  test('limits crm_oauth to oauth_artifacts, which no other role reads', async () => {
    const reached = await database()<{ table: string; role: string }[]>`
      select relname as table, rolname as role from pg_class, pg_roles
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
        and rolname like 'crm\\_%' and rolname <> all(${triedRoles.map(tried)}) and (rolname = 'crm_oauth' or relname = 'oauth_artifacts')
        and (has_any_column_privilege(rolname, pg_class.oid, 'select, insert, update') or has_table_privilege(rolname, pg_class.oid, 'delete'))
      order by 1, 2`;
    // The sweep deletes expired rows.
    expect(reached.map(({ table, role }) => `${role} ${table}`)).toEqual([
      'crm_oauth oauth_artifacts',
      'crm_platform oauth_artifacts',
    ]);
    const [platform] = await database()`
      select has_column_privilege('crm_platform', 'oauth_artifacts', 'payload', 'select') as reads,
        has_any_column_privilege('crm_platform', 'oauth_artifacts', 'insert, update') as writes`;
    expect(platform).toEqual({ reads: false, writes: false });
  });

  test('denies crm_app passwords, refresh tokens and server secrets, and changes of the past', async () => {
    await asTenant({ companyId: tenant.companyId }, async (sql) => {
      const denied = '42501';
      expect(await catchSqlState(sql, (inner) => inner`select password_hash from sign_ins`)).toBe(denied);
      expect(await catchSqlState(sql, (inner) => inner`select from refresh_tokens`)).toBe(denied);
      expect(await catchSqlState(sql, (inner) => inner`select from server_secrets`)).toBe(denied);
      expect(await catchSqlState(sql, (inner) => inner`update audit_logs set action = 'x'`)).toBe(denied);
      expect(await catchSqlState(sql, (inner) => inner`delete from audit_logs`)).toBe(denied);
      expect(await catchSqlState(sql, (inner) => inner`update outbox_events set event = 'x'`)).toBe(denied);
      expect(await catchSqlState(sql, (inner) => inner`update feed_events set event = 'x'`)).toBe(denied);
      expect(
        await catchSqlState(sql, (inner) => inner`insert into roles (id, name) values (${randomUUID()}, 'x')`),
      ).toBe(denied);
      expect(await catchSqlState(sql, (inner) => inner`create table mine (id int)`)).toBe(denied);
    });
  });

  test('shows crm_purge nothing without a company, and nothing of another company', async () => {
    for (const table of tables)
      expect([table, await asTenant({}, (sql) => count(sql, table), 'crm_purge')]).toEqual([table, 0]);
    await asTenant(
      { companyId: tenant.companyId },
      async (sql) => {
        for (const table of tables) {
          const [row] = await sql<{ foreign: number }[]>`
            select count(*)::int as foreign from ${sql(table)} where company_id <> ${tenant.companyId}`;
          expect([table, row?.foreign]).toEqual([table, 0]);
        }
        expect(await count(sql, 'leads')).toBe(2);
        expect(await count(sql, 'companies')).toBe(1);
      },
      'crm_purge',
    );
  });

  test('shows crm_platform no customer data', async () => {
    const data = [
      'leads',
      'deals',
      'customers',
      'accounts',
      'tasks',
      'activities',
      'custom_records',
      'links',
      'deleted_items',
      'record_tags',
      'search_blocks',
      'search_signatures',
      'audit_logs',
      'request_log',
    ];
    // Whose events and deleted records wait, and which are past their time; not what they tell.
    const recorded = ['event', 'data', 'actor', 'changes'];
    for (const [table, columns] of [
      ['outbox_events', recorded],
      ['feed_events', recorded],
      ['deleted_records', ['document', 'deleted_by_id', 'restored_by']],
    ] as const)
      for (const column of columns)
        expect(
          await asTenant(
            {},
            (sql) => catchSqlState(sql, (inner) => inner`select ${inner(column)} from ${inner(table)}`),
            'crm_platform',
          ),
        ).toBe('42501');
    for (const table of data) {
      // Sign-ins write to the audit log and responses to the request log. This role reads neither.
      const allowed = table === 'audit_logs' || table === 'request_log' ? ['insert'] : [];
      for (const action of ['select', 'insert', 'update', 'delete'])
        expect([table, action, await mayDo(action, table, 'crm_platform')]).toEqual([
          table,
          action,
          allowed.includes(action),
        ]);
      expect(
        await asTenant({}, (sql) => catchSqlState(sql, (inner) => inner`select from ${inner(table)}`), 'crm_platform'),
      ).toBe('42501');
    }
  });
});

describe('without a tenant', () => {
  test('shows no rows without a tenant', async () => {
    for (const table of tables.filter(isReadable))
      expect([table, await asTenant({}, (sql) => count(sql, table))]).toEqual([table, 0]);
    expect(await asTenant({}, (sql) => count(sql, 'companies'))).toBe(0);
  });

  test('changes, deletes and adds no rows without a tenant', async () => {
    await expectIsolated({}, tenant.companyId);
  });
});

describe("with one tenant's id", () => {
  test('shows only rows of the tenant, and only of one mode in tables with modes', async () => {
    for (const table of tables.filter(isReadable)) {
      const hasModes = await columnExists(table, 'test_mode');
      for (const testMode of [false, true]) {
        const [row] = await asTenant(
          { companyId: tenant.companyId, testMode },
          (sql) => sql<{ foreign: number }[]>`
          select count(*)::int as foreign from ${sql(table)}
          where company_id <> ${tenant.companyId} ${hasModes && table !== 'audit_logs' ? sql`or test_mode <> ${testMode}` : sql``}`,
        );
        expect([table, row?.foreign]).toEqual([table, 0]);
      }
    }
    const leads = (testMode: boolean): Promise<number> =>
      asTenant({ companyId: tenant.companyId, testMode }, (sql) => count(sql, 'leads'));
    expect([await leads(false), await leads(true)]).toEqual([1, 1]);
    expect(await asTenant({ companyId: tenant.companyId }, (sql) => count(sql, 'companies'))).toBe(1);
  });

  test('rejects changing, deleting and adding rows of another tenant', async () => {
    await expectIsolated({ companyId: tenant.companyId, testMode: false }, other.companyId);
  });

  test('rejects moving a row to another tenant', async () => {
    await asTenant({ companyId: tenant.companyId, testMode: false }, async (sql) => {
      for (const table of ['leads', 'users', 'api_keys', 'statuses', 'custom_fields'])
        expect([
          table,
          await catchSqlState(sql, (inner) => inner`update ${inner(table)} set company_id = ${other.companyId}`),
        ]).toEqual([table, '42501']);
    });
  });

  test('rejects moving a row to the other mode', async () => {
    const code = await asTenant({ companyId: tenant.companyId, testMode: false }, (sql) =>
      catchSqlState(sql, (inner) => inner`update leads set test_mode = true`),
    );
    expect(code).toBe('42501');
  });

  test('rejects references of live rows to test rows and to other tenants', async () => {
    const account = {
      test: await newRecord(tenant, 'test', 'accounts'),
      foreign: await newRecord(other, 'live', 'accounts'),
    };
    for (const id of Object.values(account)) {
      const code = await asTenant({ companyId: tenant.companyId, testMode: false }, (sql) =>
        catchSqlState(sql, (inner) => inner`update customers set account_id = ${id}`),
      );
      expect(code).toBe('23503');
    }
  });
});

async function columnExists(table: string, column: string): Promise<boolean> {
  const rows = await database()`
    select from information_schema.columns where table_schema = 'public' and table_name = ${table} and column_name = ${column}`;
  return rows.length > 0;
}

/** Expects that no statement reaches a company's rows in any table that the role may write. */
async function expectIsolated(settings: { companyId?: string; testMode?: boolean }, companyId: string): Promise<void> {
  for (const table of tables) {
    await asTenant(settings, async (sql) => {
      const [column] = await openColumns('update', table);
      if (column) {
        const changed =
          await sql`update ${sql(table)} set ${sql(column.name)} = ${sql(column.name)} where company_id = ${companyId}`;
        expect([table, 'changed', changed.count]).toEqual([table, 'changed', 0]);
      }
      if (await mayDo('delete', table)) {
        const removed = await sql`delete from ${sql(table)} where company_id = ${companyId}`;
        expect([table, 'removed', removed.count]).toEqual([table, 'removed', 0]);
      }
      const columns = (await openColumns('insert', table)).filter(({ needed }) => needed);
      if (columns.length > 0) {
        // Policies reject a row before keys and constraints are checked.
        const values = columns.map(({ name, type }) => (name === 'company_id' ? companyId : anyValue(type)));
        const code = await catchSqlState(sql, (inner) =>
          inner.unsafe(
            `insert into ${table} (${columns.map((column) => column.name).join(', ')}) values (${columns.map((column, index) => `$${index + 1}::text::${column.type}`).join(', ')})`,
            values,
          ),
        );
        expect([table, 'added', code]).toEqual([table, 'added', '42501']);
      }
    });
  }
}

/** Returns a value of a type as text. */
function anyValue(type: string): string {
  if (type === 'uuid') return randomUUID();
  if (type === 'boolean') return 'false';
  if (type === 'jsonb') return '{}';
  if (type === 'int8range') return '[1,2)';
  if (type === 'bytea') return '\\x00';
  if (type.endsWith('[]')) return '{}';
  if (type.startsWith('timestamp')) return '2026-01-01T00:00:00Z';
  return /int|numeric/.test(type) ? '1' : 'x';
}
