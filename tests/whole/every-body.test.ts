// Bodies and queries of every operation: unreadable ones, and fields that the spec does not have.
import { beforeAll, describe, expect, test } from 'vitest';
import { type CallOptions, call } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { credentialFor, goodRequest, newWideTenant } from '../support/requests.ts';
import { bodyIsRequired, bodySchema, takesArray } from '../support/schemas.ts';
import type { Tenant } from '../support/tenants.ts';
import { changesBy, exempt, expectFailure, oneOfEach, withBody } from '../support/walk.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
});

/** Extensions of the spec that affect how a body is read or how it is rejected. */
const readingBodies = ['x-answer', 'x-uniform-refusal', 'x-validation-status', 'x-tenant-fields', 'x-idempotency'];

describe('an unreadable body', () => {
  const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) });
  const manyKeys = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`k${index}`, 1]));
  const cases: [string, string, Partial<CallOptions>][] = [
    ['text that is not JSON', 'malformed_json', { rawBody: '{' }],
    ['JSON with something after it', 'malformed_json', { rawBody: '{} {}' }],
    ['a comment', 'malformed_json', { rawBody: '{} // yes' }],
    ['a single quote', 'malformed_json', { rawBody: "{'a': 1}" }],
    ['NaN', 'malformed_json', { rawBody: '{"a": NaN}' }],
    [
      'bytes that are not UTF-8',
      'malformed_json',
      { rawBody: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]) },
    ],
    ['a byte order mark', 'malformed_json', { rawBody: Buffer.from('\ufeff{}') }],
    ['plain text', 'unsupported_media_type', { rawBody: '{}', headers: { 'content-type': 'text/plain' } }],
    [
      'a form',
      'unsupported_media_type',
      { rawBody: 'a=1', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    ],
    [
      'another charset',
      'unsupported_media_type',
      { rawBody: '{}', headers: { 'content-type': 'application/json; charset=iso-8859-1' } },
    ],
    ['a compressed body', 'unsupported_media_type', { rawBody: '{}', headers: { 'content-encoding': 'gzip' } }],
    ['102,401 bytes', 'body_too_large', { rawBody: `{${' '.repeat(102_399)}}` }],
    ['6 levels of objects', 'nesting_too_deep', { rawBody: JSON.stringify(nested(6)) }],
    ['6 levels of arrays', 'nesting_too_deep', { rawBody: '{"a": [[[[[[1]]]]]]}' }],
    ['101 keys', 'too_many_keys', { rawBody: JSON.stringify(manyKeys) }],
  ];

  const scalars = ['"x"', '1', 'null', 'true'];

  // Bodies are read before the operation matters. All cases run for one operation of each kind that
  // could differ, and one case of each reason for the others.
  const thorough = oneOfEach(withBody, (operation) => [
    takesArray(operation),
    bodyIsRequired(operation),
    ...readingBodies.map((extension) => operation.declared[extension]),
  ]);
  const oneOfEachReason = [...new Map(cases.map((each) => [each[1], each])).values()];

  test.each(withBody)(
    'rejects every unreadable body of $id with its reason and without field names',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const { body: _body, ...rest } = options;
      const isThorough = thorough.includes(operation);
      const others = takesArray(operation) ? [] : isThorough ? [...scalars, '[]'] : ['[]'];
      const all = [
        ...(isThorough ? cases : oneOfEachReason),
        ...others.map((rawBody) => [rawBody, 'malformed_json', { rawBody }] as const),
      ];
      for (const [what, reason, junk] of all) {
        // Each case has its own credential, because a key may allow fewer calls than there are.
        const answer = await call(operation.method, path, {
          ...rest,
          ...(await credentialFor(operation, tenant)),
          ...junk,
        });
        expectFailure(operation, answer, 400, 'VALIDATION_ERROR');
        if (exempt.envelope.includes(operation.id)) continue;
        expect({ what, details: answer.body.error.details }).toEqual({ what, details: { reason } });
      }
    },
  );

  test.each(withBody.filter(takesArray))(
    'rejects a body of $id that is neither a list nor an object',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const { body: _body, ...rest } = options;
      for (const rawBody of scalars) {
        const answer = await call(operation.method, path, { ...rest, rawBody });
        expectFailure(operation, answer, 422, 'VALIDATION_ERROR');
        expect(answer.body.error.details.fields).toMatchObject([{ field: '', code: 'INVALID_TYPE' }]);
        expect(await changesBy(answer)).toBe(0);
      }
    },
  );

  test.each(withBody.filter(bodyIsRequired))('rejects a missing body of $id', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const { body: _body, ...rest } = options;
    expectFailure(operation, await call(operation.method, path, rest), 400, 'VALIDATION_ERROR');
  });

  test.each(withBody.filter((operation) => !bodyIsRequired(operation)))(
    'accepts no body for $id',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const { body: _body, ...rest } = options;
      const answer = await call(operation.method, path, rest);
      expect(answer.status).toBeLessThan(300);
    },
  );
});

describe('unknown parameters and fields', () => {
  test.each(operations)('rejects an unknown query parameter of $id by name', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const answer = await call(operation.method, path, { ...options, query: { ...options.query, zzz: '1' } });
    expectFailure(operation, answer, 400, 'VALIDATION_ERROR');
    if (!exempt.envelope.includes(operation.id))
      expect(answer.body.error.details.fields).toMatchObject([{ field: 'zzz', code: 'UNKNOWN_FIELD' }]);
  });

  test.each(withBody)('rejects an unknown body field of $id by name', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const answer = await call(operation.method, path, { ...options, body: { ...(options.body as object), zzz: 1 } });
    const exempted = [...exempt.naming, ...exempt.envelope].includes(operation.id);
    expectFailure(operation, answer, exempted ? 400 : 422, 'VALIDATION_ERROR');
    if (!exempted) expect(answer.body.error.details.fields).toMatchObject([{ field: 'zzz', code: 'UNKNOWN_FIELD' }]);
    expect(await changesBy(answer)).toBe(0);
  });

  const guardedFields = withBody.flatMap((operation) =>
    Object.entries(bodySchema(operation)?.properties ?? {}).flatMap(([field, schema]) => {
      const code = schema.readOnly ? 'READ_ONLY' : schema['x-immutable'] ? 'IMMUTABLE' : undefined;
      return code ? [{ id: operation.id, operation, field, code }] : [];
    }),
  );
  test.skipIf(guardedFields.length === 0).each(guardedFields)(
    'rejects $field of $id with $code',
    async ({ operation, field, code }) => {
      const { path, options } = await goodRequest(operation, tenant);
      const answer = await call(operation.method, path, {
        ...options,
        body: { ...(options.body as object), [field]: 'x' },
      });
      expectFailure(operation, answer, 422, 'VALIDATION_ERROR');
      expect(answer.body.error.details.fields).toMatchObject([{ field, code }]);
      expect(await changesBy(answer)).toBe(0);
    },
  );
});
