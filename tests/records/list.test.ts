// Lists of records: order, pages without repeats or gaps, cursors, and visibility.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  lead,
  newCustomField,
  newCustomObject,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { database, newKey, newTenant, newUser } from '../support/tenants.ts';

const ids = (records: Json[]) => records.map((record) => record.id);
const list = (key: string, query: Record<string, string | number> = {}, object = 'leads') =>
  expectStatus(200, 'GET', recordsPath(object), { key, query });

describe('order', () => {
  test('orders records newest first by default, and by greater id within the same time', async () => {
    const { key, companyId } = await newTenant();
    const created = await createRecords(key, 'leads', [lead(), lead(), lead(), lead()]);
    const early = created[2].id;
    await database()`update leads set created_at = created_at - interval '1 day' where company_id = ${companyId} and id = ${early}`;
    expect(ids(await walk(key, 'leads', { limit: 1 }))).toEqual([
      ...ids(created)
        .filter((id) => id !== early)
        .reverse(),
      early,
    ]);
  });

  test('sorts records without a value last in both directions, then by id in the direction of the last key', async () => {
    const { key } = await newTenant();
    const [a, b, none, c, alsoNone] = ids(
      await createRecords(key, 'leads', [
        lead({ last_name: 'Abel' }),
        lead({ last_name: 'Braun' }),
        lead(),
        lead({ last_name: 'Abel' }),
        lead(),
      ]),
    );
    for (const limit of [1, 2, 100]) {
      expect(ids(await walk(key, 'leads', { sort: 'last_name', limit }))).toEqual([a, c, b, none, alsoNone]);
      expect(ids(await walk(key, 'leads', { sort: '-last_name', limit }))).toEqual([b, c, a, alsoNone, none]);
      expect(ids(await walk(key, 'leads', { sort: 'last_name,-created_at', limit }))).toEqual([
        c,
        a,
        b,
        alsoNone,
        none,
      ]);
      expect(ids(await walk(key, 'leads', { sort: 'last_name,-id', limit }))).toEqual([c, a, b, alsoNone, none]);
    }
  });

  test('returns each record once in pages of one value, newest and oldest first', async () => {
    const { key } = await newTenant();
    const statuses = ['New', 'Contacted', 'Qualified'];
    const drafts = Array.from({ length: 66 }, (_, index) => lead({ lead_status: statuses[index % 3] }));
    const created = await createRecords(key, 'leads', drafts);
    for (const status of statuses) {
      const oldest = ids(created.filter((record) => record.lead_status === status));
      const filter = JSON.stringify({ field: 'lead_status', op: 'eq', value: status });
      // 10 and 25 use generic plans, and 7 does not.
      for (const limit of [10, 25, 7]) {
        expect(ids(await walk(key, 'leads', { filter, sort: 'created_at', limit }))).toEqual(oldest);
        expect(ids(await walk(key, 'leads', { filter, sort: '-created_at', limit }))).toEqual([...oldest].reverse());
      }
    }
  });

  test('sorts configured lists by name, and custom fields as text', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await newCustomField(tenant, 'leads', 'size', { type: 'number' });
    const [first, second, third] = ids(
      await createRecords(key, 'leads', [
        lead({ lead_status: 'Qualified', size: 9 }),
        lead({ lead_status: 'Contacted', size: 10 }),
        lead({ lead_status: 'New', size: 100 }),
      ]),
    );
    expect(ids(await walk(key, 'leads', { sort: 'lead_status', limit: 1 }))).toEqual([second, third, first]);
    expect(ids(await walk(key, 'leads', { sort: 'size', limit: 1 }))).toEqual([second, third, first]);
  });

  test('sorts texts of any length by their first 255 characters, with valid cursors', async () => {
    const { key } = await newTenant();
    const [late, early] = ids(
      await createRecords(key, 'leads', [
        lead({ notes: `${'😀'.repeat(254)}b`, inquiry_details: '\u0001'.repeat(5000), origin: '\u0001'.repeat(100) }),
        lead({ notes: `${'😀'.repeat(254)}a`, inquiry_details: '\u0001'.repeat(5000), origin: '\u0001'.repeat(100) }),
      ]),
    );
    expect(ids(await walk(key, 'leads', { sort: 'notes,inquiry_details,origin', limit: 1 }))).toEqual([early, late]);
    expect(ids(await walk(key, 'leads', { sort: 'inquiry_details,notes', limit: 1 }))).toEqual([early, late]);
  });

  test.each([
    ['an unknown field', 'colour', ['colour UNKNOWN_FIELD']],
    ['an unknown one among good ones', 'last_name,-colour', ['colour UNKNOWN_FIELD']],
    ['a field twice', 'last_name,-last_name', ['last_name DUPLICATE']],
    ['four fields', 'last_name,first_name,email,city', ['sort TOO_LONG']],
    ['nothing', '', ['sort INVALID_FORMAT']],
    ['an empty name', 'last_name,', ['sort INVALID_FORMAT']],
    ['a lone minus', '-', ['sort INVALID_FORMAT']],
    ['a query', 'id;drop table leads', ['id;drop table leads UNKNOWN_FIELD']],
  ])('rejects sorting by %s', async (_, sort, expected) => {
    const { key } = await newTenant();
    expect(await refusedFields(400, 'GET', recordsPath('leads'), { key, query: { sort } })).toEqual(expected);
  });
});

describe('pages', () => {
  test('clamps the limit to 1 to 100, and defaults to 25', async () => {
    const { key } = await newTenant();
    await createRecords(
      key,
      'accounts',
      Array.from({ length: 101 }, (_, index) => ({ name: `Account ${index}` })),
    );
    const lengths = await Promise.all(
      [undefined, 0, -5, 1, 100, 101, 100000].map(
        async (limit) => (await list(key, limit === undefined ? {} : { limit }, 'accounts')).body.data.records.length,
      ),
    );
    expect(lengths).toEqual([25, 1, 1, 1, 100, 100, 100]);
    const first = (await list(key, { limit: 100 }, 'accounts')).body.data;
    expect(first).toMatchObject({ object: 'accounts', has_more: true });
    const last = (await list(key, { limit: 100, cursor: first.next_cursor }, 'accounts')).body.data;
    expect(last).toMatchObject({ has_more: false, next_cursor: null });
    expect(last.records).toHaveLength(1);
  });

  test('returns an empty list', async () => {
    const { key } = await newTenant();
    expect((await list(key)).body.data).toEqual({
      object: 'leads',
      records: [],
      versions: [],
      next_cursor: null,
      has_more: false,
    });
  });

  test('rejects a cursor that is altered, made up, or of another sort, filter, object, mode or tenant', async () => {
    const { key, testKey } = await newTenant();
    const other = await newTenant();
    await createRecords(key, 'leads', [lead(), lead()]);
    const { next_cursor: cursor } = (await list(key, { limit: 1 })).body.data;
    const filter = JSON.stringify({ field: 'city', op: 'is_null' });
    const refused = (withKey: string, query: Record<string, string>, object = 'leads') =>
      refusedFields(400, 'GET', recordsPath(object), { key: withKey, query });
    for (const altered of [`${cursor}x`, cursor.slice(0, -1), `x${cursor}`, 'abc', 'a.b.c', '25', '{}'])
      expect(await refused(key, { cursor: altered })).toEqual(['cursor INVALID_FORMAT']);
    expect(await refused(key, { cursor, sort: 'created_at' })).toEqual(['cursor INVALID_FORMAT']);
    expect(await refused(key, { cursor, filter })).toEqual(['cursor INVALID_FORMAT']);
    expect(await refused(key, { cursor }, 'deals')).toEqual(['cursor INVALID_FORMAT']);
    expect(await refused(testKey, { cursor })).toEqual(['cursor INVALID_FORMAT']);
    expect(await refused(other.key, { cursor })).toEqual(['cursor INVALID_FORMAT']);
    expect((await list(key, { cursor, limit: 100 })).body.data.records).toHaveLength(1);
  });

  test('rejects an unknown query parameter by name', async () => {
    const { key } = await newTenant();
    expect(await refusedFields(400, 'GET', recordsPath('leads'), { key, query: { offset: 10 } })).toEqual([
      'offset UNKNOWN_FIELD',
    ]);
  });

  test.each(['', '-created_at', 'created_at', 'last_name,-priority', '-size'])(
    'repeats and skips nothing in a walk sorted by "%s" under concurrent inserts and deletes',
    async (sort) => {
      const tenant = await newTenant();
      const { key } = tenant;
      await newCustomField(tenant, 'leads', 'size', { type: 'number' });
      const body = (index: number) =>
        lead({ last_name: index % 3 === 0 ? null : `N${index % 7}`, priority: (index % 4) + 1, size: index % 5 });
      const created = await createRecords(
        key,
        'leads',
        Array.from({ length: 120 }, (_, index) => body(index)),
      );
      const leaving = new Set(ids(created.filter((_, index) => index % 4 === 0)));
      const toDelete = [...leaving];
      let done = false;
      const disturb = async () => {
        for (let index = 0; !done; index += 1) {
          await createRecord(key, 'leads', body(index));
          const id = toDelete.pop();
          if (id) await expectStatus(200, 'DELETE', recordsPath('leads', id), { key });
        }
      };
      const disturbing = disturb();
      const walked: string[] = [];
      for (let round = 0; round < 3; round += 1) {
        const seen = ids(await walk(key, 'leads', { limit: 7, ...(sort === '' ? {} : { sort }) }));
        expect(new Set(seen).size).toBe(seen.length);
        const missed = ids(created).filter((id) => !leaving.has(id) && !seen.includes(id));
        expect(missed).toEqual([]);
        walked.push(...seen);
      }
      done = true;
      await disturbing;
      expect(walked.length).toBeGreaterThan(270);
    },
  );
});

describe('contents of a list', () => {
  test('returns every published field, with null for a missing value, and nothing else', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'accounts', 'tier');
    await newCustomField(tenant, 'accounts', 'secret', { enabled: false });
    const { key, companyId } = tenant;
    await createRecord(key, 'accounts', { name: 'Blue Lake' });
    await database()`update accounts set custom = custom || '{"secret": "s", "stray": "s"}' where company_id = ${companyId}`;
    const [account] = (await list(key, {}, 'accounts')).body.data.records;
    expect(Object.keys(account).sort()).toEqual(
      [
        'id',
        'created_at',
        'updated_at',
        'name',
        'email',
        'phone',
        'extension',
        'website',
        'industry',
        'last_contacted_at',
        'employee_count',
        'annual_revenue_minor',
        'address',
        'city',
        'state',
        'country',
        'postal_code',
        'description',
        'assigned_to',
        'tier',
      ].sort(),
    );
    expect(account.tier).toBeNull();
  });

  test('lists only rows of the tenant, the mode and the object', async () => {
    const tenant = await newTenant();
    const other = await newTenant();
    const visits = await newCustomObject(tenant, 'visits');
    const rooms = await newCustomObject(tenant, 'rooms');
    await newCustomObject(other, 'visits');
    const [mine] = await createRecords(tenant.key, visits, [{ name: 'Mine' }]);
    await createRecord(tenant.testKey, visits, { name: 'Test' });
    await createRecord(tenant.key, rooms, { name: 'Room' });
    await createRecord(other.key, visits, { name: 'Theirs' });
    expect(ids(await walk(tenant.key, visits))).toEqual([mine.id]);
    const test = await list(tenant.testKey, {}, visits);
    expect(test.body.data.records.map((record: Json) => record.name)).toEqual(['Test']);
    expect(test.body.meta.test_mode).toBe(true);
  });

  test('lists records assigned in the branch or team of the key, and unassigned ones created there or by the key', async () => {
    const tenant = await newTenant();
    const sql = database();
    const [north, south, team] = [randomUUID(), randomUUID(), randomUUID()];
    for (const id of [north, south])
      await sql`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${id}, 'Branch', now())`;
    await sql`insert into teams (company_id, id, branch_id, name, created_at) values (${tenant.companyId}, ${team}, ${north}, 'Team', now())`;
    const inNorth = await newUser(tenant, { branchId: north });
    const inSouth = await newUser(tenant, { branchId: south });
    const inTeam = await newUser(tenant, { branchId: south });
    await sql`update users set team_id = ${team} where id = ${inTeam.id}`;
    const northKey = await newKey(tenant, { reach: { kind: 'branch', id: north } });
    const teamKey = await newKey(tenant, { reach: { kind: 'team', id: team } });

    const [ofNorth, ofSouth, ofTeam, ofNobody, byNorth] = ids(
      await createRecords(tenant.key, 'leads', [
        lead({ assigned_to: inNorth.id }),
        lead({ assigned_to: inSouth.id }),
        lead({ assigned_to: inTeam.id }),
        lead(),
        lead(),
      ]),
    );
    await sql`
      update leads set created_by_kind = 'user', created_by_id = ${inNorth.id}, created_by_user = ${inNorth.id} where id = ${byNorth}`;
    const byKey = (await createRecord(northKey, 'leads', lead())).id;
    const byKeyForSouth = (await createRecord(northKey, 'leads', lead({ assigned_to: inSouth.id }))).id;

    expect(ids(await walk(northKey, 'leads', { limit: 2, sort: 'id' }))).toEqual([ofNorth, byNorth, byKey].sort());
    expect(ids(await walk(teamKey, 'leads'))).toEqual([ofTeam]);
    expect(await walk(tenant.key, 'leads')).toHaveLength(7);
    for (const id of [ofSouth, ofTeam, ofNobody, byKeyForSouth]) {
      for (const [method, options] of [
        ['GET', {}],
        ['PATCH', { body: { city: 'Berlin' } }],
        ['DELETE', {}],
      ] as const) {
        const hidden = await expectStatus(404, method, recordsPath('leads', id), { key: northKey, ...options });
        const unknown = await expectStatus(404, method, recordsPath('leads', randomUUID()), {
          key: northKey,
          ...options,
        });
        expect(hidden.body.error).toEqual(unknown.body.error);
      }
    }
    await expectStatus(200, 'PATCH', recordsPath('leads', ofNorth), { key: northKey, body: { city: 'Berlin' } });
    await expectStatus(200, 'DELETE', recordsPath('leads', byNorth), { key: northKey });
  });

  test('requires the view scope, and returns 404 for an unknown object', async () => {
    const tenant = await newTenant();
    await newCustomObject(tenant, 'visits');
    await database()`update custom_objects set enabled = false where company_id = ${tenant.companyId}`;
    const key = await newKey(tenant, { scopes: ['deals:view'] });
    for (const [withKey, object] of [
      [key, 'leads'],
      [tenant.key, 'nothing'],
      [tenant.key, 'object:visits'],
      [tenant.key, 'users'],
    ] as const) {
      const { body } = await expectStatus(404, 'GET', recordsPath(object), { key: withKey });
      expect(body.error).toEqual({ code: 'NOT_FOUND', message: 'There is no such resource.' });
    }
    expect((await call('GET', '/v1/objects/deals/records', { key })).status).toBe(200);
  });
});
