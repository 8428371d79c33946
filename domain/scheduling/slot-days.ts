// The dates of a month in a time zone, with the slots that begin on each.
import type { Interval } from '../service/intervals.ts';
import { day, ZoneClocks } from '../service/zone-clocks.ts';

/** A date and the slots that begin on it. */
export interface SlotDay {
  /** YYYY-MM-DD */
  date: string;
  slots: number;
  /** Milliseconds since 1970; null without slots. */
  firstStart: number | null;
}

/** A month of a zone: all its dates, and the parts of time that belong to them. */
export interface Month {
  /** Days since 1970-01-01, in order. A date that the zone skips has no time. */
  dates: readonly number[];
  /** Ordered, disjoint parts of dates. A date with a clock change has several. */
  parts: readonly (Interval & { date: number })[];
  /** From the beginning of the first date to the end of the last. */
  within: Interval;
}

/**
 * Returns a month as a zone's clocks show it.
 * @param month YYYY-MM
 * @param timezone an IANA name
 */
export function findMonth(month: string, timezone: string, clocks = new ZoneClocks()): Month {
  const [year = 0, number = 1] = month.split('-').map(Number);
  const [first, end] = [Date.UTC(year, number - 1), Date.UTC(year, number)];
  const dates = Array.from({ length: (end - first) / day }, (_, index) => first / day + index);
  // No zone is two days away from UTC.
  const around = clocks.days(timezone, { start: first - 2 * day, end: end + 2 * day });
  const parts = around.filter(({ date }) => date >= first / day && date < end / day);
  return { dates, parts, within: { start: parts[0]?.start ?? first, end: parts.at(-1)?.end ?? first } };
}

/**
 * Returns each date of a month, those without slots too.
 * @param starts the starts of slots in milliseconds, ordered
 */
export function countByDate({ dates, parts }: Month, starts: readonly number[]): SlotDay[] {
  const days = new Map(
    dates.map((date): [number, SlotDay] => [date, { date: toText(date), slots: 0, firstStart: null }]),
  );
  let index = 0;
  for (const start of starts) {
    while (index < parts.length && (parts[index]?.end ?? 0) <= start) index += 1;
    const part = parts[index];
    const found = part && part.start <= start ? days.get(part.date) : undefined;
    if (!found) continue;
    found.slots += 1;
    found.firstStart ??= start;
  }
  return [...days.values()];
}

const toText = (date: number): string => new Date(date * day).toISOString().slice(0, 10);
