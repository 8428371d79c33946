// One test for each pitfall of the runtime's libraries, and for hostile clients.
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { buildPublicPolicies } from '../../runtime/limits/rate-limits.ts';
import { loadDocument } from '../../runtime/openapi/document.ts';
import { call, type Json } from '../support/client.ts';
import { Connection, exchange, requestText } from '../support/raw-connection.ts';
import { newKey, newTenant, platformKeys } from '../support/tenants.ts';

let platformKey: () => string;

beforeAll(async () => {
  platformKey = await platformKeys();
});

const email = 'sara@example.com';

/** Sends a raw body to check-email, and returns the status and the body of the response. */
async function checkEmail(rawBody: string | Buffer, headers: Record<string, string> = {}): Promise<Json> {
  const answer = await call('POST', '/v1/check-email', { key: platformKey(), rawBody, headers });
  return { status: answer.status, ...answer.body };
}

/** Returns the problems that check-email reports for a body. */
async function findProblems(rawBody: string | Buffer): Promise<{ field: string; code: string }[]> {
  const { error } = await checkEmail(rawBody);
  return (error?.details?.fields ?? []).map(({ field, code }: Json) => ({ field, code }));
}

const get = (target: string, headers: Record<string, string> = {}) => exchange(requestText('GET', target, headers));
const parseError = (answer: { body: string }): Json => JSON.parse(answer.body).error;

describe('validation', () => {
  test('fills in a default next to a reference', async () => {
    const key = await newKey(await newTenant());
    const answer = await call('POST', '/v1/reports/query', { key, body: { object: 'leads' } });
    expect(answer.body.data.metric).toBe('count');
  });

  test('reports what is wrong with a nullable value', async () => {
    const key = await newKey(await newTenant());
    const body = { object: 'leads', group_by: 'created_at', bucket: 'year' };
    const answer = await call('POST', '/v1/reports/query', { key, body });
    expect(answer.body.error.details.fields).toMatchObject([
      { field: 'bucket', code: 'INVALID_OPTION', allowed: ['day', 'week', 'month'] },
    ]);
  });

  test('checks formats', async () => {
    expect(await findProblems('{"email": "nobody"}')).toEqual([{ field: 'email', code: 'INVALID_FORMAT' }]);
  });

  test('reports all problems together', async () => {
    expect(await findProblems('{"email": 1, "zzz": 1}')).toEqual([
      { field: 'zzz', code: 'UNKNOWN_FIELD' },
      { field: 'email', code: 'INVALID_TYPE' },
    ]);
  });

  test('does not coerce the types of a body', async () => {
    for (const value of ['1', 'true', 'null', '["a@example.com"]', '{}'])
      expect(await findProblems(`{"email": ${value}}`)).toEqual([{ field: 'email', code: 'INVALID_TYPE' }]);
  });

  test.each([
    undefined,
    'text/plain',
    'application/json-patch+json',
    'application/jsonx',
    'multipart/form-data; boundary=x',
    'application/json; charset=utf-16',
    'application/json, text/plain',
  ])('rejects a body of the type %s instead of passing it unchecked', async (type) => {
    const headers = { 'x-api-key': platformKey(), ...(type ? { 'content-type': type } : {}) };
    const answer = await exchange(requestText('POST', '/v1/check-email', headers, '{"email": 1}'));
    expect({ status: answer.status, details: parseError(answer).details }).toEqual({
      status: 400,
      details: { reason: 'unsupported_media_type' },
    });
  });

  test.each([
    'application/json',
    'Application/JSON',
    'application/json; charset=UTF-8',
    'application/json;charset="utf-8"',
  ])('reads a body of the type %s', async (type) => {
    expect(await checkEmail(JSON.stringify({ email }), { 'content-type': type })).toMatchObject({ status: 200 });
  });

  test('allows handlers only declared statuses: others do not compile', async () => {
    const root = join(import.meta.dirname, '../..');
    const file = join(tmpdir(), `undeclared-status-${process.pid}.ts`);
    writeFileSync(
      file,
      `import type { Handler } from '${root}/runtime/handler.ts';
      export const declared: Handler<'checkEmail'> = async () => ({ status: 200, exists: true, data: { email: '', exists: true } });
      // @ts-expect-error 201 is not declared
      export const undeclared: Handler<'checkEmail'> = async () => ({ status: 201, exists: true, data: { email: '', exists: true } });
      // @ts-expect-error data lacks a field
      export const incomplete: Handler<'checkEmail'> = async () => ({ status: 200, exists: true, data: { email: '' } });
      // @ts-expect-error no such operation
      export const unknown: Handler<'noSuchOperation'> = async () => ({ status: 200 });\n`,
    );
    try {
      const options = ['--ignoreConfig', '--noEmit', '--strict', '--target', 'es2024', '--module', 'nodenext'];
      const allowed = ['--skipLibCheck', '--allowImportingTsExtensions'];
      const said = await new Promise<string>((resolve) => {
        // The same compiler as make check.
        const compiler = join(root, 'node_modules/typescript-7/bin/tsc');
        execFile(process.execPath, [compiler, ...options, ...allowed, file], { cwd: root }, (_, stdout) =>
          resolve(stdout),
        );
      });
      expect(said).toBe('');
    } finally {
      rmSync(file);
    }
  });
});

describe('paths', () => {
  test.each([
    '/v1/%',
    '/v1/%zz',
    '/v1/%c3%28',
    '/v1/health%',
    '/v1/%ff',
    '//v1/health',
    '/v1/health/',
    '/v1//health',
    '/v1/health;x',
    '/v1/HEALTH',
    '/v1/../v1/health',
    '*',
  ])('%s returns 404 instead of crashing', async (target) => {
    const answer = await get(target);
    expect({ status: answer.status, code: parseError(answer).code }).toEqual({ status: 404, code: 'NOT_FOUND' });
  });

  test('an absolute URL, as proxies send it, is routed by its path', async () => {
    expect((await get('http://crm.example/v1/health')).status).toBe(200);
    // The root redirects to the documentation.
    expect((await get('http://crm.example')).status).toBe(302);
  });

  test('pages reject other methods with 405', async () => {
    const answer = await exchange(requestText('POST', '/docs'));
    expect({ status: answer.status, allow: answer.headers.get('allow') }).toEqual({
      status: 405,
      allow: 'GET, HEAD, OPTIONS',
    });
  });
});

describe('queries', () => {
  test('rejects a parameter that is sent twice', async () => {
    const answer = await call('GET', '/v1/health?a=1&a=1');
    expect(answer.body.error.details.fields).toMatchObject([
      { field: 'a', code: 'DUPLICATE' },
      { field: 'a', code: 'UNKNOWN_FIELD' },
    ]);
  });

  test.each(['__proto__', 'constructor', 'toString', '__proto__[x]', 'constructor.prototype'])(
    'treats %s as a name like any other',
    async (name) => {
      const answer = await call('GET', `/v1/health?${name}=1`);
      expect(answer.body.error.details.fields).toMatchObject([{ field: name, code: 'UNKNOWN_FIELD' }]);
    },
  );
});

describe('validation of values that the database cannot store', () => {
  test.each(['1e400', '-1e400', '[1e400]', '{"a": 1e999}'])('rejects %s', async (number) => {
    expect(await findProblems(`{"email": "${email}", "zzz": ${number}}`)).toContainEqual({
      field: number.startsWith('[') ? 'zzz[0]' : number.startsWith('{') ? 'zzz.a' : 'zzz',
      code: 'OUT_OF_RANGE',
    });
  });

  test.each([
    ['the NUL character', '\\u0000'],
    ['half of a surrogate pair', '\\ud800'],
    ['the other half', '\\udc00'],
    ['the halves in the wrong order', '\\udc00\\ud800'],
  ])('rejects %s in a text and names the field once', async (_, spelled) => {
    expect(await findProblems(`{"email": "sara${spelled}@example.com"}`)).toEqual([
      { field: 'email', code: 'INVALID_FORMAT' },
    ]);
    expect(await findProblems(`{"email": ["a", "${spelled}"]}`)).toContainEqual({
      field: 'email[1]',
      code: 'INVALID_FORMAT',
    });
  });

  test('rejects the NUL character in a field name and in a query', async () => {
    expect(await findProblems(`{"email": "${email}", "a\\u0000b": 1}`)).toEqual([
      { field: 'a\0b', code: 'UNKNOWN_FIELD' },
    ]);
    const answer = await call('GET', '/v1/health?a=%00');
    expect(answer.body.error.details.fields).toContainEqual(
      expect.objectContaining({ field: 'a', code: 'INVALID_FORMAT' }),
    );
  });

  test('accepts complete surrogate pairs and all other characters', async () => {
    const { data } = await checkEmail(
      JSON.stringify({ email: 'sara@example.com' }).replace('sara', '\\u0073\\u0061ra'),
    );
    expect(data.email).toBe(email);
    expect(await findProblems('{"email": "\\ud83d\\ude00@example.com"}')).toEqual([
      { field: 'email', code: 'INVALID_FORMAT' },
    ]);
  });
});

describe('prototype pollution', () => {
  const payloads = [
    '{"__proto__": {"polluted": true}}',
    '{"__proto__": null}',
    '{"constructor": {"prototype": {"polluted": true}}}',
    `{"email": "${email}", "__proto__": {"email": "x"}}`,
    `{"email": {"__proto__": {"polluted": true}}}`,
    '{"__proto__": {"email": "sara@example.com"}}',
    '{"toString": "x", "hasOwnProperty": "y", "valueOf": 1}',
  ];
  test.each(payloads)('rejects %s', async (payload) => {
    const { status, error } = await checkEmail(payload);
    expect(status).toBe(422);
    expect(error.details.fields.length).toBeGreaterThan(0);
  });

  test('prototype pollution does not affect the server', async () => {
    for (const payload of payloads) await checkEmail(payload);
    const { body } = await call('GET', '/v1/health');
    expect(Object.keys(body).toSorted()).toEqual(['data', 'meta', 'success']);
    expect(await checkEmail(JSON.stringify({ email }))).toMatchObject({ status: 200 });
  });

  test('rejects __proto__ even if the document allows any name', async () => {
    const metadata = '{"__proto__": "x"}';
    const body = `{"company":{"name":"Blue Lake","email":"a@b.example"},"admin_user":{"email":"c@d.example","full_name":"Sara"},"region":"europe","industry":"Retail","metadata":${metadata}}`;
    expect((await call('POST', '/v1/onboarding', { rawBody: body })).status).toBe(400);
  });
});

describe('hostile texts', () => {
  const long = (text: string): string => text.repeat(Math.floor(100_000 / text.length)).slice(0, 100_000);
  test.each([
    ['one letter, 100,000 times', long('a')],
    ['dots in a local part', `${long('a.').slice(0, 90_000)}@`],
    ['dots in a domain', `a@${long('a.')}`.slice(0, 99_000)],
    ['hyphens in a domain', `a@${long('a-')}`.slice(0, 99_000)],
    ['at signs', long('@')],
    ['spaces', long(' ')],
    ['right to left marks', long('\u202e').slice(0, 30_000)],
    ['joined emoji', long('👩‍👩‍👧').slice(0, 20_000)],
    ['combining marks', `a${long('\u0301').slice(0, 40_000)}`],
    ['quotes and backslashes', long('"\\').slice(0, 40_000)],
  ])('rejects %s while others are served', { timeout: 15_000 }, async (_, text) => {
    const hostile = checkEmail(JSON.stringify({ email: text }));
    const others = await Promise.all(Array.from({ length: 20 }, () => call('GET', '/v1/health')));
    expect(others.every((answer) => answer.status === 200)).toBe(true);
    const { error } = await hostile;
    expect(error.details.fields).toContainEqual(expect.objectContaining({ field: 'email' }));
  });
});

describe('connections', () => {
  const health = requestText('GET', '/v1/health');
  const post = (body: string, headers: Record<string, string> = {}): Buffer =>
    requestText(
      'POST',
      '/v1/check-email',
      { 'x-api-key': platformKey(), 'content-type': 'application/json', ...headers },
      body,
    );

  test('keeps the connection after a public read, a success and every failure', async () => {
    const connection = new Connection();
    const requests: [Buffer, number][] = [
      [health, 200],
      [requestText('GET', '/nowhere'), 404],
      [requestText('PUT', '/v1/health'), 405],
      [requestText('OPTIONS', '/v1/health'), 204],
      [requestText('POST', '/v1/check-email', {}, '{"email": "x"}'), 401],
      [requestText('POST', '/v1/check-email', { 'x-api-key': 'x' }, '{"email": "x"}'), 401],
      [post('{'), 400],
      [post('{"email": 1}'), 422],
      [post(JSON.stringify({ email })), 200],
      [post('{}', { 'content-type': 'text/plain' }), 400],
      [requestText('GET', '/v1/health?a=1'), 400],
      [health, 200],
    ];
    for (const [request, status] of requests) {
      const answer = await connection.send(request).answer();
      expect({ status: answer.status, connection: answer.headers.get('connection') }).toEqual({
        status,
        connection: 'keep-alive',
      });
    }
    connection.close();
  });

  test('keeps the connection if the response does not wait for the body', async () => {
    const connection = new Connection();
    const request = requestText('POST', '/v1/check-email', { 'x-api-key': 'x', 'content-length': '1000' });
    expect((await connection.send(request).answer()).status).toBe(401);
    expect((await connection.send(' '.repeat(1000)).send(health).answer()).status).toBe(200);
    connection.close();
  });

  test('answers pipelined requests in order', async () => {
    const connection = new Connection();
    connection.send(Buffer.concat([health, requestText('GET', '/nowhere'), post('{"email": 1}'), health]));
    const statuses: number[] = [];
    for (let index = 0; index < 4; index += 1) statuses.push((await connection.answer()).status);
    expect(statuses).toEqual([200, 404, 422, 200]);
    connection.close();
  });

  test('closes the connection after a far too large body, once the client has its response', async () => {
    const size = 5_000_000;
    const connection = new Connection();
    const answered = connection.send(post('', { 'content-length': String(size) })).answer();
    for (let left = size; left > 0; left -= 50_000) connection.send(Buffer.alloc(Math.min(left, 50_000), 32));
    const answer = await answered;
    expect({ status: answer.status, connection: answer.headers.get('connection') }).toEqual({
      status: 400,
      connection: 'close',
    });
    expect(parseError(answer).details).toEqual({ reason: 'body_too_large' });
    await connection.closed;
  });

  test('closes the connection even if the client keeps sending', async () => {
    const connection = new Connection();
    connection.send(post('', { 'content-length': '100000000' }));
    const flood = setInterval(() => connection.send(Buffer.alloc(10_000, 32)), 10);
    expect((await connection.answer()).status).toBe(400);
    await connection.closed;
    clearInterval(flood);
  });

  test('requires a Host with HTTP/1.1, and ignores unknown expectations', async () => {
    expect((await exchange('GET /v1/health HTTP/1.1\r\n\r\n')).status).toBe(400);
    expect((await exchange('GET /v1/health HTTP/1.0\r\n\r\n')).status).toBe(200);
    expect((await exchange(requestText('GET', '/v1/health', { Expect: 'tea' }))).status).toBe(200);
    const expecting = post(JSON.stringify({ email }), { Expect: '100-continue' });
    expect((await exchange(expecting)).status).toBe(200);
  });

  test('closes the connection after invalid HTTP, with a response that has the usual headers', async () => {
    for (const junk of [
      'nonsense\r\n\r\n',
      'GET /v1/health HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n',
      'get /v1/health HTTP/1.1\r\nHost: a\r\n\r\n',
      'POST /v1/check-email HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ]) {
      const connection = new Connection();
      const answer = await connection.send(junk).answer();
      expect({ junk, status: answer.status }).toEqual({ junk, status: 400 });
      await connection.closed;
    }
  });

  test('logs no warning if a connection ends during a body', async () => {
    const connection = new Connection();
    connection.send(post('{', { 'content-length': '1000' }));
    await new Promise((resolve) => connection.socket.once('connect', resolve));
    connection.socket.resetAndDestroy();
    await connection.closed;
    const other = new Connection();
    other.send(post('{', { 'content-length': '1000' })).socket.end();
    await other.closed;
    expect((await call('GET', '/v1/health')).status).toBe(200);
    expect(readFileSync(inject('logFile'), 'utf8')).not.toMatch(/"level":"(warn|error)"[^\n]*"aborted"/);
  });
});

describe('the OpenAPI document', () => {
  const original = JSON.parse(readFileSync(new URL('../../generated/openapi.json', import.meta.url), 'utf8'));

  /** Loads a copy of the document with one changed operation. */
  async function load(change: (operation: Record<string, unknown>) => void): Promise<unknown> {
    const copy = structuredClone(original);
    change(copy.paths['/v1/check-email'].post);
    const file = join(tmpdir(), `document-${process.pid}-${Math.random()}.json`);
    writeFileSync(file, JSON.stringify(copy));
    try {
      const policies = Object.keys(buildPublicPolicies(5));
      return await loadDocument(pathToFileURL(file), policies, 'https://app.example.com');
    } finally {
      rmSync(file);
    }
  }

  test.each([
    ['x-idempotency', 'Required'],
    ['x-idempotency', true],
    ['x-platform', 'true'],
    ['x-platform', false],
    ['x-live-only', 1],
    ['x-test-only', 1],
    ['x-only-reads', 1],
    ['x-secret-answer', 1],
    ['x-hashes-password', 1],
    ['x-acts-outside', 1],
    ['x-real-time', 1],
    ['x-dry-run', 1],
    ['x-unpaid', 1],
    ['x-before-password-change', 1],
    ['x-uniform-refusal', 'yes'],
    ['x-validation-status', 400],
    ['x-validation-status', '422'],
    ['x-answer', 'xml'],
    ['x-public-limit', 'unheard-of'],
    ['x-live-onyl', true],
    ['security', [{ basic: [] }]],
  ])('fails the start if an operation declares %s: %j', async (name, value) => {
    await expect(load((operation) => Object.assign(operation, { [name]: value }))).rejects.toThrow('checkEmail');
  });

  test('fails the start if an operation is read-only and stores responses', async () => {
    const both = { 'x-only-reads': true, 'x-idempotency': 'honoured' };
    await expect(load((operation) => Object.assign(operation, both))).rejects.toThrow(
      'x-only-reads cannot be combined',
    );
  });

  test('fails the start if a dry run could have effects', async () => {
    const both = { 'x-dry-run': true, 'x-acts-outside': true };
    await expect(load((operation) => Object.assign(operation, both))).rejects.toThrow(
      'x-dry-run is for writes that act only in their transaction',
    );
  });

  const deprecated = {
    field: 'email',
    since: '2026-09-04',
    sunset: '2027-09-04',
    link: '/docs/d#e',
    note: 'Leave it.',
  };
  const marked = (operation: Record<string, unknown>, use: object): void => {
    const { schema } = (operation as { requestBody: { content: Record<string, { schema: object }> } }).requestBody
      .content['application/json'] as { schema: { $ref?: string } };
    Object.assign(schema, {
      $ref: undefined,
      type: 'object',
      properties: { email: { type: 'string', deprecated: true } },
    });
    Object.assign(operation, { 'x-deprecated-use': [use] });
  };

  test.each([
    ['a sunset a day too early', { ...deprecated, sunset: '2027-09-03' }],
    ['a day that does not exist', { ...deprecated, since: '2026-02-30' }],
    ['no sunset', { ...deprecated, sunset: undefined }],
    ['a form that is not there', { ...deprecated, field: 'mail' }],
    ['a parameter that is not there', { ...deprecated, field: undefined, parameter: 'email' }],
    ['two forms in one entry', { ...deprecated, parameter: 'email' }],
    ['a link elsewhere', { ...deprecated, link: 'https://x.example' }],
    ['no note', { ...deprecated, note: '' }],
    ['an unknown key', { ...deprecated, until: '2028-01-01' }],
  ])('fails the start if a deprecated form has %s', async (_, use) => {
    await expect(load((operation) => marked(operation, use))).rejects.toThrow('checkEmail: x-deprecated-use');
  });

  test('fails the start if a deprecated form is not marked deprecated', async () => {
    const unmarked = load((operation) => Object.assign(operation, { 'x-deprecated-use': [deprecated] }));
    await expect(unmarked).rejects.toThrow('checkEmail: x-deprecated-use');
  });

  test('allows deprecating a body field for exactly 12 months', async () => {
    await expect(load((operation) => marked(operation, deprecated))).resolves.toBeDefined();
  });

  test('loads the OpenAPI document unchanged', async () => {
    await expect(load(() => undefined)).resolves.toBeDefined();
  });
});
