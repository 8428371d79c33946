// Local time in time zones: intervals with a constant UTC offset, and local dates.
import { Temporal } from 'temporal-polyfill';
import type { Interval } from './intervals.ts';

export const minute = 60_000;
export const day = 24 * 60 * minute;

/** An interval in which local time is UTC plus the offset in milliseconds. */
export interface Stretch extends Interval {
  offset: number;
}

/** A local date, or the part of it that lies in a stretch. */
export interface WallDay extends Interval {
  /** Days since 1970-01-01. */
  date: number;
  /** 0 for Sunday. */
  weekday: number;
  /** The time at which it is 00:00 by this offset, even if the offset was different then. */
  midnight: number;
}

/**
 * Looks up each change of a zone's offset once. Created for one call, and shared for all its users.
 */
export class ZoneClocks {
  readonly #stretches = new Map<string, Stretch[]>();
  /** The last query of each zone: users are mostly queried for the same interval. */
  readonly #days = new Map<string, { within: Interval; days: readonly WallDay[] }>();

  /**
   * Returns each local date within an interval, in order of time. A date with a change of the
   * offset comes in parts.
   * @param timezone an IANA name
   * @throws RangeError for an unknown zone
   */
  days(timezone: string, within: Interval): readonly WallDay[] {
    const last = this.#days.get(timezone);
    if (last?.within.start === within.start && last.within.end === within.end) return last.days;
    const days = splitIntoDays(this.stretches(timezone, within), within);
    this.#days.set(timezone, { within, days });
    return days;
  }

  /**
   * Returns the stretches of a zone that cover an interval or more, in order and without gaps.
   * @param timezone an IANA name
   * @throws RangeError for an unknown zone
   */
  stretches(timezone: string, { start, end }: Interval): readonly Stretch[] {
    let known = this.#stretches.get(timezone);
    if (!known?.[0] || known[0].start > start) known = [findStretch(start, timezone)];
    for (let last = known.at(-1); last && last.end < end; last = known.at(-1))
      known.push(findStretch(last.end, timezone));
    this.#stretches.set(timezone, known);
    return known;
  }
}

/** Returns the stretch from a time to the next change. */
function findStretch(start: number, timezone: string): Stretch {
  const time = Temporal.Instant.fromEpochMilliseconds(start).toZonedDateTimeISO(timezone);
  const end = time.getTimeZoneTransition('next')?.epochMilliseconds ?? Number.POSITIVE_INFINITY;
  return { start, end, offset: time.offsetNanoseconds / 1e6 };
}

/** Returns the local date at a time within the stretches, in days since 1970-01-01. */
export function findDate(stretches: readonly Stretch[], moment: number): number | undefined {
  const stretch = stretches.find(({ start, end }) => start <= moment && moment < end);
  return stretch && Math.floor((moment + stretch.offset) / day);
}

/**
 * Returns the local date around a time, from its beginning to its end.
 * @throws RangeError for an unknown zone
 */
export function findDay(moment: number, timezone: string, clocks = new ZoneClocks()): Interval {
  // A date is always shorter than two days.
  const days = clocks.days(timezone, { start: moment - 2 * day, end: moment + 2 * day });
  const today = days.find(({ start, end }) => start <= moment && moment < end)?.date;
  const parts = days.filter(({ date }) => date === today);
  return { start: parts[0]?.start ?? moment, end: parts.at(-1)?.end ?? moment };
}

function splitIntoDays(stretches: readonly Stretch[], within: Interval): WallDay[] {
  const days: WallDay[] = [];
  for (const stretch of stretches) {
    const [from, to] = [Math.max(stretch.start, within.start), Math.min(stretch.end, within.end)];
    for (let date = Math.floor((from + stretch.offset) / day); date * day - stretch.offset < to; date += 1) {
      const midnight = date * day - stretch.offset;
      const [start, end] = [Math.max(midnight, from), Math.min(midnight + day, to)];
      if (start < end) days.push({ start, end, date, midnight, weekday: (((date + 4) % 7) + 7) % 7 });
    }
  }
  return days;
}
