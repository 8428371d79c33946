// Attachments: files of up to 10 MB on visible records, their links, and their removal.
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { sweepFiles, sweepUploads } from '../../jobs/records/stored-files.ts';
import { DiskStorage } from '../../runtime/files/storage-disk.ts';
import { type Answer, type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import { silentLog } from '../support/job-runs.ts';
import { Connection, requestText } from '../support/raw-connection.ts';
import { createRecord, leftBehind, recordsPath } from '../support/records.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { type FormPart, fileForm, form } from '../support/uploads.ts';

const limit = 10_485_760;

let tenant: Tenant;
let key: string;
let record: string;
let path: string;
const folder = dirname(inject('logFile'));
const storage = new DiskStorage(join(folder, 'attachments'));

const newAccount = async (apiKey: string): Promise<string> =>
  (await createRecord(apiKey, 'accounts', { name: 'A' })).id;
const buildPath = (id: string, object = 'accounts') => `${recordsPath(object, id)}/attachments`;
const upload = async (part: FormPart = {}, options: CallOptions = {}): Promise<Json> =>
  (await expectStatus(201, 'POST', path, { key, ...fileForm(part), ...options })).body.data.attachment;
const readLink = async (id: string): Promise<URL> =>
  new URL((await expectStatus(200, 'GET', `/v1/attachments/${id}`, { key })).body.data.attachment.download_url);
const open = (link: URL): Promise<Answer> => call('GET', link.pathname + link.search);
const countOn = async (id: string): Promise<number> =>
  (await expectStatus(200, 'GET', buildPath(id), { key })).body.data.attachments.length;
const storedFiles = (): Promise<{ id: string; remove_after: Date | null }[]> =>
  database()`select id, remove_after from stored_files where company_id = ${tenant.companyId} order by id`;
const isThere = (fileId: string): boolean => existsSync(join(folder, 'attachments', tenant.companyId, 'live', fileId));
const findFile = async (id: string): Promise<string> => {
  const [row] = await database()<{ file_id: string }[]>`select file_id from attachments where id = ${id}`;
  return row?.file_id ?? '';
};

async function sweep(now: Date, remove = (name: string) => storage.remove(name)): Promise<number> {
  const pool = new Pool({
    url: inject('databaseUrl'),
    role: 'crm_platform',
    lanes: 1,
    prepare: true,
    spread: false,
    wait: 10_000,
    statementTimeout: 10_000,
  });
  try {
    return await sweepFiles({ platform: pool, log: silentLog, now: () => now }, remove);
  } finally {
    await pool.close(1);
  }
}

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  record = await newAccount(key);
  path = buildPath(record);
});

describe('a file', () => {
  test('attaches, lists, links and downloads a file byte by byte, and audits it', async () => {
    const on = await newAccount(key);
    const content = Buffer.from([0, 255, 13, 10, 45, 45, 128]);
    const answer = await expectStatus(201, 'POST', buildPath(on), {
      key,
      ...fileForm({ fileName: 'Quote 17.pdf', type: 'application/pdf', content }),
    });
    const { attachment } = answer.body.data;
    expect(attachment).toEqual({
      id: expect.any(String),
      object: 'accounts',
      record_id: on,
      file_name: 'Quote 17.pdf',
      content_type: 'application/pdf',
      size_bytes: 7,
      sha256: createHash('sha256').update(content).digest('hex'),
      uploaded_by: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      test_mode: false,
      created_at: expect.any(String),
    });
    const listed = (await expectStatus(200, 'GET', buildPath(on), { key })).body.data;
    expect(listed).toEqual({ attachments: [attachment], next_cursor: null, has_more: false });
    const one = (await expectStatus(200, 'GET', `/v1/attachments/${attachment.id}`, { key })).body.data.attachment;
    expect(one).toEqual({ ...attachment, download_url: expect.any(String), expires_in: 600 });
    const response = await fetch(one.download_url);
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': '7',
      'content-disposition': `attachment; filename="Quote 17.pdf"; filename*=UTF-8''Quote%2017.pdf`,
      'x-content-type-options': 'nosniff',
      'cache-control': 'private, no-store',
    });
    expect(Buffer.from(await response.arrayBuffer())).toEqual(content);
    const { audit, events } = await leftBehind(on);
    expect(audit.at(-1)).toMatchObject({ action: 'attachment.create', metadata: { attachment_id: attachment.id } });
    expect(events.slice(1)).toMatchObject([{ event: 'attachment.created', test_mode: false }]);
    const { occurred_at, ...emitted } = events[1].data;
    expect(emitted).toEqual({ object: 'accounts', record_id: on, attachment_id: attachment.id });
    expect(occurred_at).toBe(attachment.created_at);
  });

  test.each([limit - 1, limit])('accepts a file of %i bytes', async (size) => {
    const attachment = await upload({ content: Buffer.alloc(size, 7) });
    expect(attachment.size_bytes).toBe(size);
  });

  test('rejects a file larger than 10 MB, and stores nothing', async () => {
    const before = await storedFiles();
    const answer = await expectStatus(400, 'POST', path, { key, ...fileForm({ content: Buffer.alloc(limit + 1) }) });
    expect(answer.body.error.details).toEqual({ reason: 'file_too_large' });
    expect(await storedFiles()).toEqual(before);
  });

  test.each([
    'a.exe',
    'a.EXE',
    'a.sh',
    'a.js',
    'a.exe.txt',
    'a.tar.sh.gz',
    'a.html',
    'a.svg',
    'a.exe.',
    'a.exe ',
    'a.e\u200bxe',
    'ａ．ｅｘｅ',
    'cod\u202etxt.exe',
    'a.exe::$DATA',
    '.sh',
    '../../a.php',
  ])('rejects a file named %j', async (fileName) => {
    const answer = await expectStatus(400, 'POST', path, { key, ...fileForm({ fileName }) });
    expect(answer.body.error).toMatchObject({ code: 'VALIDATION_ERROR', details: { reason: 'file_type_refused' } });
  });

  test.each([
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\boot.ini', 'boot.ini'],
    ['C:\\Users\\me\\Class.pdf', 'Class.pdf'],
    ['..', 'file'],
    ['a\tb\u200b.txt', 'ab.txt'],
    ['%0d%0aSet-Cookie: a=b.txt', '%0d%0aSet-Cookie_ a=b.txt'],
    ['grüße 😀.txt', 'grüße 😀.txt'],
    ["it's (1)*.txt", "it's (1)_.txt"],
    [`${'x'.repeat(296)}.pdf`, `${'x'.repeat(251)}.pdf`],
    ['run.pdf', 'run.pdf'],
  ])('stores the file name %j as %j, and sends it safely in the header', async (fileName, kept) => {
    const attachment = await upload({ fileName });
    expect(attachment.file_name).toBe(kept);
    const { headers } = await open(await readLink(attachment.id));
    const disposition = headers.get('content-disposition') ?? '';
    expect(disposition).toMatch(
      /^attachment; filename="[\x20-\x21\x23-\x5b\x5d-\x7e]+"; filename\*=UTF-8''[\w!#$&+.^`|~%-]+$/,
    );
    expect(decodeURIComponent(disposition.split("''")[1] ?? '')).toBe(kept);
  });

  test('escapes quotes and line breaks of a file name in the header', async () => {
    const quoted = await upload({ disposition: 'form-data; name="file"; filename="a\\"; x=\\"b.txt"' });
    expect(quoted.file_name).toBe('a_; x=_b.txt');
    const folded = form([{ disposition: 'form-data; name="file"; filename="a\r\nX-Evil: 1.txt"' }]);
    const answer = await call('POST', path, { key, ...folded });
    expect(answer.status).toBe(400);
  });

  test('stores a file with an overlong media type as application/octet-stream', async () => {
    expect((await upload({ type: `text/${'x'.repeat(101)}` })).content_type).toBe('application/octet-stream');
  });
});

describe('a form', () => {
  const good = fileForm();
  const problems = (answer: Answer): string[] =>
    (answer.body.error.details.fields ?? []).map((each: Json) => `${each.field} ${each.code}`);
  test.each<[string, number, string[], CallOptions]>([
    ['with two files', 400, ['file DUPLICATE'], form([{}, {}])],
    ['without a file', 400, ['file REQUIRED'], form([])],
    ['with an empty file', 400, ['file TOO_SHORT'], form([{ content: '' }])],
    ['with text in place of the file', 400, ['file INVALID_FORMAT'], form([{ fileName: null }])],
    ['with a file without a name', 400, ['file INVALID_FORMAT'], form([{ fileName: '' }])],
    ['with another field', 422, ['zzz UNKNOWN_FIELD'], form([{}, { name: 'zzz', fileName: null }])],
    ['with the file under another name', 422, ['zzz UNKNOWN_FIELD', 'file REQUIRED'], form([{ name: 'zzz' }])],
  ])('rejects a form %s', async (_, status, fields, options) => {
    const answer = await expectStatus(status, 'POST', path, { key, ...options });
    expect(problems(answer)).toEqual(fields);
  });

  const typed = (type: string, more = {}) => ({ rawBody: good.rawBody, headers: { 'content-type': type, ...more } });
  test.each<[string, string, CallOptions]>([
    ['that is JSON', 'unsupported_media_type', { body: { file: 'x' } }],
    ['that is form-encoded', 'unsupported_media_type', typed('application/x-www-form-urlencoded')],
    ['without a boundary', 'unsupported_media_type', typed('multipart/form-data')],
    [
      'that is compressed',
      'unsupported_media_type',
      typed(good.headers['content-type'] ?? '', { 'content-encoding': 'gzip' }),
    ],
    ['with another boundary', 'malformed_multipart', typed('multipart/form-data; boundary=other')],
    [
      'cut off in its file',
      'malformed_multipart',
      { ...good, rawBody: good.rawBody.subarray(0, good.rawBody.length - 30) },
    ],
    ['cut off in its head', 'malformed_multipart', { ...good, rawBody: good.rawBody.subarray(0, 60) }],
    ['that is empty', 'malformed_multipart', { ...good, rawBody: Buffer.alloc(0) }],
  ])('rejects a form %s', async (_, reason, options) => {
    const before = await storedFiles();
    const answer = await expectStatus(400, 'POST', path, { key, ...options });
    expect(answer.body.error).toMatchObject({ code: 'VALIDATION_ERROR', details: { reason } });
    expect(await storedFiles()).toEqual(before);
  });

  test('replays an upload only for the same bytes', async () => {
    const on = await newAccount(key);
    const idempotencyKey = randomUUID();
    const sent = fileForm();
    const first = await expectStatus(201, 'POST', buildPath(on), { key, ...sent, idempotencyKey });
    const again = await expectStatus(201, 'POST', buildPath(on), { key, ...sent, idempotencyKey });
    expect(again.text).toBe(first.text);
    const other = await expectStatus(422, 'POST', buildPath(on), { key, ...fileForm(), idempotencyKey });
    expect(other.body.error.code).toBe('IDEMPOTENCY_CONFLICT');
    expect(await countOn(on)).toBe(1);
  });

  test('stores neither a row nor bytes if the client disconnects', async () => {
    const on = await newAccount(key);
    const { headers } = fileForm();
    const connection = new Connection();
    const start = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n';
    const head = {
      ...headers,
      'content-type': 'multipart/form-data; boundary=b',
      'x-api-key': key,
      'content-length': '500000',
    };
    connection
      .send(requestText('POST', buildPath(on), head))
      .send(start)
      .send(Buffer.alloc(200_000, 1));
    await vi.waitUntil(() => readdirSync(join(folder, 'uploads')).length > 0);
    const arriving = readdirSync(join(folder, 'uploads'));
    connection.close();
    // Other tests upload at the same time.
    await vi.waitUntil(() => !readdirSync(join(folder, 'uploads')).some((name) => arriving.includes(name)));
    expect(await countOn(on)).toBe(0);
  });
});

describe('a download link', () => {
  test('returns the same 404 for altered and expired download links and those of other attachments', async () => {
    const [first, second] = [await readLink((await upload()).id), await readLink((await upload()).id)];
    const altered = (change: (link: URL) => void): URL => {
      const link = new URL(first);
      change(link);
      return link;
    };
    const signature = first.searchParams.get('sig') ?? '';
    const stranger = await newTenant();
    const links = [
      altered((link) => link.searchParams.set('exp', String(Number(link.searchParams.get('exp')) + 1))),
      altered((link) =>
        link.searchParams.set('sig', `${signature.slice(0, -1)}${signature.endsWith('A') ? 'Q' : 'A'}`),
      ),
      altered((link) => link.searchParams.set('company_id', stranger.companyId)),
      altered((link) => link.searchParams.delete('company_id')),
      altered((link) => link.searchParams.set('environment', 'test')),
      altered((link) => link.searchParams.delete('environment')),
      altered((link) => link.searchParams.delete('sig')),
      altered((link) => link.searchParams.delete('exp')),
      altered((link) => {
        link.pathname = second.pathname;
      }),
    ];
    for (const link of links) {
      const { status, body } = await open(link);
      expect({ status, error: body.error }).toEqual({
        status: 404,
        error: { code: 'NOT_FOUND', message: 'There is no such resource.' },
      });
    }
    expect((await open(first)).text).toBe('Hello');
  });

  test('accepts a download link for exactly 600 seconds', async () => {
    const { Files } = await import('../../runtime/files/files.ts');
    const { Secrets } = await import('../../runtime/credentials/secrets.ts');
    const files = new Files({
      storage,
      folder,
      announce: async () => undefined,
      secrets: new Secrets('5e'.repeat(32)),
      baseUrl: () => 'http://a',
      log: silentLog,
    });
    const now = new Date('2026-11-20T23:55:00.000Z');
    const link = new URL(
      await files.link('attachments', 'some', { companyId: 'c', testMode: false, id: 'f', name: 'n' }, now),
    );
    const good = (milliseconds: number) =>
      files.isGood(
        {
          owner: 'attachments',
          id: 'some',
          companyId: 'c',
          environment: 'live',
          expires: link.searchParams.get('exp') ?? '',
        },
        link.searchParams.get('sig') ?? '',
        new Date(now.getTime() + milliseconds),
      );
    expect([good(0), good(599_999), good(600_000)]).toEqual([true, true, false]);
  });
});

describe('deleting', () => {
  test('deletes the row, the link and the file of an attachment once', async () => {
    const { id } = await upload();
    const [link, file] = [await readLink(id), await findFile(id)];
    expect(isThere(file)).toBe(true);
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => call('DELETE', `/v1/attachments/${id}`, { key })),
    );
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([200, 404, 404, 404]);
    expect((await open(link)).status).toBe(404);
    await vi.waitUntil(() => !isThere(file));
    const { audit, events } = await leftBehind(record);
    expect(audit.filter((row) => row.action === 'attachment.delete' && row.metadata.attachment_id === id)).toHaveLength(
      1,
    );
    const emitted = events.filter(({ data }) => data.attachment_id === id);
    expect(emitted.map(({ event }) => event)).toEqual(['attachment.created', 'attachment.deleted']);
  });

  test('deletes attachments and notes with their record and its tasks, and sweeps their files once it is removed for good', async () => {
    const on = await newAccount(key);
    const { task } = (
      await expectStatus(201, 'POST', `${recordsPath('accounts', on)}/tasks`, {
        key,
        body: { title: 'T', scheduled_at: '2036-01-01T00:00:00Z' },
      })
    ).body.data;
    await expectStatus(201, 'POST', `${recordsPath('accounts', on)}/notes`, { key, body: { content: 'N' } });
    const ids: string[] = [];
    for (const at of [buildPath(on), buildPath(task.id, 'tasks')])
      ids.push((await expectStatus(201, 'POST', at, { key, ...fileForm() })).body.data.attachment.id);
    const files = await Promise.all(ids.map(findFile));
    await expectStatus(200, 'DELETE', recordsPath('accounts', on), { key });
    for (const id of ids) await expectStatus(404, 'GET', `/v1/attachments/${id}`, { key });
    const { audit } = await leftBehind(on);
    expect(audit.at(-1)).toMatchObject({ metadata: { activities: 0, tasks: 1, notes: 1, attachments: 2 } });
    await sweep(new Date(Date.now() + 1000));
    expect(files.map(isThere)).toEqual([true, true]);
    await expectStatus(200, 'DELETE', `/v1/objects/accounts/deleted-records/${on}`, { key });
    await sweep(new Date(Date.now() + 1000));
    expect(files.map(isThere)).toEqual([false, false]);
    expect((await storedFiles()).filter((file) => files.includes(file.id))).toEqual([]);
  });
});

describe('the sweep', () => {
  test('retries files that could not be removed', async () => {
    const { id } = await upload();
    const file = await findFile(id);
    await database()`delete from attachments where id = ${id}`;
    const soon = new Date(Date.now() + 1000);
    await sweep(soon, () => Promise.reject(new Error('down')));
    expect((await storedFiles()).find((each) => each.id === file)?.remove_after).toEqual(
      expect.toSatisfy((at: Date) => at > soon),
    );
    await sweep(new Date(Date.now() + 11 * 60_000));
    expect(isThere(file)).toBe(false);
  });

  test('removes a file without a row after an hour, and none with a row', async () => {
    const kept = await findFile((await upload()).id);
    const on = await newAccount(key);
    await expectStatus(200, 'DELETE', recordsPath('accounts', on), { key });
    const before = new Set((await storedFiles()).map((file) => file.id));
    await expectStatus(404, 'POST', buildPath(on), { key, ...fileForm() });
    const [orphan = ''] = (await storedFiles()).map((file) => file.id).filter((id) => !before.has(id));
    await vi.waitUntil(() => !isThere(orphan));
    // Makes only this one look an hour old, because other tests upload at the same time.
    await database()`update stored_files set remove_after = now() where id = ${orphan}`;
    await sweep(new Date(Date.now() + 1000));
    const left = (await storedFiles()).map((file) => file.id);
    expect([left.includes(orphan), left.includes(kept), isThere(kept)]).toEqual([false, true, true]);
  });

  test('removes leftovers of crashed uploads after an hour, and nothing younger', async () => {
    const uploads = mkdtempSync(join(tmpdir(), 'crm-uploads-'));
    const [old, young] = [join(uploads, 'old'), join(uploads, 'young')];
    for (const file of [old, young]) writeFileSync(file, 'x');
    utimesSync(old, 0, 0);
    expect(await sweepUploads(uploads)).toBe(1);
    expect([existsSync(old), existsSync(young)]).toEqual([false, true]);
    rmSync(uploads, { recursive: true });
  });
});

test('names every sufficient combination of scopes to a key that cannot attach', async () => {
  const seeing = await newKey(tenant, { scopes: ['accounts:view'] });
  const { error } = (await expectStatus(403, 'POST', path, { key: seeing, ...fileForm() })).body;
  expect(error.message).toBe(
    'This operation requires the scopes accounts:edit and attachments:create, or accounts:edit and attachments:configure.',
  );
  expect(error.details.required_scopes).toEqual(['accounts:edit', 'attachments:create', 'attachments:configure']);
});

test("requires the view scope of the record's object for its attachments", async () => {
  const { id } = await upload();
  const scopes = ['attachments:view', 'attachments:configure'];
  const blind = await newKey(tenant, { scopes: [...scopes, 'leads:view'] });
  for (const method of ['GET', 'DELETE']) await expectStatus(404, method, `/v1/attachments/${id}`, { key: blind });
  const seeing = await newKey(tenant, { scopes: [...scopes, 'accounts:view'] });
  await expectStatus(200, 'GET', `/v1/attachments/${id}`, { key: seeing });
});

test('pages through attachments without repeats or gaps', async () => {
  const on = await newAccount(key);
  const made: string[] = [];
  for (let index = 0; index < 5; index += 1)
    made.unshift((await expectStatus(201, 'POST', buildPath(on), { key, ...fileForm() })).body.data.attachment.id);
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const { data } = (
      await expectStatus(200, 'GET', buildPath(on), {
        key,
        query: { limit: 2, ...(cursor === null ? {} : { cursor }) },
      })
    ).body as Json;
    seen.push(...data.attachments.map((each: Json) => each.id));
    cursor = data.next_cursor;
  } while (cursor !== null);
  expect(seen).toEqual(made);
});
