// Exports: files of one moment in each format, for whom, for how long, and what interrupts them.
import { createHash } from 'node:crypto';
import { parquetMetadata, parquetReadObjects, parquetSchema } from 'hyparquet';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { newAttachment, newBranch } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { changesAfter } from '../support/feeds.ts';
import { addNote } from '../support/record-children.ts';
import {
  createRecord,
  createRecords,
  listProblems,
  newCustomField,
  newCustomObject,
  recordsPath,
  walk,
} from '../support/records.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const start = async (body: object, by = key): Promise<Json> =>
  (await expectStatus(202, 'POST', '/v1/exports', { key: by, body })).body.data.export;
const read = async (id: string, by = key): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/exports/${id}`, { key: by })).body.data.export;

/** Waits for an export to end. */
async function ended(id: string, by = key): Promise<Json> {
  return vi.waitUntil(async () => {
    const found = await read(id, by);
    return ['queued', 'running'].includes(found.status) ? undefined : found;
  });
}

/** @returns the finished export with its file */
async function exported(body: object, by = key): Promise<{ file: Buffer; text: string; done: Json; answer: Response }> {
  const done = await ended((await start(body, by)).id, by);
  expect(done).toMatchObject({ status: 'completed', error: null });
  const answer = await fetch(done.download_url);
  expect(answer.status).toBe(200);
  const file = Buffer.from(await answer.arrayBuffer());
  expect(done.bytes).toBe(file.length);
  expect(done.sha256).toBe(createHash('sha256').update(file).digest('hex'));
  return { file, text: file.toString(), done, answer };
}

const parseLines = (text: string): Json[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

/** Reads CSV independently of the writer: a state machine after RFC 4180. */
function readCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = '';
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] as string;
    if (isQuoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else isQuoted = false;
    } else if (letter === '"') isQuoted = true;
    else if (letter === ',' || letter === '\n') {
      row.push(letter === '\n' ? cell.replace(/\r$/, '') : cell);
      cell = '';
      if (letter === '\n') {
        rows.push(row);
        row = [];
      }
    } else cell += letter;
  }
  return rows;
}

const toArrayBuffer = (file: Buffer): ArrayBuffer => new Uint8Array(file).buffer;
const byId = (records: readonly Json[]): Json[] => records.toSorted((a, b) => (a.id < b.id ? -1 : 1));

const getId = ({ id }: Json): string => id;
const statuses = async ({ companyId }: Tenant): Promise<string[]> =>
  (await database()<{ status: string }[]>`select status from exports where company_id = ${companyId}`).map(
    ({ status }) => status,
  );
const readStatuses = async (id: string): Promise<string[]> =>
  (await database()<{ status: string }[]>`select status from exports where id = ${id}`).map(({ status }) => status);

/** Has an export appear as running on another server, so that those behind it wait. */
const holdBack =
  (owner: Tenant) =>
  async ({ id }: Json): Promise<Json> => {
    await ended(id, owner.key);
    await database()`
      update exports set status = 'running', file_id = null, claimed_until = now() + interval '1 hour', completed_at = null, expires_at = null
      where id = ${id}`;
    return { id };
  };
/** Has the other server die. */
const letGo = (id: string): Promise<unknown> => database()`update exports set claimed_until = now() where id = ${id}`;

/** Accounts by the hundred thousand, past the API. */
async function fillAccounts({ companyId }: Tenant, names: readonly string[]): Promise<void> {
  await database()`
    insert into accounts (company_id, test_mode, id, name, created_by_kind, created_by_id, created_at, updated_at)
    select ${companyId}, false, gen_random_uuid(), name, 'system', 'test', now(), now() from unnest(${[...names]}::text[]) name`;
}

/** Values that are hard to write in some format. */
const hard = [
  'plain',
  'a, b',
  'say "hello"',
  'two\nlines',
  'carriage\r\nreturn',
  '=1+1',
  '+49 30 1',
  '-5',
  '@SUM(A1)',
  'ÄÖ 東京 🌉 \u202E',
  "it's",
  '{"json": true}',
];

/**
 * Returns a custom object with a field of each type, and a record for each hard text; the first has
 * every value, the last only a name.
 */
async function hardRecords(): Promise<{ owner: Tenant; object: string; records: Json[] }> {
  const owner = await newTenant();
  const object = await newCustomObject(owner, 'samples');
  for (const type of ['textarea', 'number', 'boolean', 'date', 'datetime', 'currency'])
    await newCustomField(owner, object, `a_${type}`, { type });
  const values = {
    a_number: -1.5,
    a_boolean: true,
    a_date: '2024-02-29',
    a_datetime: '2026-01-02T03:04:05.678Z',
    a_currency: -1250,
  };
  await createRecords(
    owner.key,
    object,
    hard.map((text, index) => ({ name: `N ${index}`, a_textarea: text, ...(index === 0 ? values : {}) })),
  );
  await createRecord(owner.key, object, { name: 'only a name' });
  return { owner, object, records: byId(await walk(owner.key, object)) };
}

describe('a file', () => {
  test('of NDJSON has every record as lists show it, in the order of the ids', async () => {
    await createRecords(
      key,
      'accounts',
      Array.from({ length: 40 }, (_, index) => ({ name: `A ${index}`, city: 'Köln 🌉' })),
    );
    const { text, done, answer } = await exported({ object: 'accounts' });
    expect(parseLines(text)).toEqual(byId(await walk(key, 'accounts')));
    expect(done).toMatchObject({ object: 'accounts', format: 'ndjson', rows: 40, filter: null, fields: null });
    expect(answer.headers.get('content-disposition')).toMatch(/^attachment; filename="accounts-[\d-]{10}\.ndjson"/);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  });

  test('of each format gives back quotes, line breaks, formulas, unicode and every type of field', async () => {
    const { owner, object, records } = await hardRecords();
    const ndjson = await exported({ object }, owner.key);
    expect(parseLines(ndjson.text)).toEqual(records);

    const csv = await exported({ object, format: 'csv' }, owner.key);
    const [header = [], ...rows] = readCsv(csv.text);
    expect(header).toEqual(Object.keys(records[0]));
    const toCell = (value: unknown): string => (value === null ? '' : String(value));
    expect(rows).toEqual(records.map((record) => header.map((name) => toCell(record[name]))));
    expect(csv.done.rows).toBe(records.length);

    const parquet = await exported({ object, format: 'parquet' }, owner.key);
    const read = await parquetReadObjects({ file: toArrayBuffer(parquet.file) });
    expect(
      read.map((row) => ({
        ...row,
        created_at: row.created_at.toISOString(),
        updated_at: row.updated_at.toISOString(),
        a_date: row.a_date?.toISOString().slice(0, 10) ?? null,
        a_datetime: row.a_datetime?.toISOString() ?? null,
        a_currency: row.a_currency === null ? null : Number(row.a_currency),
      })),
    ).toEqual(records);
    const types = Object.fromEntries(
      parquetSchema(parquetMetadata(toArrayBuffer(parquet.file))).children.map(({ element }) => [
        element.name,
        element.converted_type ?? element.type,
      ]),
    );
    expect(types).toMatchObject({
      id: 'UTF8',
      a_textarea: 'UTF8',
      a_number: 'DOUBLE',
      a_boolean: 'BOOLEAN',
      a_date: 'DATE',
      a_datetime: 'TIMESTAMP_MILLIS',
      a_currency: 'INT64',
    });
  });

  test('of CSV for spreadsheets has an apostrophe in front of what could be a formula, and nowhere else', async () => {
    const { owner, object } = await hardRecords();
    const body = { object, format: 'csv', spreadsheet_safe: true, fields: ['a_textarea', 'a_number'] };
    const [header, ...rows] = readCsv((await exported(body, owner.key)).text);
    expect(header).toEqual(['id', 'created_at', 'updated_at', 'a_textarea', 'a_number']);
    const safe = hard.map((text) => (/^[=+\-@]/.test(text) ? `'${text}` : text));
    expect(rows.map((row) => row[3])).toEqual([...safe, '']);
    expect(rows[0]?.[4]).toBe("'-1.5");
  });

  test('without records has only the line of field names, or nothing', async () => {
    const empty = await newTenant();
    expect((await exported({ object: 'deals' }, empty.key)).text).toBe('');
    const csv = readCsv((await exported({ object: 'deals', format: 'csv', fields: ['name'] }, empty.key)).text);
    expect(csv).toEqual([['id', 'created_at', 'updated_at', 'name']]);
    const parquet = await exported({ object: 'deals', format: 'parquet' }, empty.key);
    expect(await parquetReadObjects({ file: toArrayBuffer(parquet.file) })).toEqual([]);
    expect(parquet.done.rows).toBe(0);
  });

  test('of more than one page has each record once, in each format', async () => {
    const owner = await newTenant();
    const names = Array.from({ length: 2100 }, (_, index) => `N ${index}`);
    await fillAccounts(owner, names);
    const ids = (records: Json[]) => new Set(records.map(({ name }) => name)).size;
    expect(ids(parseLines((await exported({ object: 'accounts' }, owner.key)).text))).toBe(2100);
    expect(readCsv((await exported({ object: 'accounts', format: 'csv' }, owner.key)).text)).toHaveLength(2101);
    const { file } = await exported({ object: 'accounts', format: 'parquet' }, owner.key);
    expect(ids(await parquetReadObjects({ file: toArrayBuffer(file) }))).toBe(2100);
  });

  test('has the records that pass the filter, with the fields that were asked for', async () => {
    const owner = await newTenant();
    const cities = ['Berlin', 'Bonn', 'Berlin', null];
    await createRecords(
      owner.key,
      'accounts',
      cities.map((city, index) => ({ name: `A ${index}`, city })),
    );
    const filter = {
      and: [
        { field: 'city', op: 'eq', value: 'Berlin' },
        { field: 'created_at', op: 'gte', value: { relative: 'today' } },
      ],
    };
    const { text, done } = await exported({ object: 'accounts', filter, fields: ['name'] }, owner.key);
    const query = { filter: JSON.stringify(filter), fields: 'name' };
    expect(parseLines(text)).toEqual(byId(await walk(owner.key, 'accounts', query)));
    expect(parseLines(text)).toHaveLength(2);
    expect(done).toMatchObject({ filter, fields: ['name'], rows: 2 });
  });

  test('has the records that pass a filter through a relation, if the key can view the related object', async () => {
    const owner = await newTenant();
    const [near, far] = await createRecords(owner.key, 'accounts', [
      { name: 'Near', city: 'Berlin' },
      { name: 'Far', city: 'Bonn' },
    ]);
    await createRecords(owner.key, 'deals', [
      { name: 'One', account_id: near?.id },
      { name: 'Two', account_id: far?.id },
      { name: 'Three' },
    ]);
    const filter = { field: 'account.city', op: 'eq', value: 'Berlin' };
    expect(parseLines((await exported({ object: 'deals', filter }, owner.key)).text)).toMatchObject([{ name: 'One' }]);
    const narrow = await newKey(owner, { scopes: ['exports:*', 'deals:view'] });
    expect(parseLines((await exported({ object: 'deals', filter }, narrow)).text)).toEqual([]);
  });

  test('is downloaded from a byte on, and as a whole for every other range', async () => {
    const owner = await newTenant();
    await createRecord(owner.key, 'accounts', { name: 'A' });
    const { done, text } = await exported({ object: 'accounts' }, owner.key);
    const last = done.bytes - 1;
    const download = async (range?: string) => {
      const response = await fetch(done.download_url, range === undefined ? {} : { headers: { range } });
      const { status, headers } = response;
      return [status, headers.get('content-length'), headers.get('content-range'), await response.text()];
    };
    const whole = [200, String(done.bytes), null, text];
    expect(await download()).toEqual(whole);
    for (const range of ['bytes=0-', `bytes=${done.bytes}-`, 'bytes=1-2', 'bytes=-2', 'bytes=1-,3-', 'lines=1-', 'x'])
      expect(await download(range), range).toEqual(whole);
    expect(await download('bytes=10-')).toEqual([
      206,
      String(done.bytes - 10),
      `bytes 10-${last}/${done.bytes}`,
      text.slice(10),
    ]);
    expect(await download(`bytes=${last}-`)).toEqual([206, '1', `bytes ${last}-${last}/${done.bytes}`, text.slice(-1)]);
    expect((await fetch(done.download_url)).headers.get('accept-ranges')).toBe('bytes');
  });

  test('has the filter and the fields of a saved view, which its own narrow and replace', async () => {
    const owner = await newTenant();
    const { key: apiKey } = owner;
    await createRecords(apiKey, 'accounts', [
      { name: 'A', city: 'Berlin', employee_count: 20 },
      { name: 'B', city: 'Berlin', employee_count: 90 },
      { name: 'C', city: 'Bonn', employee_count: 90 },
    ]);
    const inBerlin = { field: 'city', op: 'eq', value: 'Berlin' };
    const isLarge = { field: 'employee_count', op: 'gte', value: 50 };
    const body = { object: 'accounts', name: 'Berlin', filter: inBerlin, sort: '-name', fields: ['name', 'city'] };
    const { view } = (await expectStatus(201, 'POST', '/v1/views', { key: apiKey, body })).body.data;
    const all = await exported({ object: 'accounts', view: view.id }, apiKey);
    expect(all.done).toMatchObject({ filter: inBerlin, fields: ['name', 'city'], rows: 2 });
    const listed = await walk(apiKey, 'accounts', { view: view.id });
    expect(parseLines(all.text)).toEqual(byId(listed));
    const less = await exported(
      { object: 'accounts', view: view.id, filter: isLarge, fields: ['employee_count'] },
      apiKey,
    );
    expect(less.done).toMatchObject({ filter: { and: [inBerlin, isLarge] }, fields: ['employee_count'] });
    expect(parseLines(less.text)).toMatchObject([{ employee_count: 90 }]);
    const rest = { name: 'All', object: 'accounts' };
    const plain = (await expectStatus(201, 'POST', '/v1/views', { key: apiKey, body: rest })).body.data.view;
    expect((await exported({ object: 'accounts', view: plain.id }, apiKey)).done).toMatchObject({
      rows: 3,
      filter: null,
    });
  });

  test('is not created for a view that cannot be used, is of another object, or no longer fits', async () => {
    const owner = await newTenant();
    const { key: apiKey, companyId } = owner;
    await newCustomField(owner, 'accounts', 'tier');
    const settings = { object: 'accounts', name: 'Gold', filter: { field: 'tier', op: 'eq', value: 'gold' } };
    const { view } = (await expectStatus(201, 'POST', '/v1/views', { key: apiKey, body: settings })).body.data;
    const refused = async (status: number, body: object, by = apiKey): Promise<Json> =>
      (await expectStatus(status, 'POST', '/v1/exports', { key: by, body })).body.error;
    const accounts = { object: 'accounts', view: view.id };
    expect(listProblems(await refused(400, { object: 'leads', view: view.id }))).toEqual(['view CONFLICTING_FIELDS']);
    expect(listProblems(await refused(400, { object: '*', view: view.id }))).toEqual(['view CONFLICTING_FIELDS']);
    expect(listProblems(await refused(400, { object: 'accounts', view: 'mine' }))).toEqual(['view INVALID_FORMAT']);
    expect(listProblems(await refused(422, { object: 'accounts', view: companyId }))).toEqual(['view NOT_FOUND']);
    expect(listProblems(await refused(422, accounts, (await newTenant()).key))).toEqual(['view NOT_FOUND']);
    // Another key, which does not see a view that is not shared.
    expect(listProblems(await refused(422, accounts, await newKey(owner)))).toEqual(['view NOT_FOUND']);
    const blind = await refused(403, accounts, await newKey(owner, { scopes: ['exports:*', 'leads:view'] }));
    expect(blind.details.required_scopes).toEqual(['accounts:view']);
    const wide = Array.from({ length: 50 }, () => ({ field: 'city', op: 'eq', value: 'Bonn' }));
    expect(listProblems(await refused(400, { ...accounts, filter: { and: wide } }))).toEqual(['filter TOO_LONG']);
    const fields = ['nmae'];
    expect(listProblems(await refused(422, { ...accounts, fields }))).toEqual(['nmae UNKNOWN_FIELD']);
    await database()`update custom_fields set enabled = false where company_id = ${companyId} and name = 'tier'`;
    const outdated = await refused(422, accounts);
    expect(outdated.details).toMatchObject({ reason: 'view_outdated', view_id: view.id });
    expect(listProblems(outdated)).toEqual(['tier UNKNOWN_FIELD']);
    expect(await database()`select from exports where company_id = ${companyId}`).toEqual([]);
  });

  test('of everything has all objects, and the notes, links and attachments of their records', async () => {
    const owner = await newTenant();
    const { id } = await createRecord(owner.key, 'accounts', { name: 'A' });
    const deal = await createRecord(owner.key, 'deals', { name: 'D', account_id: id });
    const visit = await createRecord(owner.key, await newCustomObject(owner, 'visits'), { name: 'V' });
    const note = await addNote(owner.key, 'accounts', id, 'line\nbreak');
    const attachment = await newAttachment(owner, 'live');
    const type = {
      name: 'partners',
      inverse_name: 'partner_of',
      label: 'P',
      inverse_label: 'P',
      from_object: 'accounts',
      to_object: 'deals',
      cardinality: 'many_to_many',
    };
    await expectStatus(201, 'POST', '/v1/link-types', { key: owner.key, body: type });
    const link = { link_type: 'partners', record_id: deal.id };
    const linked = await expectStatus(201, 'POST', `${recordsPath('accounts', id)}/links`, {
      key: owner.key,
      body: link,
    });
    const lines = parseLines((await exported({ object: '*' }, owner.key)).text);
    const of = (object: string) => lines.filter((line) => line.object === object).map(({ record }) => record);
    expect(new Set(lines.flatMap((line) => Object.keys(line)))).toEqual(new Set(['object', 'record']));
    expect(of('accounts')).toEqual(byId(await walk(owner.key, 'accounts')));
    expect(of('deals')).toEqual([deal]);
    expect(of('object:visits')).toEqual([visit]);
    expect(of('notes')).toEqual([note]);
    expect(of('attachments').map((each) => each.id)).toEqual([attachment]);
    expect(of('links')).toEqual([
      {
        ...{
          id: linked.body.data.link.id,
          link_type: 'partners',
          from_object: 'accounts',
          from_id: id,
          to_object: 'deals',
          to_id: deal.id,
        },
        ...{ created_by: linked.body.data.link.created_by, created_at: linked.body.data.link.created_at },
      },
    ]);
    expect(lines).toHaveLength(of('accounts').length + 5);
    const [, ...rows] = readCsv((await exported({ object: '*', format: 'csv' }, owner.key)).text);
    expect(rows.map(([object, record]) => ({ object, record: JSON.parse(record ?? '') }))).toEqual(lines);
    const { file } = await exported({ object: '*', format: 'parquet' }, owner.key);
    const parquet = await parquetReadObjects({ file: toArrayBuffer(file) });
    expect(parquet.map(({ object, record }) => ({ object, record: JSON.parse(record) }))).toEqual(lines);
  });
});

describe('who exports what', () => {
  test('a key of a branch exports its own records and what hangs on them', async () => {
    const owner = await newTenant();
    const scoped = await newKey(owner, { reach: { kind: 'branch', id: await newBranch(owner) } });
    const own = await createRecord(scoped, 'accounts', { name: 'own' });
    const foreign = await createRecord(owner.key, 'accounts', { name: 'foreign' });
    const note = await addNote(scoped, 'accounts', own.id);
    await addNote(owner.key, 'accounts', foreign.id);
    expect(parseLines((await exported({ object: 'accounts' }, scoped)).text).map(({ id }) => id)).toEqual([own.id]);
    const all = parseLines((await exported({ object: '*' }, scoped)).text).map(({ record }) => record.id);
    expect(all.toSorted()).toEqual([own.id, note.id].toSorted());
  });

  test('everything leaves out what the scopes do not show', async () => {
    const owner = await newTenant();
    const { id } = await createRecord(owner.key, 'accounts', { name: 'A' });
    await createRecord(owner.key, 'deals', { name: 'D' });
    await addNote(owner.key, 'accounts', id);
    await newAttachment(owner, 'live');
    const narrow = await newKey(owner, { scopes: ['deals:view', 'exports:*'] });
    expect(parseLines((await exported({ object: '*' }, narrow)).text).map(({ object }) => object)).toEqual(['deals']);
  });

  test('test keys export test data alone', async () => {
    const owner = await newTenant();
    await createRecord(owner.key, 'accounts', { name: 'live' });
    await createRecord(owner.testKey, 'accounts', { name: 'test' });
    const { text, done } = await exported({ object: 'accounts' }, owner.testKey);
    expect(parseLines(text).map(({ name }) => name)).toEqual(['test']);
    expect(done.test_mode).toBe(true);
    await expectStatus(404, 'GET', `/v1/exports/${done.id}`, { key: owner.key });
  });

  test('the error names the scope that a key lacks', async () => {
    const scopes = async (...own: string[]) => newKey(tenant, { scopes: own });
    const ask = async (by: string, object: string): Promise<unknown> => {
      const { status, body } = await call('POST', '/v1/exports', { key: by, body: { object } });
      return [status, body.error.code, body.error.details.required_scopes];
    };
    expect(await ask(await scopes('exports:create'), 'leads')).toEqual([403, 'FORBIDDEN_SCOPE', ['leads:view']]);
    expect(await ask(await scopes('leads:view'), 'leads')).toEqual([403, 'FORBIDDEN_SCOPE', ['exports:create']]);
    const [status, code, required] = (await ask(await scopes('exports:create'), '*')) as [number, string, string[]];
    expect([status, code]).toEqual([403, 'FORBIDDEN_SCOPE']);
    expect(required).toContain('leads:view');
  });

  test('others find an export if they see all of it, and no other workspace does', async () => {
    const owner = await newTenant();
    const { id } = (await exported({ object: 'accounts' }, owner.key)).done;
    const branch = await newBranch(owner);
    const [whole, narrow, scoped] = await Promise.all([
      newKey(owner),
      newKey(owner, { scopes: ['exports:view', 'leads:view'] }),
      newKey(owner, { reach: { kind: 'branch', id: branch } }),
    ]);
    await read(id, whole);
    for (const by of [narrow, scoped, key, owner.testKey]) {
      await expectStatus(404, 'GET', `/v1/exports/${id}`, { key: by });
      const { exports } = (await expectStatus(200, 'GET', '/v1/exports', { key: by })).body.data;
      expect(exports.filter((each: Json) => each.id === id)).toEqual([]);
    }
    await expectStatus(404, 'POST', `/v1/exports/${id}/cancel`, { key });
    const own = (await exported({ object: 'accounts' }, scoped)).done;
    expect((await expectStatus(200, 'GET', '/v1/exports', { key: whole })).body.data.exports.map(getId)).toEqual([
      own.id,
      id,
    ]);
    expect((await expectStatus(200, 'GET', '/v1/exports', { key: scoped })).body.data.exports.map(getId)).toEqual([
      own.id,
    ]);
  });

  test.each([
    ['is revoked', (hash: Buffer) => database()`update api_keys set revoked_at = now() where key_hash = ${hash}`],
    [
      'loses the scope',
      (hash: Buffer) =>
        database()`update api_keys set scopes = '{exports:create,exports:view}' where key_hash = ${hash}`,
    ],
  ])('an export of a key that %s before it starts fails', async (_, change) => {
    const owner = await newTenant();
    const other = await newKey(owner);
    const { id } = await start({ object: 'accounts' }, owner.key).then(holdBack(owner));
    const own = await start({ object: 'accounts' }, other);
    await change(createHash('sha256').update(other).digest());
    await letGo(id);
    expect(await ended(own.id, owner.key)).toMatchObject({
      status: 'failed',
      error: 'access_ended',
      rows: null,
      download_url: null,
    });
  });
});

describe('a request', () => {
  test.each([
    [{ object: 'nonsense' }, 422, ['object INVALID_OPTION']],
    [{ object: 'accounts', fields: ['nmae', 'city'] }, 422, ['nmae UNKNOWN_FIELD']],
    [{ object: 'accounts', filter: { field: 'nmae', op: 'eq', value: 'x' } }, 400, ['nmae UNKNOWN_FIELD']],
    [
      { object: '*', filter: { field: 'name', op: 'eq', value: 'x' }, fields: ['name'] },
      400,
      ['filter CONFLICTING_FIELDS', 'fields CONFLICTING_FIELDS'],
    ],
    [{ object: 'accounts', format: 'xlsx' }, 400, ['format INVALID_OPTION']],
    [{ object: 'accounts', fields: [] }, 400, ['fields TOO_SHORT']],
    [{}, 400, ['object REQUIRED']],
    [{ object: 'accounts', colour: 'red' }, 422, ['colour UNKNOWN_FIELD']],
  ])('%j is refused', async (body, status, problems) => {
    const { error } = (await expectStatus(status, 'POST', '/v1/exports', { key, body })).body;
    expect(error.code).toBe('VALIDATION_ERROR');
    expect(error.details.fields.map(({ field, code }: Json) => `${field} ${code}`)).toEqual(problems);
  });

  test('beyond ten that wait is refused, however many come at once', async () => {
    const owner = await newTenant();
    const { id } = await start({ object: 'accounts' }, owner.key).then(holdBack(owner));
    const answers = await Promise.all(
      Array.from({ length: 14 }, () => call('POST', '/v1/exports', { key: owner.key, body: { object: 'leads' } })),
    );
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(10);
    for (const { body } of answers.filter(({ status }) => status !== 202))
      expect(body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'export_limit', limit: 10 } });
    await letGo(id);
    await vi.waitUntil(async () => (await statuses(owner)).every((status) => status === 'completed'));
    expect(await statuses(owner)).toHaveLength(11);
  });

  test('repeated with its Idempotency-Key makes one export', async () => {
    const owner = await newTenant();
    const options = { key: owner.key, body: { object: 'accounts' }, idempotencyKey: 'nightly-export' };
    const [first, again] = [await call('POST', '/v1/exports', options), await call('POST', '/v1/exports', options)];
    expect(again.text).toBe(first.text);
    expect(await statuses(owner)).toHaveLength(1);
  });

  test('is in the audit log, and so are its end and its cancellation', async () => {
    const owner = await newTenant();
    const { done } = await exported({ object: 'accounts', format: 'csv' }, owner.key);
    await database()`
      update exports set status = 'running', file_id = null, claimed_until = now() + interval '1 hour' where id = ${done.id}`;
    const { id } = await start({ object: 'leads' }, owner.key);
    await expectStatus(200, 'POST', `/v1/exports/${id}/cancel`, { key: owner.key });
    const { audit_logs } = (await expectStatus(200, 'GET', '/v1/audit-logs', { key: owner.key })).body.data;
    const rows = audit_logs.filter(({ action }: Json) => action.startsWith('export.'));
    expect(rows.map(({ action, actor, metadata }: Json) => [action, actor.kind, metadata.export_id])).toEqual([
      ['export.cancel', 'api_key', id],
      ['export.create', 'api_key', id],
      ['export.complete', 'system', done.id],
      ['export.create', 'api_key', done.id],
    ]);
    expect(rows[2].metadata).toMatchObject({ rows: 0, bytes: done.bytes });
  });
});

describe('the end', () => {
  test('a cancelled export gets no file, and one that has ended cannot be cancelled', async () => {
    const owner = await newTenant();
    const { id } = await start({ object: 'accounts' }, owner.key).then(holdBack(owner));
    const cancel = (which: string) => call('POST', `/v1/exports/${which}/cancel`, { key: owner.key });
    for (const { status, body } of [await cancel(id), await cancel(id)]) {
      expect(status).toBe(200);
      expect(body.data.export).toMatchObject({
        status: 'cancelled',
        download_url: null,
        rows: null,
        changes_cursor: null,
      });
    }
    const { done } = await exported({ object: 'accounts' }, owner.key);
    const refused = await cancel(done.id);
    expect([refused.status, refused.body.error.details]).toEqual([
      409,
      { reason: 'export_ended', status: 'completed' },
    ]);
    expect((await read(id, owner.key)).status).toBe('cancelled');
  });

  test('a link that was altered or has expired finds nothing', async () => {
    const { done } = await exported({ object: 'accounts' });
    const link = new URL(done.download_url);
    expect(Date.parse(done.expires_at) - Date.parse(done.completed_at)).toBe(24 * 3_600_000);
    for (const [name, value] of [
      ['sig', 'x'],
      ['exp', '9999999999'],
      ['company_id', (await newTenant()).companyId],
      ['environment', 'test'],
    ] as const) {
      const altered = new URL(link);
      altered.searchParams.set(name, value);
      expect((await fetch(altered)).status).toBe(404);
    }
    await database()`update exports set expires_at = now() where id = ${done.id}`;
    expect((await fetch(link)).status).toBe(404);
    expect(await vi.waitUntil(async () => (await readStatuses(done.id))[0] === 'expired')).toBe(true);
    expect(await read(done.id)).toMatchObject({
      status: 'expired',
      download_url: null,
      rows: done.rows,
      sha256: done.sha256,
    });
    const kept =
      await database()`select from stored_files where company_id = ${tenant.companyId} and remove_after is null and id not in (select file_id from exports where file_id is not null)`;
    expect(kept).toHaveLength(0);
  });

  test('of test mode removes exports of test data with their files', async () => {
    const owner = await newTenant();
    const [live, test] = [
      await exported({ object: 'leads' }, owner.key),
      await exported({ object: 'leads' }, owner.testKey),
    ];
    const files = () =>
      database()`select test_mode, remove_after is null as is_kept from stored_files where company_id = ${owner.companyId} order by 1`;
    const { deleted } = (await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: owner.testKey })).body.data;
    expect(deleted.exports).toBe(1);
    await expectStatus(404, 'GET', `/v1/exports/${test.done.id}`, { key: owner.testKey });
    expect((await fetch(test.done.download_url)).status).toBe(404);
    expect((await fetch(live.done.download_url)).status).toBe(200);
    expect(await files()).toEqual([
      { test_mode: false, is_kept: true },
      { test_mode: true, is_kept: false },
    ]);
  });

  test('an export whose field was removed before it starts fails', async () => {
    const owner = await newTenant();
    await newCustomField(owner, 'accounts', 'colour');
    const { id } = await start({ object: 'leads' }, owner.key).then(holdBack(owner));
    const own = await start({ object: 'accounts', fields: ['colour'] }, owner.key);
    await expectStatus(200, 'PATCH', '/v1/objects/accounts/fields/colour', {
      key: owner.key,
      body: { enabled: false },
    });
    await letGo(id);
    expect(await ended(own.id, owner.key)).toMatchObject({ status: 'failed', error: 'filter_invalid' });
  });
});

describe('a snapshot', () => {
  test('and the feed from its cursor on equal the table, with writers at work', async () => {
    const owner = await newTenant();
    await fillAccounts(
      owner,
      Array.from({ length: 3000 }, (_, index) => `N ${index}`),
    );
    let isDone = false;
    const ids = (
      await database()<{ id: string }[]>`select id from accounts where company_id = ${owner.companyId} order by id`
    ).map(getId);
    const write = async (seed: number): Promise<void> => {
      for (let turn = seed; !isDone; turn += 4) {
        const id = ids[(turn * 7919) % ids.length] as string;
        if (turn % 3 === 0) await createRecord(owner.key, 'accounts', { name: `new ${turn}` });
        else if (turn % 3 === 1)
          await call('PATCH', recordsPath('accounts', id), { key: owner.key, body: { city: `C ${turn}` } });
        else await call('DELETE', recordsPath('accounts', id), { key: owner.key });
      }
    };
    const writers = [0, 1, 2, 3].map(write);
    const copies = [];
    for (let turn = 0; turn < 3; turn += 1) copies.push(await exported({ object: 'accounts' }, owner.key));
    isDone = true;
    await Promise.all(writers);
    const stored = byId(await walk(owner.key, 'accounts', { limit: 100 }));
    for (const { text, done } of copies) {
      const copy = new Map<string, Json>(parseLines(text).map((record) => [record.id, record]));
      const before = JSON.stringify(byId([...copy.values()]));
      for (const { record_id, record } of await changesAfter(owner.key, done.changes_cursor, {
        objects: 'accounts',
        limit: 1000,
      }))
        if (record) copy.set(record_id, record);
        else copy.delete(record_id);
      expect(byId([...copy.values()])).toEqual(stored);
      expect(before).not.toBe(JSON.stringify(stored));
    }
  });
});
