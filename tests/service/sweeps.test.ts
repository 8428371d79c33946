// Sweeps: remove all rows that are past their retention, and no others.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sweepOtherRequests } from '../../db/access/requests.ts';
import { sweepSessions } from '../../db/access/sessions.ts';
import { sweepForms } from '../../db/access/shown-secrets.ts';
import { sweepRuns } from '../../db/automation/workforce-runs.ts';
import { sweepProviderEvents } from '../../db/billing/provider-customers.ts';
import { sweepLeases } from '../../db/billing/quota.ts';
import { sweep } from '../../db/client/idempotency.ts';
import { Pool, type Sql } from '../../db/client/pool.ts';
import { sweepMails, takeMails } from '../../db/messaging/mails.ts';
import { sweepReports } from '../../db/messaging/received-reports.ts';
import { sweepChangeSets } from '../../db/records/change-sets.ts';
import { sweepExports } from '../../db/records/exports.ts';
import { sweepImports } from '../../db/records/imports.ts';
import { sweepNotifications } from '../../db/records/notifications.ts';
import { sweepReverts } from '../../db/records/reverts.ts';
import { sweepHeldTimes, sweepReservations } from '../../db/scheduling/reservations.ts';
import { sweepClocks } from '../../db/settings/sla-due.ts';
import { deliverMails } from '../../jobs/messaging/mail.ts';
import { completePastBookings } from '../../jobs/scheduling/bookings.ts';
import { sweepAll } from '../../jobs/service/sweeps.ts';
import { newLoggedRequest } from '../support/arranged-ids.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { newSentForm } from '../support/sessions.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

let pool: Pool;
/** A separate database, because a server would sweep and deliver mails in between. */
let url: string;
let tenants: Tenant[];
beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  pool = new Pool({
    url,
    role: 'crm_platform',
    lanes: 2,
    prepare: true,
    spread: false,
    wait: 10_000,
    statementTimeout: 10_000,
  });
  tenants = [await newTenant(), await newTenant()];
});
afterAll(async () => {
  await pool.close(1);
  await useDatabase(undefined);
  await dropDatabase(url);
});

/** Adds a row of an age in days to a table. @returns its id */
type Add = (tenant: Tenant, testMode: boolean, days: number) => Promise<string>;

const addAnswer: Add = async ({ companyId }, testMode, days) => {
  const key = randomUUID();
  await database()`
    insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
    values (${companyId}, ${testMode}, 'POST /', ${key}, '', 200, '', now() - make_interval(days => ${days}))`;
  return key;
};

const addExport: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  await database()`
    insert into exports (company_id, test_mode, id, object, format, spreadsheet_safe, modules, sources, status, claimed_until,
      created_by_kind, created_by_id, created_at)
    values (${companyId}, ${testMode}, ${id}, 'leads', 'csv', false, '{}', '[]', 'cancelled', now(), 'system', 'test',
      now() - make_interval(days => ${days}))`;
  return id;
};

/** A failed row of an import. The import itself stays. */
const addFailedRow: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  const sql = database();
  await sql`
    insert into imports (company_id, test_mode, id, object, options, dry_run, status, reach_kind, created_by_kind, created_by_id,
      created_at, expires_at)
    values (${companyId}, ${testMode}, ${id}, 'leads', '{}', false, 'completed', 'company', 'system', 'test', now(),
      now() - make_interval(days => ${days}))`;
  await sql`
    insert into import_errors (company_id, test_mode, import_id, row, line, code, message, fields, content)
    values (${companyId}, ${testMode}, ${id}, 1, 2, 'VALIDATION_ERROR', 'No.', '[]', '[]')`;
  return id;
};

/** An item of a plan. The revert itself stays. */
const addRevertItem: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  const sql = database();
  await sql`
    insert into reverts (company_id, test_mode, id, status, source, digest, module, reach_kind, created_by_kind, created_by_id,
      created_at, items_until)
    values (${companyId}, ${testMode}, ${id}, 'planned', '{}', '', 'reverts', 'company', 'system', 'test', now(),
      now() - make_interval(days => ${days}))`;
  await sql`
    insert into revert_items (company_id, test_mode, revert_id, object, record_id, operations, first_at, last_at, fields)
    values (${companyId}, ${testMode}, ${id}, 'leads', ${randomUUID()}, 1, now(), now(), '{}')`;
  return id;
};

const addChangeSet: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  await database()`
    insert into change_sets (company_id, test_mode, id, status, title, atomic, operations, operation_count, modules, digest,
      created_by_kind, created_by_id, expires_at, created_at)
    values (${companyId}, ${testMode}, ${id}, 'applied', 'Old', true, '[]', 0, '{}', '', 'system', 'test',
      now() - make_interval(days => ${days}), now())`;
  return id;
};

const addSession: Add = async ({ companyId, admin }, _, days) => {
  const id = randomUUID();
  await database()`
    insert into sessions (company_id, id, user_id, created_at, expires_at)
    values (${companyId}, ${id}, ${admin.id}, now(), now() - make_interval(days => ${days}))`;
  return id;
};

const addMail: Add = async ({ companyId }, _, days) => {
  const id = randomUUID();
  await database()`
    insert into mails (company_id, id, recipient, template, data, status, next_attempt_at, created_at)
    values (${companyId}, ${id}, 'a@example.com', 'welcome', '{}', 'sent', now(), now() - make_interval(days => ${days}))`;
  return id;
};

const addSentForm: Add = (tenant, _, days) => newSentForm(tenant, days);

const addClock: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  await database()`
    insert into sla_clocks (company_id, test_mode, id, policy_id, object, record_id, kind, started_at, due_at, handled_at, ended_at)
    values (${companyId}, ${testMode}, ${id}, ${randomUUID()}, 'leads', ${randomUUID()}, 'resolution', now(), now(), now(),
      now() - make_interval(days => ${days}))`;
  return id;
};

const addNotification: Add = async ({ companyId, admin }, _, days) => {
  const id = randomUUID();
  await database()`
    insert into notifications (company_id, id, user_id, kind, title, created_at)
    values (${companyId}, ${id}, ${admin.id}, 'sla_reminder', 'Soon', now() - make_interval(days => ${days}))`;
  return id;
};

const addProviderEvent: Add = async ({ companyId }, _, days) => {
  const id = randomUUID();
  await database()`
    insert into provider_events (company_id, id, received_at)
    values (${companyId}, ${id}, now() - make_interval(days => ${days}))`;
  return id;
};

const addReservation: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  await database()`
    insert into slot_reservations (company_id, test_mode, id, status, user_id, is_assigned, pool_id, policy_id, start_at, end_at, ttl_seconds, expires_at,
      hard_cap_at, created_by_kind, created_by_id, created_at)
    values (${companyId}, ${testMode}, ${id}, 'expired', ${randomUUID()}, true, ${randomUUID()}, ${randomUUID()}, now(), now(), 600, now(), now(), 'api_key',
      'x', now() - make_interval(days => ${days}))`;
  return id;
};

const addRun: Add = async ({ companyId }, testMode, days) => {
  const [workforce, id] = [randomUUID(), randomUUID()];
  await database()`
    insert into workforces (company_id, id, name, kind, status, subject_types, steps, stop_when_replied, created_at, updated_at)
    values (${companyId}, ${workforce}, ${workforce}, 'sequence', 'active', '{lead}', '[]', false, now(), now())`;
  await database()`
    insert into workforce_runs (company_id, test_mode, id, workforce_id, status, object, record_id, context, steps, stop_when_replied, position, attempts,
      created_by_kind, created_by_id, enrolled_at, ended_at)
    values (${companyId}, ${testMode}, ${id}, ${workforce}, 'completed', 'leads', ${randomUUID()}, '{}', '[]', false, 0, 0, 'api_key', 'x', now(),
      now() - make_interval(days => ${days}))`;
  return id;
};

const addReport: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  await database()`
    insert into received_reports (company_id, test_mode, id, provider, external_id, kind, details, occurred_at, received_at)
    values (${companyId}, ${testMode}, ${id}, 'generic', ${id}, 'call', '{}', now(), now() - make_interval(days => ${days}))`;
  return id;
};

const addHeldTime: Add = async ({ companyId }, testMode, days) => {
  const id = randomUUID();
  await database()`
    insert into taken_times (company_id, test_mode, id, user_id, start_at, end_at, during, expires_at)
    values (${companyId}, ${testMode}, ${id}, ${randomUUID()}, now(), now(), '[1,2)', now() - make_interval(days => ${days}))`;
  return id;
};

/** A request of a day without a partition. */
const addRequest: Add = async (tenant, testMode, days) =>
  newLoggedRequest(tenant, testMode ? 'test' : 'live', Date.now() - days * 86_400_000);

type Sweep = (sql: Sql, limit: number, now: Date) => Promise<number>;

test.each<[string, string, number, Add, Sweep]>([
  ['idempotency_records', 'key', 1, addAnswer, sweep],
  ['sessions', 'id', 1, addSession, sweepSessions],
  ['shown_secrets', 'id', 0, addSentForm, sweepForms],
  ['mails', 'id', 30, addMail, sweepMails],
  ['sla_clocks', 'id', 400, addClock, sweepClocks],
  ['notifications', 'id', 90, addNotification, sweepNotifications],
  ['slot_reservations', 'id', 30, addReservation, sweepReservations],
  ['taken_times', 'id', 0, addHeldTime, sweepHeldTimes],
  ['provider_events', 'id', 30, addProviderEvent, sweepProviderEvents],
  ['workforce_runs', 'id', 90, addRun, sweepRuns],
  ['received_reports', 'id', 400, addReport, sweepReports],
  ['exports', 'id', 30, addExport, sweepExports],
  ['import_errors', 'import_id', 0, addFailedRow, sweepImports],
  ['request_log', 'id', 30, addRequest, sweepOtherRequests],
  ['revert_items', 'revert_id', 0, addRevertItem, sweepReverts],
  ['change_sets', 'id', 90, addChangeSet, sweepChangeSets],
])('removes rows of %s after their retention, and not before', async (table, name, days, add, remove) => {
  const old: string[] = [];
  const kept: string[] = [];
  for (const tenant of tenants)
    for (const testMode of [false, true]) {
      old.push(await add(tenant, testMode, days + 1), await add(tenant, testMode, days + 1));
      kept.push(await add(tenant, testMode, days - 1));
    }
  // The database may have due rows of other tests, too.
  expect(await pool.use((sql) => remove(sql, 3, new Date()))).toBe(3);
  await pool.use((sql) => remove(sql, 1000, new Date()));
  const rows = await database()<{ id: string }[]>`
    select ${database()(name)}::text as id from ${database()(table)} where ${database()(name)}::text = any(${[...old, ...kept]})`;
  expect(rows.map(({ id }) => id).sort()).toEqual(kept.sort());
});

test('removes expired rows even if no partition can be created', async () => {
  const sql = database();
  const failing = ['make_audit_partitions', 'make_request_partitions'];
  const [tenant] = tenants as [Tenant];
  const id = await addMail(tenant, false, 31);
  const uploads = await mkdtemp(join(tmpdir(), 'uploads-'));
  for (const name of failing) await sql`alter function ${sql(name)}(date) rename to ${sql(`${name}_away`)}`;
  try {
    const context = buildJobContext('sweeps', { platform: pool, tenants: pool });
    await sweepAll(context, { remove: async () => undefined, uploads });
  } finally {
    for (const name of failing) await sql`alter function ${sql(`${name}_away`)}(date) rename to ${sql(name)}`;
    await rm(uploads, { recursive: true });
  }
  expect(await sql`select from mails where id = ${id}`).toEqual([]);
});

test('completes bookings a quarter of an hour after their end, and not before', async () => {
  const statuses = ['confirmed', 'cancelled'];
  const add = async ({ companyId }: Tenant, testMode: boolean, status: string, minutes: number): Promise<string> => {
    const id = randomUUID();
    await database()`
      insert into bookings (company_id, test_mode, id, status, user_id, policy_id, start_at, end_at, timezone, attendee_name, meeting_title, location_kind,
        provider, invitation_id, invitation_sequence, created_by_kind, created_by_id, created_at, updated_at)
      values (${companyId}, ${testMode}, ${id}, ${status}, ${randomUUID()}, ${randomUUID()}, now() - interval '1 hour',
        now() - make_interval(mins => ${minutes}), 'UTC', 'Sara', 'Call', 'phone', 'internal', ${id}, 0, 'api_key', 'x', now(), now())`;
    return id;
  };
  const made = new Map<string, string>();
  for (const tenant of tenants)
    for (const testMode of [false, true])
      for (const status of statuses)
        for (const minutes of [14, 16]) {
          const isOver = status === 'confirmed' && minutes === 16;
          made.set(await add(tenant, testMode, status, minutes), isOver ? 'completed' : status);
        }
  const settings = { lanes: 1, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
  const ofTenants = new Pool({ url, role: 'crm_app', ...settings });
  await completePastBookings(buildJobContext('bookings', { platform: pool, tenants: ofTenants }));
  await ofTenants.close(1);
  const rows = await database()`select id, status from bookings where id = any(${[...made.keys()]}::uuid[])`;
  expect(new Map(rows.map(({ id, status }) => [id, status]))).toEqual(made);
});

test('returns the unused calls of a dead process to the quota of their month once', async () => {
  const readQuota = async ({ companyId }: Tenant) => {
    const [row] = await database()`
      select (select calls::int from api_quota where company_id = ${companyId}) as calls,
        (select count(*)::int from api_quota_blocks where company_id = ${companyId}) as blocks`;
    return row;
  };
  /**
   * Adds a lease of some calls that was renewed some seconds ago, in a month that began `days`
   * before the current one.
   */
  const addBlock = ({ companyId }: Tenant, calls: number, seconds: number, days = 0) => database()`
    insert into api_quota_blocks (company_id, holder, month_start, calls, renewed_at)
    select ${companyId}, ${randomUUID()}, month_start - make_interval(days => ${days}), ${calls}, now() - make_interval(secs => ${seconds})
    from api_quota where company_id = ${companyId}`;
  const [first, second] = tenants as [Tenant, Tenant];
  for (const tenant of [first, second])
    await database()`update api_quota set calls = 1000 where company_id = ${tenant.companyId}`;
  await addBlock(first, 100, 31);
  await addBlock(first, 20, 40);
  await addBlock(first, 3, 15);
  await addBlock(first, 500, 31, 40);
  await addBlock(second, 7, 31);
  for (let turn = 0; turn < 2; turn += 1) {
    await pool.use((sql) => sweepLeases(sql, 1000, new Date()));
    expect(await readQuota(first)).toEqual({ calls: 880, blocks: 1 });
    expect(await readQuota(second)).toEqual({ calls: 993, blocks: 0 });
  }
});

test('keeps a stored response that is replaced while the sweep removes the old one', async () => {
  const [tenant] = tenants as [Tenant];
  const key = await addAnswer(tenant, false, 2);
  const held = await database().reserve();
  await held`begin`;
  await held`update idempotency_records set created_at = now() where company_id = ${tenant.companyId} and key = ${key}`;
  // The sweep has found the row by its age, and is about to remove it when the new response
  // commits.
  const removing = pool.use((sql) => sweep(sql, 1000, new Date()));
  await expect
    .poll(() => held`select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))`)
    .toHaveLength(1);
  await held`commit`;
  held.release();
  await removing;
  expect(await database()`select from idempotency_records where key = ${key}`).toHaveLength(1);
});

/** Adds five queued mails. @returns their ids */
async function addQueuedMails(tenant: Tenant, due: Date): Promise<string[]> {
  const ids: string[] = [];
  for (let count = 0; count < 5; count += 1) {
    const id = await addMail(tenant, false, 0);
    await database()`update mails set status = 'queued', next_attempt_at = ${due} where company_id = ${tenant.companyId} and id = ${id}`;
    ids.push(id);
  }
  return ids;
}

test('assigns each due mail to one of two concurrent servers', async () => {
  const [tenant] = tenants as [Tenant];
  const due = new Date(Date.now() - 3_600_000);
  const ids = await addQueuedMails(tenant, due);
  // The due time precedes that of any mail of other tests.
  const at = new Date(due.getTime() + 1);
  const taken = await Promise.all([1, 2].map(() => pool.use((sql) => takeMails(sql, 5, 600_000, at))));
  expect(taken.flatMap((each) => each.taken.map(({ id }) => id)).sort()).toEqual(ids.sort());
  for (const { attempts } of taken.flatMap((each) => each.taken)) expect(attempts).toBe(1);
});

test('ends the delivery of mails if others hold a full batch of due ones', async () => {
  const [tenant] = tenants as [Tenant];
  const ids = await addQueuedMails(tenant, new Date(Date.now() - 7_200_000));
  const held = await database().reserve();
  await held`begin`;
  await held`select from mails where company_id = ${tenant.companyId} and id = any(${ids}::uuid[]) for update`;
  const services = {
    transport: undefined,
    from: '',
    dashboardUrl: '',
    decrypt: (sealed: string) => sealed,
    buildMeetingLink: () => '',
  };
  await deliverMails(buildJobContext('mails', { platform: pool, tenants: pool }), services);
  await held`rollback`;
  held.release();
  const left = await database()`
    select distinct status, attempts from mails where company_id = ${tenant.companyId} and id = any(${ids}::uuid[])`;
  expect([...left]).toEqual([{ status: 'queued', attempts: 0 }]);
});
