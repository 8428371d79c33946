// Repeatable random values: all choices of a fault run follow from one printed seed.
import { readSeed } from '../../support/seed.ts';

export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed = readSeed('SEED')) {
    this.seed = seed;
    this.#state = seed >>> 0;
  }

  /** Returns a number from 0 to below 1, by mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** Returns an integer from least to most, both included. */
  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.next() * from.length)] as T;
  }

  shuffled<T>(from: readonly T[]): T[] {
    const rest = [...from];
    return from.map(() => rest.splice(Math.floor(this.next() * rest.length), 1)[0] as T);
  }
}
