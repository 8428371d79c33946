// The timeline of a record: items of all kinds in one order, as their own operations return them.
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { as } from '../support/api.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { addNote, task } from '../support/record-children.ts';
import { createRecord, listProblems, recordsPath } from '../support/records.ts';
import { book, usualPool } from '../support/scheduling.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

const kinds = ['note', 'activity', 'task', 'message', 'booking', 'stage_change', 'attachment', 'link'];

let tenant: Tenant;
let key: string;
/** A deal with two items of each kind. */
let deal: string;
/** The items that the operations of the kinds return, by id. */
const own = new Map<string, { kind: string; details: Json }>();

const timelinePath = (id: string, object = 'deals'): string => `${recordsPath(object, id)}/timeline`;
const page = async (id: string, query: object = {}, of = key, object = 'deals'): Promise<Json> =>
  as(of).get(timelinePath(id, object), query as never);

async function walk(id: string, query: object): Promise<Json[]> {
  const seen: Json[] = [];
  let cursor: string | null = null;
  do {
    const data: Json = await page(id, { ...query, ...(cursor === null ? {} : { cursor }) });
    seen.push(...data.timeline);
    cursor = data.next_cursor;
  } while (cursor !== null);
  return seen;
}

async function newMessage(subject: string | null): Promise<void> {
  await database()`
    insert into messages (company_id, test_mode, id, object, record_id, channel, direction, subject, body, occurred_at)
    values (${tenant.companyId}, false, ${uuidv7()}, 'deals', ${deal}, 'email', 'inbound', ${subject}, 'Thank you.', now())`;
}

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  const api = as(key);
  const type = { name: 'sites', inverse_name: 'site_of', label: 'Sites', inverse_label: 'Site of' };
  await api.post('/v1/link-types', {
    ...type,
    from_object: 'deals',
    to_object: 'accounts',
    cardinality: 'many_to_many',
  });
  deal = (await createRecord(key, 'deals', { name: 'D' })).id;
  const { policy_id } = await usualPool(tenant);
  for (const [index, stage] of ['Contacted', 'Qualified'].entries()) {
    await addNote(key, 'deals', deal, `Note ${index}`);
    await api.post('/v1/activities', {
      entity_type: 'deal',
      entity_id: deal,
      activity_type: 'Call',
      summary: `Call ${index}`,
    });
    await api.post(`${recordsPath('deals', deal)}/tasks`, task({ description: 'Soon' }));
    await newMessage(index === 0 ? 'Your quote' : null);
    await book(key, [(await newUser(tenant)).id], { policy_id, object: 'deals', record_id: deal });
    await api.post(`/v1/deals/${deal}/stage`, { stage, reason: 'They called' });
    await expectStatus(201, 'POST', `${recordsPath('deals', deal)}/attachments`, { key, ...fileForm() });
    const account = (await createRecord(key, 'accounts', { name: `Blue Lake ${index}` })).id;
    await api.post(`${recordsPath('deals', deal)}/links`, { link_type: 'sites', record_id: account });
  }
  // Changes that are no moves.
  await api.patch(recordsPath('deals', deal), { probability: 40 });
  const lists = {
    note: 'notes',
    activity: 'activities',
    task: 'tasks',
    message: 'messages',
    attachment: 'attachments',
    link: 'links',
  };
  // References have no id.
  for (const [kind, list] of Object.entries(lists))
    for (const details of (await api.get(`${recordsPath('deals', deal)}/${list}`))[list])
      if (details.id !== null) own.set(details.id, { kind, details });
  const { history } = await api.get(`${recordsPath('deals', deal)}/history`);
  for (const details of history.filter((row: Json) => row.changes?.stage))
    own.set(details.id, { kind: 'stage_change', details });
  for (const details of (await api.get('/v1/bookings')).bookings) own.set(details.id, { kind: 'booking', details });
});

test('lists every kind, newest first, with the details that the operation of its kind returns', async () => {
  const { timeline, next_cursor, has_more } = await page(deal);
  expect([next_cursor, has_more]).toEqual([null, false]);
  expect(new Set(timeline.map((item: Json) => item.kind))).toEqual(new Set(kinds));
  expect(timeline).toHaveLength(own.size);
  for (const { id, kind, details } of timeline) expect({ kind, details }).toEqual(own.get(id));
  const times = timeline.map((item: Json) => item.at);
  expect(times).toEqual(times.toSorted().reverse());
});

test('names each item, what it says, and who did it', async () => {
  const byKey = { kind: 'api_key', id: expect.any(String), name: 'Test key' };
  const { timeline } = await page(deal);
  const last = (kind: string): Json => {
    const { title, summary, actor } = timeline.find((item: Json) => item.kind === kind);
    return { title, summary, actor };
  };
  expect(Object.fromEntries(kinds.map((kind) => [kind, last(kind)]))).toEqual({
    note: { title: 'Note', summary: 'Note 1', actor: byKey },
    activity: { title: 'Call', summary: 'Call 1', actor: byKey },
    task: { title: 'Call back', summary: 'Soon', actor: byKey },
    message: { title: 'Email', summary: 'Thank you.', actor: null },
    booking: { title: 'First call', summary: null, actor: byKey },
    stage_change: { title: 'Contacted → Qualified', summary: 'They called', actor: byKey },
    attachment: { title: expect.any(String), summary: null, actor: byKey },
    link: { title: 'Blue Lake 1', summary: 'sites', actor: byKey },
  });
});

test('walks through pages of any size without gaps or repeats', async () => {
  const all = (await page(deal)).timeline;
  for (const limit of [1, 3, 7]) expect(await walk(deal, { limit })).toEqual(all);
  const kind = 'note,stage_change';
  const some = all.filter((item: Json) => ['note', 'stage_change'].includes(item.kind));
  expect(await walk(deal, { limit: 1, kinds: kind })).toEqual(some);
});

test('lists items of the same time by id, across kinds', async () => {
  const on = (await createRecord(key, 'deals', { name: 'D' })).id;
  for (let count = 0; count < 3; count += 1) {
    await addNote(key, 'deals', on);
    await expectStatus(201, 'POST', `${recordsPath('deals', on)}/tasks`, { key, body: task() });
  }
  const time = '2026-01-01T00:00:00Z';
  await database()`update notes set created_at = ${time} where record_id = ${on}`;
  await database()`update tasks set created_at = ${time} where record_id = ${on}`;
  const ids = (await walk(on, { limit: 1 })).map((item) => item.id);
  expect(ids).toHaveLength(6);
  expect(ids).toEqual(ids.toSorted().reverse());
});

test('a cursor belongs to the record and the kinds that it was made for', async () => {
  const { next_cursor: cursor } = await page(deal, { limit: 1, kinds: 'note' });
  expect(listProblems(await as(key).rejects(400, 'GET', `${timelinePath(deal)}?cursor=${cursor}`))).toEqual([
    'cursor INVALID_FORMAT',
  ]);
});

test('shows the status changes of leads, but not the status that they began with', async () => {
  const lead = (await createRecord(key, 'leads', { first_name: 'L', email: `${uuidv7()}@x.example` })).id;
  expect((await page(lead, {}, key, 'leads')).timeline).toEqual([]);
  await as(key).patch(recordsPath('leads', lead), { lead_status: 'Contacted' });
  const { timeline } = await page(lead, {}, key, 'leads');
  expect(timeline).toMatchObject([{ kind: 'stage_change', title: 'New → Contacted', summary: null }]);
});

test('rejects an unknown kind and names the kinds', async () => {
  const error = await as(key).rejects(400, 'GET', `${timelinePath(deal)}?kinds=note,notes`);
  expect(error.details.fields).toMatchObject([
    { field: 'kinds', code: 'INVALID_OPTION', allowed: kinds, did_you_mean: 'note' },
  ]);
  expect((await page(deal, { kinds: ' note , task,note' })).timeline).toHaveLength(4);
  expect((await page(deal, { kinds: '' })).timeline).toHaveLength(own.size);
});

describe('visibility', () => {
  test('leaves out the kinds that the key may not view, and rejects them if they are named', async () => {
    const viewer = await newKey(tenant, { scopes: ['deals:view'] });
    const seen = (await page(deal, {}, viewer)).timeline;
    expect(new Set(seen.map((item: Json) => item.kind))).toEqual(new Set(['note', 'stage_change']));
    const scopes = {
      activity: 'activities',
      task: 'tasks',
      message: 'inbox',
      booking: 'bookings',
      attachment: 'attachments',
    };
    for (const [kind, module] of Object.entries(scopes)) {
      const error = await as(viewer).rejects(403, 'GET', `${timelinePath(deal)}?kinds=${kind}`);
      expect([error.code, error.details.required_scopes]).toEqual(['FORBIDDEN_SCOPE', [`${module}:view`]]);
      const allowed = await newKey(tenant, { scopes: ['deals:view', `${module}:view`] });
      expect((await page(deal, { kinds: kind }, allowed)).timeline).toHaveLength(2);
    }
    const accounts = await newKey(tenant, { scopes: ['accounts:view'] });
    const { status } = await call('GET', `${recordsPath('deals', deal)}/notes`, { key: accounts });
    await as(accounts).rejects(status, 'GET', timelinePath(deal));
  });

  test('leaves out a kind whose module is not in the plan, and rejects it if it is named', async () => {
    const other = await newTenant();
    await database()`update subscriptions set package_code = 'starter' where company_id = ${other.companyId}`;
    const on = (await createRecord(other.key, 'deals', { name: 'D' })).id;
    await addNote(other.key, 'deals', on);
    expect((await page(on, {}, other.key)).timeline).toMatchObject([{ kind: 'note' }]);
    const error = await as(other.key).rejects(403, 'GET', `${timelinePath(on)}?kinds=message`);
    expect(error.code).toBe('MODULE_DISABLED');
  });

  test('shows to a key of a branch only the items that it sees elsewhere', async () => {
    const [branch] = await database()`
      insert into branches (company_id, id, name, created_at)
      values (${tenant.companyId}, ${uuidv7()}, ${uuidv7()}, now()) returning id`;
    const [near, far] = [await newUser(tenant, { branchId: branch?.id }), await newUser(tenant)];
    const branchKey = await newKey(tenant, { reach: { kind: 'branch', id: branch?.id } });
    const on = (await createRecord(key, 'deals', { name: 'D', assigned_to: near.id })).id;
    const { policy_id } = await usualPool(tenant);
    for (const { id: assigned_to } of [near, far]) {
      await as(key).post(`${recordsPath('deals', on)}/tasks`, task({ assigned_to }));
      await book(key, [assigned_to], { policy_id, object: 'deals', record_id: on });
      const account = (await createRecord(key, 'accounts', { name: 'A', assigned_to })).id;
      await as(key).post(`${recordsPath('deals', on)}/links`, { link_type: 'sites', record_id: account });
      await as(key).post('/v1/activities', { entity_type: 'deal', entity_id: on, activity_type: 'Call', summary: 'S' });
    }
    await as(branchKey).post('/v1/activities', {
      entity_type: 'deal',
      entity_id: on,
      activity_type: 'Call',
      summary: 'S',
    });
    const counts = async (of: string): Promise<string[]> =>
      (await page(on, {}, of)).timeline.map((item: Json) => item.kind).toSorted();
    expect(await counts(branchKey)).toEqual(['activity', 'booking', 'link', 'task']);
    expect(await counts(key)).toHaveLength(9);
  });

  test('of a record that is not there, beyond reach or of another workspace is 404', async () => {
    const stranger = await newTenant();
    await as(key).rejects(404, 'GET', timelinePath(uuidv7()));
    await as(key).rejects(404, 'GET', timelinePath(deal, 'leads'));
    await as(key).rejects(404, 'GET', timelinePath(deal, 'object:none'));
    await as(stranger.key).rejects(404, 'GET', timelinePath(deal));
    await as(tenant.testKey).rejects(404, 'GET', timelinePath(deal));
  });
});
