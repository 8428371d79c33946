// Counters of rate limits in Redis, shared by all servers, all layers in one round trip.
// Open when Redis is not there.
import { Redis } from 'ioredis';
import type { Log } from '../log.ts';
import { type Counters, judge, type Layer, type Verdict } from './rate-limits.ts';

/**
 * One list of times per layer, the oldest first. The clock is Redis's own, so that servers whose clocks differ count alike, and
 * times in a list never decrease. Answers whether the call passes, then for each layer the calls that count and the wait.
 */
const script = `
local now = tonumber(ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local allowed = 1
local used = {}
for i, key in ipairs(KEYS) do
  local limit, window = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local count = redis.call('LLEN', key)
  -- A binary search, since an hour's calls may all have left the window since the last one.
  local from, to = 0, count
  if count > 0 and tonumber(redis.call('LINDEX', key, 0)) > now - window then to = 0 end
  while from < to do
    local middle = math.floor((from + to) / 2)
    if tonumber(redis.call('LINDEX', key, middle)) <= now - window then from = middle + 1 else to = middle end
  end
  if from > 0 then redis.call('LTRIM', key, from, -1) end
  used[i] = count - from
  if used[i] >= limit then allowed = 0 end
end
local answer = { allowed }
for i, key in ipairs(KEYS) do
  local limit, window = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  if allowed == 1 then
    redis.call('RPUSH', key, now)
    redis.call('PEXPIRE', key, window)
    used[i] = used[i] + 1
  end
  local first = used[i] > 0 and redis.call('LINDEX', key, math.max(0, used[i] - limit))
  answer[2 * i] = used[i]
  answer[2 * i + 1] = first and tonumber(first) + window - now or 0
end
return answer`;

/** The braces keep all keys of a call on one node of a cluster. */
const prefix = 'rl:{headless-crm}:';

type WithScript = Redis & { takeCall(keys: number, ...values: (string | number)[]): Promise<number[]> };

export class RedisCounters implements Counters {
  readonly #redis: WithScript;
  readonly #log: Log;
  readonly #clock: (() => number) | undefined;
  #isOpen = false;
  #isProbing = false;
  #uncounted = 0;

  /**
   * @param clock in place of Redis's own, for tests
   * @param patience milliseconds after which an answer comes too late
   */
  constructor(url: string, log: Log, { clock, patience = 50 }: { clock?: () => number; patience?: number } = {}) {
    this.#log = log;
    this.#clock = clock;
    this.#redis = new Redis(url, {
      lazyConnect: true,
      commandTimeout: patience,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      connectTimeout: 200,
      // A connection that has gone silent never ends by itself: it is given up, and another is made.
      socketTimeout: 500,
      retryStrategy: (attempt) => Math.min(attempt * 50, 500),
      scripts: { takeCall: { lua: script } },
    }) as WithScript;
    // What goes wrong with the connection shows in the commands that fail for it.
    this.#redis.on('error', () => undefined);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Calls that were let through without being counted, since the start. */
  get uncounted(): number {
    return this.#uncounted;
  }

  /** Connects; where that fails the counters are open, and it is tried again and again. */
  async open(): Promise<void> {
    await this.#redis.connect().catch((error: unknown) => this.#fail(error));
  }

  close(): void {
    this.#redis.disconnect();
  }

  /** True when Redis answers now. */
  async answers(): Promise<boolean> {
    return await this.#redis.ping().then(
      () => true,
      () => false,
    );
  }

  async take(layers: readonly Layer[], now: number): Promise<Verdict> {
    // In an outage one call at a time tries whether it is over, so that the others need not wait for a silent Redis.
    if (this.#isOpen && this.#isProbing) return this.#letThrough(layers, now);
    this.#isProbing = this.#isOpen;
    try {
      const answer = await this.#redis.takeCall(
        layers.length,
        ...layers.map((layer) => prefix + layer.key),
        this.#clock?.() ?? -1,
        ...layers.flatMap((layer) => [layer.limit, layer.window]),
      );
      this.#recover();
      const used = layers.map((_, index) => answer[2 * index + 1] as number);
      const waits = layers.map((_, index) => answer[2 * index + 2] as number);
      return judge(answer[0] === 1, layers, used, waits, now);
    } catch (error) {
      this.#fail(error);
      return this.#letThrough(layers, now);
    } finally {
      this.#isProbing = false;
    }
  }

  /** Lets a call pass uncounted, with the tightest limit as it is configured. */
  #letThrough(layers: readonly Layer[], now: number): Verdict {
    this.#uncounted += 1;
    const tightest = layers.reduce((found, layer) => (layer.limit < found.limit ? layer : found));
    return { allowed: true, limit: tightest.limit, remaining: tightest.limit, reset: now + tightest.window };
  }

  #fail(error: unknown): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#log.warn({ err: { message: String(error) } }, 'Redis does not answer: rate limits are open');
  }

  #recover(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#log.info('Redis answers again: rate limits are counted');
  }
}
