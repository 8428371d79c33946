// Reports: exact figures in groups, windows, filters, limits, and visibility.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type CallOptions, expectStatus, type Json, useServer } from '../support/client.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { createRecord, createRecords, newCustomField, newCustomObject, refusedFields } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { createSetting } from '../support/settings.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newTenant, newUser, type Tenant, useDatabase } from '../support/tenants.ts';

const path = '/v1/reports/query';
async function report(key: string, body: object): Promise<Json> {
  return (await expectStatus(200, 'POST', path, { key, body })).body.data;
}
const deal = (more: object = {}) => ({ name: 'Seats', ...more });
const deals = (key: string, ...bodies: object[]) => createRecords(key, 'deals', bodies.map(deal));
const listKeys = (data: Json): [string | null, unknown, number][] =>
  data.groups.map(({ key, value, count }: Json) => [key, value, count]);

/** Sets the creation time of a record. */
async function createdAt(tenant: Tenant, id: string, time: string): Promise<void> {
  await database()`update deals set created_at = ${time} where company_id = ${tenant.companyId} and id = ${id}`;
}

describe('reports by date', () => {
  const amount = { metric: 'sum', field: 'amount_minor' };

  test('groups by two fields, with a group for each existing combination, sorted by both keys', async () => {
    const { key } = await newTenant();
    await deals(
      key,
      { amount_minor: 1, stage: 'New', expected_close_date: '2026-11-02', priority: 2 },
      { amount_minor: 2, stage: 'New', expected_close_date: '2026-11-30', priority: 2 },
      { amount_minor: 4, stage: 'Won', expected_close_date: '2026-11-01', priority: 1 },
      { amount_minor: 8, stage: 'New', expected_close_date: '2026-10-31' },
      { amount_minor: 16, stage: 'New' },
    );
    const groups = async (fields: string[], more: object = {}) => {
      const data = await report(key, { object: 'deals', ...amount, ...more, group_by: fields });
      expect([data.group_by, data.group_by_fields]).toEqual([fields[0], fields]);
      expect(data.groups.map((group: Json) => group.key)).toEqual(data.groups.map((group: Json) => group.keys[0]));
      return data.groups.map(({ keys, value, count }: Json) => [...keys, value, count]);
    };
    expect(await groups(['expected_close_date', 'stage'], { bucket: 'month' })).toEqual([
      ['2026-10', 'New', 8, 1],
      ['2026-11', 'New', 3, 2],
      ['2026-11', 'Won', 4, 1],
      [null, 'New', 16, 1],
    ]);
    // Numbers are sorted as numbers, and records without a value come last, in both fields.
    expect(await groups(['stage', 'priority'])).toEqual([
      ['New', '2', 3, 2],
      ['New', null, 24, 2],
      ['Won', '1', 4, 1],
    ]);
    const one = await report(key, { object: 'deals', group_by: ['stage'] });
    expect(one.groups).toEqual([
      { key: 'New', keys: ['New'], value: 4, count: 4 },
      { key: 'Won', keys: ['Won'], value: 1, count: 1 },
    ]);
    expect(one.total).toEqual({ value: 5, count: 5 });
  });

  test.each([
    [{ group_by: ['stage', 'stage'] }, 400, ['group_by[1] DUPLICATE']],
    [{ group_by: ['stage', 'nope'] }, 422, ['group_by[1] UNKNOWN_FIELD']],
    [{ group_by: [] }, 400, ['group_by TOO_SHORT']],
    [{ group_by: ['stage', 'priority', 'name'] }, 400, ['group_by TOO_LONG']],
    [{ group_by: ['stage', 'priority'], bucket: 'day' }, 400, ['bucket CONFLICTING_FIELDS']],
    [{ date_field: 'nope' }, 422, ['date_field UNKNOWN_FIELD']],
    [{ date_field: 'name' }, 400, ['date_field CONFLICTING_FIELDS']],
    [{ labels: 'yes' }, 422, ['labels INVALID_TYPE']],
  ] as const)('%j is rejected with %i', async (body, status, expected) => {
    const { key } = await newTenant();
    expect(await refusedFields(status, 'POST', path, { key, body: { object: 'deals', ...body } })).toEqual(expected);
  });

  test('applies from and to to date_field, with dates as 00:00 UTC', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await newCustomField(tenant, 'deals', 'day', { type: 'date' });
    await newCustomField(tenant, 'deals', 'starts_at', { type: 'datetime' });
    const dates = ['2026-10-31', '2026-11-01', '2026-11-30', '2026-12-01'];
    await deals(
      key,
      ...dates.map((date) => ({ name: date, expected_close_date: date, day: date, starts_at: `${date}T12:00:00Z` })),
      { name: 'none' },
    );
    const findDates = async (date_field: string, window: object): Promise<string[]> => {
      const data = await report(key, { object: 'deals', group_by: 'name', date_field, ...window });
      expect(data.date_field).toBe(date_field);
      return data.groups.map((group: Json) => group.key);
    };
    const november = { from: '2026-11-01', to: '2026-11-30' };
    for (const field of ['expected_close_date', 'day', 'starts_at'])
      expect(await findDates(field, november)).toEqual(['2026-11-01', '2026-11-30']);
    for (const field of ['expected_close_date', 'day']) {
      expect(await findDates(field, { from: '2026-11-01T00:00:01Z' })).toEqual(['2026-11-30', '2026-12-01']);
      expect(await findDates(field, { to: '2026-11-30T00:00:00Z' })).toEqual([
        '2026-10-31',
        '2026-11-01',
        '2026-11-30',
      ]);
    }
    expect(await findDates('starts_at', { from: '2026-11-30T12:00:00Z' })).toEqual(['2026-11-30', '2026-12-01']);
    expect(await findDates('updated_at', november)).not.toContain(undefined);
    expect((await findDates('expected_close_date', {})).length).toBe(5);
    expect((await report(key, { object: 'deals' })).date_field).toBeUndefined();
  });

  test('labels keys with the names of users, records, statuses and options', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const user = await newUser(tenant);
    await newCustomField(tenant, 'deals', 'tier', { type: 'select', options: [{ label: 'Gold tier', value: 'gold' }] });
    const account = await createRecord(key, 'accounts', { name: 'Blue Lake' });
    await deals(key, { assigned_to: user.id, account_id: account.id, stage: 'New', tier: 'gold' }, { stage: 'New' });
    const labels = async (group_by: string | string[], by = key) => {
      const data = await report(by, { object: 'deals', group_by, labels: true });
      return data.groups.map((group: Json) => group.labels ?? group.label);
    };
    expect(await labels('assigned_to')).toEqual(['Uma User', null]);
    expect(await labels('account_id')).toEqual(['Blue Lake', null]);
    expect(await labels('stage_id')).toEqual(['New']);
    expect(await labels('stage')).toEqual(['New']);
    expect(await labels('tier')).toEqual(['Gold tier', null]);
    expect(await labels(['account_id', 'assigned_to'])).toEqual([
      ['Blue Lake', 'Uma User'],
      [null, null],
    ]);
    const narrow = await newKey(tenant, { scopes: ['reports:view', 'deals:view'] });
    expect(await labels('account_id', narrow)).toEqual([null, null]);
    expect((await report(key, { object: 'deals', group_by: 'stage' })).groups[0]).not.toHaveProperty('label');
    expect((await report(key, { object: 'deals', labels: true })).groups).toEqual([
      { key: null, label: null, value: 2, count: 2 },
    ]);
  });

  test('labels records of tasks only if the report also groups by their object', async () => {
    const { key } = await newTenant();
    const lead = await createRecord(key, 'leads', { first_name: 'Ada', last_name: 'Lovelace', email: 'ada@x.example' });
    const body = { title: 'Call', scheduled_at: '2036-01-01T09:00:00Z' };
    await expectStatus(201, 'POST', `/v1/objects/leads/records/${lead.id}/tasks`, { key, body, idempotencyKey: true });
    const labels = async (group_by: string[]) =>
      (await report(key, { object: 'tasks', group_by, labels: true })).groups.map((group: Json) => group.labels);
    expect(await labels(['object', 'record_id'])).toEqual([['leads', 'Ada Lovelace']]);
    expect(await labels(['record_id'])).toEqual([[null]]);
  });

  test('requires the view scope of the object for the second field as for the first', async () => {
    const tenant = await newTenant();
    const key = await newKey(tenant, { scopes: ['reports:view'] });
    const ask = (group_by: string[]) => ({ key, body: { object: 'deals', group_by } });
    await expectStatus(200, 'POST', path, ask(['stage', 'priority']));
    await expectStatus(403, 'POST', path, ask(['stage', 'name']));
    const filter = { field: 'created_by', op: 'eq', value: 'x' };
    await expectStatus(403, 'POST', path, { key, body: { object: 'deals', filter } });
  });

  test('evaluates relative dates of a filter in the time zone of the workspace', async () => {
    const tenant = await newTenant();
    await deals(tenant.key, {}, {});
    const count = async (name: string) => {
      const filter = { not: { field: 'created_at', op: 'eq', value: { relative: name } } };
      return (await report(tenant.key, { object: 'deals', filter })).total.count;
    };
    expect([await count('last_2_days'), await count('last_month')]).toEqual([0, 2]);
  });
});

describe('figures', () => {
  test('counts by default, and returns one group with the key null without group_by', async () => {
    const { key } = await newTenant();
    const nothing = await report(key, { object: 'deals' });
    expect(nothing).toEqual({
      object: 'deals',
      metric: 'count',
      field: null,
      group_by: null,
      bucket: null,
      groups: [{ key: null, value: 0, count: 0 }],
      total: { value: 0, count: 0 },
      rows_scanned: 0,
      truncated: false,
    });
    await deals(key, {}, { amount_minor: 5 });
    expect(await report(key, { object: 'deals' })).toMatchObject({
      groups: [{ key: null, value: 2, count: 2 }],
      total: { value: 2, count: 2 },
      rows_scanned: 2,
    });
    expect((await report(key, { object: 'deals', field: 'amount_minor' })).total).toEqual({ value: 1, count: 2 });
  });

  test('counts a record once for each of its tags, and once in the total', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    for (const name of ['fair', 'VIP', 'Alone'])
      await createSetting(tenant, '/v1/settings/tags/customers', { name, fields: [] });
    await createSetting(tenant, '/v1/settings/tags/leads', { name: 'Other', fields: [] });
    await newCustomField(tenant, 'customers', 'score', { type: 'number' });
    const customer = (score: number | null, tags: string[]) => ({ first_name: 'C', score, tags });
    const customers = [customer(1, ['VIP', 'fair']), customer(3, ['VIP']), customer(null, ['VIP']), customer(5, [])];
    await createRecords(key, 'customers', customers);
    await createRecords(tenant.testKey, 'customers', [customer(7, ['VIP'])]);
    const counted = await report(key, { object: 'customers', group_by: 'tags' });
    expect(counted).toMatchObject({ group_by: 'tags', bucket: null, rows_scanned: 4, truncated: false });
    expect(listKeys(counted)).toEqual([
      ['VIP', 3, 3],
      ['fair', 1, 1],
      [null, 1, 1],
    ]);
    expect(counted.total).toEqual({ value: 4, count: 4 });
    const averaged = await report(key, { object: 'customers', metric: 'avg', field: 'score', group_by: 'tags' });
    expect(listKeys(averaged)).toEqual([
      ['VIP', 2, 3],
      ['fair', 1, 1],
      [null, 5, 1],
    ]);
    expect(averaged.total).toEqual({ value: 3, count: 4 });
    const filter = {
      and: [
        { field: 'tags', op: 'in', value: ['Fair'] },
        { field: 'score', op: 'is_null', value: false },
      ],
    };
    expect(listKeys(await report(key, { object: 'customers', group_by: 'tags', filter }))).toEqual([
      ['VIP', 1, 1],
      ['fair', 1, 1],
    ]);
    expect(listKeys(await report(key, { object: 'leads', group_by: 'tags' }))).toEqual([]);
    const viewer = await newKey(tenant, { scopes: ['reports:view'] });
    expect(listKeys(await report(viewer, { object: 'customers', group_by: 'tags' }))).toHaveLength(3);
    const listRows = ({ groups }: Json) =>
      groups.map(({ keys, labels, value, count }: Json) => [keys, labels, value, count]);
    const byBoth = { object: 'customers', metric: 'sum', field: 'score', labels: true };
    const first = await report(key, { ...byBoth, group_by: ['tags', 'score'] });
    expect(first).toMatchObject({
      group_by: 'tags',
      group_by_fields: ['tags', 'score'],
      total: { value: 9, count: 4 },
    });
    expect(listRows(first)).toEqual([
      [['VIP', '1'], ['VIP', '1'], 1, 1],
      [['VIP', '3'], ['VIP', '3'], 3, 1],
      [['VIP', null], ['VIP', null], 0, 1],
      [['fair', '1'], ['fair', '1'], 1, 1],
      [[null, '5'], [null, '5'], 5, 1],
    ]);
    const second = await report(key, { ...byBoth, group_by: ['score', 'tags'] });
    expect(second).toMatchObject({ group_by: 'score', total: { value: 9, count: 4 } });
    expect(listRows(second)).toEqual([
      [['1', 'VIP'], ['1', 'VIP'], 1, 1],
      [['1', 'fair'], ['1', 'fair'], 1, 1],
      [['3', 'VIP'], ['3', 'VIP'], 3, 1],
      [['5', null], ['5', null], 5, 1],
      [[null, 'VIP'], [null, 'VIP'], 0, 1],
    ]);
    const refused = (body: object, status = 422) => refusedFields(status, 'POST', path, { key, body });
    expect(await refused({ object: 'deals', group_by: 'tags' })).toEqual(['group_by UNKNOWN_FIELD']);
    expect(await refused({ object: 'customers', field: 'tags' })).toEqual(['field UNKNOWN_FIELD']);
    expect(await refused({ object: 'customers', group_by: ['tags', 'tags'] }, 400)).toEqual(['group_by[1] DUPLICATE']);
    expect(await refused({ object: 'customers', group_by: 'tags', bucket: 'day' }, 400)).toEqual([
      'bucket CONFLICTING_FIELDS',
    ]);
  });

  test('computes sum, avg, min and max over records with a value, or 0 and null for none', async () => {
    const { key } = await newTenant();
    await deals(
      key,
      { amount_minor: 100, stage: 'New' },
      { amount_minor: 201, stage: 'New' },
      { stage: 'New' },
      { stage: 'Won' },
    );
    const figures = async (metric: string) =>
      listKeys(await report(key, { object: 'deals', metric, field: 'amount_minor', group_by: 'stage' }));
    expect(await figures('sum')).toEqual([
      ['New', 301, 3],
      ['Won', 0, 1],
    ]);
    expect(await figures('avg')).toEqual([
      ['New', 150.5, 3],
      ['Won', null, 1],
    ]);
    expect(await figures('min')).toEqual([
      ['New', 100, 3],
      ['Won', null, 1],
    ]);
    expect(await figures('max')).toEqual([
      ['New', 201, 3],
      ['Won', null, 1],
    ]);
  });

  test.each([
    ['a half goes to the even neighbour, down', [1, 1, 1, 1, 1, 1, 1, 2], 1.12],
    ['a half goes to the even neighbour, up', [1, 1, 1, 1, 1, 2, 2, 2], 1.38],
    ['below a half goes down', [1, 1, 2], 1.33],
    ['above a half goes up', [1, 2, 2], 1.67],
    ['negative halves likewise', [-1, -1, -1, -1, -1, -1, -1, -2], -1.12],
    ['negative above a half', [-1, -2, -2], -1.67],
    ['whole', [2, 4], 3],
  ])('averages integers: %s', async (_, amounts, average) => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'deals', 'points', { type: 'number' });
    await deals(tenant.key, ...amounts.map((points) => ({ points })));
    expect((await report(tenant.key, { object: 'deals', metric: 'avg', field: 'points' })).total.value).toBe(average);
  });

  test('adds fractions exactly', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'deals', 'points', { type: 'number' });
    await deals(tenant.key, { points: 0.1 }, { points: 0.2 }, { points: 1e-7 });
    expect((await report(tenant.key, { object: 'deals', metric: 'sum', field: 'points' })).total.value).toBe(0.3000001);
  });

  test('averages all records in the total, not the groups', async () => {
    const { key } = await newTenant();
    await deals(
      key,
      { amount_minor: 1, priority: 1 },
      { amount_minor: 1, priority: 1 },
      { amount_minor: 10, priority: 2 },
    );
    const data = await report(key, { object: 'deals', metric: 'avg', field: 'amount_minor', group_by: 'priority' });
    expect(listKeys(data)).toEqual([
      ['1', 1, 2],
      ['2', 10, 1],
    ]);
    expect(data.total).toEqual({ value: 4, count: 3 });
  });

  test('returns the least and greatest date as text, for built-in and custom fields', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'deals', 'starts_at', { type: 'datetime' });
    await deals(
      tenant.key,
      { expected_close_date: '2026-02-01', starts_at: '2026-02-01T10:00:00+02:00' },
      { expected_close_date: '2025-12-31', starts_at: '2026-01-01' },
    );
    const figure = async (metric: string, field: string) =>
      (await report(tenant.key, { object: 'deals', metric, field })).total.value;
    expect(await figure('min', 'expected_close_date')).toBe('2025-12-31');
    expect(await figure('max', 'expected_close_date')).toBe('2026-02-01');
    expect(await figure('max', 'starts_at')).toBe('2026-02-01T08:00:00.000Z');
    expect(await figure('min', 'created_at')).toMatch(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });
});

describe('groups', () => {
  test('groups created_at by days, weeks from Monday and months, in UTC', async () => {
    const tenant = await newTenant();
    const created = await deals(tenant.key, {}, {}, {}, {});
    const times = [
      '2026-11-15T23:59:59.999Z',
      '2026-11-16T00:00:00.000Z',
      '2026-11-30T23:59:59.999Z',
      '2026-12-01T00:00:00.000Z',
    ];
    for (const [index, time] of times.entries()) await createdAt(tenant, created[index].id, time);
    const keys = async (bucket?: string) =>
      listKeys(await report(tenant.key, { object: 'deals', group_by: 'created_at', bucket })).map(([key, , count]) => [
        key,
        count,
      ]);
    expect(await keys('day')).toEqual([
      ['2026-11-15', 1],
      ['2026-11-16', 1],
      ['2026-11-30', 1],
      ['2026-12-01', 1],
    ]);
    expect(await keys()).toEqual(await keys('day'));
    expect(await keys('week')).toEqual([
      ['2026-11-09', 1],
      ['2026-11-16', 1],
      ['2026-11-30', 2],
    ]);
    expect(await keys('month')).toEqual([
      ['2026-11', 3],
      ['2026-12', 1],
    ]);
  });

  test('groups dates of built-in and custom fields, with missing ones last', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'deals', 'day', { type: 'date' });
    await newCustomField(tenant, 'deals', 'moment', { type: 'datetime' });
    await deals(
      tenant.key,
      {},
      { expected_close_date: '2026-03-31', day: '2024-02-29', moment: '2026-01-01T00:30:00+01:00' },
      { expected_close_date: '2026-03-01' },
    );
    const keys = async (name: string, bucket: string) =>
      listKeys(await report(tenant.key, { object: 'deals', group_by: name, bucket })).map(([key, , count]) => [
        key,
        count,
      ]);
    expect(await keys('expected_close_date', 'month')).toEqual([
      ['2026-03', 2],
      [null, 1],
    ]);
    expect(await keys('day', 'week')).toEqual([
      ['2024-02-26', 1],
      [null, 2],
    ]);
    expect(await keys('moment', 'day')).toEqual([
      ['2025-12-31', 1],
      [null, 2],
    ]);
  });

  test('groups by selects, booleans, numbers, texts and users', async () => {
    const tenant = await newTenant();
    const { key, admin } = tenant;
    await newCustomField(tenant, 'deals', 'tier', {
      type: 'select',
      options: [{ value: 'gold' }, { value: 'silver' }],
    });
    await newCustomField(tenant, 'deals', 'vip', { type: 'boolean' });
    await newCustomField(tenant, 'deals', 'size', { type: 'number' });
    await deals(
      key,
      { tier: 'silver', vip: true, size: 10, stage: 'Contacted', lost_reason: 'b' },
      { tier: 'gold', vip: false, size: 9, stage: 'New', lost_reason: 'B', assigned_to: admin.id },
      { size: 2.5, stage: 'New' },
    );
    const keys = async (name: string) =>
      listKeys(await report(key, { object: 'deals', group_by: name })).map(([group]) => group);
    expect(await keys('tier')).toEqual(['gold', 'silver', null]);
    expect(await keys('vip')).toContain('true');
    expect(await keys('size')).toEqual(['2.5', '9', '10']);
    expect(await keys('stage')).toEqual(['Contacted', 'New']);
    expect(await keys('lost_reason')).toEqual(['B', 'b', null]);
    expect(await keys('assigned_to')).toEqual([admin.id, null]);
  });

  test('groups custom objects, and texts by their first 255 characters', async () => {
    const tenant = await newTenant();
    const visits = await newCustomObject(tenant, 'visits');
    await newCustomField(tenant, visits, 'remark', { type: 'textarea' });
    await createRecords(tenant.key, visits, [
      { name: 'A', remark: `${'x'.repeat(255)}1` },
      { name: 'A', remark: `${'x'.repeat(255)}2` },
    ]);
    expect(listKeys(await report(tenant.key, { object: visits, group_by: 'remark' }))).toEqual([
      ['x'.repeat(255), 2, 2],
    ]);
    expect(listKeys(await report(tenant.key, { object: visits, group_by: 'name' }))).toEqual([['A', 2, 2]]);
  });
});

describe('the records of a report', () => {
  test('includes both ends of the window, and the whole day of a bare date', async () => {
    const tenant = await newTenant();
    const created = await deals(tenant.key, {}, {}, {});
    for (const [index, time] of [
      '2026-11-01T00:00:00.000Z',
      '2026-11-15T12:00:00.000Z',
      '2026-11-30T23:59:59.999Z',
    ].entries())
      await createdAt(tenant, created[index].id, time);
    const count = async (window: object) => (await report(tenant.key, { object: 'deals', ...window })).total.count;
    expect(await count({ from: '2026-11-01', to: '2026-11-30' })).toBe(3);
    expect(await count({ from: '2026-11-01T00:00:00.001Z' })).toBe(2);
    expect(await count({ to: '2026-11-15T12:00:00.000Z' })).toBe(2);
    expect(await count({ to: '2026-11-15T13:59:59+02:00' })).toBe(1);
    expect(await count({ from: '2026-11-15', to: '2026-11-15' })).toBe(1);
    expect(await count({ from: null, to: null, filter: null, group_by: null, field: null, bucket: null })).toBe(3);
  });

  test('applies a filter of the maximum depth', async () => {
    const { key } = await newTenant();
    await deals(key, { stage: 'New', priority: 1 }, { stage: 'Won', priority: 2 }, { stage: 'Won', priority: 4 });
    const filter = {
      and: [{ or: [{ and: [{ field: 'stage', op: 'eq', value: 'won' }] }] }, { field: 'priority', op: 'gt', value: 2 }],
    };
    expect((await report(key, { object: 'deals', filter })).total.count).toBe(1);
  });

  test('covers the newest 5,000 records at most, and reports the cap', async () => {
    const tenant = await newTenant();
    const { key, companyId } = tenant;
    const insert = (from: number, to: number) => database()`
      insert into deals (company_id, test_mode, id, name, amount_minor, created_by_kind, created_by_id, created_at, updated_at)
      select ${companyId}, false, gen_random_uuid(), 'Seats', n, 'system', 'x', timestamptz '2026-01-01' + n * interval '1 second', now() from generate_series(${from}::int, ${to}::int) n`;
    await insert(1, 5000);
    const sum = { object: 'deals', metric: 'sum', field: 'amount_minor' };
    expect(await report(key, sum)).toMatchObject({
      rows_scanned: 5000,
      truncated: false,
      total: { value: 12_502_500, count: 5000 },
    });
    await insert(5001, 5001);
    expect(await report(key, sum)).toMatchObject({
      rows_scanned: 5000,
      truncated: true,
      total: { value: 12_507_500, count: 5000 },
    });
  });

  test('covers only the tenant, the mode and the visible records of the key', async () => {
    const tenant = await newTenant();
    const branchId = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branchId}, 'West', now())`;
    const user = await newUser(tenant, { branchId });
    const key = await newKey(tenant, { reach: { kind: 'branch', id: branchId } });
    await deals((await newTenant()).key, {});
    await deals(tenant.testKey, {});
    await deals(tenant.key, {}, { assigned_to: user.id, amount_minor: 7 }, {});
    const count = async (by: string) => (await report(by, { object: 'deals' })).total.count;
    expect([await count(tenant.key), await count(tenant.testKey), await count(key)]).toEqual([3, 1, 1]);
    const pipeline = (await expectStatus(200, 'GET', '/v1/reports/pipeline', { key, query: { object: 'deals' } })).body
      .data;
    expect(pipeline.total).toBe(1);
  });
});

describe('rejected reports', () => {
  const refused = (status: number, key: string, body: unknown) =>
    refusedFields(status, 'POST', path, { key, body } as CallOptions);

  test.each([
    ['no object', {}, 400, ['object REQUIRED']],
    ['an unknown property', { object: 'deals', groupBy: 'stage' }, 422, ['groupBy UNKNOWN_FIELD']],
    ['an unknown metric', { object: 'deals', metric: 'median' }, 400, ['metric INVALID_OPTION']],
    ['a metric without a field', { object: 'deals', metric: 'sum' }, 400, ['field REQUIRED']],
    ['an unknown field', { object: 'deals', metric: 'sum', field: 'colour' }, 422, ['field UNKNOWN_FIELD']],
    ['an unknown group', { object: 'deals', group_by: 'constructor' }, 422, ['group_by UNKNOWN_FIELD']],
    ['a sum of texts', { object: 'deals', metric: 'sum', field: 'name' }, 400, ['field CONFLICTING_FIELDS']],
    [
      'a sum of dates',
      { object: 'deals', metric: 'avg', field: 'expected_close_date' },
      400,
      ['field CONFLICTING_FIELDS'],
    ],
    ['the least of texts', { object: 'deals', metric: 'min', field: 'stage' }, 400, ['field CONFLICTING_FIELDS']],
    ['a bucket without a group', { object: 'deals', bucket: 'day' }, 400, ['bucket CONFLICTING_FIELDS']],
    ['a bucket of a text', { object: 'deals', group_by: 'name', bucket: 'day' }, 400, ['bucket CONFLICTING_FIELDS']],
    ['an unknown bucket', { object: 'deals', group_by: 'created_at', bucket: 'year' }, 400, ['bucket INVALID_OPTION']],
    ['no date', { object: 'deals', from: 'last tuesday' }, 400, ['from INVALID_FORMAT']],
    ['a day that is none', { object: 'deals', to: '2026-02-30' }, 400, ['to INVALID_FORMAT']],
    ['a window backwards', { object: 'deals', from: '2026-02-02', to: '2026-02-01' }, 400, ['to OUT_OF_RANGE']],
    ['a filter of another shape', { object: 'deals', filter: { field: 'name' } }, 400, ['name INVALID_OPTION']],
    [
      'a filter on an unknown field',
      { object: 'deals', filter: { field: 'colour', op: 'eq', value: 'x' } },
      400,
      ['colour UNKNOWN_FIELD'],
    ],
    [
      'a filter with a value of another type',
      { object: 'deals', filter: { field: 'amount_minor', op: 'gt', value: 'much' } },
      400,
      ['amount_minor INVALID_TYPE'],
    ],
    [
      'a filter with an operator that its field does not take',
      { object: 'deals', filter: { field: 'amount_minor', op: 'contains', value: 1 } },
      400,
      ['amount_minor INVALID_OPTION'],
    ],
    [
      'a filter that is nested too deep',
      { object: 'deals', filter: { or: [{ and: [{ or: [{ and: [] }] }] }] } },
      400,
      ['filter INVALID_FORMAT'],
    ],
    [
      'an invalid filter together with another problem that is a 400',
      { object: 'deals', metric: 'median', filter: { field: 'colour', op: 'is_null' } },
      400,
      ['metric INVALID_OPTION', 'colour UNKNOWN_FIELD'],
    ],
    [
      'an invalid filter together with another problem that is a 422',
      { object: 'deals', group_by: 'colour', filter: { field: 'colour', op: 'is_null' } },
      422,
      ['group_by UNKNOWN_FIELD', 'colour UNKNOWN_FIELD'],
    ],
    [
      'several problems together',
      { object: 'deals', metric: 'sum', group_by: 'colour', from: 'tomorrow!!' },
      422,
      ['field REQUIRED', 'group_by UNKNOWN_FIELD', 'from INVALID_FORMAT'],
    ],
  ] as const)('%s', async (_, body, status, problems) => {
    const { key } = await newTenant();
    expect(await refused(status, key, body)).toEqual(problems);
  });

  test('returns 404 for an unknown object, and 403 for one of a disabled module', async () => {
    const tenant = await newTenant();
    for (const object of ['nothing', 'object:nothing', '__proto__'])
      await expectStatus(404, 'POST', path, { key: tenant.key, body: { object } });
    await database()`update companies set disabled_modules = '{deals}' where id = ${tenant.companyId}`;
    for (const [method, route, options] of [
      ['POST', path, { body: { object: 'deals' } }],
      ['GET', '/v1/reports/pipeline', { query: { object: 'deals' } }],
    ] as const) {
      const { body } = await expectStatus(403, method, route, { key: tenant.key, ...options });
      expect(body.error).toMatchObject({
        code: 'MODULE_DISABLED',
        details: { module: 'deals', reason: 'disabled_by_admin' },
      });
    }
  });

  test('returns figures but no texts or ids to a key without the view scope of the object', async () => {
    const tenant = await newTenant();
    await deals(tenant.key, { amount_minor: 5, assigned_to: tenant.admin.id });
    const key = await newKey(tenant, { scopes: ['reports:view'] });
    expect(
      (await report(key, { object: 'deals', metric: 'sum', field: 'amount_minor', group_by: 'stage' })).total.value,
    ).toBe(5);
    for (const body of [
      { group_by: 'name' },
      { group_by: 'assigned_to' },
      { field: 'name' },
      {
        filter: {
          or: [
            { field: 'stage', op: 'eq', value: 'New' },
            { field: 'name', op: 'contains', value: 'a' },
          ],
        },
      },
      { filter: { field: 'id', op: 'eq', value: randomUUID() } },
    ]) {
      const { error } = (await expectStatus(403, 'POST', path, { key, body: { object: 'deals', ...body } })).body;
      expect(error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['deals:view'] } });
    }
  });
});

describe('a report that takes too long', () => {
  // A separate database, because the test locks a table.
  let server: TestServer;
  beforeAll(async () => {
    const databaseUrl = await newDatabase();
    server = await startServer({
      ...testSettings,
      DATABASE_URL: databaseUrl,
      SECRET_KEY: inject('secretKey'),
      DATA_DIR: '.test-data',
    });
    await useDatabase(databaseUrl);
    useServer(server.url);
  });
  afterAll(async () => {
    await server?.stop();
    useServer(undefined);
    await useDatabase(undefined);
    await dropAllDatabases();
  });

  test('reports a timeout, and says how to narrow the report', async () => {
    const tenant = await newTenant();
    await deals(tenant.key, {});
    await database().begin(async (sql) => {
      await sql`lock table deals in access exclusive mode`;
      const { error } = (await expectStatus(503, 'POST', path, { key: tenant.key, body: { object: 'deals' } })).body;
      expect(error).toMatchObject({ code: 'SERVICE_UNAVAILABLE', details: { reason: 'query_timeout' } });
      expect(error.message).toContain('narrow the query');
    });
  });
});

describe('the pipeline', () => {
  test('counts deals by stage in order with their amounts, including empty stages', async () => {
    const { key } = await newTenant();
    await deals(key, { stage: 'New', amount_minor: 100 }, { stage: 'New', amount_minor: 50 }, { stage: 'Won' });
    const { data } = (await expectStatus(200, 'GET', '/v1/reports/pipeline', { key, query: { object: 'deals' } })).body;
    expect(data).toMatchObject({ object: 'deals', total: 3 });
    expect(data).not.toHaveProperty('converted');
    const positions = data.by_status.map((row: Json) => row.order_position);
    expect(positions).toEqual(positions.toSorted((a: number, b: number) => a - b));
    const of = (name: string) => data.by_status.find((row: Json) => row.status === name);
    expect(of('New')).toMatchObject({ outcome: 'open', count: 2, amount_minor: 150 });
    expect(of('Won')).toMatchObject({ outcome: 'won', count: 1, amount_minor: 0 });
    expect(of('Lost')).toMatchObject({ outcome: 'lost', count: 0, amount_minor: 0 });
  });

  test('counts leads, converted leads by the outcome of their status, and the rate', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const empty = (await expectStatus(200, 'GET', '/v1/reports/pipeline', { key, query: { object: 'leads' } })).body
      .data;
    expect(empty).toMatchObject({ total: 0, converted: 0, conversion_rate: 0 });
    const lead = (lead_status: string) =>
      createRecord(key, 'leads', { first_name: 'Sara', email: `${randomUUID()}@x.example`, lead_status });
    for (const status of ['New', 'New', 'Converted']) await lead(status);
    await database()`update statuses set name = 'Signed' where company_id = ${tenant.companyId} and object = 'leads' and name = 'Converted'`;
    const { data } = (await expectStatus(200, 'GET', '/v1/reports/pipeline', { key, query: { object: 'leads' } })).body;
    expect(data).toMatchObject({ total: 3, converted: 1, conversion_rate: 0.3333 });
    expect(data.by_status[0]).not.toHaveProperty('amount_minor');
    expect(data.by_status.find((row: Json) => row.status === 'Signed').count).toBe(1);
  });

  test.each([[{}], [{ object: 'accounts' }], [{ object: '' }]])('rejects a pipeline of %j', async (query) => {
    const { key } = await newTenant();
    await expectStatus(400, 'GET', '/v1/reports/pipeline', { key, query: query as Record<string, string> });
  });
});
