// Deprecated forms: their headers on every response to a call that uses one, and on no other.
import { beforeAll, describe, expect, inject, test } from 'vitest';
import {
  buildDeprecationHeaders,
  findUsedInBody,
  findUsedInQuery,
  type DeprecatedUse as ReadUse,
} from '../../runtime/openapi/deprecation.ts';
import { type Answer, call } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { goodRequest, newWideTenant } from '../support/requests.ts';
import { newKey, type Tenant } from '../support/tenants.ts';
import { anyPath } from '../support/walk.ts';

interface DeprecatedUse {
  parameter?: string;
  field?: string;
  since: string;
  sunset: string;
  link: string;
  note: string;
}

const listUses = (operation: DeclaredOperation) => (operation.declared['x-deprecated-use'] ?? []) as DeprecatedUse[];
const cases = operations.flatMap((operation) =>
  listUses(operation).map((use) => ({ id: operation.id, name: use.parameter ?? use.field ?? '', operation, use })),
);
const names = ['deprecation', 'sunset', 'link'];
const readHeaders = (answer: Answer) => names.map((name) => answer.headers.get(name));
const none = [null, null, null];

function promised(use: DeprecatedUse) {
  const day = (text: string) => new Date(`${text}T00:00:00Z`).toUTCString();
  return [
    day(use.since),
    day(use.sunset),
    expect.stringMatching(new RegExp(`^<https?://[^>]+${use.link}>; rel="deprecation"$`)),
  ];
}

/** Returns a valid request that uses the form, a different one for each call. */
async function usingCall(operation: DeclaredOperation, use: DeprecatedUse, tenant: Tenant) {
  const { path, options } = await goodRequest(operation, tenant);
  const parameter = (operation.declared.parameters as { name?: string; example?: unknown }[] | undefined)?.find(
    (each) => each.name === use.parameter,
  );
  const query = { ...options.query, ...(use.parameter ? { [use.parameter]: String(parameter?.example) } : {}) };
  return { path, options: { ...options, query } };
}

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
});

describe('deprecation headers', () => {
  test.each(cases)(
    'sends deprecation headers for $name of $id with every status, and only if it is used',
    async ({ operation, use }) => {
      const { path, options } = await usingCall(operation, use, tenant);
      const ask = (more: object = {}) => call(operation.method, path, { ...options, ...more });
      const name = use.parameter as string;
      const answers = {
        200: await ask(),
        400: await ask({ query: { ...options.query, [name]: 'x' } }),
        401: await ask({ key: undefined }),
        403: await ask({ key: await newKey(tenant, { scopes: ['billing:view'] }) }),
      };
      for (const [status, answer] of Object.entries(answers)) {
        expect(answer.status).toBe(Number(status));
        expect(readHeaders(answer)).toEqual(promised(use));
      }
      const busy = { key: await newKey(tenant, { perMinute: 1 }) };
      await ask(busy);
      const limited = await ask(busy);
      expect([limited.status, readHeaders(limited)]).toEqual([429, promised(use)]);
      const { [name]: _, ...query } = options.query;
      for (const unused of [{ query }, { query: { ...query, zzz: name } }, { query: { ...query, [`${name}s`]: '1' } }])
        expect(readHeaders(await ask(unused))).toEqual(none);
      expect(readHeaders(await ask({ query: { ...query, [name]: '' } }))).toEqual(promised(use));
    },
  );

  test.each(operations)('sends no deprecation headers for $id without a deprecated form', async (operation) => {
    const { path, options } = await goodRequest(operation, await newWideTenant());
    expect(readHeaders(await call(operation.method, path, options))).toEqual(none);
    expect(readHeaders(await call(operation.method, anyPath(operation)))).toEqual(none);
    expect(readHeaders(await call('OPTIONS', anyPath(operation)))).toEqual(none);
  });

  test('sends no deprecation headers before a route matches', async () => {
    for (const { use } of cases) {
      const query = { [use.parameter ?? '']: '1' };
      expect(readHeaders(await call('GET', '/v1/nothing', { query }))).toEqual(none);
      expect(readHeaders(await call('PUT', '/v1/activities', { query }))).toEqual(none);
    }
  });
});

test('deprecates offset on the list of activities since 4 September 2026 until 1 October 2027', async () => {
  const answer = await call('GET', '/v1/activities', { key: tenant.key, query: { offset: 0 } });
  expect(answer.headers.get('deprecation')).toBe('Fri, 04 Sep 2026 00:00:00 GMT');
  expect(answer.headers.get('sunset')).toBe('Fri, 01 Oct 2027 00:00:00 GMT');
  expect(answer.headers.get('link')).toMatch(/\/docs\/deprecations#activities-offset>; rel="deprecation"$/);
});

test.each(cases)(
  'documents the deprecation of $name of $id with a link to a section of a page',
  async ({ operation, use }) => {
    const { declared } = operation;
    for (const part of [use.parameter ?? use.field ?? '', use.since, use.sunset, use.note])
      expect(declared.description).toContain(part);
    const successes = Object.entries(declared.responses ?? {}).filter(([status]) => status.startsWith('2'));
    for (const [, response] of successes)
      expect(Object.keys((response as { headers: object }).headers)).toEqual(
        expect.arrayContaining(['Deprecation', 'Sunset', 'Link']),
      );
    const [page, anchor] = use.link.split('#');
    const answer = await fetch(`${inject('baseUrl')}${page}`);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain(`<h2 id="${anchor}">`);
  },
);

test('counts a body field with any value as used, and merges several forms into the earliest dates and all links', () => {
  const day = (text: string) => new Date(`${text}T00:00:00Z`);
  const site = 'https://app.example.com/d';
  const dates = { since: day('2026-09-04'), sunset: day('2027-10-01'), note: 'x' };
  const old: ReadUse = { in: 'body', name: 'old', ...dates, link: `${site}#old` };
  const page: ReadUse = { in: 'query', name: 'page', ...dates, since: day('2026-01-02'), link: `${site}#page` };
  const uses = [old, page];
  expect(findUsedInBody(uses, { old: null, page: 1 })).toEqual([old]);
  for (const body of [{ older: 1 }, [], ['old'], null, 'old', undefined])
    expect(findUsedInBody(uses, body)).toEqual([]);
  expect(findUsedInQuery(uses, 'old=1&p%61ge')).toEqual([page]);
  expect(buildDeprecationHeaders(uses)).toEqual([
    'Deprecation',
    'Fri, 02 Jan 2026 00:00:00 GMT',
    'Sunset',
    'Fri, 01 Oct 2027 00:00:00 GMT',
    'Link',
    `<${site}#old>; rel="deprecation", <${site}#page>; rel="deprecation"`,
  ]);
  expect(buildDeprecationHeaders([])).toEqual([]);
});
