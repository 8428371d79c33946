// Redis is shared, hangs, dies and comes back: limits hold, then open, and no request fails for it.
import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type Answer, call } from '../support/client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { TestRedis } from '../support/redis.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';

describe.skipIf(!findProgram('redis'))(`Rate limits in Redis${skipNote('redis')}`, () => {
  let redis: TestRedis;
  let tenant: Tenant;
  const servers: TestServer[] = [];
  const settings = () => ({
    ...testSettings,
    DATABASE_URL: inject('databaseUrl'),
    SECRET_KEY: inject('secretKey'),
    REDIS_URL: redis.url,
  });

  beforeAll(async () => {
    redis = await TestRedis.start();
    servers.push(...(await Promise.all([startServer(settings()), startServer(settings())])));
    tenant = await newTenant();
  });
  afterAll(async () => {
    redis?.resume();
    await Promise.all(servers.map((server) => server.stop()));
    await redis?.kill();
  });

  const ask = (key: string, server = 0): Promise<Answer> =>
    call('GET', '/v1/me', { key, baseUrl: servers[server]?.url ?? '' });
  const health = async (server = 0): Promise<string> => {
    const { status, body } = await call('GET', '/v1/health', { baseUrl: servers[server]?.url ?? '' });
    return `${status} ${body.data.status}`;
  };
  const logged = (text: string, server = 0): number => (servers[server]?.output() ?? '').split(text).length - 1;
  const opened = 'rate limits are open';
  const closed = 'rate limits are counted';
  const untilHealthy = (): Promise<unknown> =>
    vi.waitUntil(async () => (await health(0)) === '200 ok' && (await health(1)) === '200 ok', { timeout: 10_000 });
  const figuresOf = ({ headers }: Answer) => ({
    limit: headers.get('x-ratelimit-limit'),
    remaining: headers.get('x-ratelimit-remaining'),
  });

  // A machine that stalls longer than Redis is given opens the limits, as it should: then it is tried once more.
  test('two servers count together', { retry: 2 }, async () => {
    const key = await newKey(tenant, { perMinute: 6 });
    const statuses: number[] = [];
    for (let turn = 0; turn < 8; turn += 1) statuses.push((await ask(key, turn % 2)).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
    const refused = await ask(key, 1);
    expect(refused.body.error.details).toMatchObject({ limit: 6, remaining: 0 });
    expect(refused.headers.get('retry-after')).toBe(String(refused.body.error.details.retry_after));
    expect(refused.body.error.details.retry_after).toBeLessThanOrEqual(60);
  });

  test('an address that failed at one server is refused by the other', { retry: 2 }, async () => {
    const ip = `172.20.${randomInt(256)}.${randomInt(256)}`;
    const fail = (server: number) => call('GET', '/v1/me', { ip, baseUrl: servers[server]?.url ?? '' });
    for (let turn = 0; turn < 30; turn += 1) expect((await fail(0)).status).toBe(401);
    expect([(await fail(0)).status, (await fail(1)).status]).toEqual([429, 429]);
  });

  test.each([
    ['hangs', async () => redis.pause(), async () => redis.resume()],
    ['is killed', () => redis.kill(), () => redis.restart()],
  ])(
    'a Redis that %s under load opens the limits, fails no request, and is used again when it is back',
    { retry: 2 },
    async (_, harm, mend) => {
      await untilHealthy();
      const before = { opened: logged(opened), closed: logged(closed) };
      const key = await newKey(tenant, { perMinute: 5 });
      await ask(key);
      const load = Promise.all(
        Array.from({ length: 8 }, async () => {
          const statuses: number[] = [];
          for (let turn = 0; turn < 20; turn += 1) statuses.push((await ask(tenant.key)).status);
          return statuses;
        }),
      );
      await harm();
      expect(new Set((await load).flat())).toEqual(new Set([200]));
      // Far more than the limit, with the limit as it is configured.
      for (let turn = 0; turn < 12; turn += 1) {
        const answer = await ask(key);
        expect(answer.status).toBe(200);
        expect(figuresOf(answer)).toEqual({ limit: '5', remaining: '5' });
      }
      expect(await health()).toBe('200 degraded');
      await mend();
      await untilHealthy();
      await vi.waitUntil(() => logged(closed) > before.closed, { timeout: 5000 });
      expect(logged(opened) - before.opened).toBe(1);
      expect(logged(closed) - before.closed).toBe(1);
      const fresh = await newKey(tenant, { perMinute: 2 });
      const statuses = [await ask(fresh), await ask(fresh), await ask(fresh)].map(({ status }) => status);
      expect(statuses).toEqual([200, 200, 429]);
    },
  );

  test('a Redis that was never there does not keep a server from starting', async () => {
    const server = await startServer({ ...settings(), REDIS_URL: 'redis://127.0.0.1:1' });
    try {
      const key = await newKey(tenant, { perMinute: 1 });
      for (let turn = 0; turn < 3; turn += 1)
        expect((await call('GET', '/v1/me', { key, baseUrl: server.url })).status).toBe(200);
      const { body } = await call('GET', '/v1/health', { baseUrl: server.url });
      expect(body.data.status).toBe('degraded');
      expect(server.output().split(opened).length - 1).toBe(1);
    } finally {
      await server.stop();
    }
  });
});
