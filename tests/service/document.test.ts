// The OpenAPI document as the API serves it, and its samples.
import { spawnSync } from 'node:child_process';
import type { OpenAPIV3_1 } from 'openapi-types';
import { describe, expect, inject, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { type DeclaredOperation, document, findOperation, operations, resolve } from '../support/document.ts';
import type { Schema } from '../support/schemas.ts';

describe('GET /v1/openapi.json', () => {
  test('returns the OpenAPI document that the server uses, cacheable for five minutes', async () => {
    const answer = await expectStatus(200, 'GET', '/v1/openapi.json');
    expect(answer.body).toEqual(document);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(answer.headers.get('cache-control')).toBe('public, max-age=300');
  });

  test('returns 304 without a body for the current ETag, and the document for any other', async () => {
    const etag = (await expectStatus(200, 'GET', '/v1/openapi.json')).headers.get('etag') ?? '';
    const current = await expectStatus(304, 'GET', '/v1/openapi.json', {
      headers: { 'if-none-match': `"old", ${etag}` },
    });
    expect(current.text).toBe('');
    expect(current.headers.get('etag')).toBe(etag);
    await expectStatus(200, 'GET', '/v1/openapi.json', { headers: { 'if-none-match': '"old"' } });
  });

  test('compresses the document for clients that accept it', async () => {
    const ask = (accepted: string) =>
      fetch(`${inject('baseUrl')}/v1/openapi.json`, { method: 'HEAD', headers: { 'accept-encoding': accepted } });
    const [compressed, plain, refused] = await Promise.all([ask('br, gzip'), ask('identity'), ask('gzip;q=0')]);
    expect(compressed.headers.get('content-encoding')).toBe('gzip');
    expect(compressed.headers.get('vary')).toBe('Accept-Encoding');
    expect(plain.headers.get('content-encoding')).toBeNull();
    expect(refused.headers.get('content-encoding')).toBeNull();
  });

  test('rejects unknown query parameters of the OpenAPI document', async () => {
    const { body } = await expectStatus(400, 'GET', '/v1/openapi.json', { query: { format: 'yaml' } });
    expect(body.error.details.fields[0]).toMatchObject({ field: 'format', code: 'UNKNOWN_FIELD' });
  });
});

interface Sample {
  lang: string;
  label: string;
  source: string;
}

const listSamples = (operation: DeclaredOperation) =>
  (operation.declared['x-codeSamples'] as Sample[]).filter(({ lang }) => lang === 'Shell');

/** Returns the request that curl would send if a shell ran the sample. */
function readSample({ source }: Sample): { method: string; path: string; headers: Headers; body: string | undefined } {
  const variables = 'API_KEY=the-key SESSION_TOKEN=the-token ACCESS_TOKEN=the-access-token';
  const shell = spawnSync('bash', ['-c', `curl() { printf '%s\\0' "$@"; }; ${variables}; ${source}`], {
    encoding: 'utf8',
  });
  expect(shell.stderr).toBe('');
  const words = shell.stdout.split('\0').slice(0, -1);
  const listValues = (option: string) => words.filter((_, index) => words[index - 1] === option);
  const body = listValues('-d')[0] ?? (listValues('--data-urlencode').join('&') || undefined);
  const url = new URL(words.find((word) => word.startsWith('http://127.0.0.1:8080/')) ?? '');
  return {
    method: listValues('-X')[0] ?? (body === undefined && listValues('-F').length === 0 ? 'GET' : 'POST'),
    path: url.pathname,
    headers: new Headers(listValues('-H').map((line) => line.split(': ') as [string, string])),
    body,
  };
}

describe('the curl samples', () => {
  test.each(operations.map((operation) => [operation.id, operation] as const))(
    'has a curl sample for %s that works when pasted',
    (id, operation) => {
      expect(listSamples(operation).length).toBeGreaterThan(0);
      const { security = [], requestBody } = operation.declared;
      const [scheme] = Object.keys(security[0] ?? {});
      const media = Object.entries((requestBody as OpenAPIV3_1.RequestBodyObject | undefined)?.content ?? {})[0];
      for (const sample of listSamples(operation)) {
        const read = readSample(sample);
        expect(findOperation(read.method, read.path)?.id).toBe(id);
        expect(read.headers.get('x-api-key')).toBe(scheme === 'apiKey' ? 'the-key' : null);
        if (scheme === 'session') expect(read.headers.get('authorization')).toBe('Bearer the-token');
        // curl itself sets the type of a form.
        if (media?.[0] === 'application/json' && !sample.source.includes(" -F '")) {
          expect(read.headers.get('content-type')).toBe('application/json');
          const examples = [
            media[1].example,
            ...Object.values(media[1].examples ?? {}).map((each) => ('value' in each ? each.value : undefined)),
          ];
          expect(examples).toContainEqual(JSON.parse(read.body ?? ''));
        }
        if (operation.declared['x-idempotency'] === 'required')
          expect(read.headers.get('idempotency-key')).toMatch(/^[A-Za-z0-9_.:@+-]{8,255}$/);
      }
    },
  );

  test('signs up with the curl sample of the signup', async () => {
    const [sample] = listSamples(operations.find(({ id }) => id === 'createOnboarding') as DeclaredOperation);
    const { method, path, headers, body } = readSample(sample as Sample);
    const answer = await expectStatus(201, method, path, { headers: Object.fromEntries(headers), rawBody: body ?? '' });
    expect(answer.body.data.user.email).toBe('sara@bluelake.example');
  });
});

const followed = (part: object | undefined): unknown =>
  part && '$ref' in part ? followed(resolve(part.$ref as string) as object) : part;

/** Lists of the service itself, which are not data of a workspace. */
const tables = new Set(['listErrorCodes', 'listScopes', 'listChangelogEntries']);

test.each(operations.filter(({ id }) => id.startsWith('list') && !tables.has(id)))(
  'returns next_cursor and has_more from $id, paged or not',
  ({ declared }) => {
    const answer = followed(declared.responses?.['200']) as { content: { 'application/json': { schema: object } } };
    const body = followed(answer.content['application/json'].schema) as Schema;
    const data = followed(body.properties?.data) as Schema;
    expect(data.required).toEqual(expect.arrayContaining(['next_cursor', 'has_more']));
  },
);
