// Rate limit counters in memory: sliding windows, synchronous.
import { type Counters, judgeLimits, type Layer, type LimitDecision } from './rate-limits.ts';

/** Milliseconds between sweeps of unused counters. */
const sweepIntervalMs = 60_000;
/**
 * Maximum number of counters. Beyond it the oldest are dropped, which only lets their owners call
 * more.
 */
const maxCounters = 200_000;

/** Maximum number of remembered names. Beyond it the oldest are dropped. */
const maxNames = 100_000;

/**
 * Approximate number of groups in a full window. Single calls would take 8 MB for an hour of a
 * million calls.
 */
const groupsPerWindow = 2000;

/**
 * The admitted calls of a window, in a ring buffer that grows with its content. With limits of
 * 4,000 and more, neighboring calls form a group with the time of the first and expire with it.
 * Only the group at the window's edge can be wrong: at most a 2,000th of the limit passes beyond
 * it, and no call is rejected wrongly.
 */
class Window {
  #times = new Float64Array(4);
  #calls = new Uint32Array(4);
  #head = 0;
  #groups = 0;
  count = 0;
  /** When all its calls have expired. */
  idleAt = 0;

  /** Removes the calls at or before a time. */
  forget(until: number): void {
    while (this.#groups > 0 && (this.#times[this.#head] as number) <= until) {
      this.count -= this.#calls[this.#head] as number;
      this.#head = this.#place(1);
      this.#groups -= 1;
    }
  }

  add(now: number, { limit, window }: Layer): void {
    this.count += 1;
    this.idleAt = now + window;
    const last = this.#place(this.#groups - 1);
    const calls = this.#calls[last] as number;
    if (this.#groups > 0 && calls < Math.floor(limit / groupsPerWindow)) {
      this.#calls[last] = calls + 1;
      return;
    }
    if (this.#groups === this.#times.length) this.#grow();
    const next = this.#place(this.#groups);
    this.#times[next] = now;
    this.#calls[next] = 1;
    this.#groups += 1;
  }

  /**
   * Returns the time of the group of a call.
   * @param index counted from the oldest call
   */
  at(index: number): number {
    let group = 0;
    for (let before = this.#calls[this.#head] as number; before <= index; group += 1)
      before += this.#calls[this.#place(group + 1)] as number;
    return this.#times[this.#place(group)] as number;
  }

  /**
   * Returns the position of a group in the ring.
   * @param group counted from the oldest
   */
  #place(group: number): number {
    const { length } = this.#times;
    return (this.#head + group + length) % length;
  }

  #grow(): void {
    const places = Array.from({ length: this.#groups }, (_, group) => this.#place(group));
    const times = new Float64Array(places.length * 2);
    const calls = new Uint32Array(places.length * 2);
    times.set(places.map((place) => this.#times[place] as number));
    calls.set(places.map((place) => this.#calls[place] as number));
    this.#times = times;
    this.#calls = calls;
    this.#head = 0;
  }
}

export class MemoryCounters implements Counters {
  readonly isLocal = false;
  /** Remembered names and their expiry, in the order in which they were remembered. */
  readonly #names = new Map<string, number>();
  readonly #windows = new Map<string, Window>();
  #nextSweep = 0;
  // Reused by each call of take(), which is synchronous.
  readonly #found: Window[] = [];
  readonly #used: number[] = [];
  readonly #waits: number[] = [];

  /** The number of counters. */
  get size(): number {
    return this.#windows.size;
  }

  take(layers: readonly Layer[], now: number): LimitDecision {
    if (now >= this.#nextSweep || this.#windows.size > maxCounters) this.#sweep(now);
    let allowed = true;
    for (let index = 0; index < layers.length; index += 1) {
      const layer = layers[index] as Layer;
      const window = this.#getWindow(layer.key);
      window.forget(now - layer.window);
      if (window.count >= layer.limit) allowed = false;
      this.#found[index] = window;
    }
    for (let index = 0; index < layers.length; index += 1) {
      const layer = layers[index] as Layer;
      const window = this.#found[index] as Window;
      if (allowed) window.add(now, layer);
      this.#used[index] = window.count;
      // If the limit was lowered, more than the oldest call must expire before a call passes.
      this.#waits[index] =
        window.count === 0 ? 0 : window.at(Math.max(0, window.count - layer.limit)) + layer.window - now;
    }
    return judgeLimits(allowed, layers, this.#used, this.#waits, now);
  }

  /** Counts a call that other counters admitted. */
  note(layers: readonly Layer[], now: number): void {
    if (now >= this.#nextSweep || this.#windows.size > maxCounters) this.#sweep(now);
    for (const layer of layers) {
      const window = this.#getWindow(layer.key);
      window.forget(now - layer.window);
      window.add(now, layer);
    }
  }

  remember(name: string, milliseconds: number): void {
    this.#names.delete(name);
    this.#names.set(name, performance.now() + milliseconds);
    if (this.#names.size <= maxNames) return;
    for (const first of this.#names.keys()) {
      this.#names.delete(first);
      return;
    }
  }

  remembers(name: string): boolean {
    return (this.#names.get(name) ?? 0) > performance.now();
  }

  forget(name: string): void {
    this.#names.delete(name);
  }

  #getWindow(key: string): Window {
    const known = this.#windows.get(key);
    if (known) return known;
    const made = new Window();
    this.#windows.set(key, made);
    return made;
  }

  #sweep(now: number): void {
    this.#nextSweep = now + sweepIntervalMs;
    for (const [key, window] of this.#windows) if (window.idleAt <= now) this.#windows.delete(key);
    let surplus = this.#windows.size - maxCounters * 0.9;
    if (this.#windows.size <= maxCounters) return;
    for (const key of this.#windows.keys()) {
      this.#windows.delete(key);
      surplus -= 1;
      if (surplus <= 0) return;
    }
  }
}
