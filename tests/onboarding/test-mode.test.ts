// The test-mode reset: removes everything that test keys created, and nothing else.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { newNote } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { now, readFeed, untilTaken } from '../support/feeds.ts';
import { createRecord, createRecords, lead, newCustomObject, recordsPath } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newKey, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';
import { newDelivery, newWebhook, withoutDeliveries } from '../support/webhooks.ts';

const path = '/v1/test-mode/reset';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
  await newCustomObject(tenant, 'visits');
});

const reset = (key: string, body?: object): Promise<Json> =>
  expectStatus(200, 'POST', path, { key, ...(body ? { body } : {}) }).then((answer) => answer.body.data);

/** Creates records of every kind, and a lead with everything that can belong to it. */
async function fill(key: string): Promise<void> {
  const { id } = await createRecord(key, 'leads', lead());
  const onLead = (what: string): string => `${recordsPath('leads', id)}/${what}`;
  const task = { title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z' };
  await expectStatus(201, 'POST', onLead('tasks'), { key, body: task, idempotencyKey: true });
  await expectStatus(201, 'POST', onLead('notes'), { key, body: { content: 'N' } });
  await expectStatus(201, 'POST', onLead('attachments'), { key, ...fileForm() });
  const activity = { entity_type: 'lead', entity_id: id, activity_type: 'Call', summary: 'Called' };
  await expectStatus(201, 'POST', '/v1/activities', { key, body: activity });
  await expectStatus(200, 'POST', `/v1/leads/${id}/convert`, { key, body: {} });
  await createRecord(key, 'accounts', { name: 'Blue Lake' });
  await createRecord(key, 'object:visits', { name: 'First' });
}

/**
 * Returns how many rows a company has in each data table. Leaves out the search index, which
 * follows.
 */
async function countRows({ companyId }: Tenant, testMode: boolean): Promise<Record<string, number>> {
  const sql = database();
  const tables = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'test_mode' and not a.attisdropped)
      and not c.relispartition and c.relname not like 'search\\_%'`;
  const counts: Record<string, number> = {};
  for (const { name } of tables) {
    const [row] = await sql`
      select count(*)::int as rows from ${sql(name)} where company_id = ${companyId} and test_mode = ${testMode}`;
    if (row?.rows > 0) counts[name] = row?.rows;
  }
  return counts;
}

describe('a reset', () => {
  test('removes all test data, returns its counts, and keeps live data', async () => {
    for (const key of [tenant.key, tenant.testKey]) await fill(key);
    for (const mode of ['live', 'test'] as const)
      await newDelivery(tenant, mode, (await newWebhook(tenant, mode, withoutDeliveries)).id as string);
    await untilTaken(tenant.key);
    // The dispatcher creates the backlog of webhooks after the feed.
    const waiting = () => database()`select from webhook_backlog where company_id = ${tenant.companyId}`;
    await expect.poll(async () => (await waiting()).length).toBe(0);
    const [live, before] = [await countRows(tenant, false), await countRows(tenant, true)];
    expect(Object.keys(before)).toEqual(expect.arrayContaining(['leads', 'notes', 'attachments', 'feed_events']));
    const { deleted } = await reset(tenant.testKey);
    expect(deleted).toMatchObject({
      leads: 1,
      customers: before.customers,
      accounts: before.accounts,
      tasks: 1,
      activities: 1,
      'object:visits': 1,
      notes: 1,
      attachments: 1,
      deliveries: 1,
      events: before.feed_events,
    });
    // The file waits for the sweep. The feed position and the webhook subscriptions stay.
    expect(await countRows(tenant, true)).toEqual({ stored_files: 1, feeds: 1, webhook_subscriptions: 1 });
    const [file] = await database()`
      select remove_after <= now() as due from stored_files where company_id = ${tenant.companyId} and test_mode`;
    expect(file?.due).toBe(true);
    expect(await countRows(tenant, false)).toEqual(live);
    const [row] = await database()`
      select action, metadata from audit_logs where company_id = ${tenant.companyId} and action = 'test_mode.reset'`;
    expect(row?.metadata.deleted).toEqual(deleted);
  });

  test('frees the Idempotency-Keys of test calls, and expires the cursors of the test feed', async () => {
    const { testKey: key } = await newWideTenant();
    const create = () =>
      call('POST', recordsPath('accounts'), { key, body: { name: 'A' }, idempotencyKey: 'fixed-key' });
    const first = (await create()).body.data.record.id;
    const cursor = await now(key);
    await reset(key);
    const again = await create();
    expect(again.headers.get('idempotent-replay')).toBeNull();
    expect(again.body.data.record.id).not.toBe(first);
    const refused = await expectStatus(409, 'GET', '/v1/changes', { key, query: { cursor } });
    expect(refused.body.error.details.reason).toBe('cursor_expired');
    await untilTaken(key);
    expect((await readFeed(key)).changes).toMatchObject([{ record_id: again.body.data.record.id }]);
  });

  test('writes an audit row for what an interrupted reset removed', async () => {
    const { companyId, testKey: key } = await newWideTenant();
    await createRecord(key, 'accounts', { name: 'Gone' });
    await untilTaken(key);
    await database().begin(async (sql) => {
      await sql`select from feeds where company_id = ${companyId} and test_mode for update`;
      await expectStatus(503, 'POST', path, { key });
    });
    expect(await database()`select from accounts where company_id = ${companyId} and test_mode`).toHaveLength(0);
    const rows = await database()`
      select action, metadata, test_mode from audit_logs where company_id = ${companyId} and action like 'test_mode.%'`;
    expect(rows).toEqual([{ action: 'test_mode.reset_begin', metadata: { objects: null }, test_mode: true }]);
  });

  test('resets only the requested objects', async () => {
    const own = await newWideTenant();
    const { testKey: key } = own;
    await createRecord(key, 'accounts', { name: 'Kept' });
    await createRecord(key, 'leads', lead());
    await newNote(own, 'test');
    expect(await reset(key, { objects: ['leads', 'leads'] })).toMatchObject({ deleted: { leads: 1 } });
    expect(await countRows(own, true)).toMatchObject({ accounts: 2, notes: 1 });
    await expectStatus(404, 'POST', path, { key, body: { objects: ['leads', 'object:none'] } });
  });

  test('returns a count for every kind of removed rows, including 0', async () => {
    const own = await newWideTenant();
    await newCustomObject(own, 'visits');
    const objects = ['activities', 'tasks', 'deals', 'customers', 'leads', 'accounts', 'object:visits'];
    const further = [
      'notes',
      'attachments',
      'reservations',
      'bookings',
      'drafts',
      'campaign_runs',
      'campaigns',
      'workforce_runs',
      'dnc_entries',
      'email_suppressions',
      'phone_numbers',
      'inbound_reports',
      'messages',
      'exports',
      'imports',
      'reverts',
      'change_sets',
      'deliveries',
      'events',
    ];
    await reset(own.testKey);
    const nothing = (kinds: string[]) => Object.fromEntries(kinds.map((kind) => [kind, 0]));
    expect((await reset(own.testKey)).deleted).toEqual(nothing([...objects, ...further]));
    const ofDeals = ['deals', 'activities', 'tasks', 'notes', 'attachments', 'events'];
    expect((await reset(own.testKey, { objects: ['deals'] })).deleted).toEqual(nothing(ofDeals));
  });

  test('counts messages that belong to records', async () => {
    const own = await newWideTenant();
    const { testKey: key } = own;
    await reset(key);
    const { id } = await createRecord(key, 'leads', lead());
    await database()`
      insert into messages (company_id, test_mode, id, channel, direction, object, record_id, body, occurred_at)
      values (${own.companyId}, true, ${randomUUID()}, 'sms', 'inbound', 'leads', ${id}, 'Hello', now())`;
    expect((await reset(key)).deleted).toMatchObject({ leads: 1, messages: 1 });
  });

  test('removes more rows than one step takes, including those of disabled objects', async () => {
    const own = await newWideTenant();
    const { testKey: key } = own;
    const names = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `No ${index}` }));
    for (let batch = 0; batch < 3; batch += 1) await createRecords(key, 'accounts', names(100));
    await newCustomObject(own, 'trips');
    await createRecord(key, 'object:trips', { name: 'First' });
    await expectStatus(200, 'PATCH', '/v1/objects/object:trips', { key: own.key, body: { enabled: false } });
    expect((await reset(key)).deleted).toMatchObject({ accounts: 300, 'object:trips': 1 });
  });
});

describe('permission to reset', () => {
  test('allows a reset for a test key with the scope, but not for a live key or an app', async () => {
    const refused = await expectStatus(403, 'POST', path, { key: tenant.key });
    expect(refused.body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { reason: 'test_key_required' } });
    const weak = await newKey(tenant, { environment: 'test', scopes: ['leads:*'] });
    const lacking = await expectStatus(403, 'POST', path, { key: weak });
    expect(lacking.body.error.details.required_scopes).toEqual(['settings:configure']);
  });

  test('runs one reset at a time, and does not wait forever for one that died', async () => {
    const { companyId, testKey: key } = await newWideTenant();
    const claim = (until: string) => database()`
      insert into test_mode_resets (company_id, claimed_until) values (${companyId}, now() + ${until}::interval)
      on conflict (company_id) do update set claimed_until = excluded.claimed_until`;
    await claim('10 seconds');
    const refused = await expectStatus(409, 'POST', path, { key });
    expect(refused.body.error.details).toEqual({ reason: 'reset_in_progress' });
    await claim('-1 seconds');
    await reset(key);
    const statuses = await Promise.all(
      Array.from({ length: 8 }, async () => (await call('POST', path, { key })).status),
    );
    expect(new Set(statuses)).toEqual(new Set(statuses.includes(409) ? [200, 409] : [200]));
    await reset(key);
  });
});
