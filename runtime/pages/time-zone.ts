// Times of console pages in the time zone of the workspace.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Temporal } from 'temporal-polyfill';

/** The zone of the page that is being built, so that every component knows it. */
const current = new AsyncLocalStorage<string>();

/** Runs work that builds a page for a workspace in this time zone. */
export const runInTimeZone = <Result>(zone: string, work: () => Result): Result => current.run(zone, work);

/** Returns the IANA name of the time zone of the page. */
export const getTimeZone = (): string => current.getStore() ?? 'UTC';

/** Formats by zone. Creating one costs more than using it, and there are at most some hundreds. */
const formats = new Map<string, Intl.DateTimeFormat>();

function findFormat(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  const created = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'short',
  });
  formats.set(zone, created);
  return created;
}

function findParts(iso: string): Partial<Record<Intl.DateTimeFormatPartTypes, string>> {
  const parts = findFormat(getTimeZone()).formatToParts(new Date(iso));
  return Object.fromEntries(parts.map(({ type, value }) => [type, value]));
}

/** Formats a time as “2026-11-29 18:32 CET”. */
export function formatInZone(iso: string, precision: 'minute' | 'second'): string {
  const { year, month, day, hour, minute, second, timeZoneName } = findParts(iso);
  const seconds = precision === 'second' ? `:${second}` : '';
  return `${year}-${month}-${day} ${hour}:${minute}${seconds} ${timeZoneName}`;
}

/** Returns the day of a time, YYYY-MM-DD. */
export function toDay(iso: string): string {
  const { year, month, day } = findParts(iso);
  return `${year}-${month}-${day}`;
}

/**
 * Returns the first moment of a day, or of the day after it. undefined if the text is no day.
 * @param day YYYY-MM-DD
 */
export function startDay(day: string, daysLater: 0 | 1 = 0): string | undefined {
  if (!isDay.test(day)) return undefined;
  try {
    const start = Temporal.PlainDate.from(day).add({ days: daysLater }).toZonedDateTime({ timeZone: getTimeZone() });
    return new Date(start.epochMilliseconds).toISOString();
  } catch {
    // Such as 2026-02-30.
    return undefined;
  }
}
const isDay = /^\d{4}-\d\d-\d\d$/;

/**
 * Returns the first and the last moment of the days of a filter. Other texts stay, so that the
 * operation reports the error.
 */
export function toPeriod({ from = '', to = '' }: { from?: string | undefined; to?: string | undefined }): {
  from: string;
  to: string;
} {
  const end = startDay(to, 1);
  return {
    from: startDay(from) ?? from,
    to: end === undefined ? to : new Date(Date.parse(end) - 1).toISOString(),
  };
}
