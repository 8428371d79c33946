// Records lose references to a deleted record, and that counts as their change.
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { clearPendingReferences } from '../../jobs/records/reference-clearing.ts';
import type { JobPools } from '../../jobs/runner.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { createRecord, lead, leftBehind, readRecord, recordsPath, refusedFields } from '../support/records.ts';
import { createSetting } from '../support/settings.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
/** Two more servers that can run the job. */
let servers: JobPools[];

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  const shared = { url: inject('databaseUrl'), prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
  servers = [1, 2].map(() => ({
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: 1 }),
  }));
});
afterAll(() => Promise.all(servers.flatMap(({ platform, tenants }) => [platform.close(1), tenants.close(1)])));

const remove = (object: string, id: string) => call('DELETE', recordsPath(object, id), { key });
const readEtag = async (object: string, id: string) =>
  (await expectStatus(200, 'GET', recordsPath(object, id), { key })).headers.get('etag');

/** Creates a converted lead with its customer, account and deal. */
async function convertedLead(): Promise<{ leads: string; customers: string; accounts: string; deals: string }> {
  const { id } = await createRecord(key, 'leads', lead({ company_name: `Company ${Math.random()}` }));
  const { body } = await expectStatus(200, 'POST', `/v1/leads/${id}/convert`, { key, body: { create_deal: true } });
  const { customer, account, deal } = body.data;
  return { leads: id, customers: customer.id, accounts: account.id, deals: deal.id };
}

describe('a record that loses its reference', () => {
  test.each([
    ['accounts', { customers: 'account_id', deals: 'account_id' }],
    ['customers', { leads: 'converted_customer_id', deals: 'customer_id' }],
    ['leads', { customers: 'lead_id', deals: 'lead_id' }],
  ] as const)('when one of the %s is deleted has changed', async (object, referring) => {
    const ids = await convertedLead();
    const before = new Map<string, Json>();
    for (const name of Object.keys(referring) as (keyof typeof ids)[])
      before.set(name, { ...(await readRecord(key, name, ids[name])), etag: await readEtag(name, ids[name]) });
    const cursor = await now(key);
    expect((await remove(object, ids[object])).status).toBe(200);

    const changes = await changesAfter(key, cursor);
    expect(changes.map(({ event, object: of, changed_fields }) => [event, of, changed_fields])).toEqual([
      ['record.deleted', object, undefined],
      ...Object.entries(referring).map(([name, field]) => ['record.updated', name, [field]]),
    ]);
    for (const [name, field] of Object.entries(referring)) {
      const id = ids[name as keyof typeof ids];
      const record = await readRecord(key, name, id);
      expect(record).toMatchObject({ [field]: null });
      expect(record.updated_at > before.get(name).updated_at).toBe(true);
      expect(await readEtag(name, id)).toBe(`"${Number(before.get(name).etag.slice(1, -1)) + 1}"`);
      const { body } = await expectStatus(200, 'GET', `${recordsPath(name, id)}/history`, { key });
      expect(body.data.history[0]).toMatchObject({
        actor: { kind: 'api_key' },
        occurred_at: record.updated_at,
        changes: { [field]: { from: ids[object], to: null } },
      });
    }
  });

  test('updates the automatic tags of a record that loses its reference', async () => {
    const tag = {
      name: 'Alone',
      fields: ['account_id'],
      conditions: [{ field: 'account_id', operator: 'is_null', value: true }],
    };
    await createSetting(tenant, '/v1/settings/tags/customers', tag);
    const { id: account_id } = await createRecord(key, 'accounts', { name: 'A' });
    const customer = await createRecord(key, 'customers', { first_name: 'C', account_id });
    const tags = async () =>
      (await expectStatus(200, 'GET', `/v1/customers/${customer.id}`, { key })).body.data.customer.tags.length;
    expect(await tags()).toBe(0);
    expect((await remove('accounts', account_id)).status).toBe(200);
    expect(await tags()).toBe(1);
  });

  test('changes no reference if the deletion is rejected', async () => {
    const { id: account_id } = await createRecord(key, 'accounts', { name: 'A' });
    const customer = await createRecord(key, 'customers', { first_name: 'C', account_id });
    const headers = { 'if-match': '"9"' };
    await expectStatus(409, 'DELETE', recordsPath('accounts', account_id), { key, headers });
    expect(await readRecord(key, 'customers', customer.id)).toEqual(customer);
    expect((await leftBehind(customer.id)).events).toHaveLength(1);
  });
});

/** Creates deals of a customer. @returns the id of one without events yet */
async function addDeals(customer: string, count: number): Promise<string> {
  const { id } = await createRecord(key, 'deals', { name: 'D', customer_id: customer });
  const sql = database();
  const copies = await sql<{ id: string }[]>`
    insert into deals (company_id, test_mode, id, name, pipeline_id, stage_id, customer_id, created_by_kind, created_by_id, created_at, updated_at)
    select company_id, test_mode, gen_random_uuid(), name, pipeline_id, stage_id, customer_id, created_by_kind, created_by_id, created_at, updated_at
    from deals r, generate_series(1, ${count - 1}::int) where r.id = ${id}
    returning id`;
  return copies[0]?.id ?? '';
}

/**
 * Counts the deals that still refer to a customer, those that lost it, and their audit rows and
 * pending work.
 */
async function countDeals(customer: string): Promise<Json> {
  const { companyId } = tenant;
  const [row] = await database()`
    with cleared as (
      select record_id from audit_logs
      where company_id = ${companyId} and action = 'deal.update' and changes -> 'customer_id' ->> 'from' = ${customer}
    )
    select (select count(*)::int from deals where company_id = ${companyId} and customer_id = ${customer}) as referring,
      (select count(*)::int from cleared) as audited,
      (select count(distinct record_id)::int from cleared) as deals,
      (select count(*)::int from deals where company_id = ${companyId} and version = 2 and customer_id is null
        and id::text in (select record_id from cleared)) as cleared,
      (select count(*)::int from reference_clearings where company_id = ${companyId}) as pending`;
  return row;
}

const untilCleared = (customer: string, count: number) =>
  vi.waitFor(
    async () =>
      expect(await countDeals(customer)).toEqual({
        referring: 0,
        audited: count,
        deals: count,
        cleared: count,
        pending: 0,
      }),
    { timeout: 60_000, interval: 100 },
  );

describe('a record that thousands refer to', () => {
  test('deletes the record immediately, and clears each reference once in a job on any server', async () => {
    const { id } = await createRecord(key, 'customers', { first_name: 'C' });
    const referring = await addDeals(id, 5200);
    const answer = await remove('customers', id);
    expect([answer.status, answer.body.data]).toEqual([202, { object: 'customers', id, deleted: true }]);
    await expectStatus(404, 'GET', recordsPath('customers', id), { key });
    expect(
      await refusedFields(422, 'PATCH', recordsPath('deals', referring), { key, body: { customer_id: id } }),
    ).toEqual(['customer_id NOT_FOUND']);
    await Promise.all(servers.map((pools) => clearPendingReferences(buildJobContext('reference-clearing', pools))));
    await untilCleared(id, 5200);
    const [audit] = await database()`
      select action, actor_kind, request_id from audit_logs where record_id = ${referring} and company_id = ${tenant.companyId}`;
    const requestId = answer.headers.get('x-request-id');
    expect(audit).toEqual({ action: 'deal.update', actor_kind: 'api_key', request_id: requestId });
    expect((await leftBehind(referring)).events.map(({ event }) => event)).toEqual(['record.updated']);
  });

  test('counts the references of all records of a batch together', async () => {
    const customers = [];
    for (const count of [600, 600]) {
      const { id } = await createRecord(key, 'customers', { first_name: 'C' });
      await addDeals(id, count);
      customers.push(id);
    }
    const { body } = await expectStatus(200, 'POST', `${recordsPath('customers')}:batch-delete`, {
      key,
      body: { ids: customers },
      idempotencyKey: true,
    });
    expect(body.data.succeeded_count).toBe(2);
    for (const id of customers) await untilCleared(id, 600);
  });

  test('clears up to a thousand references in the transaction of the deletion', async () => {
    const { id } = await createRecord(key, 'customers', { first_name: 'C' });
    await addDeals(id, 1000);
    await expectStatus(200, 'DELETE', recordsPath('customers', id), { key });
    expect(await countDeals(id)).toEqual({ referring: 0, audited: 1000, deals: 1000, cleared: 1000, pending: 0 });
  });
});
