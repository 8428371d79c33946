// API keys: shown once, with only the granted permissions; changes apply from the next call on.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { describe, expect, test, vi } from 'vitest';
import { sweepKeyDays } from '../../db/billing/usage.ts';
import { newApiKey, sha256 } from '../../runtime/credentials/secrets.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { listProblems } from '../support/records.ts';
import { adminToken, newPerson, tokenFor } from '../support/sessions.ts';
import { database, newKey, newTenant, newUser, rowDatabase, type Tenant } from '../support/tenants.ts';

interface Admin {
  tenant: Tenant;
  token: string;
}

async function newAdmin(): Promise<Admin> {
  const tenant = await newTenant();
  return { tenant, token: await adminToken(tenant) };
}

async function mint({ token }: Admin, body: object = {}): Promise<{ key: string; api_key: Json }> {
  const answer = await expectStatus(201, 'POST', '/v1/api-keys', {
    token,
    body: { name: 'Forms', scopes: ['leads:create'], ...body },
  });
  return answer.body.data;
}

/** Returns the problems of a rejection, without their texts. */
const problems = (answer: Answer) => listProblems(answer.body.error).sort();

const findId = async (key: string): Promise<string> =>
  (await database()`select id from api_keys where key_hash = ${sha256(key)}`)[0]?.id;

describe('POST /v1/api-keys', () => {
  test('creates a key that works immediately, with defaults for omitted settings', async () => {
    const admin = await newAdmin();
    const { key, api_key: made } = await mint(admin);
    expect(key).toMatch(/^svc_live_[0-9a-f]{32}$/);
    expect(made).toEqual({
      id: expect.any(String),
      name: 'Forms',
      description: null,
      environment: 'live',
      prefix: 'svc_live_',
      last4: key.slice(-4),
      scopes: ['leads:create'],
      rate_limit_per_minute: 60,
      rate_limit_per_hour: 1000,
      rate_limit_per_day: null,
      ip_allowlist: [],
      reach: { kind: 'company', id: null },
      write_mode: 'direct',
      expires_at: null,
      status: 'active',
      created_by: { id: admin.tenant.admin.id, full_name: 'Ada Admin' },
      created_at: expect.any(String),
      last_used_at: null,
      last_used_ip: null,
      total_requests: 0,
      revoked_at: null,
      revoked_by: null,
      revoke_reason: null,
      is_legacy: false,
    });
    const me = await expectStatus(200, 'GET', '/v1/me', { key });
    expect(me.body.data).toMatchObject({ actor: { id: made.id }, scopes: ['leads:create'], environment: 'live' });
  });

  test('stores every setting of a new key', async () => {
    const admin = await newAdmin();
    await database()`
      insert into custom_objects (company_id, slug, label, plural, enabled, created_at, updated_at)
      values (${admin.tenant.companyId}, 'visits', 'Visit', 'Visits', false, now(), now())`;
    const settings = {
      name: 'Everything',
      description: 'For the importer',
      environment: 'test',
      scopes: ['*', 'leads:*', 'leads:write', 'object:visits:view', 'settings:configure'],
      rate_limit_per_minute: 6000,
      rate_limit_per_hour: 200_000,
      rate_limit_per_day: 1,
      ip_allowlist: ['203.0.113.7', '10.0.0.0/8', '2001:db8::1', '2001:db8::/32', '0.0.0.0/0', '::/0'],
      expires_at: '2099-01-01T00:00:00.000Z',
      reach: { kind: 'branch', id: admin.tenant.branchId },
    };
    const { key, api_key: made } = await mint(admin, settings);
    expect(key).toMatch(/^svc_test_/);
    expect(made).toMatchObject(settings);
    const again = await expectStatus(200, 'GET', `/v1/api-keys/${made.id}`, { token: admin.token });
    expect(again.body.data.api_key).toEqual(made);
  });

  test('reads an expiry with an offset as that instant', async () => {
    const { api_key: made } = await mint(await newAdmin(), { expires_at: '2099-01-01T02:30:00+02:30' });
    expect(made.expires_at).toBe('2099-01-01T00:00:00.000Z');
  });

  test('shows a key only once, and stores only its digest', async () => {
    const admin = await newAdmin();
    const { key, api_key: made } = await mint(admin);
    const answers = [
      await expectStatus(200, 'GET', '/v1/api-keys', { token: admin.token }),
      await expectStatus(200, 'GET', `/v1/api-keys/${made.id}`, { token: admin.token }),
      await expectStatus(200, 'PATCH', `/v1/api-keys/${made.id}`, { token: admin.token, body: { name: 'Other' } }),
      await expectStatus(200, 'POST', `/v1/api-keys/${made.id}/revoke`, { token: admin.token }),
    ];
    const digest = sha256(key);
    for (const { text } of answers) {
      expect(text).not.toContain(key.slice(9));
      for (const encoding of ['hex', 'base64', 'base64url'] as const)
        expect(text).not.toContain(digest.toString(encoding));
    }
    const [row] = await database()`select key_hash from api_keys where id = ${made.id}`;
    expect(row?.key_hash).toEqual(digest);
  });

  test.each([
    'messaging:send',
    'onboarding',
    'leads',
    'leads:',
    'leads:fly',
    'leads:**',
    ':view',
    '*:*',
    '**',
    'nonsense:view',
    'Leads:view',
    ' leads:view',
    'reports:delete',
    'access_control:configure',
    'object:*',
    'object:visits',
    'object:Visits:view',
    'object::view',
    'object:visits:configure',
    'onboarding:*',
    'constructor',
    '__proto__',
    'toString',
    'constructor:view',
    '__proto__:view',
    'hasOwnProperty:*',
    'leads:view\n',
  ])('rejects the scope %j and names it', async (scope) => {
    const admin = await sharedAdmin();
    const refused = await expectStatus(400, 'POST', '/v1/api-keys', {
      token: admin.token,
      body: { name: 'Forms', scopes: ['leads:view', scope] },
    });
    expect(problems(refused)).toEqual(['scopes[1] INVALID_OPTION']);
  });

  test('rejects scopes of an unknown object and lists the existing ones', async () => {
    const admin = await newAdmin();
    await database()`
      insert into custom_objects (company_id, slug, label, plural, created_at, updated_at)
      values (${admin.tenant.companyId}, 'visits', 'Visit', 'Visits', now(), now())`;
    const body = { name: 'Forms', scopes: ['object:visits:view', 'object:nope:view'] };
    const refused = await expectStatus(422, 'POST', '/v1/api-keys', { token: admin.token, body });
    expect(refused.body.error.details.fields).toMatchObject([
      { field: 'scopes[1]', code: 'NOT_FOUND', allowed: ['object:visits'] },
    ]);
  });

  test.each([
    ['nothing', {}, 400, ['name REQUIRED', 'scopes REQUIRED']],
    ['no scope', { scopes: [] }, 400, ['scopes TOO_SHORT']],
    ['201 scopes', { scopes: Array.from({ length: 201 }, (_, i) => `object:x${i}:view`) }, 400, ['scopes TOO_LONG']],
    ['a scope twice', { scopes: ['leads:view', 'leads:view'] }, 400, ['scopes DUPLICATE']],
    ['an empty name', { name: '' }, 400, ['name TOO_SHORT']],
    ['a name of 101', { name: 'x'.repeat(101) }, 400, ['name TOO_LONG']],
    ['an unknown environment', { environment: 'staging' }, 400, ['environment INVALID_OPTION']],
    ['0 calls per minute', { rate_limit_per_minute: 0 }, 400, ['rate_limit_per_minute OUT_OF_RANGE']],
    ['6001 calls per minute', { rate_limit_per_minute: 6001 }, 400, ['rate_limit_per_minute OUT_OF_RANGE']],
    ['200001 calls per hour', { rate_limit_per_hour: 200_001 }, 400, ['rate_limit_per_hour OUT_OF_RANGE']],
    ['half a call', { rate_limit_per_hour: 1.5 }, 422, ['rate_limit_per_hour INVALID_TYPE']],
    ['a past expiry', { expires_at: '2020-01-01T00:00:00Z' }, 400, ['expires_at OUT_OF_RANGE']],
    ['an expiry that is no time', { expires_at: 'soon' }, 400, ['expires_at INVALID_FORMAT']],
    ['a leap second', { expires_at: '2098-12-31T23:59:60Z' }, 400, ['expires_at INVALID_FORMAT']],
    ['the year 10000', { expires_at: '9999-12-31T23:59:59-23:00' }, 400, ['expires_at INVALID_FORMAT']],
    ['a branch without id', { reach: { kind: 'branch' } }, 400, ['reach.id REQUIRED']],
    ['a company with id', { reach: { kind: 'company', id: uuidv7() } }, 400, ['reach.id CONFLICTING_FIELDS']],
    ['a reach of another kind', { reach: { kind: 'own' } }, 400, ['reach.kind INVALID_OPTION']],
    ['a branch that is not there', { reach: { kind: 'branch', id: uuidv7() } }, 422, ['reach.id NOT_FOUND']],
    ['a team that is not there', { reach: { kind: 'team', id: uuidv7() } }, 422, ['reach.id NOT_FOUND']],
    ['unknown fields', { colour: 'red', key_hash: 'x' }, 422, ['colour UNKNOWN_FIELD', 'key_hash UNKNOWN_FIELD']],
    [
      'fields of the answer',
      { is_legacy: true, prefix: 'x' },
      422,
      ['is_legacy UNKNOWN_FIELD', 'prefix UNKNOWN_FIELD'],
    ],
    [
      'several kinds at once',
      { scopes: ['x'], expires_at: '2020-01-01T00:00:00Z', reach: { kind: 'team', id: uuidv7() } },
      422,
      ['expires_at OUT_OF_RANGE', 'reach.id NOT_FOUND', 'scopes[0] INVALID_OPTION'],
    ],
    [
      'a bad shape beside bad values',
      { name: '', scopes: ['nope', 5], expires_at: '2020-01-01T00:00:00Z', reach: { kind: 'team', colour: 'red' } },
      422,
      [
        'expires_at OUT_OF_RANGE',
        'name TOO_SHORT',
        'reach.colour UNKNOWN_FIELD',
        'reach.id REQUIRED',
        'scopes[0] INVALID_OPTION',
        'scopes[1] INVALID_TYPE',
      ],
    ],
    [
      'four values that each are wrong alone',
      { name: '', scopes: ['nope'], expires_at: '2020-01-01T00:00:00Z', rate_limit_per_minute: 0 },
      400,
      ['expires_at OUT_OF_RANGE', 'name TOO_SHORT', 'rate_limit_per_minute OUT_OF_RANGE', 'scopes[0] INVALID_OPTION'],
    ],
    [
      'parts of other types',
      { scopes: 'leads:view', reach: 'branch' },
      422,
      ['reach INVALID_TYPE', 'scopes INVALID_TYPE'],
    ],
  ])('rejects %s and names every problem', async (what, body, status, expected) => {
    const admin = await sharedAdmin();
    const whole = what === 'nothing' ? {} : { name: 'Forms', scopes: ['leads:view'], ...body };
    const refused = await expectStatus(status, 'POST', '/v1/api-keys', { token: admin.token, body: whole });
    expect(problems(refused)).toEqual(expected);
  });

  test.each([
    'nowhere',
    '',
    '1.2.3',
    '1.2.3.4.5',
    '01.2.3.4',
    '256.1.1.1',
    '1.2.3.4/33',
    '1.2.3.4/-1',
    '1.2.3.4/',
    '1.2.3.4/08',
    '1.2.3.4/8/8',
    '1.2.3.4/8 ',
    ' 1.2.3.4',
    '1.2.3.4:80',
    '2001:db8::/129',
    '2001:db8::1::2',
    'fe80::1%eth0',
    '::ffff:203.0.113.7',
    '::ffff:0:0/96',
    '[::1]',
    '/8',
    '1.2.3.4/0x8',
  ])('rejects the allowlist entry %j and names it', async (entry) => {
    const admin = await sharedAdmin();
    const refused = await expectStatus(400, 'POST', '/v1/api-keys', {
      token: admin.token,
      body: { name: 'Forms', scopes: ['leads:view'], ip_allowlist: ['10.0.0.0/8', entry] },
    });
    expect(problems(refused)).toEqual(['ip_allowlist[1] INVALID_FORMAT']);
  });

  test('accepts at most 50 allowlist entries', async () => {
    const admin = await sharedAdmin();
    const addresses = Array.from({ length: 51 }, (_, index) => `10.0.0.${index}`);
    await mint(admin, { ip_allowlist: addresses.slice(1) });
    const body = { name: 'Forms', scopes: ['leads:view'], ip_allowlist: addresses };
    const refused = await expectStatus(400, 'POST', '/v1/api-keys', { token: admin.token, body });
    expect(problems(refused)).toEqual(['ip_allowlist TOO_LONG']);
  });

  test('accepts only a branch or a team of its own company', async () => {
    const admin = await newAdmin();
    const stranger = await newTenant();
    const team = await newTeam(admin.tenant);
    const foreign = await newTeam(stranger);
    const { api_key: made } = await mint(admin, { reach: { kind: 'team', id: team } });
    expect(made.reach).toEqual({ kind: 'team', id: team });
    for (const reach of [
      { kind: 'team', id: foreign },
      { kind: 'branch', id: stranger.branchId },
      { kind: 'branch', id: team },
    ]) {
      const body = { name: 'Forms', scopes: ['leads:view'], reach };
      const refused = await expectStatus(422, 'POST', '/v1/api-keys', { token: admin.token, body });
      expect(problems(refused)).toEqual(['reach.id NOT_FOUND']);
    }
  });

  test('never has more than 100 active keys under concurrent creation', async () => {
    const admin = await newAdmin();
    // The two keys of every test tenant count as well.
    await Promise.all(Array.from({ length: 88 }, () => newKey(admin.tenant)));
    await newKey(admin.tenant, { revokedAt: new Date() });
    await newKey(admin.tenant, { expiresAt: new Date(Date.now() - 1000) });
    const body = { name: 'Forms', scopes: ['leads:view'] };
    const answers = await Promise.all(
      Array.from({ length: 32 }, () => call('POST', '/v1/api-keys', { token: admin.token, body })),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(10);
    const refused = answers.filter((answer) => answer.status === 409);
    expect(refused).toHaveLength(22);
    for (const { body: answer } of refused)
      expect(answer.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'key_limit', limit: 100 } });
    expect(await activeKeys(admin)).toBe(100);

    // Exactly one slot becomes free.
    await expectStatus(200, 'POST', `/v1/api-keys/${await findId(admin.tenant.testKey)}/revoke`, {
      token: admin.token,
    });
    await mint(admin);
    await expectStatus(409, 'POST', '/v1/api-keys', { token: admin.token, body });
  });

  test('writes an audit row that names the admin and does not contain the key', async () => {
    const admin = await newAdmin();
    const { key, api_key: made } = await mint(admin);
    const [row] = await readAudit(made.id);
    expect(row).toMatchObject({ action: 'api_key.create', actor_kind: 'user', actor_id: admin.tenant.admin.id });
    expect(JSON.stringify(row)).not.toContain(key.slice(9, -4));
  });
});

describe('managing API keys', () => {
  const routes: [string, string, object?][] = [
    ['POST', '/v1/api-keys', { name: 'Forms', scopes: ['leads:view'] }],
    ['GET', '/v1/api-keys'],
    ['GET', '/v1/api-keys/{id}'],
    ['PATCH', '/v1/api-keys/{id}', { name: 'Other' }],
    ['POST', '/v1/api-keys/{id}/revoke'],
    ['POST', '/v1/api-keys/{id}/rotate'],
  ];

  test.each(routes)('rejects %s %s for API keys, other roles and other workspaces', async (method, template, body) => {
    const admin = await newAdmin();
    const path = template.replace('{id}', await findId(admin.tenant.key));
    const key = await expectStatus(403, method, path, { key: admin.tenant.key, body });
    expect(key.body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { reason: 'session_token_required' } });

    const manager = await newUser(admin.tenant, { role: 'Branch_Manager' });
    const token = await tokenFor(admin.tenant, manager);
    const role = await expectStatus(403, method, path, { token, body });
    expect(role.body.error).toMatchObject({
      code: 'FORBIDDEN_SCOPE',
      details: { required_scopes: ['Company_Admin'] },
    });
    await expectStatus(401, method, path, { body });
    if (template.includes('{id}')) {
      const stranger = await newAdmin();
      const hidden = await expectStatus(404, method, path, { token: stranger.token, body });
      const unknown = await expectStatus(404, method, template.replace('{id}', randomUUID()), {
        token: admin.token,
        body,
      });
      const malformed = await expectStatus(404, method, template.replace('{id}', 'x'), { token: admin.token, body });
      expect(hidden.body.error).toEqual(unknown.body.error);
      expect(malformed.body.error).toEqual(unknown.body.error);
    }
    expect((await expectStatus(200, 'GET', '/v1/me', { key: admin.tenant.key })).body.data.actor.name).toBe('Test key');
  });
});

describe('GET /v1/api-keys', () => {
  test('lists all keys of the company newest first, without repeats or gaps while keys are created', async () => {
    const admin = await newAdmin();
    const { companyId } = admin.tenant;
    for (let index = 0; index < 7; index += 1) await newKey(admin.tenant);
    // Equal times, so that the order depends on the id.
    await database()`update api_keys set created_at = '2026-01-01T00:00:00Z' where company_id = ${companyId}`;
    await newKey(await newTenant());
    const expected =
      await database()`select id from api_keys where company_id = ${companyId} order by created_at desc, id desc`;
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const query: Record<string, string> = { limit: '2', ...(cursor ? { cursor } : {}) };
      const { body } = await expectStatus(200, 'GET', '/v1/api-keys', { token: admin.token, query });
      seen.push(...body.data.api_keys.map((key: Json) => key.id));
      expect(body.data.has_more).toBe(body.data.next_cursor !== null);
      cursor = body.data.next_cursor;
      await newKey(admin.tenant);
    } while (cursor);
    expect(seen).toEqual(expected.map((row) => row.id));
  });

  test('filters the list of keys by environment and status', async () => {
    const admin = await newAdmin();
    const expired = await newKey(admin.tenant, { expiresAt: new Date(Date.now() - 1000) });
    const revoked = await newKey(admin.tenant, { revokedAt: new Date() });
    const both = await newKey(admin.tenant, { revokedAt: new Date(), expiresAt: new Date(Date.now() - 1000) });
    const legacy = await newKey(admin.tenant, { legacy: true });
    const listed = async (query: Record<string, string>) => {
      const { body } = await expectStatus(200, 'GET', '/v1/api-keys', { token: admin.token, query });
      return body.data.api_keys;
    };
    const ids = async (query: Record<string, string>) => (await listed(query)).map((key: Json) => key.id).sort();
    const findIds = async (...keys: string[]) => (await Promise.all(keys.map(findId))).sort();
    const { key, testKey } = admin.tenant;
    expect(await ids({})).toEqual(await findIds(key, testKey, expired, revoked, both, legacy));
    expect(await ids({ status: 'active' })).toEqual(await findIds(key, testKey, legacy));
    expect(await ids({ status: 'expired' })).toEqual(await findIds(expired));
    expect(await ids({ status: 'revoked' })).toEqual(await findIds(revoked, both));
    expect(await ids({ environment: 'test' })).toEqual(await findIds(testKey));
    expect(await ids({ environment: 'live', status: 'active' })).toEqual(await findIds(key, legacy));
    for (const status of ['active', 'expired', 'revoked'])
      for (const shown of await listed({ status })) expect(shown.status).toBe(status);
    const [shown] = (await listed({})).filter((each: Json) => each.is_legacy);
    expect(shown.prefix).toBe('legacy_live_');
  });

  test('rejects unknown filters and cursors of another query or company', async () => {
    const admin = await newAdmin();
    const { token } = admin;
    const wrong: Record<string, string>[] = [
      { environment: 'staging' },
      { status: 'lost' },
      { colour: 'red' },
      { cursor: 'x.y' },
    ];
    for (const query of wrong) await expectStatus(400, 'GET', '/v1/api-keys', { token, query });
    const { body } = await expectStatus(200, 'GET', '/v1/api-keys', { token, query: { limit: 1 } });
    const cursor = body.data.next_cursor;
    await expectStatus(200, 'GET', '/v1/api-keys', { token, query: { cursor } });
    await expectStatus(400, 'GET', '/v1/api-keys', { token, query: { cursor, status: 'active' } });
    const stranger = await newAdmin();
    await expectStatus(400, 'GET', '/v1/api-keys', { token: stranger.token, query: { cursor } });
  });
});

describe('PATCH /v1/api-keys/{id}', () => {
  test('changes only the sent settings from the next call on', async () => {
    const admin = await newAdmin();
    const { key, api_key: made } = await mint(admin, { description: 'Old', rate_limit_per_day: 5 });
    const change = (body: object) =>
      expectStatus(200, 'PATCH', `/v1/api-keys/${made.id}`, { token: admin.token, body });
    for (const body of [
      { name: 'New' },
      { description: null },
      { scopes: ['deals:*'] },
      { rate_limit_per_minute: 7 },
      { rate_limit_per_hour: 8 },
      { rate_limit_per_day: null },
      { expires_at: '2099-01-01T00:00:00.000Z' },
      { expires_at: null },
      { ip_allowlist: ['127.0.0.0/8'] },
    ]) {
      const before = (await expectStatus(200, 'GET', `/v1/api-keys/${made.id}`, { token: admin.token })).body.data
        .api_key;
      const { body: after } = await change(body);
      expect(after.data.api_key).toEqual({ ...before, ...body });
      expect(
        (await expectStatus(200, 'GET', `/v1/api-keys/${made.id}`, { token: admin.token })).body.data.api_key,
      ).toEqual(after.data.api_key);
    }
    expect((await expectStatus(200, 'GET', '/v1/me', { key, ip: '127.0.0.9' })).body.data).toMatchObject({
      actor: { name: 'New' },
      scopes: ['deals:*'],
      limits: { rate_limit_per_minute: 7, rate_limit_per_hour: 8 },
    });
    await expectStatus(403, 'GET', '/v1/me', { key, ip: '203.0.113.1' });
  });

  test('writes only changed settings to the audit log', async () => {
    const admin = await newAdmin();
    const { api_key: made } = await mint(admin);
    const change = (body: object) =>
      expectStatus(200, 'PATCH', `/v1/api-keys/${made.id}`, { token: admin.token, body });
    await change({});
    await change({ name: 'Forms', scopes: ['leads:create'] });
    await change({ name: 'New', rate_limit_per_minute: 60 });
    const rows = (await readAudit(made.id)).filter((row) => row.action === 'api_key.update');
    expect(rows.map((row) => row.changes)).toEqual([{ name: { from: 'Forms', to: 'New' } }]);
  });

  test.each([
    ['environment', { environment: 'live' }, 422, ['environment IMMUTABLE']],
    ['reach', { reach: { kind: 'company' } }, 422, ['reach IMMUTABLE']],
    ['an ungrantable scope', { scopes: ['messaging:send'] }, 400, ['scopes[0] INVALID_OPTION']],
    ['a past expiry', { expires_at: '2020-01-01T00:00:00Z' }, 400, ['expires_at OUT_OF_RANGE']],
    ['a bad address', { ip_allowlist: ['x'] }, 400, ['ip_allowlist[0] INVALID_FORMAT']],
    ['null for a name', { name: null }, 422, ['name INVALID_TYPE']],
    [
      'unknown fields',
      { key_hash: 'x', revoked_at: null },
      422,
      ['key_hash UNKNOWN_FIELD', 'revoked_at UNKNOWN_FIELD'],
    ],
    [
      'a bad shape beside bad values',
      { name: '', scopes: ['nope', 5], expires_at: '2020-01-01T00:00:00Z' },
      422,
      ['expires_at OUT_OF_RANGE', 'name TOO_SHORT', 'scopes[0] INVALID_OPTION', 'scopes[1] INVALID_TYPE'],
    ],
  ])('rejects %s and changes nothing', async (_what, body, status, expected) => {
    const admin = await sharedAdmin();
    const { api_key: made } = await mint(admin);
    const path = `/v1/api-keys/${made.id}`;
    const refused = await expectStatus(status, 'PATCH', path, { token: admin.token, body: { name: 'New', ...body } });
    expect(problems(refused)).toEqual(expected);
    expect((await expectStatus(200, 'GET', path, { token: admin.token })).body.data.api_key).toEqual(made);
  });

  test('reactivates an expired key, unless 100 others are active', async () => {
    const admin = await newAdmin();
    const key = await newKey(admin.tenant, { expiresAt: new Date(Date.now() - 1000) });
    const revive = async () =>
      call('PATCH', `/v1/api-keys/${await findId(key)}`, { token: admin.token, body: { expires_at: null } });
    await Promise.all(Array.from({ length: 98 }, () => newKey(admin.tenant)));
    const refused = await revive();
    expect([refused.status, refused.body.error.details.reason]).toEqual([409, 'key_limit']);
    await expectStatus(401, 'GET', '/v1/me', { key });
    await expectStatus(200, 'POST', `/v1/api-keys/${await findId(admin.tenant.key)}/revoke`, { token: admin.token });
    expect((await revive()).status).toBe(200);
    await expectStatus(200, 'GET', '/v1/me', { key });
  });

  test('rejects changes of a revoked key', async () => {
    const admin = await newAdmin();
    const { api_key: made } = await mint(admin);
    await expectStatus(200, 'POST', `/v1/api-keys/${made.id}/revoke`, { token: admin.token });
    const refused = await expectStatus(409, 'PATCH', `/v1/api-keys/${made.id}`, {
      token: admin.token,
      body: { name: 'x' },
    });
    expect(refused.body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'key_revoked' } });
  });
});

describe('POST /v1/api-keys/{id}/revoke', () => {
  test('revokes a key once from its next call on, with actor, time and reason', async () => {
    const admin = await newAdmin();
    const { key, api_key: made } = await mint(admin);
    await expectStatus(200, 'GET', '/v1/me', { key });
    const path = `/v1/api-keys/${made.id}/revoke`;
    const first = await expectStatus(200, 'POST', path, { token: admin.token, body: { reason: 'Laptop lost' } });
    const refused = await expectStatus(401, 'GET', '/v1/me', { key });
    expect(refused.body.error.code).toBe('API_KEY_REVOKED');
    expect(first.body.data.api_key).toMatchObject({
      status: 'revoked',
      revoked_at: expect.any(String),
      revoked_by: admin.tenant.admin.id,
      revoke_reason: 'Laptop lost',
    });
    const second = await expectStatus(200, 'POST', path, { token: admin.token, body: { reason: 'Other' } });
    // The usage is counted with a delay.
    const { total_requests: _total, last_used_at: _at, last_used_ip: _ip, ...kept } = first.body.data.api_key;
    expect(second.body.data.api_key).toMatchObject(kept);
    const audit = (await readAudit(made.id)).filter((row) => row.action === 'api_key.revoke');
    expect(audit.map((row) => row.metadata)).toEqual([{ reason: 'Laptop lost' }]);
  });

  test('revokes without a body or a reason, and accepts a reason of 200 characters', async () => {
    const admin = await sharedAdmin();
    const revoke = async (options: object) => {
      const { api_key: made } = await mint(admin);
      return call('POST', `/v1/api-keys/${made.id}/revoke`, { token: admin.token, ...options });
    };
    expect((await revoke({})).body.data.api_key.revoke_reason).toBeNull();
    expect((await revoke({ body: {} })).body.data.api_key.revoke_reason).toBeNull();
    expect((await revoke({ body: { reason: 'x'.repeat(200) } })).status).toBe(200);
    expect(problems(await revoke({ body: { reason: 'x'.repeat(201) } }))).toEqual(['reason TOO_LONG']);
    expect(problems(await revoke({ body: { why: 'x' } }))).toEqual(['why UNKNOWN_FIELD']);
  });

  test('revokes expired keys too, and reports revoked before expired', async () => {
    const admin = await newAdmin();
    const key = await newKey(admin.tenant, { expiresAt: new Date(Date.now() - 1000) });
    expect((await expectStatus(401, 'GET', '/v1/me', { key })).body.error.code).toBe('API_KEY_EXPIRED');
    await expectStatus(200, 'POST', `/v1/api-keys/${await findId(key)}/revoke`, { token: admin.token });
    expect((await expectStatus(401, 'GET', '/v1/me', { key })).body.error.code).toBe('API_KEY_REVOKED');
  });

  test('revokes a key once for 16 concurrent calls, which all return it', async () => {
    const admin = await newAdmin();
    const { api_key: made } = await mint(admin);
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        expectStatus(200, 'POST', `/v1/api-keys/${made.id}/revoke`, {
          token: admin.token,
          body: { reason: `Reason ${index}` },
        }),
      ),
    );
    expect(new Set(answers.map((answer) => answer.body.data.api_key.revoke_reason)).size).toBe(1);
    expect((await readAudit(made.id)).filter((row) => row.action === 'api_key.revoke')).toHaveLength(1);
  });
});

describe('POST /v1/api-keys/{id}/rotate', () => {
  const rotate = ({ token }: Admin, id: string, body?: object) =>
    call('POST', `/v1/api-keys/${id}/rotate`, { token, ...(body ? { body } : {}) });

  test('creates a key with the same settings on rotation, and both work for 24 hours by default', async () => {
    const admin = await newAdmin();
    const settings = {
      description: 'For the importer',
      environment: 'test',
      scopes: ['leads:*', 'deals:view'],
      rate_limit_per_minute: 7,
      rate_limit_per_hour: 8,
      rate_limit_per_day: 9,
      ip_allowlist: ['127.0.0.0/8'],
      reach: { kind: 'branch', id: admin.tenant.branchId },
    };
    const old = await mint(admin, settings);
    const from = Date.now();
    const answer = await rotate(admin, old.api_key.id);
    expect(answer.status).toBe(201);
    const { key, api_key: made } = answer.body.data;
    expect(key).toMatch(/^svc_test_[0-9a-f]{32}$/);
    expect(key).not.toBe(old.key);
    expect(made).toEqual({ ...old.api_key, id: made.id, last4: key.slice(-4), created_at: made.created_at });
    expect(made.id).not.toBe(old.api_key.id);
    const [before, after] = [await shownKey(admin, old.api_key.id), await shownKey(admin, made.id)];
    const overlap = new Date(before.expires_at).getTime() - from;
    expect(overlap).toBeGreaterThanOrEqual(24 * 3_600_000);
    expect(overlap).toBeLessThan(24 * 3_600_000 + 60_000);
    expect(after.expires_at).toBeNull();
    for (const each of [old.key, key]) await expectStatus(200, 'GET', '/v1/me', { key: each, ip: '127.0.0.1' });
    const [audit] = (await readAudit(old.api_key.id)).filter((row) => row.action === 'api_key.rotate');
    expect(audit).toMatchObject({
      changes: { expires_at: { from: null, to: before.expires_at } },
      metadata: { replaced_by: made.id },
    });
  });

  test('rejects the old key immediately after a rotation without overlap', async () => {
    const admin = await newAdmin();
    const old = await mint(admin);
    const { body } = await rotate(admin, old.api_key.id, { overlap_hours: 0 });
    expect((await expectStatus(401, 'GET', '/v1/me', { key: old.key })).body.error.code).toBe('API_KEY_EXPIRED');
    await expectStatus(200, 'GET', '/v1/me', { key: body.data.key });
  });

  test('never extends the expiry of the old key, and gives the new key the requested one', async () => {
    const admin = await newAdmin();
    const soon = new Date(Date.now() + 3_600_000).toISOString();
    const sooner = await mint(admin, { expires_at: soon });
    const first = await rotate(admin, sooner.api_key.id, { overlap_hours: 168 });
    expect((await shownKey(admin, sooner.api_key.id)).expires_at).toBe(soon);
    expect(first.body.data.api_key.expires_at).toBe(soon);
    const later = await mint(admin, { expires_at: '2099-01-01T00:00:00.000Z' });
    const second = await rotate(admin, later.api_key.id, { overlap_hours: 1 });
    expect(new Date((await shownKey(admin, later.api_key.id)).expires_at).getTime()).toBeLessThan(
      Date.now() + 3_700_000,
    );
    expect(second.body.data.api_key.expires_at).toBe('2099-01-01T00:00:00.000Z');
  });

  test('replaces a legacy key with a current one on rotation', async () => {
    const admin = await newAdmin();
    const key = await newKey(admin.tenant, { legacy: true, scopes: ['leads:write'] });
    const { body } = await rotate(admin, await findId(key));
    expect(body.data.key).toMatch(/^svc_live_/);
    expect(body.data.api_key).toMatchObject({ is_legacy: false, prefix: 'svc_live_', scopes: ['leads:write'] });
  });

  test.each([
    ['a revoked key', { revokedAt: new Date() }, 'key_revoked'],
    ['an expired key', { expiresAt: new Date(Date.now() - 1000) }, 'key_expired'],
    ['a key with the platform scope', { scopes: ['leads:view', 'onboarding'] }, 'scope_not_grantable'],
  ])('rejects to rotate %s', async (_what, options, reason) => {
    const admin = await newAdmin();
    const key = await newKey(admin.tenant, options);
    const refused = await rotate(admin, await findId(key));
    expect(refused.status).toBe(409);
    expect(refused.body.error).toMatchObject({ code: 'CONFLICT', details: { reason } });
    expect(await database()`select from api_keys where company_id = ${admin.tenant.companyId}`).toHaveLength(3);
  });

  test.each([[-1], [169], [1.5]])('rejects an overlap of %d hours', async (hours) => {
    const admin = await sharedAdmin();
    const { api_key: made } = await mint(admin);
    const refused = await rotate(admin, made.id, { overlap_hours: hours });
    expect(refused.status).toBe(Number.isInteger(hours) ? 400 : 422);
    expect(refused.body.error.details.fields[0].field).toBe('overlap_hours');
  });

  test('counts both keys of an overlap towards the 100, and changes nothing without a free slot', async () => {
    const admin = await newAdmin();
    await Promise.all(Array.from({ length: 98 }, () => newKey(admin.tenant)));
    const id = await findId(admin.tenant.key);
    const refused = await rotate(admin, id, { overlap_hours: 1 });
    expect([refused.status, refused.body.error.details.reason]).toEqual([409, 'key_limit']);
    expect((await shownKey(admin, id)).expires_at).toBeNull();
    expect((await rotate(admin, id, { overlap_hours: 0 })).status).toBe(201);
    expect(await activeKeys(admin)).toBe(100);
  });
});

test('never creates a key with an old prefix', async () => {
  const admin = await sharedAdmin();
  for (const environment of ['live', 'test'] as const) {
    expect(newApiKey(environment).prefix).toBe(`svc_${environment}_`);
    expect((await mint(admin, { environment })).key.startsWith(`svc_${environment}_`)).toBe(true);
  }
});

let shared: Promise<Tenant> | undefined;
/**
 * Returns an admin for tests that leave few active keys. Each call returns another admin, because
 * each has a rate limit.
 */
async function sharedAdmin(): Promise<Admin> {
  shared ??= newTenant();
  const tenant = await shared;
  return { tenant, token: await tokenFor(tenant, await newPerson(tenant, 'Company_Admin')) };
}

async function shownKey({ token }: Admin, id: string): Promise<Json> {
  return (await expectStatus(200, 'GET', `/v1/api-keys/${id}`, { token })).body.data.api_key;
}

async function activeKeys({ tenant }: Admin): Promise<number> {
  const rows = await database()`
    select from api_keys
    where company_id = ${tenant.companyId} and revoked_at is null and (expires_at is null or expires_at > now())`;
  return rows.length;
}

async function newTeam(tenant: Tenant): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into teams (company_id, id, branch_id, name, created_at)
    values (${tenant.companyId}, ${id}, ${tenant.branchId}, 'Team', now())`;
  return id;
}

function readAudit(recordId: string) {
  return database()`
    select action, actor_kind, actor_id, changes, metadata from audit_logs
    where object = 'api_keys' and record_id = ${recordId} order by seq`;
}

describe('GET /v1/api-keys/{id}/usage', () => {
  const usage = async (token: string, id: string, query: Record<string, string> = {}): Promise<Json> =>
    (await expectStatus(200, 'GET', `/v1/api-keys/${id}/usage`, { token, query })).body.data.usage;

  test('keeps the usage of every key for 400 days', async () => {
    const admins = [await newAdmin(), await newAdmin()];
    for (const admin of admins) {
      const { api_key: made } = await mint(admin);
      await database()`
        insert into api_key_days (company_id, day, api_key_id, calls)
        values (${admin.tenant.companyId}, current_date - 399, ${made.id}, 7), (${admin.tenant.companyId}, current_date - 401, ${made.id}, 100)`;
    }
    while ((await sweepKeyDays(rowDatabase(), 1000, new Date())) > 0);
    for (const { tenant } of admins)
      expect(await database()`select calls::int from api_key_days where company_id = ${tenant.companyId}`).toEqual([
        { calls: 7 },
      ]);
  });

  test('reports every day of usage, including days without calls and days of revoked keys', async () => {
    const admin = await newAdmin();
    const { key, api_key: made } = await mint(admin, { scopes: ['leads:view'] });
    const { companyId } = admin.tenant;
    await database()`
      insert into api_key_days (company_id, day, api_key_id, calls)
      values (${companyId}, current_date - 2, ${made.id}, 7), (${companyId}, current_date - 40, ${made.id}, 100)`;
    for (let count = 0; count < 3; count += 1) await call('GET', '/v1/me', { key });
    await expectStatus(200, 'POST', `/v1/api-keys/${made.id}/revoke`, { token: admin.token });
    await vi.waitFor(async () => expect((await usage(admin.token, made.id, { days: '1' })).calls).toBe(3));
    const { days, calls } = await usage(admin.token, made.id, { days: '4' });
    const day = (ago: number): string => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
    expect(days).toEqual([
      { date: day(3), calls: 0 },
      { date: day(2), calls: 7 },
      { date: day(1), calls: 0 },
      { date: day(0), calls: 3 },
    ]);
    expect(calls).toBe(10);
    expect((await usage(admin.token, made.id)).days).toHaveLength(30);
    expect((await usage(admin.token, made.id, { days: '400' })).calls).toBe(110);
  });

  test('returns 404 for keys of others and rejects days beyond the retention', async () => {
    const [admin, other] = [await newAdmin(), await newAdmin()];
    const { api_key: made } = await mint(other);
    await expectStatus(404, 'GET', `/v1/api-keys/${made.id}/usage`, { token: admin.token });
    for (const days of ['0', '401', 'many'])
      await expectStatus(400, 'GET', `/v1/api-keys/${made.id}/usage`, { token: other.token, query: { days } });
  });
});
