// Links between records: creation, lists and removal, with cardinality, scopes and visibility.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, leftBehind, recordsPath, refusedFields } from '../support/records.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newLinkType(tenant, 'contacts', 'employer', 'accounts', 'customers', 'one_to_many');
  await newLinkType(tenant, 'partners', 'partner_of', 'accounts', 'accounts', 'many_to_many');
  await newLinkType(tenant, 'site', 'site_of', 'accounts', 'leads', 'one_to_one');
});

async function newLinkType(
  { key: liveKey }: Tenant,
  name: string,
  inverse: string,
  from: string,
  to: string,
  cardinality: string,
): Promise<Json> {
  const body = {
    name,
    inverse_name: inverse,
    label: name,
    inverse_label: inverse,
    from_object: from,
    to_object: to,
    cardinality,
  };
  return (await expectStatus(201, 'POST', '/v1/link-types', { key: liveKey, body })).body.data.link_type;
}

const linksPath = (object: string, id: string): string => `${recordsPath(object, id)}/links`;
const account = async (of = key, name = 'Blue Lake'): Promise<string> =>
  (await createRecord(of, 'accounts', { name })).id;
const customer = async (of = key, more: object = {}): Promise<string> =>
  (await createRecord(of, 'customers', { first_name: 'Sara', last_name: 'Ahmed', ...more })).id;
const lead = async (of = key): Promise<string> =>
  (await createRecord(of, 'leads', { first_name: 'L', email: `${randomUUID()}@x.example` })).id;
const link = async (object: string, id: string, type: string, to: string, of = key): Promise<Json> =>
  (await expectStatus(201, 'POST', linksPath(object, id), { key: of, body: { link_type: type, record_id: to } })).body
    .data.link;
const list = async (object: string, id: string, query: object = {}, of = key): Promise<Json[]> =>
  (await expectStatus(200, 'GET', linksPath(object, id), { key: of, query: query as never })).body.data.links;

test('links two records, shows the link from both sides, and emits an event and an audit row', async () => {
  const [from, to] = [await account(), await customer()];
  const made = await link('accounts', from, 'contacts', to);
  expect(made).toEqual({
    id: made.id,
    link_type: 'contacts',
    object: 'customers',
    record_id: to,
    record_label: 'Sara Ahmed',
    created_by: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
    created_at: made.created_at,
  });
  expect(await list('accounts', from)).toEqual([made]);
  expect(await list('customers', to)).toEqual([
    { ...made, link_type: 'employer', object: 'accounts', record_id: from, record_label: 'Blue Lake' },
  ]);
  const { audit, events } = await leftBehind(from);
  expect(audit.at(-1)).toMatchObject({ action: 'record.link', metadata: { link_id: made.id, to_id: to } });
  expect(events.at(-1)).toMatchObject({
    event: 'record.linked',
    data: { object: 'accounts', record_id: from, link_type: 'contacts', to_object: 'customers', to_id: to },
  });
});

test('creates the same link from either side, and emits events from the from side', async () => {
  const [from, to] = [await account(), await customer()];
  const made = await link('customers', to, 'employer', from);
  expect(made).toMatchObject({ link_type: 'employer', object: 'accounts', record_id: from });
  expect(await list('accounts', from)).toMatchObject([{ id: made.id, link_type: 'contacts', record_id: to }]);
  expect((await leftBehind(from)).events.at(-1)).toMatchObject({
    event: 'record.linked',
    data: { record_id: from, link_type: 'contacts', to_id: to },
  });
});

test('returns 200 and changes nothing for a pair that is already linked', async () => {
  const [from, to] = [await account(), await customer()];
  const made = await link('accounts', from, 'contacts', to);
  const body = { link_type: 'contacts', record_id: to };
  const again = await expectStatus(200, 'POST', linksPath('accounts', from), { key, body });
  expect(again.body.data).toEqual({ link: made, already_linked: true });
  expect((await leftBehind(from)).events.filter(({ event }) => event === 'record.linked')).toHaveLength(1);
});

test('accepts ids in upper case', async () => {
  const [from, to] = [await account(), await customer()];
  const made = await link('accounts', from.toUpperCase(), 'contacts', to.toUpperCase());
  expect(made).toMatchObject({ record_id: to });
  expect(await list('accounts', from.toUpperCase())).toEqual([made]);
  const self = { link_type: 'partners', record_id: from };
  const on = linksPath('accounts', from.toUpperCase());
  expect(await refusedFields(422, 'POST', on, { key, body: self })).toEqual(['record_id INVALID_OPTION']);
  const path = `${linksPath('accounts', from)}/${made.id.toUpperCase()}`;
  await expectStatus(200, 'DELETE', path, { key });
});

test('removes a link from either side, once, with an event', async () => {
  const [from, to] = [await account(), await customer()];
  const made = await link('accounts', from, 'contacts', to);
  const path = `${linksPath('customers', to)}/${made.id}`;
  expect((await expectStatus(200, 'DELETE', path, { key })).body.data).toEqual({ id: made.id, deleted: true });
  await expectStatus(404, 'DELETE', path, { key });
  expect(await list('accounts', from)).toEqual([]);
  expect((await leftBehind(from)).events.at(-1)).toMatchObject({ event: 'record.unlinked', data: { to_id: to } });
});

describe('cardinality', () => {
  const refusal = async (object: string, id: string, type: string, to: string) =>
    (await expectStatus(409, 'POST', linksPath(object, id), { key, body: { link_type: type, record_id: to } })).body
      .error.details;

  test('allows one link on the to side of one_to_many', async () => {
    const [first, second, to] = [await account(), await account(), await customer()];
    await link('accounts', first, 'contacts', to);
    expect(await refusal('accounts', second, 'contacts', to)).toEqual({
      reason: 'link_limit_reached',
      cardinality: 'one_to_many',
    });
    expect(await refusal('customers', to, 'employer', second)).toMatchObject({ reason: 'link_limit_reached' });
    await link('accounts', first, 'contacts', await customer());
  });

  test('allows one link on each side of one_to_one', async () => {
    const [from, to] = [await account(), await lead()];
    await link('accounts', from, 'site', to);
    expect(await refusal('accounts', from, 'site', await lead())).toMatchObject({ reason: 'link_limit_reached' });
    expect(await refusal('accounts', await account(), 'site', to)).toMatchObject({ reason: 'link_limit_reached' });
  });

  test('enforces cardinality exactly for 20 concurrent links of one record', async () => {
    const to = await customer();
    const from = await Promise.all(Array.from({ length: 20 }, () => account()));
    const answers = await Promise.all(
      from.map((id) =>
        call('POST', linksPath('accounts', id), { key, body: { link_type: 'contacts', record_id: to } }),
      ),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([201, ...Array.from({ length: 19 }, () => 409)]);
    expect(await list('customers', to)).toHaveLength(1);
  });
});

test('lists references of records with the system link types', async () => {
  const [from, to] = [await account(), await customer()];
  const deal = (await createRecord(key, 'deals', { name: 'Roof', account_id: from, customer_id: to })).id;
  const task = (
    await createRecord(key, 'tasks', {
      title: 'Call',
      scheduled_at: '2026-12-01T09:00:00Z',
      object: 'deals',
      record_id: deal,
    })
  ).id;
  expect((await list('deals', deal)).map((each) => [each.id, each.link_type, each.record_id]).sort()).toEqual([
    [null, 'account', from],
    [null, 'customer', to],
    [null, 'tasks', task],
  ]);
  expect(await list('accounts', from, { type: 'deals' })).toMatchObject([
    { id: null, object: 'deals', record_id: deal, record_label: 'Roof', created_by: null },
  ]);
  expect(await list('tasks', task)).toMatchObject([{ link_type: 'record', object: 'deals', record_id: deal }]);
  const body = { link_type: 'account', record_id: from };
  const { error } = (await expectStatus(409, 'POST', linksPath('deals', deal), { key, body })).body;
  expect(error.details).toEqual({ reason: 'system_link_type', object: 'deals', field: 'account_id' });
});

test('lists links newest first in pages without repeats or gaps, of one type or of all', async () => {
  const from = await account();
  const wanted: string[] = [];
  for (let index = 0; index < 7; index += 1) {
    if (index % 2) wanted.unshift((await link('accounts', from, 'contacts', await customer())).record_id);
    else wanted.unshift((await link('accounts', from, 'partners', await account())).record_id);
  }
  const deals = [
    await createRecord(key, 'deals', { name: 'D1', account_id: from }),
    await createRecord(key, 'deals', { name: 'D2', account_id: from }),
  ];
  wanted.unshift(...deals.map((deal) => deal.id).reverse());
  const seen: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: Record<string, string | number> = { limit: 2, ...(cursor ? { cursor } : {}) };
    const { data }: Json = (await expectStatus(200, 'GET', linksPath('accounts', from), { key, query })).body;
    seen.push(...data.links.map((each: Json) => each.record_id));
    cursor = data.next_cursor;
  }
  expect(seen).toEqual(wanted);
  expect(await list('accounts', from, { type: 'partners' })).toHaveLength(4);
  expect(await refusedFields(400, 'GET', linksPath('accounts', from), { key, query: { type: 'employer' } })).toEqual([
    'type INVALID_OPTION',
  ]);
});

test('names both directions of links between records of one object', async () => {
  const [a, b] = [await account(key, 'A'), await account(key, 'B')];
  await link('accounts', a, 'partners', b);
  expect(await list('accounts', a)).toMatchObject([{ link_type: 'partners', record_id: b, record_label: 'B' }]);
  expect(await list('accounts', b)).toMatchObject([{ link_type: 'partner_of', record_id: a, record_label: 'A' }]);
  const body = { link_type: 'partners', record_id: a };
  expect(await refusedFields(422, 'POST', linksPath('accounts', a), { key, body })).toEqual([
    'record_id INVALID_OPTION',
  ]);
});

test('rejects linking a record that does not fit, does not exist or belongs to another tenant or mode', async () => {
  const stranger = await newTenant();
  const from = await account();
  for (const to of [randomUUID(), await customer(stranger.key), await customer(tenant.testKey), from]) {
    const body = { link_type: 'contacts', record_id: to };
    const [problem = ''] = await refusedFields(422, 'POST', linksPath('accounts', from), { key, body });
    expect(problem).toBe(to === from ? 'record_id INVALID_OPTION' : 'record_id NOT_FOUND');
  }
  const unknown = { link_type: 'employer', record_id: await customer() };
  expect(await refusedFields(422, 'POST', linksPath('accounts', from), { key, body: unknown })).toEqual([
    'link_type INVALID_OPTION',
  ]);
  await expectStatus(404, 'GET', linksPath('accounts', from), { key: stranger.key });
  await expectStatus(404, 'POST', linksPath('accounts', from), { key: tenant.testKey, body: unknown });
});

test('keeps the links of a disabled link type, and rejects new ones', async () => {
  const own = await newTenant();
  const type = await newLinkType(own, 'contacts', 'employer', 'accounts', 'customers', 'many_to_many');
  const [from, to] = [await account(own.key), await customer(own.key)];
  const made = await link('accounts', from, 'contacts', to, own.key);
  await expectStatus(200, 'PATCH', `/v1/link-types/${type.id}`, { key: own.key, body: { is_enabled: false } });
  const body = { link_type: 'contacts', record_id: await customer(own.key) };
  const { error } = (await expectStatus(409, 'POST', linksPath('accounts', from), { key: own.key, body })).body;
  expect(error.details.reason).toBe('link_type_disabled');
  expect(await list('accounts', from, {}, own.key)).toEqual([made]);
  await expectStatus(200, 'DELETE', `${linksPath('accounts', from)}/${made.id}`, { key: own.key });
});

test('removes the links of records that are deleted alone or in batches', async () => {
  const [from, to, other] = [await account(), await customer(), await customer()];
  await link('accounts', from, 'contacts', to);
  await link('accounts', from, 'contacts', other);
  await expectStatus(200, 'DELETE', recordsPath('customers', to), { key });
  expect(await list('accounts', from)).toHaveLength(1);
  const path = `${recordsPath('accounts')}:batch-delete`;
  await expectStatus(200, 'POST', path, { key, body: { ids: [from] }, idempotencyKey: true });
  expect(await list('customers', other)).toEqual([]);
  const [left] = await database()`select count(*)::int as links from links where from_id = ${from}`;
  expect(left?.links).toBe(0);
});

test('leaves no links to a record that is deleted while others link it', async () => {
  const to = await customer();
  const from = await Promise.all(Array.from({ length: 10 }, () => account()));
  const [gone] = await Promise.all([
    call('DELETE', recordsPath('customers', to), { key }),
    ...from.map((id) =>
      call('POST', linksPath('accounts', id), { key, body: { link_type: 'contacts', record_id: to } }),
    ),
  ]);
  expect(gone?.status).toBe(200);
  const [left] = await database()`select count(*)::int as links from links where to_id = ${to}`;
  expect(left?.links).toBe(0);
});

describe('scopes and reach', () => {
  test('requires edit on the record of the path and view on the other, and omits links that the key cannot view', async () => {
    const [from, to] = [await account(), await customer()];
    const body = { link_type: 'contacts', record_id: to };
    const accounts = await newKey(tenant, { scopes: ['accounts:view', 'accounts:edit'] });
    const refused = await expectStatus(403, 'POST', linksPath('accounts', from), { key: accounts, body });
    expect(refused.body.error.details.required_scopes).toEqual(['customers:view']);
    const viewer = await newKey(tenant, { scopes: ['accounts:view', 'customers:view'] });
    await expectStatus(403, 'POST', linksPath('accounts', from), { key: viewer, body });
    const editor = await newKey(tenant, { scopes: ['accounts:edit', 'accounts:view', 'customers:view'] });
    const made = await link('accounts', from, 'contacts', to, editor);
    expect(await list('accounts', from, {}, accounts)).toEqual([]);
    expect(await list('accounts', from, {}, viewer)).toEqual([made]);
    await expectStatus(403, 'DELETE', `${linksPath('accounts', from)}/${made.id}`, { key: accounts });
    await expectStatus(403, 'DELETE', `${linksPath('customers', to)}/${made.id}`, { key: editor });
  });
});

describe('a batch', () => {
  const batch = async (body: object, of = key): Promise<Json> =>
    (await expectStatus(200, 'POST', '/v1/links:batch', { key: of, body, idempotencyKey: true })).body.data;

  test('links and unlinks in one call, each item alone', async () => {
    const [from, other] = [await account(), await account()];
    const [first, second, third] = [await customer(), await customer(), await customer()];
    const old = await link('accounts', other, 'contacts', third);
    const item = (to: string, more: object = {}) => ({
      object: 'accounts',
      record_id: from,
      link_type: 'contacts',
      to_id: to,
      ...more,
    });
    const { created, deleted } = await batch({
      create: [
        item(first),
        item(first),
        { object: 'customers', record_id: second, link_type: 'employer', to_id: from },
        item(second, { record_id: other }),
        item(third),
        item(randomUUID()),
        item('x'),
        item(first, { link_type: 'employer' }),
        item(first, { object: 'visits' }),
        { object: 'deals', record_id: from, link_type: 'account', to_id: other },
      ],
      delete: [old.id, old.id, randomUUID(), 'x'],
    });
    expect(created.succeeded.map((each: Json) => [each.index, each.link.record_id, each.already_linked])).toEqual([
      [0, first, undefined],
      [1, first, true],
      [2, from, undefined],
      [4, third, undefined],
    ]);
    expect(created.failed.map((each: Json) => [each.index, each.code, each.details?.reason])).toEqual([
      [3, 'CONFLICT', 'link_limit_reached'],
      [5, 'NOT_FOUND', undefined],
      [6, 'NOT_FOUND', undefined],
      [7, 'VALIDATION_ERROR', undefined],
      [8, 'NOT_FOUND', undefined],
      [9, 'CONFLICT', 'system_link_type'],
    ]);
    expect([created.succeeded_count, created.failed_count]).toEqual([4, 6]);
    expect(deleted.succeeded).toEqual([{ index: 0, id: old.id, deleted: true }]);
    expect(deleted.failed.map((each: Json) => [each.index, each.code])).toEqual([
      [1, 'NOT_FOUND'],
      [2, 'NOT_FOUND'],
      [3, 'NOT_FOUND'],
    ]);
    expect(await list('accounts', from)).toHaveLength(3);
  });

  test('checks the scopes of each link item', async () => {
    const [from, to] = [await account(), await customer()];
    const viewer = await newKey(tenant, { scopes: ['accounts:view', 'customers:view'] });
    const item = { object: 'accounts', record_id: from, link_type: 'contacts', to_id: to };
    const { created } = await batch({ create: [item] }, viewer);
    expect(created.failed).toMatchObject([{ index: 0, code: 'FORBIDDEN_SCOPE' }]);
    const made = await link('accounts', from, 'contacts', to);
    expect((await batch({ delete: [made.id] }, viewer)).deleted.failed).toMatchObject([{ code: 'FORBIDDEN_SCOPE' }]);
    const editor = await newKey(tenant, { scopes: ['accounts:view', 'customers:view', 'customers:edit'] });
    expect((await batch({ delete: [made.id] }, editor)).deleted.succeeded).toHaveLength(1);
  });

  test('links 100 records in one call, and rejects more than 100, none, and a missing key', async () => {
    const from = await account();
    const to = await Promise.all(Array.from({ length: 100 }, () => customer()));
    const create = to.map((id) => ({ object: 'accounts', record_id: from, link_type: 'contacts', to_id: id }));
    expect((await batch({ create })).created.succeeded_count).toBe(100);
    await expectStatus(422, 'POST', '/v1/links:batch', {
      key,
      body: { create: [...create, create[0]] },
      idempotencyKey: true,
    });
    await expectStatus(428, 'POST', '/v1/links:batch', { key, body: { create } });
    await expectStatus(422, 'POST', '/v1/links:batch', { key, body: {}, idempotencyKey: true });
  });
});
