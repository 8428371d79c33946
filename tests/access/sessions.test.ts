// Sign-in: uniform rejections, single-use refresh tokens, immediate sign-out.
import { randomUUID } from 'node:crypto';
import { createLocalJWKSet, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sweepSessions } from '../../db/access/sessions.ts';
import { checkPassword, hashPassword } from '../../runtime/credentials/passwords.ts';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { type Answer, call, expectStatus } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { operations } from '../support/document.ts';
import { listAlternatives } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { newPerson, signIn } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import { adminPassword, database, newTenant, rowDatabase } from '../support/tenants.ts';

const password = { grant_type: 'password' };
const refresh = { grant_type: 'refresh_token' };
const renew = (token: string) => call('POST', '/auth/v1/token', { query: refresh, body: { refresh_token: token } });
const refusal = (answer: Answer) => ({ status: answer.status, body: answer.body });
const badToken = {
  status: 400,
  body: { error: 'invalid_grant', error_description: 'The refresh token is invalid or has expired. Sign in again.' },
};

/** Creates a workspace whose administrator has this address and a generated password. */
const signUp = (email: string, baseUrl?: string): Promise<Answer> =>
  expectStatus(201, 'POST', '/v1/onboarding', {
    body: {
      region: 'europe',
      industry: 'Retail',
      company: { name: 'Blue Lake', email: 'office@example.com' },
      admin_user: { email, full_name: 'Sara Haddad' },
    },
    ...(baseUrl ? { baseUrl } : {}),
  });

describe('POST /auth/v1/token?grant_type=password', () => {
  test('returns a session token for an hour, a refresh token and the person, not cacheable', async () => {
    const tenant = await newTenant();
    const { body, headers } = await expectStatus(200, 'POST', '/auth/v1/token', {
      query: password,
      body: { email: tenant.admin.email.toUpperCase(), password: adminPassword },
    });
    expect(body).toEqual({
      access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      token_type: 'bearer',
      expires_in: 3600,
      refresh_token: expect.stringMatching(/^[\w-]{64}$/),
      user: { id: tenant.admin.id, email: tenant.admin.email, must_change_password: false },
    });
    expect(headers.get('cache-control')).toBe('no-store');
    const [left] = await database()`
      select (select last_sign_in_at is not null from users where id = ${tenant.admin.id}) as noted,
        (select json_agg(json_build_object('action', action, 'actor', actor_kind || ' ' || actor_id)) from audit_logs
          where company_id = ${tenant.companyId} and object = 'sessions') as audit`;
    expect(left).toEqual({ noted: true, audit: [{ action: 'session.create', actor: `user ${tenant.admin.id}` }] });
  });

  test('reports a generated password at sign-in', async () => {
    const email = `${randomUUID()}@example.com`;
    const signup = await signUp(email);
    const { body } = await expectStatus(200, 'POST', '/auth/v1/token', {
      query: password,
      body: { email, password: signup.body.data.temp_password },
    });
    expect(body.user.must_change_password).toBe(true);
  });

  test('rejects an unknown address, a wrong password, a deactivated user and an inactive company alike', async () => {
    const tenant = await newTenant();
    const gone = await newPerson(tenant);
    await database()`update users set status = 'inactive' where id = ${gone.id}`;
    const closed = await newTenant();
    await database()`update companies set status = 'closed' where id = ${closed.companyId}`;
    const attempt = (email: string, secret = adminPassword) =>
      call('POST', '/auth/v1/token', { query: password, body: { email, password: secret } });
    for (const answer of [
      await attempt(`${randomUUID()}@example.com`),
      await attempt('no address at all'),
      await attempt(tenant.admin.email, 'wrong password'),
      await attempt(gone.email),
      await attempt(closed.admin.email),
    ]) {
      expect(refusal(answer)).toEqual({
        status: 400,
        body: { error: 'invalid_grant', error_description: 'The email address or the password is wrong.' },
      });
    }
    expect(await database()`select from sessions where user_id = ${gone.id}`).toHaveLength(0);
  });

  test.each([
    ['no grant type', {}, { email: 'a@b.example', password: 'x' }, 'invalid_request'],
    [
      'an unknown grant type',
      { grant_type: 'magic' },
      { email: 'a@b.example', password: 'x' },
      'unsupported_grant_type',
    ],
    ['the body of the other grant', password, { refresh_token: 'x' }, 'invalid_request'],
    ['the body of the other grant', refresh, { email: 'a@b.example', password: 'x' }, 'invalid_request'],
    ['a missing password', password, { email: 'a@b.example' }, 'invalid_request'],
    ['a wrong type', password, { email: 'a@b.example', password: 1 }, 'invalid_request'],
    ['a further field', password, { email: 'a@b.example', password: 'x', role: 'admin' }, 'invalid_request'],
    ['both bodies in one', refresh, { email: 'a@b.example', password: 'x', refresh_token: 'x' }, 'invalid_request'],
    ['a NUL character', password, { email: 'a@b.example', password: 'x\0' }, 'invalid_request'],
  ])('rejects %s in the format of RFC 6749', async (_what, query, body, error) => {
    const answer = await expectStatus(400, 'POST', '/auth/v1/token', { query, body });
    expect(answer.body.error).toBe(error);
  });

  test('rejects a body that is not JSON in the format of RFC 6749', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const answers = [
      await expectStatus(400, 'POST', '/auth/v1/token', { query: password, rawBody: '{' }),
      await expectStatus(400, 'POST', '/auth/v1/token', { query: password, rawBody: 'email=a', headers: form }),
    ];
    for (const answer of answers) expect(answer.body.error).toBe('invalid_request');
  });
});

describe('POST /auth/v1/token?grant_type=refresh_token', () => {
  test('renews a session with a new pair of working tokens', async () => {
    const tenant = await newTenant();
    const first = await signIn(tenant.admin.email);
    const second = await renew(first.refresh_token);
    expect(second.status).toBe(200);
    expect(second.body.user).toEqual(first.user);
    expect(second.body.refresh_token).not.toBe(first.refresh_token);
    await expectStatus(200, 'GET', '/v1/me', { token: second.body.access_token });
    const third = await renew(second.body.refresh_token);
    expect(third.status).toBe(200);
    const sessions = await database()`select id from sessions where company_id = ${tenant.companyId}`;
    expect(sessions).toHaveLength(1);
  });

  test('returns another pair for a token replaced less than 60 seconds ago', async () => {
    const tenant = await newTenant();
    const { refresh_token: token } = await signIn(tenant.admin.email);
    const lost = await renew(token);
    await usedAgo(token, 59);
    const again = await renew(token);
    expect(again.status).toBe(200);
    expect(again.body.refresh_token).not.toBe(lost.body.refresh_token);
    expect((await renew(again.body.refresh_token)).status).toBe(200);
  });

  test('measures the grace period from the first use, which a retry does not extend', async () => {
    const tenant = await newTenant();
    const { refresh_token: token } = await signIn(tenant.admin.email);
    await renew(token);
    await usedAgo(token, 59);
    expect((await renew(token)).status).toBe(200);
    await usedAgo(token, 2);
    expect(refusal(await renew(token))).toEqual(badToken);
  });

  test('ends the whole session when a token is reused more than 60 seconds after its replacement', async () => {
    const tenant = await newTenant();
    const first = await signIn(tenant.admin.email);
    const second = await renew(first.refresh_token);
    const other = await signIn(tenant.admin.email);
    await usedAgo(first.refresh_token, 61);
    expect(refusal(await renew(first.refresh_token))).toEqual(badToken);
    expect(refusal(await renew(second.body.refresh_token))).toEqual(badToken);
    await expectStatus(401, 'GET', '/v1/me', { token: second.body.access_token });
    await expectStatus(401, 'GET', '/v1/me', { token: first.access_token });
    // Another session of the same person is unaffected.
    await expectStatus(200, 'GET', '/v1/me', { token: other.access_token });
    const [audit] = await database()`
      select action, actor_id, metadata from audit_logs where company_id = ${tenant.companyId} and action = 'session.end'`;
    expect(audit).toEqual({
      action: 'session.end',
      actor_id: tenant.admin.id,
      metadata: { reason: 'refresh_token_reused' },
    });
  });

  test('returns 16 separate pairs for 16 concurrent renewals, and counts the first use', async () => {
    const tenant = await newTenant();
    const { refresh_token: token } = await signIn(tenant.admin.email);
    const answers = await Promise.all(Array.from({ length: 16 }, () => renew(token)));
    expect(answers.map((answer) => answer.status)).toEqual(Array(16).fill(200));
    expect(new Set(answers.map((answer) => answer.body.refresh_token)).size).toBe(16);
    const tokens = await database()`
      select used_at from refresh_tokens where company_id = ${tenant.companyId} and used_at is not null`;
    expect(tokens).toHaveLength(1);
  });

  test('rejects 16 concurrent late uses of a replaced token, and ends the session once', async () => {
    const tenant = await newTenant();
    const { refresh_token: token } = await signIn(tenant.admin.email);
    await renew(token);
    await usedAgo(token, 61);
    const answers = await Promise.all(Array.from({ length: 16 }, () => renew(token)));
    for (const answer of answers) expect(refusal(answer)).toEqual(badToken);
    const ends = await database()`
      select from audit_logs where company_id = ${tenant.companyId} and action = 'session.end'`;
    expect(ends).toHaveLength(1);
  });

  test('accepts a refresh token for seven days, which each renewal restarts', async () => {
    const tenant = await newTenant();
    const first = await signIn(tenant.admin.email);
    await issuedAgo(first.refresh_token, 7 * 86_400 - 60);
    const second = await renew(first.refresh_token);
    expect(second.status).toBe(200);
    const [session] = await database()`
      select extract(epoch from expires_at - now()) / 86400 as days from sessions where company_id = ${tenant.companyId}`;
    expect(Number(session?.days)).toBeGreaterThan(6.9);
    await issuedAgo(second.body.refresh_token, 7 * 86_400 + 60);
    expect(refusal(await renew(second.body.refresh_token))).toEqual(badToken);
  });

  test('rejects unknown refresh tokens, and those of deactivated users', async () => {
    const tenant = await newTenant();
    const person = await newPerson(tenant);
    const session = await signIn(person.email);
    await database()`update users set status = 'inactive' where id = ${person.id}`;
    expect(refusal(await renew(session.refresh_token))).toEqual(badToken);
    await expectStatus(401, 'GET', '/v1/me', { token: session.access_token });
    expect(refusal(await renew('x'))).toEqual(badToken);
    expect(refusal(await renew(`${session.refresh_token}=`))).toEqual(badToken);
    // The secret of a valid token under the name of another company.
    const named = (company: string) => Buffer.from(company.replaceAll('-', ''), 'hex');
    const good = await signIn(tenant.admin.email);
    const secret = Buffer.from(good.refresh_token, 'base64url').subarray(16);
    for (const company of [(await newTenant()).companyId, randomUUID()]) {
      const borrowed = Buffer.concat([named(company), secret]).toString('base64url');
      expect(refusal(await renew(borrowed))).toEqual(badToken);
    }
    expect((await renew(good.refresh_token)).status).toBe(200);
  });
});

describe('POST /auth/v1/logout', () => {
  test('rejects both tokens of a session from the next call after the sign-out, and no other session', async () => {
    const tenant = await newTenant();
    const session = await signIn(tenant.admin.email);
    const other = await signIn(tenant.admin.email);
    await expectStatus(200, 'GET', '/v1/me', { token: session.access_token });
    const { body } = await expectStatus(200, 'POST', '/auth/v1/logout', { token: session.access_token });
    expect(body).toEqual({ session_id: expect.any(String), ended: true });
    const refused = await expectStatus(401, 'GET', '/v1/me', { token: session.access_token });
    expect(refused.body.error.code).toBe('AUTH_INVALID_KEY');
    expect(refusal(await renew(session.refresh_token))).toEqual(badToken);
    await expectStatus(200, 'GET', '/v1/me', { token: other.access_token });
    const [audit] = await database()`
      select actor_id, record_id from audit_logs where company_id = ${tenant.companyId} and action = 'session.end'`;
    expect(audit).toEqual({ actor_id: tenant.admin.id, record_id: body.session_id });
  });

  test('rejects other credentials at the sign-out in the format of RFC 6750', async () => {
    const tenant = await newTenant();
    const none = await expectStatus(401, 'POST', '/auth/v1/logout');
    expect(none.body.error).toBe('invalid_token');
    expect(none.headers.get('www-authenticate')).toBe('Bearer');
    const bad = await expectStatus(401, 'POST', '/auth/v1/logout', { token: 'x' });
    expect(bad.headers.get('www-authenticate')).toBe('Bearer realm="api", error="invalid_token"');
    const key = await expectStatus(403, 'POST', '/auth/v1/logout', { key: tenant.key });
    expect(key.body.error).toBe('insufficient_scope');
  });
});

test('deletes sessions a day after their last refresh token expired, and no others', async () => {
  const tenant = await newTenant();
  const { companyId } = tenant;
  await signIn(tenant.admin.email);
  await signIn(tenant.admin.email);
  const sql = database();
  const [first] = await sql`select id from sessions where company_id = ${companyId} order by id limit 1`;
  await sql`update sessions set expires_at = now() - interval '25 hours' where id = ${first?.id}`;
  await rowDatabase().begin(async (transaction) => {
    await transaction`set local role crm_platform`;
    await sweepSessions(transaction, 1000, new Date());
  });
  const left = await sql`
    select s.id, count(t.*)::int as tokens from sessions s left join refresh_tokens t on t.session_id = s.id
    where s.company_id = ${companyId} group by s.id`;
  expect(left).toEqual([{ id: expect.not.stringContaining(first?.id), tokens: 1 }]);
  const [orphans] = await sql`select count(*)::int as count from refresh_tokens where session_id = ${first?.id}`;
  expect(orphans?.count).toBe(0);
});

describe('a session token', () => {
  test('publishes the keys for checking session tokens, without private parts', async () => {
    const tenant = await newTenant();
    const { access_token: token } = await signIn(tenant.admin.email);
    const { body, headers } = await expectStatus(200, 'GET', '/auth/v1/.well-known/jwks.json');
    expect(headers.get('cache-control')).toBe('public, max-age=600');
    expect(body.keys).toHaveLength(1);
    expect(Object.keys(body.keys[0]).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y']);
    const { payload } = await jwtVerify(token, createLocalJWKSet(body), { audience: 'authenticated' });
    expect(payload).toEqual({
      iss: expect.stringMatching(/\/auth\/v1$/),
      sub: tenant.admin.id,
      aud: 'authenticated',
      role: 'authenticated',
      company_id: tenant.companyId,
      session_id: expect.any(String),
      iat: expect.any(Number),
      exp: (payload.iat ?? 0) + 3600,
    });
  });

  test('rejects session tokens for operations that do not declare them', async () => {
    const tenant = await newTenant();
    const { access_token: token } = await signIn(tenant.admin.email);
    const closed = operations.filter((operation) => {
      const schemes = listAlternatives(operation).map(({ scheme }) => scheme);
      return schemes.length > 0 && !schemes.includes('session');
    });
    expect(closed.length).toBeGreaterThan(0);
    for (const { method, path, declared } of closed) {
      const isSigned = (declared.security ?? []).some((alternative) => 'signature' in alternative);
      const { body } = await expectStatus(403, method, path.replace(/\{\w+\}/g, randomUUID()), { token });
      expect(body.error).toMatchObject({
        code: 'FORBIDDEN_SCOPE',
        details: { reason: isSigned ? 'signature_required' : 'api_key_required' },
      });
    }
  });
});

describe('with password hashing at full cost', () => {
  let server: TestServer;
  beforeAll(async () => {
    const shared = { ...besideCommon() };
    server = await startServer({ ...testSettings, ...shared, NODE_OPTIONS: '' });
  });
  afterAll(() => server?.stop());

  test('lets 24 people sign in at the same time despite the cost of password checks', async () => {
    const tenant = await newTenant();
    const hash = await hashPassword(adminPassword);
    await database()`update sign_ins set password_hash = ${hash} where email = ${tenant.admin.email}`;
    const sessions = await Promise.all(Array.from({ length: 24 }, () => signIn(tenant.admin.email, server.url)));
    expect(new Set(sessions.map((session) => session.refresh_token)).size).toBe(24);
  });

  test('stores a new password as a hash with the cost that it names', async () => {
    const email = `${randomUUID()}@example.com`;
    const signup = await signUp(email, server.url);
    const [row] = await database()<{ hash: string }[]>`
      select password_hash as hash from sign_ins where email = ${email}`;
    expect(row?.hash).toMatch(/^scrypt\$32768\$8\$3\$/);
    expect(await checkPassword(signup.body.data.temp_password, row?.hash ?? '')).toBe(true);
  });
});

describe('with ANON_KEY set', () => {
  let server: TestServer | undefined;
  afterAll(() => server?.stop());

  test('requires the header apikey on the sign-in routes only', async () => {
    server = await startServer({
      ...testSettings,
      ...besideCommon(),
      ANON_KEY: 'public-key',
    });
    const tenant = await newTenant();
    const attempt = (headers: Record<string, string>) =>
      call('POST', '/auth/v1/token', {
        baseUrl: server?.url ?? '',
        query: password,
        body: { email: tenant.admin.email, password: adminPassword },
        headers,
      });
    for (const headers of [{}, { apikey: 'other' }] as Record<string, string>[]) {
      const answer = await attempt(headers);
      expect(refusal(answer)).toMatchObject({ status: 401, body: { error: 'invalid_client' } });
      expect(answer.headers.get('www-authenticate')).toBe('Bearer');
    }
    const { body } = await attempt({ apikey: 'public-key' });
    const options = { baseUrl: server.url, token: body.access_token };
    await expectStatus(200, 'GET', '/v1/me', options);
    await expectStatus(401, 'POST', '/auth/v1/logout', options);
    await expectStatus(200, 'POST', '/auth/v1/logout', { ...options, headers: { apikey: 'public-key' } });
    await expectStatus(200, 'GET', '/auth/v1/.well-known/jwks.json', { baseUrl: server.url });
  });
});

/** Moves the first use of a token back in time. */
async function usedAgo(token: string, seconds: number): Promise<void> {
  await database()`
    update refresh_tokens set used_at = used_at - make_interval(secs => ${seconds}) where token_hash = ${sha256(token)}`;
}

async function issuedAgo(token: string, seconds: number): Promise<void> {
  await database()`
    update refresh_tokens set issued_at = now() - make_interval(secs => ${seconds}) where token_hash = ${sha256(token)}`;
}
