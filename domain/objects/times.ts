// Dates and times in requests: one parser for the OpenAPI document and for records.

const dayPattern = /^(?!0000)\d{4}-\d{2}-\d{2}$/;
const timePattern =
  /^(\d{4}-\d{2}-\d{2})[Tt ]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?(?:[Zz]|([+-])(\d{2}):?([0-5]\d))$/;

/** The maximum offset of a zone from UTC in hours. PostgreSQL accepts no more either. */
const largestOffset = 15;
const minute = 60_000;
const firstTime = Date.parse('0001-01-01T00:00:00.000Z');
const lastTime = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Parses a day that exists, of the years 0001 to 9999.
 * @returns YYYY-MM-DD, or undefined for anything else
 */
export function readDay(text: string): string | undefined {
  const day = text.trim();
  if (!dayPattern.test(day)) return undefined;
  const time = Date.parse(`${day}T00:00:00.000Z`);
  // The parser carries February 30 over into March, but rejects a 32nd.
  return new Date(time).getUTCDate() === Number(day.slice(-2)) ? day : undefined;
}

/**
 * Parses a time with its offset, `2026-11-20T23:55:00.000Z`, `2026-11-20T23:55Z`,
 * `2026-11-21T01:55:00+0200`; or a bare day. Digits after the milliseconds are dropped.
 * @param ofDay the meaning of a bare day: its first millisecond, or its last, in UTC
 * @returns ISO 8601 in UTC with milliseconds; `out of range` for a time outside of the years 0001
 * to 9999 in UTC
 */
export function readTime(text: string, ofDay: 'start' | 'end' = 'start'): string | 'out of range' | undefined {
  const day = readDay(text);
  if (day !== undefined) return `${day}T${ofDay === 'start' ? '00:00:00.000' : '23:59:59.999'}Z`;
  const parts = timePattern.exec(text.trim());
  if (!parts || readDay(parts[1] ?? '') === undefined) return undefined;
  const [, date, hours, minutes, seconds = '00', fraction = '', sign, offsetHours = '00', offsetMinutes = '00'] = parts;
  if (Number(offsetHours) > largestOffset) return undefined;
  const local = `${date}T${hours}:${minutes}:${seconds}.${fraction.padEnd(3, '0').slice(0, 3)}Z`;
  const offset = (Number(offsetHours) * 60 + Number(offsetMinutes)) * minute;
  if (offset === 0) return local;
  const time = Date.parse(local) + (sign === '-' ? offset : -offset);
  // In UTC, times of the first and last day can be out of range.
  return time < firstTime || time > lastTime ? 'out of range' : new Date(time).toISOString();
}
