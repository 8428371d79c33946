// The rate limit counters against a naive reference, in memory and in Redis.
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { MemoryCounters } from '../../runtime/limits/rate-limit-memory.ts';
import { RedisCounters } from '../../runtime/limits/rate-limit-redis.ts';
import {
  type Counters,
  type Layer,
  type LimitDecision,
  toNetwork,
  toRateLimitError,
} from '../../runtime/limits/rate-limits.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { TestRedis } from '../support/redis.ts';

const minute = 60_000;
const start = 1_795_219_200_000;
let now = start;
let run = 0;

/** Counts by scanning all admitted calls. */
class Reference {
  readonly #times = new Map<string, number[]>();

  take(layers: readonly Layer[]): { allowed: boolean; remaining: number; reset: number } {
    const inside = layers.map(({ key, window }) => (this.#times.get(key) ?? []).filter((time) => time > now - window));
    const allowed = layers.every(({ limit }, index) => (inside[index]?.length ?? 0) < limit);
    if (allowed) {
      for (const [index, { key }] of layers.entries()) {
        this.#times.set(key, [...(this.#times.get(key) ?? []), now]);
        inside[index]?.push(now);
      }
    }
    const left = layers.map(({ limit }, index) => Math.max(0, limit - (inside[index]?.length ?? 0)));
    const remaining = Math.min(...left);
    const resets = layers.flatMap(({ limit, window }, index) => {
      if (left[index] !== remaining) return [];
      const times = inside[index] ?? [];
      // Waits until one call less than the limit is inside, or one less than now.
      const most = Math.min(limit, times.length) - 1;
      return [
        times.map((time) => time + window).find((at) => times.filter((t) => t > at - window).length <= most) ?? now,
      ];
    });
    return { allowed, remaining, reset: Math.max(...resets) };
  }
}

interface Step {
  pause: number;
  layers: { name: string; limit: number }[];
  server: number;
}

/** Windows of minutes, so that nothing expires by Redis's own clock meanwhile. */
const windows: Record<string, number> = { a: minute, b: 2 * minute, c: 10 * minute };

const steps = fc.array(
  fc.record<Step>({
    pause: fc.oneof(
      fc.constantFrom(0, 1, minute - 1, minute, minute + 1, 2 * minute, 10 * minute),
      fc.integer({ min: 0, max: 20_000 }),
    ),
    layers: fc
      .subarray(Object.keys(windows), { minLength: 1 })
      .chain((names) =>
        fc.tuple(...names.map((name) => fc.record({ name: fc.constant(name), limit: fc.integer({ min: 1, max: 9 }) }))),
      ),
    server: fc.integer({ min: 0, max: 1 }),
  }),
  { minLength: 1, maxLength: 80 },
);

/** Passes every step to the counters in turn, and compares them with the reference. */
async function follow(counters: readonly Counters[], given: readonly Step[]): Promise<void> {
  const reference = new Reference();
  run += 1;
  for (const { pause, layers, server } of given) {
    now += pause;
    const asked = layers.map(({ name, limit }) => ({ key: `${run}:${name}`, limit, window: windows[name] as number }));
    const verdict = await counters[server % counters.length]?.take(asked, now);
    const expected = reference.take(asked);
    expect(verdict).toMatchObject(expected);
    expect(asked.map(({ limit }) => limit)).toContain(verdict?.limit);
  }
}

/** Fills layers until they reject a call, and waits exactly as long as the rejection says. */
async function waitOut(
  counters: Counters,
  given: readonly { limit: number; window: number; pause: number }[],
): Promise<void> {
  run += 1;
  const layers = given.map(({ limit, window }, index) => ({ key: `${run}:${index}`, limit, window }));
  for (;;) {
    const verdict = await counters.take(layers, now);
    if (!verdict.allowed) {
      const details = toRateLimitError(verdict, now).details as { retry_after: number; reset: number };
      expect(details.retry_after).toBeGreaterThanOrEqual(1);
      expect(now + details.retry_after * 1000).toBeGreaterThanOrEqual(details.reset);
      const before = now;
      now = details.reset - 1;
      expect(await counters.take(layers, now)).toMatchObject({ allowed: false, reset: details.reset });
      now = before + details.retry_after * 1000;
      expect(await counters.take(layers, now)).toMatchObject({ allowed: true });
      return;
    }
    now += given[0]?.pause ?? 0;
  }
}

const fillings = fc.array(
  fc.record({
    limit: fc.integer({ min: 1, max: 12 }),
    window: fc.integer({ min: minute, max: 3 * minute }),
    pause: fc.integer({ min: 0, max: 4000 }),
  }),
  { minLength: 1, maxLength: 3 },
);

describe('counters in memory', () => {
  test('admits exactly what the limits allow, and says when more is allowed', async () => {
    await fc.assert(
      fc.asyncProperty(steps, (given) => follow([new MemoryCounters()], given)),
      { numRuns: 500 },
    );
  });

  test('admits a call exactly after the time in the rejection, and not before', async () => {
    await fc.assert(
      fc.asyncProperty(fillings, (given) => waitOut(new MemoryCounters(), given)),
      { numRuns: 300 },
    );
  });

  test('rejects no allowed call with large limits, and admits at most a 2,000th more', () => {
    const bursts = fc.array(
      fc.record({ pause: fc.integer({ min: 0, max: minute / 2 }), calls: fc.integer({ min: 0, max: 9000 }) }),
      { minLength: 4, maxLength: 20 },
    );
    let most = 0;
    fc.assert(
      fc.property(bursts, fc.integer({ min: 1, max: 20_000 }), fc.integer({ min: 0, max: 9 }), (given, limit, gap) => {
        const counters = new MemoryCounters();
        const passed: number[] = [];
        let oldest = 0;
        let time = start;
        for (const { pause, calls } of given) {
          time += pause;
          for (let call = 0; call < calls; call += 1) {
            if (call % 100 === 0) time += gap;
            while ((passed[oldest] ?? time) <= time - minute) oldest += 1;
            const inside = passed.length - oldest;
            const verdict = counters.take([{ key: 'busy', limit, window: minute }], time) as LimitDecision;
            if (verdict.allowed) passed.push(time);
            else if (inside < limit) throw new Error(`refused with ${inside} of ${limit}`);
            if (verdict.allowed && inside >= limit) most = Math.max(most, (inside + 1 - limit) / limit);
          }
        }
      }),
      { numRuns: 100 },
    );
    expect(most).toBeLessThanOrEqual(1 / 2000);
  });

  test('says when the next call passes with large limits, even after the limit was lowered', () => {
    const counters = new MemoryCounters();
    const take = (limit: number, at: number) =>
      counters.take([{ key: 'lowered', limit, window: minute }], at) as LimitDecision;
    // Five calls per millisecond, which share a time.
    for (let call = 0; call < 10_000; call += 1) expect(take(10_000, start + Math.floor(call / 5)).allowed).toBe(true);
    expect(take(10_000, start + 2000)).toMatchObject({ allowed: false, reset: start + minute });
    expect(take(1, start + 2000)).toMatchObject({ allowed: false, reset: start + 1999 + minute });
    expect(take(1, start + 1998 + minute).allowed).toBe(false);
    expect(take(1, start + 1999 + minute).allowed).toBe(true);
  });

  test('needs no more memory for a million calls of one caller than for some thousands', () => {
    const counters = new MemoryCounters();
    const before = process.memoryUsage().arrayBuffers;
    for (let call = 0; call < 1_000_000; call += 1)
      counters.take([{ key: 'unlimited', limit: 2 ** 31 - 1, window: 60 * minute }], start + call);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
  });

  test('returns verdicts in memory without a promise', () => {
    expect(new MemoryCounters().take([{ key: 'a', limit: 1, window: 1 }], 1)).not.toBeInstanceOf(Promise);
  });

  test('forgets callers whose window has passed', () => {
    const counters = new MemoryCounters();
    for (let index = 0; index < 1000; index += 1)
      counters.take([{ key: `old ${index}`, limit: 5, window: minute }], start);
    counters.take([{ key: 'long', limit: 5, window: 60 * minute }], start);
    counters.take([{ key: 'new', limit: 5, window: minute }], start + 2 * minute);
    expect(counters.size).toBe(2);
  });

  test('keeps at most 200,000 callers', () => {
    const counters = new MemoryCounters();
    for (let index = 0; index < 250_000; index += 1)
      counters.take([{ key: `${index}`, limit: 5, window: minute }], start);
    expect(counters.size).toBeLessThanOrEqual(200_001);
    expect(counters.take([{ key: '249999', limit: 1, window: minute }], start).allowed).toBe(false);
  });
});

describe.skipIf(!findProgram('redis'))(`counters in Redis${skipNote('redis')}`, () => {
  let redis: TestRedis;
  const servers: RedisCounters[] = [];
  const log = pino({ level: 'silent' });
  /** The machine runs other tests, so a late response must not count as missing here. */
  const timeout = 10_000;

  beforeAll(async () => {
    redis = await TestRedis.start();
    for (let index = 0; index < 2; index += 1) {
      const counters = new RedisCounters(redis.url, log, { clock: () => now, timeout });
      await counters.open();
      servers.push(counters);
    }
  });
  afterAll(async () => {
    for (const each of servers) each.close();
    await redis?.kill();
  });

  test.each([1, 2])('admits exactly what the limits allow, from %i servers', async (count) => {
    await fc.assert(
      fc.asyncProperty(steps, (given) => follow(servers.slice(0, count), given)),
      { numRuns: 60 },
    );
  });

  test('admits a call exactly after the time in the rejection, and not before', async () => {
    await fc.assert(
      fc.asyncProperty(fillings, (given) => waitOut(servers[0] as Counters, given)),
      { numRuns: 60 },
    );
  });

  test('admits exactly the limit of many concurrent calls from two servers', async () => {
    const layers = [
      { key: 'crowd', limit: 37, window: minute },
      { key: 'crowd, wider', limit: 1000, window: 2 * minute },
    ];
    const verdicts = await Promise.all(
      Array.from({ length: 400 }, (_, index) => servers[index % 2]?.take(layers, now)),
    );
    expect(verdicts.filter((verdict) => verdict?.allowed).length).toBe(37);
  });

  // A Redis that gets no processor time within its timeout counts as unavailable. Then the test is
  // retried.
  test('does not consider Redis unavailable if this process is late to read its responses', { retry: 2 }, async () => {
    const counters = new RedisCounters(redis.url, log);
    await counters.open();
    const layers = [{ key: `late ${randomUUID()}`, limit: 20, window: minute }];
    for (let turn = 0; turn < 5; turn += 1) {
      const verdicts = Array.from({ length: 40 }, () => counters.take(layers, Date.now()));
      const end = performance.now() + 300;
      while (performance.now() < end);
      const allowed = (await Promise.all(verdicts)).filter((verdict) => verdict.allowed);
      expect(allowed).toHaveLength(turn === 0 ? 20 : 0);
    }
    expect([counters.isLocal, counters.countedLocally]).toEqual([false, 0]);
    counters.close();
  });

  test('counts locally while Redis is unavailable, including the calls before', async () => {
    const own = await TestRedis.start();
    const counters = new RedisCounters(own.url, log);
    await counters.open();
    const layers = [{ key: 'alone', limit: 5, window: minute }];
    try {
      for (let turn = 0; turn < 3; turn += 1) expect(await counters.take(layers, now)).toMatchObject({ allowed: true });
      own.pause();
      const verdicts = await Promise.all(Array.from({ length: 10 }, () => counters.take(layers, now)));
      expect(verdicts.filter(({ allowed }) => allowed)).toHaveLength(2);
      expect(counters.isLocal).toBe(true);
      const refused = verdicts.at(-1) as LimitDecision;
      expect(refused).toMatchObject({ limit: 5, remaining: 0 });
      expect(refused.reset - now).toBeGreaterThan(0);
      expect(refused.reset - now).toBeLessThanOrEqual(minute);
      counters.remember('good', minute);
      expect(await counters.remembers('good')).toBe(true);
      own.resume();
      await vi.waitUntil(async () => {
        await counters.take([{ key: 'back', limit: 1000, window: minute }], now);
        return !counters.isLocal;
      });
    } finally {
      own.resume();
      counters.close();
      await own.kill();
    }
  });

  test('uses the clock of Redis by default', async () => {
    const counters = new RedisCounters(redis.url, log, { timeout });
    await counters.open();
    // Two servers whose clocks are an hour apart.
    const layers = [{ key: 'clock', limit: 1, window: 30 * minute }];
    expect(await counters.take(layers, start)).toMatchObject({ allowed: true });
    expect(await counters.take(layers, start + 60 * minute)).toMatchObject({ allowed: false });
    counters.close();
  });
});

describe('the network of the address', () => {
  test.each([
    ['203.0.113.9', '203.0.113.9'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:0db8:0001:0002::9', '2001:db8:1:2'],
    ['2001:db8::1', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::', 'fe80:0:0:0'],
  ])('the network of %s is %s', (ip, network) => {
    expect(toNetwork(ip)).toBe(network);
  });
});
