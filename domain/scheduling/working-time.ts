// Converts weekly hours and days off, in local time, to intervals.
import { type Interval, unite } from '../service/intervals.ts';
import { day, ZoneClocks } from '../service/zone-clocks.ts';
import { parseTimeOfDay } from '../settings/sla-clock.ts';

/** A window of working hours. Windows of the same day may touch or overlap. */
export interface DateWindow {
  /** HH:MM */
  start: string;
  /** HH:MM, up to 24:00. Before the start: on the next day. */
  end: string;
}

/** Working hours on one weekday. */
export interface WorkingWindow extends DateWindow {
  /** 0 for Sunday. */
  weekday: number;
}

/** Working hours on one date, instead of those of its weekday. */
export interface DateHours {
  /** YYYY-MM-DD */
  date: string;
  windows: readonly DateWindow[];
}

export interface WorkingHours {
  /** IANA name. */
  timezone: string;
  weekly: readonly WorkingWindow[];
  /** One entry for each date at most. */
  dates?: readonly DateHours[];
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

/** The part of a window on one day, in milliseconds since midnight. */
interface WindowOfDay {
  start: number;
  end: number;
  /** Where the window starts; before midnight if that was on the day before. */
  opening: number;
}

/** Returns the windows of a day, those that began on the day before included. */
export type FindWindows = (day: { date: number; weekday: number }) => readonly WindowOfDay[];

/** The windows that begin on a day, and their parts on the next day. */
interface Windows {
  own: readonly WindowOfDay[];
  next: readonly WindowOfDay[];
}

/**
 * Prepares the windows of working hours. A window belongs to the day on which it begins: the hours of
 * a date replace the windows that begin on it, and not the rest of a window from the day before.
 */
export function prepareWindows({ weekly, dates = [] }: WorkingHours): FindWindows {
  const days = Array.from({ length: 7 }, (_, weekday) =>
    splitAtMidnight(weekly.filter((window) => window.weekday === weekday)),
  );
  const usual = days.map(({ own }, weekday) => [...own, ...(days[(weekday + 6) % 7]?.next ?? [])]);
  if (dates.length === 0) return ({ weekday }) => usual[weekday] ?? [];
  const single = new Map(dates.map(({ date, windows }) => [Date.parse(date) / day, splitAtMidnight(windows)]));
  return ({ date, weekday }) => {
    const [today, yesterday] = [single.get(date), single.get(date - 1)];
    if (!today && !yesterday) return usual[weekday] ?? [];
    const own = (today ?? days[weekday])?.own ?? [];
    return [...own, ...((yesterday ?? days[(weekday + 6) % 7])?.next ?? [])];
  };
}

function splitAtMidnight(windows: readonly DateWindow[]): Windows {
  const parsed = windows.map(({ start, end }) => ({ start: parseTimeOfDay(start), end: parseTimeOfDay(end) }));
  return {
    own: parsed.map(({ start, end }) => ({ start, end: end > start ? end : day, opening: start })),
    next: parsed.flatMap(({ start, end }) => (end > start ? [] : [{ start: 0, end, opening: start - day }])),
  };
}

/**
 * Returns the intervals of working hours. A clock change shortens a window if it skips local time,
 * and extends it if it repeats local time.
 * @param within milliseconds since 1970
 * @param clocks shared if the call covers several people
 * @returns ordered, disjoint intervals
 */
export function computeWorkingTime(hours: WorkingHours, within: Interval, clocks = new ZoneClocks()): Interval[] {
  const findWindows = prepareWindows(hours);
  const found: Interval[] = [];
  for (const { start, end, midnight, date, weekday } of clocks.days(hours.timezone, within)) {
    for (const window of findWindows({ date, weekday }))
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
