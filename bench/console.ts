// P25: what each page of the console costs: time, statements, bytes and moved content.
import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium } from 'playwright-core';
import postgres from 'postgres';
import { rowNames } from '../db/client/row-names.ts';
import { hashPassword } from '../runtime/credentials/passwords.ts';
import { sendOne } from './load.ts';
import { type Proxy as DatabaseProxy, startProxy } from './proxy.ts';
import { batchRequest } from './records.ts';
import type { Result } from './report.ts';
import { median } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

/** RECORDS=1000000 DRAFTS=10000 measures a large workspace. */
const sizes = { records: Number(process.env.RECORDS ?? 2_000), drafts: Number(process.env.DRAFTS ?? 100) };
const password = 'a password of the bench';
const programs = ['chromium', 'chromium-browser', 'google-chrome'];
const targets = { statements: 6, kilobytes: 60, movement: 0 };
const batchSize = 100;

interface Load {
  /** Milliseconds until the response of the server is complete, without a browser. */
  time: number;
  statements: number;
  /** The page with its style sheets and scripts, without images, with an empty cache. */
  kilobytes: number;
  /** The cumulative layout shift. */
  movement: number;
}

/** Measures every page that the menu links to, and one of each kind that those pages link to. */
export async function measureConsole({ rounds }: { rounds: number }): Promise<Result | string> {
  const folders = (process.env.PATH ?? '').split(':');
  const program = programs.flatMap((name) => folders.map((path) => `${path}/${name}`)).find((path) => existsSync(path));
  if (program === undefined) return 'skipped: there is no chromium on this machine';
  const workspace = await openWorkspace(folder);
  const proxy = await startProxy(workspace.env.DATABASE_URL ?? '', 0);
  try {
    const email = await openSignIn(workspace);
    const server = await startServer('ours', { ...workspace.env, DATABASE_URL: proxy.url, REQUEST_LOG: '0' });
    const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu'] });
    try {
      await fill(workspace, server.port);
      const base = `http://127.0.0.1:${server.port}`;
      const cookie = await signIn(base, email);
      const pages = new Map<string, Load>();
      for (const [kind, path] of await listPages(base, cookie))
        pages.set(kind, await measure({ base, cookie, proxy, browser, rounds }, path));
      return toResult(pages, rounds);
    } finally {
      await browser.close();
      await server.stop();
    }
  } finally {
    proxy.stop();
    await workspace.stop();
  }
}

function toResult(pages: ReadonlyMap<string, Load>, rounds: number): Result {
  const worst = (figure: keyof Load) =>
    [...pages]
      .map(([path, load]) => ({ path, value: load[figure] }))
      .reduce((most, each) => (each.value > most.value ? each : most));
  const [time, statements, kilobytes, movement] = (['time', 'statements', 'kilobytes', 'movement'] as const).map(worst);
  if (!time || !statements || !kilobytes || !movement) throw new Error('the console has no pages');
  const each = [...pages].flatMap(([path, load]) => [
    { name: `${path}, time`, value: load.time, unit: 'ms' },
    { name: `${path}, statements`, value: load.statements, unit: 'statements' },
    { name: `${path}, transferred`, value: load.kilobytes, unit: 'KB' },
  ]);
  return {
    name: 'console',
    figure: 'P25',
    what: `console: ${pages.size} pages of a workspace with ${sizes.records} leads and ${sizes.drafts} drafts`,
    settings: { ...sizes, pages: pages.size, rounds },
    sides: [],
    ratios: [],
    values: [
      { name: `time, at most (${time.path})`, value: time.value, unit: 'ms' },
      {
        name: `statements, at most (${statements.path})`,
        value: statements.value,
        unit: 'statements',
        target: targets.statements,
      },
      {
        name: `transferred, at most (${kilobytes.path})`,
        value: kilobytes.value,
        unit: 'KB',
        target: targets.kilobytes,
      },
      {
        name: `moved content, at most (${movement.path})`,
        value: movement.value,
        unit: 'CLS',
        target: targets.movement,
      },
      ...each,
    ],
  };
}

/** Gives the administrator of the workspace a password. @returns the email address to sign in with */
async function openSignIn({ env, bareEnv }: Workspace): Promise<string> {
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined, transform: rowNames });
  const [row] = await sql<{ email: string }[]>`
    update sign_ins set password_hash = ${await hashPassword(password)}
    where company_id = ${bareEnv.COMPANY_ID ?? ''}
    returning email`;
  await sql.end();
  if (!row) throw new Error('the workspace has no administrator');
  return row.email;
}

/** Creates the leads by the API, and the drafts by one statement. */
async function fill({ key, env, bareEnv }: Workspace, port: number): Promise<void> {
  for (let number = 0; number < sizes.records; number += batchSize) {
    const { status } = await sendOne(port, batchRequest(key, 'console', number));
    if (status >= 400) throw new Error(`a batch of leads got ${status}`);
  }
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined });
  await sql`
    insert into message_drafts (company_id, test_mode, id, channel, status, recipient, subject, body, created_by_kind,
      created_by_id, created_by_name, created_at, updated_at)
    select ${bareEnv.COMPANY_ID ?? ''}::uuid, false, gen_random_uuid(), 'email', 'draft', 'lead-' || n || '@bluelake.example',
      'Your offer', 'Here is the offer that you asked for.', 'api_key', 'bench', 'Bench', now() - n * interval '1 second', now()
    from generate_series(1, ${sizes.drafts}::int) n`;
  await sql`analyze message_drafts`;
  await sql.end();
}

/** @returns the cookie of the session */
async function signIn(base: string, email: string): Promise<string> {
  const response = await fetch(`${base}/console/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ email, password }),
  });
  const cookie = response.headers.getSetCookie()[0]?.split(';')[0];
  if (cookie === undefined) throw new Error(`the sign-in got ${response.status}`);
  return cookie;
}

const uuids = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g;

/** Returns one path of each kind: pages that differ only in ids are one kind. */
async function listPages(base: string, cookie: string): Promise<Map<string, string>> {
  const found = new Map([['/console', '/console?mode=live']]);
  // The list grows while it is read.
  for (const [, path] of found) {
    const text = await (await fetch(base + path, { headers: { cookie } })).text();
    for (const [, href = ''] of text.matchAll(/href="(\/console\/[^"?#]*)/g)) {
      const kind = href.replaceAll(uuids, '{id}');
      if (!found.has(kind)) found.set(kind, href);
    }
  }
  return found;
}

interface Measuring {
  base: string;
  cookie: string;
  proxy: DatabaseProxy;
  browser: Browser;
  rounds: number;
}

async function measure({ base, cookie, proxy, browser, rounds }: Measuring, path: string): Promise<Load> {
  const times: number[] = [];
  const statements: number[] = [];
  // The first request fills caches.
  for (let round = -1; round < rounds; round += 1) {
    const before = proxy.sent().statements;
    const begun = performance.now();
    const response = await fetch(base + path, { headers: { cookie } });
    await response.arrayBuffer();
    if (!response.ok) throw new Error(`${path} got ${response.status}`);
    if (round < 0) continue;
    times.push(performance.now() - begun);
    statements.push(proxy.sent().statements - before);
  }
  const [name = '', value = ''] = cookie.split(/=(.*)/s);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  await context.addCookies([{ name, value, url: base }]);
  try {
    // Background work of the server can add statements, never remove them.
    return { time: median(times), statements: Math.min(...statements), ...(await load(context, base + path)) };
  } finally {
    await context.close();
  }
}

async function load(context: BrowserContext, url: string): Promise<Pick<Load, 'kilobytes' | 'movement'>> {
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  const kinds = new Map<string, string>();
  let bytes = 0;
  session.on('Network.responseReceived', ({ requestId, type }) => kinds.set(requestId, type));
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    if (kinds.get(requestId) !== 'Image') bytes += encodedDataLength;
  });
  await session.send('Network.enable');
  await page.goto(url, { waitUntil: 'networkidle' });
  const movement = (await page.evaluate(`new Promise((resolve) => {
    let sum = 0;
    new PerformanceObserver((list) => {
      for (const each of list.getEntries()) sum += each.value;
    }).observe({ type: 'layout-shift', buffered: true });
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
  })`)) as number;
  return { kilobytes: bytes / 1024, movement };
}
