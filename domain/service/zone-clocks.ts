// What the clocks on the walls of time zones show: stretches of time without a change of theirs.
import { Temporal } from 'temporal-polyfill';
import type { Interval } from './intervals.ts';

export const minute = 60_000;
export const day = 24 * 60 * minute;

/** A time in which the wall shows what UTC shows and so many milliseconds more. */
export interface Stretch extends Interval {
  offset: number;
}

/** A date of a wall, or the part of one that lies in a stretch. */
export interface WallDay extends Interval {
  /** Days since 1970-01-01. */
  date: number;
  /** 0 for Sunday. */
  weekday: number;
  /** The moment at which this wall shows its 00:00, or would if it had not been changed before. */
  midnight: number;
}

/** Asks for each change of a zone's clocks once; made for a call, and shared by all whom it is about. */
export class ZoneClocks {
  readonly #stretches = new Map<string, Stretch[]>();
  /** Of each zone what was asked for last: people are mostly looked at over the same time. */
  readonly #days = new Map<string, { within: Interval; days: readonly WallDay[] }>();

  /**
   * Each date that the wall of a zone shows within an interval, in order of time; one that a change divides comes in parts.
   * @param timezone as IANA names it
   * @throws RangeError for a zone that is none
   */
  days(timezone: string, within: Interval): readonly WallDay[] {
    const last = this.#days.get(timezone);
    if (last?.within.start === within.start && last.within.end === within.end) return last.days;
    const days = wallDays(this.stretches(timezone, within), within);
    this.#days.set(timezone, { within, days });
    return days;
  }

  /**
   * Stretches of a zone, in order and without gaps, that cover an interval, or more.
   * @param timezone as IANA names it
   * @throws RangeError for a zone that is none
   */
  stretches(timezone: string, { start, end }: Interval): readonly Stretch[] {
    let known = this.#stretches.get(timezone);
    if (!known?.[0] || known[0].start > start) known = [stretchFrom(start, timezone)];
    for (let last = known.at(-1); last && last.end < end; last = known.at(-1))
      known.push(stretchFrom(last.end, timezone));
    this.#stretches.set(timezone, known);
    return known;
  }
}

/** From a moment to the next change. */
function stretchFrom(start: number, timezone: string): Stretch {
  const time = Temporal.Instant.fromEpochMilliseconds(start).toZonedDateTimeISO(timezone);
  const end = time.getTimeZoneTransition('next')?.epochMilliseconds ?? Number.POSITIVE_INFINITY;
  return { start, end, offset: time.offsetNanoseconds / 1e6 };
}

/** The date that the wall shows at a moment within the stretches, in days since 1970-01-01. */
export function dateAt(stretches: readonly Stretch[], moment: number): number | undefined {
  const stretch = stretches.find(({ start, end }) => start <= moment && moment < end);
  return stretch && Math.floor((moment + stretch.offset) / day);
}

/** The date of the wall around a moment, from its beginning to its end. @throws RangeError for a zone that is none */
export function dayAround(moment: number, timezone: string, clocks = new ZoneClocks()): Interval {
  // No date lasts two days.
  const days = clocks.days(timezone, { start: moment - 2 * day, end: moment + 2 * day });
  const today = days.find(({ start, end }) => start <= moment && moment < end)?.date;
  const parts = days.filter(({ date }) => date === today);
  return { start: parts[0]?.start ?? moment, end: parts.at(-1)?.end ?? moment };
}

function wallDays(stretches: readonly Stretch[], within: Interval): WallDay[] {
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
