// Rate limit counters in Redis, shared by all servers, one round trip per call.
// While Redis is unavailable, each process counts locally.
import { Redis } from 'ioredis';
import { readResponsiveClock, startResponsiveTimeout } from '../responsive-timeout.ts';
import type { Log } from '../telemetry/log.ts';
import { MemoryCounters } from './rate-limit-memory.ts';
import { type Counters, judgeLimits, type Layer, type LimitDecision } from './rate-limits.ts';

/**
 * Keeps one list of times per layer, oldest first. Uses Redis's clock, so that servers with
 * different clocks count alike and the times in a list never decrease. Returns whether the call is
 * allowed, then for each layer the calls in the window and the wait.
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

/** The hash tag in braces keeps all keys of a call on one node of a cluster. */
const prefix = 'rl:{headless-crm}:';

type WithScript = Redis & { takeCall(keys: number, ...values: (string | number)[]): Promise<number[]> };

/** Milliseconds to wait for the connection when the process starts. */
const connectTimeoutMs = 200;
/**
 * Milliseconds without any response after which the connection is replaced. A silent connection
 * never ends by itself.
 */
const silenceMs = 500;

export class RedisCounters implements Counters {
  readonly #redis: WithScript;
  readonly #log: Log;
  readonly #clock: (() => number) | undefined;
  readonly #timeout: number;
  /**
   * The calls that this process admitted, on a monotonic clock: the local counters while Redis is
   * unavailable.
   */
  readonly #own = new MemoryCounters();
  #isLocal = false;
  #isProbing = false;
  #countedLocally = 0;
  /** When this process last counted locally, by performance.now(). */
  #lastLocal = Number.NEGATIVE_INFINITY;
  /** Since when commands wait without any response, by readResponsiveClock(); undefined if none waits. */
  #silentSince: number | undefined;

  /**
   * @param clock replaces Redis's clock in tests
   * @param timeout milliseconds to wait for a response. Only time in which the event loop is free
   * counts: a process that is late to read a response does not consider Redis unavailable
   */
  constructor(url: string, log: Log, { clock, timeout = 50 }: { clock?: () => number; timeout?: number } = {}) {
    this.#log = log;
    this.#clock = clock;
    this.#timeout = timeout;
    // The library's timers also count time in which this process was busy, so they are used as
    // little as possible.
    this.#redis = new Redis(url, {
      lazyConnect: true,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      connectTimeout: 2000,
      disconnectTimeout: 100,
      retryStrategy: (attempt) => Math.min(attempt * 50, 500),
      scripts: { takeCall: { lua: script } },
    }) as WithScript;
    // Connection errors show in the commands that fail because of them.
    this.#redis.on('error', () => undefined);
  }

  get isLocal(): boolean {
    return this.#isLocal;
  }

  /** Number of calls that this process counted locally since the start. */
  get countedLocally(): number {
    return this.#countedLocally;
  }

  /** Connects. If that fails, this process counts locally and keeps trying to connect. */
  async open(): Promise<void> {
    await this.#inTime(this.#redis.connect(), connectTimeoutMs).catch((error: unknown) => this.#fail(error));
  }

  close(): void {
    this.#redis.disconnect();
  }

  /** Returns true if Redis responds now. */
  async answers(): Promise<boolean> {
    return await this.#send(() => this.#redis.ping()).then(
      () => true,
      () => false,
    );
  }

  async take(layers: readonly Layer[], now: number): Promise<LimitDecision> {
    const started = performance.now();
    // During an outage, one call at a time probes Redis, so that the others do not wait for it.
    if (this.#isLocal && this.#isProbing) return this.#countLocally(layers, now, started);
    this.#isProbing = this.#isLocal;
    try {
      const answer = await this.#send(() =>
        this.#redis.takeCall(
          layers.length,
          ...layers.map((layer) => prefix + layer.key),
          this.#clock?.() ?? -1,
          ...layers.flatMap((layer) => [layer.limit, layer.window]),
        ),
      );
      this.#recover();
      const used = layers.map((_, index) => answer[2 * index + 1] as number);
      const waits = layers.map((_, index) => answer[2 * index + 2] as number);
      const verdict = judgeLimits(answer[0] === 1, layers, used, waits, now);
      return verdict.allowed ? this.#confirm(verdict, layers, now, started) : verdict;
    } catch (error) {
      this.#fail(error);
      return this.#countLocally(layers, now, started);
    } finally {
      this.#isProbing = false;
    }
  }

  remember(name: string, milliseconds: number): void {
    this.#own.remember(name, milliseconds);
    // If this command fails, other processes see the name after the next one.
    void this.#send(() => this.#redis.set(prefix + name, 1, 'PX', milliseconds)).catch(() => undefined);
  }

  async remembers(name: string): Promise<boolean> {
    if (this.#own.remembers(name)) return true;
    if (this.#isLocal) return false;
    return await this.#send(() => this.#redis.exists(prefix + name)).then(
      (count) => count === 1,
      () => false,
    );
  }

  forget(name: string): void {
    this.#own.forget(name);
    void this.#send(() => this.#redis.del(prefix + name)).catch(() => undefined);
  }

  /**
   * Counts a call that Redis admitted. While a window reaches back to a time of local counting,
   * Redis does not know all calls of this process, so the local counters decide too.
   */
  #confirm(verdict: LimitDecision, layers: readonly Layer[], now: number, started: number): LimitDecision {
    const isCertain = layers.every(({ window }) => started - this.#lastLocal > window);
    if (!isCertain) {
      const own = this.#takeOwn(layers, now, started);
      if (!own.allowed) return own;
    } else this.#own.note(layers, started);
    return verdict;
  }

  #takeOwn(layers: readonly Layer[], now: number, started: number): LimitDecision {
    const verdict = this.#own.take(layers, started);
    return { ...verdict, reset: Math.ceil(now + verdict.reset - started) };
  }

  #countLocally(layers: readonly Layer[], now: number, started: number): LimitDecision {
    this.#countedLocally += 1;
    this.#lastLocal = performance.now();
    return this.#takeOwn(layers, now, started);
  }

  /**
   * Sends a command.
   * @throws Error if Redis does not respond in time. A later response has no effect
   */
  async #send<T>(command: () => Promise<T>): Promise<T> {
    const answer = this.#inTime(command(), this.#timeout);
    this.#silentSince ??= readResponsiveClock();
    try {
      const value = await answer;
      this.#silentSince = undefined;
      return value;
    } catch (error) {
      if (!(error instanceof LateAnswer)) this.#silentSince = undefined;
      else if (this.#silentSince !== undefined && readResponsiveClock() - this.#silentSince >= silenceMs) {
        this.#silentSince = undefined;
        this.#redis.disconnect(true);
      }
      throw error;
    }
  }

  #inTime<T>(work: Promise<T>, milliseconds: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = (): void => reject(new LateAnswer(`no response within ${milliseconds} ms`));
      const cancel = startResponsiveTimeout(late, milliseconds);
      work.then(
        (value) => {
          cancel();
          resolve(value);
        },
        (error) => {
          cancel();
          reject(error);
        },
      );
    });
  }

  #fail(error: unknown): void {
    if (this.#isLocal) return;
    this.#isLocal = true;
    this.#log.warn(
      { err: { message: String(error) } },
      'Redis unavailable: this process counts rate limits on its own',
    );
  }

  #recover(): void {
    if (!this.#isLocal) return;
    this.#isLocal = false;
    this.#log.info('Redis available again: rate limits are shared');
  }
}

class LateAnswer extends Error {}
