// Rows name columns in camelCase; the database, JSON and the API keep snake_case.
import { afterAll, expect, expectTypeOf, inject, test } from 'vitest';
import { createClient } from '../../db/client/pipeline.ts';
import { type CamelKeys, rowNames, toCamelKeys } from '../../db/client/row-names.ts';

const client = createClient(inject('databaseUrl'), { max: 1, onnotice: () => undefined });
afterAll(() => client.end({ timeout: 0 }));

test('rows name columns in camelCase and leave values and JSON as they are', async () => {
  const data = { first_name: 'Sara', nested: [{ line_one: 1 }] };
  await client`create temporary table samples (some_name text, secret_last4 text, given_data jsonb)`;
  const row = { someName: 'a_value', secretLast4: 'ab_c', givenData: client.json(data) };
  const answer = { someName: 'a_value', secretLast4: 'ab_c', givenData: data };
  expect([...(await client`insert into samples ${client(row)} returning *`)]).toEqual([answer]);
  expect([...(await client`select ${client(['some_name', 'given_data'])} from samples`)]).toEqual([
    { someName: 'a_value', givenData: data },
  ]);
  await client`update samples set ${client({ someName: null, secret_last4: 'later' })}`;
  const after = await client.unsafe('select some_name, secret_last4 as "secretLast4" from samples where $1', [true]);
  expect([...after]).toEqual([{ someName: null, secretLast4: 'later' }]);
});

test('every column keeps its name on the way to camelCase and back', async () => {
  const names = await client<{ name: string }[]>`
    select distinct column_name as name from information_schema.columns where table_schema = 'public'`;
  expect(names.length).toBeGreaterThan(100);
  const { from, to } = rowNames.column;
  expect(names.filter(({ name }) => to(from(name)) !== name)).toEqual([]);
  expect(to(from('line_1'))).not.toBe('line_1');
});

test('fields of a body take the names of rows, and what they hold stays', () => {
  const body = { is_default: true, working_hours: [{ start_at: '09:00' }], name: 'A' };
  const fields = { isDefault: true, workingHours: [{ start_at: '09:00' }], name: 'A' };
  expect(toCamelKeys(body)).toEqual(fields);
  expectTypeOf<CamelKeys<typeof body>>().toEqualTypeOf<typeof fields>();
});
