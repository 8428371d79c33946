// The home page of the console: what waits for a person, first steps, and calls by day.
import { expect, test } from 'vitest';
import { newGrant } from '../support/access-tokens.ts';
import { subscribed } from '../support/billing.ts';
import { call } from '../support/client.ts';
import { newDraft } from '../support/messaging.ts';
import { Visitor } from '../support/page-client.ts';
import { newWideTenant } from '../support/requests.ts';
import { newPerson } from '../support/sessions.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { newWebhook, withoutDeliveries } from '../support/webhooks.ts';

const draft = { channel: 'email', to: 'sara@x.example', subject: 'Your quote', body: 'Hello' };
const live = '/console?mode=live';

async function openHome(tenant: Tenant, address = live): Promise<string> {
  const visitor = new Visitor();
  await visitor.signIn(tenant.admin.email);
  const { status, text } = await visitor.ask(address);
  expect(status).toBe(200);
  return text;
}

/** Returns the numbers on the page by the name of their link. */
const readItems = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<span class="number">([^<]*)<\/span><a href="[^"]*">([^<]*)<\/a>/g)].map(([, number, name]) => [
      name,
      number,
    ]),
  );

test('counts what waits for a person in the mode of the page', async () => {
  const tenant = await newWideTenant();
  await subscribed(tenant, 'live', { package_code: 'scale' });
  expect(await openHome(tenant)).toContain('Nothing is waiting for you.');
  for (let made = 0; made < 3; made += 1) await newDraft(tenant.key, draft);
  await newDraft(tenant.testKey, draft);
  const failing = await newWebhook(tenant, 'live', withoutDeliveries);
  const disabled = await newWebhook(tenant, 'live', withoutDeliveries);
  await database()`update webhook_subscriptions set failing_since = now() where id = ${failing.id}`;
  await database()`update webhook_subscriptions set disabled_reason = 'failures', disabled_at = now() where id = ${disabled.id}`;
  await newKey(tenant, { expiresAt: new Date(Date.now() + 3 * 86_400_000) });
  await newKey(tenant, { expiresAt: new Date(Date.now() + 30 * 86_400_000) });
  expect(readItems(await openHome(tenant))).toEqual({
    Messages: '3',
    'Failing webhook endpoints': '1',
    'Disabled webhook endpoints': '1',
    'Expiring API keys': '1',
  });
  expect(readItems(await openHome(tenant, '/console?mode=test'))).toEqual({ Messages: '1' });
});

test('counts no more than a thousand messages', async () => {
  const tenant = await newWideTenant();
  await newDraft(tenant.key, draft);
  await database()`
    insert into message_drafts (company_id, test_mode, id, channel, status, recipient, body, created_by_kind, created_by_id, created_at, updated_at)
    select company_id, test_mode, gen_random_uuid(), channel, status, recipient, body, created_by_kind, created_by_id, created_at, updated_at
    from message_drafts, generate_series(1, 1200) where company_id = ${tenant.companyId}`;
  expect(readItems(await openHome(tenant)).Messages).toBe('1,000 or more');
});

test('shows a person only what their roles allow, and nothing of another workspace', async () => {
  const [tenant, other] = [await newWideTenant(), await newWideTenant()];
  await newDraft(other.key, draft);
  expect(readItems(await openHome(tenant))).toEqual({ Trial: '14 days' });
  await newDraft(tenant.key, draft);
  const { email } = await newPerson(tenant, 'Viewer');
  await database()`
    insert into imports (company_id, test_mode, id, object, options, dry_run, status, created_by_kind, created_by_id, reach_kind, created_at, completed_at, expires_at)
    values (${tenant.companyId}, false, gen_random_uuid(), 'leads', '{}', false, 'failed', 'api_key', 'test', 'company', now(), now(), now() + interval '1 day')`;
  const visitor = new Visitor();
  await visitor.signIn(email);
  const { status, text } = await visitor.ask(live);
  expect([status, readItems(text), text.includes('Calls per day'), text.includes('First steps')]).toEqual([
    200,
    { 'Failed imports': '1' },
    false,
    false,
  ]);
});

test('lists the first steps until a key, a call and an app exist', async () => {
  const tenant = await newTenant();
  const countDone = (text: string): number => text.split('>Done<').length - 1;
  expect(countDone(await openHome(tenant))).toBe(1);
  await call('GET', '/v1/me', { key: tenant.key });
  await expect.poll(async () => countDone(await openHome(tenant))).toBe(2);
  await newGrant(tenant, { groups: ['records'] });
  expect(await openHome(tenant)).not.toContain('First steps');
});

test('warns of the end of a trial and of the monthly limit of calls', async () => {
  const tenant = await newTenant();
  await database()`
    update subscriptions set status = 'trialing', trial_ends_at = now() + interval '36 hours', api_call_cap = 10
    where company_id = ${tenant.companyId}`;
  await database()`update api_quota set calls = 9 where company_id = ${tenant.companyId}`;
  const items = readItems(await openHome(tenant));
  expect(items).toEqual({ Trial: '2 days', 'API calls of the month': '90 %' });
});

test('draws the calls of the last 30 days, with today as the last', async () => {
  const tenant = await newTenant();
  for (let sent = 0; sent < 4; sent += 1) await call('GET', '/v1/me', { key: tenant.key });
  // The calls can be sent before midnight, and the page read after it.
  const drawn = (text: string): number[] =>
    [...text.matchAll(/<title>[\d-]+: (\d+)<\/title>/g)].map(([, calls]) => Number(calls));
  await expect
    .poll(async () => {
      const days = drawn(await openHome(tenant));
      return [days.length, days.slice(0, -2).some((calls) => calls > 0), (days.at(-1) ?? 0) + (days.at(-2) ?? 0)];
    })
    .toEqual([30, false, 4]);
});
