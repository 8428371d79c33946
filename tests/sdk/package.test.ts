// The client package: built, installed, compiled against, and run in a browser.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openBrowser, watchedPage } from '../support/browser.ts';
import { document, operations } from '../support/document.ts';
import { findProgram } from '../support/programs.ts';

const root = resolve(import.meta.dirname, '../..');
const project = mkdtempSync(join(tmpdir(), 'sdk-'));
const installed = join(project, 'node_modules/@headless-crm/sdk');

/** Runs the compiler. @returns its errors */
function compile(...parameters: string[]): string[] {
  const run = spawnSync(
    process.execPath,
    [join(root, 'node_modules/typescript-7/bin/tsc'), '--pretty', 'false', ...parameters],
    {
      cwd: project,
      encoding: 'utf8',
    },
  );
  return run.stdout.split('\n').filter((line) => line.includes('error TS'));
}

beforeAll(() => {
  // The compiler must not slow down the server that other tests call.
  setPriority(10);
  mkdirSync(installed, { recursive: true });
  cpSync(join(root, 'sdk/package.json'), join(installed, 'package.json'));
  for (const name of ['openapi-fetch', '@types'])
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name));
  expect(compile('-p', join(root, 'sdk'), '--outDir', join(installed, 'dist'))).toEqual([]);
});
afterAll(() => rmSync(project, { recursive: true }));

const own =
  "import { createClient } from '@headless-crm/sdk';\nconst crm = createClient({ baseUrl: 'http://127.0.0.1' });\n";

/** Returns the compiler errors of files under strict rules. */
function problemsIn(files: Record<string, string>): string[] {
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
  for (const [name, text] of Object.entries(files)) writeFileSync(join(project, name), text);
  const rules = ['--strict', '--noEmit', '--skipLibCheck', '--target', 'es2022', '--module', 'nodenext'];
  return compile(...rules, '--types', 'node', '--lib', 'es2022,dom', ...Object.keys(files));
}

describe('compiled against', () => {
  test('compiles every sample of the OpenAPI document and the guide', () => {
    const samples = operations.map((operation) => {
      const all = operation.declared['x-codeSamples'] as { lang: string; source: string }[];
      return all.find(({ lang }) => lang === 'TypeScript')?.source ?? 'missing;';
    });
    const inDocument = `${own}${samples.map((source) => `async () => {\n${source}\n};\n`).join('')}`;
    const guide = `${readFileSync(join(root, 'sdk/README.md'), 'utf8')}\n${document.info.description}`;
    const blocks = [...guide.matchAll(/```ts\n(.*?)```/gs)].map(([, block = '']) => block);
    expect(blocks.length).toBeGreaterThan(4);
    const inGuide = blocks.map((block, index) => {
      const needsClient = block.includes('crm.') && !block.includes('const crm');
      return [`guide-${index}.ts`, `${needsClient ? own : ''}${block}`];
    });
    expect(problemsIn({ 'samples.ts': inDocument, ...Object.fromEntries(inGuide) })).toEqual([]);
  });

  test('permits custom fields next to the known properties of a record', () => {
    const text = `import type { Schemas } from '@headless-crm/sdk';
const times = { created_at: '2026-11-20T23:55:00.000Z', updated_at: '2026-11-20T23:55:00.000Z' };
export const record: Schemas['CrmRecord'] = { id: '1', ...times, roof_type: 'flat', expanded: { assigned_to: { full_name: 'Uma Berg' } } };
export const name: string | number | boolean | null | undefined = record.expanded?.assigned_to?.full_name;
`;
    expect(problemsIn({ 'record.ts': text })).toEqual([]);
  });

  test('rejects every wrong call at compile time', () => {
    const wrong = [
      // Bodies: unknown, missing, wrongly typed and read-only fields, and no body.
      "crm.createLead({ body: { first_name: 'Sara', zzz: 1 } })",
      'crm.createLead({ body: {} })',
      'crm.createLead({ body: { first_name: 1 } })',
      "crm.createStatus({ path: { object: 'leads' }, body: { name: 'New', id: '1' } })",
      'crm.createLead()',
      'crm.getHealth({ body: {} })',
      // Paths and queries.
      'crm.getUser({})',
      "crm.getUser({ path: { ID: '1' } })",
      "crm.listUsers({ query: { status: 'gone' } })",
      'crm.listUsers({ query: { limt: 1 } })',
      // Iterators start at the first page, and only lists with a cursor have them.
      "crm.listUsers.all({ query: { cursor: 'x' } })",
      'crm.listChanges.all()',
      'crm.listUsers.follow()',
      'crm.getMe.all()',
      // A key that the operation does not accept.
      "crm.getHealth({ idempotencyKey: 'import-17' })",
      "crm.createApiKey({ body: { name: 'A', scopes: [] }, idempotencyKey: 'import-17' })",
      // Unknown properties of results, operations and codes.
      'crm.getHealth().then(({ zzz }) => zzz)',
      'crm.createPerson()',
      "isCrmError(0, 'GONE')",
    ];
    const lines = [
      "import { createClient, isCrmError } from '@headless-crm/sdk';",
      "const crm = createClient({ baseUrl: '' });",
    ];
    const refused = problemsIn({ 'wrong.ts': [...lines, ...wrong].join('\n') }).map(
      (line) => /\((\d+),/.exec(line)?.[1],
    );
    expect([...new Set(refused)].map(Number)).toEqual(wrong.map((_, index) => index + lines.length + 1));
  });
});

test('imports the installed package by its name', () => {
  writeFileSync(
    join(project, 'health.mjs'),
    `import { createClient } from '@headless-crm/sdk';
    console.log((await createClient({ baseUrl: process.argv[2] }).getHealth()).status);`,
  );
  const run = spawnSync(process.execPath, ['health.mjs', inject('baseUrl')], { cwd: project, encoding: 'utf8' });
  expect(run).toMatchObject({ stdout: 'ok\n', stderr: '' });
});

test.skipIf(!findProgram('chromium'))('runs in a browser without changes', async () => {
  const browser = await openBrowser();
  try {
    const { page } = await watchedPage(browser);
    const files: Record<string, string> = {
      '/client/': join(installed, 'dist/'),
      '/openapi-fetch/': join(root, 'node_modules/openapi-fetch/dist/'),
    };
    const importMap = JSON.stringify({ imports: { 'openapi-fetch': '/openapi-fetch/index.mjs' } });
    await page.route(/\/(client|openapi-fetch|page)\//, async (route) => {
      const { pathname } = new URL(route.request().url());
      const folder = Object.keys(files).find((prefix) => pathname.startsWith(prefix));
      if (!folder)
        return route.fulfill({ contentType: 'text/html', body: `<script type="importmap">${importMap}</script>` });
      const body = readFileSync(join(files[folder] ?? '', pathname.slice(folder.length)), 'utf8');
      return route.fulfill({ contentType: 'text/javascript', body });
    });
    await page.goto(`${inject('baseUrl')}/page/`);
    const status = await page.evaluate(`(async () => {
      const { createClient, verifyWebhook } = await import('/client/index.js');
      const refusal = await verifyWebhook('{}', 't=0,v1=' + '0'.repeat(64), 'secret').catch(({ reason }) => reason);
      const crm = createClient({ baseUrl: location.origin });
      const lead = await crm.createLead({ body: { first_name: 'Sara' } }).catch(({ code }) => code);
      return [(await crm.getHealth()).status, lead, refusal];
    })()`);
    expect(status).toEqual(['ok', 'MISSING_API_KEY', 'outside_tolerance']);
  } finally {
    await browser.close();
  }
});
