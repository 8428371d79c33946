// A browser for tests: a fresh profile, no other host in reach, and all that it asks for noted.
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { findProgram } from './programs.ts';

export interface WatchedPage {
  page: Page;
  /** Addresses that the page asked for, those of the page's own making (blob, data) left out. */
  requests: string[];
  /** What the browser's console says: errors, warnings, and what a policy refused. */
  complaints: string[];
}

const quiet = ['first-run', 'default-browser-check'].map((name) => `--no-${name}`);
const disabled = ['gpu', 'quic', 'background-networking', 'component-update', 'sync'].map(
  (name) => `--disable-${name}`,
);

export function openBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: fileURLToPath(new URL('./browser.sh', import.meta.url)),
    env: { ...process.env, BROWSER: findProgram('chromium') ?? '' },
    args: ['--no-sandbox', ...quiet, ...disabled, '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  });
}

/** A page in a context of its own. */
export async function watchedPage(browser: Browser, width = 1440, height = 900): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width, height } });
  // As long as a busy machine may take; a page that is right is there at once.
  context.setDefaultTimeout(90_000);
  const page = await context.newPage();
  const requests: string[] = [];
  const complaints: string[] = [];
  page.on('request', (request) => {
    if (!/^(blob|data):/.test(request.url())) requests.push(request.url());
  });
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  return { page, requests, complaints };
}
