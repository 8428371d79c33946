// Rate limits hold while Redis is shared, hangs, dies and returns; at least in each process.
import { randomBytes, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Answer, call } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
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
    ...besideCommon(),
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
  const alone = 'this process counts rate limits on its own';
  const together = 'rate limits are shared';
  const untilHealthy = (): Promise<unknown> =>
    vi.waitUntil(async () => (await health(0)) === '200 ok' && (await health(1)) === '200 ok');
  const readFigures = ({ headers }: Answer) => ({
    limit: headers.get('x-ratelimit-limit'),
    remaining: headers.get('x-ratelimit-remaining'),
  });

  // On a busy machine, Redis may exceed its timeout and count as unreachable. Then the test is
  // retried.
  test('shares rate limits between two servers', { retry: 2 }, async () => {
    const key = await newKey(tenant, { perMinute: 6 });
    const statuses: number[] = [];
    for (let turn = 0; turn < 8; turn += 1) statuses.push((await ask(key, turn % 2)).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
    const refused = await ask(key, 1);
    expect(refused.body.error.details).toMatchObject({ limit: 6, remaining: 0 });
    expect(refused.headers.get('retry-after')).toBe(String(refused.body.error.details.retry_after));
    expect(refused.body.error.details.retry_after).toBeLessThanOrEqual(60);
  });

  test('rejects an address on one server that failed on the other', { retry: 2 }, async () => {
    const ip = `172.20.${randomInt(256)}.${randomInt(256)}`;
    const fail = (server: number) => call('GET', '/v1/me', { ip, baseUrl: servers[server]?.url ?? '' });
    for (let turn = 0; turn < 30; turn += 1) expect((await fail(0)).status).toBe(401);
    expect([(await fail(0)).status, (await fail(1)).status]).toEqual([429, 429]);
  });

  test('accepts a key on one server that was valid on the other, even if its address is blocked', {
    retry: 2,
  }, async () => {
    const ip = `172.20.${randomInt(256)}.${randomInt(256)}`;
    const [good, unseen] = [await newKey(tenant), await newKey(tenant)];
    const of = (key: string, server: number) => call('GET', '/v1/me', { ip, key, baseUrl: servers[server]?.url ?? '' });
    expect((await of(good, 0)).status).toBe(200);
    const failures = Array.from({ length: 300 }, (_, index) => {
      const prefix = (index % 10).toString(16).repeat(8);
      return of(`svc_live_${prefix}${randomBytes(12).toString('hex')}`, 1);
    });
    expect(new Set((await Promise.all(failures)).map(({ status }) => status))).toEqual(new Set([401]));
    expect((await of(`svc_live_${randomBytes(16).toString('hex')}`, 1)).status).toBe(429);
    expect([(await of(unseen, 1)).status, (await of(good, 1)).status]).toEqual([429, 200]);
  });

  test.each([
    ['', 0],
    [' that stalls repeatedly', 5],
  ])('accepts 20 of 200 concurrent calls on a server%s', async (_, stalls) => {
    const key = await newKey(tenant, { perMinute: 20 });
    const { pid } = servers[0] as TestServer;
    const stalling = (async () => {
      for (let turn = 0; turn < stalls; turn += 1) {
        // Longer than the timeout of Redis, which itself continues to run.
        process.kill(pid, 'SIGSTOP');
        await sleep(120);
        process.kill(pid, 'SIGCONT');
        await sleep(10);
      }
    })();
    const answers = await Promise.all(Array.from({ length: 200 }, () => ask(key)));
    await stalling;
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(180);
  });

  test.each([
    ['hangs', async () => redis.pause(), async () => redis.resume()],
    ['is killed', () => redis.kill(), () => redis.restart()],
  ])(
    'counts limits in each process while Redis %s under load, fails no request, and shares counts again afterwards',
    { retry: 2 },
    async (_, harm, repair) => {
      await untilHealthy();
      const before = { alone: logged(alone), together: logged(together) };
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
      // Calls that this process accepted before still count.
      const answers: Answer[] = [];
      for (let turn = 0; turn < 8; turn += 1) answers.push(await ask(key));
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 429, 429, 429, 429]);
      expect(readFigures(answers[0] as Answer)).toEqual({ limit: '5', remaining: '3' });
      const refused = answers.at(-1) as Answer;
      expect(refused.body.error.details).toMatchObject({ limit: 5, remaining: 0 });
      expect(refused.body.error.details.retry_after).toBeLessThanOrEqual(60);
      expect(await health()).toBe('200 degraded');
      await repair();
      await untilHealthy();
      await vi.waitUntil(() => logged(together) > before.together);
      expect(logged(alone) - before.alone).toBe(1);
      expect(logged(together) - before.together).toBe(1);
      const fresh = await newKey(tenant, { perMinute: 2 });
      const statuses = [await ask(fresh), await ask(fresh), await ask(fresh)].map(({ status }) => status);
      expect(statuses).toEqual([200, 200, 429]);
    },
  );

  test('starts a server whose Redis never existed', async () => {
    const server = await startServer({ ...settings(), REDIS_URL: 'redis://127.0.0.1:1' });
    try {
      const key = await newKey(tenant, { perMinute: 2 });
      const statuses: number[] = [];
      for (let turn = 0; turn < 3; turn += 1)
        statuses.push((await call('GET', '/v1/me', { key, baseUrl: server.url })).status);
      expect(statuses).toEqual([200, 200, 429]);
      const { body } = await call('GET', '/v1/health', { baseUrl: server.url });
      expect(body.data.status).toBe('degraded');
      expect(server.output().split(alone).length - 1).toBe(1);
    } finally {
      await server.stop();
    }
  });
});
