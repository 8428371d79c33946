// The whole reference on one page in a real browser: complete, usable, from this server alone.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { buildDocsFile } from '../../runtime/openapi/docs-page.ts';
import { openBrowser, type WatchedPage, watchedPage } from '../support/browser.ts';
import { document, operations } from '../support/document.ts';
import { findProgram, skipNote } from '../support/programs.ts';

const title = `The whole reference in a browser${skipNote('chromium')}`;

describe.skipIf(!findProgram('chromium'))(title, () => {
  let browser: Browser;
  let watched: WatchedPage;

  // Loaded once, by a link to an operation. All later steps happen on the same page.
  beforeAll(async () => {
    browser = await openBrowser();
    watched = await watchedPage(browser);
    await watched.page.goto(`${inject('baseUrl')}/docs/all#operation/checkEmail`);
    // One page with every operation: 13 s on an idle machine, 49 s next to eight other test runs.
    await watched.page.waitForSelector('[data-section-id^="operation/"]', { timeout: 150_000 });
  }, 180_000);

  afterAll(() => browser.close());

  test('follows a link to an operation, and marks it in the menu', async () => {
    const { page } = watched;
    const heading = page.locator('[id="operation/checkEmail"] h2');
    await expect.poll(async () => Math.abs((await heading.boundingBox())?.y ?? 900)).toBeLessThan(300);
    const entry = page.locator('[data-item-id="tag/Onboarding/operation/checkEmail"] > label');
    await expect.poll(() => entry.getAttribute('class')).toContain('active');
  });

  test('has a section for every operation', async () => {
    const sections = await watched.page
      .locator('[data-section-id^="operation/"]')
      .evaluateAll((found) => found.map((section) => section.getAttribute('data-section-id')));
    expect(sections.sort()).toEqual(operations.map(({ id }) => `operation/${id}`).sort());
  });

  test('has the groups of tags in its menu', async () => {
    const groups = (document as unknown as { 'x-tagGroups': { name: string }[] })['x-tagGroups'];
    const entries = watched.page.locator('.menu-content [data-item-id^="group/"]');
    const shown = await entries.evaluateAll((found) => found.map((entry) => entry.getAttribute('aria-label')));
    expect(shown).toEqual(groups.map(({ name }) => name));
  });

  test('shows the credentials that an operation accepts, with their scopes', async () => {
    const section = watched.page.locator('[id="operation/createOnboardingAsPlatform"]');
    await section.getByText('Authorizations:').click();
    await expect.poll(() => section.textContent()).toContain('Required scopes: onboarding');
  });

  test('shows samples with the URL of this server', async () => {
    const sample = watched.page.locator('[id="tag/Service/operation/getHealth"] pre').first();
    expect(await sample.textContent()).toBe(`curl ${inject('baseUrl')}/v1/health`);
  });

  test('scrolls to the operation when it is clicked in the menu', async () => {
    const { page } = watched;
    const menu = page.locator('.menu-content');
    await menu.locator('[data-item-id="tag/Service"] > label').click();
    await menu.locator('[data-item-id="tag/Service/operation/getHealth"] > label').click();
    const heading = page.locator('[id="operation/getHealth"] h2');
    await expect.poll(async () => (await heading.boundingBox())?.y ?? -1).toBeGreaterThanOrEqual(0);
    await expect.poll(async () => (await heading.boundingBox())?.y ?? 900).toBeLessThan(300);
  });

  test('cuts no sample off', async () => {
    const samples = watched.page.locator('pre, .redoc-json');
    const cut = await samples.evaluateAll(
      (found) => found.filter((each) => each.scrollWidth > each.clientWidth).length,
    );
    expect(cut).toBe(0);
  });

  test('finds an operation by a word in its text', async () => {
    const { page } = watched;
    await page.locator('.menu-content input').fill('onboarding');
    const results = page.locator('[data-role="search:results"]');
    await expect.poll(() => results.textContent()).toContain('Create a workspace');
    await page.locator('.menu-content input').fill('');
    await results.waitFor({ state: 'detached' });
  });

  test('opens its menu on a phone, and fits the width of the screen', async () => {
    const { page } = watched;
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    const entry = page.locator('.menu-content').getByText('Quick start');
    expect(await entry.isVisible()).toBe(false);
    await page.mouse.click(340, 770);
    await expect.poll(() => entry.isVisible()).toBe(true);
  });

  test('sent no request to another host in all tests above, and caused no browser error', () => {
    const { requests, complaints } = watched;
    expect(requests.length).toBeGreaterThan(0);
    expect(requests.filter((url) => !url.startsWith(`${inject('baseUrl')}/`))).toEqual([]);
    expect(complaints).toEqual([]);
  });

  test('works as a single file without a server, and names the server that it describes', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'docs-'));
    const file = join(folder, 'api.html');
    // One operation; that all are displayed is tested above.
    const small = { ...document, paths: { '/v1/health': document.paths?.['/v1/health'] } };
    writeFileSync(file, buildDocsFile(small as never, 'https://api.example.com'));
    const { page, requests, complaints } = await watchedPage(browser);
    await page.goto(`file://${file}`);
    await page.locator('[data-section-id^="operation/"]').first().waitFor();
    expect(await page.locator('[id="tag/Service/operation/getHealth"] pre').first().textContent()).toBe(
      'curl https://api.example.com/v1/health',
    );
    expect(requests).toEqual([`file://${file}`]);
    expect(complaints).toEqual([]);
    rmSync(folder, { recursive: true });
  });
});
