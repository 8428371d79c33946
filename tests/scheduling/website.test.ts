// The guide's page and proxy, extracted from the document, book a meeting in a real browser.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { openBrowser, watchedPage } from '../support/browser.ts';
import { document } from '../support/document.ts';
import { findFreePort } from '../support/free-port.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { newPool } from '../support/scheduling.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const guide = document.tags?.find(({ name }: { name: string }) => name === 'Bookings')?.description ?? '';
const blocks = (language: string): string[] =>
  [...guide.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, code = '']) => code);

let tenant: Tenant;
let pool: { id: string; member_ids: string[] };
let proxy: ChildProcess;
let address: string;
let browser: Browser;
const folder = mkdtempSync(join(tmpdir(), 'website-'));

describe.skipIf(!findProgram('chromium'))(`the page of the guide${skipNote('chromium')}`, () => {
  beforeAll(async () => {
    tenant = await newTenant();
    pool = await newPool(tenant, { members: 1, policy: { min_notice_minutes: 60 } });
    const [server = '', script = ''] = blocks('js');
    const [page = ''] = blocks('html');
    writeFileSync(join(folder, 'proxy.mjs'), server);
    // The guide asks for the element, because linters forbid it in a description.
    const element = '<script type="module" src="/booking.js"></script>';
    writeFileSync(join(folder, 'booking.html'), page.replace('</html>', `${element}\n</html>`));
    writeFileSync(join(folder, 'booking.js'), script);
    const port = String(await findFreePort());
    address = `http://127.0.0.1:${port}/`;
    proxy = spawn(process.execPath, ['proxy.mjs'], {
      cwd: folder,
      env: { API: inject('baseUrl'), API_KEY: tenant.key, POOL: pool.id, PORT: port },
      stdio: 'ignore',
    });
    await vi.waitUntil(() =>
      fetch(address).then(
        ({ ok }) => ok,
        () => false,
      ),
    );
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    proxy?.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  test('finds, holds and books a time on the page of the guide', async () => {
    const { page, requests, complaints } = await watchedPage(browser);
    await page.goto(address);
    await page.getByRole('button').first().click();
    await page.getByLabel('Name').fill('Sara Ali');
    await page.getByLabel('Email').fill('sara@example.com');
    await page.getByRole('button', { name: 'Book it' }).click();
    await page.getByText('Booked: Uma User').waitFor();
    const [booked] = await database()`
      select attendee_name, attendee_email, status, meeting_title from bookings where company_id = ${tenant.companyId}`;
    expect(booked).toMatchObject({
      attendee_name: 'Sara Ali',
      attendee_email: 'sara@example.com',
      status: 'confirmed',
      meeting_title: 'Call with Sara Ali',
    });
    // The page only talks to the proxy, which keeps the API key.
    expect(requests.filter((url) => !url.startsWith(address))).toEqual([]);
    expect(await page.content()).not.toContain(tenant.key);
    expect(complaints.filter((complaint) => !complaint.includes('favicon'))).toEqual([]);
  });

  test('offers other times on the page of the guide if the slot was taken', async () => {
    const pages = await Promise.all([watchedPage(browser), watchedPage(browser)]);
    for (const { page } of pages) {
      await page.goto(address);
      await page.getByRole('button').first().waitFor();
    }
    const [first, second] = pages.map(({ page }) => page);
    const wanted = await first?.getByRole('button').first().textContent();
    await first?.getByRole('button').first().click();
    await first?.getByLabel('Name').waitFor();
    await second?.getByRole('button').first().click();
    await second?.getByText('was just taken').waitFor();
    expect(await second?.getByRole('button').first().textContent()).not.toBe(wanted);
  });
});
