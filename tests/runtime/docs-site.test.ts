// The documentation pages: complete, linked without a broken link, and usable in a real browser.
import { createRequire } from 'node:module';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { readContents } from '../../site/contents.ts';
import { countElements, findAll, parse, readText } from '../../site/tree.ts';
import { openBrowser, watchedPage } from '../support/browser.ts';
import { document, operations } from '../support/document.ts';
import { findProgram, skipNote } from '../support/programs.ts';

const { guides, groups } = readContents(document as never);
const htmlPaths = ['/docs', ...[...guides, ...groups].map(({ path }) => path)];
const markdownPaths = htmlPaths.map((path) => `${path}.md`);

/** Upper limit for each page; the whole reference has ten times as many. */
const mostElements = 12_000;

const ask = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(inject('baseUrl') + path, { headers, redirect: 'manual' });

const texts = new Map<string, string>();
async function read(path: string): Promise<string> {
  const known = texts.get(path);
  if (known !== undefined) return known;
  const answer = await ask(path);
  expect([path, answer.status]).toEqual([path, 200]);
  const text = await answer.text();
  texts.set(path, text);
  return text;
}

const statuses = new Map<string, Promise<number>>();
/** Returns the status of a path that many links have. */
function readStatus(path: string): Promise<number> {
  const known = statuses.get(path) ?? ask(path).then(({ status }) => status);
  statuses.set(path, known);
  return known;
}

const anchors = new Map<string, ReadonlySet<string>>();
async function readAnchors(path: string): Promise<ReadonlySet<string>> {
  const known =
    anchors.get(path) ?? new Set([...(await read(path)).matchAll(/id="([^"]*)"/g)].map(([, id = '']) => id));
  anchors.set(path, known);
  return known;
}

test('there is a guide for every topic', () => {
  const topics = [
    'quick-start authentication errors limits idempotency concurrency filters bulk-data dry-run debugging undo',
    'webhooks-and-feed scheduling messages-and-approval billing agents keep-the-last-word oauth sandbox going-to-production migrating',
  ];
  expect(guides.map(({ path }) => path)).toEqual(
    topics.flatMap((line) => line.split(' ')).map((topic) => `/docs/guides/${topic}`),
  );
});

describe('the page', () => {
  test.each(htmlPaths)('%s has its heading in the HTML, and few elements', async (path) => {
    const answer = await ask(path);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    expect(answer.headers.get('content-security-policy')).toContain("script-src 'self'; style-src 'self'");
    const nodes = parse(await answer.text());
    const [heading] = findAll(nodes, ({ name }) => /^h[1-6]$/.test(name)).filter(
      ({ attributes, name }) => name === 'h1' || attributes.has('id'),
    );
    const title = [...guides, ...groups].find((page) => page.path === path)?.title ?? document.info.title;
    expect(heading && [heading.name, readText([heading])]).toEqual(['h1', title]);
    expect(countElements(nodes)).toBeLessThanOrEqual(mostElements);
  });

  test.each(markdownPaths)('%s is Markdown with the same heading', async (path) => {
    const answer = await ask(path);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/markdown; charset=utf-8']);
    const title = [...guides, ...groups].find((page) => `${page.path}.md` === path)?.title ?? document.info.title;
    expect((await answer.text()).split('\n')[0]).toBe(`# ${title}`);
  });

  test.each(['/docs/guides/nothing', '/docs/api/nothing', '/docs/guides/nothing.md', '/docs/guides', '/docs/api'])(
    '%s does not exist',
    async (path) => {
      expect((await ask(path)).status).toBe(404);
    },
  );
});

test('pages are compressed, and are not sent again if they are unchanged', async () => {
  const answer = await ask('/docs/guides/errors', { 'accept-encoding': 'gzip' });
  expect(answer.headers.get('content-encoding')).toBe('gzip');
  const again = await ask('/docs/guides/errors', { 'if-none-match': answer.headers.get('etag') ?? '' });
  expect([again.status, await again.text()]).toEqual([304, '']);
});

test('every operation is on one page, with its method and path, also in Markdown', async () => {
  for (const { path, tags } of groups) {
    const [text, markdown] = [await read(path), await read(`${path}.md`)];
    for (const operation of tags.flatMap((tag) => tag.operations)) {
      expect(text).toContain(`id="operation/${operation.id}"`);
      expect(markdown).toContain(`\`${operation.method.toUpperCase()} ${operation.path}\` (\`${operation.id}\`)`);
    }
  }
  const shown = groups.flatMap(({ tags }) => tags.flatMap((tag) => tag.operations.map(({ id }) => id)));
  expect(shown.toSorted()).toEqual(operations.map(({ id }) => id).toSorted());
});

test('every guide shows its whole samples, also those with comments', async () => {
  for (const { path } of guides) {
    const samples = [...(await read(`${path}.md`)).matchAll(/^```[^\n]*\n(.*?)^```/gms)].map(
      ([, sample = '']) => sample,
    );
    // Redoc replaces tabs by spaces.
    const normalize = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();
    const shown = normalize(readText(parse(await read(path))));
    for (const sample of samples) expect(shown).toContain(normalize(sample));
  }
});

test('every section of the OpenAPI document is in one guide', () => {
  const prose = [document.info.description ?? '', ...(document.tags ?? []).map(({ description = '' }) => description)];
  const headings = prose.flatMap((text) => {
    const outside = text.replaceAll(/^```.*?^```/gms, '');
    return [...outside.matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading);
  });
  expect(guides.flatMap(({ sections }) => sections.map(({ heading }) => heading)).toSorted()).toEqual(
    headings.toSorted(),
  );
});

test('every link of every page leads to a page, and to an anchor on it', async () => {
  const broken: string[] = [];
  let count = 0;
  for (const path of htmlPaths) {
    for (const { attributes } of findAll(parse(await read(path)), ({ name }) => name === 'a')) {
      const href = attributes.get('href') ?? '';
      if (!/^[/#]/.test(href)) continue;
      count += 1;
      const [target = '', anchor] = (href.startsWith('#') ? path + href : href).split('#');
      if (!htmlPaths.includes(target)) {
        if (anchor !== undefined || (await readStatus(target)) !== 200) broken.push(`${path}: ${href}`);
      } else if (anchor !== undefined && !(await readAnchors(target)).has(decodeURIComponent(anchor))) {
        broken.push(`${path}: ${href}`);
      }
    }
  }
  expect(count).toBeGreaterThan(1000);
  expect(broken).toEqual([]);
});

test('every link of a Markdown page and of llms.txt leads to a page', async () => {
  const broken: string[] = [];
  for (const path of [...markdownPaths, '/llms.txt']) {
    for (const [, href = ''] of (await read(path)).matchAll(/\]\(([/#][^)\s]*)\)/g)) {
      const target = href.split('#')[0] ?? '';
      if (target !== '' && !markdownPaths.includes(target) && (await readStatus(target)) !== 200)
        broken.push(`${path}: ${href}`);
      // An anchor of the OpenAPI document that was not led anywhere.
      if (/^#(?!operation\/|tag\/|section\/)/.test(href)) broken.push(`${path}: ${href}`);
    }
  }
  expect(broken).toEqual([]);
});

test('llms.txt lists every page', async () => {
  const text = await read('/llms.txt');
  expect(text.startsWith(`# ${document.info.title}\n\n> `)).toBe(true);
  expect(markdownPaths.filter((path) => !text.includes(`(${path})`))).toEqual([]);
});

test('samples name this server', async () => {
  expect(await read('/docs/guides/quick-start')).toContain(`curl ${inject('baseUrl')}/v1/leads`);
  expect(await read('/docs/guides/quick-start.md')).not.toContain('http://127.0.0.1:8080');
});

describe.skipIf(!findProgram('chromium'))(`In a browser${skipNote('chromium')},`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser.close());

  async function open(path: string, width = 1280, colorScheme: 'light' | 'dark' = 'light') {
    const watched = await watchedPage(browser, width, 900);
    await watched.page.emulateMedia({ colorScheme });
    await watched.page.goto(inject('baseUrl') + path);
    return watched;
  }

  const results = (page: Page) => page.locator('#results [role=option]');

  test('the search finds an operation and a guide, and leads to them', async () => {
    const { page, complaints, requests } = await open('/docs');
    await page.locator('#search').fill('webhook endpoint');
    await expect.poll(() => results(page).allTextContents()).toContain('Create a webhook endpointPOST /v1/webhooks');
    await page.locator('#search').fill('going to prod');
    await expect.poll(() => results(page).first().textContent()).toContain('Going to production');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/docs/guides/going-to-production');
    await page.locator('#search').fill('hold a slot');
    await expect.poll(() => results(page).count()).toBeGreaterThan(0);
    await page.locator('#search').fill('qqqq');
    await expect.poll(() => page.locator('#results').textContent()).toBe('Nothing found');
    await page.keyboard.press('Escape');
    expect(await page.locator('#results').isVisible()).toBe(false);
    expect(complaints).toEqual([]);
    expect(requests.filter((url) => !url.startsWith(`${inject('baseUrl')}/`))).toEqual([]);
  });

  test('the chosen language of samples holds for all operations, and on the next page', async () => {
    const { page } = await open('/docs/api/sales');
    const findSample = (id: string) =>
      page.locator(`[id="operation/${id}"] [role=tabpanel]`).filter({ has: page.locator('pre') });
    expect(await findSample('createLead').first().textContent()).toContain('curl');
    await page.locator('[id="operation/createLead"] [role=tab]').getByText('TypeScript').click();
    expect(await findSample('createLead').first().textContent()).toContain('crm.createLead');
    expect(await findSample('convertLead').first().textContent()).toContain('crm.convertLead');
    await page.goto(`${inject('baseUrl')}/docs/api/events`);
    expect(await findSample('listWebhookEvents').first().textContent()).toContain('crm.listWebhookEvents');
  });

  test('the schema of a response and its errors open and close', async () => {
    const { page } = await open('/docs/api/sales');
    const operation = page.locator('[id="operation/createLead"]');
    const [response, errors] = [operation.locator('button', { hasText: /^201/ }), operation.locator('button.errors')];
    expect(await operation.getByText('Response Schema').count()).toBe(0);
    await response.click();
    expect(await operation.getByText('Response Schema').isVisible()).toBe(true);
    await response.click();
    expect(await operation.getByText('Response Schema').count()).toBe(0);
    await errors.click();
    await expect.poll(() => operation.textContent()).toContain('RATE_LIMIT_EXCEEDED');
  });

  test('a link to an operation of the former single page leads to its new page', async () => {
    const { page } = await open('/docs#operation/createField');
    await page.waitForURL('**/docs/api/records#operation/createField');
  });

  test.each(['/docs', '/docs/guides/errors', '/docs/guides/migrating', '/docs/api/automation'])(
    '%s fits 400 pixels, opens its menu there, and is accessible in both themes',
    async (path) => {
      for (const scheme of ['light', 'dark'] as const) {
        const { page, complaints } = await open(path, 400, scheme);
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(400);
        const entry = page.locator('#pages').getByText('Quick start');
        expect(await entry.isVisible()).toBe(false);
        await page.locator('#menu').click();
        expect(await entry.isVisible()).toBe(true);
        await page.locator('#menu').click();
        await page.setViewportSize({ width: 1280, height: 900 });
        // Run by the debugger, because the policy of the page permits no other script.
        await page.evaluate(`${axe}; 0`);
        const found = (await page.evaluate(`axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] })`)) as {
          violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[];
        };
        const problems = found.violations.map(({ id, nodes }) => [
          id,
          nodes.slice(0, 3).map(({ target, failureSummary }) => `${target}: ${failureSummary}`),
        ]);
        expect([path, scheme, problems]).toEqual([path, scheme, []]);
        expect(complaints).toEqual([]);
      }
    },
  );
});

/** The accessibility rules, as a script. */
const axe = (createRequire(import.meta.url)('axe-core') as { source: string }).source;
