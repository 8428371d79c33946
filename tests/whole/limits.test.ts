// Limits of requests, fields and parameters, tested one below, at and one above each.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Bound, bodyBounds, listBounds } from '../support/bounds.ts';
import { type Answer, anyAddress, call } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { recordSomeChange } from '../support/feeds.ts';
import { exchange, requestText } from '../support/raw-connection.ts';
import { goodRequest, newWideTenant } from '../support/requests.ts';
import { bodySchema, queryParameters } from '../support/schemas.ts';
import { platformKeys, type Tenant } from '../support/tenants.ts';
import { exempt, honouring, withBody } from '../support/walk.ts';

/**
 * Bounds that no value can show, because another rule of the field rejects it first. The list may
 * only shrink.
 */
const shadowed = new Set([
  // No IANA name has 64 characters.
  'createOnboarding company.timezone',
  'createOnboardingAsPlatform company.timezone',
  // The cap cannot be below the reservation time.
  'createSchedulingPolicy reservation_hard_cap_seconds',
  'updateSchedulingPolicy reservation_hard_cap_seconds',
  // The schema names sms as the first channel, which allows 1,600 characters.
  'updateCampaign channels[0].body',
]);

let tenant: Tenant;
let platformKey: () => string;

beforeAll(async () => {
  tenant = await newWideTenant();
  platformKey = await platformKeys();
  await recordSomeChange(tenant.key);
});

/** Sends a body with check-email. The reason in the error shows whether the body was read. */
async function reasonFor(rawBody: string): Promise<string | undefined> {
  const answer = await call('POST', '/v1/check-email', { key: platformKey(), rawBody });
  return answer.body.error?.details?.reason;
}

describe('every body', () => {
  test.each([
    [102_399, undefined],
    [102_400, undefined],
    [102_401, 'body_too_large'],
  ])('rejects a body of %i bytes of spaces or text for its size: %s', async (bytes, reason) => {
    const short = JSON.stringify({ email: 'sara@example.com' });
    expect(await reasonFor(short + ' '.repeat(bytes - short.length))).toBe(reason);
    expect(await reasonFor(' '.repeat(bytes - short.length) + short)).toBe(reason);
    const start = '{"email":"';
    expect(await reasonFor(`${start}${'a'.repeat(bytes - start.length - 2)}"}`)).toBe(reason);
    // The limit counts bytes, not characters.
    const wide = '€'.repeat((bytes - start.length - 2) / 3);
    const padding = ' '.repeat(bytes - start.length - 2 - Buffer.byteLength(wide));
    expect(await reasonFor(`${start}${wide}"}${padding}`)).toBe(reason);
  });

  test('counts a chunked body as it arrives', async () => {
    const chunked = async (bytes: number): Promise<number> => {
      const headers = {
        'x-api-key': platformKey(),
        'content-type': 'application/json',
        'transfer-encoding': 'chunked',
      };
      const text = JSON.stringify({ email: 'sara@example.com' }).padEnd(bytes);
      const chunks = text.match(/.{1,10000}/gs) ?? [];
      const body = `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`;
      return (await exchange(Buffer.concat([requestText('POST', '/v1/check-email', headers), Buffer.from(body)])))
        .status;
    };
    expect([await chunked(102_399), await chunked(102_400), await chunked(102_401)]).toEqual([200, 200, 400]);
  });

  const objects = (levels: number): string => '{"a":'.repeat(levels) + 1 + '}'.repeat(levels);
  test.each([
    ['4 levels of objects', objects(4), undefined],
    ['5 levels of objects', objects(5), undefined],
    ['6 levels of objects', objects(6), 'nesting_too_deep'],
    ['5 levels of objects with arrays between them', '{"a":[{"a":[{"a":[{"a":[{"a":[1]}]}]}]}]}', undefined],
    ['6 levels of objects with arrays between them', '{"a":[{"a":[{"a":[{"a":[{"a":{}}]}]}]}]}', 'nesting_too_deep'],
    ['4 levels of arrays', '{"a":[[[[1]]]]}', undefined],
    ['5 levels of arrays', '{"a":[[[[[1]]]]]}', undefined],
    ['6 levels of arrays', '{"a":[[[[[[1]]]]]]}', 'nesting_too_deep'],
    ['an empty object at level 5', `${'{"a":'.repeat(4)}{}${'}'.repeat(4)}`, undefined],
    ['an empty object at level 6', `${'{"a":'.repeat(5)}{}${'}'.repeat(5)}`, 'nesting_too_deep'],
    ['50,000 levels of arrays', `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`, 'nesting_too_deep'],
    ['15,000 levels of objects', '{"a":'.repeat(15_000) + 1 + '}'.repeat(15_000), 'nesting_too_deep'],
  ])('rejects a body of %s for its depth: %s', async (_, body, reason) => {
    expect(await reasonFor(body)).toBe(reason);
  });

  const inFilter = (levels: number): string => `{"and":[${'{"not":'.repeat(levels - 1)}1${'}'.repeat(levels - 1)}]}`;
  test.each([
    ['/v1/views', '"filter"', ''],
    ['/v1/exports', '"filter"', ''],
    ['/v1/webhooks', '"filter"', ''],
    ['/v1/campaigns', '"filter"', ''],
    ['/v1/reports/query', '"filter"', ''],
    ['/v1/reports/saved', '"config":{"filter"', '}'],
    ['/v1/workforces', '"stop_when"', ''],
    ['/v1/workforces', '"steps":[{"condition"', '}]'],
  ])('counts 6 levels of objects in a filter on its own, of POST %s with %s', async (path, before, after) => {
    const findReason = async (rawBody: string): Promise<string | undefined> =>
      (await call('POST', path, { key: tenant.key, rawBody, idempotencyKey: true })).body.error.details.reason;
    expect(await findReason(`{${before}:${inFilter(6)}${after}}`)).not.toBe('nesting_too_deep');
    expect(await findReason(`{${before}:${inFilter(7)}${after}}`)).toBe('nesting_too_deep');
    expect(await findReason(`{${before}:{"and":[[[[[1]]]]]}${after}}`)).not.toBe('nesting_too_deep');
    expect(await findReason(`{${before}:{"and":[[[[[[1]]]]]]}${after}}`)).toBe('nesting_too_deep');
    // Other members count as before, also if they have the name of a filter.
    const other = `{"other":{${before}:${inFilter(6)}${after}}}`;
    expect(await findReason(other)).toBe('nesting_too_deep');
  });

  const keys = (count: number): string => `{${Array.from({ length: count }, (_, index) => `"k${index}":1`).join(',')}}`;
  test.each([
    [99, undefined],
    [100, undefined],
    [101, 'too_many_keys'],
  ])('rejects a body with %i keys in one object at any level: %s', async (count, reason) => {
    expect(await reasonFor(keys(count))).toBe(reason);
    expect(await reasonFor(`{"a":${keys(count)}}`)).toBe(reason);
    expect(await reasonFor(`{"a":[${keys(count)}]}`)).toBe(reason);
  });

  test('counts keys per object, not in total', async () => {
    expect(await reasonFor(`{"a":${keys(100)},"b":${keys(100)}}`)).toBeUndefined();
  });
});

describe('every request', () => {
  const send = async (request: string): Promise<[number, string | undefined]> => {
    const { status, body } = await exchange(request);
    return [status, JSON.parse(body).error?.details.reason];
  };

  test('accepts at most 16 KB of header names and values', async () => {
    const ask = (bytes: number) => {
      const others = `Host: a\r\nX-Forwarded-For: ${anyAddress()}\r\n`;
      const padding = 'a'.repeat(bytes - others.replaceAll(/: |\r\n/g, '').length - 'X-Padding'.length);
      return send(`GET /v1/health HTTP/1.1\r\n${others}X-Padding: ${padding}\r\n\r\n`);
    };
    expect([await ask(16_383), await ask(16_384)]).toEqual(Array(2).fill([200, undefined]));
    expect([await ask(16_385), await ask(100_000), await ask(300_000)]).toEqual(
      Array(3).fill([400, 'headers_too_large']),
    );
  });

  test('accepts at most 160 KB of request target', async () => {
    const ask = (length: number) => {
      const address = `/v1/health?${'a'.repeat(length - '/v1/health?'.length)}`;
      return send(`GET ${address} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${anyAddress()}\r\n\r\n`);
    };
    // An unknown parameter gets a different error.
    expect([await ask(163_839), await ask(163_840)]).toEqual(Array(2).fill([400, undefined]));
    expect([await ask(163_841), await ask(170_000)]).toEqual(Array(2).fill([400, 'uri_too_long']));
  });

  test.each([
    ['a', 1],
    ['ж', 6],
    ['木', 9],
    ['🌳', 12],
  ])('accepts a filter of 12,000 times %s, which takes %i bytes each in the address', async (letter, bytes) => {
    const around = JSON.stringify({ field: 'name', op: 'eq', value: '' });
    const filter = around.replace('""', `"${letter.repeat(12_000 - around.length)}"`);
    const address = `/v1/objects/accounts/records?filter=${encodeURIComponent(filter)}`;
    expect(address.length).toBeGreaterThan(11_900 * bytes);
    const { status, body } = await call('GET', address, { key: tenant.key });
    expect([status, body.error?.details.fields?.[0]?.code]).not.toEqual([400, 'TOO_LONG']);
    expect(status === 200 || body.error.details.fields[0].field.startsWith('filter')).toBe(true);
  });
});

describe.skipIf(honouring.length === 0)('Idempotency-Key', () => {
  test.each(honouring)('accepts Idempotency-Keys of 8 to 255 characters in $id', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const accepted = async (length: number): Promise<boolean> => {
      const idempotencyKey = randomUUID().repeat(8).slice(0, length);
      const { body } = await call(operation.method, path, { ...options, idempotencyKey });
      return body.error?.details?.reason !== 'invalid_idempotency_key';
    };
    const lengths = [7, 8, 9, 254, 255, 256];
    expect(await Promise.all(lengths.map(accepted))).toEqual([false, true, true, true, true, false]);
  });

  test('accepts every allowed character in an Idempotency-Key', async () => {
    const [operation] = honouring as [DeclaredOperation];
    const { path, options } = await goodRequest(operation, tenant);
    const idempotencyKey = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:@+-${randomUUID()}`;
    const { status } = await call(operation.method, path, { ...options, idempotencyKey });
    expect(status).toBeLessThan(300);
  });
});

describe('fields of the spec', () => {
  /** Returns the codes of the problems of a field. */
  const codesFor = (answer: Answer, field: string): string[] =>
    ((answer.body?.error?.details?.fields ?? []) as { field: string; code: string }[])
      .filter((problem) => problem.field === field)
      .map((problem) => problem.code);

  const unnamed = [...exempt.naming, ...exempt.envelope];

  /** Returns a description if the response to a value at a bound is wrong. */
  function mistakeIn(operation: DeclaredOperation, bound: Bound, answer: Answer): string | undefined {
    const name = `${operation.id} ${bound.field}`;
    const codes = codesFor(answer, bound.field);
    // Beyond a bound, a more specific rule may reject the value. Within it, the bound must not.
    const named = bound.allowed ? codes.includes(bound.code) : codes.length > 0;
    const refused = unnamed.includes(operation.id) ? answer.status === 400 : named;
    if (refused === !bound.allowed || shadowed.has(name)) return undefined;
    return `${name}, ${bound.rule}: ${refused ? 'refused' : 'not refused'} with ${answer.status} ${answer.text.slice(0, 300)}`;
  }

  const schemas = new Set<unknown>();
  // Operations with the same body share its validation, so one of them is tested.
  const bounded = withBody.filter((operation) => {
    const { properties } = bodySchema(operation) ?? {};
    const isNew = !schemas.has(properties);
    schemas.add(properties);
    return isNew && bodyBounds(operation).length > 0;
  });
  test.each(bounded)('enforces the bounds of the body of $id exactly', async (operation) => {
    const bounds = bodyBounds(operation);
    const mistakes: (string | undefined)[] = [];
    const work = async (): Promise<void> => {
      for (let bound = bounds.pop(); bound; bound = bounds.pop()) {
        // Each value has its own request, because some accept an address or a name only once.
        const { path, options } = await goodRequest(operation, tenant);
        const answer = await call(operation.method, path, { ...options, body: bound.fillIn(options.body) });
        mistakes.push(mistakeIn(operation, bound, answer));
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    expect(mistakes.filter(Boolean)).toEqual([]);
  });

  const asked = operations.filter((operation) =>
    queryParameters(operation).some(({ name, schema }) => listBounds(schema, name).length > 0),
  );
  test.skipIf(asked.length === 0).each(asked)('enforces the bounds of the query of $id exactly', async (operation) => {
    for (const { name, schema } of queryParameters(operation)) {
      for (const bound of listBounds(schema, name)) {
        const { path, options } = await goodRequest(operation, tenant);
        const query = { ...options.query, [name]: String(bound.value) };
        expect(mistakeIn(operation, bound, await call(operation.method, path, { ...options, query }))).toBeUndefined();
      }
    }
  });
});
