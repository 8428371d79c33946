// The monthly quota over HTTP: what counts, when it rejects calls, and what happens in an outage.
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { chargeCalls, quotaStatements, returnLease, saveLease, sweepCompanyLeases } from '../../db/billing/quota.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { Pool } from '../../db/client/pool.ts';
import { callsPerMonth, computeCallsPerDay, extraCalls, resolveAccess } from '../../domain/billing/plans.ts';
import { QuotaLedger } from '../../runtime/limits/quota-ledger.ts';
import { accessToken, newGrant } from '../support/access-tokens.ts';
import { type Answer, call, expectStatus } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { createRecord, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { adminToken } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

const day = 86_400_000;

/** Returns a tenant with its own package and this number of calls per month. */
async function newCapped(cap: number, used = 0): Promise<Tenant> {
  const tenant = await newTenant();
  await database()`
    update subscriptions set status = 'active', package_code = 'bespoke', trial_ends_at = null, api_call_cap = ${cap}, api_daily_cap = 100000
    where company_id = ${tenant.companyId}`;
  await database()`update api_quota set calls = ${used} where company_id = ${tenant.companyId}`;
  return tenant;
}

async function used(tenant: Tenant): Promise<number> {
  const { companyId } = tenant;
  const [row] = await database()`
    select calls::int - coalesce((select sum(calls)::int from api_quota_blocks where company_id = ${companyId}), 0) as calls
    from api_quota where company_id = ${companyId}`;
  return row?.calls;
}

/** Waits for a count. Calls that turn out to be free are returned after the response. */
const untilUsed = (tenant: Tenant, count: number): Promise<void> =>
  vi.waitFor(async () => expect(await used(tenant)).toBe(count));

/** Returns a pool like that of the server, with connections for four processes. */
const openCredentialPool = (): Pool =>
  new Pool({
    url: inject('databaseUrl'),
    role: 'crm_platform',
    lanes: 12,
    prepare: true,
    spread: false,
    wait: 10_000,
    statementTimeout: 10_000,
  });

const me = (key: string, options: object = {}): Promise<Answer> => call('GET', '/v1/me', { key, ...options });
const quotaHeaders = ({ headers }: Answer) =>
  ['limit', 'used', 'remaining'].map((name) => headers.get(`x-quota-${name}`));

describe('a quota of N calls per month', () => {
  test.each([1, 7, 100])('admits exactly %s of 64 concurrent clients on two servers', async (cap) => {
    const other = await startServer({
      ...testSettings,
      ...besideCommon(),
    });
    try {
      const tenant = await newCapped(cap);
      const keys = await Promise.all(Array.from({ length: 4 }, () => newKey(tenant)));
      const answers = await Promise.all(
        Array.from({ length: 64 }, async (_none, index) => {
          const key = keys[index % keys.length] as string;
          const at = index % 2 === 0 ? {} : { baseUrl: other.url };
          const mine: Answer[] = [];
          for (let turn = 0; turn < 3; turn += 1) mine.push(await me(key, at));
          return mine;
        }),
      );
      const statuses = answers.flat().map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(cap);
      expect(statuses.filter((status) => status === 429)).toHaveLength(192 - cap);
      await untilUsed(tenant, cap);
    } finally {
      await other.stop();
    }
  });

  test('counts exactly with quota leases, and recovers the lease of a killed server', async () => {
    const settings = { ...testSettings, ...besideCommon() };
    const servers = await Promise.all([startServer(settings), startServer(settings)]);
    const [killed, left] = servers as [TestServer, TestServer];
    try {
      const cap = 3000;
      const tenant = await newCapped(cap);
      const key = await newKey(tenant, { perMinute: 1_000_000, perHour: 1_000_000 });
      const passed = async (calls: number, urls: readonly string[]): Promise<number> => {
        const statuses = await Promise.all(
          Array.from({ length: 32 }, async (_none, client) => {
            const mine: number[] = [];
            for (let turn = 0; turn < calls / 32; turn += 1)
              mine.push((await me(key, { baseUrl: urls[(client + turn) % urls.length] })).status);
            return mine;
          }),
        );
        const found = statuses.flat();
        expect(found.filter((status) => status !== 200 && status !== 429)).toEqual([]);
        return found.filter((status) => status === 200).length;
      };
      const blocks = () =>
        database()`select holder, calls::int from api_quota_blocks where company_id = ${tenant.companyId}`;

      const first = await passed(640, [killed.url, left.url]);
      expect(first).toBe(640);
      expect((await blocks()).length).toBeGreaterThan(0);
      await killed.stop('SIGKILL');
      // The other server returns its own lease. The remaining one belongs to the killed server.
      await expect.poll(async () => (await blocks()).length).toBeLessThan(2);
      const [dead] = await blocks();
      await database()`
        update api_quota_blocks set renewed_at = now() - interval '31 seconds' where company_id = ${tenant.companyId}`;
      const second = await passed(3200, [left.url]);
      // Calls that the killed server admitted after its last report are unknown.
      expect(first + second).toBeGreaterThanOrEqual(cap);
      expect(first + second).toBeLessThanOrEqual(cap + (dead?.calls ?? 0));
      await untilUsed(tenant, cap);
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  });

  test('counts exactly without deadlocks while processes acquire, return and sweep leases at the same time', async () => {
    const { companyId } = await newCapped(1_000_000);
    await database()`update subscriptions set package_code = 'enterprise', api_call_cap = null where company_id = ${companyId}`;
    const pool = openCredentialPool();
    const dead = randomUUID();
    const failures: unknown[] = [];
    const charge = (holder: string) =>
      inTransaction(pool, 'platform', 10_000, async (sql) => {
        const found = await chargeCalls(sql, companyId, holder, 1, 16, { callsPerMonth, extraCalls }, new Date());
        if (!found) throw new Error('nothing is subscribed to');
        return saveLease(sql, { companyId, holder, monthStart: found.monthStart, calls: found.ahead }, new Date());
      });
    const process = async (): Promise<void> => {
      const holder = randomUUID();
      for (let turn = 0; turn < 40; turn += 1) {
        const steps = [
          () => charge(holder),
          () => pool.use((sql) => returnLease(sql, companyId, holder, null)),
          () =>
            pool.use((sql) => sweepCompanyLeases(sql, companyId, new Date(Date.now() + (turn % 4 === 0 ? 60_000 : 0)))),
        ];
        await Promise.all(steps.map((step) => step().catch((error: unknown) => failures.push(error))));
      }
      await pool.use((sql) => returnLease(sql, companyId, holder, null));
    };
    try {
      await charge(dead);
      await Promise.all(Array.from({ length: 4 }, process));
      await pool.use((sql) => returnLease(sql, companyId, dead, null));
    } finally {
      await pool.close(1);
    }
    expect(failures).toEqual([]);
    const [month] = await database()`select calls::int from api_quota where company_id = ${companyId}`;
    // Only the charged calls remain, and every lease was returned.
    expect(month?.calls).toBe(1 + 4 * 40);
  });

  test('acquires leases in blocks, however many calls arrive during one acquisition', async () => {
    const { companyId } = await newCapped(1_000_000);
    const pool = openCredentialPool();
    let charges = 0;
    const counting: typeof chargeCalls = (...asked) => {
      charges += 1;
      return chargeCalls(...asked);
    };
    const statements = { ...quotaStatements, chargeCalls: counting };
    const ledger = new QuotaLedger(pool, 10_000, statements, { callsPerMonth, extraCalls });
    const nextTurn = () => new Promise(setImmediate);
    const client = async (_: unknown, turn: number): Promise<void> => {
      // Not all at the same time, so that some arrive while others are being charged.
      for (let turns = 0; turns < turn; turns += 1) await nextTurn();
      for (let calls = 0; calls < 50; calls += 1) {
        expect(await ledger.charge(companyId, new Date())).toMatchObject({ charged: true });
        await nextTurn();
      }
    };
    try {
      await Promise.all(Array.from({ length: 8 }, client));
      await ledger.close();
    } finally {
      await pool.close(1);
    }
    // Leases of 16, 32, 64, 128 and 256 calls.
    expect(charges).toBeLessThan(10);
    const [month] = await database()`select calls::int from api_quota where company_id = ${companyId}`;
    expect(month?.calls).toBe(400);
  });

  test('checks the quota after the scopes: a missing scope is reported with and without calls left', async () => {
    for (const used of [0, 1]) {
      const tenant = await newCapped(1, used);
      const key = await newKey(tenant, { scopes: ['leads:view'] });
      for (const path of ['/v1/users', '/v1/api-keys']) {
        const { body } = await expectStatus(403, 'GET', path, { key });
        expect(body.error.code).toBe('FORBIDDEN_SCOPE');
      }
    }
  });

  test('rejects calls beyond the quota with its figures and a Retry-After until the next month, and performs nothing', async () => {
    const tenant = await newCapped(1);
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    const refused = await expectStatus(429, 'POST', '/v1/objects/leads/records', {
      key: tenant.key,
      idempotencyKey: true,
      body: { first_name: 'Nobody', email: 'nobody@example.com' },
    });
    const { code, details } = refused.body.error;
    expect(code).toBe('QUOTA_EXCEEDED');
    const wait = Number(refused.headers.get('retry-after'));
    const reset = expect.any(Number);
    expect(details).toEqual({ limit: 1, used: 1, remaining: 0, reset, retry_after: wait, reason: 'monthly_cap' });
    expect(quotaHeaders(refused)).toEqual(['1', '1', '0']);
    expect(Date.now() + wait * 1000).toBeGreaterThanOrEqual(details.reset - 1000);
    const [month] = await database()`
      select add_months(period_start, 1) as "end" from subscriptions where company_id = ${tenant.companyId}`;
    expect(details.reset).toBe(month?.end.getTime());
    const [left] = await database()`select count(*)::int as leads from leads where company_id = ${tenant.companyId}`;
    expect(left?.leads).toBe(0);
  });

  test('resets the quota with the month of the subscription', async () => {
    const tenant = await newCapped(2, 2);
    expect((await me(tenant.key)).status).toBe(429);
    await database()`
      update subscriptions set period_start = now() - interval '1 month 1 minute' where company_id = ${tenant.companyId}`;
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    await untilUsed(tenant, 1);
  });

  test.each([
    ['2026-01-31T10:00:00Z', '2026-02-28T09:59:59Z', 0],
    ['2026-01-31T10:00:00Z', '2026-02-28T10:00:00Z', 1],
    ['2026-01-31T10:00:00Z', '2026-03-31T09:59:59Z', 1],
    ['2024-02-29T00:00:00Z', '2025-02-28T00:00:00Z', 12],
    ['2026-11-21T00:00:00Z', '2026-11-21T00:00:00Z', 0],
    ['2026-11-21T00:00:00Z', '2026-11-20T23:59:59Z', -1],
  ])('counts the months since %s until %s as %s', async (since, until, months) => {
    const [row] = await database()`
      select whole_months(${since}, ${until}) as months,
        add_months(${since}, ${months}) <= ${until}::timestamptz and add_months(${since}, ${months + 1}) > ${until}::timestamptz as fits`;
    expect(row).toEqual({ months, fits: true });
  });
});

describe('counted calls', () => {
  test('counts every authenticated call, regardless of its status', async () => {
    const tenant = await newCapped(100);
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    await expectStatus(404, 'GET', `/v1/objects/leads/records/${randomUUID()}`, { key: tenant.key });
    await expectStatus(400, 'GET', '/v1/me', { key: tenant.key, query: { nonsense: '1' } });
    const narrow = await newKey(tenant, { scopes: ['deals:view'] });
    await expectStatus(403, 'POST', '/v1/leads', { key: narrow, body: { first_name: 'No', email: 'no@example.com' } });
    await untilUsed(tenant, 4);
  });

  test('does not count calls of test mode, of people, without valid credentials, or from blocked addresses', async () => {
    const tenant = await newCapped(100);
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.testKey });
    await expectStatus(200, 'GET', '/v1/me', { token: await adminToken(tenant) });
    await expectStatus(401, 'GET', '/v1/me', { key: await newKey(tenant, { revokedAt: new Date() }) });
    await expectStatus(403, 'GET', '/v1/me', { key: await newKey(tenant, { ipAllowlist: ['203.0.113.7'] }) });
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    await untilUsed(tenant, 1);
  });

  test('counts calls of the apps that a user allows, and of no others', async () => {
    const tenant = await newCapped(2);
    const allowed = await newGrant(tenant, { groups: ['records'] });
    const token = await accessToken(tenant, allowed);
    const stopped = await accessToken(tenant, await newGrant(tenant, { groups: ['records'], revokedAt: new Date() }));
    await expectStatus(403, 'GET', '/v1/me', { token: stopped });
    const answers = await Promise.all(Array.from({ length: 8 }, () => call('GET', '/v1/me', { token })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2);
    const refused = answers.find(({ status }) => status === 429);
    expect(refused?.body.error.code).toBe('QUOTA_EXCEEDED');
    await untilUsed(tenant, 2);
  });

  test('does not count replays or rate-limited calls', async () => {
    const tenant = await newCapped(100);
    const idempotencyKey = randomUUID();
    const body = { first_name: 'Once', email: 'once@example.com' };
    const path = '/v1/objects/leads/records';
    const first = await expectStatus(201, 'POST', path, { key: tenant.key, idempotencyKey, body });
    const again = await expectStatus(201, 'POST', path, { key: tenant.key, idempotencyKey, body });
    expect(again.text).toBe(first.text);
    await untilUsed(tenant, 1);
    const slow = await newKey(tenant, { perMinute: 1 });
    expect((await me(slow)).status).toBe(200);
    expect((await me(slow)).body.error.code).toBe('RATE_LIMIT_EXCEEDED');
    await untilUsed(tenant, 2);
  });

  test('keeps rejected calls out of the count when the quota is raised later', async () => {
    const tenant = await newCapped(1);
    await me(tenant.key);
    for (let turn = 0; turn < 5; turn += 1) expect((await me(tenant.key)).status).toBe(429);
    await database()`update subscriptions set api_call_cap = 3 where company_id = ${tenant.companyId}`;
    expect([await me(tenant.key), await me(tenant.key), await me(tenant.key)].map(({ status }) => status)).toEqual([
      200, 200, 429,
    ]);
  });

  test('counts without a limit on an unlimited plan', async () => {
    const tenant = await newTenant();
    await database()`update subscriptions set package_code = 'enterprise' where company_id = ${tenant.companyId}`;
    await database()`update api_quota set calls = 900000000 where company_id = ${tenant.companyId}`;
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    await untilUsed(tenant, 900_000_001);
  });

  test.each([
    ['starter', 50_000],
    ['growth', 500_000],
    ['scale', 3_000_000],
  ])('admits calls up to the limit of the package %s: %s', async (code, cap) => {
    const tenant = await newTenant();
    await database()`update subscriptions set package_code = ${code} where company_id = ${tenant.companyId}`;
    await database()`update api_quota set calls = ${cap - 1} where company_id = ${tenant.companyId}`;
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    expect(quotaHeaders(await expectStatus(429, 'GET', '/v1/me', { key: tenant.key }))).toEqual([
      String(cap),
      String(cap),
      '0',
    ]);
  });
});

describe('a workspace without a paid subscription', () => {
  test.each([
    ['canceled', null, 'subscription_ended'],
    ['pending_deletion', null, 'subscription_ended'],
    ['none', null, 'no_subscription'],
    ['incomplete', null, 'no_subscription'],
    ['trialing', new Date(Date.now() - 1000), 'no_subscription'],
  ] as const)(
    'rejects calls of a workspace (%s, trial until %s) with 402, its figures and the reason %s',
    async (status, trialEnd, reason) => {
      const tenant = await newTenant();
      await database()`
      update subscriptions set status = ${status}, trial_ends_at = ${trialEnd} where company_id = ${tenant.companyId}`;
      await database()`update api_quota set calls = 1234 where company_id = ${tenant.companyId}`;
      for (const key of [tenant.key, tenant.testKey]) {
        const refused = await expectStatus(402, 'GET', '/v1/me', { key });
        expect(refused.body.error.code).toBe('QUOTA_EXCEEDED');
        const limit = 500_000;
        expect(refused.body.error.details).toEqual({ limit, used: 1234, remaining: 0, reset: null, reason });
        expect(quotaHeaders(refused)).toEqual([String(limit), '1234', '0']);
        expect(refused.headers.get('retry-after')).toBeNull();
      }
      // People of the workspace can still sign in and revoke a key.
      await expectStatus(200, 'GET', '/v1/api-keys', { token: await adminToken(tenant) });
    },
  );

  test('shows the figures of the last month while a workspace is closed, and counts no rejected calls', async () => {
    const tenant = await newTenant();
    const { companyId } = tenant;
    const arrange = (status: string, packageCode: string, since: string, until: string, countedFrom: string) =>
      database().begin(async (sql) => {
        await sql`
          update subscriptions set status = ${status}, package_code = ${packageCode}, trial_ends_at = ${status === 'trialing' ? until : null},
            period_start = ${since}, period_end = ${until} where company_id = ${companyId}`;
        await sql`update api_quota set month_start = ${countedFrom}, calls = 77 where company_id = ${companyId}`;
      });
    const refusedWith = async () => quotaHeaders(await expectStatus(402, 'GET', '/v1/me', { key: tenant.key }));

    await arrange('canceled', 'starter', '2025-01-31T10:00Z', '2025-04-30T10:00Z', '2025-03-31T10:00Z');
    for (let turn = 0; turn < 3; turn += 1) expect(await refusedWith()).toEqual(['50000', '77', '0']);
    await arrange('canceled', 'starter', '2025-01-31T10:00Z', '2025-04-30T10:00Z', '2025-02-28T10:00Z');
    expect(await refusedWith()).toEqual(['50000', '0', '0']);
    await arrange('pending_deletion', 'enterprise', '2025-01-01T00:00Z', '2026-01-01T00:00Z', '2025-12-01T00:00Z');
    expect(await refusedWith()).toEqual(['unlimited', '77', '0']);
    await arrange('trialing', 'growth', '2025-01-01T00:00Z', '2025-01-15T00:00Z', '2025-01-01T00:00Z');
    expect(await refusedWith()).toEqual(['500000', '77', '0']);

    await database()`delete from subscriptions where company_id = ${companyId}`;
    expect(await refusedWith()).toEqual(['0', '0', '0']);
  });

  test.each([
    ['active', null],
    ['past_due', null],
    ['trialing', null],
    ['trialing', new Date(Date.now() + day)],
  ] as const)('serves a workspace while it is %s', async (status, trialEnd) => {
    const tenant = await newTenant();
    await database()`
      update subscriptions set status = ${status}, trial_ends_at = ${trialEnd} where company_id = ${tenant.companyId}`;
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    await untilUsed(tenant, 1);
  });

  test('serves a workspace whose trial ends at this very instant', () => {
    const now = new Date();
    expect(resolveAccess('trialing', now, now)).toBe('no_subscription');
    expect(resolveAccess('trialing', new Date(now.getTime() + 1), now)).toBe('open');
    expect(resolveAccess(null, null, now)).toBe('no_subscription');
  });
});

describe('a daily limit', () => {
  test('enforces an agreed daily limit like a rate limit', async () => {
    const tenant = await newTenant();
    await database()`update subscriptions set api_daily_cap = 2 where company_id = ${tenant.companyId}`;
    const statuses = [];
    for (let turn = 0; turn < 3; turn += 1) statuses.push((await me(tenant.key)).status);
    expect(statuses).toEqual([200, 200, 429]);
    const refused = await expectStatus(429, 'GET', '/v1/me', { key: tenant.testKey });
    expect(refused.body.error.code).toBe('RATE_LIMIT_EXCEEDED');
    expect(refused.body.error.details.limit).toBe(2);
    expect(refused.body.error.details.retry_after).toBeGreaterThan(86_000);
  });

  test.each([
    ['growth', null, null, null],
    ['growth', null, 1000, null],
    ['growth', 5, 1000, 5],
    ['bespoke', null, 1000, 34],
    ['bespoke', 9, 1000, 9],
    ['bespoke', null, null, null],
  ])(
    'derives the daily limit of the package %s, with %s a day and %s a month agreed, as %s',
    (packageCode, agreedPerDay, agreedPerMonth, cap) => {
      expect(computeCallsPerDay({ packageCode, agreedPerMinute: null, agreedPerDay, agreedPerMonth })).toBe(cap);
    },
  );
});

describe('an unavailable quota', () => {
  const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `quota-${process.pid}`);
  const logFile = resolve(folder, 'server.log');
  let server: TestServer;
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    server = await startServer({ ...testSettings, ...besideCommon() }, { logFile });
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const alarms = (severity: string): number =>
    readFileSync(logFile, 'utf8')
      .split('\n')
      .filter((line) => line.includes('"alert":"api_quota_unavailable"') && line.includes(`"severity":"${severity}"`))
      .length;

  test('rejects API keys with 503 while the quota is unavailable, raises one alert per outage, and recovers', async () => {
    const tenant = await newTenant();
    const token = await accessToken(tenant, await newGrant(tenant, { groups: ['records'] }));
    const blocks = () => database()`select calls from api_quota_blocks where company_id = ${tenant.companyId}`;
    for (const outage of [1, 2]) {
      // Leased calls would be admitted during the outage.
      await vi.waitFor(async () => expect(await blocks()).toEqual([]));
      await database().begin(async (sql) => {
        // Only this tenant's counter is locked, because other tests continue.
        await sql`select from api_quota where company_id = ${tenant.companyId} for update`;
        const answers = await Promise.all(
          Array.from({ length: 5 }, () => me(tenant.key, { baseUrl: server.url, within: 15_000 })),
        );
        answers.push(await me(tenant.key, { baseUrl: server.url, within: 15_000 }));
        answers.push(await call('GET', '/v1/me', { token, baseUrl: server.url, within: 15_000 }));
        for (const answer of answers) {
          expect(answer.status).toBe(503);
          expect(answer.body.error.code).toBe('QUOTA_UNAVAILABLE');
          expect(answer.headers.get('retry-after')).toBe('1');
        }
      });
      await vi.waitFor(() => expect(alarms('critical')).toBe(outage));
      expect((await me(tenant.key, { baseUrl: server.url })).status).toBe(200);
      await vi.waitFor(() => expect(alarms('resolved')).toBe(outage));
    }
  });

  test('does not blame the quota if a charged call fails because the database is down', async () => {
    const narrow = await startServer({ ...testSettings, ...besideCommon(), DATABASE_POOL: '1' }, { logFile });
    try {
      const { key } = await newTenant();
      const [held, other] = [
        await createRecord(key, 'accounts', { name: 'A' }),
        await createRecord(key, 'accounts', { name: 'B' }),
      ];
      const change = (id: string) =>
        call('PATCH', recordsPath('accounts', id), {
          key,
          body: { city: 'Bonn' },
          baseUrl: narrow.url,
          within: 15_000,
        });
      // The key is cached from now on.
      expect((await change(other.id)).status).toBe(200);
      const before = alarms('critical');
      await database().begin(async (sql) => {
        const [own] = await sql`select pg_backend_pid() as pid from accounts where id = ${held.id} for update`;
        const first = change(held.id);
        // It holds the only connection.
        await vi.waitFor(async () => {
          const waiting =
            await database()`select from pg_stat_activity where ${own?.pid}::int = any(pg_blocking_pids(pid))`;
          expect(waiting).toHaveLength(1);
        });
        for (const answer of [await change(other.id), await first])
          expect([answer.status, answer.body.error.code]).toEqual([503, 'SERVICE_UNAVAILABLE']);
      });
      expect(alarms('critical')).toBe(before);
    } finally {
      await narrow.stop();
    }
  });
});
