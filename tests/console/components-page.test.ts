// The page with every component of the console.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { showComponents } from '../../web/console/components-page.ts';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser } from '../support/browser.ts';
import { anyAddress } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { newTenant } from '../support/tenants.ts';

const path = '/console/_components';

test('does not exist on a server with an https address', async () => {
  const parts = { baseUrl: () => 'https://crm.example' };
  await expect(showComponents(parts as never, {} as never)).rejects.toMatchObject({ status: 404 });
});

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser.close());

  test('shows every component in both themes accessibly, whatever the browser prefers', async () => {
    const visitor = new Visitor();
    await visitor.signIn((await newTenant()).admin.email);
    const [name = '', value = ''] = visitor.cookie.split(/=(.*)/s);
    const context = await browser.newContext({
      viewport: { width: 320, height: 800 },
      extraHTTPHeaders: { 'x-forwarded-for': anyAddress() },
    });
    context.setDefaultTimeout(90_000);
    await context.addCookies([{ name, value, url: inject('baseUrl') }]);
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => complaints.push(message.text()));
    await page.goto(inject('baseUrl') + path);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await accessibilityProblems(page)).toEqual([]);
      const ground = (theme: string): Promise<unknown> =>
        page.evaluate(`getComputedStyle(document.querySelector('.theme-${theme}')).backgroundColor`);
      expect([await ground('light'), await ground('dark')]).toEqual(['rgb(255, 255, 255)', 'rgb(15, 21, 34)']);
    }
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
    expect(await page.getByRole('img', { name: 'Calls per day' }).count()).toBe(4);
    expect(complaints).toEqual([]);
    await context.close();
  });
});
