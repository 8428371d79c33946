// Every layer of the rate limits over HTTP: what it counts, and how it rejects.
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { computeCallsPerMinute } from '../../domain/billing/plans.ts';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { type Answer, type CallOptions, call, expectStatus } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { operations } from '../support/document.ts';
import { inboundSecret } from '../support/inbound.ts';
import { goodRequest, isForPlatform, newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { adminToken, newPerson, tokenFor } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newPlatformKey, newTenant, type Tenant } from '../support/tenants.ts';
import { anyPath, exempt, guarded, openedByKey } from '../support/walk.ts';

const minute = 60_000;
const hour = 60 * minute;

/** Returns a new client address. */
const newAddress = (): string => `172.16.${randomInt(256)}.${randomInt(256)}`;
const me = (options: CallOptions): Promise<Answer> => call('GET', '/v1/me', options);

function figures({ headers }: Answer): { limit: number; remaining: number; reset: number } {
  const read = (name: string): number => Number(headers.get(`x-ratelimit-${name}`));
  return { limit: read('limit'), remaining: read('remaining'), reset: read('reset') };
}

/** Expects a rejection whose body and headers agree, and that contains nothing else. */
function expectRefusal(answer: Answer, limit: number, window: number): void {
  expect({ status: answer.status, answer: answer.text }).toMatchObject({ status: 429 });
  const { error } = answer.body;
  expect(Object.keys(error).sort()).toEqual(['code', 'details', 'message']);
  expect(error.code).toBe('RATE_LIMIT_EXCEEDED');
  expect(error.details).toEqual({ ...figures(answer), retry_after: expect.any(Number) });
  expect(error.details).toMatchObject({ limit, remaining: 0 });
  expectWait(answer, error.details.retry_after, window);
}

/**
 * Expects a wait of at least a second and at most the window, which does not end before a call
 * would pass.
 */
function expectWait(answer: Answer, retryAfter: number, window: number): void {
  expect(answer.headers.get('retry-after')).toBe(String(retryAfter));
  expect(Number.isInteger(retryAfter)).toBe(true);
  expect(retryAfter).toBeGreaterThanOrEqual(1);
  expect(retryAfter * 1000).toBeLessThanOrEqual(window);
  const recorded = answer.body.meta
    ? Date.parse(answer.body.meta.timestamp)
    : Date.parse(answer.headers.get('date') ?? '');
  expect(recorded + retryAfter * 1000).toBeGreaterThanOrEqual(figures(answer).reset - 1000);
}

/** Sends calls one after the other. */
async function repeat(times: number, send: () => Promise<Answer>): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let index = 0; index < times; index += 1) answers.push(await send());
  return answers;
}

const statuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status);

describe('a key', () => {
  let tenant: Tenant;
  beforeAll(async () => {
    tenant = await newTenant();
  });

  test('lets a key call each endpoint up to its limit per minute, and reports the remaining calls', async () => {
    const key = await newKey(tenant, { perMinute: 3 });
    const answers = await repeat(4, () => me({ key }));
    expect(statuses(answers)).toEqual([200, 200, 200, 429]);
    expect(answers.map((answer) => figures(answer).remaining)).toEqual([2, 1, 0, 0]);
    const resets = answers.map((answer) => figures(answer).reset);
    // The next call becomes available when the oldest one leaves the window.
    expect(new Set(resets).size).toBe(1);
    expectRefusal(answers[3] as Answer, 3, minute);
  });

  test('rejects a key at one endpoint and serves it at the others', async () => {
    const key = await newKey(tenant, { perMinute: 1 });
    expect(statuses(await repeat(2, () => me({ key })))).toEqual([200, 429]);
    expect((await call('GET', '/v1/objects', { key })).status).toBe(200);
    // One path with two methods is two endpoints; one template with two values is one.
    const records = '/v1/objects/leads/records';
    expect((await call('GET', records, { key })).status).toBe(200);
    expect((await call('POST', records, { key, body: {}, idempotencyKey: true })).status).toBe(422);
    expect((await call('GET', '/v1/objects/deals/records', { key })).status).toBe(429);
  });

  test('lets a key call all endpoints together up to its limit per hour', async () => {
    const key = await newKey(tenant, { perMinute: 3, perHour: 4 });
    await repeat(2, () => expectStatus(200, 'GET', '/v1/me', { key }));
    await repeat(2, () => expectStatus(200, 'GET', '/v1/objects', { key }));
    expectRefusal(await call('GET', '/v1/objects', { key }), 4, hour);
    expectRefusal(await me({ key }), 4, hour);
  });

  test('counts every response after authentication, including errors', async () => {
    const key = await newKey(tenant, { perMinute: 3, scopes: ['leads:view'] });
    const ask = (object: string, options: CallOptions = {}): Promise<Answer> =>
      call('GET', `/v1/objects/${object}/records`, { key, ...options });
    const answers = [
      await ask('deals'),
      await ask('leads', { query: { zzz: 1 } }),
      await ask('leads'),
      await ask('leads'),
    ];
    expect(statuses(answers)).toEqual([404, 400, 200, 429]);
    expect(answers.map((answer) => figures(answer).remaining)).toEqual([2, 1, 0, 0]);
  });

  test('does not count rejected calls, so that the wait does not grow', async () => {
    const key = await newKey(tenant, { perMinute: 1 });
    const [first, ...refused] = await repeat(4, () => me({ key }));
    for (const answer of refused) expect(figures(answer).reset).toBe(figures(first as Answer).reset);
  });

  test('admits exactly the limit of a key of many concurrent calls', async () => {
    const key = await newKey(tenant, { perMinute: 7 });
    const answers = await Promise.all(Array.from({ length: 60 }, () => me({ key })));
    expect(answers.filter(({ status }) => status === 200).length).toBe(7);
    expect(answers.filter(({ status }) => status === 429).length).toBe(53);
  });

  test('uses changed limits of a key from the next call on', async () => {
    const key = await newKey(tenant, { perMinute: 1 });
    const id = (await me({ key })).body.data.actor.id;
    expect((await me({ key })).status).toBe(429);
    const token = await adminToken(tenant);
    const change = (limit: number) =>
      expectStatus(200, 'PATCH', `/v1/api-keys/${id}`, { token, body: { rate_limit_per_minute: limit } });
    await change(3);
    expect(statuses(await repeat(3, () => me({ key })))).toEqual([200, 200, 429]);
    await change(2);
    expectRefusal(await me({ key }), 2, minute);
  });

  test('rejects the second call of every operation with a key of one call per minute', async () => {
    for (const operation of openedByKey) {
      const key = isForPlatform(operation)
        ? await newPlatformKey({ perMinute: 1 })
        : await newKey(tenant, { perMinute: 1 });
      expect((await call(operation.method, anyPath(operation), { key })).status).not.toBe(429);
      const answer = await call(operation.method, anyPath(operation), { key });
      expectRefusal(answer, 1, minute);
    }
  });
});

describe('a workspace', () => {
  test('limits all keys and users of a workspace together to its plan', async () => {
    const tenant = await newTenant();
    await database()`
      update subscriptions set package_code = 'starter', api_rate_limit_per_minute = null where company_id = ${tenant.companyId}`;
    const token = await adminToken(tenant);
    const ask = [{ key: tenant.key }, { key: tenant.testKey }, { token }];
    const answers = await repeat(40, () => me(ask[0] as CallOptions));
    answers.push(
      ...(await repeat(40, () => me(ask[1] as CallOptions))),
      ...(await repeat(40, () => me(ask[2] as CallOptions))),
    );
    expect(new Set(statuses(answers))).toEqual(new Set([200]));
    for (const each of ask) expectRefusal(await me(each), 120, minute);
    // Another workspace is not affected.
    await expectStatus(200, 'GET', '/v1/me', { key: (await newTenant()).key });
  });

  test('limits a workspace to its agreed rate', async () => {
    const tenant = await newTenant();
    await database()`update subscriptions set api_rate_limit_per_minute = 2 where company_id = ${tenant.companyId}`;
    expect(statuses(await repeat(3, () => me({ key: tenant.key })))).toEqual([200, 200, 429]);
  });

  test.each([
    ['starter', null, null, 120],
    ['growth', null, null, 600],
    ['scale', null, null, 1200],
    ['enterprise', null, null, 3000],
    ['enterprise', 9000, null, 9000],
    ['bespoke', null, 4_320_001, 101],
    ['bespoke', null, 1000, 60],
    ['bespoke', 7, 1000, 7],
    ['bespoke', null, null, 600],
    [null, null, null, 600],
  ])(
    'allows the package %s, with %s agreed and %s calls a month, %s calls per minute',
    (packageCode, agreedPerMinute, agreedPerMonth, limit) => {
      expect(computeCallsPerMinute({ packageCode, agreedPerMinute, agreedPerDay: null, agreedPerMonth })).toBe(limit);
    },
  );
});

describe('a tenant that calls ten times its limit', () => {
  test('rejects a tenant at ten times its limit without affecting another tenant', async () => {
    const [noisy, quiet] = await Promise.all([newTenant(), newTenant()]);
    await database()`update subscriptions set api_rate_limit_per_minute = 20 where company_id = ${noisy.companyId}`;
    const [refused, served] = await Promise.all([
      Promise.all(Array.from({ length: 200 }, () => me({ key: noisy.key }))),
      repeat(40, () => me({ key: quiet.key })),
    ]);
    expect(statuses(refused).filter((status) => status === 200)).toHaveLength(20);
    expect(statuses(refused).filter((status) => status === 429)).toHaveLength(180);
    expect(statuses(served)).toEqual(Array<number>(40).fill(200));
  });
});

describe('a user', () => {
  test('limits a user to 60 calls per endpoint and minute, in all sessions together', async () => {
    const tenant = await newTenant();
    const person = await newPerson(tenant, 'Company_Admin');
    const tokens = [await tokenFor(tenant, person), await tokenFor(tenant, person)];
    let turn = 0;
    const answers = await repeat(61, () => me({ token: tokens[turn++ % 2] }));
    expect(statuses(answers)).toEqual([...Array<number>(60).fill(200), 429]);
    expectRefusal(answers[60] as Answer, 60, minute);
    await expectStatus(200, 'GET', '/v1/api-keys', { token: tokens[0] });
  });
});

describe('check-email', () => {
  test('limits check-email to 10 calls per minute and key', async () => {
    const key = await newPlatformKey();
    const answers = await repeat(11, () => call('POST', '/v1/check-email', { key, body: { email: 'a@example.com' } }));
    expect(statuses(answers)).toEqual([...Array<number>(10).fill(200), 429]);
    expectRefusal(answers[10] as Answer, 10, minute);
  });
});

describe('an address', () => {
  let server: TestServer | undefined;
  beforeAll(async () => {
    const settings = { ...testSettings, ONBOARDING_PER_HOUR: '2' };
    server = await startServer({ ...settings, ...besideCommon() });
  });
  afterAll(() => server?.stop());

  test.each([
    ['GET', '/v1/health', 120],
    ['GET', '/v1/availability', 60],
    ['GET', '/v1/openapi.json', 60],
    ['GET', '/auth/v1/.well-known/jwks.json', 60],
    ['POST', '/auth/v1/token', 10],
  ])('limits an address to calling %s %s %i times per minute', async (method, path, limit) => {
    const ip = newAddress();
    // Invalid calls count too.
    const answers = await repeat(limit + 1, () => call(method, path, { ip, query: { zzz: '1' } }));
    expect(new Set(statuses(answers.slice(0, limit)))).toEqual(new Set([400]));
    expect(figures(answers[0] as Answer)).toMatchObject({ limit, remaining: limit - 1 });
    const refused = answers[limit] as Answer;
    if (path === '/auth/v1/token') {
      expect(refused.body).toMatchObject({ error: 'slow_down' });
      expect(figures(refused)).toMatchObject({ limit, remaining: 0 });
      expectWait(refused, Number(refused.headers.get('retry-after')), minute);
    } else expectRefusal(refused, limit, minute);
    expect((await call(method, path, { ip: newAddress(), query: { zzz: '1' } })).status).toBe(400);
  });

  test('limits signups of an address per hour, but not those of the operator', async () => {
    const ip = newAddress();
    const baseUrl = server?.url ?? '';
    const [first, second, third] = await repeat(3, () => call('POST', '/v1/onboarding', { ip, baseUrl, body: {} }));
    expect(statuses([first, second] as Answer[])).toEqual([400, 400]);
    expectRefusal(third as Answer, 2, hour);
    const key = await newPlatformKey();
    const own = await repeat(4, () => call('POST', '/v1/onboard', { ip, baseUrl, key, body: {} }));
    expect(new Set(statuses(own))).toEqual(new Set([400]));
  });

  test('limits all IPv6 addresses of a /64 together', async () => {
    const network = `2001:db8:${randomInt(65_536).toString(16)}:7`;
    const ask = (host: number) => call('POST', '/auth/v1/token', { ip: `${network}::${host}`, query: { zzz: '1' } });
    let host = 1;
    const answers = await repeat(11, () => ask(host++));
    expect(statuses(answers)).toEqual([...Array<number>(10).fill(400), 429]);
  });

  test('stops looking up a credential after 30 failures per minute from one address', async () => {
    const { key } = await newTenant();
    const ip = newAddress();
    const wrong = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0');
    for (const failing of [{}, { key: wrong }, { key: 'x' }, { token: 'x' }] satisfies CallOptions[]) {
      const answers = await repeat(30, () => me({ ip, ...failing }));
      expect(new Set(statuses(answers))).toEqual(new Set([401]));
      expect(answers.map((answer) => figures(answer).remaining)).toEqual(
        Array.from({ length: 30 }, (_, index) => 29 - index),
      );
      expectRefusal(await me({ ip, ...failing }), 30, minute);
    }
    // It has the prefix of the failed one, and was not known to be valid yet.
    expectRefusal(await me({ ip, key }), 30, minute);
    expect(await countUses(key)).toBe(0);
    // From another address the key is valid.
    await expectStatus(200, 'GET', '/v1/me', { key });
    await expect.poll(() => countUses(key)).toBe(1);
    // Other credentials at the address are not affected, and public operations have separate
    // limits.
    await expectStatus(200, 'GET', '/v1/me', { ip, key: await newKey(await newTenant()) });
    await expectStatus(200, 'GET', '/v1/health', { ip });
  });

  test('rejects unknown credentials after 300 failures per minute from one address, not known valid ones', async () => {
    const [good, unseen] = [await newTenant(), await newTenant()];
    const ip = newAddress();
    const token = await adminToken(good);
    for (const sent of [{ key: good.key }, { token }]) await expectStatus(200, 'GET', '/v1/me', { ip, ...sent });
    const { companyId } = good;
    const rawBody = JSON.stringify({
      type: 'sms',
      external_id: randomUUID(),
      from: '+971501234567',
      to: 'x',
      body: 'Hi',
    });
    const report = (signedWith: string) =>
      call('POST', '/v1/inbound/generic', { ip, rawBody, signedWith, query: { company_id: companyId } });
    const secret = await inboundSecret({ companyId }, 'live');
    const accepted = (await report(secret)).status;
    expect(accepted).not.toBe(401);

    let turn = 0;
    const prefix = (): string => (turn++ % 10).toString(16).repeat(8);
    const answers = await repeat(300, () => me({ ip, key: `svc_live_${prefix()}${randomBytes(12).toString('hex')}` }));
    expect(new Set(statuses(answers))).toEqual(new Set([401]));
    expectRefusal(await me({ ip, key: `svc_live_${randomBytes(16).toString('hex')}` }), 300, minute);
    expectRefusal(await me({ ip, key: unseen.key }), 300, minute);
    expect(await countUses(unseen.key)).toBe(0);

    for (const sent of [{ key: good.key }, { token }]) await expectStatus(200, 'GET', '/v1/me', { ip, ...sent });
    expect((await report(secret)).status).toBe(accepted);
    // Failures of a revoked key count like any other.
    await database()`update api_keys set revoked_at = now() where company_id = ${companyId}`;
    await repeat(2, async () => {
      const answer = await me({ ip, key: good.key });
      expectRefusal(answer, 300, minute);
      return answer;
    });
  });

  test('does not count calls with valid credentials as failures', async () => {
    const { key } = await newTenant();
    const ip = newAddress();
    await repeat(35, () => expectStatus(200, 'GET', '/v1/me', { ip, key }));
    await expectStatus(401, 'GET', '/v1/me', { ip });
  });

  test('rejects an address that failed too often at every operation that needs a credential', async () => {
    const ip = newAddress();
    await repeat(30, () => me({ ip }));
    for (const operation of guarded) {
      const answer = await call(operation.method, anyPath(operation), { ip });
      expect({ id: operation.id, status: answer.status }).toEqual({ id: operation.id, status: 429 });
      expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      if (!exempt.envelope.includes(operation.id)) expectRefusal(answer, 30, minute);
    }
  });

  test('does not count requests for unknown paths, and reports the limit of the address', async () => {
    const ip = newAddress();
    const wrong = await repeat(40, () => call('GET', '/v1/nowhere', { ip }));
    expect(new Set(statuses(wrong))).toEqual(new Set([404]));
    const others = [
      await call('PUT', '/v1/health', { ip }),
      await call('OPTIONS', '/v1/health', { ip }),
      await call('GET', '/docs', { ip }),
    ];
    expect(statuses(others)).toEqual([405, 204, 200]);
    for (const answer of [...wrong, ...others]) expect(figures(answer)).toMatchObject({ limit: 30, remaining: 30 });
    await expectStatus(401, 'GET', '/v1/me', { ip });
  });
});

describe('an account', () => {
  const signIn = (email: string, password: string): Promise<Answer> =>
    call('POST', '/auth/v1/token', { query: { grant_type: 'password' }, body: { email, password } });

  test('rejects all passwords of an account for a while after five wrong ones from any addresses', async () => {
    const { admin } = await newTenant();
    let turn = 0;
    const spelled = [admin.email, admin.email.toUpperCase()];
    const wrong = await repeat(5, () => signIn(spelled[turn++ % 2] as string, 'not the password'));
    expect(new Set(statuses(wrong))).toEqual(new Set([400]));
    for (const password of ['not the password', 'correct horse battery staple']) {
      const refused = await signIn(admin.email, password);
      expect(refused.status).toBe(429);
      expect(refused.body.error).toBe('slow_down');
      expect(figures(refused)).toMatchObject({ limit: 5, remaining: 0 });
      expectWait(refused, Number(refused.headers.get('retry-after')), 15 * minute);
    }
    // An email address without an account behaves the same.
    const nobody = `nobody-${randomUUID()}@example.com`;
    expect(statuses(await repeat(6, () => signIn(nobody, 'x')))).toEqual([400, 400, 400, 400, 400, 429]);
  });

  test('accepts any number of right passwords', async () => {
    const { admin } = await newTenant();
    const answers = await repeat(7, () => signIn(admin.email, 'correct horse battery staple'));
    expect(new Set(statuses(answers))).toEqual(new Set([200]));
  });
});

describe('idempotency', () => {
  test('does not store a rejection: the same key with the same body passes once the limit allows it', async () => {
    const tenant = await newTenant();
    const key = await newKey(tenant, { perMinute: 1 });
    const create = (idempotencyKey: string, email: string) =>
      call('POST', '/v1/leads', { key, idempotencyKey, body: { first_name: 'Sara', email } });
    const [first, second] = [randomUUID(), randomUUID()];
    expect((await create(first, 'one@example.com')).status).toBe(201);
    expect((await create(second, 'two@example.com')).status).toBe(429);
    await database()`update api_keys set rate_limit_per_minute = 10 where company_id = ${tenant.companyId}`;
    const created = await create(second, 'two@example.com');
    expect(created.status).toBe(201);
    expect(created.headers.get('idempotent-replay')).toBeNull();
  });

  test('a replay has the body of the first response, and current headers', async () => {
    const { key } = await newTenant();
    const create = () =>
      call('POST', '/v1/leads', {
        key,
        idempotencyKey: 'import-row-1',
        body: { first_name: 'S', email: 's@example.com' },
      });
    const first = await create();
    const replay = await create();
    expect(replay.text).toBe(first.text);
    expect(figures(first).remaining - figures(replay).remaining).toBe(1);
  });
});

describe('every successful response', () => {
  test.each(operations)('reports the figures of the closest limit for $id', async (operation) => {
    const tenant = await newWideTenant();
    const { path, options } = await goodRequest(operation, tenant);
    const answer = await call(operation.method, path, options);
    expect(answer.status).toBeLessThan(300);
    const { limit, remaining, reset } = figures(answer);
    expect(remaining).toBe(limit - 1);
    expect(reset).toBeGreaterThan(Date.now());
  });
});

async function countUses(key: string): Promise<number> {
  const [row] = await database()`
    select u.total_requests::int as total from api_keys k
    join api_key_usage u on u.company_id = k.company_id and u.api_key_id = k.id where k.key_hash = ${sha256(key)}`;
  return row?.total as number;
}
