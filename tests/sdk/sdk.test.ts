// The client of sdk/ against the real server: every operation, failures, and lists.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type ClientOptions, CrmError, createClient, isCrmError, ProposedError } from '../../sdk/src/index.ts';
import { computeWait, mayRetry } from '../../sdk/src/retries.ts';
import { anyAddress, expectStatus } from '../support/client.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { FailingProxy, failure } from '../support/failing-proxy.ts';
import { goodRequest, listAlternatives, newWideTenant, sharedToken } from '../support/requests.ts';
import { adminPassword, database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let proxy: FailingProxy;

beforeAll(async () => {
  [tenant, proxy] = await Promise.all([newTenant(), FailingProxy.start(inject('baseUrl'))]);
});
afterAll(() => proxy.stop());

/** Returns a client with its own IP address, through the proxy. */
const newClient = (options: Partial<ClientOptions> = {}) =>
  createClient({ baseUrl: proxy.url, headers: { 'x-forwarded-for': anyAddress() }, ...options });

/** Returns the error of a call. */
async function catchError(call: Promise<unknown>): Promise<CrmError> {
  const error = await call.then(
    () => 'nothing',
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CrmError);
  return error as CrmError;
}

const newLead = () => ({ first_name: 'Sara', email: `${randomUUID()}@bluelake.example` });

async function leadsWith(email: string): Promise<number> {
  const rows = await database()`select from leads where company_id = ${tenant.companyId} and email = ${email}`;
  return rows.length;
}

describe('every operation', () => {
  let wide: Tenant;
  beforeAll(async () => {
    wide = await newWideTenant();
  });

  /** Any operation, without types. */
  type AnyMethod = (call: object) => Promise<unknown>;

  /** Returns the path parameters of a filled path. */
  function parsePathValues({ path }: DeclaredOperation, filled: string): Record<string, string> {
    const pattern = path.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)');
    const groups = new RegExp(`^${pattern}$`).exec(filled)?.groups ?? {};
    return Object.fromEntries(Object.entries(groups).map(([name, value]) => [name, decodeURIComponent(value)]));
  }

  // Gateways sign byte by byte.
  const unsigned = operations.filter((each) => !listAlternatives(each).some(({ scheme }) => scheme === 'signature'));
  test.each(unsigned)('has $id as a method, with a result as in the OpenAPI document', async (operation) => {
    const { path, options } = await goodRequest(operation, wide);
    const statuses: number[] = [];
    const client = newClient({
      ...(options.key === undefined ? {} : { apiKey: options.key }),
      ...(options.token === undefined ? {} : { token: options.token }),
      onResponse: ({ status }) => statuses.push(status),
    }) as unknown as Record<string, AnyMethod>;
    const { query, rawBody, headers = {} } = options;
    // Prepared raw bodies are forms with a file.
    const body = rawBody === undefined ? options.body : await new Response(rawBody, { headers }).formData();
    const answer = await client[operation.id]?.({ path: parsePathValues(operation, path), query, body });
    expect(answer).toBeDefined();
    expect(operation.statuses.filter((status) => status.startsWith('2'))).toContain(statuses.join());
  });

  test('has no other methods than operations, besides the helpers for imports and exports', () => {
    const { exports: ofExports, imports: ofImports, ...methods } = newClient();
    expect(Object.keys(methods).toSorted()).toEqual(operations.map(({ id }) => id).toSorted());
    expect([Object.keys(ofExports), Object.keys(ofImports)]).toEqual([['download'], ['run']]);
  });
});

describe('requests', () => {
  test('reads credentials before each attempt, and prefers an API key to a token', async () => {
    proxy.failWith('reset');
    const keys = ['svc_live_old', tenant.key];
    await newClient({ apiKey: async () => keys.shift() as string, token: 'unused' }).getMe();
    expect(proxy.seen.map(({ headers }) => headers['x-api-key'])).toEqual(['svc_live_old', tenant.key]);
    expect(proxy.seen[0]?.headers.authorization).toBeUndefined();
    const { actor } = await newClient({ token: () => sharedToken(tenant) }).getMe();
    expect(actor.id).toBe(tenant.admin.id);
  });

  test('throws a change set that waits for a person, instead of returning it as a result', async () => {
    const crm = newClient({ apiKey: await newKey(tenant, { writeMode: 'propose' }) });
    const body = newLead();
    const thrownBy = (call: Promise<unknown>): Promise<unknown> => call.catch((error: unknown) => error);
    const proposed = await thrownBy(crm.createLead({ body }));
    expect(proposed).toBeInstanceOf(ProposedError);
    const { changeSet, alreadyPending } = proposed as ProposedError;
    expect([changeSet.status, changeSet.title, alreadyPending]).toEqual(['pending', 'Create a lead', false]);
    expect(await thrownBy(crm.createLead({ body }))).toMatchObject({
      alreadyPending: true,
      changeSet: { id: changeSet.id },
    });
    expect((await crm.createLead({ body, dryRun: true })).would.audit).toEqual(['lead.create']);
    expect((await crm.getChangeSet({ path: { id: changeSet.id } })).change_set.id).toBe(changeSet.id);
    expect(await leadsWith(body.email)).toBe(0);
  });

  test('runs a call dry, with the result and the effects of the real one, and repeats it safely', async () => {
    proxy.failWith('reset');
    const body = newLead();
    const crm = newClient({ apiKey: tenant.key });
    const { data, would } = await crm.createLead({ body, dryRun: true });
    expect(proxy.seen.map(({ headers }) => headers['dry-run'])).toEqual(['true', 'true']);
    expect(await leadsWith(body.email)).toBe(0);
    const { lead } = await crm.createLead({ body });
    expect(proxy.seen[2]?.headers['dry-run']).toBeUndefined();
    const fresh = { id: '', created_at: '', updated_at: '' };
    expect({ ...data.lead, ...fresh }).toEqual({ ...lead, ...fresh });
    expect(would).toEqual({ events: expect.arrayContaining(['record.created']), audit: ['lead.create'] });
    // Without an Idempotency-Key, only the dry run may be repeated.
    proxy.failWith('reset');
    const source = { name: `Fair ${randomUUID()}` };
    expect((await crm.createSource({ body: source, dryRun: true })).data.source.name).toBe(source.name);
    const unsafe = crm.listSources as (call: object) => Promise<unknown>;
    await expect(unsafe({ dryRun: true })).rejects.toThrow(TypeError);
  });

  test('encodes paths and queries, so that no value changes the path', async () => {
    const crm = newClient({ apiKey: tenant.key });
    const email = `a+b&c=d%${randomUUID()}@bluelake.example`;
    expect(await catchError(crm.getCustomerByEmail({ query: { email } }))).toMatchObject({ code: 'NOT_FOUND' });
    expect(await catchError(crm.getUser({ path: { id: '../me?x#y' } }))).toMatchObject({ code: 'NOT_FOUND' });
    proxy.failWith();
    for (const id of ['..', '.', '', undefined as never])
      await expect(crm.getUser({ path: { id } })).rejects.toThrow(TypeError);
    expect(proxy.seen).toEqual([]);
  });

  test.each([
    ['FormData', () => new FormData(), /^multipart\/form-data; boundary=/],
    ['URLSearchParams', () => new URLSearchParams(), /^application\/x-www-form-urlencoded/],
  ])('sends %s as its form, with identical bytes at every attempt', async (_, newForm, contentType) => {
    proxy.failWith('reset', { status: 200, body: { success: true, data: {}, meta: {} } });
    const form = newForm();
    form.set('note', 'Offer');
    await newClient().createLead({ body: form as never });
    const [first, second] = proxy.seen;
    expect(first?.headers['content-type']).toMatch(contentType);
    expect(first?.body).toContain('Offer');
    expect(second?.body).toBe(first?.body);
    expect(second?.headers['content-type']).toBe(first?.headers['content-type']);
  });

  test('does not follow redirects, so that no key reaches another host', async () => {
    proxy.failWith({ status: 307, headers: { location: `${proxy.url}/v1/me` }, body: '' });
    expect(await catchError(newClient({ apiKey: tenant.key }).getMe())).toMatchObject({ code: 'UNREADABLE_ANSWER' });
    expect(proxy.seen).toHaveLength(1);
  });
});

describe('a write with a lost request or response', () => {
  test('sends a write again with the same key and body if its response was lost, and it happens once', async () => {
    proxy.failWith('lose');
    const body = newLead();
    const replays: (string | null)[] = [];
    const onResponse = ({ headers }: Response) => replays.push(headers.get('idempotent-replay'));
    const { lead } = await newClient({ apiKey: tenant.key }).createLead({ body, onResponse });
    expect(lead.email).toBe(body.email);
    expect(replays).toEqual(['true']);
    const [first, second] = proxy.seen;
    expect(first?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/);
    expect(second?.headers['idempotency-key']).toBe(first?.headers['idempotency-key']);
    expect(second?.body).toBe(first?.body);
    expect(await leadsWith(body.email)).toBe(1);
  });

  test("sends a write again under the caller's key if it never arrived", async () => {
    proxy.failWith('reset', failure(503, 'SERVICE_UNAVAILABLE'));
    const body = newLead();
    await newClient({ apiKey: tenant.key }).createLead({ body, idempotencyKey: `import:${body.email}` });
    expect(proxy.seen.map(({ headers }) => headers['idempotency-key'])).toEqual(Array(3).fill(`import:${body.email}`));
    expect(await leadsWith(body.email)).toBe(1);
  });

  test('does not send a write without a key again', async () => {
    const crm = newClient({ token: await sharedToken(tenant) });
    const body = { name: 'Lost', scopes: ['leads:view'] };
    for (const [fault, code] of [
      ['lose', 'CONNECTION_FAILED'],
      [failure(503, 'SERVICE_UNAVAILABLE'), 'SERVICE_UNAVAILABLE'],
    ] as const) {
      proxy.failWith(fault);
      expect(await catchError(crm.createApiKey({ body }))).toMatchObject({ code });
      expect(proxy.seen).toHaveLength(1);
    }
  });

  test('sends a write without a key again if nothing was done', async () => {
    proxy.failWith(failure(503, 'QUOTA_UNAVAILABLE'), failure(429, 'RATE_LIMIT_EXCEEDED', { 'retry-after': '0' }));
    const body = { name: 'Kept', scopes: ['leads:view'] };
    const { api_key } = await newClient({ token: await sharedToken(tenant) }).createApiKey({ body });
    expect(api_key.name).toBe('Kept');
    expect(proxy.seen).toHaveLength(3);
  });

  test('waits for the first call with its key, and returns its response', async () => {
    const body = newLead();
    const idempotencyKey = randomUUID();
    const crm = newClient({ apiKey: tenant.key });
    // Reserves the place of the first call's stored response, as if that call was interrupted.
    const held = await database().reserve();
    await held`begin`;
    await held`
      insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
      values (${tenant.companyId}, false, 'POST /v1/leads', ${idempotencyKey}, '', 0, '', now())`;
    const first = crm.createLead({ body, idempotencyKey });
    await vi.waitUntil(
      async () =>
        (await held`select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))`).length > 0,
    );
    const statuses: number[] = [];
    const released: Promise<unknown>[] = [];
    const onResponse = ({ status }: Response) => {
      if (status === 409) released.push(held`rollback`.execute());
      statuses.push(status);
    };
    const second = await crm.createLead({ body, idempotencyKey, onResponse });
    await Promise.all(released);
    held.release();
    expect(statuses).toEqual([409, 201]);
    expect(second).toEqual(await first);
  });
});

describe('a permanent failure', () => {
  test('throws the code, message and details of the API', async () => {
    const crm = newClient({ apiKey: tenant.key });
    const error = await catchError(crm.createLead({ body: { first_name: '', email: 'nobody' } }));
    expect(error).toMatchObject({ name: 'CrmError', code: 'VALIDATION_ERROR', status: 400 });
    expect(error.fields.map(({ field, code }) => [field, code])).toEqual([
      ['email', 'INVALID_FORMAT'],
      ['first_name', 'REQUIRED'],
    ]);
    expect(error.requestId).toMatch(/^[0-9a-f-]{36}$/);
    expect(error.message).not.toBe('');
    expect(isCrmError(error, 'NOT_FOUND', 'VALIDATION_ERROR')).toBe(true);
    expect(isCrmError(error, 'NOT_FOUND')).toBe(false);
    expect(isCrmError(new Error('another'))).toBe(false);
  });

  test('throws the error of the sign-in with its OAuth code', async () => {
    const { email } = (await newTenant()).admin;
    const signIn = (password: string) =>
      newClient().createSession({ query: { grant_type: 'password' }, body: { email, password } });
    expect(await catchError(signIn('wrong'))).toMatchObject({ code: 'invalid_grant', status: 400, fields: [] });
    expect((await signIn(adminPassword)).token_type).toBe('bearer');
  });

  test('throws immediately if the rate limit requires a longer wait than permitted', async () => {
    const apiKey = await newKey(await newTenant(), { perMinute: 1 });
    const crm = newClient({ apiKey, longestWait: 0 });
    await crm.getMe();
    proxy.failWith();
    const error = await catchError(crm.getMe());
    expect(error).toMatchObject({ code: 'RATE_LIMIT_EXCEEDED', status: 429, details: { limit: 1, remaining: 0 } });
    expect(error.retryAfter).toBe(error.details.retry_after);
    expect(error.retryAfter).toBeGreaterThanOrEqual(1);
    expect(proxy.seen).toHaveLength(1);
  });

  test('retries exactly as often as configured', async () => {
    const overloaded = failure(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '0' });
    proxy.failWith(...Array(6).fill(overloaded));
    expect(await catchError(newClient({ apiKey: tenant.key, retries: 2 }).getMe())).toMatchObject({ status: 503 });
    expect(proxy.seen).toHaveLength(3);
  });

  test('does not retry after an exceeded quota', async () => {
    proxy.failWith(failure(429, 'QUOTA_EXCEEDED', { 'retry-after': '0' }));
    expect(await catchError(newClient({ apiKey: tenant.key }).getMe())).toMatchObject({ code: 'QUOTA_EXCEEDED' });
    expect(proxy.seen).toHaveLength(1);
  });

  test.each([
    ['an HTML page', '<h1>Bad gateway</h1>'],
    ['nothing', ''],
    ['JSON of its own', { error: 'Bad gateway' }],
    ['JSON without an error', { error: null }],
  ])('reports a proxy response with %s as not from the API', async (_, body) => {
    proxy.failWith({ status: 502, body });
    expect(await catchError(newClient({ retries: 0 }).getHealth())).toMatchObject({
      code: 'UNREADABLE_ANSWER',
      status: 502,
    });
    proxy.failWith({ status: 502, body });
    expect((await newClient().getHealth()).status).toBe('ok');
  });

  test('reports an unreadable success', async () => {
    proxy.failWith({ status: 200, body: '<h1>Welcome</h1>' });
    expect(await catchError(newClient({ retries: 0 }).getHealth())).toMatchObject({ code: 'UNREADABLE_ANSWER' });
  });
});

describe('timeouts and waits', () => {
  test('ends an attempt that times out, and the next one succeeds', async () => {
    proxy.failWith('silence', 'silence');
    const unanswered = await catchError(newClient({ retries: 0, timeout: 50 }).getHealth());
    expect(unanswered).toMatchObject({ code: 'TIMED_OUT', status: undefined });
    expect((await newClient({ retries: 9, timeout: 1000 }).getHealth()).status).toBe('ok');
    expect(proxy.seen.length).toBeGreaterThan(2);
  });

  test("aborts on the caller's signal during an attempt, during a wait, and before", async () => {
    const crm = newClient({ apiKey: tenant.key });
    const reason = new Error('no longer needed');
    proxy.failWith('silence');
    const waiting = new AbortController();
    const unanswered = crm.getMe({ signal: waiting.signal });
    await vi.waitUntil(() => proxy.seen.length === 1);
    waiting.abort(reason);
    await expect(unanswered).rejects.toBe(reason);

    proxy.failWith(failure(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '60' }));
    const between = new AbortController();
    await expect(crm.getMe({ signal: between.signal, onResponse: () => between.abort(reason) })).rejects.toBe(reason);
    expect(proxy.seen).toHaveLength(1);

    await expect(crm.getMe({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(proxy.seen).toHaveLength(1);
  });

  test('doubles the wait between attempts up to eight seconds, and honors Retry-After', () => {
    const silent = new CrmError('SERVICE_UNAVAILABLE', '');
    expect([0, 1, 2, 3, 4, 5].map((failures) => computeWait(silent, failures, 1))).toEqual([
      500, 1000, 2000, 4000, 8000, 8000,
    ]);
    expect(computeWait(silent, 0, 0)).toBe(250);
    const recorded = new CrmError('RATE_LIMIT_EXCEEDED', '', { retryAfter: 7 });
    expect([0, 1].map((chance) => computeWait(recorded, 5, chance))).toEqual([7000, 7250]);
  });

  test('accepts a Retry-After date', async () => {
    vi.useFakeTimers({ now: Date.parse('2026-01-01T00:00:00Z'), toFake: ['Date'] });
    try {
      proxy.failWith(failure(503, 'SERVICE_UNAVAILABLE', { 'retry-after': 'Thu, 01 Jan 2026 00:01:30 GMT' }));
      expect((await catchError(newClient({ apiKey: tenant.key }).getMe())).retryAfter).toBe(90);
    } finally {
      vi.useRealTimers();
    }
  });

  test.each([
    ['RATE_LIMIT_EXCEEDED', 429, true, true],
    ['slow_down', 429, true, true],
    ['QUOTA_EXCEEDED', 429, false, false],
    ['QUOTA_EXCEEDED', 402, false, false],
    ['QUOTA_UNAVAILABLE', 503, true, true],
    ['IDEMPOTENCY_IN_PROGRESS', 409, true, true],
    ['IDEMPOTENCY_CONFLICT', 422, false, false],
    ['SERVICE_UNAVAILABLE', 503, false, true],
    ['INTERNAL_ERROR', 500, false, true],
    ['CONNECTION_FAILED', undefined, false, true],
    ['TIMED_OUT', undefined, false, true],
    ['CONFLICT', 409, false, false],
    ['AUTH_INVALID_KEY', 401, false, false],
  ] as const)('retries %s (%s): without a key %s, with one %s', (code, status, unkeyed, keyed) => {
    const error = new CrmError(code, '', { status });
    expect([mayRetry(error, false), mayRetry(error, true)]).toEqual([unkeyed, keyed]);
  });
});

describe('lists', () => {
  test('iterates over lists by item and by page, and fetches on demand', async () => {
    const other = await newTenant();
    const crm = newClient({ apiKey: other.key });
    const path = { object: 'accounts' };
    const names = Array.from({ length: 7 }, (_, index) => `Account ${index}`);
    for (const name of names) await crm.createRecord({ path, body: { name } });
    const listed = { path, query: { limit: 3, sort: 'name' } };

    const found: unknown[] = [];
    for await (const record of crm.listRecords.all(listed)) found.push(record.name);
    expect(found).toEqual(names);

    const sizes: number[] = [];
    for await (const { records } of crm.listRecords.pages(listed)) sizes.push(records.length);
    expect(sizes).toEqual([3, 3, 1]);

    proxy.failWith();
    for await (const record of crm.listRecords.all(listed)) if (record.name === names[1]) break;
    expect(proxy.seen).toHaveLength(1);

    const { records, next_cursor: cursor } = await crm.listRecords(listed);
    expect(records.map(({ name }) => name)).toEqual(names.slice(0, 3));
    const second = await crm.listRecords({ path, query: { ...listed.query, cursor: cursor ?? '' } });
    expect(second.records.map(({ name }) => name)).toEqual(names.slice(3, 6));
  });

  test('iterates over items in pages of 100', async () => {
    proxy.failWith();
    for await (const user of newClient({ apiKey: tenant.key }).listUsers.all()) expect(user.id).toBeDefined();
    expect(proxy.seen.map(({ url }) => url)).toEqual(['/v1/users?limit=100']);
  });

  test('ends an iteration with the error of a page', async () => {
    const iterator = newClient({ apiKey: tenant.key }).listRecords.all({ path: { object: 'object:nowhere' } });
    expect(await catchError(iterator.next())).toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('a feed', () => {
  test('follows a feed from a stored cursor page by page, through failures', async () => {
    const other = await newTenant();
    const crm = newClient({ apiKey: other.key });
    const path = { object: 'accounts' };
    const create = async (name: string): Promise<string> =>
      (await crm.createRecord({ path, body: { name } })).record.id;
    const { next_cursor: start } = await crm.listChanges({ query: { cursor: 'now' } });
    const ids = [await create('First')];
    const recorded: unknown[] = [];
    let saved = start;
    const follow = async (until: number): Promise<void> => {
      for await (const { changes, next_cursor } of crm.listChanges.follow({ query: { cursor: saved } })) {
        recorded.push(...changes.map((change) => change.record_id));
        saved = next_cursor;
        if (recorded.length >= until) break;
      }
    };
    await follow(1);
    proxy.failWith('reset', failure(503, 'SERVICE_UNAVAILABLE'));
    const following = follow(3);
    ids.push(await create('Second'), await create('Third'));
    await following;
    expect(recorded).toEqual(ids);
  });

  test('starts a feed with a page that has the cursor if it starts now', async () => {
    const crm = newClient({ apiKey: (await newTenant()).key });
    const { value } = await crm.listChanges.follow({ query: { cursor: 'now' } }).next();
    expect(value).toMatchObject({ changes: [], next_cursor: expect.any(String), has_more: false });
  });

  test('waits for news of a feed, and pauses if the server responds immediately without any', async () => {
    const nothing = {
      status: 200,
      body: { success: true, data: { changes: [], next_cursor: 'c', has_more: false }, meta: {} },
    };
    proxy.failWith(nothing, nothing, nothing);
    const ended = new AbortController();
    const answered: number[] = [];
    const next = newClient({ apiKey: tenant.key, onResponse: () => answered.push(performance.now()) })
      .listChanges.follow({ query: { cursor: 'c' }, signal: ended.signal })
      .next();
    await vi.waitUntil(() => answered.length === 2);
    ended.abort(new Error('no longer needed'));
    expect(await next.catch((thrown: unknown) => thrown)).toBe(ended.signal.reason);
    expect(proxy.seen.map(({ url }) => url)).toEqual(Array.from({ length: 2 }, () => '/v1/changes?cursor=c&wait=30'));
    const [first = 0, second = 0] = answered;
    expect(second - first).toBeGreaterThan(900);
  });

  test('stops following a feed on permanent failures, and when it is aborted', async () => {
    const crm = newClient({ apiKey: tenant.key });
    proxy.failWith();
    expect(await catchError(crm.listChanges.follow({ query: { cursor: 'junk' } }).next())).toMatchObject({
      code: 'VALIDATION_ERROR',
    });
    const recorded = new AbortController();
    const pages = crm.listChanges.follow({ query: { cursor: 'now' }, signal: recorded.signal });
    await pages.next();
    const next = pages.next();
    await vi.waitUntil(() => proxy.seen.some(({ url }) => url?.includes('wait=30')));
    recorded.abort(new Error('no longer needed'));
    expect(await next.catch((thrown: unknown) => thrown)).toBe(recorded.signal.reason);
  });
});

test('is generated from the OpenAPI document of the server', async () => {
  const { body } = await expectStatus(200, 'GET', '/v1/openapi.json');
  expect((await newClient().getOpenapiDocument()).paths).toEqual(body.paths);
});
