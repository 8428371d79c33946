// A browser for tests: a fresh profile without access to other hosts, which records requests.
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { findProgram } from './programs.ts';

export interface WatchedPage {
  page: Page;
  /** The requested URLs, except the page's own blob and data URLs. */
  requests: string[];
  /** Console messages: errors, warnings, and violations of the content security policy. */
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

/** Opens a page in a new context. */
export async function watchedPage(browser: Browser, width = 1440, height = 900): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width, height } });
  // The longest time on a busy machine. A correct page responds immediately.
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
