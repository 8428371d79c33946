// The MCP endpoint: access, origins, counting, and hostile messages.
import { randomUUID } from 'node:crypto';
import { describe, expect, inject, test, vi } from 'vitest';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { accessToken, newGrant } from '../support/access-tokens.ts';
import { type CallOptions, call } from '../support/client.ts';
import { hostileTexts } from '../support/hostile-texts.ts';
import { callTool, connect, mcpPath, post } from '../support/mcp.ts';
import { newWideTenant, sharedToken } from '../support/requests.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

const audience = (): string => inject('baseUrl') + mcpPath;
const metadata = (): string => `resource_metadata="${inject('baseUrl')}/.well-known/oauth-protected-resource/v1/mcp"`;
const list = (options: CallOptions) => post('tools/list', {}, options);

async function appToken(tenant: Tenant, scope: string, aud: unknown = audience()): Promise<string> {
  return accessToken(tenant, await newGrant(tenant), { scope, ...(aud === undefined ? {} : { aud }) });
}

describe('access', () => {
  test.each(['GET', 'DELETE', 'PUT', 'PATCH'])('rejects the method %s', async (method) => {
    const answer = await call(method, mcpPath, { key: (await newTenant()).key });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST, OPTIONS']);
  });

  test('responds to a missing or wrong credential with the address for getting one', async () => {
    const none = await list({});
    expect(none.status).toBe(401);
    expect(none.headers.get('www-authenticate')).toBe(`Bearer ${metadata()}, scope="openid profile email"`);
    expect(none.body.error.data.code).toBe('MISSING_API_KEY');
    const bad = await list({ token: 'not.a.token' });
    expect(bad.headers.get('www-authenticate')).toBe(
      `Bearer error="invalid_token", ${metadata()}, scope="openid profile email"`,
    );
    expect(bad.body).toMatchObject({ jsonrpc: '2.0', id: null, error: { data: { code: 'AUTH_INVALID_KEY' } } });
  });

  test('accepts only access tokens for its own address', async () => {
    const tenant = await newWideTenant();
    expect((await list({ token: await appToken(tenant, 'leads:view') })).status).toBe(200);
    expect((await list({ token: await appToken(tenant, 'leads:view', ['x', audience()]) })).status).toBe(200);
    for (const aud of [undefined, null, inject('baseUrl'), `${audience()}/`, 'authenticated', [`${audience()}x`]]) {
      const token =
        aud === undefined
          ? await accessToken(tenant, await newGrant(tenant))
          : await appToken(tenant, 'leads:view', aud);
      expect((await list({ token })).status, String(aud)).toBe(401);
    }
  });

  test('rejects a session token', async () => {
    const answer = await list({ token: await sharedToken(await newTenant()) });
    expect([answer.status, answer.body.error.data.code]).toEqual([401, 'AUTH_INVALID_KEY']);
  });

  test('tells an app over HTTP which scope to request, if it can request more', async () => {
    const token = await appToken(await newWideTenant(), 'leads:view deals:view leads:edit');
    const id = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9e10';
    const answer = await callTool('update_record', { object: 'deals', id, record: {} }, { token });
    expect(answer.status).toBe(403);
    expect(answer.headers.get('www-authenticate')).toBe(
      `Bearer error="insufficient_scope", ${metadata()}, scope="deals:edit"`,
    );
    const hidden = await callTool('create_lead', { first_name: 'Sara' }, { token });
    expect(hidden.headers.get('www-authenticate')).toContain('scope="leads:create"');
  });

  test('records an app under its own name', async () => {
    const tenant = await newWideTenant();
    const client = await connect({ authorization: `Bearer ${await appToken(tenant, 'leads:view')}` });
    const { structuredContent } = await client.callTool({ name: 'whoami' });
    expect(structuredContent.actor).toMatchObject({ kind: 'oauth_client', name: 'Test app' });
    await client.close();
  });

  test('blocks addresses that try API keys, like REST', async () => {
    const ip = '10.1.2.3';
    const statuses: number[] = [];
    for (let tries = 0; tries < 32; tries += 1) statuses.push((await list({ key: 'svc_live_wrong', ip })).status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(30);
    expect((await call('GET', '/v1/me', { key: 'svc_live_wrong', ip })).status).toBe(429);
  });
});

describe('a client that accepts JSON only', () => {
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1.0.0' } },
  };
  const whoami = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'whoami', arguments: {} } };

  test.each(['application/json', '*/*', 'application/json;q=0.9, text/plain', undefined])(
    'responds in JSON with Accept: %s in both generations',
    async (accept) => {
      const { key } = await newWideTenant();
      const headers = { ...(accept === undefined ? {} : { accept }) };
      for (const body of [initialize, whoami]) {
        const answer = await call('POST', mcpPath, { key, body, headers });
        expect(answer.status, answer.text).toBe(200);
        expect(answer.headers.get('content-type')).toContain('application/json');
        expect(answer.body.result).toBeDefined();
      }
      expect((await post('tools/list', {}, { key, headers: { accept: accept ?? '' } })).status).toBe(200);
    },
  );
});

describe('the origin', () => {
  test.each([
    ['host', 'evil.example'],
    ['host', 'evil.example:80'],
    ['origin', 'https://evil.example'],
    ['origin', 'null'],
    ['origin', 'http://localhost.evil.example'],
  ])('rejects the foreign %s %s', async (name, value) => {
    const { key } = await newTenant();
    const answer = await list({ key, headers: { [name]: value } });
    expect([answer.status, answer.body.error.data.details.reason]).toEqual([403, `foreign_${name}`]);
  });

  test('accepts pages of the server itself', async () => {
    const { key } = await newTenant();
    expect((await list({ key, headers: { origin: inject('baseUrl') } })).status).toBe(200);
  });
});

/** Returns the calls charged this month, without leases. */
const used = async ({ companyId }: Tenant): Promise<number> => {
  const [row] = await database()`
    select calls::int - coalesce((select sum(calls)::int from api_quota_blocks where company_id = ${companyId}), 0) as calls
    from api_quota where company_id = ${companyId}`;
  return row?.calls;
};

describe('counting', () => {
  test('counts each tool call and each reading of resources once, however many operations it performs', async () => {
    const tenant = await newWideTenant();
    const { key } = tenant;
    const accounts = { object: 'accounts', record: { name: 'Counted' }, idempotency_key: 'counted-once' };
    await list({ key });
    await post('prompts/list', {}, { key });
    await post('resources/templates/list', {}, { key });
    await post('resources/read', { uri: 'schema://nothing' }, { key });
    await post('resources/list', {}, { key });
    await post('resources/read', { uri: 'schema://leads' }, { key });
    for (const [name, args] of [
      ['get_usage', {}],
      ['get_record', { object: 'leads', id: 'x' }],
      ['create_record', accounts],
    ] as const)
      await callTool(name, args, { key });
    // A stored response: free, like on REST.
    await callTool('create_record', accounts, { key });
    // Test data: free.
    await callTool('whoami', {}, { key: tenant.testKey });
    await vi.waitFor(async () => expect(await used(tenant)).toBe(5));
  });

  test('tells a model that the month is used up', async () => {
    const tenant = await newTenant();
    await database()`
      update subscriptions set status = 'active', package_code = 'bespoke', trial_ends_at = null, api_call_cap = 1, api_daily_cap = 100000
      where company_id = ${tenant.companyId}`;
    const texts: string[] = [];
    for (const name of ['whoami', 'whoami'])
      texts.push((await callTool(name, {}, { key: tenant.key })).body.result.content[0].text);
    expect(texts[1]).toMatch(/^QUOTA_EXCEEDED: The monthly quota of 1 calls is used up/);
  });

  test('reads nothing without a subscription, by tools or as resources', async () => {
    const tenant = await newWideTenant();
    const { key } = tenant;
    await database()`
      update subscriptions set status = 'trialing', trial_ends_at = now() - interval '1 day'
      where company_id = ${tenant.companyId}`;
    const recorded = /^QUOTA_EXCEEDED: This workspace has no subscription/;
    expect((await callTool('list_objects', {}, { key })).body.result.content[0].text).toMatch(recorded);
    for (const [method, params] of [
      ['resources/list', {}],
      ['resources/read', { uri: 'schema://leads' }],
    ] as const) {
      const { status, body } = await post(method, params, { key });
      expect(status).toBe(200);
      expect(body.error).toMatchObject({
        code: -32_000,
        message: expect.stringMatching(recorded),
        data: { code: 'QUOTA_EXCEEDED' },
      });
    }
  });

  test('limits a key to as many calls of a tool as of its operation, together', async () => {
    const tenant = await newWideTenant();
    const key = await newKey(tenant, { perMinute: 4 });
    const calls = [
      () => callTool('whoami', {}, { key }),
      () => call('GET', '/v1/me', { key }),
      () => callTool('whoami', {}, { key }),
      () => call('GET', '/v1/me', { key }),
    ];
    for (const each of calls) expect((await each()).status).toBe(200);
    const refused = await callTool('whoami', {}, { key });
    expect(refused.status).toBe(200);
    expect(refused.body.result.content[0].text).toMatch(/^RATE_LIMIT_EXCEEDED/);
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('0');
  });

  test('counts calls of unknown tools and calls with invalid arguments', async () => {
    const key = await newKey(await newWideTenant(), { perMinute: 2 });
    expect((await callTool('drop_tables', {}, { key })).status).toBe(200);
    expect((await callTool('get_record', { colour: 'red' }, { key })).status).toBe(200);
    expect((await callTool('drop_tables', {}, { key })).status).toBe(429);
  });

  test('limits list requests separately', async () => {
    const key = await newKey(await newWideTenant(), { perMinute: 3 });
    for (let calls = 0; calls < 3; calls += 1) expect((await list({ key })).status).toBe(200);
    const refused = await list({ key });
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  });
});

describe('hostile messages', () => {
  const raw = (rawBody: string | Buffer, key: string) =>
    call('POST', mcpPath, { key, rawBody, headers: { accept: 'application/json, text/event-stream' } });

  test.each([
    ['no JSON', 'nothing'],
    ['a number', '7'],
    ['null', 'null'],
    ['an empty list', '[]'],
    ['a message of no method', '{"jsonrpc":"2.0","id":1}'],
    ['several requests', JSON.stringify([1, 2].map((id) => ({ jsonrpc: '2.0', id, method: 'tools/list' })))],
  ])('rejects the message %s', async (_name, body) => {
    const answer = await raw(body, (await newTenant()).key);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.text)).toMatchObject({ error: { code: expect.any(Number) } });
  });

  test('rejects more than 100 KB', async () => {
    const answer = await raw(`{"a":"${'x'.repeat(120_000)}"}`, (await newTenant()).key);
    expect([answer.status, answer.body.error.data.details.reason]).toEqual([400, 'body_too_large']);
  });

  test('treats texts of any kind as data', async () => {
    const { key } = await newWideTenant();
    // Short enough to be read at all.
    for (const text of Object.values(hostileTexts).map((each) => each.slice(0, 5000))) {
      for (const args of [{ q: text }, { objects: text, q: 'ab' }, { q: [text] }, { [text]: 1 }]) {
        const answer = await callTool('search', args, { key });
        expect(answer.status).toBe(200);
        expect(answer.body.error).toBeUndefined();
      }
      const answer = await callTool('get_record', { object: text, id: text }, { key });
      expect(answer.body.result.isError).toBe(true);
    }
  });

  test.each([[[]], [7], ['text'], [{ record: { __proto__: null } }]])(
    'rejects arguments of the form %j',
    async (given) => {
      const { key } = await newWideTenant();
      const answer = await post('tools/call', { name: 'create_record', arguments: given }, { key });
      expect(answer.body.result?.isError ?? answer.body.error.code < 0).toBe(true);
    },
  );

  test('returns an error for an unknown tool or method', async () => {
    const { key } = await newWideTenant();
    expect((await callTool('drop_tables', {}, { key })).body.error.code).toBe(-32_602);
    const unknown = await post('drop/tables', {}, { key });
    expect([unknown.status, unknown.body.error.code]).toEqual([404, -32_601]);
  });

  test('tells listeners that there are no changes, and ends the stream', async () => {
    const { key } = await newWideTenant();
    const notifications = {
      toolsListChanged: true,
      resourcesListChanged: true,
      promptsListChanged: true,
      resourceSubscriptions: ['schema://leads'],
    };
    const { status, text } = await post('subscriptions/listen', { notifications }, { key });
    expect(status).toBe(200);
    const messages = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ''));
    expect(messages).toMatchObject([
      { method: 'notifications/subscriptions/acknowledged', params: { notifications: {} } },
      { id: 1, result: { resultType: 'complete' } },
    ]);
  });
});

describe('a cached key', () => {
  const account = (name: string) => ({ object: 'accounts', record: { name } });
  const change = (key: string, values: object) =>
    database()`update api_keys set ${database()(values)}, updated_at = now() where key_hash = ${sha256(key)}`;
  const countAccounts = async ({ companyId }: Tenant): Promise<number> => {
    const [row] = await database()`select count(*)::int as count from accounts where company_id = ${companyId}`;
    return row?.count;
  };

  test('rejects a cached key at the next tool call after a revocation elsewhere', async () => {
    const { key } = await newWideTenant();
    expect((await callTool('whoami', {}, { key })).status).toBe(200);
    await change(key, { revoked_at: new Date() });
    const answer = await callTool('whoami', {}, { key });
    expect([answer.status, answer.body.error.data.code]).toEqual([401, 'API_KEY_REVOKED']);
  });

  test('writes and charges nothing once a scope was removed elsewhere', async () => {
    const tenant = await newWideTenant();
    const key = await newKey(tenant);
    await callTool('create_record', account('First'), { key });
    await change(key, { scopes: ['accounts:view'] });
    const { error } = (await callTool('create_record', account('Second'), { key })).body;
    expect(error.message).toBe('There is no tool create_record.');
    expect(await countAccounts(tenant)).toBe(1);
    await vi.waitFor(async () => expect(await used(tenant)).toBe(1));
  });

  test('permits a call immediately after a scope was granted elsewhere, and performs it once', async () => {
    const tenant = await newWideTenant();
    const key = await newKey(tenant, { scopes: ['accounts:view'] });
    const { result: found } = (await callTool('query_records', { object: 'accounts' }, { key })).body;
    expect(found.structuredContent.records).toEqual([]);
    await change(key, { scopes: ['*'] });
    const { result } = (await callTool('create_record', account('Only'), { key })).body;
    expect(result.structuredContent.record.name).toBe('Only');
    await change(key, { scopes: ['accounts:view', 'accounts:create'] });
    const second = await callTool('create_record', account('Another'), { key });
    expect(second.body.result).toMatchObject({ structuredContent: { record: { name: 'Another' } } });
    expect(await countAccounts(tenant)).toBe(2);
    await vi.waitFor(async () => expect(await used(tenant)).toBe(3));
  });

  test('counts each call of a cached key once, regardless of its outcome', async () => {
    const tenant = await newWideTenant();
    const key = await newKey(tenant, { perMinute: 2 });
    const asked: [string, object][] = [
      ['whoami', {}],
      ['get_record', { object: 'accounts', id: randomUUID() }],
      // Two operations.
      ['get_usage', {}],
      ['get_customer', {}],
      ['no_such_tool', {}],
    ];
    const limited: boolean[][] = [];
    for (const [name, args] of asked) {
      const calls: boolean[] = [];
      for (let times = 0; times < 3; times += 1)
        calls.push(JSON.stringify((await callTool(name, args, { key })).body).includes('RATE_LIMIT'));
      limited.push(calls);
    }
    const twice = [false, false, true];
    // Invalid calls and unknown tools count as requests of the endpoint.
    expect(limited).toEqual([twice, twice, twice, twice, [true, true, true]]);
    await vi.waitFor(async () => {
      const [row] = await database()`
          select u.total_requests::int as total from api_key_usage u join api_keys k on k.company_id = u.company_id and k.id = u.api_key_id
          where k.key_hash = ${sha256(key)}`;
      expect(row?.total).toBe(15);
    });
  });
});
