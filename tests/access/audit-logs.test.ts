// The audit log: access, filters, and the retention of its months.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dropAuditMonths, sweepOtherAuditLogs } from '../../db/access/audit-logs.ts';
import { newBearer } from '../support/access-tokens.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { createRecord, lead, patchRecord, recordsPath } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newKey, newTenant, rowDatabase, type Tenant, useDatabase } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newWideTenant();
  key = tenant.key;
});

type Query = Record<string, string | number>;

async function page(query: Query = {}, reader = key): Promise<Json> {
  return (await expectStatus(200, 'GET', '/v1/audit-logs', { key: reader, query })).body.data;
}

/** Returns all pages, however short they are. */
async function logs(query: Query = {}, reader = key): Promise<Json[]> {
  const rows: Json[] = [];
  let cursor: string | null = null;
  do {
    const data: Json = await page({ limit: 100, ...query, ...(cursor === null ? {} : { cursor }) }, reader);
    rows.push(...data.audit_logs);
    cursor = data.next_cursor;
  } while (cursor !== null);
  return rows;
}

describe('an audit row', () => {
  test('records who changed what, from and to which value, when and from where', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'Blue Lake', city: 'Hamburg' });
    const options = { key, body: { city: 'Berlin' }, ip: '203.0.113.9' };
    const { body } = await expectStatus(200, 'PATCH', recordsPath('accounts', id), options);
    const [row, first, ...rest] = await logs({ record_id: id });
    expect(rest).toEqual([]);
    expect(row).toMatchObject({
      actor: { kind: 'api_key', name: expect.any(String) },
      action: 'account.update',
      object: 'accounts',
      record_id: id,
      test_mode: false,
      ip: '203.0.113.9',
      changes: { city: { from: 'Hamburg', to: 'Berlin' } },
      request_id: body.meta.request_id,
    });
    expect(first).toMatchObject({ action: 'account.create', changes: null });
    expect(new Date(row.occurred_at).getTime()).toBeGreaterThanOrEqual(new Date(first.occurred_at).getTime());
  });

  test('records the app or the person of a change by name', async () => {
    const token = await newBearer(tenant);
    const { body } = await expectStatus(201, 'POST', '/v1/leads', { token, body: lead() });
    const [row] = await logs({ record_id: body.data.lead.id });
    expect(row.actor).toMatchObject({ kind: 'oauth_client' });
    await database()`
      insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, test_mode)
      values (${tenant.companyId}, gen_random_uuid(), now(), 'user', ${tenant.admin.id}, gen_random_uuid(), '::1', 'api_key.create', false)`;
    const [made] = await logs({ actor_id: tenant.admin.id });
    expect(made.actor).toMatchObject({ kind: 'user', id: tenant.admin.id, name: expect.stringMatching(/\w/) });
  });
});

describe('filters of the audit log', () => {
  test('returns exactly the matching rows for each filter', async () => {
    const created = await createRecord(key, 'deals', { name: 'Offer' });
    await patchRecord(key, 'deals', created.id, { name: 'Order' });
    const [update] = await logs({ record_id: created.id });
    const actor = update.actor.id;
    const all = await logs();
    const isOf: [Query, (row: Json) => boolean][] = [
      [{ actor_id: actor }, (row) => row.actor.id === actor],
      [{ action: 'deal.update' }, (row) => row.action === 'deal.update'],
      [{ object: 'deals' }, (row) => row.object === 'deals'],
      [{ record_id: created.id }, (row) => row.record_id === created.id],
      [{ record_id: created.id, object: 'leads' }, () => false],
      [{ request_id: update.request_id }, (row) => row.request_id === update.request_id],
      [{ from: update.occurred_at }, (row) => row.occurred_at >= update.occurred_at],
      [{ to: update.occurred_at }, (row) => row.occurred_at <= update.occurred_at],
      [{ object: 'deals', action: 'deal.create', actor_id: actor }, (row) => row.action === 'deal.create'],
      [{ action: 'nothing.like.it' }, () => false],
    ];
    for (const [query, matches] of isOf)
      expect({ query, rows: await logs(query) }).toEqual({ query, rows: all.filter(matches) });
  });

  test('rejects invalid filters', async () => {
    for (const query of [
      { from: 'yesterday' },
      { from: '2026-02-02', to: '2026-02-01' },
      { request_id: '7' },
      { action: '' },
    ] as Query[]) {
      const { body } = await expectStatus(400, 'GET', '/v1/audit-logs', { key, query });
      expect(body.error.details.fields).toHaveLength(1);
    }
    const { next_cursor: cursor } = await page({ limit: 1 });
    await expectStatus(400, 'GET', '/v1/audit-logs', { key, query: { cursor, action: 'deal.create' } });
  });

  test('finds a rare row among many over possibly short pages', async () => {
    const { companyId, key: own } = await newWideTenant();
    const insert = (action: string, from: number, to: number) => database()`
      insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, test_mode)
      select ${companyId}, gen_random_uuid(), now() - n * interval '1 second', 'system', 'x', gen_random_uuid(), '::1', ${action}, false
      from generate_series(${from}::int, ${to}::int) n`;
    await insert('often', 1, 60_000);
    await insert('seldom', 60_001, 60_003);
    const first = await page({ action: 'seldom' }, own);
    expect(first).toMatchObject({ audit_logs: [], has_more: true });
    expect(await logs({ action: 'seldom' }, own)).toHaveLength(3);
    expect(await logs({ action: 'seldom', limit: 2 }, own)).toHaveLength(3);
  });
});

describe('access to the audit log', () => {
  test('requires settings:view, and shows keys only rows of their own mode', async () => {
    await expectStatus(403, 'GET', '/v1/audit-logs', { key: await newKey(tenant, { scopes: ['leads:*'] }) });
    const { id } = await createRecord(tenant.testKey, 'accounts', { name: 'Test' });
    expect(await logs({ record_id: id })).toEqual([]);
    expect(await logs({ record_id: id }, tenant.testKey)).toMatchObject([{ test_mode: true }]);
    const stranger = await newWideTenant();
    expect(await logs({ record_id: id }, stranger.key)).toEqual([]);
  });
});

// In its own database: a month is dropped only if nothing writes to the log at that moment.
describe('months beyond the retention', () => {
  let url: string;
  beforeAll(async () => {
    url = await newDatabase();
    await useDatabase(url);
  });
  afterAll(async () => {
    await useDatabase(undefined);
    await dropDatabase(url);
  });

  test('drops a month only after the retention of its last day', async () => {
    const sql = database();
    await sql`select make_audit_partitions('2021-03-10')`;
    const months = async (): Promise<string[]> =>
      (await sql`select relname from pg_class where relname like 'audit_logs_2021_%' and relkind = 'r' order by 1`).map(
        ({ relname }) => relname,
      );
    expect(await months()).toEqual(['audit_logs_2021_03', 'audit_logs_2021_04']);
    const kept = 400 * 86_400_000;
    await dropAuditMonths(rowDatabase(), new Date(Date.parse('2021-03-31T12:00:00Z') + kept));
    expect(await months()).toEqual(['audit_logs_2021_03', 'audit_logs_2021_04']);
    expect(await dropAuditMonths(rowDatabase(), new Date(Date.parse('2021-04-01T12:00:00Z') + kept))).toBe(1);
    expect(await months()).toEqual(['audit_logs_2021_04']);
    // A concurrent writer is not blocked. A later run drops the partition.
    const later = new Date(Date.parse('2021-05-02T00:00:00Z') + kept);
    await sql.begin(async (busy) => {
      await busy`lock table audit_logs in row exclusive mode`;
      expect(await dropAuditMonths(rowDatabase(), later)).toBe(0);
    });
    expect(await dropAuditMonths(rowDatabase(), later)).toBe(1);
    expect(await months()).toEqual([]);
  });

  test('keep their rows without a partition if they have one before it is created', async () => {
    const { companyId } = await newTenant();
    const sql = database();
    await sql`
      insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, test_mode)
      values (${companyId}, gen_random_uuid(), '2022-04-30', 'system', 'x', gen_random_uuid(), '::1', 'early', false)`;
    await sql`select make_audit_partitions('2022-04-10')`;
    const made = await sql`select relname from pg_class where relname like 'audit_logs_2022_%' and relkind = 'r'`;
    expect(made.map(({ relname }) => relname)).toEqual(['audit_logs_2022_05']);
    const [row] =
      await sql`select tableoid::regclass::text as name from audit_logs where company_id = ${companyId} and action = 'early'`;
    expect(row).toEqual({ name: 'audit_logs_other' });
    await sql`delete from audit_logs_other where company_id = ${companyId} and action = 'early'`;
    await sql`drop table audit_logs_2022_05`;
  });

  test('deletes rows of a month without a partition one by one after their retention', async () => {
    const { companyId } = await newTenant();
    const now = new Date();
    const add = (days: number, id: string) => database()`
      insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, test_mode)
      values (${companyId}, ${id}, ${new Date(now.getTime() - days * 86_400_000)}, 'system', 'x', gen_random_uuid(), '::1', 'old', false)`;
    const [kept, gone] = [crypto.randomUUID(), crypto.randomUUID()];
    await add(399, kept);
    await add(401, gone);
    const swept = await rowDatabase().begin(async (sql) => {
      await sql`set local role crm_platform`;
      return sweepOtherAuditLogs(sql, 1000, now);
    });
    expect(swept).toBe(1);
    const left = await database()`select id from audit_logs_other where company_id = ${companyId}`;
    expect(left.map(({ id }) => id)).toEqual([kept]);
  });
});
