// The portal: who can open it, for how long, and what it does not offer.
import { expect, test } from 'vitest';
import { subscribed } from '../support/billing.ts';
import { call, expectStatus } from '../support/client.ts';
import { database, newTenant } from '../support/tenants.ts';

const open = (key: string, body?: object) =>
  call('POST', '/v1/billing/portal-session', { key, ...(body ? { body } : {}) });

test('offers no portal to a workspace that never checked out', async () => {
  const { key } = await newTenant();
  const answer = await open(key);
  expect([answer.status, answer.body.error.code]).toEqual([409, 'NO_BILLING_CUSTOMER']);
});

test('offers a portal to test keys from the start', async () => {
  const { testKey } = await newTenant();
  const { data } = (await open(testKey)).body;
  expect(data.url).toContain('/portal/test/');
  expect(await (await fetch(data.url)).text()).toContain('visa, ending in 4242');
});

test('keeps a portal page open for five minutes, at an address that cannot be guessed', async () => {
  const tenant = await newTenant();
  await subscribed(tenant);
  const { data } = (await open(tenant.key)).body;
  expect(Date.parse(data.expires_at) - Date.now()).toBeGreaterThan(290_000);
  expect((await fetch(data.url)).status).toBe(200);
  expect((await fetch(data.url.replace(/.$/, (last: string) => (last === 'a' ? 'b' : 'a')))).status).toBe(404);
  await database()`update portal_sessions set expires_at = now() where company_id = ${tenant.companyId}`;
  expect((await fetch(data.url)).status).toBe(404);
});

test('opens the portal without a subscription, and never lets it cancel, pause or switch plans', async () => {
  const tenant = await newTenant();
  await subscribed(tenant, 'live', { status: 'canceled', ended_at: new Date() });
  const { body } = await expectStatus(200, 'POST', '/v1/billing/portal-session', { key: tenant.key });
  const text = await (await fetch(body.data.url)).text();
  expect(text).not.toMatch(/cancel|pause|plan/i);
});

test.each(['http://app.example.com', 'javascript:alert(1)', 'app.example.com'])(
  'rejects %j as the return address',
  async (return_url) => {
    const { testKey } = await newTenant();
    const { body } = await expectStatus(400, 'POST', '/v1/billing/portal-session', {
      key: testKey,
      body: { return_url },
    });
    expect(body.error.details.fields).toMatchObject([{ field: 'return_url' }]);
  },
);
