// Forms that create a secret: one secret per form, shown once on one page.
import { randomUUID } from 'node:crypto';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser, watchedPage } from '../support/browser.ts';
import { call } from '../support/client.ts';
import { type Seen, Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { newWideTenant } from '../support/requests.ts';
import { adminPassword, database, type Tenant } from '../support/tenants.ts';

interface Form {
  /** The page of the form and its action. */
  page: string;
  action: string;
  fields: Record<string, string>;
  /** Counts the items that the form creates for this tenant. */
  count: () => Promise<number>;
}

const secretPattern = /svc_(?:live|test)_[0-9a-f]{32}|whsec_[\w+/]{43}=/;
const secretIn = ({ text }: Seen): string | undefined => secretPattern.exec(text)?.[0];

let tenant: Tenant;
let admin: Visitor;
let forms: Record<'minting a key' | 'rotating a key' | 'adding a webhook' | 'rotating a webhook secret', Form>;

const countRows = async (table: string): Promise<number> =>
  (await database()`select count(*)::int as count from ${database()(table)} where company_id = ${tenant.companyId}`)[0]
    ?.count;
const keys = () => countRows('api_keys');
const webhooks = () => countRows('webhook_subscriptions');
/** Counts the rotations of webhook secrets. */
const rotations = async (): Promise<number> =>
  (
    await database()`
      select count(*)::int as count from audit_logs
      where company_id = ${tenant.companyId} and action = 'webhook.rotate_secret'`
  )[0]?.count;

beforeAll(async () => {
  tenant = await newWideTenant();
  admin = new Visitor();
  await admin.signIn(tenant.admin.email);
  const key = { name: 'Office', scopes: 'leads:view', environment: 'live', rate_limit_per_minute: '60' };
  const webhook = { url: 'https://hooks.example/crm', events: '*' };
  const firstKey = await admin.complete('/console/api-keys/new', { ...key, rate_limit_per_hour: '1000' });
  expect(secretIn(firstKey)).toMatch(/^svc_live_/);
  const added = await admin.complete('/console/webhooks/new', webhook);
  const webhookPath = /\/console\/webhooks\/[0-9a-f-]{36}/.exec(added.text)?.[0] ?? '';
  const [row] = await database()`select id from api_keys where company_id = ${tenant.companyId} and name = 'Office'`;
  const keyPath = `/console/api-keys/${row?.id}`;
  forms = {
    'minting a key': {
      page: '/console/api-keys/new',
      action: '/console/api-keys/new',
      count: keys,
      fields: { ...key, rate_limit_per_hour: '1000' },
    },
    'rotating a key': { page: keyPath, action: `${keyPath}/rotate`, count: keys, fields: { overlap_hours: '24' } },
    'adding a webhook': {
      page: '/console/webhooks/new',
      action: '/console/webhooks/new',
      count: webhooks,
      fields: webhook,
    },
    'rotating a webhook secret': {
      page: webhookPath,
      action: `${webhookPath}/rotate`,
      count: rotations,
      fields: {},
    },
  };
});

const names = ['minting a key', 'rotating a key', 'adding a webhook', 'rotating a webhook secret'] as const;

describe.each(names)('%s', (name) => {
  const filled = async (visitor = admin) => {
    const { page, action, fields, count } = forms[name];
    const form = { ...(await visitor.readForm(page, action)), ...fields };
    return { action, form, count, before: await count() };
  };

  test('redirects to a page that shows the secret once, and creates one item per form', async () => {
    const { action, form, count, before } = await filled();
    const sent = await admin.ask(action, form);
    expect([sent.status, secretIn(sent)]).toEqual([303, undefined]);
    expect(sent.to).not.toMatch(secretPattern);
    const again = await admin.ask(action, form);
    expect([again.status, again.to]).toEqual([303, sent.to]);

    const page = sent.to ?? '';
    const shown = await admin.ask(page);
    expect([shown.status, secretIn(shown)]).toEqual([200, expect.any(String)]);
    expect(shown.headers.get('cache-control')).toBe('no-store');
    const reloaded = await admin.ask(page);
    expect([reloaded.status, secretIn(reloaded)]).toEqual([410, undefined]);
    const late = await admin.ask((await admin.ask(action, form)).to ?? '');
    expect([late.status, secretIn(late)]).toEqual([410, undefined]);
    expect(await count()).toBe(before + 1);
  });

  test('creates one item if the form is submitted concurrently', async () => {
    const { action, form, count, before } = await filled();
    const sent = await Promise.all(Array.from({ length: 4 }, () => admin.ask(action, form)));
    expect(new Set(sent.map(({ status, to }) => `${status} ${to}`)).size).toBe(1);
    const shown = await Promise.all(Array.from({ length: 4 }, () => admin.ask(sent[0]?.to ?? '')));
    expect(shown.filter((each) => secretIn(each) !== undefined)).toHaveLength(1);
    expect(await count()).toBe(before + 1);
  });

  test('rejects the form without its key', async () => {
    const { action, form, count, before } = await filled();
    for (const once of ['', 'x', `${randomUUID()}x`])
      expect((await admin.ask(action, { ...form, once })).status).toBe(400);
    expect(await count()).toBe(before);
  });
});

describe('the page of a secret', () => {
  const mint = async (visitor = admin): Promise<string> => {
    const { page, action, fields } = forms['minting a key'];
    return (await visitor.send(page, fields, action)).to ?? '';
  };

  test('shows a secret only to the session that created it', async () => {
    const page = await mint();
    const colleague = new Visitor();
    await colleague.signIn(tenant.admin.email);
    expect(secretIn(await colleague.ask(page))).toBeUndefined();
    expect(secretIn(await new Visitor().ask(page))).toBeUndefined();
    expect(secretIn(await admin.ask(page))).toBeDefined();
  });

  test('keeps a secret for the person if a program sends a HEAD request', async () => {
    const page = await mint();
    const headers = { cookie: admin.cookie };
    await fetch(inject('baseUrl') + page, { method: 'HEAD', headers });
    expect(secretIn(await admin.ask(page))).toBeDefined();
  });

  test('shows no secret after ten minutes, and stores none in plain text', async () => {
    const page = await mint();
    const id = page.split('/').at(-1) ?? '';
    const of = tenant.companyId;
    const [row] =
      await database()`select row_to_json(s)::text as text from shown_secrets s where company_id = ${of} and id = ${id}`;
    expect(row?.text).toContain(id);
    expect(row?.text).not.toMatch(secretPattern);
    await database()`update shown_secrets set created_at = now() - interval '11 minutes' where company_id = ${of} and id = ${id}`;
    expect((await admin.ask(page)).status).toBe(410);
    const [left] =
      await database()`select sealed_secret, extract(epoch from expires_at - created_at)::int / 60 as minutes from shown_secrets where company_id = ${of} and id = ${id}`;
    expect(left).toEqual({ sealed_secret: null, minutes: 71 });
  });

  test('says so if it is unknown whether anything was created', async () => {
    const { page, action, fields } = forms['minting a key'];
    const form = { ...(await admin.readForm(page, action)), ...fields };
    // The state after a process crashed in between.
    await database()`
      insert into shown_secrets (company_id, id, session_id, created_at, expires_at)
      select company_id, ${form.once ?? ''}, id, now(), now() + interval '1 hour' from sessions
      where company_id = ${tenant.companyId} order by created_at limit 1`;
    const before = await keys();
    const sent = await admin.ask(action, form);
    const shown = await admin.ask(sent.to ?? '');
    expect([shown.status, shown.text.includes('list of API keys')]).toEqual([410, true]);
    expect(await keys()).toBe(before);
  });
});

test('accepts a rejected form again with the same key', async () => {
  const { page, action, fields } = forms['minting a key'];
  const form = { ...(await admin.readForm(page, action)), ...fields };
  const refused = await admin.ask(action, { ...form, scopes: 'leads:fly' });
  expect([refused.status, /name="once" value="[0-9a-f-]{36}"/.test(refused.text)]).toEqual([400, true]);
  const sent = await admin.ask(action, form);
  expect(secretIn(await admin.ask(sent.to ?? ''))).toBeDefined();
});

test('does not repeat a webhook test when its page is reloaded', async () => {
  const { page } = forms['rotating a webhook secret'];
  const tested = await admin.send(page, {}, `${page}/test`);
  expect([tested.status, tested.to?.startsWith(`${page}?tested=`)]).toEqual([303, true]);
  const tests = async (): Promise<number> =>
    (
      await database()`
        select count(*)::int as count from webhook_deliveries where company_id = ${tenant.companyId} and is_test`
    )[0]?.count;
  for (let time = 0; time < 2; time += 1) expect((await admin.ask(tested.to ?? '')).text).toContain('The test failed');
  expect(await tests()).toBe(1);
});

const chromium = findProgram('chromium');
describe.skipIf(chromium === undefined)(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());

  test('shows an API key once, and neither reloading nor going back shows or creates another one', async () => {
    const base = inject('baseUrl');
    const { page, complaints } = await watchedPage(browser, 1000, 900);
    await page.goto(`${base}/console/api-keys/new`);
    await page.getByLabel('Email').fill(tenant.admin.email);
    await page.getByLabel('Password').fill(adminPassword);
    await page.keyboard.press('Enter');
    await page.getByLabel('Name').fill('Browser');
    await page.getByLabel('Other scopes', { exact: true }).fill('leads:view');
    const before = await keys();
    await page.getByRole('button', { name: 'Create' }).click();
    const secret = (await page.locator('.secret').textContent()) ?? '';
    expect((await call('GET', '/v1/me', { key: secret })).status).toBe(200);
    expect(await accessibilityProblems(page)).toEqual([]);
    const answer = await page.reload();
    expect([answer?.status(), answer?.request().method()]).toEqual([410, 'GET']);
    expect(await page.content()).not.toContain(secret);
    expect(await accessibilityProblems(page)).toEqual([]);
    await page.goBack();
    expect(await page.content()).not.toContain(secret);
    expect(await keys()).toBe(before + 1);
    expect(complaints.filter((each) => !each.includes('410'))).toEqual([]);
    await page.context().close();
  });
});
