// Converts weekly hours and days off, in local time, to intervals.
import { type Interval, unite } from '../service/intervals.ts';
import { day, ZoneClocks } from '../service/zone-clocks.ts';
import { parseTimeOfDay } from '../settings/sla-clock.ts';

/** Working hours on one weekday. Windows of the same day may touch or overlap. */
export interface WorkingWindow {
  /** 0 for Sunday. */
  weekday: number;
  /** HH:MM */
  start: string;
  /** HH:MM after the start, up to 24:00. */
  end: string;
}

export interface WorkingHours {
  /** IANA name. */
  timezone: string;
  weekly: readonly WorkingWindow[];
}

export type DayOffReason = 'time_off' | 'holiday';

/** Whole days. */
export interface DayOff {
  /** YYYY-MM-DD */
  from: string;
  /** YYYY-MM-DD, not before `from`, inclusive. */
  to: string;
  reason: DayOffReason;
}

/** A window in milliseconds since midnight. */
export interface WindowOfDay {
  start: number;
  end: number;
}

/** Returns the windows of each weekday, starting with Sunday. */
export function groupByWeekday({ weekly }: WorkingHours): readonly (readonly WindowOfDay[])[] {
  return Array.from({ length: 7 }, (_, weekday) =>
    weekly
      .filter((window) => window.weekday === weekday)
      .map(({ start, end }) => ({ start: parseTimeOfDay(start), end: parseTimeOfDay(end) })),
  );
}

/**
 * Returns the intervals of working hours. A clock change shortens a window if it skips local time,
 * and extends it if it repeats local time.
 * @param within milliseconds since 1970
 * @param clocks shared if the call covers several people
 * @returns ordered, disjoint intervals
 */
export function computeWorkingTime(hours: WorkingHours, within: Interval, clocks = new ZoneClocks()): Interval[] {
  const windows = groupByWeekday(hours);
  const found: Interval[] = [];
  for (const { start, end, midnight, weekday } of clocks.days(hours.timezone, within)) {
    for (const window of windows[weekday] ?? [])
      found.push({ start: Math.max(midnight + window.start, start), end: Math.min(midnight + window.end, end) });
  }
  return unite(found);
}

/**
 * Returns the intervals of days off.
 * @param timezone the zone of the dates
 * @param within milliseconds since 1970
 * @param clocks shared if the call covers several people
 * @returns intervals ordered by start; they overlap if the days do
 */
export function computeDaysOff(
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
      return unite(off).map((interval) => ({ ...interval, reason }));
    })
    .sort((a, b) => a.start - b.start);
}
