// The home page of the console: what waits for a person, first steps, and charts of 30 days.
import { expect, test } from 'vitest';
import { countByDay } from '../../db/automation/daily-figures.ts';
import { newGrant } from '../support/access-tokens.ts';
import { subscribed } from '../support/billing.ts';
import { call } from '../support/client.ts';
import { newDraft } from '../support/messaging.ts';
import { Visitor } from '../support/page-client.ts';
import { createRecords, newCustomObject } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { newPerson } from '../support/sessions.ts';
import { database, newKey, newTenant, rowDatabase, type Tenant } from '../support/tenants.ts';
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

/** Returns the values of a chart, oldest first; none if it is empty or not there. */
const readChart = (text: string, id: string): number[] =>
  [...(text.split(`id="${id}-title"`)[1]?.split('</svg>')[0] ?? '').matchAll(/<title>[\d-]+: ([\d,]+)/g)].map(
    ([, value = '']) => Number(value.replace(',', '')),
  );
const sumUp = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
/** The sums of the days before yesterday, and of the last two: calls can be sent before midnight, and the page read after it. */
const splitChart = (text: string, id: string): number[] => {
  const values = readChart(text, id);
  return [values.length, sumUp(values.slice(0, -2)), sumUp(values.slice(-2))];
};

test('draws calls, failed calls and new records of the last 30 days, with today as the last', async () => {
  const tenant = await newTenant();
  const empty = await openHome(tenant);
  for (const none of ['No calls in', 'No failed calls in', 'No new records in']) expect(empty).toContain(none);
  for (let sent = 0; sent < 3; sent += 1) await call('GET', '/v1/me', { key: tenant.key });
  for (let sent = 0; sent < 2; sent += 1)
    await call('GET', '/v1/objects/accounts/records?limit=none', { key: tenant.key });
  const [old, , , mine] = await createRecords(
    tenant.key,
    'accounts',
    ['Old', 'North', 'South', 'East'].map((name) => ({ name })),
  );
  await createRecords(tenant.testKey, 'accounts', [{ name: 'Test' }]);
  await createRecords(tenant.key, await newCustomObject(tenant, 'visits'), [{ name: 'Visit' }]);
  await database()`update accounts set created_at = now() - interval '40 days' where id = ${old.id}`;
  await database()`update accounts set created_at = now() - interval '10 days' where id = ${mine.id}`;
  const calls = 3 + 2 + 2;
  await expect.poll(async () => splitChart(await openHome(tenant), 'calls')).toEqual([30, 0, calls]);
  await expect.poll(async () => splitChart(await openHome(tenant), 'failures')).toEqual([30, 0, 2]);
  expect(splitChart(await openHome(tenant), 'records')).toEqual([30, 1, 3]);
  expect(splitChart(await openHome(tenant, '/console?mode=test'), 'records')).toEqual([30, 0, 1]);
});

test('counts no more than a thousand new records of a day, and names the cap', async () => {
  const tenant = await newTenant();
  await createRecords(tenant.key, 'accounts', [{ name: 'Many' }]);
  await database()`
    insert into accounts (company_id, test_mode, id, name, created_by_kind, created_by_id, created_at, updated_at)
    select company_id, test_mode, gen_random_uuid(), name, created_by_kind, created_by_id, created_at, updated_at
    from accounts, generate_series(1, 1200) where company_id = ${tenant.companyId}`;
  const text = await openHome(tenant);
  expect(splitChart(text, 'records')).toEqual([30, 0, 1000]);
  expect(text).toContain('Most on a day: 1,000 or more. Total: 1,000 or more.');
});

test('draws charts only for people who may see their figures', async () => {
  const tenant = await newTenant();
  await createRecords(tenant.key, 'accounts', [{ name: 'North' }]);
  const open = async (role: string): Promise<string> => {
    const visitor = new Visitor();
    await visitor.signIn((await newPerson(tenant, role)).email);
    return (await visitor.ask(live)).text;
  };
  const viewer = await open('Viewer');
  expect([viewer.includes('Calls per day'), viewer.includes('Failed calls per day')]).toEqual([false, true]);
  expect(sumUp(readChart(viewer, 'records'))).toBe(1);
  // A representative sees only their own records.
  expect(await open('Sales_Rep')).not.toContain('New records per day');
});

test('reads the new records of each object from the index by time of creation', async () => {
  const { companyId } = await newTenant();
  const days = [{ calls: '2026-11-28', records: '2026-11-28' }];
  const plan = await rowDatabase().begin(async (sql) => {
    await sql`select set_config('app.company_id', ${companyId}, true), set_config('app.test_mode', 'false', true)`;
    await sql`set local role crm_app`;
    // The tables are small. Without sequential scans, the planner chooses as for large ones.
    await sql`set local enable_seqscan = off`;
    await sql`set local enable_bitmapscan = off`;
    /** Explains the whole statement. Its parts stay as they are. */
    const explained = new Proxy(sql, {
      apply(target, _, args: Parameters<typeof sql>) {
        const query = Reflect.apply(target, undefined, args);
        const isWhole = Array.isArray(args[0]) && String(args[0]).includes('with ordinality');
        return isWhole ? sql`explain ${query}` : query;
      },
    });
    const rows = await countByDay(explained as never, { companyId, testMode: false }, days, [
      'leads',
      'accounts',
      'object:visits',
    ]);
    return rows.map((row) => Object.values(row)[0]).join('\n');
  });
  for (const index of ['leads_created', 'accounts_created', 'custom_records_created'])
    expect(plan).toMatch(new RegExp(`using ${index} on .*\\n.*Index Cond: .*created_at >= d.from_time`));
});
