// Imports: files of rows become records, each row alone, with the file of those that failed.
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { newBranch } from '../support/arranged-ids.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { createRecord, leftBehind, listProblems, newCustomField, readRecord } from '../support/records.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { form } from '../support/uploads.ts';
import { newWebhook } from '../support/webhooks.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const path = '/v1/imports';

async function create(options: object, credential = key): Promise<Json> {
  const body = { object: 'accounts', ...options };
  return (await expectStatus(201, 'POST', path, { key: credential, body })).body.data.import;
}

const upload = (
  id: string,
  content: string | Buffer,
  number = 1,
  type = 'text/csv',
  credential = key,
): Promise<Answer> =>
  call('POST', `${path}/${id}/parts?number=${number}`, {
    key: credential,
    rawBody: Buffer.from(content as string),
    headers: { 'content-type': type },
  });

const start = (id: string, credential = key): Promise<Answer> =>
  call('POST', `${path}/${id}/start`, { key: credential });

const read = async (id: string, credential = key): Promise<Json> =>
  (await expectStatus(200, 'GET', `${path}/${id}`, { key: credential })).body.data.import;

const ended = (id: string, credential = key): Promise<Json> =>
  vi.waitUntil(
    async () => {
      const found = await read(id, credential);
      return ['completed', 'failed', 'cancelled'].includes(found.status) && found;
    },
    { timeout: 20_000, interval: 50 },
  );

/** Imports a file, and waits for the end. */
async function run(content: string | Buffer, options: object = {}, credential = key): Promise<Json> {
  const { id } = await create(options, credential);
  expect((await upload(id, content, 1, 'text/csv', credential)).status).toBe(200);
  const started = await start(id, credential);
  expect({ status: started.status, text: started.text }).toMatchObject({ status: 202 });
  return ended(id, credential);
}

/** Starts an import that is refused. @returns the problems */
async function refused(content: string | Buffer, options: object = {}): Promise<string[]> {
  const { id } = await create(options);
  await upload(id, content);
  const answer = await start(id);
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 422 });
  return listProblems(answer.body.error);
}

const listErrors = async (id: string): Promise<Json[]> =>
  (await expectStatus(200, 'GET', `${path}/${id}/errors?limit=100`, { key })).body.data.errors;
const errorFile = async (id: string): Promise<string> =>
  (await expectStatus(200, 'GET', `${path}/${id}/errors.csv`, { key })).text;

async function named(name: string, object = 'accounts', credential = key): Promise<Json[]> {
  const filter = encodeURIComponent(JSON.stringify({ field: 'name', op: 'eq', value: name }));
  const answer = await expectStatus(200, 'GET', `/v1/objects/${object}/records?filter=${filter}`, { key: credential });
  return answer.body.data.records;
}

const unique = (): string => randomUUID().slice(0, 8);

describe('a CSV file', () => {
  test('becomes records, and the rows that fail are listed and can be sent again', async () => {
    const [a, b] = [unique(), unique()];
    const done = await run(`Name,CITY,Notes\n${a},Berlin,x\n,Madrid,y\n${b},"Bad\nHomburg",z\n`, {
      mapping: { notes: null },
    });
    expect(done).toMatchObject({
      status: 'completed',
      percent: 100,
      error: null,
      counts: { read: 3, created: 2, updated: 0, unchanged: 0, failed: 1, unprocessed: 0 },
      file: { rows: 3 },
      mapping: { Name: 'name', CITY: 'city', Notes: null },
    });
    expect((await named(a))[0]).toMatchObject({ name: a, city: 'Berlin' });
    expect((await named(b))[0]).toMatchObject({ name: b, city: 'Bad\nHomburg' });
    const errors = await listErrors(done.id);
    expect(errors).toEqual([
      {
        row: 2,
        line: 3,
        code: 'VALIDATION_ERROR',
        message: expect.stringContaining('name'),
        fields: [expect.objectContaining({ field: 'name', code: 'REQUIRED' })],
        values: { Name: '', CITY: 'Madrid', Notes: 'y' },
      },
    ]);
    const file = await errorFile(done.id);
    expect(file).toBe(
      `Name,CITY,Notes,_error_code,_error_message\r\n,Madrid,y,VALIDATION_ERROR,${errors[0].message}\r\n`,
    );
    const again = await run(file.replace(',Madrid', `${a}2,Madrid`), { mapping: { Notes: null } });
    expect(again.counts).toMatchObject({ created: 1, failed: 0 });
  });

  test('notifies the user who created it', async () => {
    const user = await newUser(tenant, { role: 'Company_Admin' });
    const token = await newBearer(tenant, undefined, { userId: user.id });
    const body = { object: 'accounts' };
    const { id } = (await expectStatus(201, 'POST', path, { token, body })).body.data.import;
    await upload(id, `name\n${unique()}\n`);
    await start(id);
    await ended(id);
    const { notifications } = (await expectStatus(200, 'GET', '/v1/notifications', { token })).body.data;
    expect(notifications).toMatchObject([
      {
        kind: 'import_finished',
        title: 'The import into accounts is complete: 1 created, 0 updated, 0 failed.',
        object: 'accounts',
        subject_id: id,
      },
    ]);
  });

  test('writes the audit rows and events of each record, marked with the import', async () => {
    const name = unique();
    const done = await run(`name\n${name}\n`);
    const [record] = await named(name);
    const { audit, events } = await leftBehind(record.id);
    expect(audit).toMatchObject([{ metadata: { import_id: done.id }, actor_kind: 'api_key' }]);
    expect(events).toMatchObject([{ event: 'record.created', data: { origin: { kind: 'import', id: done.id } } }]);
  });

  test.each([
    ['with a byte order mark', '\ufeffname;city\nNAME;Köln\n', {}],
    ['in UTF-16 with a mark', Buffer.from('\ufeffname\tcity\nNAME\tKöln\n', 'utf16le'), {}],
    ['in windows-1252', Buffer.from('name|city\r\nNAME|Köln\r\n', 'latin1'), {}],
    [
      'with an encoding and a delimiter',
      Buffer.from('name;city\nNAME;Köln', 'utf16le'),
      { encoding: 'utf-16', delimiter: ';' },
    ],
  ])('is read %s', async (_, content, options) => {
    const name = unique();
    const wide = Buffer.isBuffer(content) && content.includes(0);
    const coding = Buffer.isBuffer(content) ? (wide ? 'utf16le' : 'latin1') : 'utf8';
    const text = Buffer.from(content as string).toString(coding as BufferEncoding);
    const done = await run(Buffer.from(text.replace('NAME', name), coding as BufferEncoding), options);
    expect(done.counts).toMatchObject({ created: 1, failed: 0 });
    expect((await named(name))[0]).toMatchObject({ city: 'Köln' });
  });

  test('loses no row to a bad one', async () => {
    const name = unique();
    const column = `n_${unique()}`;
    await newCustomField(tenant, 'accounts', column, { type: 'number' });
    const rows = [
      `${name},,`,
      `${name},1,234`,
      `${name},"1,234",`,
      `"${name}"x,,`,
      `${name},,,,,`,
      '',
      `=cmd('${name}'),5,`,
      `${name},,20/11/2026`,
      `${'y'.repeat(100_000)}${name},,`,
      `${name},,"unclosed`,
      `${name},7,`,
    ];
    const done = await run(`name,${column},website\n${rows.join('\n')}\n`);
    const errors = await listErrors(done.id);
    expect(errors.map(({ row, line, code }) => [row, line, code])).toEqual(
      [2, 3, 4, 5, 7, 8, 9].map((row) => [row, row < 6 ? row + 1 : row + 2, 'VALIDATION_ERROR']),
    );
    expect(done.counts).toMatchObject({ read: 10, created: 3, failed: 7 });
    expect(await named(`=cmd('${name}')`)).toHaveLength(1);
    expect((await named(name)).map((record) => record[column]).toSorted()).toEqual([7, null]);
  });

  test('names the field and the rule of each cell that has another type', async () => {
    const suffix = unique();
    const [day, flag, count] = ['day', 'flag', 'count'].map((name) => `${name}_${suffix}`);
    await newCustomField(tenant, 'accounts', day as string, { type: 'date' });
    await newCustomField(tenant, 'accounts', flag as string, { type: 'boolean' });
    await newCustomField(tenant, 'accounts', count as string, { type: 'number' });
    const cells: [string, string, string][] = [
      [day as string, '20/11/2026', 'INVALID_FORMAT'],
      [day as string, '11/20/2026', 'INVALID_FORMAT'],
      [day as string, '20.11.2026', 'INVALID_FORMAT'],
      [day as string, '2026-13-01', 'INVALID_FORMAT'],
      [flag as string, 'maybe', 'INVALID_TYPE'],
      [count as string, 'many', 'INVALID_TYPE'],
      [count as string, '"1,234.5"', 'INVALID_TYPE'],
      [count as string, '"1.234,5"', 'INVALID_TYPE'],
      ['email', 'nobody', 'INVALID_FORMAT'],
    ];
    const columns = ['name', day, flag, count, 'email'];
    const rows = cells.map(([field, cell]) => columns.map((each) => (each === field ? cell : '')).join(','));
    const name = `A${suffix}`;
    const good = `${name},2026-11-20,TRUE,1234.5,${suffix}@x.example`;
    const done = await run(`${columns.join(',')}\n${rows.map((row) => `${name}${row}`).join('\n')}\n${good}\n`);
    expect(done.counts).toMatchObject({ created: 1, failed: cells.length });
    const errors = await listErrors(done.id);
    const found = errors.map(({ fields }) => fields.map((each: Json) => [each.field, each.code]));
    expect(found).toEqual(cells.map(([field, , code]) => [[field, code]]));
    const [record] = await named(name);
    expect([record[day as string], record[flag as string], record[count as string]]).toEqual([
      '2026-11-20',
      true,
      1234.5,
    ]);
  });

  test('can have rows of 90 KB, and cells that are too long fail alone', async () => {
    const name = unique();
    const long = 'z'.repeat(90_000);
    const done = await run(`name,description,rest\n${name},,${long}\n${name},${long},\n`, { mapping: { rest: null } });
    expect(done.counts).toMatchObject({ created: 1, failed: 1 });
    expect((await listErrors(done.id))[0].fields).toMatchObject([{ field: 'description', code: 'TOO_LONG' }]);
  });

  test('is rejected at the start if it cannot be imported', async () => {
    expect(await refused('name,colour\nA,red\n')).toEqual(['mapping.colour UNKNOWN_FIELD']);
    expect(await refused('name,Name\nA,B\n')).toEqual(['mapping.Name CONFLICTING_FIELDS']);
    expect(await refused('name\nA\n', { mode: 'upsert', match_on: ['email'] })).toEqual(['match_on[0] NOT_FOUND']);
    expect(await refused('name\nA\n', { mapping: { Town: 'city' } })).toEqual(['mapping.town NOT_FOUND']);
    expect(await refused('\n\n')).toEqual(['file TOO_SHORT']);
    expect(await refused(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0, 1, 0, 2, 3]))).toEqual(['file INVALID_FORMAT']);
    expect(await refused(Buffer.from('PK\u0003\u0004 workbook'))).toEqual(['file INVALID_FORMAT']);
    expect(await refused(Array.from({ length: 10_000 }, (_, n) => `c${n}`).join(','))).toEqual(['file TOO_LONG']);
  });

  test('is joined from parts that are split anywhere', async () => {
    const name = unique();
    const bytes = Buffer.from(`name,city\n${name},Zürich\n${name},Genève\n`);
    const { id } = await create({});
    const cut = bytes.indexOf('ü') + 1;
    expect((await start(id)).body.error.details).toMatchObject({ reason: 'no_file', missing: [1] });
    await upload(id, bytes.subarray(cut), 2);
    expect((await start(id)).body.error.details).toMatchObject({ reason: 'no_file', missing: [1] });
    await upload(id, 'overwritten', 1);
    const part = await upload(id, bytes.subarray(0, cut), 1);
    expect(part.body.data.part).toMatchObject({ number: 1, bytes: cut });
    const first = (await expectStatus(200, 'GET', `${path}/${id}/parts?limit=1`, { key })).body.data;
    expect(first).toMatchObject({ parts: [part.body.data.part], has_more: true });
    const cursor = first.next_cursor;
    const rest = await expectStatus(200, 'GET', `${path}/${id}/parts?limit=1&cursor=${cursor}`, { key });
    expect(rest.body.data).toMatchObject({ parts: [{ number: 2, bytes: bytes.length - cut }], has_more: false });
    const wrong = { 'content-type': 'text/csv', 'content-digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` };
    const broken = await call('POST', `${path}/${id}/parts?number=1`, { key, rawBody: 'name\n', headers: wrong });
    expect([broken.status, broken.body.error.details.reason]).toEqual([400, 'digest_mismatch']);
    await database()`
      update import_parts set bytes = ${1_073_741_824 - cut} where company_id = ${tenant.companyId} and import_id = ${id} and number = 2`;
    const full = await upload(id, Buffer.alloc(cut + 1, 'x'), 1);
    expect([full.status, full.body.error.details.reason]).toEqual([400, 'file_too_large']);
    await database()`
      update import_parts set bytes = ${bytes.length - cut} where company_id = ${tenant.companyId} and import_id = ${id} and number = 2`;
    expect((await start(id)).status).toBe(202);
    expect((await ended(id)).counts).toMatchObject({ created: 2 });
    expect((await named(name)).map(({ city }) => city).toSorted()).toEqual(['Genève', 'Zürich']);
    expect((await upload(id, 'x', 3)).body.error.details).toMatchObject({ reason: 'import_started' });
    expect((await start(id)).body.error.details).toMatchObject({ reason: 'import_started' });
  });
});

describe('a form with options and a file', () => {
  const limit = 10_485_760;
  const optionsPart = (options: unknown) => ({
    name: 'options',
    fileName: null,
    content: typeof options === 'string' ? options : JSON.stringify(options),
  });
  const filePart = (content: string | Buffer, fileName = 'accounts.csv') => ({ content, fileName, type: 'text/csv' });
  const send = (parts: Parameters<typeof form>[0], by: object = {}): Promise<Answer> =>
    call('POST', path, { key, ...form(parts), ...by });
  const buildOptions = (options: object = {}) => optionsPart({ object: 'accounts', ...options });
  const failure = ({ status, body: { error } }: Answer): unknown => [
    status,
    ...(error.details.reason ? [error.details.reason] : listProblems(error)),
  ];

  test('creates the import with its file, and queues it', async () => {
    const name = unique();
    const answer = await send([buildOptions({ mapping: { Town: 'city' } }), filePart(`name,Town\n${name},Rome\n`)]);
    expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 201 });
    const { import: created } = answer.body.data;
    expect(created).toMatchObject({
      status: 'queued',
      mapping: { name: 'name', Town: 'city' },
      file: { name: 'accounts.csv', bytes: 16 + name.length },
      percent: null,
    });
    expect(await ended(created.id)).toMatchObject({ status: 'completed', counts: { created: 1, failed: 0 } });
    expect((await named(name))[0]).toMatchObject({ city: 'Rome' });
    const audit = await database()`
      select action from audit_logs
      where company_id = ${tenant.companyId} and metadata->>'import_id' = ${created.id} and actor_kind = 'api_key' and record_id is null
      order by action`;
    expect(audit.map(({ action }) => action)).toEqual(['import.create', 'import.start', 'import.upload']);
  });

  test('keeps any name of a file', async () => {
    const answer = await send([buildOptions({ dry_run: true }), filePart('name\nA\n', 'file')]);
    const { import: created } = answer.body.data;
    expect([answer.status, created.file.name]).toEqual([201, 'file']);
    expect((await ended(created.id)).file.name).toBe('file');
    const { id } = await create({});
    await upload(id, 'name\nA\n');
    expect((await read(id)).file.name).toBe(null);
    const part = await call('POST', `${path}/${id}/parts?number=1`, { key, ...form([filePart('name\nA\n', 'file')]) });
    expect([part.status, (await read(id)).file.name]).toEqual([200, 'file']);
  });

  test('can have the options as a file, and files up to 10 MB', async () => {
    const own = await newTenant();
    const line = `${'x'.repeat(200)}\n`;
    const content = `name\n${line.repeat(Math.floor((limit - 5) / line.length))}`.padEnd(limit, 'y');
    const options = { object: 'accounts', dry_run: true, max_errors: 0 };
    const part = { name: 'options', fileName: 'blob', type: 'application/json', content: JSON.stringify(options) };
    const answer = await send([part, filePart(content)], { key: own.key });
    expect([answer.status, answer.body.data.import.file.bytes]).toEqual([201, limit]);
    await expectStatus(202, 'POST', `${path}/${answer.body.data.import.id}/cancel`, { key: own.key });
  });

  test('is created once for each Idempotency-Key', async () => {
    const own = await newTenant();
    const parts = form([buildOptions(), filePart('name\nA\n')]);
    const idempotencyKey = `form-${randomUUID()}`;
    const [first, second] = [
      await call('POST', path, { key: own.key, ...parts, idempotencyKey }),
      await call('POST', path, { key: own.key, ...parts, idempotencyKey }),
    ];
    expect(second.body.data).toEqual(first.body.data);
    expect(second.headers.get('idempotent-replay')).toBe('true');
    expect(await database()`select from imports where company_id = ${own.companyId}`).toHaveLength(1);
    await vi.waitUntil(async () => {
      const files = await database()`
        select from stored_files where company_id = ${own.companyId} and remove_after is null`;
      return files.length === 1;
    });
  });

  test('leaves nothing behind if anything is wrong with it', async () => {
    const own = await newTenant();
    const good = filePart('name\nA\n');
    const keyed = { key: own.key, idempotencyKey: true as const };
    const refusals: [unknown[], Parameters<typeof form>[0]][] = [
      [[400, 'options REQUIRED', 'file REQUIRED'], []],
      [[400, 'file REQUIRED'], [buildOptions()]],
      [[400, 'options REQUIRED'], [good]],
      [
        [400, 'options INVALID_FORMAT'],
        [good, buildOptions()],
      ],
      [
        [400, 'options DUPLICATE'],
        [buildOptions(), buildOptions(), good],
      ],
      [
        [400, 'file DUPLICATE'],
        [buildOptions(), good, good],
      ],
      [
        [400, 'file TOO_SHORT'],
        [buildOptions(), filePart('')],
      ],
      [
        [400, 'file INVALID_FORMAT'],
        [buildOptions(), { fileName: null, content: 'name\nA\n' }],
      ],
      [
        [422, 'extra UNKNOWN_FIELD'],
        [buildOptions(), good, { name: 'extra', fileName: null }],
      ],
      [
        [400, 'malformed_json'],
        [optionsPart('{"object"'), good],
      ],
      [
        [400, 'malformed_json'],
        [optionsPart('[]'), good],
      ],
      [
        [400, 'malformed_json'],
        [optionsPart(''), good],
      ],
      [
        [400, 'body_too_large'],
        [buildOptions({ defaults: { name: 'x'.repeat(103_000) } }), good],
      ],
      [
        [400, 'nesting_too_deep'],
        [optionsPart(`{"a":${'{"a":'.repeat(6)}1${'}'.repeat(6)}}`), good],
      ],
      [
        [400, 'file_too_large'],
        [buildOptions(), filePart(Buffer.alloc(limit + 1, 'x'))],
      ],
      [
        [400, 'file_type_refused'],
        [buildOptions(), filePart('name\nA\n', 'a.exe')],
      ],
      [
        [400, 'options.object REQUIRED'],
        [optionsPart({}), good],
      ],
      [
        [422, 'options.colour UNKNOWN_FIELD', 'options.mode INVALID_OPTION'],
        [buildOptions({ mode: 'x', colour: 1 }), good],
      ],
      [
        [422, 'options.match_on[1] INVALID_TYPE'],
        [buildOptions({ mode: 'update', match_on: ['id', 1] }), good],
      ],
      [
        [422, 'options.object INVALID_OPTION'],
        [buildOptions({ object: 'nothing' }), good],
      ],
      [
        [400, 'options.match_on REQUIRED'],
        [buildOptions({ mode: 'update' }), good],
      ],
      [
        [422, 'options.defaults.city INVALID_TYPE'],
        [buildOptions({ defaults: { city: 1 } }), good],
      ],
      [
        [422, 'options.mapping.x UNKNOWN_FIELD'],
        [buildOptions({ mapping: { x: 'y' } }), good],
      ],
      [
        [422, 'options.mapping.colour UNKNOWN_FIELD'],
        [buildOptions(), filePart('name,colour\nA,red\n')],
      ],
      [
        [422, 'options.match_on[0] NOT_FOUND'],
        [buildOptions({ mode: 'update', match_on: ['email'] }), good],
      ],
      [
        [422, 'file INVALID_FORMAT'],
        [buildOptions(), filePart('PK\u0003\u0004 workbook')],
      ],
    ];
    for (const [expected, parts] of refusals) {
      expect.soft(failure(await send(parts, { key: own.key })), JSON.stringify(expected)).toEqual(expected);
      expect.soft(failure(await send(parts, keyed)), `with a key: ${JSON.stringify(expected)}`).toEqual(expected);
    }
    const broken = { ...form([buildOptions(), good]), key: own.key };
    const cut = { ...broken, rawBody: broken.rawBody.subarray(0, -10) };
    expect(failure(await call('POST', path, cut))).toEqual([400, 'malformed_multipart']);
    const bare = { key: own.key, rawBody: 'name\nA\n', headers: { 'content-type': 'text/csv' } };
    expect(failure(await call('POST', path, bare))).toEqual([400, 'unsupported_media_type']);
    const narrow = await newKey(own, { scopes: ['imports:create'] });
    expect((await send([buildOptions(), good], { key: narrow })).status).toBe(403);

    const { companyId } = own;
    expect(await database()`select from imports where company_id = ${companyId}`).toEqual([]);
    expect(await database()`select from import_parts where company_id = ${companyId}`).toEqual([]);
    expect(await database()`select from stored_files where company_id = ${companyId} and remove_after is null`).toEqual(
      [],
    );
    const folder = join(dirname(inject('logFile')), 'attachments', companyId, 'live');
    await vi.waitUntil(() => !existsSync(folder) || readdirSync(folder).length === 0);
  });

  test('is rejected while twelve imports run and wait', async () => {
    const own = await newTenant();
    const sql = database();
    for (let each = 0; each < 12; each += 1) {
      const { id } = await create({}, own.key);
      await sql`update imports set status = 'running' where company_id = ${own.companyId} and id = ${id}`;
    }
    const answer = await send([buildOptions(), filePart('name\nA\n')], { key: own.key });
    expect(failure(answer)).toEqual([409, 'import_limit']);
    expect(await sql`select from imports where company_id = ${own.companyId}`).toHaveLength(12);
  });
});

describe('modes', () => {
  test('upserts and updates match records, also on rows that repeat an earlier one', async () => {
    const mail = `${unique()}@x.example`;
    const there = await createRecord(key, 'accounts', { name: 'There', email: mail });
    const fresh = `${unique()}@x.example`;
    const upserted = await run(
      `email,name,city\n${mail},There,\n${fresh},New,Bonn\n${fresh},Newer,\n${mail},Changed,Rome\n`,
      { mode: 'upsert', match_on: ['email'] },
    );
    expect(upserted.counts).toMatchObject({ created: 1, updated: 2, unchanged: 1, failed: 0 });
    expect(await readRecord(key, 'accounts', there.id)).toMatchObject({ name: 'Changed', city: 'Rome' });
    expect((await named('Newer'))[0]).toMatchObject({ email: fresh, city: 'Bonn' });
    const updated = await run(`id,city\n${there.id},Oslo\n${randomUUID()},Oslo\n`, {
      mode: 'update',
      match_on: ['id'],
    });
    expect(updated.counts).toMatchObject({ updated: 1, failed: 1 });
    expect((await listErrors(updated.id))[0]).toMatchObject({ row: 2, code: 'NOT_FOUND' });
  });

  test('a dry run counts and lists errors, and writes nothing', async () => {
    const name = unique();
    const done = await run(`name\n${name}\n${name}\n""\n`, { dry_run: true });
    expect(done).toMatchObject({ status: 'completed', dry_run: true, counts: { created: 2, failed: 1 } });
    expect(await named(name)).toEqual([]);
    expect(await listErrors(done.id)).toHaveLength(1);
  });

  test('new records are checked for duplicates, unless the import says otherwise, and get its tags', async () => {
    const own = await newTenant();
    await createSetting(own, '/v1/settings/tags/leads', { name: 'Fair', fields: [] });
    const check = { enabled: true, fields: ['email'] };
    await expectStatus(200, 'PUT', '/v1/settings/duplicate-check/leads', { key: own.key, body: check });
    const mail = `${unique()}@x.example`;
    const there = await createRecord(own.key, 'leads', { first_name: 'There', email: mail });
    const rows = `first_name,email\nTwice,${mail}\nNew,new-${mail}\nAgain,new-${mail}\n`;
    const options = { object: 'leads', tags: ['Fair'] };
    const checked = await run(rows, options, own.key);
    expect(checked.counts).toMatchObject({ created: 1, failed: 2 });
    const { errors } = (await expectStatus(200, 'GET', `${path}/${checked.id}/errors`, { key: own.key })).body.data;
    expect(errors.map(({ row, code }: Json) => [row, code])).toEqual([
      [1, 'ALREADY_EXISTS'],
      [3, 'ALREADY_EXISTS'],
    ]);
    expect(errors[0].fields).toMatchObject([{ field: 'email', hint: expect.stringContaining(there.id) }]);
    const unchecked = await run(rows, { ...options, check_duplicates: false }, own.key);
    expect(unchecked.counts).toMatchObject({ created: 3, failed: 0 });
    const tagged = encodeURIComponent(JSON.stringify({ field: 'tags', op: 'in', value: ['Fair'] }));
    const found = await expectStatus(200, 'GET', `/v1/objects/leads/records?filter=${tagged}`, { key: own.key });
    expect(found.body.data.records).toHaveLength(4);
  });

  test('defaults fill fields without a value, and max_errors ends the import', async () => {
    const name = unique();
    const done = await run(`name,city\n${name},\n${name},Bonn\n`, { defaults: { city: 'Paris' } });
    expect(done.counts).toMatchObject({ created: 2 });
    expect((await named(name)).map(({ city }) => city).toSorted()).toEqual(['Bonn', 'Paris']);
    const failed = await run(`name,city\n,a\n,b\n${name},c\n`, { max_errors: 1 });
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'VALIDATION_ERROR' }, counts: { failed: 2 } });
  });

  test('NDJSON lines fail alone, also beyond the limits of a body', async () => {
    const name = unique();
    const deep = `{"name":${'{"a":'.repeat(6)}1${'}'.repeat(6)}}`;
    const many = JSON.stringify(Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`k${n}`, 1])));
    const lines = [
      JSON.stringify({ name, city: null }),
      '[1]',
      'no',
      '',
      deep,
      many,
      JSON.stringify({ name, colour: 1 }),
    ];
    const done = await run(`${lines.join('\n')}\n`, { format: 'ndjson' });
    expect(done.counts).toMatchObject({ created: 1, failed: 5 });
    const errors = await listErrors(done.id);
    expect(errors.map(({ row }) => row)).toEqual([2, 3, 4, 5, 6]);
    expect(errors[4].fields).toMatchObject([{ field: 'colour', code: 'UNKNOWN_FIELD' }]);
    expect(await errorFile(done.id)).toContain('_error_raw');
  });
});

describe('rights', () => {
  test('creating an import requires the scope of its object and mode', async () => {
    const scoped = await newKey(tenant, { scopes: ['imports:create', 'imports:view', 'accounts:create'] });
    await create({}, scoped);
    const body = { object: 'accounts', mode: 'upsert', match_on: ['id'] };
    await expectStatus(403, 'POST', path, { key: scoped, body });
    await expectStatus(403, 'POST', path, {
      key: await newKey(tenant, { scopes: ['accounts:create'] }),
      body: { object: 'accounts' },
    });
    const unknown = await call('POST', path, { key, body: { object: 'nothing' } });
    expect([unknown.status, listProblems(unknown.body.error)]).toEqual([422, ['object INVALID_OPTION']]);
    const missing = await call('POST', path, { key, body: { object: 'accounts', mode: 'update' } });
    expect([missing.status, listProblems(missing.body.error)]).toEqual([400, ['match_on REQUIRED']]);
  });

  test('other workspaces and modes do not see an import', async () => {
    const { id } = await create({});
    const other = await newTenant();
    for (const method of ['GET'] as const) await expectStatus(404, method, `${path}/${id}`, { key: other.key });
    await expectStatus(404, 'POST', `${path}/${id}/start`, { key: other.key });
  });

  test('a cancelled import keeps what it wrote and goes on no more', async () => {
    const { id } = await create({});
    const answer = await expectStatus(202, 'POST', `${path}/${id}/cancel`, { key });
    expect(answer.body.data.import).toMatchObject({ status: 'cancelled' });
    const again = await call('POST', `${path}/${id}/cancel`, { key });
    expect(again.body.error.details).toMatchObject({ reason: 'import_ended' });
  });

  test('an import ends as failed when its key is revoked, and keeps what it wrote', async () => {
    const scopes = ['imports:*', 'accounts:view', 'accounts:create'];
    const scoped = await newKey(tenant, { scopes });
    const { id } = await create({}, scoped);
    await upload(id, 'name\nA\n', 1, 'text/csv', scoped);
    const sql = database();
    await sql`
      update api_keys set revoked_at = now()
      where company_id = ${tenant.companyId} and id = (select created_by_id::uuid from imports where id = ${id})`;
    expect((await start(id)).status).toBe(202);
    expect(await ended(id)).toMatchObject({
      status: 'failed',
      error: { code: 'API_KEY_REVOKED' },
      counts: { created: 0, failed: 0 },
    });
  });

  test('an import writes only what its credential sees, and ends if that is restricted', async () => {
    const reach = { kind: 'branch', id: await newBranch(tenant) } as const;
    const far = await createRecord(key, 'accounts', { name: 'Far' });
    const near = await newKey(tenant, { scopes: ['imports:*', 'accounts:*'], reach });
    const done = await run(`id,city\n${far.id},Rome\n`, { mode: 'update', match_on: ['id'] }, near);
    expect(done.counts).toMatchObject({ updated: 0, failed: 1 });
    expect((await listErrors(done.id))[0]).toMatchObject({ code: 'NOT_FOUND' });

    const wide = await newKey(tenant, { scopes: ['imports:*', 'accounts:*'] });
    const { id } = await create({}, wide);
    await upload(id, 'name\nA\n');
    await database()`
      update api_keys set reach_kind = 'branch', reach_id = ${reach.id}
      where company_id = ${tenant.companyId} and id = (select created_by_id::uuid from imports where id = ${id})`;
    await start(id);
    expect(await ended(id)).toMatchObject({ status: 'failed', error: { code: 'FORBIDDEN_SCOPE' } });
    // Keys that see only a branch do not see the imports of others.
    await expectStatus(404, 'GET', `${path}/${id}`, { key: near });
  });
});

describe('undo', () => {
  const undo = (id: string, body: object = {}, credential = key): Promise<Answer> =>
    call('POST', `${path}/${id}/undo`, { key: credential, body });
  const undone = (id: string): Promise<Json> =>
    vi.waitUntil(
      async () => {
        const found = await read(id);
        return found.status === 'undone' && found;
      },
      { timeout: 20_000, interval: 50 },
    );
  const readReason = ({ status, body }: Answer): unknown => [status, body.error?.details.reason];

  test('moves created records to the trash, gives fields their former values, and keeps what others wrote', async () => {
    const [a, b, mail] = [unique(), unique(), `${unique()}@x.example`];
    const there = await createRecord(key, 'accounts', { name: 'There', email: mail, city: 'Berlin' });
    const done = await run(
      `email,name,city\n${mail},There,Rome\n${a}@x.example,${a},Rome\n${b}@x.example,${b},Rome\n`,
      {
        mode: 'upsert',
        match_on: ['email'],
      },
    );
    expect(new Date(done.undo_until).getTime() - new Date(done.completed_at).getTime()).toBe(30 * 86_400_000);
    const [kept] = await named(b);
    await expectStatus(200, 'PATCH', `/v1/objects/accounts/records/${kept.id}`, { key, body: { city: 'Oslo' } });
    const dry = await undo(done.id, { dry_run: true });
    expect(dry.body.data.revert).toMatchObject({
      status: 'planned',
      source: { import_id: done.id },
      counts: { records: 3, operations: 3, conflicts: 1 },
      conflicts: [{ record_id: kept.id, field: null, reason: 'changed_since' }],
    });
    expect(await read(done.id)).toMatchObject({ status: 'completed' });
    const cursor = await now(key);
    const answer = await undo(done.id);
    expect([answer.status, answer.body.data.revert.status]).toEqual([202, 'running']);
    expect(readReason(await undo(done.id))).toEqual([409, 'nothing_to_undo']);
    expect(await undone(done.id)).toMatchObject({ undo_until: null, percent: 100 });
    expect(await named(a)).toEqual([]);
    expect(await named(b)).toHaveLength(1);
    expect(await readRecord(key, 'accounts', there.id)).toMatchObject({ city: 'Berlin' });
    const revert = await expectStatus(200, 'GET', `/v1/reverts/${answer.body.data.revert.id}`, { key });
    expect(revert.body.data.revert).toMatchObject({ status: 'completed', counts: { reverted: 2, skipped: 1 } });
    expect(readReason(await undo(done.id))).toEqual([409, 'nothing_to_undo']);
    const late = { digest: dry.body.data.revert.digest, conflicts: 'skip' };
    const applied = await call('POST', `/v1/reverts/${dry.body.data.revert.id}/apply`, { key, body: late });
    expect(readReason(applied)).toEqual([409, 'nothing_to_undo']);
    const events = await vi.waitUntil(async () => {
      const found = await changesAfter(key, cursor);
      return found.some(({ event }) => event === 'import.undone') && found;
    });
    expect(events.find(({ event }) => event === 'import.undone').data).toMatchObject({
      import_id: done.id,
      reverted: 2,
      skipped: 1,
    });
    expect(events.find(({ record_id: id }) => id === there.id)).toMatchObject({ origin: { kind: 'revert' } });
    expect(await errorFile(done.id)).toContain('_error_code');
  });

  test('needs an import that has ended, wrote something, and ended within 30 days', async () => {
    const dry = await run(`name\n${unique()}\n`, { dry_run: true });
    expect(dry.undo_until).toBeNull();
    expect(readReason(await undo(dry.id))).toEqual([409, 'nothing_to_undo']);
    const { id } = await create({});
    expect(readReason(await undo(id))).toEqual([409, 'import_not_ended']);
    const { revert } = (await expectStatus(201, 'POST', '/v1/reverts', { key, body: { import_id: id } })).body.data;
    const body = { digest: revert.digest, conflicts: 'skip' };
    expect(readReason(await call('POST', `/v1/reverts/${revert.id}/apply`, { key, body }))).toEqual([
      409,
      'import_not_ended',
    ]);
    await expectStatus(202, 'POST', `${path}/${id}/cancel`, { key });
    expect(readReason(await undo(id))).toEqual([409, 'nothing_to_undo']);
    const old = await run(`name\n${unique()}\n`);
    await database()`
      update imports set completed_at = completed_at - interval '30 days' where company_id = ${tenant.companyId} and id = ${old.id}`;
    expect(readReason(await undo(old.id))).toEqual([409, 'undo_expired']);
    await expectStatus(404, 'POST', `${path}/${old.id}/undo`, { key: (await newTenant()).key });
    await expectStatus(404, 'POST', `${path}/${old.id}/undo`, { key: tenant.testKey });
  });

  test('needs the delete scope for created records, and can be tried again if it failed', async () => {
    const name = unique();
    const done = await run(`name\n${name}\n`);
    const scoped = await newKey(tenant, { scopes: ['imports:*', 'accounts:view', 'accounts:edit'] });
    expect((await undo(done.id, {}, scoped)).status).toBe(403);
    const bad = await newKey(tenant, { scopes: ['imports:*', 'accounts:*'] });
    const sql = database();
    // The job must not be faster than the revocation.
    await sql`
      insert into reverts (company_id, test_mode, id, status, source, digest, module, reach_kind, created_by_kind, created_by_id,
        due_at, started_at, created_at)
      values (${tenant.companyId}, false, ${randomUUID()}, 'paused', '{}', '', 'reverts', 'company', 'system', 'test',
        now() + interval '1 hour', now(), now())`;
    const { id } = (await undo(done.id, {}, bad)).body.data.revert;
    await sql`
      update api_keys set revoked_at = now()
      where company_id = ${tenant.companyId} and id = (select created_by_id::uuid from reverts where id = ${id})`;
    await sql`delete from reverts where company_id = ${tenant.companyId} and status = 'paused'`;
    await vi.waitUntil(async () => (await read(done.id)).status === 'completed', { timeout: 20_000, interval: 50 });
    expect(await named(name)).toHaveLength(1);
    expect((await undo(done.id)).status).toBe(202);
    await undone(done.id);
    expect(await named(name)).toEqual([]);
  });

  test('of many rows is planned by the job', async () => {
    const name = unique();
    const rows = Array.from({ length: 1200 }, () => name).join('\n');
    const done = await run(`name\n${rows}\n`);
    const answer = await undo(done.id);
    expect(answer.body.data.revert).toMatchObject({ status: 'planning', digest: null });
    await undone(done.id);
    expect(await named(name)).toEqual([]);
    const revert = await expectStatus(200, 'GET', `/v1/reverts/${answer.body.data.revert.id}`, { key });
    expect(revert.body.data.revert.counts).toMatchObject({ records: 1200, reverted: 1200, skipped: 0, conflicts: 0 });
  });
});

describe('limits', () => {
  test('an import counts as one call per 100 rows, and ends if there are none left', async () => {
    const own = await newTenant();
    const rows = Array.from({ length: 250 }, (_, row) => `R${row}`).join('\n');
    const used = async (): Promise<number> =>
      (await expectStatus(200, 'GET', '/v1/usage', { key: own.key })).body.data.usage.api_calls.used;
    const before = await used();
    const done = await run(`name\n${rows}\n`, {}, own.key);
    expect(done.counts.created).toBe(250);
    const [row] = await database()`select charged_rows from imports where id = ${done.id}`;
    expect(row).toEqual({ charged_rows: 250 });
    expect((await used()) - before).toBeGreaterThanOrEqual(3);
  });

  test('two imports run and ten wait; one more is rejected', async () => {
    const own = await newTenant();
    const sql = database();
    const ids: string[] = [];
    for (let each = 0; each < 13; each += 1) {
      const { id } = await create({}, own.key);
      await upload(id, 'name\nA\n', 1, 'text/csv', own.key);
      ids.push(id);
    }
    const [last = '', ...others] = ids.toReversed();
    await sql`
      update imports set status = case when id = any(${others.slice(0, 2)}::uuid[]) then 'running' else 'queued' end
      where company_id = ${own.companyId} and id = any(${others}::uuid[])`;
    const answer = await start(last, own.key);
    expect(answer.status).toBe(409);
    expect(answer.body.error.details).toEqual({ reason: 'import_limit', running: 2, waiting: 10 });
    await sql`update imports set status = 'queued', due_at = null where company_id = ${own.companyId} and id = ${others[0] ?? ''}`;
    await sql`delete from imports where company_id = ${own.companyId} and id = ${others[1] ?? ''}`;
    expect((await start(last, own.key)).status).toBe(202);
  });
});

describe('events', () => {
  test('the feed marks events of records with their import; webhooks receive these only if they ask', async () => {
    const own = await newTenant();
    const [plain, asking] = [
      await newWebhook(own, 'live', {}),
      await newWebhook(own, 'live', { include: ['imports'] }),
    ];
    const cursor = await now(own.key);
    const done = await run('name\nA\n', {}, own.key);
    const changes = await vi.waitUntil(async () => {
      const found = await changesAfter(own.key, cursor, { objects: 'accounts' });
      return found.length > 1 && found;
    });
    expect(changes).toMatchObject([
      { event: 'record.created', origin: { kind: 'import', id: done.id } },
      { event: 'import.completed', origin: null, data: { import_id: done.id, created: 1 } },
    ]);
    const sql = database();
    const delivered = async (id: string): Promise<string[]> =>
      (
        await sql`
          select event from webhook_deliveries
          where company_id = ${own.companyId} and subscription_id = ${id} order by event`
      ).map(({ event }) => event);
    await vi.waitUntil(async () => (await delivered(asking.id)).length === 2);
    expect(await delivered(asking.id)).toEqual(['import.completed', 'record.created']);
    expect(await delivered(plain.id)).toEqual(['import.completed']);
  });
});
