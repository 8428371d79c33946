// Deadlines: when so many minutes have passed, around the clock or within business hours.
import { IANAZone } from 'luxon';
import type { BusinessHours } from '../objects/configuration.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** Milliseconds since 1970; the end is not part of it. */
type Interval = readonly [from: number, to: number];

/**
 * The moment at which so many minutes have passed. Minutes are real ones: an hour that a clock change skips does not count, and
 * one that it repeats counts twice, where it lies in the business hours.
 * @param hours null: around the clock
 */
export function deadline(startedAt: Date, minutes: number, hours: BusinessHours | null): Date {
  const started = startedAt.getTime();
  let remaining = minutes * minute;
  if (!hours) return new Date(started + remaining);
  const zone = new WallClock(hours.timezone);
  // A day early: near the date line the wall shows another date.
  for (let date = Math.floor(started / day) * day - day; ; date += day) {
    if (!hours.days.includes(new Date(date).getUTCDay())) continue;
    const [start, end] = [date + timeOfDay(hours.start), date + timeOfDay(hours.end)];
    for (const [from, to] of zone.instants(date, start, end)) {
      const begin = Math.max(from, started);
      if (begin >= to) continue;
      if (remaining <= to - begin) return new Date(begin + remaining);
      remaining -= to - begin;
    }
  }
}

/** Minutes of a week within business hours, clock changes aside. */
export function minutesOfWeek({ start, end, days }: Pick<BusinessHours, 'start' | 'end' | 'days'>): number {
  return (days.length * (timeOfDay(end) - timeOfDay(start))) / minute;
}

/** Milliseconds since midnight. */
export function timeOfDay(text: string): number {
  const [hours = 0, minutes = 0] = text.split(':').map(Number);
  return hours * hour + minutes * minute;
}

export function isTimezone(name: string): boolean {
  // Offsets such as +02:00 are taken for zones too, and are none.
  return /^[A-Za-z]/.test(name) && IANAZone.isValidZone(name);
}

/** A zone's wall clock. Wall times are written as if they were UTC. */
class WallClock {
  readonly #zone: IANAZone;
  /** By day; each day asks for the offsets around it. */
  readonly #offsets = new Map<number, number>();

  constructor(timezone: string) {
    this.#zone = IANAZone.create(timezone);
  }

  /** The moments at which the wall shows a time from `start` until `end` of a date: two intervals where a clock change cuts or repeats it. */
  instants(date: number, start: number, end: number): Interval[] {
    // No place is more than 15 hours away from UTC, so all of the date lies between these.
    const [earliest, latest] = [date - 15 * hour, date + 3 * day - 15 * hour];
    const [before, after] = [this.#offsetOn(earliest), this.#offsetOn(latest)];
    if (before === after) return [[start - before, end - before]];
    const change = this.#changeBetween(earliest, latest, before);
    const pieces: Interval[] = [
      [start - before, Math.min(end - before, change)],
      [Math.max(start - after, change), end - after],
    ];
    return pieces.filter(([from, to]) => from < to);
  }

  #offsetOn(moment: number): number {
    const known = this.#offsets.get(moment);
    if (known !== undefined) return known;
    const offset = this.#zone.offset(moment) * minute;
    this.#offsets.set(moment, offset);
    return offset;
  }

  /** The first moment with another offset than before; clocks change at full seconds. */
  #changeBetween(earliest: number, latest: number, before: number): number {
    let [low, high] = [earliest, latest];
    while (high - low > 1000) {
      const middle = low + Math.floor((high - low) / 2000) * 1000;
      if (this.#zone.offset(middle) * minute === before) low = middle;
      else high = middle;
    }
    return high;
  }
}
