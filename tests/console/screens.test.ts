// Every page in a real browser: accessibility, small screens, keyboard, without JavaScript.
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser } from '../support/browser.ts';
import { proposeAccount } from '../support/change-sets.ts';
import { anyAddress } from '../support/client.ts';
import { type Furnished, furnishedTenant, listPages } from '../support/console.ts';
import { Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { adminPassword, database } from '../support/tenants.ts';
import { newDelivery } from '../support/webhooks.ts';

const base = inject('baseUrl');
const none = {
  apiKey: '',
  webhook: '',
  delivery: '',
  campaign: '',
  run: '',
  request: '',
  changeSet: '',
  import: '',
  importWithFile: '',
  doneImport: '',
  person: '',
  lead: '',
  deal: '',
  draft: '',
  branch: '',
  team: '',
};
const names = Object.keys(listPages(none));
const sizes = { wide: 1280, small: 320 };

/** The controls that the Tab key reaches, as the browser sees them now. */
const controls = `[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
  .filter((each) => each.checkVisibility())`;

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  let furnished: Furnished;
  let cookie: { name: string; value: string; url: string };
  const pages = new Map<string, Page>();

  async function newContext(width: number, javaScriptEnabled = true): Promise<BrowserContext> {
    const viewport = { width, height: 800 };
    const extraHTTPHeaders = { 'x-forwarded-for': anyAddress() };
    const context = await browser.newContext({ viewport, javaScriptEnabled, extraHTTPHeaders });
    context.setDefaultTimeout(90_000);
    return context;
  }

  beforeAll(async () => {
    [browser, furnished] = await Promise.all([openBrowser(), furnishedTenant()]);
    const visitor = new Visitor();
    await visitor.signIn(furnished.tenant.admin.email);
    const [name = '', value = ''] = visitor.cookie.split(/=(.*)/s);
    cookie = { name, value, url: base };
    for (const [size, width] of Object.entries(sizes)) {
      const context = await newContext(width);
      await context.addCookies([cookie]);
      pages.set(size, await context.newPage());
    }
  });
  afterAll(() => browser.close());

  const openPage = async (size: keyof typeof sizes, name: string): Promise<Page> => {
    const page = pages.get(size) as Page;
    await page.goto(base + (listPages(furnished)[name] ?? '/console/sign-in'));
    return page;
  };

  test.each([...names, 'sign-in'])('shows %s accessibly in both themes, also on a small screen', async (name) => {
    for (const size of ['wide', 'small'] as const) {
      const page = await openPage(size, name);
      for (const colorScheme of ['dark', 'light'] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await accessibilityProblems(page)).toEqual([]);
      }
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(sizes[size]);
      expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1);
      expect(await page.locator('script').count()).toBe(name === 'sign-in' ? 0 : 1);
    }
  });

  test('finds a page with accessibility problems', async () => {
    const page = await openPage('wide', 'sign-in');
    await page.evaluate(`document.querySelector('label[for=email]').remove()`);
    expect(await accessibilityProblems(page)).toEqual(['label: #email']);
  });

  test.each(names)('reaches every control of %s with the Tab key, with visible focus', async (name) => {
    const page = await openPage('small', name);
    const all = (await page.evaluate(`${controls}.length`)) as number;
    const reached = new Set<unknown>();
    for (let pressed = 0; pressed < all + 60 && reached.size < all; pressed += 1) {
      await page.keyboard.press('Tab');
      const [index, outline] = (await page.evaluate(
        `[${controls}.indexOf(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]`,
      )) as [number, string];
      if (index < 0) continue;
      reached.add(index);
      expect(outline).not.toBe('none');
    }
    expect(reached.size).toBe(all);
  });

  test('skips the menu with the first Tab', async () => {
    const page = await openPage('wide', 'plan');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('content');
  });

  test.each(Object.entries(sizes))('shows responses to forms accessibly on a %s screen', async (_size, width) => {
    const context = await newContext(width);
    await context.addCookies([cookie]);
    const page = await context.newPage();
    const isForAll = async (): Promise<void> => {
      expect(await accessibilityProblems(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    };
    await page.goto(`${base}/console/api-keys/new`);
    await page.getByLabel('Name', { exact: true }).fill('Forms');
    await page.getByLabel('Other scopes', { exact: true }).fill('no:such');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('alert').first().waitFor();
    await isForAll();
    await page.getByLabel('Other scopes', { exact: true }).fill('leads:view');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText(/^svc_live_[0-9a-f]{32}$/).waitFor();
    await isForAll();
    await page.getByRole('link', { name: 'Back to API keys' }).click();
    await page.getByRole('link', { name: 'Forms', exact: true }).first().click();
    await page.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('heading', { name: 'Revoke this API key?' }).waitFor();
    await isForAll();
    await page.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('status').waitFor();
    await isForAll();
    await context.clearCookies();
    await page.goto(`${base}/console/sign-in`);
    await page.getByLabel('Email').fill('nobody@x.example');
    await page.getByLabel('Password').fill('not the password');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await isForAll();
    await context.close();
  });

  test('copies a secret with one press, and runs only the one script', async () => {
    const context = await newContext(sizes.wide);
    await context.addCookies([cookie]);
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: base });
    const page = await context.newPage();
    await page.goto(`${base}/console/api-keys/new`);
    await page.getByLabel('Name', { exact: true }).fill('Copied');
    await page.getByLabel('Other scopes', { exact: true }).fill('leads:view');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const copied = (await page.evaluate('navigator.clipboard.readText()')) as string;
    expect(copied).toMatch(/^svc_live_[0-9a-f]{32}$/);
    expect(await page.locator('.secret').textContent()).toBe(copied);
    await page.evaluate(`(() => {
      const script = document.createElement('script');
      script.textContent = 'window.intruded = true';
      document.body.append(script);
    })()`);
    expect(await page.evaluate('window.intruded')).toBeUndefined();
    await context.close();
  });

  test('reloads a temporary state until it has changed', async () => {
    const { tenant, webhook } = furnished;
    const inAnHour = new Date(Date.now() + 3_600_000);
    const underWay = { status: 'retrying', next_attempt_at: inAnHour, completed_at: null };
    const delivery = await newDelivery(tenant, 'live', webhook, underWay);
    const page = pages.get('wide') as Page;
    await page.goto(`${base}/console/webhooks/${webhook}/deliveries/${delivery}`);
    await page.getByText('Retrying').waitFor();
    await database()`update webhook_deliveries set status = 'succeeded', completed_at = now(), next_attempt_at = null where id = ${delivery}`;
    await page.getByText('Succeeded').waitFor();
    expect(await page.locator('.changing').count()).toBe(0);
    expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1);
  });

  describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
    test('lets a person reject one change set and approve another by keyboard alone', async () => {
      const context = await newContext(sizes.small, javaScriptEnabled);
      await context.addCookies([cookie]);
      const page = await context.newPage();
      for (const [button, said] of [
        ['Reject', 'Rejected. Nothing was changed.'],
        ['Approve and apply', 'Approved. The changes are applied.'],
      ] as const) {
        const { title } = await proposeAccount(furnished.tenant.key);
        await page.goto(`${base}/console/change-sets`);
        await page.getByRole('link', { name: title, exact: true }).first().focus();
        await page.keyboard.press('Enter');
        await page.getByRole('button', { name: button }).focus();
        await page.keyboard.press('Enter');
        await page.getByRole('status').waitFor();
        expect(await page.getByRole('status').textContent()).toBe(said);
        // axe-core runs in the page.
        if (javaScriptEnabled) expect(await accessibilityProblems(page)).toEqual([]);
      }
      await context.close();
    });

    test('lets a person sign in, create an API key and revoke it by keyboard alone', async () => {
      const context = await newContext(sizes.small, javaScriptEnabled);
      const page = await context.newPage();
      const goTo = async (role: 'link' | 'button', name: string): Promise<void> => {
        await page.getByRole(role, { name, exact: true }).first().focus();
        await page.keyboard.press('Enter');
      };
      const type = async (label: string, text: string): Promise<void> => {
        await page.getByLabel(label, { exact: true }).focus();
        await page.keyboard.type(text);
      };
      await page.goto(`${base}/console`);
      await type('Email', furnished.tenant.admin.email);
      await type('Password', adminPassword);
      await page.keyboard.press('Enter');
      await goTo('link', 'API keys');
      await goTo('link', 'Create API key');
      await type('Name', 'By keyboard');
      await type('Other scopes', 'leads:view');
      await page.keyboard.press('Tab');
      await goTo('button', 'Create');
      await page.getByText(/^svc_live_[0-9a-f]{32}$/).waitFor();
      await goTo('link', 'Back to API keys');
      await goTo('link', 'By keyboard');
      expect(await page.getByText(/svc_live_[0-9a-f]{32}/).count()).toBe(0);
      await goTo('button', 'Revoke');
      await page.getByRole('heading', { name: 'Revoke this API key?' }).waitFor();
      await goTo('button', 'Revoke');
      expect(await page.getByRole('status').textContent()).toContain('The API key is revoked.');
      await goTo('button', 'Sign out');
      await page.getByText('You are signed out.').waitFor();
      await context.close();
    });
  });
});
