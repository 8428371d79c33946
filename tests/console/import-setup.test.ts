// New imports at the console: upload, fields of columns, preview, dry run, start, errors and undo.
import { request as sendRequest } from 'node:http';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser } from '../support/browser.ts';
import { anyAddress, call } from '../support/client.ts';
import { hiddenFields, type Seen, Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { createRecord, walk } from '../support/records.ts';
import { newPerson } from '../support/sessions.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const home = '/console/imports';
const base = inject('baseUrl');
const people = 'First Name,Surname,E-mail,Shoe size\nAda,Lovelace,ada@x.example,38\n,Nobody,none,39\n';

let tenant: Tenant;
let visitor: Visitor;
beforeAll(async () => {
  tenant = await newTenant();
  visitor = await signInVisitor(tenant.admin.email);
});

async function signInVisitor(email: string): Promise<Visitor> {
  const visitor = new Visitor();
  await visitor.signIn(email);
  return visitor;
}

/** Sends the form of a new import. */
async function upload(
  content: string | Buffer | undefined,
  name = 'leads.csv',
  object = 'leads',
  by = visitor,
): Promise<Seen> {
  const sent = new FormData();
  const hidden = hiddenFields((await by.ask(`${home}/new`)).text, `${home}/new`);
  for (const [field, value] of Object.entries({ ...hidden, object })) sent.append(field, value);
  if (content !== undefined) sent.append('file', new Blob([content as string]), name);
  return by.ask(`${home}/new`, sent);
}

/** Uploads a file that is accepted. @returns the path of its import */
async function uploaded(content: string | Buffer, name?: string, object?: string): Promise<string> {
  const { status, to, text } = await upload(content, name, object);
  expect({ status, alert: readAlert(text) }).toEqual({ status: 303, alert: '' });
  return to ?? '';
}

const readAlert = (text: string): string =>
  (/role="alert">(.*?)<\/div>/s.exec(text)?.[1] ?? '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();

/** Returns the labels of the chosen fields, in the order of the columns. */
const readChosen = (text: string): string[] =>
  [...text.matchAll(/<select id="column-\d+"(.*?)<\/select>/gs)].map(
    ([, options = '']) => />([^<]*)<\/option>/.exec(options.split(' selected')[1] ?? '')?.[1] ?? 'Leave out',
  );

/** Sends the choices of an import. */
async function choose(path: string, fields: Record<string, string>, by = visitor): Promise<Seen> {
  const { text } = await by.ask(path);
  return by.ask(`${path}/setup`, { ...hiddenFields(text, `${path}/setup`), ...fields });
}

async function ended(path: string): Promise<string> {
  await expect
    .poll(async () => (await visitor.ask(path)).text, { timeout: 30_000 })
    .toMatch(/badge \w+">(Completed|Failed)</);
  return (await visitor.ask(path)).text;
}

describe('an upload', () => {
  test.each([
    ['no file', undefined, 'leads.csv', 400, 'File is required.'],
    ['an empty file', '', 'leads.csv', 400, 'File must not be empty.'],
    ['a workbook', Buffer.from([0x50, 0x4b, 3, 4, 20, 0]), 'leads.xlsx', 422, 'File is an archive or a workbook.'],
    ['an image', Buffer.from([0x89, 0x50, 0, 0, 0, 13, 1, 255, 254, 7, 0]), 'a.csv', 422, 'File is not a CSV file.'],
    ['a page', '<html></html>', 'page.html', 400, 'Files with .html in their name are not accepted.'],
    [
      '10,000 columns',
      Array.from({ length: 10_000 }, (_, n) => `c${n}`).join(),
      'a.csv',
      422,
      'File must have at most 1000 columns.',
    ],
    ['CSV named NDJSON', people, 'leads.ndjson', 422, 'File is not NDJSON. The line is not a JSON object.'],
  ])('rejects %s, and says why', async (_, content, name, expected, message) => {
    const { status, text } = await upload(content, name);
    expect([status, readAlert(text)]).toEqual([expected, expect.stringContaining(message)]);
    expect(
      await database()`select from imports where company_id = ${tenant.companyId} and file_name = ${name}`,
    ).toEqual([]);
  });

  test('rejects a file that is too large before it has arrived', async () => {
    const boundary = 'form';
    const headers = {
      cookie: visitor.cookie,
      'x-forwarded-for': anyAddress(),
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': 70_000_000,
    };
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const sent = sendRequest(`${base}${home}/new`, { method: 'POST', headers }, (answer) => {
        resolve(answer.statusCode);
        answer.resume();
        sent.destroy();
      });
      sent.on('error', reject);
      sent.write(`--${boundary}\r\n`);
    });
    expect(status).toBe(400);
  });

  test('receives no file from people who are not signed in, or from other sites', async () => {
    const sent = new FormData();
    sent.append('file', new Blob([people]), 'leads.csv');
    expect((await new Visitor().ask(`${home}/new`, sent)).to).toContain('/console/sign-in');
    expect((await visitor.ask(`${home}/new`, sent, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await visitor.ask(`${home}/new`, sent)).status).toBe(403);
  });

  test('is offered only to people who may import, and shows nothing of another workspace', async () => {
    const path = await uploaded(people);
    const foreign = await signInVisitor((await newTenant()).admin.email);
    const { token = '' } = hiddenFields((await foreign.ask('/console')).text, '/console/sign-out');
    for (const each of [path, `${path}/errors.csv`, `${path}/undo`])
      expect([each, (await foreign.ask(each)).status]).toEqual([each, 404]);
    for (const each of ['setup', 'repeat', 'undo', 'cancel'])
      expect([each, (await foreign.ask(`${path}/${each}`, { token })).status]).toEqual([each, 404]);
    const viewer = await signInVisitor((await newPerson(tenant, 'Viewer')).email);
    expect((await viewer.ask(`${home}/new`)).status).toBe(403);
    expect((await viewer.ask(home)).text).not.toContain('Import a file');
    expect((await viewer.ask(path)).text).not.toContain('Start a dry run');
    const own = hiddenFields((await viewer.ask('/console')).text, '/console/sign-out');
    expect((await viewer.ask(`${path}/setup`, { ...own, action: 'import', 'column-0': 'first_name' })).status).toBe(
      403,
    );
    expect((await viewer.ask(`${path}/repeat`, own)).status).toBe(403);
  });

  test('is deleted with its file if the import is not started', async () => {
    const path = await uploaded(people);
    const id = path.split('/').at(-1) ?? '';
    const [row] = await database()`select expires_at - created_at as kept from imports where id = ${id}`;
    expect(row?.kept).toBe('7 days');
  });
});

describe('the fields of columns', () => {
  test('are suggested by name, label and common synonyms, each once', async () => {
    const header =
      'first_name,SURNAME,E-Mail Address,Cell,Telephone,Organisation,ZIP Code,Positon,Job title,Shoe size,_error_code';
    const { text } = await visitor.ask(await uploaded(`${header}\nAda\n`));
    expect(readChosen(text)).toEqual([
      'First name',
      'Last name',
      'Email',
      'Mobile',
      'Leave out',
      'Company',
      'Postal code',
      'Leave out',
      'Job title',
      'Leave out',
      'Leave out',
    ]);
  });

  test('show the first rows as they would be stored, with the problems of each', async () => {
    const content = 'Name;Telephone;Employees\nAcme;+44 20 7946 0018;12\n;none;many\n';
    const { text } = await visitor.ask(await uploaded(content, 'accounts.csv', 'accounts'));
    const preview = text.split('id="preview"')[1] ?? '';
    for (const part of ['+442079460018', 'Phone must be', 'Name is required.', 'Employees must be'])
      expect(preview).toContain(part);
  });

  test('must not be chosen twice, and required ones are named', async () => {
    const path = await uploaded(people);
    const twice = { 'column-0': 'email', 'column-1': '', 'column-2': 'email', 'column-3': '', action: 'dry-run' };
    const first = await choose(path, { ...twice, how: 'create' });
    expect(first.status).toBe(422);
    expect(readAlert(first.text)).toContain('E-mail: “First Name” already goes to Email.');
    expect(readAlert(first.text)).toContain('New records need a value for First name.');
    expect(readChosen(first.text)).toEqual(['Email', 'Leave out', 'Email', 'Leave out']);
    const unmatched = await choose(path, {
      ...twice,
      'column-0': 'first_name',
      'column-2': '',
      how: 'update',
      match: 'email',
    });
    expect(readAlert(unmatched.text)).toContain('Choose a column for Email, which identifies the records.');
    const without = await choose(path, { ...twice, 'column-0': 'first_name', how: 'update', match: '' });
    expect([without.status, readAlert(without.text)]).toEqual([400, expect.stringContaining('identifies a record')]);
  });

  test('keep the choices when the preview is updated', async () => {
    const path = await uploaded(people);
    const chosen = { 'column-0': 'last_name', 'column-1': 'first_name', 'column-2': '', 'column-3': 'notes' };
    const { to } = await choose(path, { ...chosen, action: 'preview', how: 'upsert', match: 'last_name' });
    expect(to).toBe(`${path}?done=preview#preview`);
    const { text } = await visitor.ask(path);
    expect(readChosen(text)).toEqual(['Last name', 'First name', 'Leave out', 'Notes']);
    expect(text).toContain('<option value="upsert" selected');
  });

  test('are read from UTF-16, and hostile names and values are only text', async () => {
    const hostile = '<script>alert(1)</script>';
    const text = `First Name\t${hostile}\tE-mail\n=cmd()|' /C calc'!A0\tx\tzoë@x.example\n`;
    const path = await uploaded(Buffer.from(`\ufeff${text}`, 'utf16le'), 'leads.tsv');
    const page = await visitor.ask(path);
    expect(readChosen(page.text)).toEqual(['First name', 'Leave out', 'Email']);
    expect(page.text).not.toContain(hostile);
    for (const part of ['&lt;script&gt;', '=cmd()|', 'zoë@x.example']) expect(page.text).toContain(part);
  });

  test('are the keys of NDJSON', async () => {
    const path = await uploaded('{"Name":"Acme","Town":"Bonn"}\n{"Name":"North","Size":3}\n', 'a.ndjson', 'accounts');
    expect(readChosen((await visitor.ask(path)).text)).toEqual(['Name', 'City', 'Leave out']);
    await choose(path, { 'column-0': 'name', 'column-1': 'city', 'column-2': '', action: 'import', how: 'create' });
    expect(await ended(path)).toContain('<dt>Created</dt><dd>2</dd>');
  });
});

test('updates the records that exist, after a dry run with the same file', async () => {
  const own = await newTenant();
  const by = await signInVisitor(own.admin.email);
  await createRecord(own.key, 'accounts', { name: 'Acme', website: 'https://old.example' });
  const sent = await upload(
    'Name,Web\nAcme,https://new.example\nNorth,https://north.example\n',
    'a.csv',
    'accounts',
    by,
  );
  const path = sent.to ?? '';
  await choose(
    path,
    { 'column-0': 'name', 'column-1': 'website', action: 'dry-run', how: 'upsert', match: 'name' },
    by,
  );
  const read = async (at: string) => (await by.ask(at)).text;
  await expect.poll(() => read(path), { timeout: 30_000 }).toContain('>Completed<');
  for (const part of ['<dt>Would create</dt><dd>1</dd>', '<dt>Would update</dt><dd>1</dd>'])
    expect(await read(path)).toContain(part);
  expect(await walk(own.key, 'accounts')).toHaveLength(1);

  const form = { ...hiddenFields(await read(path), `${path}/repeat`), action: 'start' };
  const [first, second] = await Promise.all([by.ask(`${path}/repeat`, form), by.ask(`${path}/repeat`, form)]);
  expect([first.status, second.status].sort()).toEqual([303, 409]);
  const next = first.to ?? second.to ?? '';
  await expect.poll(() => read(next), { timeout: 30_000 }).toContain('>Completed<');
  expect(await read(path)).toContain('was used by an import');
  const names = (await walk(own.key, 'accounts')).map(({ name, website }) => [name, website]);
  expect(names.sort()).toEqual([
    ['Acme', 'https://new.example'],
    ['North', 'https://north.example'],
  ]);
  const files = await database()`select from import_parts where company_id = ${own.companyId}`;
  expect(files).toHaveLength(1);
});

test('lets a person change the fields after a dry run', async () => {
  const path = await uploaded(people);
  await choose(path, { 'column-0': 'first_name', 'column-2': 'email', action: 'dry-run', how: 'create' });
  const form = hiddenFields(await ended(path), `${path}/repeat`);
  const { to } = await visitor.ask(`${path}/repeat`, { ...form, action: 'change' });
  const { text } = await visitor.ask(to ?? '');
  expect(readChosen(text)).toEqual(['First name', 'Leave out', 'Email', 'Leave out']);
  const again = await visitor.ask(`${path}/repeat`, { ...form, action: 'change' });
  expect([again.status, again.text.includes('The file of this dry run is not here anymore.')]).toEqual([409, true]);
});

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser.close());

  async function openHome(owner: Tenant, javaScriptEnabled: boolean) {
    const by = await signInVisitor(owner.admin.email);
    const context = await browser.newContext({
      javaScriptEnabled,
      viewport: { width: 320, height: 800 },
      extraHTTPHeaders: { 'x-forwarded-for': anyAddress() },
    });
    context.setDefaultTimeout(90_000);
    const [name = '', value = ''] = by.cookie.split(/=(.*)/s);
    await context.addCookies([{ name, value, url: base }]);
    const page = await context.newPage();
    await page.goto(`${base}/console?mode=live`);
    return page;
  }

  test.each([true, false])('imports a file and undoes it, with JavaScript: %s', async (hasScripts) => {
    const owner = await newTenant();
    const page = await openHome(owner, hasScripts);
    /** Waits for a state: with JavaScript, the page follows it. */
    const seen = async (text: string): Promise<void> => {
      if (hasScripts) await page.getByText(text, { exact: true }).waitFor();
      else
        await expect
          .poll(
            async () => {
              await page.reload();
              return page.getByText(text, { exact: true }).count();
            },
            { timeout: 30_000 },
          )
          .toBe(1);
    };
    const check = async (): Promise<void> => {
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
      for (const colorScheme of hasScripts ? (['dark', 'light'] as const) : []) {
        await page.emulateMedia({ colorScheme });
        expect(await accessibilityProblems(page)).toEqual([]);
      }
    };
    await page.getByRole('link', { name: 'Imports' }).click();
    await page.getByRole('link', { name: 'Import a file' }).click();
    await page.getByLabel('What the rows are').selectOption({ label: 'Leads' });
    const file = { name: 'leads.csv', mimeType: 'text/csv', buffer: Buffer.from(people) };
    await page.getByLabel('File', { exact: true }).setInputFiles(file);
    await page.getByRole('button', { name: 'Upload' }).click();
    await page.getByRole('heading', { name: 'Preview' }).waitFor();
    await check();
    expect(await page.getByLabel('Surname').inputValue()).toBe('last_name');
    await page.getByRole('button', { name: 'Start a dry run' }).click();
    await seen('Completed');
    await check();
    expect(await page.getByText('Would create').count()).toBe(1);
    expect(await walk(owner.key, 'leads')).toEqual([]);
    await page.getByRole('button', { name: 'Start the import' }).click();
    await seen('Completed');
    await check();
    expect((await walk(owner.key, 'leads')).map(({ email }) => email)).toEqual(['ada@x.example']);

    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download the failed rows as CSV' }).click(),
    ]);
    const chunks: Buffer[] = [];
    for await (const chunk of await saved.createReadStream()) chunks.push(chunk as Buffer);
    expect(saved.suggestedFilename()).toMatch(/^import-.*-errors\.csv$/);
    expect(Buffer.concat(chunks).toString()).toContain(',Nobody,none,39,VALIDATION_ERROR');

    await page.getByRole('link', { name: 'Undo the import' }).click();
    await check();
    await page.getByRole('button', { name: 'Undo the import' }).click();
    await seen('Undone');
    expect(await walk(owner.key, 'leads')).toEqual([]);
    await page.context().close();
  });

  test('undoes yesterday’s import from the home page in five clicks', async () => {
    const owner = await newTenant();
    const body = { object: 'accounts' };
    const { id } = (await call('POST', '/v1/imports', { key: owner.key, body })).body.data.import;
    const sent = { key: owner.key, rawBody: 'name\nAcme\n', headers: { 'content-type': 'text/csv' } };
    await call('POST', `/v1/imports/${id}/parts?number=1`, sent);
    await call('POST', `/v1/imports/${id}/start`, { key: owner.key });
    await expect
      .poll(async () => (await call('GET', `/v1/imports/${id}`, { key: owner.key })).body.data.import.status)
      .toBe('completed');
    await database()`
      update imports set created_at = created_at - interval '1 day', completed_at = completed_at - interval '1 day'
      where id = ${id}`;
    const page = await openHome(owner, true);
    let clicks = 0;
    const click = async (role: 'link' | 'button', name: string): Promise<void> => {
      clicks += 1;
      await page.getByRole(role, { name }).first().click();
    };
    await click('link', 'Imports');
    await click('link', 'File of accounts');
    await click('link', 'Undo the import');
    await click('button', 'Undo the import');
    await page.getByText('Undone', { exact: true }).waitFor();
    expect(clicks).toBeLessThanOrEqual(5);
    expect(await walk(owner.key, 'accounts')).toEqual([]);
    await page.context().close();
  });
});
