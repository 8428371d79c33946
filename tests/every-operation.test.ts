// What holds for every operation of the document, walked from the document itself: a new operation is covered the day it is written.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { arrangedPaths, type Mode, newObject, plausible } from './support/arranged-ids.ts';
import { type Answer, type CallOptions, call } from './support/client.ts';
import { type DeclaredOperation, document, operations } from './support/document.ts';
import { exchange, requestText } from './support/raw.ts';
import {
  alternativesOf,
  credentialFor,
  exampleBody,
  fillPath,
  goodRequest,
  isForPlatform,
  newWideTenant,
  pathParameters,
} from './support/requests.ts';
import { bodyExamples, bodyIsRequired, bodySchema, takesArray } from './support/schemas.ts';
import { database, newKey, type Tenant } from './support/tenants.ts';

/**
 * Operations that a rule below leaves out, each with its reason. These lists may only shrink: an operation that breaks a
 * rule is mended, not listed.
 */
const exempt = {
  /** Answers for a tool of its own, not for API callers: RFC 6749 names its failures. */
  envelope: operations
    .filter((operation) => operation.declared['x-answer'] === 'oauth')
    .map((operation) => operation.id),
  /** Says the same whatever is wrong, so that nobody learns who has an account. */
  naming: operations.filter((operation) => operation.declared['x-uniform-refusal']).map((operation) => operation.id),
} as const;

let tenant: Tenant;
let other: Tenant;
/** One with so many keys that no more can be minted. */
let crowded: Tenant;

beforeAll(async () => {
  [tenant, other, crowded] = await Promise.all([newWideTenant(), newWideTenant(), newWideTenant()]);
});

const guarded = operations.filter((operation) => alternativesOf(operation).length > 0);
const openedByKey = guarded.filter((operation) => alternativesOf(operation).some(({ scheme }) => scheme === 'apiKey'));
const openedBySession = guarded.filter((operation) =>
  alternativesOf(operation).some(({ scheme }) => scheme === 'session'),
);
const withBody = operations.filter((operation) => bodySchema(operation) !== undefined);
const withIds = operations.filter((operation) => pathParameters(operation.path).length > 0);
const honouring = operations.filter((operation) => operation.declared['x-idempotency'] !== undefined);

/** A path with well-formed values that name nothing: for what is decided before anything is looked up. */
function anyPath(operation: DeclaredOperation, values: Record<string, string> = {}): string {
  const filled = pathParameters(operation.path).map((name) => [name, plausible[name] ?? uuidv7()]);
  return fillPath(operation.path, { ...Object.fromEntries(filled), ...values });
}

/** Expects a failure of the catalogue; operations with failures of their own kind are held to the status. */
function expectFailure(
  operation: DeclaredOperation,
  answer: Answer,
  status: number,
  code: string,
  details?: Record<string, unknown>,
): void {
  expect({ status: answer.status, answer: answer.text }).toMatchObject({ status });
  if (exempt.envelope.includes(operation.id)) {
    expect(answer.body).toEqual({ error: expect.any(String), error_description: expect.any(String) });
  } else expect(answer.body.error).toMatchObject({ code, ...(details ? { details } : {}) });
}

test('every example of the document is accepted', async () => {
  const examples = operations.flatMap((operation) =>
    Array.from({ length: Math.max(1, bodyExamples(operation).length) }, (_, index) => ({ operation, index })),
  );
  for (const { operation, index } of examples) {
    const { path, options } = await goodRequest(operation, tenant);
    const body = await exampleBody(operation, tenant, 'live', index);
    const answer = await call(operation.method, path, { ...options, ...(body === undefined ? {} : { body }) });
    expect({ operation: operation.id, status: answer.status, answer: answer.text }).toMatchObject({
      status: expect.toSatisfy((status: number) => status >= 200 && status < 300),
    });
  }
});

test('every path with parameters says in tests/support/arranged-ids.ts what exists under it', () => {
  expect(withIds.map((operation) => operation.path).filter((path) => !arrangedPaths[path])).toEqual([]);
});

describe('without a good credential', () => {
  test.each(guarded)('$id answers 401 and names the scheme', async (operation) => {
    const path = anyPath(operation);
    const ask = (options: CallOptions = {}): Promise<Answer> => call(operation.method, path, options);
    const missing = await ask();
    expectFailure(operation, missing, 401, 'MISSING_API_KEY');
    expect(missing.headers.get('www-authenticate')).toBe('Bearer');
    const refused = {
      AUTH_INVALID_KEY: [`svc_live_${'0'.repeat(32)}`, 'svc_live_0', '', 'nonsense', `${tenant.key} `.repeat(2)],
      API_KEY_REVOKED: [await newKey(tenant, { revokedAt: new Date(Date.now() - 1000) })],
      API_KEY_EXPIRED: [await newKey(tenant, { expiresAt: new Date(Date.now() - 1000) })],
    };
    for (const [code, keys] of Object.entries(refused)) {
      for (const key of keys) {
        const answer = await ask({ key });
        expectFailure(operation, answer, 401, code);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      }
    }
    for (const token of ['', 'nonsense', 'e30.e30.e30']) {
      const answer = await ask({ headers: { authorization: `Bearer ${token}` } });
      expectFailure(operation, answer, 401, 'AUTH_INVALID_KEY');
      expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
    }
  });

  test.each(openedByKey)(
    '$id answers 403 IP_NOT_ALLOWED to an address outside the allowlist of a key',
    async (operation) => {
      const key = await newKey(tenant, { ipAllowlist: ['192.0.2.0/24'] });
      const answer = await call(operation.method, anyPath(operation), { key, ip: '198.51.100.7' });
      expectFailure(operation, answer, 403, 'IP_NOT_ALLOWED', {});
    },
  );
});

describe('scopes', () => {
  const legacy: Record<string, string> = {
    'leads:read': 'leads:view',
    'leads:write': 'leads:create',
    'customers:read': 'customers:view',
    'customers:write': 'customers:create',
    'activities:read': 'activities:view',
    'activities:write': 'activities:create',
    'activities:update': 'activities:edit',
  };
  /** What the specification says that a scope of a key grants. */
  const grants = (held: string, needed: string): boolean => {
    if (needed === 'onboarding' || held === 'onboarding') return held === needed;
    if (held === '*') return true;
    const wanted = legacy[needed] ?? needed;
    if (held.endsWith(':*')) return wanted.slice(0, wanted.lastIndexOf(':')) === held.slice(0, -2);
    return (legacy[held] ?? held) === wanted;
  };
  const actions = ['view', 'create', 'edit', 'delete', 'configure', '*'];
  const modules = new Set(
    openedByKey.flatMap((operation) =>
      alternativesOf(operation).flatMap(({ scopes }) =>
        scopes
          .filter((scope) => scope.includes(':'))
          .map((scope) => scope.replace('{object}', 'accounts').split(':')[0] ?? ''),
      ),
    ),
  );

  test.each(openedByKey)(
    '$id is opened by the scopes that the document lists for it, and by no others',
    async (operation) => {
      const custom = await newObject(crowded);
      const objects = operation.path.includes('{object}') ? ['accounts', custom] : [''];
      for (const object of objects) {
        const path = anyPath(operation, object ? { object } : {});
        const alternatives = alternativesOf(operation)
          .filter(({ scheme }) => scheme === 'apiKey')
          .map(({ scopes }) =>
            scopes.map((scope) => ({ scope: scope.replace('{object}', object), ofObject: scope.startsWith('{') })),
          );
        const held = [
          '*',
          'onboarding',
          ...Object.keys(legacy),
          ...[...modules, custom].flatMap((module) => actions.map((action) => `${module}:${action}`)),
        ];
        // Alone, and beside the right to see the object, without which it does not exist.
        const sets = held.flatMap((scope) => (object ? [[scope], [`${object}:view`, scope]] : [[scope]]));
        for (const scopes of sets) {
          const has = (needed: string): boolean => scopes.some((scope) => grants(scope, needed));
          const hidden =
            alternatives.some((needed) => needed.some(({ ofObject }) => ofObject)) && !has(`${object}:view`);
          const lacking = alternatives.map((needed) => needed.map(({ scope }) => scope).filter((scope) => !has(scope)));
          const opened = lacking.some((missing) => missing.length === 0);
          // An unknown query parameter is refused right behind this door, before anything happens.
          const answer = await call(operation.method, path, {
            key: await newKey(crowded, { scopes }),
            query: { zzz: 'zzz' },
          });
          const expected = hidden ? 404 : opened ? 400 : 403;
          expect({ scopes, object, status: answer.status }).toEqual({ scopes, object, status: expected });
          if (expected === 403) {
            expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE');
            expect(answer.body.error.details.required_scopes.toSorted()).toEqual(
              [...new Set(lacking.flat())].toSorted(),
            );
          }
        }
      }
    },
  );

  const ofModule = openedByKey.filter((operation) =>
    alternativesOf(operation).some(({ scopes }) => scopes.some((scope) => scope.includes(':'))),
  );
  test.each(ofModule)(
    '$id answers 403 MODULE_DISABLED while an administrator has its module switched off',
    async (operation) => {
      const [scope = ''] = alternativesOf(operation).find(({ scheme }) => scheme === 'apiKey')?.scopes ?? [];
      const module = scope.replace('{object}', 'accounts').split(':')[0] ?? '';
      const switchedOff = await newWideTenant();
      await database()`update companies set disabled_modules = ${[module]} where id = ${switchedOff.companyId}`;
      const answer = await call(operation.method, anyPath(operation), { key: switchedOff.key });
      expectFailure(operation, answer, 403, 'MODULE_DISABLED', { module, reason: 'disabled_by_admin' });
    },
  );

  const onlyKeys = openedByKey.filter((operation) => !openedBySession.includes(operation));
  test.skipIf(openedBySession.length === 0).each(onlyKeys)(
    '$id is not opened by a session token',
    async (operation) => {
      const session = openedBySession[0] as DeclaredOperation;
      const answer = await call(
        operation.method,
        anyPath(operation),
        await credentialFor({ ...session, id: '' }, tenant),
      );
      expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { reason: 'api_key_required' });
    },
  );

  const onlySessions = openedBySession.filter((operation) => !openedByKey.includes(operation));
  test.each(onlySessions)('$id is not opened by an API key with every scope', async (operation) => {
    const answer = await call(operation.method, anyPath(operation), { key: tenant.key });
    expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { reason: 'session_token_required' });
  });

  test.each(operations.filter((operation) => operation.declared['x-live-only']))(
    '$id refuses a test key, since both modes share what it changes',
    async (operation) => {
      const answer = await call(operation.method, anyPath(operation), { key: tenant.testKey });
      expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { reason: 'live_key_required' });
    },
  );
});

describe.skipIf(withIds.length === 0)('ids that this caller cannot see', () => {
  const malformed = [
    'x',
    '0',
    '%',
    ' ',
    'a/b',
    '\0',
    '{}',
    "' or 1=1 --",
    '019a9f5e-7c1b-7cc3-8f3a',
    '😀',
    'x'.repeat(300),
  ];

  async function hiddenPaths(operation: DeclaredOperation, mode: Mode): Promise<[string, Record<string, string>][]> {
    const arranged = arrangedPaths[operation.path];
    if (!arranged) return [];
    const own = await arranged.exists(tenant, mode);
    const foreign = arranged.foreign ?? arranged.exists;
    const hidden: [string, Record<string, string>][] = [
      ["another tenant's live id", await foreign(other, 'live')],
      ["another tenant's test id", await foreign(other, 'test')],
    ];
    if (!arranged.shared)
      hidden.push(['an id of the other mode', await arranged.exists(tenant, mode === 'live' ? 'test' : 'live')]);
    for (const [name, value] of Object.entries(own)) {
      const isUuid = /^[0-9a-f]{8}-/.test(value);
      const random = isUuid
        ? [randomUUID(), uuidv7(), '00000000-0000-0000-0000-000000000000']
        : [`object:${randomUUID().slice(0, 8)}`, `a${randomUUID().slice(0, 8)}`];
      const spelled = isUuid
        ? [`urn:uuid:${value}`, `{${value}}`, value.replaceAll('-', ''), `${value}0`]
        : [`${value}x`, value.toUpperCase()];
      for (const text of [...random, ...spelled, ...malformed])
        hidden.push([`${name} ${JSON.stringify(text.slice(0, 60))}`, { [name]: text }]);
    }
    return hidden.map(([what, values]) => [what, { ...own, ...values }]);
  }

  test.each(withIds)('$id answers the same 404 for all of them', async (operation) => {
    const liveOnly = operation.declared['x-live-only'] === true || !openedByKey.includes(operation);
    const modes: Mode[] = liveOnly ? ['live'] : ['live', 'test'];
    for (const mode of modes) {
      const legacyKey = await newKey(tenant, { environment: mode, legacy: true });
      for (const [what, values] of await hiddenPaths(operation, mode)) {
        const { path, options } = await goodRequest(operation, tenant, mode, values);
        for (const credential of options.key ? [{}, { key: legacyKey }] : [{}]) {
          const { status, body } = await call(operation.method, path, { ...options, ...credential });
          expect({ what, mode, status, body: { ...body, meta: Object.keys(body?.meta ?? {}) } }).toEqual({
            what,
            mode,
            status: 404,
            body: {
              success: false,
              error: { code: 'NOT_FOUND', message: 'There is no such resource.' },
              meta: ['request_id', 'timestamp'],
            },
          });
        }
      }
    }
  });
});

describe('a body that cannot be read', () => {
  const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) });
  const manyKeys = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`k${index}`, 1]));
  const cases: [string, string, Partial<CallOptions>][] = [
    ['text that is not JSON', 'malformed_json', { rawBody: '{' }],
    ['JSON with something after it', 'malformed_json', { rawBody: '{} {}' }],
    ['a comment', 'malformed_json', { rawBody: '{} // yes' }],
    ['a single quote', 'malformed_json', { rawBody: "{'a': 1}" }],
    ['NaN', 'malformed_json', { rawBody: '{"a": NaN}' }],
    ['a text', 'malformed_json', { rawBody: '"x"' }],
    ['a number', 'malformed_json', { rawBody: '1' }],
    ['null', 'malformed_json', { rawBody: 'null' }],
    ['true', 'malformed_json', { rawBody: 'true' }],
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

  test.each(withBody)('$id refuses it with its reason, and without naming fields', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const { body: _body, ...rest } = options;
    const all = takesArray(operation) ? cases : [...cases, ['an array', 'malformed_json', { rawBody: '[]' }] as const];
    for (const [what, reason, junk] of all) {
      const answer = await call(operation.method, path, { ...rest, ...junk });
      expectFailure(operation, answer, 400, 'VALIDATION_ERROR');
      if (exempt.envelope.includes(operation.id)) continue;
      expect({ what, details: answer.body.error.details }).toEqual({ what, details: { reason } });
    }
  });

  test.each(withBody.filter(bodyIsRequired))('$id refuses a missing body', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const { body: _body, ...rest } = options;
    expectFailure(operation, await call(operation.method, path, rest), 400, 'VALIDATION_ERROR');
  });

  test.each(withBody.filter((operation) => !bodyIsRequired(operation)))(
    '$id accepts no body at all',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const { body: _body, ...rest } = options;
      const answer = await call(operation.method, path, rest);
      expect(answer.status).toBeLessThan(300);
    },
  );
});

describe('what the document does not know', () => {
  test.each(operations)('$id refuses an unknown query parameter and names it', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const answer = await call(operation.method, path, { ...options, query: { ...options.query, zzz: '1' } });
    expectFailure(operation, answer, 400, 'VALIDATION_ERROR');
    if (!exempt.envelope.includes(operation.id))
      expect(answer.body.error.details.fields).toMatchObject([{ field: 'zzz', code: 'UNKNOWN_FIELD' }]);
  });

  test.each(withBody)('$id refuses an unknown field of the body and names it', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const example = (await exampleBody(operation, tenant)) as object;
    if (Array.isArray(example)) return;
    const answer = await call(operation.method, path, { ...options, body: { ...example, zzz: 1 } });
    const exempted = [...exempt.naming, ...exempt.envelope].includes(operation.id);
    expectFailure(operation, answer, exempted ? 400 : 422, 'VALIDATION_ERROR');
    if (!exempted) expect(answer.body.error.details.fields).toMatchObject([{ field: 'zzz', code: 'UNKNOWN_FIELD' }]);
  });

  const guardedFields = withBody.flatMap((operation) =>
    Object.entries(bodySchema(operation)?.properties ?? {}).flatMap(([field, schema]) => {
      const code = schema.readOnly ? 'READ_ONLY' : schema['x-immutable'] ? 'IMMUTABLE' : undefined;
      return code ? [{ id: operation.id, operation, field, code }] : [];
    }),
  );
  test.skipIf(guardedFields.length === 0).each(guardedFields)(
    '$id refuses $field with $code',
    async ({ operation, field, code }) => {
      const { path, options } = await goodRequest(operation, tenant);
      const example = (await exampleBody(operation, tenant)) as object;
      const answer = await call(operation.method, path, { ...options, body: { ...example, [field]: 'x' } });
      expectFailure(operation, answer, 422, 'VALIDATION_ERROR');
      expect(answer.body.error.details.fields).toMatchObject([{ field, code }]);
    },
  );
});

describe('methods', () => {
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE'];
  const paths = Object.keys(document.paths ?? {}).map((path) => {
    const declared = operations.filter((operation) => operation.path === path).map((operation) => operation.method);
    const allowed = [...declared, ...(declared.includes('GET') ? ['HEAD'] : []), 'OPTIONS'];
    return { path, declared, allowed };
  });

  test.each(paths)('$path answers OPTIONS with 204 and its methods', async ({ path, allowed }) => {
    const answer = await call('OPTIONS', path.replace(/\{\w+\}/g, 'x'));
    expect({ status: answer.status, text: answer.text }).toEqual({ status: 204, text: '' });
    expect(answer.headers.get('allow')?.split(', ').toSorted()).toEqual(allowed.toSorted());
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  });

  test.each(paths)(
    '$path refuses every other method with 405 and the list of its own',
    async ({ path, declared, allowed }) => {
      for (const method of methods.filter((each) => !declared.includes(each))) {
        const { status, headers, body } = await exchange(requestText(method, path.replace(/\{\w+\}/g, 'x')));
        expect({ method, status }).toEqual({ method, status: 405 });
        expect(headers.get('allow')?.split(', ').toSorted()).toEqual(allowed.toSorted());
        expect(JSON.parse(body).error).toMatchObject({
          code: 'METHOD_NOT_ALLOWED',
          details: { allowed_methods: expect.arrayContaining(allowed) },
        });
      }
    },
  );

  test.each(operations.filter((operation) => operation.method === 'GET'))(
    '$id answers HEAD as GET, without the body',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const asked = await call('GET', path, options);
      const head = await call('HEAD', path, options);
      expect({ status: head.status, text: head.text }).toEqual({ status: asked.status, text: '' });
      for (const name of ['content-type', 'content-length', 'cache-control'])
        expect([name, head.headers.get(name)]).toEqual([name, asked.headers.get(name)]);
    },
  );
});

describe.skipIf(honouring.length === 0)('idempotency keys', () => {
  test.each(honouring)(
    '$id gives the first answer again, byte for byte, for the same key and body',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      const first = await call(operation.method, path, { ...options, idempotencyKey });
      expect(first.status).toBeLessThan(300);
      expect(first.headers.get('idempotent-replay')).toBeNull();
      const reordered = JSON.stringify(options.body, null, 2);
      for (const body of [{ body: options.body }, { rawBody: reordered, body: undefined }]) {
        const again = await call(operation.method, path, { ...options, ...body, idempotencyKey });
        expect({ status: again.status, text: again.text }).toEqual({ status: first.status, text: first.text });
        expect(again.headers.get('idempotent-replay')).toBe('true');
      }
    },
  );

  test.each(honouring.filter((operation) => bodySchema(operation)))(
    '$id refuses the same key with another body',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      await call(operation.method, path, { ...options, idempotencyKey });
      const answer = await call(operation.method, path, { ...options, body: { zzz: 1 }, idempotencyKey });
      expectFailure(operation, answer, 422, 'IDEMPOTENCY_CONFLICT');
    },
  );

  test.each(honouring)('$id keeps keys apart by tenant and by mode', async (operation) => {
    const idempotencyKey = randomUUID();
    const callers: [Tenant, Mode][] = [
      [tenant, 'live'],
      [tenant, 'test'],
      [other, 'live'],
    ];
    for (const [whose, mode] of callers) {
      const { path, options } = await goodRequest(operation, whose, mode);
      const answer = await call(operation.method, path, { ...options, idempotencyKey });
      expect(answer.status).toBeLessThan(300);
      expect(answer.headers.get('idempotent-replay')).toBeNull();
    }
  });

  test.each(honouring)('$id refuses a malformed key before anything runs', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    for (const idempotencyKey of ['short-7', 'x'.repeat(256), 'with space', 'sémicolon', 'semi;colon', '']) {
      const headers = requestHeaders(options.key ?? '', Buffer.from(idempotencyKey).toString('latin1'));
      const answer = await exchange(requestText(operation.method, path, headers, JSON.stringify(options.body)));
      expect({ status: answer.status, error: JSON.parse(answer.body).error }).toMatchObject({
        status: 400,
        error: { code: 'VALIDATION_ERROR', details: { reason: 'invalid_idempotency_key' } },
      });
    }
  });

  test.each(honouring.filter((operation) => operation.declared['x-idempotency'] === 'required'))(
    '$id needs a key',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const { idempotencyKey: _key, ...rest } = options;
      const answer = await call(operation.method, path, rest);
      expectFailure(operation, answer, 428, 'IDEMPOTENCY_KEY_REQUIRED');
    },
  );

  test.each(honouring)(
    '$id answers 409 while the first call with a key still runs, and lets it finish',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      const ask = (body = options.body): Promise<Answer> =>
        call(operation.method, path, { ...options, body, idempotencyKey });
      // The place where the first call keeps its answer, taken and not yet committed: it stops in the middle.
      const held = await database().reserve();
      await held`begin`;
      await held`
      insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
      values (${tenant.companyId}, false, ${`${operation.method} ${path}`}, ${idempotencyKey}, '', 0, '', now())`;
      const first = ask();
      try {
        await vi.waitUntil(
          async () =>
            (await held`select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))`).length > 0,
        );
        const second = await ask();
        expectFailure(operation, second, 409, 'IDEMPOTENCY_IN_PROGRESS');
        expect(second.headers.get('retry-after')).toBe('1');
        if (options.body) expectFailure(operation, await ask({ zzz: 1 }), 422, 'IDEMPOTENCY_CONFLICT');
      } finally {
        await held`rollback`;
        held.release();
      }
      const done = await first;
      expect(done.status).toBeLessThan(300);
      expect((await ask()).text).toBe(done.text);
    },
  );

  const requestHeaders = (key: string, idempotencyKey: string): Record<string, string> => ({
    'x-api-key': key,
    'content-type': 'application/json',
    'idempotency-key': idempotencyKey,
  });
});

test('the platform operations are opened by no workspace key', () => {
  expect(
    guarded
      .filter(isForPlatform)
      .map((operation) => operation.path)
      .toSorted(),
  ).toEqual(['/v1/check-email', '/v1/onboard']);
});
