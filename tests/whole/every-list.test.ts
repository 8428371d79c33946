// Every list of the spec: pages of any size to the end, and cursors bound to their list.
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { descriptions } from '../../sdk/src/generated/operations.ts';
import { newGrant } from '../support/access-tokens.ts';
import { newExport, newLoggedRequest } from '../support/arranged-ids.ts';
import { invoiced } from '../support/billing.ts';
import { type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { newCampaign, someNumber } from '../support/messaging.ts';
import { createRecord, recordsPath } from '../support/records.ts';
import { goodRequest, newWideTenant } from '../support/requests.ts';
import { book, newPool } from '../support/scheduling.ts';
import { database, newKey, newUser, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';
import { newDelivery, newWebhook, withoutDeliveries } from '../support/webhooks.ts';
import { newWorkforce } from '../support/workforces.ts';

// The feed has no end and its own paging, which tests/records/feed.test.ts covers.
const lists = operations.filter(({ id }) => /^list[A-Z]/.test(id) && id !== 'listChanges');
/** The fewest items that tell a list from its first page. */
const fewest = { listDuplicateChecks: 2 } as Record<string, number>;

let tenant: Tenant;
/** A lead with something of everything that can belong to a record. */
let lead: string;
let webhook: string;
let campaign: string;
let imported: string;
let workforce: string;

beforeAll(async () => {
  tenant = await newWideTenant();
  webhook = (await newWebhook(tenant, 'live', withoutDeliveries)).id;
  lead = (await createRecord(tenant.key, 'leads', { first_name: 'Ada', email: 'ada@x.example' })).id;
  campaign = (await newCampaign(tenant.key)).id;
  workforce = (await newWorkforce(tenant.key)).id;
  for (const number of [1, 2, 3]) await fill(tenant, number);
  await invoiced(tenant, 'live', 3);
});

/** Adds an item to each list that is empty in a new workspace. */
async function fill({ key, companyId, branchId }: Tenant, number: number): Promise<void> {
  const sql = database();
  const create = (path: string, body: object) => expectStatus(201, 'POST', path, { key, body, idempotencyKey: true });
  const onLead = (what: string): string => `${recordsPath('leads', lead)}/${what}`;
  const name = `Item ${number}`;
  await createRecord(key, 'accounts', { name });
  const deleted = await createRecord(key, 'accounts', { name });
  await expectStatus(200, 'DELETE', recordsPath('accounts', deleted.id), { key });
  await create(onLead('notes'), { content: name });
  await create(onLead('tasks'), { title: name, scheduled_at: '2036-01-01T09:00:00Z' });
  await create('/v1/activities', { entity_type: 'lead', entity_id: lead, activity_type: 'Call', summary: name });
  await expectStatus(201, 'POST', onLead('attachments'), { key, idempotencyKey: true, ...fileForm() });
  await sql`
    insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at)
    values (${companyId}, false, ${uuidv7()}, 'leads', ${lead}, 'sms', 'inbound', ${name}, now())`;
  await sql`
    insert into saved_reports (company_id, id, name, object, is_shared, created_by_kind, created_by_id, created_at, updated_at)
    values (${companyId}, ${uuidv7()}, ${name}, 'deals', true, 'user', 'x', now(), now())`;
  await sql`
    insert into branches (company_id, id, name, created_at) values (${companyId}, ${uuidv7()}, ${name}, now())`;
  await sql`
    insert into teams (company_id, id, branch_id, name, created_at)
    values (${companyId}, ${uuidv7()}, ${branchId}, ${name}, now())`;
  await newUser({ companyId, branchId } as Tenant);
  await sql`
    insert into notifications (company_id, id, user_id, kind, title, created_at)
    values (${companyId}, ${uuidv7()}, ${tenant.admin.id}, 'webhook_failing', ${name}, now())`;
  await newKey(tenant);
  await newGrant(tenant);
  await newWebhook(tenant, 'live', withoutDeliveries);
  await newDelivery(tenant, 'live', webhook);
  await newExport(tenant, 'live', { status: 'cancelled' });
  await newLoggedRequest(tenant, 'live', Date.now() - 2 * hour);
  const pool = await newPool(tenant, { members: 1 });
  await book(key, pool.member_ids, { policy_id: pool.policy_id });
  await create('/v1/messages/drafts', { channel: 'sms', to: someNumber(), body: name });
  await create('/v1/dnc-list', { phone_number: someNumber() });
  await create('/v1/email-suppression', { email: `item${number}@x.example` });
  await create('/v1/phone-numbers', {
    phone_number: someNumber(),
    capabilities: { sms: true, voice: false, fax: false },
  });
  await newCampaign(key);
  await newWorkforce(key);
  await sql`
    insert into workforce_runs (company_id, test_mode, id, workforce_id, status, object, record_id, context, steps, stop_when_replied, position, attempts,
      created_by_kind, created_by_id, enrolled_at, ended_at)
    values (${companyId}, false, ${uuidv7()}, ${workforce}, 'completed', 'leads', ${lead}, '{}', '[]', false, 0, 0, 'system', 'test', now(), now())`;
  await sql`
    insert into campaign_runs (company_id, test_mode, id, campaign_id, status, content, created_by_kind, created_by_id, created_at)
    values (${companyId}, false, ${uuidv7()}, ${campaign}, 'completed', '{}', 'system', 'test', now())`;
  await create('/v1/views', { object: 'accounts', name });
  await create('/v1/settings/pipelines', { name });
  await create('/v1/settings/sources', { name });
  await create('/v1/settings/tags/leads', { name, fields: [{ field: 'priority', operator: 'eq', value: number }] });
  await create(onLead('tags'), { name });
  const [source, target] = [
    await createRecord(key, 'accounts', { name }),
    await createRecord(key, 'accounts', { name }),
  ];
  const merging = { key, body: { into_id: target.id } };
  await expectStatus(200, 'POST', `${recordsPath('accounts', source.id)}/merge`, merging);
  const { body } = await create('/v1/imports', { object: 'accounts' });
  imported ??= body.data.import.id;
  await sql`
    insert into import_errors (company_id, test_mode, import_id, row, line, code, message, fields, content)
    values (${companyId}, false, ${imported}, ${number + 1}, ${number + 2}, 'VALIDATION_ERROR', ${name}, '[]', '[]')`;
  await expectStatus(200, 'POST', `/v1/imports/${imported}/parts?number=${number}`, { key, ...fileForm() });
  await create('/v1/reverts', { request_id: uuidv7() });
  const operations = [{ method: 'POST', path: '/v1/objects/accounts/records', body: { name: `${name} proposed` } }];
  await create('/v1/change-sets', { title: name, operations });
  await create('/v1/settings/sla-policies', { name, entity_type: 'lead', first_response_time: 60 });
}

/** Returns the path parameters of lists that belong to something. */
function buildPathValues({ path }: DeclaredOperation): Record<string, string> {
  if (path.startsWith('/v1/settings/')) return { object: 'leads' };
  if (path.startsWith('/v1/org-nodes/')) return { id: tenant.branchId };
  if (path.startsWith('/v1/webhooks/')) return { id: webhook };
  if (path.startsWith('/v1/campaigns/')) return { id: campaign };
  if (path.startsWith('/v1/imports/')) return { id: imported };
  if (path.startsWith('/v1/workforces/')) return { id: workforce };
  return path.includes('{id}') ? { object: 'leads', id: lead } : { object: 'accounts' };
}

/** Removes usage fields, which the calls of this test change. */
const withoutUse = ({ total_requests: _requests, last_used_at: _at, last_used_ip: _ip, ...item }: Json): Json => item;

const hour = 3_600_000;
/** Leaves out items that the calls of this test add. */
const bounds: Record<string, CallOptions['query']> = {
  listRequests: { to: new Date(Date.now() - hour).toISOString() },
};

type Ask = (query: CallOptions['query']) => Promise<Json>;

async function open(operation: DeclaredOperation): Promise<{ path: string; options: CallOptions; ask: Ask }> {
  const { path, options: sent } = await goodRequest(operation, tenant, { values: buildPathValues(operation) });
  const options = { ...sent, query: { ...sent.query, ...bounds[operation.id] } };
  const ask: Ask = async (query) =>
    (await expectStatus(200, 'GET', path, { ...options, query: { ...options.query, ...query } })).body.data;
  return { path, options, ask };
}

describe.each(lists)('$id', (operation) => {
  const getItems = (data: Json): Json[] => {
    const { items = '' } = (descriptions as Record<string, { items?: string }>)[operation.id] ?? {};
    return data[items];
  };

  test('returns the same items in pages of one as on one page', async () => {
    const { ask } = await open(operation);
    const all = getItems(await ask({ limit: 100 }));
    expect(all.length).toBeGreaterThanOrEqual(fewest[operation.id] ?? 3);
    const paged: Json[] = [];
    let cursor: string | null = null;
    do {
      const data: Json = await ask({ limit: 1, ...(cursor === null ? {} : { cursor }) });
      expect(getItems(data)).toHaveLength(1);
      expect(data.has_more).toBe(data.next_cursor !== null);
      paged.push(...getItems(data));
      cursor = data.next_cursor;
    } while (cursor !== null && paged.length <= all.length);
    expect(paged.map(withoutUse)).toEqual(all.map(withoutUse));
  });

  test('clamps the limit, and ends a list that ends with its page', async () => {
    const { ask } = await open(operation);
    const all = getItems(await ask({ limit: 1000 }));
    for (const limit of [0, -5])
      expect(getItems(await ask({ limit })).map(withoutUse)).toEqual(all.slice(0, 1).map(withoutUse));
    const exact = await ask({ limit: all.length });
    expect({ ...exact, items: getItems(exact) }).toMatchObject({
      items: all.map(withoutUse),
      next_cursor: null,
      has_more: false,
    });
    const first = await ask({ limit: all.length - 1 });
    const rest = await ask({ cursor: first.next_cursor, limit: 1000 });
    expect({ ...rest, items: getItems(rest) }).toMatchObject({
      items: all.slice(-1).map(withoutUse),
      next_cursor: null,
    });
  });

  test('rejects a cursor that is made up, altered or of another list', async () => {
    const { path, options, ask } = await open(operation);
    const { next_cursor: own } = await ask({ limit: 1 });
    const other = operation.id === 'listScopes' ? '/v1/objects' : '/v1/scopes';
    const foreign = await expectStatus(200, 'GET', other, { key: tenant.key, query: { limit: 1 } });
    for (const cursor of ['junk', 'a.b', '0', `${own}x`, foreign.body.data.next_cursor]) {
      const answer = await call('GET', path, { ...options, query: { ...options.query, cursor } });
      expect({ cursor, status: answer.status, fields: answer.body.error?.details.fields }).toMatchObject({
        cursor,
        status: 400,
        fields: [{ field: 'cursor', code: 'INVALID_FORMAT' }],
      });
    }
  });
});

describe('a list that is returned whole without a limit', () => {
  const listNames = (data: Json): string[] => data.sources.map((source: Json) => source.name);
  const read = async (key: string, query: CallOptions['query']): Promise<Json> =>
    (await expectStatus(200, 'GET', '/v1/settings/sources', { key, query })).body.data;

  test('returns more items than a page can have if no limit is given', async () => {
    const { companyId, key } = await newWideTenant();
    await database()`
      insert into sources (company_id, id, name, created_at, updated_at)
      select ${companyId}, gen_random_uuid(), 'Numbered ' || lpad(n::text, 3, '0'), now(), now() from generate_series(1, 150) n`;
    const all = await read(key, {});
    expect(all).toMatchObject({ next_cursor: null, has_more: false });
    expect(all.sources.length).toBeGreaterThanOrEqual(150);
    const page = await read(key, { limit: 1000 });
    expect(page.sources).toEqual(all.sources.slice(0, 100));
    const rest = await read(key, { cursor: page.next_cursor });
    expect(rest.sources).toEqual(all.sources.slice(100));
    expect(rest).toMatchObject({ next_cursor: null, has_more: false });
  });

  test('continues after the last item of a page, even if items were inserted before it or it is deleted', async () => {
    const { key } = await newWideTenant();
    const create = async (name: string): Promise<string> =>
      (await expectStatus(201, 'POST', '/v1/settings/sources', { key, body: { name } })).body.data.source.id;
    expect(listNames(await read(key, {}))).toEqual([]);
    for (const name of ['B', 'F', 'H']) await create(name);
    const last = await create('D');
    const { next_cursor: early } = await read(key, { limit: 2 });
    await create('A');
    expect(listNames(await read(key, { cursor: early }))).toEqual(['F', 'H']);
    const { next_cursor: cursor } = await read(key, { limit: 3 });
    await create('E');
    expect(listNames(await read(key, { cursor }))).toEqual(['E', 'F', 'H']);
    await expectStatus(200, 'DELETE', `/v1/settings/sources/${last}`, { key });
    expect(listNames(await read(key, { cursor }))).toEqual(['E', 'F', 'H']);
  });

  test('binds cursors to one object, mode and workspace', async () => {
    const other = await newWideTenant();
    const path = '/v1/settings/statuses/leads';
    const { next_cursor: cursor } = (await expectStatus(200, 'GET', path, { key: tenant.key, query: { limit: 1 } }))
      .body.data;
    await expectStatus(200, 'GET', path, { key: tenant.key, query: { cursor } });
    await expectStatus(400, 'GET', path, { key: tenant.testKey, query: { cursor } });
    await expectStatus(400, 'GET', path, { key: other.key, query: { cursor } });
    await expectStatus(400, 'GET', '/v1/settings/statuses/deals', { key: tenant.key, query: { cursor } });
  });
});
