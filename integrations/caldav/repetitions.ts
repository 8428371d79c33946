// Expands recurring events into start times and durations (RFC 5545).
import ICAL from 'ical.js';
import type { Interval } from '../../domain/service/intervals.ts';
import { addDays, type Clock, type Clocks, toLocalTime, toWallMilliseconds } from './clocks.ts';

/** One component: the event itself, or a replacement of one recurrence. */
export interface Part {
  component: ICAL.Component;
  start: ICAL.Time;
  /** The clock of its start. */
  clock: Clock;
  /** The timestamp of the replaced recurrence; null: the event itself. */
  replaces: number | null;
  isBusy: boolean;
}

/** One occurrence of an event. */
export interface Start {
  moment: number;
  /** The local time of the start. */
  wall: ICAL.Time;
}

export interface Length {
  /** Returns the end of an occurrence in milliseconds. */
  computeEnd(start: Start): number;
  /** The approximate duration in milliseconds. */
  about: number;
}

const second = 1000;
const day = 86_400 * second;

/** Days are calendar days, so their length can differ at clock changes. Hours are exact. */
export function readLength({ component, start, clock }: Part, clocks: Clocks): Length {
  const lasting = (days: number, milliseconds: number): Length => ({
    computeEnd: ({ moment, wall }) => (days === 0 ? moment : clock(addDays(wall, days))) + milliseconds,
    about: days * day + milliseconds,
  });
  const property = component.getFirstProperty('dtend');
  const end = property?.getFirstValue();
  if (end instanceof ICAL.Time)
    return start.isDate
      ? lasting(Math.round((toWallMilliseconds(end) - toWallMilliseconds(start)) / day), 0)
      : lasting(0, clocks.moment(end, property) - clock(start));
  const duration = component.getFirstPropertyValue('duration');
  if (!(duration instanceof ICAL.Duration)) return lasting(start.isDate ? 1 : 0, 0);
  const { weeks, days, hours, minutes, seconds, isNegative } = duration;
  return isNegative ? lasting(0, 0) : lasting(weeks * 7 + days, ((hours * 60 + minutes) * 60 + seconds) * second);
}

/**
 * Returns the occurrences that start within a time, or shortly before or after it.
 * @param replaced timestamps of recurrences that other components replace
 * @param count called for each expanded recurrence
 */
export function findStarts(
  part: Part,
  replaced: ReadonlySet<number>,
  length: Length,
  clocks: Clocks,
  within: Interval,
  count: () => void,
): Start[] {
  const { component, clock, start } = part;
  const first = { moment: clock(start), wall: start };
  if (part.replaces !== null) return [first];
  // Local time differs from UTC by less than a day.
  const shown = { start: within.start - length.about - 2 * day, end: within.end + 2 * day };
  const starts = new Map([[first.moment, first]]);
  const add = (found: Start): unknown => starts.set(found.moment, found);
  for (const property of component.getAllProperties('rrule')) {
    const rule = property.getFirstValue();
    if (!(rule instanceof ICAL.Recur)) continue;
    for (const wall of expandRule(part, rule, shown, count)) add({ moment: clock(wall), wall });
  }
  for (const [wall, property] of readTimes(component, 'rdate')) {
    count();
    add({ moment: clocks.moment(wall, property), wall });
  }
  const left = new Set<number>(replaced);
  for (const [time, property] of readTimes(component, 'exdate')) {
    if (!time.isDate || start.isDate) left.add(clocks.moment(time, property));
    // A date excludes every occurrence that starts on it.
    else for (const { moment, wall } of starts.values()) if (isOn(time, wall)) left.add(moment);
  }
  return [...starts.values()].filter(({ moment }) => !left.has(moment));
}

const isOn = (date: ICAL.Time, time: ICAL.Time): boolean =>
  date.year === time.year && date.month === time.month && date.day === time.day;

function readTimes(component: ICAL.Component, name: string): [ICAL.Time, ICAL.Property][] {
  return component.getAllProperties(name).flatMap((property) =>
    property.getValues().flatMap((value): [ICAL.Time, ICAL.Property][] => {
      const time = value instanceof ICAL.Period ? value.start : value;
      return time instanceof ICAL.Time ? [[time, property]] : [];
    }),
  );
}

/**
 * Expands in local time without a zone, because the library calculates that way. The end is checked
 * here.
 */
function* expandRule(part: Part, rule: ICAL.Recur, shown: Interval, count: () => void): Generator<ICAL.Time> {
  const isOver = createEndCheck(part, rule.until);
  const endless = rule.clone();
  endless.until = null;
  const iterator = endless.iterator(skipPast(part.start, rule, shown.start));
  for (
    let wall = iterator.next();
    wall && toWallMilliseconds(wall) <= shown.end && !isOver(wall);
    wall = iterator.next()
  ) {
    count();
    if (toWallMilliseconds(wall) >= shown.start) yield wall.clone();
  }
}

/** Returns a function that is true for times after the last recurrence. */
function createEndCheck({ start, clock }: Part, until: ICAL.Time | null): (wall: ICAL.Time) => boolean {
  if (!until) return () => false;
  if (until.isDate || start.isDate) {
    const after = Math.floor(toWallMilliseconds(until) / day) * day + day;
    return (wall) => toWallMilliseconds(wall) >= after;
  }
  const last = until.zone === ICAL.Timezone.utcTimezone ? toWallMilliseconds(until) : clock(until);
  return (wall) => clock(wall) > last;
}

const unit: Readonly<Record<string, number>> = {
  SECONDLY: second,
  MINUTELY: 60 * second,
  HOURLY: 3600 * second,
  DAILY: day,
  WEEKLY: 7 * day,
};

/**
 * Returns the start, or a later start that yields the same recurrences. This skips years of
 * recurrences before `from`.
 */
function skipPast(start: ICAL.Time, rule: ICAL.Recur, from: number): ICAL.Time {
  const begun = toWallMilliseconds(start);
  const { freq, interval, count } = rule;
  if (count !== null && count !== undefined) return toLocalTime(begun, start.isDate);
  const step = unit[freq];
  if (step !== undefined) {
    const steps = Math.floor((from - begun) / (step * interval)) - 1;
    return toLocalTime(begun + Math.max(steps, 0) * step * interval, start.isDate);
  }
  // Months and years advance in whole years, so that the date stays the same day of the same month.
  const years = new Date(from).getUTCFullYear() - start.year;
  const skipped = Math.max((Math.floor(years / interval) - 1) * interval, 0);
  if (start.month === 2 && start.day === 29) return toLocalTime(begun, start.isDate);
  const later = new Date(begun);
  later.setUTCFullYear(start.year + skipped);
  return toLocalTime(later.getTime(), start.isDate);
}
