// Pseudo-random choices: the same seed gives the same choices.

const minute = 60_000;
const day = 24 * 60 * minute;

/** A sequence of choices that its seed determines (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** Returns a number from 0 (included) to 1 (excluded). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns an integer, both ends included. */
  int(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.next() * items.length)] as Item;
  }

  /** Picks by weight, e.g. { New: 3, Won: 1 }. */
  weighted<Name extends string>(weights: Readonly<Partial<Record<Name, number>>>): Name {
    const entries = Object.entries(weights) as [Name, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name;
    }
    return (entries[entries.length - 1] as [Name, number])[0];
  }

  /**
   * Returns a whole minute between two times, on a weekday in working hours (UTC) if there is one.
   */
  moment(from: Date, to: Date): Date {
    const first = Math.ceil(from.getTime() / minute);
    const last = Math.max(first, Math.floor(to.getTime() / minute));
    let found = new Date(this.int(first, last) * minute);
    for (let tries = 0; tries < 30 && !isWorkingHour(found); tries += 1)
      found = new Date(this.int(first, last) * minute);
    return found;
  }

  /** Returns a UUIDv7 for a time. */
  uuid(at: Date): string {
    const time = at.getTime().toString(16).padStart(12, '0');
    const digits = (count: number): string =>
      Array.from({ length: count }, () => this.int(0, 15).toString(16)).join('');
    return `${time.slice(0, 8)}-${time.slice(8)}-7${digits(3)}-${this.pick(['8', '9', 'a', 'b'])}${digits(3)}-${digits(12)}`;
  }
}

function isWorkingHour(at: Date): boolean {
  const weekday = at.getUTCDay();
  const hour = at.getUTCHours();
  return weekday >= 1 && weekday <= 5 && hour >= 7 && hour < 17;
}

/** Returns the time some days later; earlier if negative. */
export function addDays(at: Date, days: number): Date {
  return new Date(at.getTime() + days * day);
}

/** Returns the day of a time as YYYY-MM-DD in UTC. */
export function toDay(at: Date): string {
  return at.toISOString().slice(0, 10);
}

/** Returns the latest of some times; null is ignored. */
export function findLatest(first: Date, ...others: (Date | null)[]): Date {
  return new Date(Math.max(first.getTime(), ...others.map(Number)));
}

export function findEarliest(first: Date, second: Date): Date {
  return new Date(Math.min(first.getTime(), second.getTime()));
}
