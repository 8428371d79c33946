// The do-not-call list: entries are added once and never removed.
import { randomInt } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { someNumber } from '../support/messaging.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/dnc-list';

beforeAll(async () => {
  tenant = await newWideTenant();
  await database()`update companies set country = 'AE' where id = ${tenant.companyId}`;
});

const add = (phone_number: string, more: object = {}, key = tenant.key) =>
  call('POST', path, { key, body: { phone_number, ...more } });

test('adds an entry once and keeps it unchanged', async () => {
  const number = someNumber();
  const first = await add(number, { reason: 'Asked on the phone', notes: 'Twice' });
  expect([first.status, first.body.data]).toMatchObject([
    201,
    {
      already_present: false,
      entry: { phone_number: number, reason: 'Asked on the phone', notes: 'Twice', source: 'api' },
    },
  ]);
  const again = await add(number, { reason: 'Another reason' });
  expect([again.status, again.body.data]).toEqual([200, { entry: first.body.data.entry, already_present: true }]);
  expect((await add(number, {}, tenant.testKey)).status).toBe(201);
});

test('adds one entry for 32 concurrent requests', async () => {
  const number = someNumber();
  const answers = await Promise.all(Array.from({ length: 32 }, () => add(number)));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(31);
  expect(new Set(answers.map(({ body }) => body.data.entry.id)).size).toBe(1);
});

test.each([
  ['with spaces and brackets', (digits: string) => `+971 (50) ${digits}`],
  ['in national form', (digits: string) => `050${digits}`],
  ['as digits alone', (digits: string) => `50${digits}`],
  ['with 00', (digits: string) => `0097150${digits}`],
])('stores a number %s as E.164', async (_, written) => {
  const digits = randomInt(1_000_000, 10_000_000).toString();
  expect((await add(written(digits))).body.data.entry.phone_number).toBe(`+97150${digits}`);
});

test('rejects values that are not phone numbers', async () => {
  for (const number of ['12', 'sara', '+971501234567 ext. 5']) {
    const refused = await add(number);
    expect([refused.status, refused.body.error.details.fields]).toMatchObject([
      400,
      [{ field: 'phone_number', code: 'INVALID_FORMAT' }],
    ]);
  }
});

test('finds entries by any part of a number in any notation, page by page', async () => {
  const own = await newWideTenant();
  await database()`update companies set country = 'AE' where id = ${own.companyId}`;
  const numbers = ['+971501111111', '+971502222222', '+4915112345678'];
  for (const number of numbers) expect((await add(number, {}, own.key)).status).toBe(201);
  const found = async (query: Record<string, string>) =>
    (await expectStatus(200, 'GET', path, { key: own.key, query })).body.data;
  const listed = async (query: Record<string, string>) =>
    (await found(query)).entries.map((each: Json) => each.phone_number);
  expect(await listed({})).toEqual(numbers.toReversed());
  expect(await listed({ search: '+97150' })).toEqual(['+971502222222', '+971501111111']);
  expect(await listed({ search: '97150' })).toEqual(['+971502222222', '+971501111111']);
  expect(await listed({ search: '4915112345678' })).toEqual(['+4915112345678']);
  // In the middle and at the end.
  expect(await listed({ search: '0222' })).toEqual(['+971502222222']);
  expect(await listed({ search: '345678' })).toEqual(['+4915112345678']);
  expect(await listed({ search: '50' })).toEqual(['+971502222222', '+971501111111']);
  for (const search of ['+971 (50) 222-2222', '00971 50 222', 'tel:+971-50-2222', '050 222 22', '50.222/22'])
    expect([search, await listed({ search })]).toEqual([search, ['+971502222222']]);
  // A prefix only matches the start of a number, and a part that no number contains matches
  // nothing.
  expect([await listed({ search: '+50' }), await listed({ search: '0123' })]).toEqual([[], []]);
  const { next_cursor: cursor } = await found({ search: '97150', limit: '1' });
  expect(await listed({ search: '97150', limit: '1', cursor })).toEqual(['+971501111111']);
  for (const search of ['%', '_50', '+', 'tel:', 'sara'])
    expect([search, (await call('GET', path, { key: own.key, query: { search } })).status]).toEqual([search, 400]);
});
