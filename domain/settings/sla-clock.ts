// Deadlines in minutes, around the clock or within business hours.
import type { BusinessHours } from '../objects/configuration.ts';
import { day, minute, ZoneClocks } from '../service/zone-clocks.ts';

const hour = 60 * minute;
const week = 7 * day;

/**
 * Returns the time at which the minutes have passed. Minutes are elapsed time: an hour that a clock
 * change skips does not count. An hour that it repeats counts twice, if it is within the business
 * hours.
 * @param hours null: around the clock
 */
export function computeDeadline(startedAt: Date, minutes: number, hours: BusinessHours | null): Date {
  const started = startedAt.getTime();
  let remaining = minutes * minute;
  if (!hours) return new Date(started + remaining);
  const [opens, closes] = [parseTimeOfDay(hours.start), parseTimeOfDay(hours.end)];
  const clocks = new ZoneClocks();
  for (let from = started; ; from += week) {
    for (const { weekday, midnight, start, end } of clocks.days(hours.timezone, { start: from, end: from + week })) {
      if (!hours.days.includes(weekday)) continue;
      const [begin, close] = [Math.max(start, midnight + opens), Math.min(end, midnight + closes)];
      if (begin >= close) continue;
      if (remaining <= close - begin) return new Date(begin + remaining);
      remaining -= close - begin;
    }
  }
}

/** Returns the minutes of a week within business hours, without clock changes. */
export function countMinutesOfWeek({ start, end, days }: Pick<BusinessHours, 'start' | 'end' | 'days'>): number {
  return (days.length * (parseTimeOfDay(end) - parseTimeOfDay(start))) / minute;
}

/** Returns milliseconds since midnight. */
export function parseTimeOfDay(text: string): number {
  const [hours = 0, minutes = 0] = text.split(':').map(Number);
  return hours * hour + minutes * minute;
}
