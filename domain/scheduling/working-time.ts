// When somebody works: weekly hours and days off on the wall clock of a zone, as moments.
import { type Interval, union } from '../service/intervals.ts';
import { day, ZoneClocks } from '../service/zone-clocks.ts';
import { timeOfDay } from '../settings/sla-clock.ts';

/** Hours of one day of the week; those of one day may touch or overlap. */
export interface WorkingWindow {
  /** 0 for Sunday. */
  weekday: number;
  /** HH:MM */
  start: string;
  /** HH:MM after the start, up to 24:00. */
  end: string;
}

export interface WorkingHours {
  /** As IANA names it. */
  timezone: string;
  weekly: readonly WorkingWindow[];
}

export type DayOffReason = 'time_off' | 'holiday';

/** Whole days. */
export interface DayOff {
  /** YYYY-MM-DD */
  from: string;
  /** YYYY-MM-DD, not before from; a day off as well. */
  to: string;
  reason: DayOffReason;
}

/** A window in milliseconds since midnight. */
export interface WindowOfDay {
  start: number;
  end: number;
}

/** The windows of each day of the week, from Sunday. */
export function windowsByWeekday({ weekly }: WorkingHours): readonly (readonly WindowOfDay[])[] {
  return Array.from({ length: 7 }, (_, weekday) =>
    weekly
      .filter((window) => window.weekday === weekday)
      .map(({ start, end }) => ({ start: timeOfDay(start), end: timeOfDay(end) })),
  );
}

/**
 * The moments at which the wall shows a time within the hours of its day: less where a clock change skips them, more where it
 * repeats them.
 * @param within milliseconds since 1970
 * @param clocks shared where the call is about several people
 * @returns in order, disjoint
 */
export function workingTime(hours: WorkingHours, within: Interval, clocks = new ZoneClocks()): Interval[] {
  const windows = windowsByWeekday(hours);
  const found: Interval[] = [];
  for (const { start, end, midnight, weekday } of clocks.days(hours.timezone, within)) {
    for (const window of windows[weekday] ?? [])
      found.push({ start: Math.max(midnight + window.start, start), end: Math.min(midnight + window.end, end) });
  }
  return union(found);
}

/**
 * The moments at which the wall shows a date that is off.
 * @param timezone the zone of the dates
 * @param within milliseconds since 1970
 * @param clocks shared where the call is about several people
 * @returns in order of start; overlapping where the days are
 */
export function daysOff(
  days: readonly DayOff[],
  timezone: string,
  within: Interval,
  clocks = new ZoneClocks(),
): (Interval & { reason: DayOffReason })[] {
  if (days.length === 0) return [];
  const dates = clocks.days(timezone, within);
  return days
    .flatMap(({ from, to, reason }) => {
      const [first, last] = [Date.parse(from) / day, Date.parse(to) / day];
      const off = dates.filter(({ date }) => first <= date && date <= last);
      return union(off).map((interval) => ({ ...interval, reason }));
    })
    .sort((a, b) => a.start - b.start);
}
