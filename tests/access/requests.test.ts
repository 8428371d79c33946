// The request log: what it records, what it leaves out, filters, effects, and its retention.
import { randomUUID } from 'node:crypto';
import type { Sql } from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { dropRequestDays, sweepOtherRequests } from '../../db/access/requests.ts';
import type { LoggedRequest } from '../../domain/access/logged-requests.ts';
import { type RequestBlock, readBlock, readDetails, toEntryStart, toTerm } from '../../domain/access/request-blocks.ts';
import { toHighestId, toLowestId, toRequestTime } from '../../domain/access/request-ids.ts';
import { toLoggedBody, toLoggedError } from '../../domain/access/request-redaction.ts';
import { loggedRequest, logRequests, toBlocks } from '../support/arranged-ids.ts';
import { type Answer, type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import { dropDatabase, inDatabase, newDatabase } from '../support/databases.ts';
import { readMetrics, seriesValue } from '../support/metrics.ts';
import { lead, recordsPath } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { signIn } from '../support/sign-in.ts';
import { database, newKey, newTenant, rowDatabase, type Tenant, useDatabase } from '../support/tenants.ts';
import { newWebhook } from '../support/webhooks.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newWideTenant();
  key = tenant.key;
});

const readId = (answer: Answer): string => answer.headers.get('x-request-id') ?? '';

/** Returns the entry of a request once it is written. */
async function findEntry(answer: Answer, reader = key): Promise<Json> {
  const found = await vi.waitUntil(async () => {
    const { status, body } = await call('GET', `/v1/requests/${readId(answer)}`, { key: reader });
    return status === 200 ? body : undefined;
  }, patience);
  return found.data.request;
}

/** Requests are written every second. */
const patience = { timeout: 10_000 };

/** Returns the blocks that contain a request, as text. */
async function storedText(sql: Sql, id: string): Promise<string> {
  const rows = await sql<{ stored: string }[]>`
    select row_to_json(r)::text as stored from request_log r where strpos(requests, ${toEntryStart(id)}) > 0`;
  return rows.map(({ stored }) => stored).join();
}

type Query = Record<string, string | number>;

/** Returns all pages, however short they are. */
async function list(query: Query = {}, reader = key): Promise<Json[]> {
  const rows: Json[] = [];
  let cursor: string | null = null;
  do {
    const options: CallOptions = { key: reader, query: { ...query, ...(cursor === null ? {} : { cursor }) } };
    const { data } = (await expectStatus(200, 'GET', '/v1/requests', options)).body;
    rows.push(...data.requests);
    cursor = data.next_cursor;
  } while (cursor !== null);
  return rows;
}

const ids = (rows: Json[]): string[] => rows.map(({ id }) => id);

describe('an entry', () => {
  test('shows who sent what, when and from where, and what the server answered', async () => {
    const before = Date.now();
    const answer = await expectStatus(200, 'GET', recordsPath('accounts'), {
      key,
      query: { limit: 1 },
      ip: '203.0.113.9',
      headers: { 'user-agent': 'test/1' },
    });
    const entry = await findEntry(answer);
    expect(entry).toEqual({
      id: readId(answer),
      at: expect.any(String),
      method: 'GET',
      // Without the query, which may be sensitive.
      path: recordsPath('accounts'),
      operation: 'listRecords',
      status: 200,
      error_code: null,
      duration_ms: expect.any(Number),
      actor: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      api_key_id: expect.any(String),
      ip: '203.0.113.9',
      user_agent: 'test/1',
      idempotent_replay: false,
      test_mode: false,
      error: null,
      request_body: null,
      audit_logs: [],
      events: [],
      deliveries: [],
    });
    expect(entry.actor.id).toBe(entry.api_key_id);
    expect(Date.parse(entry.at)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(entry.at)).toBeLessThanOrEqual(Date.now());
  });

  test('names what a write caused: audit log entries, events and webhook deliveries', async () => {
    const own = await newTenant();
    await newWebhook(own, 'live', { events: ['record.created'], url: 'http://127.0.0.1:9/' });
    const answer = await expectStatus(201, 'POST', recordsPath('accounts'), {
      key: own.key,
      body: { name: 'North' },
      idempotencyKey: true,
    });
    const entry = await vi.waitUntil(async () => {
      const found = await findEntry(answer, own.key);
      return found.deliveries.length > 0 ? found : undefined;
    }, patience);
    const audit = await database()`select id from audit_logs where request_id = ${readId(answer)}`;
    const events = await database()`select id from feed_events where request_id = ${readId(answer)}`;
    const deliveries = await database()`
      select id from webhook_deliveries where company_id = ${own.companyId} and event_id = ${events[0]?.id}`;
    expect(entry).toMatchObject({ status: 201, operation: 'createRecord', request_body: null });
    expect(entry.audit_logs).toEqual(audit.map(({ id }) => id));
    expect(entry.events).toEqual(events.map(({ id }) => `evt_${id}`));
    expect(entry.deliveries).toEqual(deliveries.map(({ id }) => id));
    expect([audit.length, events.length, deliveries.length]).toEqual([1, 1, 1]);
  });

  test('shows the error and the body of a rejected write without its secrets', async () => {
    const body = {
      name: 'A hook',
      url: 'not an address',
      events: ['*'],
      secret: 'hidden-secret',
      note: `key ${key}`,
    };
    const answer = await call('POST', '/v1/webhooks', { key, body, idempotencyKey: true });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    const entry = await findEntry(answer);
    // The message about the secret has an example of one, which is removed, too.
    const error = JSON.parse(JSON.stringify(answer.body.error).replace(/whsec_\w+=/, '[removed]'));
    expect(entry.error).toEqual(error);
    expect(entry.error_code).toBe(answer.body.error.code);
    expect(JSON.parse(entry.request_body)).toEqual({ ...body, secret: '[removed]', note: 'key [removed]' });
    const stored = await storedText(database(), entry.id);
    expect(stored).toContain('not an address');
    for (const hidden of ['hidden-secret', key]) expect(stored).not.toContain(hidden);
  });

  test('never has the body of an operation that takes a password', async () => {
    const { access_token: token } = await signIn(tenant);
    const body = { current_password: 'wrong-password-1', password: 'wrong-password-2' };
    const answer = await call('PATCH', '/v1/me/password', { token, body });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    const entry = await findEntry(answer);
    expect(entry).toMatchObject({
      request_body: null,
      actor: { kind: 'user', id: tenant.admin.id, name: 'Ada Admin' },
    });
    expect(entry.api_key_id).toBeNull();
  });

  test('never has the credential, the Idempotency-Key or the query', async () => {
    const idempotencyKey = `secret-${randomUUID()}`;
    const answer = await call('POST', '/v1/leads', {
      key,
      body: { email: 'wrong' },
      idempotencyKey,
      query: { unknown: 'secret-in-query' },
    });
    const { id } = await findEntry(answer);
    const stored = await storedText(database(), id);
    expect(stored).toContain(id);
    for (const hidden of [idempotencyKey, key, 'secret-in-query']) expect(stored).not.toContain(hidden);
  });

  test('marks the replay of a stored response, also of a rejection', async () => {
    const options = { key, body: lead(), idempotencyKey: randomUUID() };
    const first = await expectStatus(201, 'POST', '/v1/leads', options);
    const again = await expectStatus(201, 'POST', '/v1/leads', options);
    expect((await findEntry(first)).idempotent_replay).toBe(false);
    expect(await findEntry(again)).toMatchObject({ idempotent_replay: true, status: 201, audit_logs: [], events: [] });
    const wrong = { key, body: { ...lead(), assigned_to: uuidv7() }, idempotencyKey: randomUUID() };
    await call('POST', '/v1/leads', wrong);
    const rejected = await call('POST', '/v1/leads', wrong);
    expect(rejected.headers.get('idempotent-replay')).toBe('true');
    const entry = await findEntry(rejected);
    expect(entry).toMatchObject({ idempotent_replay: true, status: rejected.status, error: rejected.body.error });
  });

  test('covers a batch with one entry that names the effects of all its items', async () => {
    const answer = await expectStatus(200, 'POST', `${recordsPath('accounts')}:batch`, {
      key,
      body: { records: [{ name: 'One' }, { name: 'Two' }, { name: 'Three', employee_count: 'many' }] },
      idempotencyKey: true,
    });
    const entry = await vi.waitUntil(async () => {
      const found = await findEntry(answer);
      return found.events.length === 2 ? found : undefined;
    }, patience);
    expect(entry).toMatchObject({ operation: 'createRecordBatch', status: 200 });
    expect(entry.audit_logs).toHaveLength(2);
  });
});

describe('the log', () => {
  test('has rejected calls of keys that exist: revoked, expired, from another address, without a scope, over the limit', async () => {
    const own = await newTenant();
    const day = 86_400_000;
    const past = new Date(Date.now() - day);
    const cases: [string, number, string][] = [
      [await newKey(own, { revokedAt: past }), 401, 'API_KEY_REVOKED'],
      [await newKey(own, { expiresAt: past }), 401, 'API_KEY_EXPIRED'],
      [await newKey(own, { ipAllowlist: ['203.0.113.1'] }), 403, 'IP_NOT_ALLOWED'],
      [await newKey(own, { scopes: ['tasks:view'] }), 404, 'NOT_FOUND'],
      [await newKey(own, { scopes: [] }), 403, 'FORBIDDEN_SCOPE'],
    ];
    for (const [rejected, status, code] of cases) {
      const path = code === 'FORBIDDEN_SCOPE' ? '/v1/audit-logs' : recordsPath('leads');
      const answer = await call('GET', path, { key: rejected });
      expect(await findEntry(answer, own.key)).toMatchObject({ status, error_code: code, error: answer.body.error });
    }
    const limited = await newKey(own, { perMinute: 1 });
    await call('GET', recordsPath('leads'), { key: limited });
    const answer = await call('GET', recordsPath('leads'), { key: limited });
    expect(await findEntry(answer, own.key)).toMatchObject({ status: 429, error_code: 'RATE_LIMIT_EXCEEDED' });
  });

  test('has nothing of callers without a workspace', async () => {
    const unknown = await call('GET', recordsPath('leads'), { key: `svc_live_${'0'.repeat(32)}` });
    const none = await call('GET', recordsPath('leads'));
    const open = await call('GET', '/v1/health');
    // Written later than those, by the same process.
    await findEntry(await expectStatus(200, 'GET', '/v1/me', { key }));
    for (const answer of [unknown, none, open]) expect(await storedText(database(), readId(answer))).toBe('');
  });

  test('shows test keys the requests of test keys, and live keys the others', async () => {
    const live = await expectStatus(200, 'GET', '/v1/me', { key });
    const tested = await expectStatus(200, 'GET', '/v1/me', { key: tenant.testKey });
    expect(await findEntry(tested, tenant.testKey)).toMatchObject({ test_mode: true });
    expect(await findEntry(live)).toMatchObject({ test_mode: false });
    await expectStatus(404, 'GET', `/v1/requests/${readId(tested)}`, { key });
    await expectStatus(404, 'GET', `/v1/requests/${readId(live)}`, { key: tenant.testKey });
    expect(ids(await list({ operation: 'getMe' }, tenant.testKey))).not.toContain(readId(live));
    expect(ids(await list({ operation: 'getMe' }))).not.toContain(readId(tested));
  });

  test('shows no other workspace anything', async () => {
    const other = await newTenant();
    const answer = await expectStatus(200, 'GET', '/v1/me', { key });
    await findEntry(answer);
    await expectStatus(404, 'GET', `/v1/requests/${readId(answer)}`, { key: other.key });
    await findEntry(await expectStatus(200, 'GET', '/v1/me', { key: other.key }), other.key);
    const own = ids(await list());
    const shown = ids(await list({}, other.key));
    expect(own).toContain(readId(answer));
    expect(shown.length).toBeGreaterThan(0);
    expect(shown.filter((id) => own.includes(id))).toEqual([]);
  });

  test('requires the scope settings:view', async () => {
    const narrow = await newKey(tenant, { scopes: ['leads:*', 'settings:configure'] });
    await expectStatus(403, 'GET', '/v1/requests', { key: narrow });
    await expectStatus(403, 'GET', `/v1/requests/${uuidv7()}`, { key: narrow });
  });

  test('loses its test requests when test mode is reset, and keeps the live ones', async () => {
    const own = await newTenant();
    const live = await expectStatus(200, 'GET', '/v1/me', { key: own.key });
    const tested = await expectStatus(200, 'GET', '/v1/me', { key: own.testKey });
    await findEntry(live, own.key);
    await findEntry(tested, own.testKey);
    await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: own.testKey, body: {} });
    await expectStatus(404, 'GET', `/v1/requests/${readId(tested)}`, { key: own.testKey });
    await expectStatus(200, 'GET', `/v1/requests/${readId(live)}`, { key: own.key });
  });
});

describe('the list', () => {
  let own: Tenant;
  let first: Answer;
  let second: Answer;
  let narrow: string;
  let third: Answer;

  beforeAll(async () => {
    own = await newTenant();
    narrow = await newKey(own, { scopes: ['accounts:view'] });
    first = await expectStatus(200, 'GET', recordsPath('accounts'), { key: own.key });
    second = await call('POST', '/v1/leads', { key: own.key, body: { email: 'x' }, idempotencyKey: true });
    third = await call('GET', '/v1/settings/tags/leads', { key: narrow });
    for (const each of [first, second, third]) await findEntry(each, own.key);
  });

  /** Filters that match some of the three requests, by their numbers. */
  const cases: [Query | (() => Promise<Query>), number[]][] = [
    [{}, [3, 2, 1]],
    [{ method: 'POST' }, [2]],
    [{ operation: 'listRecords' }, [1]],
    [{ operation: 'listRecords', method: 'POST' }, []],
    [{ status: '200' }, [1]],
    [{ status: '4xx' }, [3, 2]],
    [{ status: '403' }, [3]],
    [{ error_code: 'FORBIDDEN_SCOPE' }, [3]],
    [{ error_code: 'FORBIDDEN_SCOPE', operation: 'createLead' }, []],
    [{ path: '/v1/objects/acc' }, [1]],
    [{ path: '/v1/%' }, []],
    [{ from: '2036-01-01' }, []],
    [{ to: '2020-01-01' }, []],
    [async () => ({ api_key_id: (await findEntry(third, own.key)).api_key_id }), [3]],
    [async () => ({ actor_id: (await findEntry(third, own.key)).actor.id, status: '2xx' }), []],
    [async () => ({ actor_id: (await findEntry(first, own.key)).actor.id }), [2, 1]],
    [async () => ({ from: (await findEntry(second, own.key)).at, status: '4xx' }), [3, 2]],
    [async () => ({ to: (await findEntry(first, own.key)).at }), [1]],
  ];
  test.each(cases)('with the filter %j has the matching requests, newest first', async (query, expected) => {
    const three = [first, second, third].map(readId);
    const found = ids(await list(typeof query === 'function' ? await query() : query, own.key));
    expect(found.filter((id) => three.includes(id)).map((id) => three.indexOf(id) + 1)).toEqual(expected);
    expect(found).toEqual(found.toSorted().reverse());
  });

  test('reads every request once, page by page', async () => {
    const whole = ids(await list({ to: new Date().toISOString() }, own.key));
    const one = ids(await list({ limit: 1, to: (await findEntry(third, own.key)).at }, own.key));
    expect(new Set(one).size).toBe(one.length);
    expect(whole).toEqual(expect.arrayContaining(one));
    expect(one.slice(-3)).toEqual(expect.arrayContaining([first, second].map(readId)));
  });

  test('rejects wrong filters and cursors of other lists', async () => {
    const wrong: Query[] = [
      { status: '4x' },
      { status: '600' },
      { method: 'FETCH' },
      { from: '2026-02-01', to: '2026-01-01' },
      { cursor: 'x' },
    ];
    for (const query of wrong) await expectStatus(400, 'GET', '/v1/requests', { key, query });
    const { body } = await expectStatus(200, 'GET', '/v1/requests', { key: own.key, query: { limit: 1 } });
    const cursor = body.data.next_cursor;
    await expectStatus(400, 'GET', '/v1/requests', { key: own.key, query: { cursor, status: '4xx' } });
    await expectStatus(400, 'GET', '/v1/requests', { key, query: { cursor } });
  });

  test('finds rare requests among many in several parts', async () => {
    const many = await newTenant();
    const rare = loggedRequest(many);
    await logRequests([rare]);
    const msecs = Date.now() + 60_000;
    // Each block has both values, but no request has both.
    const others = [{ status: 201 }, { operation: 'other' }];
    await logRequests(
      Array.from({ length: 60_000 }, (_, number) =>
        loggedRequest(many, { ...others[number % 2], id: uuidv7({ msecs }) }),
      ),
    );
    const query = { status: '200', operation: 'getMe' };
    const { data } = (await expectStatus(200, 'GET', '/v1/requests', { key: many.key, query })).body;
    expect(data).toMatchObject({ requests: [], has_more: true });
    expect(ids(await list(query, many.key))).toContain(rare.id);
  });

  test('finds rare requests among many blocks without them in several parts', async () => {
    const many = await newTenant();
    const rare = loggedRequest(many);
    await logRequests([rare]);
    await rowDatabase()`
      insert into request_log (company_id, test_mode, id, first_id, has_failures, terms, requests)
      select ${many.companyId}, false, id, id, false, '{}', '{"shared":[],"requests":[]}'
      from generate_series(1, 21000) n,
        lateral (select (${toLowestId(Date.now() + 60_000).slice(0, 24)} || lpad(to_hex(n), 12, '0'))::uuid as id) i`;
    const query = { operation: 'getMe' };
    const { data } = (await expectStatus(200, 'GET', '/v1/requests', { key: many.key, query })).body;
    expect(data).toMatchObject({ requests: [], has_more: true });
    expect(ids(await list(query, many.key))).toContain(rare.id);
  });

  test('has the requests of concurrent processes in their order, on pages of any size', async () => {
    const many = await newTenant();
    const start = Date.now() - 3_600_000;
    const requests = Array.from({ length: 90 }, (_, number) =>
      loggedRequest(many, { id: uuidv7({ msecs: start + number * 100 }), status: number % 7 === 0 ? 404 : 200 }),
    );
    // The second process writes more often, and one request took long.
    const [long, ...others] = requests;
    for (const part of [others.filter((_, number) => number % 3 > 0), [long as LoggedRequest]]) await logRequests(part);
    for (const each of others.filter((_, number) => number % 3 === 0)) await logRequests([each]);
    const newestFirst = (some: readonly LoggedRequest[]): string[] => some.map(({ id }) => id).toReversed();
    const range = { from: new Date(start).toISOString(), to: new Date(start + 9000).toISOString() };
    for (const limit of [1, 7, 50])
      expect(ids(await list({ limit, ...range }, many.key))).toEqual(newestFirst(requests));
    const failed = requests.filter(({ status }) => status === 404);
    expect(ids(await list({ limit: 2, status: '4xx', ...range }, many.key))).toEqual(newestFirst(failed));
    const inside = { from: new Date(start + 1050).toISOString(), to: new Date(start + 4000).toISOString() };
    expect(ids(await list({ limit: 3, ...inside }, many.key))).toEqual(newestFirst(requests.slice(11, 41)));
    for (const { id } of [requests[0], requests[44], requests[89]] as LoggedRequest[])
      await expectStatus(200, 'GET', `/v1/requests/${id}`, { key: many.key });
    const between = uuidv7({ msecs: start + 4450 });
    await expectStatus(404, 'GET', `/v1/requests/${between}`, { key: many.key });
  });
});

describe('a block of requests', () => {
  const msecs = Date.parse('2026-11-20T10:00:00Z');
  const requestsAt = (...times: number[]) =>
    times.map((time) => loggedRequest(tenant, { id: uuidv7({ msecs: msecs + time }) }));
  const sizes = (requests: readonly LoggedRequest[]): number[] =>
    toBlocks(requests).map(({ requests: text }) => readBlock(text).count);

  test('has requests of one workspace and mode', () => {
    const [live, tested] = [loggedRequest(tenant), loggedRequest(tenant, { testMode: true })];
    const foreign = loggedRequest({ ...tenant, companyId: randomUUID() });
    expect(sizes([live, tested, foreign, loggedRequest(tenant)])).toEqual([2, 1, 1]);
  });

  test('spans at most two seconds, so that a request that took long is in another one', () => {
    expect(sizes(requestsAt(2000, 0, 2001, 30, -30_000))).toEqual([1, 3, 1]);
    const [long, block] = toBlocks(requestsAt(5, 0, -30_000));
    expect(toRequestTime(long?.id ?? '')).toBe(msecs - 30_000);
    expect([block?.first_id, block?.id].map((id) => toRequestTime(id ?? ''))).toEqual([msecs, msecs + 5]);
  });

  test('has at most 500 requests, and ends after 128 KB of bodies', () => {
    expect(sizes(requestsAt(...Array.from({ length: 1001 }, () => 0)))).toEqual([500, 500, 1]);
    const failed = Array.from({ length: 40 }, () => loggedRequest(tenant, { requestBody: 'x'.repeat(8192) }));
    expect(sizes(failed)).toEqual([16, 16, 8]);
  });

  test('returns each request as it was, and only those with all terms', () => {
    const failed = loggedRequest(tenant, {
      path: '/v1/leads/"\\',
      status: 404,
      errorCode: 'NOT_FOUND',
      actorKind: 'api_key',
      keyName: 'Ключ',
      userAgent: 'agent "1"',
      error: '{}',
    });
    const [block] = toBlocks([failed, loggedRequest(tenant)]) as [RequestBlock];
    const { companyId: _, testMode: __, requestBody, error, ...summary } = failed;
    expect(readBlock(block.requests).matching).toHaveLength(2);
    expect(readBlock(block.requests, [toTerm.status('4xx'), toTerm.errorCode('NOT_FOUND')]).matching).toEqual([
      summary,
    ]);
    expect(readBlock(block.requests, [toTerm.status(404), toTerm.method('POST')]).matching).toEqual([]);
    expect(readDetails(block.details, failed.id)).toEqual({ requestBody, error });
    expect([block.has_failures, toBlocks([loggedRequest(tenant)])[0]?.has_failures]).toEqual([true, false]);
  });
});

describe('the text of a rejected body', () => {
  test('has no values of fields that name a secret, at any depth', () => {
    const body = {
      Password: 'a',
      list: [{ api_key: 'b', client_secret: { inner: 'c' }, access_token: 1, token: null, has_secret: true }],
      text: `Bearer abc.def and svc_test_${'a'.repeat(32)}`,
    };
    expect(JSON.parse(toLoggedBody(JSON.stringify(body)) ?? '')).toEqual({
      Password: '[removed]',
      list: [
        { api_key: '[removed]', client_secret: '[removed]', access_token: '[removed]', token: null, has_secret: true },
      ],
      text: '[removed] and [removed]',
    });
    expect(toLoggedBody('{"password": "x')).toBeNull();
  });

  test('has the names of headers, but no values of theirs, whatever their names', () => {
    const body = {
      headers: { 'X-Gateway': 'a', 'X-Auth': ['b', { inner: 1 }], 'X-Empty': null },
      inner: { Headers: [{ name: 'X-Gateway', value: 'c' }], header: 'X-Gateway: d' },
      'X-Api-Key': 'e',
      'private-key': 'f',
      header_names: ['X-Gateway'],
    };
    expect(JSON.parse(toLoggedBody(JSON.stringify(body)) ?? '')).toEqual({
      headers: { 'X-Gateway': '[removed]', 'X-Auth': ['[removed]', { inner: '[removed]' }], 'X-Empty': null },
      inner: { Headers: [{ name: '[removed]', value: '[removed]' }], header: '[removed]' },
      'X-Api-Key': '[removed]',
      'private-key': '[removed]',
      header_names: ['X-Gateway'],
    });
  });

  test('has no values of own headers of a webhook endpoint', async () => {
    const secrets = ['S1-7b1d4f', 'S2-7b1d4f', 'S3-7b1d4f'];
    const headers = { 'X-Api-Key': secrets[0], 'X-Gateway': secrets[1], 'X-Auth': secrets[2] };
    const { id } = await newWebhook(tenant, 'live');
    const rejected = [
      await call('POST', '/v1/webhooks', {
        key,
        body: { url: 'https://93.184.215.14/', events: ['record.creatd'], headers },
      }),
      await call('PATCH', `/v1/webhooks/${id}`, { key, body: { max_per_second: 0, headers } }),
      await call('PATCH', `/v1/webhooks/${randomUUID()}`, { key, body: { headers } }),
      await call('PATCH', `/v1/webhooks/${id}`, {
        key,
        body: { headers: { ...headers, 'X-Gateway': `${secrets[1]}\n` } },
      }),
    ];
    expect(rejected.map(({ status }) => status)).toEqual([422, 400, 404, 400]);
    for (const answer of rejected) {
      const entry = await findEntry(answer);
      expect(JSON.stringify(entry)).toContain('X-Gateway');
      expect(JSON.stringify(entry)).not.toContain('7b1d4f');
      expect(await storedText(database(), readId(answer))).not.toContain('7b1d4f');
    }
  });

  test('has no passwords or tokens of URLs, and no credentials of headers', () => {
    const body = {
      url: 'https://user:hunter2@example.com/hook?name=a&access_token=b1#top',
      basic: 'Basic dXNlcjpodW50ZXIy',
      jwt: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
      plain: 'https://example.com/?page=2',
    };
    expect(JSON.parse(toLoggedBody(JSON.stringify(body)) ?? '')).toEqual({
      url: 'https://[removed]@example.com/hook?name=a&access_token=[removed]#top',
      basic: '[removed]',
      jwt: '[removed]',
      plain: 'https://example.com/?page=2',
    });
  });

  test('has no API key in the path', async () => {
    const answer = await call('GET', `/v1/api-keys/${key}`, { key });
    expect(answer.status).toBe(403);
    expect(await findEntry(answer)).toMatchObject({ path: '/v1/api-keys/[removed]' });
  });

  test('has no more than 20 levels of a body that is nested too deep', async () => {
    const deep = `{"name": ${'['.repeat(5000)}${']'.repeat(5000)}}`;
    expect(toLoggedBody(deep)).toBe(`{"name":${'['.repeat(19)}"[removed]"${']'.repeat(19)}}`);
    const answer = await call('POST', recordsPath('accounts'), { key, rawBody: deep, idempotencyKey: true });
    expect(answer.status).toBe(400);
    expect(await findEntry(answer)).toMatchObject({ status: 400, error: { code: 'VALIDATION_ERROR' } });
  });

  test('is cut off after 8 KB, between characters', () => {
    const text = toLoggedBody(JSON.stringify({ name: '€'.repeat(5000) })) ?? '';
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8192);
    expect(Buffer.byteLength(text)).toBeGreaterThan(8188);
    expect(text.endsWith('€')).toBe(true);
  });

  test('leaves out the details of a long error', () => {
    const error = { code: 'VALIDATION_ERROR', message: 'No.', details: { text: 'x'.repeat(9000) } };
    expect(JSON.parse(toLoggedError(error))).toEqual({ code: 'VALIDATION_ERROR', message: 'No.' });
  });
});

test('derives times from ids, and the first and last id of a time', () => {
  const time = Date.parse('2026-11-20T10:00:00.123Z');
  expect(toRequestTime(toLowestId(time))).toBe(time);
  expect(toRequestTime(toHighestId(time))).toBe(time);
  expect([toHighestId(time - 1), toHighestId(time), toLowestId(time)].toSorted()).toEqual([
    toHighestId(time - 1),
    toLowestId(time),
    toHighestId(time),
  ]);
});

describe('a server of its own', () => {
  let url: string;
  let server: TestServer;
  let own: Tenant;

  const start = (more: Record<string, string> = {}) =>
    startServer({ ...testSettings, DATABASE_URL: url, SECRET_KEY: inject('secretKey'), METRICS_PORT: '0', ...more });

  beforeAll(async () => {
    url = await newDatabase();
  });
  afterAll(async () => {
    await server?.stop();
    await dropDatabase(url);
  });

  const isStored = async (id: string) => (await inDatabase(url, (sql) => storedText(sql, id))) !== '';

  test('answers while the log cannot be written, and counts what it lost', async () => {
    await useDatabase(url);
    own = await newTenant();
    await useDatabase(undefined);
    server = await start();
    await expectStatus(200, 'GET', '/v1/me', { key: own.key, baseUrl: server.url });
    await inDatabase(url, (sql) =>
      sql.begin(async (transaction) => {
        await transaction`lock table request_log in access exclusive mode`;
        for (let calls = 0; calls < 5; calls += 1)
          await expectStatus(200, 'GET', '/v1/me', { key: own.key, baseUrl: server.url });
        await expectStatus(201, 'POST', '/v1/leads', {
          key: own.key,
          body: lead(),
          idempotencyKey: true,
          baseUrl: server.url,
        });
        await vi.waitUntil(async () => {
          const dropped = seriesValue(await readMetrics(server), 'crm_request_log_dropped_total');
          return dropped !== undefined && dropped >= 6;
        }, patience);
      }),
    );
    const later = await expectStatus(200, 'GET', '/v1/me', { key: own.key, baseUrl: server.url });
    await vi.waitUntil(() => isStored(readId(later)), patience);
  });

  test('writes what is queued when it stops', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => expectStatus(200, 'GET', '/v1/me', { key: own.key, baseUrl: server.url })),
    );
    await server.stop();
    for (const answer of answers) expect(await isStored(readId(answer))).toBe(true);
  });

  test('records nothing with REQUEST_LOG=0', async () => {
    server = await start({ REQUEST_LOG: '0' });
    const answer = await expectStatus(200, 'GET', '/v1/me', { key: own.key, baseUrl: server.url });
    await server.stop();
    expect(await isStored(readId(answer))).toBe(false);
  });

  test('drops days that are past their retention, and removes expired requests without a partition', async () => {
    await useDatabase(url);
    const [sql, rows] = [database(), rowDatabase()];
    const day = 86_400_000;
    const old = Date.parse('2021-03-10T12:00:00Z');
    const now = new Date(old + 30 * day);
    await sql`select make_request_partitions('2021-03-09')`;
    for (const time of [old - day, old, old + day, old - 9 * day, old - 8 * day])
      await logRequests([loggedRequest(own, { id: toLowestId(time) })]);
    expect(await sql`select from request_log_other`).toHaveLength(2);
    // A concurrent writer is not blocked. A later run drops the partition.
    await sql.begin(async (busy) => {
      await busy`lock table request_log in row exclusive mode`;
      expect(await dropRequestDays(rows, now)).toBe(0);
    });
    expect(await dropRequestDays(rows, now)).toBe(1);
    expect(await dropRequestDays(rows, now)).toBe(0);
    expect(await sweepOtherRequests(rows, 10, new Date(now.getTime() - 8 * day))).toBe(1);
    const left = await sql<
      { id: string }[]
    >`select id from request_log where id < ${toLowestId(now.getTime())} order by id`;
    await useDatabase(undefined);
    const times = left.map(({ id }) => new Date(toRequestTime(id)).toISOString().slice(0, 10));
    expect(times).toEqual(['2021-03-02', '2021-03-10', '2021-03-11']);
  });
});
