// The trash: deleted records are listed, come back as they were, and are removed for good.
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { itemColumns } from '../../db/records/trash.ts';
import { clearPendingReferences } from '../../jobs/records/reference-clearing.ts';
import { emptyTrash, restorePendingReferences } from '../../jobs/records/trash.ts';
import type { JobPools } from '../../jobs/runner.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { document } from '../support/document.ts';
import { brief, changesAfter, now } from '../support/feeds.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { addNote } from '../support/record-children.ts';
import {
  createRecord,
  createRecords,
  lead,
  leftBehind,
  newCustomField,
  newCustomObject,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

let tenant: Tenant;
let key: string;
/** Another server. */
let server: JobPools;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  const shared = { url: inject('databaseUrl'), prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
  server = {
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: 1 }),
  };
  for (const [name, inverse, from, to] of [
    ['contacts', 'employer', 'accounts', 'customers'],
    ['related', 'related_to', 'accounts', 'leads'],
    ['seen_in', 'sights', 'accounts', 'tasks'],
  ]) {
    const body = {
      ...{ name, inverse_name: inverse, label: name, inverse_label: inverse },
      ...{ from_object: from, to_object: to, cardinality: 'many_to_many' },
    };
    await expectStatus(201, 'POST', '/v1/link-types', { key, body });
  }
});
afterAll(() => Promise.all([server.platform.close(1), server.tenants.close(1)]));

const trashPath = (object: string, id?: string): string =>
  `/v1/objects/${encodeURIComponent(object)}/deleted-records${id === undefined ? '' : `/${id}`}`;
const remove = (object: string, id: string, of = key) =>
  expectStatus(200, 'DELETE', recordsPath(object, id), { key: of });
const tryRestore = (object: string, id: string, of = key) =>
  call('POST', `${trashPath(object, id)}/restore`, { key: of });
const restore = async (object: string, id: string): Promise<Json> => {
  const { status, body, headers } = await tryRestore(object, id);
  expect([status, body.error]).toEqual([200, undefined]);
  return { ...body.data, etag: headers.get('etag') };
};
const list = async (object: string, query: Record<string, string | number> = {}, of = key): Promise<Json> =>
  (await expectStatus(200, 'GET', trashPath(object), { key: of, query })).body.data;
const readEtag = async (object: string, id: string) =>
  (await expectStatus(200, 'GET', recordsPath(object, id), { key })).headers.get('etag');
const linkTo = async (object: string, id: string, type: string, to: string): Promise<Json> =>
  (
    await expectStatus(201, 'POST', `${recordsPath(object, id)}/links`, {
      key,
      body: { link_type: type, record_id: to },
    })
  ).body.data.link;
const listLinkIds = async (object: string, id: string): Promise<string[]> =>
  (await expectStatus(200, 'GET', `${recordsPath(object, id)}/links`, { key })).body.data.links
    .flatMap((link: Json) => link.id ?? [])
    .sort();

const tables = [
  'leads',
  'deals',
  'customers',
  'accounts',
  ...Object.keys(itemColumns),
  'custom_records',
  'custom_value_hashes',
  'stored_files',
];

/** Every row of the tenant's records and of what hangs on them, as texts. */
async function snapshot(of: Tenant): Promise<Record<string, string[]>> {
  const rows = await Promise.all(
    tables.map(
      async (table) =>
        [
          table,
          (
            await database()<{ row: string }[]>`
              select to_jsonb(r)::text as row from ${database()(table)} r where company_id = ${of.companyId} order by 1`
          ).map(({ row }) => row),
        ] as const,
    ),
  );
  return Object.fromEntries(rows);
}

/** Counts the records and items in the trash of a tenant. */
async function countTrash(of: Tenant): Promise<Json> {
  const [row] = await database()`
    select (select count(*)::int from deleted_records where company_id = ${of.companyId}) as records,
      (select count(*)::int from deleted_items where company_id = ${of.companyId}) as items`;
  return row;
}

/** Returns a lead with one of everything on it. */
async function fullLead(of: Tenant): Promise<string> {
  const owner = await newUser(of);
  const options = { key: of.key };
  const { id } = await createRecord(
    of.key,
    'leads',
    lead({ tags: ['By hand'], city: 'Berlin', assigned_to: owner.id, badge: `B-${randomUUID()}`, source: 'Fair' }),
  );
  const activity = await createRecord(of.key, 'activities', {
    ...{ entity_type: 'lead', entity_id: id, activity_type: 'Call', summary: 'Called' },
    ...{ performed_at: '2026-11-01T09:00:00Z', followup_at: '2036-01-01T09:00:00Z' },
  });
  await addNote(of.key, 'leads', id, 'A note');
  await addNote(of.key, 'activities', activity.id, 'A note on the activity');
  const task = { title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z' };
  await expectStatus(201, 'POST', `${recordsPath('leads', id)}/tasks`, { ...options, body: task });
  await expectStatus(201, 'POST', `${recordsPath('activities', activity.id)}/tasks`, { ...options, body: task });
  await expectStatus(201, 'POST', `${recordsPath('leads', id)}/attachments`, { ...options, ...fileForm() });
  await database()`
    insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at)
    values (${of.companyId}, false, gen_random_uuid(), 'leads', ${id}, 'sms', 'inbound', 'Hello', now())`;
  await database()`
    insert into received_reports (company_id, test_mode, id, provider, external_id, kind, object, record_id, details, occurred_at, received_at)
    values (${of.companyId}, false, gen_random_uuid(), 'generic', ${randomUUID()}, 'sms', 'leads', ${id}, '{"a": [1.50]}', now(), now())`;
  const { id: account } = await createRecord(of.key, 'accounts', { name: 'Linked' });
  await expectStatus(201, 'POST', `${recordsPath('accounts', account)}/links`, {
    ...options,
    body: { link_type: 'related', record_id: id },
  });
  await createRecord(of.key, 'deals', { name: 'Of the lead', lead_id: id });
  return id;
}

describe('a deleted record', () => {
  let of: Tenant;
  beforeAll(async () => {
    of = await newTenant();
    await newCustomField(of, 'leads', 'badge', { unique: true });
    await createSetting(of, '/v1/settings/tags/leads', { name: 'By hand', fields: [] });
    await createSetting(of, '/v1/settings/sources', { name: 'Fair' });
    await createSetting(of, '/v1/settings/tags/leads', {
      name: 'Berliner',
      fields: [{ field: 'city', operator: 'eq', value: 'Berlin' }],
    });
    await expectStatus(201, 'POST', '/v1/link-types', {
      key: of.key,
      body: {
        ...{ name: 'related', inverse_name: 'related_to', label: 'R', inverse_label: 'R' },
        ...{ from_object: 'accounts', to_object: 'leads', cardinality: 'many_to_many' },
      },
    });
  });

  test('comes back byte for byte with everything that hung on it, and is nowhere meanwhile', async () => {
    const id = await fullLead(of);
    const before = await snapshot(of);
    const record = await readRecord(of.key, 'leads', id);
    expect(
      Object.entries(before)
        .filter(([, rows]) => rows.length === 0)
        .map(([table]) => table),
    ).toEqual(['customers', 'custom_records']);
    const bytes = async () =>
      (await expectStatus(200, 'GET', '/v1/usage', { key: of.key })).body.data.usage.storage_bytes;
    const stored = await bytes();

    const cursor = await now(of.key);
    await remove('leads', id, of.key);
    const meanwhile = await snapshot(of);
    for (const table of Object.keys(itemColumns)) expect([table, meanwhile[table]]).toEqual([table, []]);
    expect(meanwhile.custom_value_hashes).toEqual([]);
    expect(meanwhile.stored_files).toEqual(before.stored_files);
    expect(await bytes()).toBe(stored);
    await expectStatus(404, 'GET', recordsPath('leads', id), { key: of.key });

    const [deleted] = (await list('leads', {}, of.key)).deleted_records;
    expect(deleted).toEqual({
      ...{ id, object: 'leads', label: 'Sara', deleted_at: expect.any(String), purge_at: expect.any(String) },
      deleted_by: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      merged_into: null,
      children: { notes: 2, tasks: 2, activities: 1, messages: 1, attachments: 1, links: 1, tags: 2 },
      record,
    });
    expect(Date.parse(deleted.purge_at) - Date.parse(deleted.deleted_at)).toBe(30 * 86_400_000);
    expect((await expectStatus(200, 'GET', trashPath('leads', id), { key: of.key })).body.data.deleted_record).toEqual(
      deleted,
    );

    const answer = await tryRestore('leads', id, of.key);
    expect([answer.status, answer.body.data]).toEqual([200, { object: 'leads', record, warnings: [] }]);
    const { deals: [deal] = [], ...after } = await snapshot(of);
    const { deals: [dealBefore] = [], ...rest } = before;
    expect(after).toEqual(rest);
    const { version, updated_at } = JSON.parse(deal ?? '');
    expect({ ...JSON.parse(dealBefore ?? ''), version, updated_at }).toEqual(JSON.parse(deal ?? ''));
    expect(await countTrash(of)).toEqual({ records: 0, items: 0 });

    const changes = await changesAfter(of.key, cursor);
    expect(changes.find(({ event }: Json) => event === 'record.restored')).toMatchObject({ record });
    const recorded = changes.map(({ event, object }: Json) => `${event} ${object}`);
    expect(recorded).toEqual([
      ...['record.deleted leads', 'record.deleted activities', 'record.deleted tasks', 'record.deleted tasks'],
      'record.updated deals',
      ...['record.restored leads', 'record.restored activities', 'record.restored tasks', 'record.restored tasks'],
      'record.updated deals',
    ]);
    expect((await leftBehind(id)).audit.at(-1)).toMatchObject({ action: 'lead.restore', actor_kind: 'api_key' });
    await expectStatus(404, 'GET', trashPath('leads', id), { key: of.key });
    await expectStatus(404, 'POST', `${trashPath('leads', id)}/restore`, { key: of.key });
  });

  test('comes back to the workspace and mode of its trash, even if its document names others', async () => {
    const { id } = await createRecord(of.key, 'leads', lead({ tags: ['By hand'] }));
    await addNote(of.key, 'leads', id);
    const before = await snapshot(of);
    await remove('leads', id, of.key);
    const foreign = { company_id: tenant.companyId, test_mode: true };
    for (const table of ['deleted_records', 'deleted_items'])
      await database()`
        update ${database()(table)} set document = document || ${database().json(foreign)} where company_id = ${of.companyId}`;
    expect((await tryRestore('leads', id, of.key)).status).toBe(200);
    expect(await snapshot(of)).toEqual(before);
  });

  test('has all columns of all tables', async () => {
    const sql = database();
    const computed = await sql<{ table: string; columns: string[] }[]>`
      select attrelid::regclass::text as table, array_agg(attname::text order by attname) as columns
      from pg_attribute
      where attrelid = any(${Object.keys(itemColumns)}::regclass[]) and attnum > 0 and not attisdropped and attgenerated = ''
      group by 1 order by 1`;
    const stored = Object.entries(itemColumns).map(([table, columns]) => ({ table, columns: [...columns].sort() }));
    expect(stored.sort((a, b) => (a.table < b.table ? -1 : 1))).toEqual(
      computed.map((each) => ({ ...each, columns: [...each.columns].sort() })),
    );
  });

  test.each(['deals', 'customers', 'accounts', 'tasks', 'object:visits'])(
    'of %s comes back byte for byte',
    async (object) => {
      if (object === 'object:visits') {
        await newCustomObject(of, 'visits');
        await newCustomField(of, object, 'place');
      }
      const body = {
        deals: {
          name: 'D',
          amount_minor: 9_007_199_254_740_991,
          currency_code: 'EUR',
          expected_close_date: '2036-02-29',
        },
        customers: { first_name: 'C', notes: 'ä\u{1F600}"\\\n' },
        accounts: { name: 'A', annual_revenue_minor: 5 },
        tasks: { title: 'T', scheduled_at: '2036-01-01T09:00:00Z', status: 'open' },
        'object:visits': { name: 'Visit', place: 'Here' },
      }[object] as object;
      const { id } = await createRecord(of.key, object, body);
      const before = await snapshot(of);
      await remove(object, id, of.key);
      expect((await tryRestore(object, id, of.key)).status).toBe(200);
      expect(await snapshot(of)).toEqual(before);
    },
  );

  test('can be deleted and restored repeatedly, also in a batch', async () => {
    const ids = (
      await createRecords(
        of.key,
        'accounts',
        Array.from({ length: 100 }, (_, at) => ({ name: `A ${at}` })),
      )
    ).map(({ id }) => id);
    const before = await snapshot(of);
    for (let round = 0; round < 2; round += 1) {
      const body = { ids };
      await expectStatus(200, 'POST', `${recordsPath('accounts')}:batch-delete`, {
        key: of.key,
        body,
        idempotencyKey: true,
      });
      for (const id of ids) expect((await tryRestore('accounts', id, of.key)).status).toBe(200);
    }
    expect(await snapshot(of)).toEqual(before);
  });
});

test.skipIf(!findProgram('node'))(`the program of the guide restores what was deleted${skipNote('node')}`, async () => {
  const of = await newTenant();
  await newCustomField(of, 'leads', 'badge', { unique: true });
  const [taken, free] = await createRecords(of.key, 'leads', [lead({ badge: '1' }), lead()]);
  for (const { id } of [taken, free]) await remove('leads', id, of.key);
  await createRecord(of.key, 'leads', lead({ badge: '1' }));
  const guide =
    (document.tags ?? []).find(({ name }: { name: string }) => name === 'Deleted records')?.description ?? '';
  const source = /```ts\n([\s\S]*?)```/.exec(guide)?.[1] ?? '';
  const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `undo-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'undo.ts');
  writeFileSync(file, source.replace("'@headless-crm/sdk'", JSON.stringify(resolve('sdk/src/index.ts'))));
  const env = { PATH: process.env.PATH ?? '', CRM_URL: inject('baseUrl'), API_KEY: of.key };
  const { stdout } = await promisify(execFile)(findProgram('node') ?? '', [file], { env });
  expect(stdout.trim().split('\n')).toEqual(['Sara is back, with 0 warnings.', 'Sara exists already.']);
  expect((await readRecord(of.key, 'leads', free.id)).id).toBe(free.id);
  expect((await list('leads', {}, of.key)).deleted_records).toMatchObject([{ id: taken.id }]);
});

describe('the list', () => {
  test('is paged from the last deletion on, and filters by who and when', async () => {
    const of = await newTenant();
    const other = await newKey(of);
    const ids = (
      await createRecords(
        of.key,
        'accounts',
        [1, 2, 3, 4].map((at) => ({ name: `A ${at}` })),
      )
    ).map(({ id }) => id);
    for (const [at, id] of ids.entries()) await remove('accounts', id, at === 0 ? other : of.key);
    const newest = ids.toReversed();
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page: Json = await list('accounts', { limit: 3, ...(cursor === null ? {} : { cursor }) }, of.key);
      seen.push(...page.deleted_records.map(({ id }: Json) => id));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(newest);
    const all = (await list('accounts', {}, of.key)).deleted_records;
    const listIds = async (query: Record<string, string>) =>
      (await list('accounts', query, of.key)).deleted_records.map(({ id }: Json) => id);
    expect(await listIds({ deleted_by: all[0].deleted_by.id })).toEqual(newest.slice(0, 3));
    expect(await listIds({ deleted_by: 'nobody' })).toEqual([]);
    expect(await listIds({ from: all[1].deleted_at })).toEqual(newest.slice(0, 2));
    expect(await listIds({ to: all[1].deleted_at })).toEqual(newest.slice(1));
    expect(await listIds({ to: '2026-01-01' })).toEqual([]);
    const inverted = { from: '2026-02-01', to: '2026-01-01' };
    expect(await refusedFields(400, 'GET', trashPath('accounts'), { key: of.key, query: inverted })).toEqual([
      'to OUT_OF_RANGE',
    ]);
    expect((await list('leads', {}, of.key)).deleted_records).toEqual([]);
  });

  test('needs the scopes of deletion, and restoring those of creation, and removing those of settings', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    await remove('accounts', id);
    const viewer = await newKey(tenant, { scopes: ['accounts:view', 'accounts:create'] });
    const deleter = await newKey(tenant, { scopes: ['accounts:view', 'accounts:delete'] });
    await expectStatus(403, 'GET', trashPath('accounts'), { key: viewer });
    await expectStatus(403, 'GET', trashPath('accounts', id), { key: viewer });
    await expectStatus(403, 'POST', `${trashPath('accounts', id)}/restore`, { key: viewer });
    await expectStatus(200, 'GET', trashPath('accounts', id), { key: deleter });
    await expectStatus(403, 'POST', `${trashPath('accounts', id)}/restore`, { key: deleter });
    await expectStatus(403, 'DELETE', trashPath('accounts', id), { key: deleter });
    const settings = await newKey(tenant, { scopes: ['settings:configure'] });
    await expectStatus(404, 'DELETE', trashPath('accounts', id), { key: settings });
    await expectStatus(200, 'GET', trashPath('accounts', id), { key });
  });

  test('shows nothing to other workspaces, to the other mode, and to keys that could not see the record', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    await remove('accounts', id);
    const stranger = await newTenant();
    const limited = await newKey(tenant, { reach: { kind: 'branch', id: tenant.branchId } });
    for (const of of [stranger.key, tenant.testKey, limited]) {
      expect((await list('accounts', {}, of)).deleted_records.map((each: Json) => each.id)).not.toContain(id);
      await expectStatus(404, 'GET', trashPath('accounts', id), { key: of });
      await expectStatus(404, 'POST', `${trashPath('accounts', id)}/restore`, { key: of });
      await expectStatus(404, 'DELETE', trashPath('accounts', id), { key: of });
    }
    const own = await createRecord(limited, 'accounts', { name: 'Own' });
    await remove('accounts', own.id, limited);
    expect((await list('accounts', {}, limited)).deleted_records).toMatchObject([{ id: own.id }]);
    expect((await tryRestore('accounts', own.id, limited)).status).toBe(200);
    expect((await readRecord(limited, 'accounts', own.id)).id).toBe(own.id);
  });
});

describe('a record that cannot have everything back', () => {
  test('has no owner if the user is inactive', async () => {
    const user = await newUser(tenant);
    const { id } = await createRecord(key, 'leads', lead({ assigned_to: user.id }));
    const before = await readEtag('leads', id);
    await remove('leads', id);
    await database()`update users set status = 'inactive' where id = ${user.id}`;
    const { record, warnings, etag } = await restore('leads', id);
    expect(record.assigned_to).toBe(null);
    expect(warnings).toMatchObject([{ code: 'owner_inactive', field: 'assigned_to' }]);
    expect([before, etag]).toEqual(['"1"', '"2"']);
    expect(await readRecord(key, 'leads', id)).toEqual(record);
    expect((await leftBehind(id)).audit.at(-1)).toMatchObject({
      changes: { assigned_to: { from: user.id, to: null } },
    });
  });

  test('has the first active status if its own was deleted, and no source', async () => {
    const status = await createSetting(tenant, '/v1/settings/statuses/leads', { name: 'Passing' });
    const source = await createSetting(tenant, '/v1/settings/sources', { name: 'Passing' });
    const first = await createRecord(key, 'leads', lead());
    const { id } = await createRecord(key, 'leads', lead({ lead_status: 'Passing', source: 'Passing' }));
    await remove('leads', id);
    await expectStatus(200, 'DELETE', `/v1/settings/statuses/leads/${status.id}`, { key });
    await expectStatus(200, 'DELETE', `/v1/settings/sources/${source.id}`, { key });
    const { record, warnings } = await restore('leads', id);
    expect(record).toMatchObject({
      lead_status: first.lead_status,
      lead_status_id: first.lead_status_id,
      source: null,
      source_id: null,
    });
    expect(warnings.map(({ code, field }: Json) => `${code} ${field}`)).toEqual([
      'status_gone lead_status',
      'option_gone source',
    ]);
    expect(await readRecord(key, 'leads', id)).toEqual(record);
  });

  test('is refused while another record has its value of a unique field', async () => {
    const of = await newTenant();
    await newCustomField(of, 'accounts', 'number', { unique: true });
    await newCustomField(of, 'tasks', 'ticket', { unique: true });
    await newCustomField(of, 'activities', 'call', { unique: true });
    const { id } = await createRecord(of.key, 'accounts', { name: 'A', number: '17' });
    const task = { title: 'T', scheduled_at: '2036-01-01T09:00:00Z', object: 'accounts', record_id: id, ticket: 'X-1' };
    await createRecord(of.key, 'tasks', task);
    await remove('accounts', id, of.key);
    const taker = await createRecord(of.key, 'accounts', { name: 'B', number: '17' });
    const refusal = await tryRestore('accounts', id, of.key);
    expect([refusal.status, refusal.body.error]).toMatchObject([
      409,
      { code: 'ALREADY_EXISTS', details: { matched_fields: ['number'], existing_id: taker.id } },
    ]);
    await patchRecord(of.key, 'accounts', taker.id, { number: null });
    const { id: second } = await createRecord(of.key, 'tasks', {
      title: 'U',
      scheduled_at: '2036-01-01T09:00:00Z',
      ticket: 'X-1',
    });
    const ofTask = await tryRestore('accounts', id, of.key);
    expect([ofTask.status, ofTask.body.error?.details]).toEqual([
      409,
      { matched_fields: ['ticket'], existing_id: second },
    ]);
    await remove('tasks', second, of.key);
    expect((await tryRestore('accounts', id, of.key)).status).toBe(200);
    expect((await tryRestore('tasks', second, of.key)).status).toBe(409);

    const called = await createRecord(of.key, 'leads', lead());
    const activity = {
      ...{ activity_type: 'Call', summary: 'Called', entity_type: 'lead', entity_id: called.id },
      ...{ performed_at: '2026-11-01T09:00:00Z', call: 'C-1' },
    };
    await createRecord(of.key, 'activities', activity);
    await remove('leads', called.id, of.key);
    const other = await createRecord(of.key, 'leads', lead());
    const { id: taking } = await createRecord(of.key, 'activities', { ...activity, entity_id: other.id });
    expect((await tryRestore('leads', called.id, of.key)).body.error?.details).toEqual({
      matched_fields: ['call'],
      existing_id: taking,
    });
    await remove('activities', taking, of.key);
    expect((await tryRestore('leads', called.id, of.key)).status).toBe(200);
  });

  test('is checked for values of unique fields that the workspace has disabled', async () => {
    const of = await newTenant();
    await newCustomField(of, 'accounts', 'number', { unique: true });
    const { id } = await createRecord(of.key, 'accounts', { name: 'A', number: '17' });
    await remove('accounts', id, of.key);
    const taker = await createRecord(of.key, 'accounts', { name: 'B', number: '17' });
    await expectStatus(200, 'PATCH', '/v1/objects/accounts/fields/number', { key: of.key, body: { enabled: false } });
    expect((await tryRestore('accounts', id, of.key)).body.error?.code).toBe('ALREADY_EXISTS');
    await remove('accounts', taker.id, of.key);
    expect((await tryRestore('accounts', id, of.key)).status).toBe(200);
    await expectStatus(200, 'PATCH', '/v1/objects/accounts/fields/number', { key: of.key, body: { enabled: true } });
    expect(await readRecord(of.key, 'accounts', id)).toMatchObject({ number: '17' });
  });

  test('loses a reference to a record that was deleted, which comes back with that record', async () => {
    const { id: account_id } = await createRecord(key, 'accounts', { name: 'A' });
    const { id } = await createRecord(key, 'deals', { name: 'D', account_id });
    await remove('deals', id);
    await remove('accounts', account_id);
    const { record, warnings } = await restore('deals', id);
    expect(record.account_id).toBe(null);
    expect(warnings).toMatchObject([{ code: 'reference_gone', field: 'account_id' }]);
    await restore('accounts', account_id);
    expect(await readRecord(key, 'deals', id)).toMatchObject({ account_id });
  });

  test('is refused if it is an activity of a record that does not exist, and a task comes back alone', async () => {
    const { id } = await createRecord(key, 'leads', lead());
    const activity_type = 'Call';
    const activity = await createRecord(key, 'activities', {
      activity_type,
      summary: 'Called',
      entity_type: 'lead',
      entity_id: id,
      performed_at: '2026-11-01T09:00:00Z',
    });
    const task = await createRecord(key, 'tasks', {
      title: 'T',
      scheduled_at: '2036-01-01T09:00:00Z',
      object: 'leads',
      record_id: id,
    });
    await remove('activities', activity.id);
    await remove('tasks', task.id);
    await remove('leads', id);
    const refusal = await tryRestore('activities', activity.id);
    expect([refusal.status, refusal.body.error]).toMatchObject([
      409,
      { code: 'CONFLICT', details: { reason: 'related_record_deleted', object: 'leads', record_id: id } },
    ]);
    const alone = await restore('tasks', task.id);
    expect(alone.record).toMatchObject({ object: null, record_id: null });
    expect(alone.warnings).toMatchObject([{ code: 'reference_gone', field: 'record_id' }]);
    await restore('leads', id);
    expect((await restore('activities', activity.id)).record).toEqual(activity);
  });

  test('does not take the place of references that were filled meanwhile', async () => {
    const { id: account_id } = await createRecord(key, 'accounts', { name: 'A' });
    const { id: other } = await createRecord(key, 'accounts', { name: 'B' });
    const [filled, empty] = await createRecords(key, 'customers', [
      { first_name: 'F', account_id },
      { first_name: 'E', account_id },
    ]);
    await remove('accounts', account_id);
    await patchRecord(key, 'customers', filled.id, { account_id: other });
    const cursor = await now(key);
    await restore('accounts', account_id);
    expect(await readRecord(key, 'customers', filled.id)).toMatchObject({ account_id: other });
    expect(await readRecord(key, 'customers', empty.id)).toMatchObject({ account_id });
    expect(await readEtag('customers', empty.id)).toBe('"3"');
    const changes = await changesAfter(key, cursor);
    expect(changes.map(brief)).toEqual([
      `record.restored accounts ${account_id}`,
      `record.updated customers ${empty.id}`,
    ]);
    expect(changes[1]).toMatchObject({ changed_fields: ['account_id'] });
    const { body } = await expectStatus(200, 'GET', `${recordsPath('customers', empty.id)}/history`, { key });
    expect(body.data.history[0]).toMatchObject({ changes: { account_id: { from: null, to: account_id } } });
  });

  test('has its references back in records that are in the trash themselves', async () => {
    const { id: account_id } = await createRecord(key, 'accounts', { name: 'A' });
    const { id } = await createRecord(key, 'customers', { first_name: 'C', account_id });
    await remove('accounts', account_id);
    await remove('customers', id);
    await restore('accounts', account_id);
    expect((await restore('customers', id)).record).toMatchObject({ account_id });
  });
});

describe('a link', () => {
  test.each(['accounts', 'customers'])(
    'comes back when the second of its records is restored, %s first',
    async (first) => {
      const { id: account } = await createRecord(key, 'accounts', { name: 'A' });
      const { id: customer } = await createRecord(key, 'customers', { first_name: 'C' });
      const link = await linkTo('accounts', account, 'contacts', customer);
      await remove('accounts', account);
      await remove('customers', customer);
      const order = [
        ['accounts', account],
        ['customers', customer],
      ] as const;
      for (const [object, id] of first === 'accounts' ? order : order.toReversed()) {
        expect(await listLinkIds('leads', (await createRecord(key, 'leads', lead())).id)).toEqual([]);
        expect((await restore(object, id)).warnings).toEqual([]);
      }
      expect(await listLinkIds('accounts', account)).toEqual([link.id]);
      expect(await listLinkIds('customers', customer)).toEqual([link.id]);
    },
  );

  test('to a task comes back with the record of the task', async () => {
    const { id: account } = await createRecord(key, 'accounts', { name: 'A' });
    const { id: holder } = await createRecord(key, 'leads', lead());
    const { id: task } = await createRecord(key, 'tasks', {
      title: 'T',
      scheduled_at: '2036-01-01T09:00:00Z',
      object: 'leads',
      record_id: holder,
    });
    const link = await linkTo('accounts', account, 'seen_in', task);
    await remove('accounts', account);
    await remove('leads', holder);
    await restore('accounts', account);
    expect(await listLinkIds('accounts', account)).toEqual([]);
    await restore('leads', holder);
    expect(await listLinkIds('accounts', account)).toEqual([link.id]);
  });

  test('whose other record is gone for good, or whose type is, is lost', async () => {
    const { id: account } = await createRecord(key, 'accounts', { name: 'A' });
    const { id: customer } = await createRecord(key, 'customers', { first_name: 'C' });
    await linkTo('accounts', account, 'contacts', customer);
    const body = {
      ...{ name: 'brief', inverse_name: 'brief_of', label: 'B', inverse_label: 'B' },
      ...{ from_object: 'accounts', to_object: 'leads', cardinality: 'many_to_many' },
    };
    const { link_type } = (await expectStatus(201, 'POST', '/v1/link-types', { key, body })).body.data;
    await linkTo('accounts', account, 'brief', (await createRecord(key, 'leads', lead())).id);
    await remove('accounts', account);
    await remove('customers', customer);
    await expectStatus(200, 'DELETE', trashPath('customers', customer), { key });
    await expectStatus(200, 'DELETE', `/v1/link-types/${link_type.id}`, { key });
    expect((await restore('accounts', account)).warnings).toMatchObject([{ code: 'link_gone', field: 'links' }]);
    expect(await listLinkIds('accounts', account)).toEqual([]);
  });
});

describe('removing for good', () => {
  test('removes the record, its items and its files, and cannot be undone', async () => {
    const of = await newTenant();
    const { id } = await createRecord(of.key, 'accounts', { name: 'A' });
    await addNote(of.key, 'accounts', id);
    await expectStatus(201, 'POST', `${recordsPath('accounts', id)}/attachments`, { key: of.key, ...fileForm() });
    const file = async () =>
      (await database()`select remove_after is null as kept from stored_files where company_id = ${of.companyId}`)[0]
        ?.kept;
    await remove('accounts', id, of.key);
    expect(await file()).toBe(true);
    await expectStatus(200, 'DELETE', trashPath('accounts', id), { key: of.key });
    expect(await file()).toBe(false);
    expect(await countTrash(of)).toEqual({ records: 0, items: 0 });
    await expectStatus(404, 'DELETE', trashPath('accounts', id), { key: of.key });
    await expectStatus(404, 'POST', `${trashPath('accounts', id)}/restore`, { key: of.key });
    expect((await leftBehind(id)).audit.at(-1)).toMatchObject({ action: 'account.purge' });
  });

  test('happens after 30 days by a job, in each mode, and never before', async () => {
    const of = await newTenant();
    for (const each of [of.key, of.testKey]) {
      const [old, young] = await createRecords(each, 'accounts', [{ name: 'Old' }, { name: 'Young' }]);
      await addNote(each, 'accounts', old.id);
      await addNote(each, 'accounts', young.id);
      await remove('accounts', old.id, each);
      await remove('accounts', young.id, each);
      await database()`update deleted_records set purge_at = now() where id = ${old.id}`;
      expect((await list('accounts', {}, each)).deleted_records).toMatchObject([{ id: young.id }]);
      await expectStatus(404, 'POST', `${trashPath('accounts', old.id)}/restore`, { key: each });
    }
    await emptyTrash(buildJobContext('trash', server));
    expect(await countTrash(of)).toEqual({ records: 2, items: 2 });
  });

  test('empties the trash of test mode when test mode is reset, and leaves that of live mode', async () => {
    const of = await newTenant();
    for (const each of [of.key, of.testKey]) {
      const [account] = await createRecords(each, 'accounts', [{ name: 'A' }]);
      const { id } = await createRecord(each, 'leads', lead());
      await addNote(each, 'accounts', account.id);
      await remove('accounts', account.id, each);
      await remove('leads', id, each);
    }
    await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: of.testKey, body: { objects: ['leads'] } });
    expect((await list('accounts', {}, of.testKey)).deleted_records).toHaveLength(1);
    expect((await list('leads', {}, of.testKey)).deleted_records).toHaveLength(0);
    await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: of.testKey });
    expect(await countTrash(of)).toEqual({ records: 2, items: 1 });
  });
});

describe('concurrently', () => {
  test('of many restorations and removals of one record, one succeeds', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    await addNote(key, 'accounts', id);
    await remove('accounts', id);
    const calls = Array.from({ length: 8 }, (_, at) =>
      at % 4 === 3 ? call('DELETE', trashPath('accounts', id), { key }) : tryRestore('accounts', id),
    );
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 404)).toHaveLength(7);
  });

  test('two linked records are restored with their link, whichever comes first', async () => {
    for (let round = 0; round < 8; round += 1) {
      const { id: account } = await createRecord(key, 'accounts', { name: 'A' });
      const { id: customer } = await createRecord(key, 'customers', { first_name: 'C', account_id: account });
      const link = await linkTo('accounts', account, 'contacts', customer);
      await remove('accounts', account);
      await remove('customers', customer);
      const statuses = await Promise.all([tryRestore('accounts', account), tryRestore('customers', customer)]);
      expect(statuses.map(({ status }) => status)).toEqual([200, 200]);
      expect(await listLinkIds('accounts', account)).toEqual([link.id]);
      expect(await readRecord(key, 'customers', customer)).toMatchObject({ account_id: account });
    }
  });

  test('a repeated call with the same Idempotency-Key returns the same response', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    await remove('accounts', id);
    const idempotencyKey = randomUUID();
    const path = `${trashPath('accounts', id)}/restore`;
    const first = await expectStatus(200, 'POST', path, { key, idempotencyKey });
    const again = await expectStatus(200, 'POST', path, { key, idempotencyKey });
    expect(again.body.data).toEqual(first.body.data);
  });
});

test('more than a thousand references are cleared and restored by jobs, and a deletion between them loses none', async () => {
  const { id: customer } = await createRecord(key, 'customers', { first_name: 'C' });
  const { id: deal } = await createRecord(key, 'deals', { name: 'D', customer_id: customer });
  await database()`
    insert into deals (company_id, test_mode, id, name, pipeline_id, stage_id, customer_id, created_by_kind, created_by_id, created_at, updated_at)
    select company_id, test_mode, gen_random_uuid(), name, pipeline_id, stage_id, customer_id, created_by_kind, created_by_id, created_at, updated_at
    from deals r, generate_series(1, 2200) where r.id = ${deal}`;
  const referring = async () =>
    (
      await database()`select count(*)::int as count from deals where company_id = ${tenant.companyId} and customer_id = ${customer}`
    )[0]?.count;
  const settled = (table: string, condition: string) => async () => {
    await clearPendingReferences(buildJobContext('reference-clearing', server));
    await restorePendingReferences(buildJobContext('reference-restoring', server));
    const rows = await database().unsafe(`select from ${table} where company_id = '${tenant.companyId}' ${condition}`);
    expect(rows).toHaveLength(0);
  };
  await expectStatus(202, 'DELETE', recordsPath('customers', customer), { key });
  await vi.waitFor(settled('reference_clearings', ''));
  expect(await referring()).toBe(0);
  expect((await tryRestore('customers', customer)).status).toBe(202);
  // Deleted again, before or while a job restores the references.
  const again = await call('DELETE', recordsPath('customers', customer), { key });
  expect([200, 202]).toContain(again.status);
  await vi.waitFor(settled('reference_clearings', ''));
  expect((await tryRestore('customers', customer)).status).toBe(202);
  await vi.waitFor(settled('deleted_records', `and id = '${customer}'`));
  expect(await referring()).toBe(2201);
});

test('a restored record runs its SLA clocks with their deadlines again', async () => {
  const of = await newTenant();
  const policy = { name: 'First', entity_type: 'lead', first_response_time: 60, mode: '24/7', timezone: 'UTC' };
  await expectStatus(201, 'POST', '/v1/settings/sla-policies', { key: of.key, body: policy });
  const { id } = await createRecord(of.key, 'leads', lead());
  const clocks = async () =>
    database()`select id, kind, started_at, due_at, ended_at from sla_clocks where record_id = ${id} order by id`;
  const before = await clocks();
  expect(before).toMatchObject([{ kind: 'first_response', ended_at: null }]);
  await remove('leads', id, of.key);
  expect(await clocks()).toMatchObject([{ ended_at: expect.any(Date) }]);
  expect((await tryRestore('leads', id, of.key)).status).toBe(200);
  expect([...(await clocks())]).toEqual([...before]);
});

test('a restored activity moves the next follow-up of its lead again', async () => {
  const { id } = await createRecord(key, 'leads', lead());
  const activity = await createRecord(key, 'activities', {
    ...{ activity_type: 'Call', summary: 'Called', entity_type: 'lead', entity_id: id },
    ...{ performed_at: '2026-11-01T09:00:00Z', followup_at: '2036-01-01T09:00:00.000Z' },
  });
  const followup = async () => (await readRecord(key, 'leads', id)).next_followup_at;
  expect(await followup()).toBe('2036-01-01T09:00:00.000Z');
  await remove('activities', activity.id);
  expect(await followup()).toBe(null);
  await restore('activities', activity.id);
  expect(await followup()).toBe('2036-01-01T09:00:00.000Z');
});

test('a restored record is found by search and by filters again', async () => {
  const name = `Trashcan ${randomUUID()}`;
  const { id } = await createRecord(key, 'accounts', { name });
  const found = async () => {
    const { body } = await expectStatus(200, 'GET', '/v1/search', { key, query: { q: name } });
    return JSON.stringify(body.data).includes(id);
  };
  expect(await found()).toBe(true);
  await remove('accounts', id);
  expect(await found()).toBe(false);
  await restore('accounts', id);
  expect(await found()).toBe(true);
});

test('thousands of items go to the trash and come back in one call each', async () => {
  const { id } = await createRecord(key, 'accounts', { name: 'A' });
  await database()`
    insert into notes (company_id, test_mode, id, object, record_id, content, created_by_kind, created_by_id, created_at, updated_at)
    select ${tenant.companyId}, false, gen_random_uuid(), 'accounts', ${id}, repeat('Note ', 40), 'system', 'test', now(), now()
    from generate_series(1, 3000)`;
  await database()`
    insert into tasks (company_id, test_mode, id, title, object, record_id, created_by_kind, created_by_id, created_at, updated_at)
    select ${tenant.companyId}, false, gen_random_uuid(), 'Task', 'accounts', ${id}, 'system', 'test', now(), now()
    from generate_series(1, 2000)`;
  await remove('accounts', id);
  const { children } = (await expectStatus(200, 'GET', trashPath('accounts', id), { key })).body.data.deleted_record;
  expect(children).toMatchObject({ notes: 3000, tasks: 2000 });
  await restore('accounts', id);
  const [row] = await database()`
    select (select count(*)::int from notes where record_id = ${id}) as notes, (select count(*)::int from tasks where record_id = ${id}) as tasks`;
  expect(row).toEqual({ notes: 3000, tasks: 2000 });
});
