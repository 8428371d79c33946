// Times at the console: in the time zone of the workspace, which each page names.
import { beforeAll, expect, test } from 'vitest';
import { call } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const home = '/console/audit-log';
const zone = 'Asia/Kathmandu';

let tenant: Tenant;
let admin: Visitor;
beforeAll(async () => {
  tenant = await newTenant();
  const sql = database();
  await sql`update companies set timezone = ${zone} where id = ${tenant.companyId}`;
  await call('POST', '/v1/leads', { key: tenant.key, body: { first_name: 'Ada', email: 'ada@x.example' } });
  // The next day in Kathmandu, which is 5:45 ahead of UTC.
  await sql`
    update audit_logs set occurred_at = '2026-11-20T18:30:15Z'
    where company_id = ${tenant.companyId} and not test_mode and action = 'lead.create'`;
  admin = new Visitor();
  await admin.signIn(tenant.admin.email);
});

test('shows times and days in the time zone of the workspace, and names it', async () => {
  const { text } = await admin.ask(home);
  expect(text).toContain('<time datetime="2026-11-20T18:30:15.000Z">2026-11-21 00:15 GMT+5:45</time>');
  expect(text).toContain('<h2>Saturday, 21 November 2026</h2>');
  expect(text).toContain(`Times are in ${zone}.`);
  for (const path of ['/console/api-keys', '/console/people', '/console/sessions', '/console/requests'])
    expect([path, (await admin.ask(path)).text.includes(' UTC<')]).toEqual([path, false]);
});

test('filters by days of the time zone of the workspace', async () => {
  const isListed = async (query: string): Promise<boolean> =>
    (await admin.ask(`${home}?action=lead.create&${query}`)).text.includes('2026-11-21 00:15');
  expect(await isListed('from=2026-11-21&to=2026-11-21')).toBe(true);
  expect(await isListed('from=2026-11-20&to=2026-11-20')).toBe(false);
  const wrong = await admin.ask(`${home}?from=2026-02-30`);
  expect([wrong.status, wrong.text.includes('href="#from"')]).toEqual([400, true]);
});

test('keeps the zones of workspaces apart while it builds pages for both', async () => {
  const other = await newTenant();
  const visitor = new Visitor();
  await visitor.signIn(other.admin.email);
  const pages = await Promise.all(Array.from({ length: 6 }, (_, n) => (n % 2 === 0 ? admin : visitor).ask(home)));
  expect(pages.map(({ text }) => /Times are in ([\w/]+)\./.exec(text)?.[1])).toEqual(
    Array.from({ length: 6 }, (_, n) => (n % 2 === 0 ? zone : 'Europe/Berlin')),
  );
});
