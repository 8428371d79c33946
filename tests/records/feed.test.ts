// The change feed: its contents by credential, its order, cursors and long polling.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { sweepEvents } from '../../db/records/feed.ts';
import { accessToken, newGrant } from '../support/access-tokens.ts';
import { newTeam } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { brief, changesAfter, now, readFeed, untilTaken } from '../support/feeds.ts';
import { createRecord, lead, newCustomObject, patchRecord, recordsPath } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newUser, rowDatabase, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newWideTenant();
  key = tenant.key;
});

const remove = (object: string, id: string) => expectStatus(200, 'DELETE', recordsPath(object, id), { key });
const account = (more: object = {}): Promise<Json> => createRecord(key, 'accounts', { name: 'Blue Lake', ...more });

describe('the feed', () => {
  test('returns changes in order, each with the current record or null if it is deleted', async () => {
    const cursor = await now(key);
    const kept = await account();
    const gone = await account();
    await patchRecord(key, 'accounts', kept.id, { city: 'Berlin' });
    await remove('accounts', gone.id);
    const changes = await changesAfter(key, cursor);
    expect(changes.map(brief)).toEqual([
      `record.created accounts ${kept.id}`,
      `record.created accounts ${gone.id}`,
      `record.updated accounts ${kept.id}`,
      `record.deleted accounts ${gone.id}`,
    ]);
    expect(changes.map(({ record }) => record?.city ?? null)).toEqual(['Berlin', null, 'Berlin', null]);
    expect(changes.map(({ record }) => record?.id)).toEqual([kept.id, undefined, kept.id, undefined]);
    expect(changes.map(({ changed_fields }) => changed_fields)).toEqual([undefined, undefined, ['city'], undefined]);
    expect(changes[0]).toMatchObject({ actor: { kind: 'api_key' }, record: { name: 'Blue Lake' } });
    expect(new Set(changes.map(({ id }) => id)).size).toBe(4);
  });

  test('returns the current version of each record, or null if it is deleted', async () => {
    const cursor = await now(key);
    const kept = await account();
    const gone = await account();
    await patchRecord(key, 'accounts', kept.id, { city: 'Berlin' });
    await remove('accounts', gone.id);
    const changes = await changesAfter(key, cursor);
    expect(changes.map(({ version }) => version)).toEqual([2, null, 2, null]);
  });

  test('omits changes by the calling credential with skip_own', async () => {
    const other = await newKey(tenant);
    const cursor = await now(key);
    const own = await account();
    const foreign = await createRecord(other, 'accounts', { name: 'Red Hill' });
    await patchRecord(other, 'accounts', own.id, { city: 'Berlin' });
    await patchRecord(key, 'accounts', foreign.id, { city: 'Bonn' });
    const heard = async (by: string) => (await changesAfter(by, cursor, { skip_own: 'true', limit: 1 })).map(brief);
    expect(await heard(key)).toEqual([`record.created accounts ${foreign.id}`, `record.updated accounts ${own.id}`]);
    expect(await heard(other)).toEqual([`record.created accounts ${own.id}`, `record.updated accounts ${foreign.id}`]);
    expect((await changesAfter(key, cursor, { skip_own: 'false' })).length).toBe(4);
  });

  test('returns old and new values of fields if the call includes changes', async () => {
    const { id } = await account({ city: 'Bonn' });
    const cursor = await now(key);
    await patchRecord(key, 'accounts', id, { city: 'Berlin', description: 'x'.repeat(10) });
    const [plain] = await changesAfter(key, cursor);
    expect(plain?.data).not.toHaveProperty('changes');
    const [change] = await changesAfter(key, cursor, { include: 'changes' });
    expect(change?.data.changes).toEqual({
      city: { from: 'Bonn', to: 'Berlin' },
      description: { from: null, to: 'x'.repeat(10) },
    });
    await expectStatus(400, 'GET', '/v1/changes', { key, query: { cursor, include: 'records' } });
  });

  test('omits changes of fields disabled since, and of records no longer visible', async () => {
    const other = await newWideTenant();
    const team = await newTeam(other);
    const member = await newUser(other, { teamId: team });
    const teamKey = await newKey(other, { reach: { kind: 'team', id: team } });
    const { id } = await createRecord(other.key, 'accounts', { name: 'A', assigned_to: member.id });
    const cursor = await now(other.key);
    await patchRecord(other.key, 'accounts', id, { city: 'Berlin', state: 'BE' });
    await database()`insert into field_overrides (company_id, object, name, enabled, updated_at) values (${other.companyId}, 'accounts', 'state', false, now())`;
    const read = async (by: string) =>
      (await changesAfter(by, cursor, { include: 'changes' })).map(({ data }) => data.changes);
    expect(await read(teamKey)).toEqual([{ city: { from: null, to: 'Berlin' } }]);
    await patchRecord(other.key, 'accounts', id, { assigned_to: null });
    expect(await read(other.key)).toEqual([
      { city: { from: null, to: 'Berlin' } },
      { assigned_to: { from: member.id, to: null } },
    ]);
    const seen = await changesAfter(teamKey, cursor, { include: 'changes' });
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.map(({ data, record }) => [data.changes, record])).toEqual(seen.map(() => [undefined, null]));
  });

  test('returns deletions of activities and tasks after that of their record', async () => {
    const { id } = await createRecord(key, 'leads', lead());
    const activity = { entity_type: 'lead', entity_id: id, activity_type: 'Call', summary: 'Called' };
    const { body } = await expectStatus(201, 'POST', '/v1/activities', { key, body: activity });
    const path = `${recordsPath('leads', id)}/tasks`;
    const task = { title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z' };
    const { body: added } = await expectStatus(201, 'POST', path, { key, body: task, idempotencyKey: true });
    const cursor = await now(key);
    await remove('leads', id);
    const changes = (await changesAfter(key, cursor)).map(brief);
    expect(changes[0]).toBe(`record.deleted leads ${id}`);
    expect(changes.slice(1).toSorted()).toEqual([
      `record.deleted activities ${body.data.activity.id}`,
      `record.deleted tasks ${added.data.task.id}`,
    ]);
  });

  test('documents which deletions appear in the feed', async () => {
    const { body } = await expectStatus(200, 'GET', '/v1/openapi.json');
    const describe = (path: string, method: string): string =>
      body.paths[path][method].description.replaceAll(/\s+/g, ' ');
    expect(describe('/v1/objects/{object}/records/{id}', 'delete')).toContain(
      'Emits `record.deleted` for the record, then one for each activity and each task deleted with it.',
    );
    expect(describe('/v1/objects/{object}/records:batch-delete', 'post')).toContain(
      'Each deleted record emits `record.deleted`, and so does each activity and task that is deleted with it.',
    );
    expect(describe('/v1/changes', 'get')).toContain(
      'the activities and tasks deleted with it each have their own `record.deleted`, after that of the record.',
    );
  });

  test('returns changes of files and of the schema, and none without an object', async () => {
    const { id } = await account();
    const cursor = await now(key);
    await expectStatus(201, 'POST', `${recordsPath('accounts', id)}/attachments`, { key, ...fileForm() });
    await expectStatus(201, 'POST', '/v1/objects/accounts/fields', {
      key,
      body: { name: 'fleet', label: 'Fleet', type: 'number' },
    });
    await database()`
      insert into outbox_events (company_id, id, test_mode, event, occurred_at, actor, data)
      values (${tenant.companyId}, gen_random_uuid(), false, 'api_key.expiring', now(), '{}', '{}')`;
    const changes = await changesAfter(key, cursor);
    expect(changes.map(brief)).toEqual([`attachment.created accounts ${id}`, 'schema.changed accounts null']);
    expect(changes.map(({ record }) => record?.id ?? null)).toEqual([id, null]);
  });

  test('returns the data of each event as webhooks send it', async () => {
    const cursor = await now(key);
    const { id } = await createRecord(key, 'leads', lead({ lead_status: 'New' }));
    const body = { lead_status: 'Contacted' };
    await patchRecord(key, 'leads', id, body);
    await expectStatus(201, 'POST', `${recordsPath('leads', id)}/attachments`, { key, ...fileForm() });
    const changes = await changesAfter(key, cursor);
    const about = (index: number) => ({
      object: 'leads',
      record_id: id,
      occurred_at: changes[index]?.occurred_at,
    });
    expect(changes.map(({ event, data }) => [event, data])).toEqual([
      ['record.created', about(0)],
      ['record.updated', { ...about(1), changed_fields: changes[1]?.changed_fields }],
      [
        'lead.status_changed',
        { ...about(2), from: 'New', from_id: expect.any(String), to: 'Contacted', to_id: expect.any(String) },
      ],
      ['attachment.created', { ...about(3), attachment_id: expect.any(String) }],
    ]);
  });

  test('shows the contents of messages, meetings and attachments only with the scope to read them', async () => {
    const { id } = await createRecord(key, 'leads', lead());
    const cursor = await now(key);
    const about = { object: 'leads', record_id: id, occurred_at: new Date().toISOString() };
    const events = [
      ['message.sms.received', 'inbox:view', { preview: 'Hello' }],
      ['appointment.cancelled', 'bookings:view', { reason: 'ill' }],
      ['attachment.created', 'attachments:view', { attachment_id: id }],
    ] as const;
    for (const [event, , more] of events)
      await database()`
        insert into outbox_events (company_id, id, test_mode, event, occurred_at, actor, data)
        values (${tenant.companyId}, gen_random_uuid(), false, ${event}, ${about.occurred_at},
          '{"kind": "system", "id": "inbound", "name": null}', ${database().json({ ...about, ...more })})`;
    const dataFor = async (scopes: string[]): Promise<Json[]> =>
      (await changesAfter(await newKey(tenant, { scopes }), cursor)).map(({ data }) => data);
    await untilTaken(key);
    expect(await dataFor(['leads:view'])).toEqual([about, about, about]);
    for (const [index, [, scope, more]] of events.entries())
      expect((await dataFor(['leads:view', scope]))[index]).toEqual({ ...about, ...more });
  });

  test('starts at the oldest retained event and continues in pages', async () => {
    const { key: own } = await newWideTenant();
    const ids: string[] = [];
    for (const name of ['A', 'B', 'C']) ids.push((await createRecord(own, 'accounts', { name })).id);
    await untilTaken(own);
    const first = await readFeed(own, { limit: 2 });
    expect(first.changes.map((change: Json) => change.record_id)).toEqual(ids.slice(0, 2));
    expect(first.has_more).toBe(true);
    const second = await readFeed(own, { limit: 2, cursor: first.next_cursor });
    expect(second).toMatchObject({ changes: [{ record_id: ids[2] }], has_more: false });
    const third = await readFeed(own, { cursor: second.next_cursor });
    expect(third).toEqual({ changes: [], next_cursor: second.next_cursor, has_more: false });
    for (const limit of [0, -1]) expect((await readFeed(own, { limit })).changes).toHaveLength(1);
    expect((await readFeed(own, { limit: 5000 })).changes).toHaveLength(3);
  });

  test('scans a limited number of invisible positions per call, and continues behind them', async () => {
    const { companyId, key: own } = await newWideTenant();
    const sql = database();
    await sql`insert into feeds (company_id, test_mode, last_position) values (${companyId}, false, 5001)`;
    await sql`
      insert into feed_events (company_id, test_mode, position, id, event, object, occurred_at, actor, data)
      select ${companyId}, false, n, gen_random_uuid(), 'record.created', 'leads', now(), '{}', '{}' from generate_series(1, 5001) n`;
    const page = await readFeed(own, { objects: 'deals' });
    expect(page).toMatchObject({ changes: [], has_more: true });
    expect(await readFeed(own, { objects: 'deals', cursor: page.next_cursor })).toMatchObject({ has_more: false });
  });
});

describe('visibility of the feed', () => {
  test('returns only objects that the key can view and the call requests', async () => {
    await newCustomObject(tenant, 'visits');
    const cursor = await now(key);
    await account();
    await createRecord(key, 'leads', lead());
    await createRecord(key, 'object:visits', { name: 'First' });
    const listObjects = async (reader: string, objects?: string): Promise<string[]> =>
      (await changesAfter(reader, cursor, objects === undefined ? {} : { objects })).map(({ object }) => object);
    expect(await listObjects(key)).toEqual(['accounts', 'leads', 'object:visits']);
    expect(await listObjects(key, 'leads, object:visits')).toEqual(['leads', 'object:visits']);
    const narrow = await newKey(tenant, { scopes: ['leads:read', 'object:visits:view'] });
    expect(await listObjects(narrow)).toEqual(['leads', 'object:visits']);
    expect(await listObjects(narrow, 'accounts,leads')).toEqual(['leads']);
    expect(await listObjects(await newKey(tenant, { scopes: ['billing:view'] }))).toEqual([]);
    await expectStatus(404, 'GET', '/v1/changes', { key, query: { objects: 'leads,object:none' } });
  });

  test('separates the feeds of live and test data', async () => {
    const cursor = await now(tenant.testKey);
    const { id } = await createRecord(tenant.testKey, 'accounts', { name: 'Test' });
    await account();
    expect((await changesAfter(tenant.testKey, cursor)).map(({ record_id }) => record_id)).toEqual([id]);
    await expectStatus(400, 'GET', '/v1/changes', { key, query: { cursor } });
  });

  test('returns changes within the visibility of a key, and removals of records from it', async () => {
    const team = await newTeam(tenant);
    const [near, far] = [await newUser(tenant, { teamId: team }), await newUser(tenant)];
    const reader = await newKey(tenant, { reach: { kind: 'team', id: team } });
    const cursor = await now(key);
    const moved = await account({ assigned_to: near.id });
    const gone = await account({ assigned_to: near.id });
    const hidden = await account({ assigned_to: far.id });
    await patchRecord(key, 'accounts', moved.id, { assigned_to: far.id });
    await patchRecord(key, 'accounts', moved.id, { city: 'Unseen' });
    await patchRecord(key, 'accounts', hidden.id, { city: 'Unseen' });
    await remove('accounts', gone.id);
    await remove('accounts', hidden.id);
    const own = await createRecord(reader, 'accounts', { name: 'Own' });
    await expectStatus(200, 'DELETE', recordsPath('accounts', own.id), { key: reader });
    const taken = await createRecord(reader, 'accounts', { name: 'Assigned to nobody' });
    await patchRecord(key, 'accounts', taken.id, { assigned_to: far.id });
    await patchRecord(key, 'accounts', taken.id, { city: 'Unseen' });
    const changes = await changesAfter(reader, cursor);
    expect(changes.map(brief)).toEqual([
      `record.updated accounts ${moved.id}`,
      `record.deleted accounts ${gone.id}`,
      `record.deleted accounts ${own.id}`,
      `record.updated accounts ${taken.id}`,
    ]);
    expect(changes.every(({ record }) => record === null)).toBe(true);
    const everything = await changesAfter(key, cursor);
    expect(everything.length).toBe(13);
  });
});

describe('a cursor', () => {
  test('accepts a cursor from another key of the workspace, and for other objects', async () => {
    const cursor = await now(key);
    const { id } = await account();
    const other = await newKey(tenant);
    expect((await changesAfter(other, cursor, { objects: 'accounts' })).map(({ record_id }) => record_id)).toEqual([
      id,
    ]);
    const stranger = await newWideTenant();
    for (const bad of [cursor, 'junk', 'NOW', `${cursor}x`]) {
      const answer = await expectStatus(400, 'GET', '/v1/changes', {
        key: bad === cursor ? stranger.key : key,
        query: { cursor: bad },
      });
      expect(answer.body.error.details.fields).toMatchObject([{ field: 'cursor', code: 'INVALID_FORMAT' }]);
    }
  });

  test('rejects an expired cursor, and says where to copy from', async () => {
    const { companyId, key: own } = await newWideTenant();
    const start = await now(own);
    for (const name of ['A', 'B', 'C']) await createRecord(own, 'accounts', { name });
    await untilTaken(own);
    const { next_cursor: second } = await readFeed(own, { limit: 2 });
    const sql = database();
    const age = (position: number, days: number) => sql`
      update feed_events set occurred_at = now() - ${days} * interval '1 day'
      where company_id = ${companyId} and position = ${position}`;
    // The third event is as old, but follows one that is not.
    await age(1, 31);
    await age(3, 31);
    expect(await sweepEvents(rowDatabase(), 1000, new Date())).toBeGreaterThanOrEqual(1);
    expect((await readFeed(own)).changes).toHaveLength(2);
    const refused = await expectStatus(409, 'GET', '/v1/changes', { key: own, query: { cursor: start } });
    expect(refused.body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'cursor_expired', export: '/v1/exports' },
    });
    await age(2, 31);
    await sweepEvents(rowDatabase(), 1000, new Date());
    await expectStatus(409, 'GET', '/v1/changes', { key: own, query: { cursor: second } });
    const { next_cursor: end } = await readFeed(own, { cursor: 'now' });
    expect(await readFeed(own)).toEqual({ changes: [], next_cursor: end, has_more: false });
  });

  test('rejects a cursor beyond the end of the feed as expired, as after a restored backup', async () => {
    const { companyId, key: own } = await newWideTenant();
    for (const name of ['A', 'B']) await createRecord(own, 'accounts', { name });
    const cursor = await now(own);
    await database()`update feeds set last_position = 1 where company_id = ${companyId}`;
    await expectStatus(409, 'GET', '/v1/changes', { key: own, query: { cursor } });
  });
});

describe('long polling', () => {
  test('answers a waiting call as soon as a visible change happens', async () => {
    const cursor = await now(key);
    const reader = await newKey(tenant, { scopes: ['leads:view'] });
    const waiting = readFeed(reader, { cursor, wait: 30 });
    await sleep(100);
    await account();
    const { id } = await createRecord(key, 'leads', lead());
    expect(await waiting).toMatchObject({ changes: [{ record_id: id }], has_more: false });
  });

  test('returns an empty page when the wait time is over', async () => {
    const cursor = await now(key);
    const started = performance.now();
    expect(await readFeed(key, { cursor, wait: 1 })).toEqual({ changes: [], next_cursor: cursor, has_more: false });
    expect(performance.now() - started).toBeGreaterThan(900);
  });

  test('does not wait if changes exist, and never longer than 30 seconds', async () => {
    const cursor = await now(key);
    await account();
    await untilTaken(key);
    expect((await readFeed(key, { cursor, wait: 30 })).changes).toHaveLength(1);
    for (const wait of [-1, 31, 1.5]) await expectStatus(400, 'GET', '/v1/changes', { key, query: { wait } });
  });

  test('holds no database connection while it waits', async () => {
    const cursor = await now(key);
    const waiting = Array.from({ length: 40 }, () => readFeed(key, { cursor, wait: 20 }));
    await sleep(300);
    // More calls wait than there are connections, and this one does not.
    await expectStatus(200, 'GET', '/v1/objects/accounts/records', { key });
    const { id } = await account();
    for (const page of await Promise.all(waiting)) expect(page.changes).toMatchObject([{ record_id: id }]);
  });

  // On a busy machine, the key may be revoked before the call arrives. Then the test is retried.
  test('returns nothing to a waiting call after its key is revoked', { retry: 3 }, async () => {
    const reader = await newKey(tenant);
    const cursor = await now(key);
    const waiting = readFeed(reader, { cursor, wait: 20 });
    await sleep(200);
    await database()`update api_keys set revoked_at = now() where company_id = ${tenant.companyId} and last4 = ${reader.slice(-4)}`;
    await account();
    expect(await waiting).toEqual({ changes: [], next_cursor: cursor, has_more: false });
    expect((await call('GET', '/v1/changes', { key: reader })).status).toBe(401);
  });

  test('returns changes to an app while its user allows it, and nothing after the grant is revoked', {
    retry: 3,
  }, async () => {
    const { userId, clientId } = await newGrant(tenant, { groups: ['records'] });
    const token = await accessToken(tenant, { userId, clientId });
    const changes = (cursor: string): Promise<Json> =>
      expectStatus(200, 'GET', '/v1/changes', { token, query: { cursor, wait: 20 } });
    const first = changes(await now(key));
    await sleep(200);
    const { id } = await createRecord(key, 'leads', lead());
    expect((await first).body.data.changes).toMatchObject([{ record_id: id }]);
    const second = changes((await first).body.data.next_cursor);
    await sleep(200);
    await database()`update oauth_grants set revoked_at = now() where company_id = ${tenant.companyId} and client_id = ${clientId}`;
    await createRecord(key, 'leads', lead());
    expect((await second).body.data.changes).toEqual([]);
    await expectStatus(403, 'GET', '/v1/changes', { token });
  });

  test('answers on another server than the writing one, and immediately when its own server stops', async () => {
    const server = await startServer({
      ...testSettings,
      ...besideCommon(),
      DATA_DIR: '.test-data',
    });
    const cursor = await now(key);
    const waiting = readFeed(key, { cursor, wait: 30 }, server.url);
    await sleep(200);
    const { id } = await account();
    const page = await waiting;
    expect(page.changes).toMatchObject([{ record_id: id }]);
    const last = readFeed(key, { cursor: page.next_cursor, wait: 30 }, server.url);
    await sleep(200);
    const started = performance.now();
    expect(await server.stop()).toBe(0);
    expect(await last).toEqual({ changes: [], next_cursor: page.next_cursor, has_more: false });
    expect(performance.now() - started).toBeLessThan(25_000);
  });
});
