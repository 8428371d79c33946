// The suppression list of email addresses: entries are added once and never removed.
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { newWideTenant } from '../support/requests.ts';
import type { Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/email-suppression';

beforeAll(async () => {
  tenant = await newWideTenant();
});

const add = (email: string, more: object = {}, key = tenant.key) =>
  call('POST', path, { key, body: { email, ...more } });

test('adds an address once in any case and keeps it unchanged', async () => {
  const email = `${randomUUID()}@bluelake.example`;
  const first = await add(email.toUpperCase());
  expect([first.status, first.body.data]).toMatchObject([
    201,
    { already_present: false, entry: { email, reason: 'manual', source: 'api', campaign_id: null } },
  ]);
  const again = await add(email, { reason: 'complained' });
  expect([again.status, again.body.data]).toEqual([200, { entry: first.body.data.entry, already_present: true }]);
  expect((await add(email, {}, tenant.testKey)).status).toBe(201);
});

test('adds one address for 32 concurrent requests', async () => {
  const email = `${randomUUID()}@bluelake.example`;
  const answers = await Promise.all(Array.from({ length: 32 }, () => add(email)));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(new Set(answers.map(({ body }) => body.data.entry.id)).size).toBe(1);
});

test('lists addresses by reason, newest first', async () => {
  const own = await newWideTenant();
  for (const reason of ['manual', 'bounced', 'manual'])
    expect((await add(`${randomUUID()}@bluelake.example`, { reason }, own.key)).status).toBe(201);
  const reasons = async (query: Record<string, string>) =>
    (await expectStatus(200, 'GET', path, { key: own.key, query })).body.data.entries.map((each: Json) => each.reason);
  expect(await reasons({})).toEqual(['manual', 'bounced', 'manual']);
  expect(await reasons({ reason: 'bounced' })).toEqual(['bounced']);
  expect((await call('GET', path, { key: own.key, query: { reason: 'bored' } })).status).toBe(400);
});
