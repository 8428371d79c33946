// Tasks of people in a real browser, counted in clicks from the home page.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openBrowser } from '../support/browser.ts';
import { anyAddress } from '../support/client.ts';
import { type Furnished, furnishedTenant } from '../support/console.ts';
import { Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { database } from '../support/tenants.ts';

const base = inject('baseUrl');
const mostClicks = 5;

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  let furnished: Furnished;
  let page: Page;
  let clicks = 0;

  beforeAll(async () => {
    [browser, furnished] = await Promise.all([openBrowser(), furnishedTenant()]);
    const visitor = new Visitor();
    await visitor.signIn(furnished.tenant.admin.email);
    const [name = '', value = ''] = visitor.cookie.split(/=(.*)/s);
    const context = await browser.newContext({
      javaScriptEnabled: false,
      extraHTTPHeaders: { 'x-forwarded-for': anyAddress() },
    });
    context.setDefaultTimeout(30_000);
    await context.addCookies([{ name, value, url: base }]);
    page = await context.newPage();
  });
  afterAll(() => browser.close());

  const click = async (role: 'link' | 'button', name: string | RegExp): Promise<void> => {
    clicks += 1;
    await page.getByRole(role, { name, exact: true }).first().click();
  };

  /** Performs a task from the home page. @returns the number of clicks; typing does not count */
  async function count(task: () => Promise<void>): Promise<number> {
    await page.goto(`${base}/console?mode=live`);
    clicks = 0;
    await task();
    return clicks;
  }

  test('needs at most five clicks to find out why a call failed', async () => {
    const needed = await count(async () => {
      await click('link', 'Requests');
      await click('link', 'POST /v1/leads');
      await page.getByText('email must be an email address').first().waitFor();
    });
    expect(page.url()).toContain(furnished.request);
    expect(needed).toBeLessThanOrEqual(mostClicks);
  });

  test('needs at most five clicks to invite a colleague', async () => {
    const needed = await count(async () => {
      await click('link', 'People');
      await click('link', 'Invite a person');
      await page.getByLabel('Name', { exact: true }).fill('Grace Hopper');
      await page.getByLabel('Email', { exact: true }).fill(`grace-${Date.now()}@x.example`);
      await click('button', 'Invite');
      await page.getByRole('heading', { name: 'Person invited' }).waitFor();
    });
    expect(needed).toBeLessThanOrEqual(mostClicks);
  });

  test('needs at most five clicks to rotate a key, and reloading the new key creates no other', async () => {
    const countKeys = async (): Promise<number> =>
      (await database()`select from api_keys where company_id = ${furnished.tenant.companyId}`).length;
    const before = await countKeys();
    const needed = await count(async () => {
      await click('link', 'API keys');
      await click('link', 'Website forms');
      await click('button', 'Rotate');
      await page.getByText(/^svc_live_[0-9a-f]{32}$/).waitFor();
    });
    expect([needed <= mostClicks, await countKeys()]).toEqual([true, before + 1]);
    await page.reload();
    await page.getByRole('heading', { name: 'The API key is no longer shown' }).waitFor();
    expect(await countKeys()).toBe(before + 1);
  });
});
