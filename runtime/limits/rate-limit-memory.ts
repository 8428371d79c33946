// Counters of rate limits in this process: exact sliding windows, without waiting.
import { type Counters, judge, type Layer, type Verdict } from './rate-limits.ts';

/** Milliseconds between two searches for counters that nobody uses any more. */
const sweepInterval = 60_000;
/** Counters at most; beyond it the oldest are given up, which lets their owners call more, never less. */
const most = 200_000;

/** The times of the calls that were let through within a window: a ring that grows with what is in it. */
class Window {
  #times = new Float64Array(4);
  #head = 0;
  count = 0;
  /** When nothing of it counts any more. */
  idleAt = 0;

  /** Forgets the calls at or before a time. */
  forget(until: number): void {
    const { length } = this.#times;
    while (this.count > 0 && (this.#times[this.#head] as number) <= until) {
      this.#head = (this.#head + 1) % length;
      this.count -= 1;
    }
  }

  add(now: number, window: number): void {
    if (this.count === this.#times.length) this.#grow();
    this.#times[(this.#head + this.count) % this.#times.length] = now;
    this.count += 1;
    this.idleAt = now + window;
  }

  /** The time of a call, counted from the oldest. */
  at(index: number): number {
    return this.#times[(this.#head + index) % this.#times.length] as number;
  }

  #grow(): void {
    const larger = new Float64Array(this.#times.length * 2);
    for (let index = 0; index < this.count; index += 1) larger[index] = this.at(index);
    this.#times = larger;
    this.#head = 0;
  }
}

export class MemoryCounters implements Counters {
  readonly isOpen = false;
  readonly #windows = new Map<string, Window>();
  #nextSweep = 0;
  // Used anew by each call, which runs to its end without a pause.
  readonly #found: Window[] = [];
  readonly #used: number[] = [];
  readonly #waits: number[] = [];

  /** Counters in memory. */
  get size(): number {
    return this.#windows.size;
  }

  take(layers: readonly Layer[], now: number): Verdict {
    if (now >= this.#nextSweep || this.#windows.size > most) this.#sweep(now);
    let allowed = true;
    for (let index = 0; index < layers.length; index += 1) {
      const layer = layers[index] as Layer;
      const window = this.#windowOf(layer.key);
      window.forget(now - layer.window);
      if (window.count >= layer.limit) allowed = false;
      this.#found[index] = window;
    }
    for (let index = 0; index < layers.length; index += 1) {
      const layer = layers[index] as Layer;
      const window = this.#found[index] as Window;
      if (allowed) window.add(now, layer.window);
      this.#used[index] = window.count;
      // Where a limit was lowered, more than the oldest must go before a call passes.
      this.#waits[index] =
        window.count === 0 ? 0 : window.at(Math.max(0, window.count - layer.limit)) + layer.window - now;
    }
    return judge(allowed, layers, this.#used, this.#waits, now);
  }

  #windowOf(key: string): Window {
    const known = this.#windows.get(key);
    if (known) return known;
    const made = new Window();
    this.#windows.set(key, made);
    return made;
  }

  #sweep(now: number): void {
    this.#nextSweep = now + sweepInterval;
    for (const [key, window] of this.#windows) if (window.idleAt <= now) this.#windows.delete(key);
    let surplus = this.#windows.size - most * 0.9;
    if (this.#windows.size <= most) return;
    for (const key of this.#windows.keys()) {
      this.#windows.delete(key);
      surplus -= 1;
      if (surplus <= 0) return;
    }
  }
}
