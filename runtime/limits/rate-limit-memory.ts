// Counters of rate limits in this process: sliding windows, without waiting.
import { type Counters, judge, type Layer, type Verdict } from './rate-limits.ts';

/** Milliseconds between two searches for counters that nobody uses any more. */
const sweepInterval = 60_000;
/** Counters at most; beyond it the oldest are given up, which lets their owners call more, never less. */
const most = 200_000;

/** Names that are remembered at most; beyond it the oldest are forgotten. */
const mostNames = 100_000;

/** Groups of calls that a full window is kept as, about: an hour of a million calls would be 8 MB otherwise. */
const groupsOfWindow = 2000;

/**
 * The calls that were let through within a window: a ring that grows with what is in it. Of limits of 4,000 and more, neighbours share the time of
 * the first of them and are forgotten with it. Only the group at the window's edge can be wrong by that, so that at most a 2,000th of a limit
 * passes beyond it, and no call is refused wrongly.
 */
class Window {
  #times = new Float64Array(4);
  #calls = new Uint32Array(4);
  #head = 0;
  #groups = 0;
  count = 0;
  /** When nothing of it counts any more. */
  idleAt = 0;

  /** Forgets the calls at or before a time. */
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
    if (this.#groups > 0 && calls < Math.floor(limit / groupsOfWindow)) {
      this.#calls[last] = calls + 1;
      return;
    }
    if (this.#groups === this.#times.length) this.#grow();
    const next = this.#place(this.#groups);
    this.#times[next] = now;
    this.#calls[next] = 1;
    this.#groups += 1;
  }

  /** The time with which a call is forgotten. @param index counted from the oldest */
  at(index: number): number {
    let group = 0;
    for (let before = this.#calls[this.#head] as number; before <= index; group += 1)
      before += this.#calls[this.#place(group + 1)] as number;
    return this.#times[this.#place(group)] as number;
  }

  /** Where a group lies. @param group counted from the oldest */
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
  /** Names that are remembered, and until when; the one that was remembered first comes first. */
  readonly #names = new Map<string, number>();
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
      if (allowed) window.add(now, layer);
      this.#used[index] = window.count;
      // Where a limit was lowered, more than the oldest must go before a call passes.
      this.#waits[index] =
        window.count === 0 ? 0 : window.at(Math.max(0, window.count - layer.limit)) + layer.window - now;
    }
    return judge(allowed, layers, this.#used, this.#waits, now);
  }

  /** Counts a call that was let through by other counters. */
  note(layers: readonly Layer[], now: number): void {
    if (now >= this.#nextSweep || this.#windows.size > most) this.#sweep(now);
    for (const layer of layers) {
      const window = this.#windowOf(layer.key);
      window.forget(now - layer.window);
      window.add(now, layer);
    }
  }

  remember(name: string, milliseconds: number): void {
    this.#names.delete(name);
    this.#names.set(name, performance.now() + milliseconds);
    if (this.#names.size <= mostNames) return;
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
