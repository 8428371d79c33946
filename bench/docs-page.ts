// P22: what the documentation pages cost a browser: main thread, elements, the first heading.
import { existsSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import type { Result } from './report.ts';
import { median } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder } from './workspace.ts';

const names = ['chromium', 'chromium-browser', 'google-chrome'];
/** Loads of each page, each with an empty cache. */
const loads = 3;

interface Load {
  /** Seconds of all tasks of the main thread, until it is idle after the page has loaded. */
  mainThread: number;
  elements: number;
  /** Milliseconds until the first text was painted. */
  painted: number;
}

export async function docsPage(): Promise<Result | string> {
  const folders = (process.env.PATH ?? '').split(':');
  const program = names.flatMap((name) => folders.map((path) => `${path}/${name}`)).find((path) => existsSync(path));
  if (program === undefined) return 'skipped: there is no chromium on this machine';
  const dataDir = resolve(folder);
  rmSync(dataDir, { recursive: true, force: true });
  const server = await startServer('ours', { DATA_DIR: dataDir });
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const address = `http://127.0.0.1:${server.port}`;
    const paths = await listPages(address);
    const pages = new Map<string, Load[]>();
    for (let round = 0; round < loads; round += 1)
      for (const path of paths) pages.set(path, [...(pages.get(path) ?? []), await load(browser, address + path)]);
    const whole = await load(browser, `${address}/docs/all`, '[data-section-id^="operation/"]');
    const worst = (figure: keyof Load) =>
      [...pages]
        .map(([path, found]) => ({ path, value: median(found.map((each) => each[figure])) }))
        .reduce((most, each) => (each.value > most.value ? each : most));
    const [mainThread, elements, painted] = [worst('mainThread'), worst('elements'), worst('painted')];
    return {
      name: 'docs-page',
      figure: 'P22',
      what: `documentation pages in Chromium: ${paths.length} pages, and the whole reference on one page`,
      settings: { loads, pages: paths.length },
      sides: [],
      ratios: [],
      values: [
        { name: `main thread, at most (${mainThread.path})`, value: mainThread.value, unit: 's', target: 1.5 },
        { name: `elements, at most (${elements.path})`, value: elements.value, unit: 'elements', target: 12_000 },
        { name: `first text, at most (${painted.path})`, value: painted.value, unit: 'ms' },
        {
          name: 'pages without their first heading in the HTML',
          value: await countHeadless(address, paths),
          unit: 'pages',
          target: 0,
        },
        { name: 'the whole reference, main thread', value: whole.mainThread, unit: 's' },
        { name: 'the whole reference, elements', value: whole.elements, unit: 'elements' },
      ],
    };
  } finally {
    await browser.close();
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** Returns the pages that llms.txt lists. */
async function listPages(address: string): Promise<string[]> {
  const text = await (await fetch(`${address}/llms.txt`)).text();
  return [...text.matchAll(/\((\/docs[^)]*)\.md\)/g)].map(([, path = '']) => path);
}

async function countHeadless(address: string, paths: readonly string[]): Promise<number> {
  const texts = await Promise.all(paths.map(async (path) => (await fetch(address + path)).text()));
  return texts.filter((text) => !/<h1[^>]*>[^<]+<\/h1>/.test(text)).length;
}

/** @param shown selects what is there when the page is complete, if scripts add it */
async function load(browser: Browser, url: string, shown = 'h1'): Promise<Load> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  try {
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send('Performance.enable');
    await page.goto(url, { waitUntil: 'load' });
    await page.waitForSelector(shown, { timeout: 300_000 });
    await page.evaluate('new Promise((idle) => requestIdleCallback(idle))');
    const { metrics } = await session.send('Performance.getMetrics');
    const mainThread = metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN;
    const elements = (await page.evaluate('document.querySelectorAll("*").length')) as number;
    const painted = (await page.evaluate(
      'performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN',
    )) as number;
    return { mainThread, elements, painted };
  } finally {
    await context.close();
  }
}
