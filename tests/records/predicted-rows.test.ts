// Predicted rows of creates: the response before the insert equals the stored record.
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { getRecordTable } from '../../db/records/columns.ts';
import { getInsertions, getSelectedNames, predictRow, type Row } from '../../db/records/rows.ts';
import { call, type Json } from '../support/client.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
});

const keyed = () => ({ key: tenant.key, idempotencyKey: true }) as const;

const id = '0193f0aa-7d1c-7000-8000-00000000ab1c';

describe('predicted rows', () => {
  test.each([
    ['deals', { name: 'A text\nof "any" kind ⛵', amount_minor: 9_007_199_254_740_991, expect_close: null }],
    ['deals', { expected_close_date: '2026-02-28', customer_id: id, won_at: '2026-02-28T23:59:59.999Z' }],
    ['accounts', { custom: { number: 0.1, list: ['b', 'a'], flag: false } }],
  ])('predicts a row whose values are returned as sent: %s %j', (object, row) => {
    expect(predictRow(getRecordTable(object), row)).toEqual(expect.arrayContaining(Object.values(row).filter(Boolean)));
  });

  test.each([
    ['deals', { amount_minor: 0.5 }],
    ['deals', { amount_minor: 2 ** 53 }],
    ['deals', { customer_id: id.toUpperCase() }],
    ['deals', { expected_close_date: '0099-02-28' }],
    ['deals', { expected_close_date: '2026-02-28T00:00:00.000Z' }],
    ['deals', { won_at: '2026-02-28T23:59:59Z' }],
    ['deals', { won_at: '2026-02-28T23:59:59.999999Z' }],
    ['deals', { won_at: '2026-02-28T23:59:59.999+04:00' }],
    ['deals', { name: 7 }],
  ])('predicts no row with a value that may be returned differently: %s %j', (object, row) => {
    expect(predictRow(getRecordTable(object), row)).toBeUndefined();
  });
});

const objects = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'custom'];

describe('random rows', () => {
  let pool: Pool;
  beforeAll(() => {
    const settings = { prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
    pool = new Pool({ url: inject('databaseUrl'), role: 'crm_app', lanes: 1, ...settings });
  });
  afterAll(() => pool.close(1));

  const text = fc.string({ unit: 'binary' }).filter((value) => value.isWellFormed() && !value.includes('\0'));
  const moment = { min: new Date('1000-01-01'), max: new Date('9999-12-31'), noInvalidDate: true };
  const valuesOf: Record<string, fc.Arbitrary<unknown>> = {
    text,
    uuid: fc.uuid(),
    boolean: fc.boolean(),
    integer: fc.integer(),
    bigint: fc.maxSafeInteger(),
    date: fc.date(moment).map((value) => value.toISOString().slice(0, 10)),
    'timestamp with time zone': fc.date(moment).map((value) => value.toISOString()),
    jsonb: fc.dictionary(
      text,
      fc.oneof(text, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.array(text)),
    ),
  };

  test.each(objects)('stores any row of %s as predicted', async (object) => {
    const known = getRecordTable(object);
    const columns = await database()<{ name: string; type: string; isFilled: boolean }[]>`
      select column_name as name, data_type as type, is_nullable = 'NO' as "isFilled"
      from information_schema.columns where table_schema = 'public' and table_name = ${known.name}`;
    const rows = fc.record(
      Object.fromEntries(
        columns.map(({ name, type, isFilled }) => {
          const values = valuesOf[type] as fc.Arbitrary<unknown>;
          return [name, isFilled ? values : fc.option(values)];
        }),
      ),
    );
    await pool.use(async (sql) => {
      await sql`create temporary table copies (like ${sql(known.name)})`;
      // A separate map, because statements are cached by it.
      const table = { ...known, name: 'copies', columns: new Map(known.columns) };
      await fc.assert(
        fc.asyncProperty(rows, async (row) => {
          const predicted = predictRow(table, row) as Row;
          await getInsertions(table).silent.of(sql, [row]).execute();
          const [stored] = await sql`select ${sql.unsafe(getSelectedNames(table))} from copies r`.values();
          await sql`delete from copies`;
          expect(asAnswered(stored)).toEqual(asAnswered(predicted));
        }),
        { numRuns: 200 },
      );
      await sql`drop table copies`;
    });
  });

  /** Times become texts in a response, and -0 becomes 0. */
  const asAnswered = (value: unknown) => JSON.parse(JSON.stringify(value));
});

test('has no column of a record that the database computes or a trigger sets', async () => {
  const tables = objects.map((object) => getRecordTable(object));
  for (const table of tables) {
    const set = await database()`
      select attname from pg_attribute
      where attrelid = ${table.name}::regclass and (attidentity <> '' or attgenerated <> '')
        and attname = any(${getSelectedNames(table).match(/\w{2,}/g) ?? []})`;
    expect(set, table.name).toEqual([]);
  }
  // Bits of tgtype: 2 is "before", 4 "insert", 16 "update".
  expect(
    await database()`
      select tgname, tgrelid::regclass::text as table from pg_trigger
      where tgrelid = any(${tables.map(({ name }) => name)}::regclass[]) and tgtype & 2 <> 0 and tgtype & 20 <> 0`,
  ).toEqual([]);
});

const changes: Record<string, object> = {
  leads: { city: 'Zürich', priority: 1 },
  accounts: { name: 'Renamed', employee_count: 13 },
  customers: { first_name: 'Änn' },
  deals: { amount_minor: 4321, expected_close_date: null },
  tasks: { title: 'Even later' },
};

test.each([
  ['leads', { first_name: 'Ünï  ', email: 'Who@Example.com', mobile: '+971501234567', priority: 3, notes: 'a\tb\r\n' }],
  ['tasks', { title: 'Later', scheduled_at: '2027-01-02T03:04:05.678901+04:00' }],
  ['tasks', { title: 'Later', scheduled_at: '2027-01-02T03:04:05Z' }],
  ['accounts', { name: '  Spaces  ', employee_count: 12, annual_revenue_minor: 9_007_199_254_740_991 }],
  ['customers', { first_name: 'Ann', website: 'https://Example.com/%41?q=ü', address: '\u00e9 and e\u0301' }],
  [
    'deals',
    { name: 'Deal', amount_minor: 1234, currency_code: 'AED', expected_close_date: '2027-02-28', probability: 35 },
  ],
])('returns a created and an updated record as it reads back: %s %j', async (object, body) => {
  const path = `/v1/objects/${object}/records`;
  const created = await call('POST', path, { ...keyed(), body });
  expect(created).toMatchObject({ status: 201 });
  const { record } = created.body.data as { record: Json };
  await isReadAs(created);
  const changed = await call('PATCH', `${path}/${record.id}`, { ...keyed(), body: { ...body, ...changes[object] } });
  expect(changed).toMatchObject({ status: 200 });
  expect(changed.body.data.record).toMatchObject(changes[object] as object);
  await isReadAs(changed);

  async function isReadAs(answer: typeof created): Promise<void> {
    const read = await call('GET', `${path}/${record.id}`, { key: tenant.key });
    expect(read.body.data.record).toEqual(answer.body.data.record);
    expect(read.headers.get('etag')).toBe(answer.headers.get('etag'));
  }
});

test('returns a created record with custom fields of every type as it reads back', async () => {
  const own: [string, { name?: string; options?: object[] }, unknown][] = [
    ['text', {}, 'Text'],
    ['textarea', {}, 'Lines\nof text'],
    ['number', {}, 0.1],
    ['number', { name: 'of_less_than_nothing' }, -0],
    ['boolean', {}, false],
    ['date', {}, '2027-02-28'],
    ['datetime', {}, '2027-01-02T03:04:05+04:00'],
    ['email', {}, 'A@Example.com'],
    ['phone', {}, '+971501234567'],
    ['url', {}, 'https://Example.com'],
    ['currency', {}, 1250],
    ['select', { options: [{ label: 'One', value: 'one' }] }, 'one'],
  ];
  for (const [type, more] of own) {
    const body = { name: `of_${type}`, label: type, type, ...more };
    expect(await call('POST', '/v1/objects/accounts/fields', { ...keyed(), body })).toMatchObject({ status: 201 });
  }
  const path = '/v1/objects/accounts/records';
  const values = Object.fromEntries(own.map(([type, more, value]) => [more.name ?? `of_${type}`, value]));
  const created = await call('POST', path, { ...keyed(), body: { name: 'Own', ...values } });
  expect(created).toMatchObject({ status: 201 });
  const { record } = created.body.data as { record: Json };
  const read = await call('GET', `${path}/${record.id}`, { key: tenant.key });
  expect(read.body.data.record).toEqual(record);
});

test('returns the error of a statement that fails after the prediction, and executes a retry with the same key', async () => {
  const all = { key: tenant.key, idempotencyKey: randomUUID() };
  const body = { first_name: 'Late', email: 'late@example.com', source: 'Fair' };
  const path = '/v1/objects/leads/records';
  await call('POST', '/v1/settings/sources', { ...keyed(), body: { name: 'Fair' } });
  const [row] = await database()`select id from sources where company_id = ${tenant.companyId} and name = 'Fair'`;
  const { asked } = await database().begin(async (sql) => {
    await sql`delete from sources where id = ${row?.id}`;
    const asked = call('POST', path, { ...all, body });
    // The create waits until the deletion of its source commits.
    await expect
      .poll(() => sql`select from pg_locks where not granted and transactionid = pg_current_xact_id()::text::xid`)
      .toHaveLength(1);
    return { asked };
  });
  expect(await asked).toMatchObject({ status: 409, body: { error: { details: { reason: 'changed_meanwhile' } } } });
  const again = await call('POST', path, { ...all, body });
  expect(again).toMatchObject({ status: 422, body: { error: { code: 'VALIDATION_ERROR' } } });
  expect(again.headers.get('idempotent-replay')).toBeNull();
});
