// Usage: consistent figures by key and by day, separate for each mode.
import { expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { database, newKey, newTenant } from '../support/tenants.ts';

const usage = async (key: string, query = {}): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/usage', { key, query })).body.data.usage;

test('reports the same calls, seats, storage and wallet as the rest of the API', async () => {
  const tenant = await newTenant();
  await database()`update subscriptions set seats = null where company_id = ${tenant.companyId}`;
  const { limits } = (await expectStatus(200, 'GET', '/v1/limits', { key: tenant.key })).body.data;
  const shown = await usage(tenant.key);
  expect(shown.period).toEqual(limits.quota.period);
  const { used, limit, remaining } = shown.api_calls;
  expect({ limit, sum: used + remaining }).toEqual({ limit: 500_000, sum: 500_000 });
  expect(shown.seats).toEqual({ used: 1, allowance: 10 });
  expect(shown).toMatchObject({
    wallet: { balance_minor: 0, currency: 'USD', auto_top_up: false },
    consumables: { spend_minor: 0, items: [] },
    storage: { used_bytes: 0, limit_bytes: null },
    test_mode: false,
  });
  expect(shown).not.toHaveProperty('groups');
});

test('counts every earlier call and the current one immediately', async () => {
  const tenant = await newTenant();
  const key = await newKey(tenant, { perMinute: 6000 });
  let made = 0;
  for (const calls of [1, 7, 40, 3]) {
    await Promise.all(Array.from({ length: calls }, () => expectStatus(200, 'GET', '/v1/me', { key })));
    const { api_calls, groups } = await usage(key, { group_by: 'key' });
    made += calls + 1;
    expect(api_calls).toMatchObject({ used: made, remaining: 500_000 - made });
    // This call may be counted for its key only after its response.
    expect([made - 1, made]).toContain(groups[0].calls);
  }
});

test('reports the figures of the X-Quota headers when the month is used up', async () => {
  const tenant = await newTenant();
  await database()`update subscriptions set api_call_cap = 5 where company_id = ${tenant.companyId}`;
  for (let calls = 0; calls < 3; calls += 1) await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
  expect((await usage(tenant.key)).api_calls).toEqual({ used: 4, limit: 5, remaining: 1 });
  await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
  const refused = await expectStatus(429, 'GET', '/v1/usage', { key: tenant.key });
  expect(refused.headers.get('x-quota-used')).toBe('5');
});

test('counts nothing in test mode', async () => {
  const { testKey } = await newTenant();
  await usage(testKey);
  expect(await usage(testKey)).toMatchObject({ api_calls: { used: 0 }, test_mode: true });
});

test('adds up calls by key and by day, with separate keys for each mode', async () => {
  const tenant = await newTenant();
  const second = await newKey(tenant);
  for (let count = 0; count < 5; count += 1) await call('GET', '/v1/me', { key: tenant.key });
  for (let count = 0; count < 3; count += 1) await call('GET', '/v1/me', { key: second });
  await call('GET', '/v1/me', { key: tenant.testKey });
  const today = new Date().toISOString().slice(0, 10);
  const byKey = (await usage(tenant.key, { group_by: 'key' })).groups;
  expect(byKey).toHaveLength(2);
  expect(byKey.map((group: Json) => group.calls).at(-1)).toBe(3);
  const byDay = (await usage(tenant.key, { group_by: 'day' })).groups;
  expect(byDay.at(-1)).toMatchObject({ key: today, name: null });
  expect(byDay.at(-1).calls).toBeGreaterThanOrEqual(8);
  expect((await usage(tenant.testKey, { group_by: 'key' })).groups).toHaveLength(1);
});

test('rejects any other grouping', async () => {
  const { key } = await newTenant();
  const { body } = await expectStatus(400, 'GET', '/v1/usage', { key, query: { group_by: 'user' } });
  expect(body.error.details.fields).toMatchObject([{ field: 'group_by', code: 'INVALID_OPTION' }]);
});
