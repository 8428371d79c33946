// When an event begins, as often as it does, and how long it lasts each time (RFC 5545).
import ICAL from 'ical.js';
import type { Interval } from '../../domain/service/intervals.ts';
import { atWallTime, type Clock, type Clocks, daysLater, wallTime } from './clocks.ts';

/** One component of an event: the event itself, or one that replaces a repetition of it. */
export interface Part {
  component: ICAL.Component;
  start: ICAL.Time;
  /** By which it begins. */
  clock: Clock;
  /** When the repetition that it replaces would begin; null: the event itself. */
  replaces: number | null;
  isBusy: boolean;
}

/** One time of an event. */
export interface Start {
  moment: number;
  /** What its clock shows then. */
  wall: ICAL.Time;
}

export interface Length {
  /** The moment at which it ends when it begins so. */
  endOf(start: Start): number;
  /** About how many milliseconds it lasts. */
  about: number;
}

const second = 1000;
const day = 86_400 * second;

/** Days are those of the wall, whatever its clock does meanwhile; hours are hours. */
export function lengthOf({ component, start, clock }: Part, clocks: Clocks): Length {
  const lasting = (days: number, milliseconds: number): Length => ({
    endOf: ({ moment, wall }) => (days === 0 ? moment : clock(daysLater(wall, days))) + milliseconds,
    about: days * day + milliseconds,
  });
  const property = component.getFirstProperty('dtend');
  const end = property?.getFirstValue();
  if (end instanceof ICAL.Time)
    return start.isDate
      ? lasting(Math.round((wallTime(end) - wallTime(start)) / day), 0)
      : lasting(0, clocks.moment(end, property) - clock(start));
  const duration = component.getFirstPropertyValue('duration');
  if (!(duration instanceof ICAL.Duration)) return lasting(start.isDate ? 1 : 0, 0);
  const { weeks, days, hours, minutes, seconds, isNegative } = duration;
  return isNegative ? lasting(0, 0) : lasting(weeks * 7 + days, ((hours * 60 + minutes) * 60 + seconds) * second);
}

/**
 * Each time that an event begins within a time, or shortly before or after.
 * @param replaced moments of repetitions that others replace
 * @param count is called for each repetition that is looked at
 */
export function startsOf(
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
  // What walls show is ahead of UTC or behind it by less than a day.
  const shown = { start: within.start - length.about - 2 * day, end: within.end + 2 * day };
  const starts = new Map([[first.moment, first]]);
  const add = (found: Start): unknown => starts.set(found.moment, found);
  for (const property of component.getAllProperties('rrule')) {
    const rule = property.getFirstValue();
    if (!(rule instanceof ICAL.Recur)) continue;
    for (const wall of repetitions(part, rule, shown, count)) add({ moment: clock(wall), wall });
  }
  for (const [wall, property] of timesOf(component, 'rdate')) {
    count();
    add({ moment: clocks.moment(wall, property), wall });
  }
  const left = new Set<number>(replaced);
  for (const [time, property] of timesOf(component, 'exdate')) {
    if (!time.isDate || start.isDate) left.add(clocks.moment(time, property));
    // A date leaves out whatever begins on it.
    else for (const { moment, wall } of starts.values()) if (isOn(time, wall)) left.add(moment);
  }
  return [...starts.values()].filter(({ moment }) => !left.has(moment));
}

const isOn = (date: ICAL.Time, time: ICAL.Time): boolean =>
  date.year === time.year && date.month === time.month && date.day === time.day;

function timesOf(component: ICAL.Component, name: string): [ICAL.Time, ICAL.Property][] {
  return component.getAllProperties(name).flatMap((property) =>
    property.getValues().flatMap((value): [ICAL.Time, ICAL.Property][] => {
      const time = value instanceof ICAL.Period ? value.start : value;
      return time instanceof ICAL.Time ? [[time, property]] : [];
    }),
  );
}

/** By the wall, without a zone: the library reckons with what it shows, and where it ends is decided here. */
function* repetitions(part: Part, rule: ICAL.Recur, shown: Interval, count: () => void): Generator<ICAL.Time> {
  const isOver = endOf(part, rule.until);
  const endless = rule.clone();
  endless.until = null;
  const iterator = endless.iterator(firstWorthwhile(part.start, rule, shown.start));
  for (let wall = iterator.next(); wall && wallTime(wall) <= shown.end && !isOver(wall); wall = iterator.next()) {
    count();
    if (wallTime(wall) >= shown.start) yield wall.clone();
  }
}

/** @returns true for what comes after the last repetition */
function endOf({ start, clock }: Part, until: ICAL.Time | null): (wall: ICAL.Time) => boolean {
  if (!until) return () => false;
  if (until.isDate || start.isDate) {
    const after = Math.floor(wallTime(until) / day) * day + day;
    return (wall) => wallTime(wall) >= after;
  }
  const last = until.zone === ICAL.Timezone.utcTimezone ? wallTime(until) : clock(until);
  return (wall) => clock(wall) > last;
}

const unit: Readonly<Record<string, number>> = {
  SECONDLY: second,
  MINUTELY: 60 * second,
  HOURLY: 3600 * second,
  DAILY: day,
  WEEKLY: 7 * day,
};

/** The beginning, or a later one in step with it from which the same repetitions follow: years of them need not be gone through. */
function firstWorthwhile(start: ICAL.Time, rule: ICAL.Recur, from: number): ICAL.Time {
  const begun = wallTime(start);
  const { freq, interval, count } = rule;
  if (count !== null && count !== undefined) return atWallTime(begun, start.isDate);
  const step = unit[freq];
  if (step !== undefined) {
    const steps = Math.floor((from - begun) / (step * interval)) - 1;
    return atWallTime(begun + Math.max(steps, 0) * step * interval, start.isDate);
  }
  // Months and years in steps of years, so that it stays the same day of the same month.
  const years = new Date(from).getUTCFullYear() - start.year;
  const skipped = Math.max((Math.floor(years / interval) - 1) * interval, 0);
  if (start.month === 2 && start.day === 29) return atWallTime(begun, start.isDate);
  const later = new Date(begun);
  later.setUTCFullYear(start.year + skipped);
  return atWallTime(later.getTime(), start.isDate);
}
