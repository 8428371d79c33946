// Busy intervals of calendar events, compared with a day-by-day reference.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Interval } from '../../domain/service/intervals.ts';
import { readBusyTimes } from '../../integrations/caldav/busy-times.ts';

const minute = 60_000;
const day = 1440 * minute;
const userId = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d12';

const calendar = (...lines: string[]): string =>
  ['BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//test//EN', ...lines, 'END:VCALENDAR', ''].join('\r\n');
const event = (...lines: string[]): string => calendar('BEGIN:VEVENT', 'UID:x', ...lines, 'END:VEVENT');
const within = (from: string, to: string): Interval => ({ start: Date.parse(from), end: Date.parse(to) });
const shown = (intervals: readonly Interval[]): string[] =>
  intervals.map(({ start, end }) =>
    [start, end].map((at) => new Date(at).toISOString().slice(0, 16).replace('T', ' ')).join(' to '),
  );
const november = within('2026-11-01T00:00Z', '2026-12-01T00:00Z');
const busy = (text: string, asked = november, timezone = 'Europe/Berlin'): string[] =>
  shown(readBusyTimes([text], { within: asked, userId, timezone }).external);

const createClock = (zone: string): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
const clocks = new Map<string, Intl.DateTimeFormat>();

/** Returns the UTC offset of a zone in milliseconds. */
function offsetAt(moment: number, zone: string): number {
  const clock = clocks.get(zone) ?? createClock(zone);
  clocks.set(zone, clock);
  const parts = clock.formatToParts(moment);
  const [year = 0, month = 0, date = 0, hour = 0, minutes = 0, seconds = 0] = [
    'year',
    'month',
    'day',
    'hour',
    'minute',
    'second',
  ].map((type) => Number(parts.find((part) => part.type === type)?.value));
  return Date.UTC(year, month - 1, date, hour, minutes, seconds) - moment;
}

/**
 * Returns the first timestamp of a local time. A skipped time uses the offset before the change.
 */
function toTimestamp(wall: number, zone: string): number {
  const [before, after] = [offsetAt(wall - day, zone), offsetAt(wall + day, zone)];
  const fitting = [before, after].filter((offset) => offsetAt(wall - offset, zone) === offset);
  return Math.min(...(fitting.length > 0 ? fitting : [before]).map((offset) => wall - offset));
}

/** In weeks that start on Monday. */
const toWeek = (date: number): number => Math.floor((date / day + 3) / 7);
const weekdays = ['TH', 'FR', 'SA', 'SU', 'MO', 'TU', 'WE'];
const toWeekday = (date: number): string => weekdays[(date / day) % 7] ?? '';

interface Repeated {
  /** Days from the first occurrence to the start of the requested interval. */
  daysBefore: number;
  atMinute: number;
  minutes: number;
  freq: 'DAILY' | 'WEEKLY';
  interval: number;
  /** Additional weekdays. */
  more: string[];
  isWholeDay: boolean;
  /**
   * The numbers of the recurrences within the interval that are excluded, and that are moved by two
   * hours.
   */
  leftOut: number[];
  moved: number[];
}

const computeFirst = ({ daysBefore }: Repeated, asked: Interval): number => asked.start - daysBefore * day;

/** Returns the dates day by day from the first one. */
function listDates(repeated: Repeated, asked: Interval): number[] {
  const { freq, interval, more } = repeated;
  const first = computeFirst(repeated, asked);
  const days = [toWeekday(first), ...more];
  const found: number[] = [];
  for (let date = first; date < asked.end + 2 * day; date += day) {
    const isDue =
      freq === 'DAILY'
        ? ((date - first) / day) % interval === 0
        : (toWeek(date) - toWeek(first)) % interval === 0 && days.includes(toWeekday(date));
    if (isDue) found.push(date);
  }
  return found;
}

/** Returns the dates with these numbers, counted from the start of the interval. */
const chosen = (dates: readonly number[], asked: Interval, numbers: readonly number[]): number[] =>
  dates.filter((date) => date >= asked.start).filter((_, index) => numbers.includes(index));

function expected(repeated: Repeated, asked: Interval, zone: string): Interval[] {
  const { atMinute, minutes, isWholeDay } = repeated;
  const dates = listDates(repeated, asked);
  const leftOut = chosen(dates, asked, repeated.leftOut);
  const moved = chosen(dates, asked, repeated.moved);
  const all = dates
    // Dates long before the interval are irrelevant.
    .filter((date) => date >= asked.start - 4 * day)
    .filter((date) => !leftOut.includes(date) || (!isWholeDay && moved.includes(date)))
    .map((date) => {
      if (isWholeDay) return { start: toTimestamp(date, zone), end: toTimestamp(date + day, zone) };
      const start = toTimestamp(date + atMinute * minute, zone) + (moved.includes(date) ? 120 * minute : 0);
      return { start, end: start + minutes * minute };
    });
  const joined: Interval[] = [];
  for (const { start, end } of all.sort((a, b) => a.start - b.start)) {
    const [from, to] = [Math.max(start, asked.start), Math.min(end, asked.end)];
    const last = joined.at(-1);
    if (from >= to) continue;
    if (last && from <= last.end) last.end = Math.max(last.end, to);
    else joined.push({ start: from, end: to });
  }
  return joined;
}

/** Formats a local time for iCalendar. */
const basic = (wall: number): string => new Date(wall).toISOString().slice(0, 19).replace(/[-:]/g, '');

function written(repeated: Repeated, asked: Interval, zone: string): string {
  const { atMinute, minutes, freq, interval, more, isWholeDay } = repeated;
  const first = computeFirst(repeated, asked);
  const dates = listDates(repeated, asked);
  const days = [...new Set([toWeekday(first), ...more])].join(',');
  const rule = `RRULE:FREQ=${freq};INTERVAL=${interval}${freq === 'WEEKLY' ? `;BYDAY=${days}` : ''}`;
  const leftOut = chosen(dates, asked, repeated.leftOut);
  const date = (of: number): string => `;VALUE=DATE:${basic(of).slice(0, 8)}`;
  if (isWholeDay) return event(`DTSTART${date(first)}`, rule, ...leftOut.map((each) => `EXDATE${date(each)}`));
  const at = (of: number): string => `;TZID=${zone}:${basic(of + atMinute * minute)}`;
  const itself = [`DTSTART${at(first)}`, `DURATION:PT${minutes}M`, rule, ...leftOut.map((each) => `EXDATE${at(each)}`)];
  return calendar(
    'BEGIN:VEVENT',
    'UID:x',
    ...itself,
    'END:VEVENT',
    ...chosen(dates, asked, repeated.moved).flatMap((each) => {
      const start = toTimestamp(each + atMinute * minute, zone) + 120 * minute;
      const times = [`DTSTART:${basic(start)}Z`, `DTEND:${basic(start + minutes * minute)}Z`];
      return ['BEGIN:VEVENT', 'UID:x', `RECURRENCE-ID${at(each)}`, ...times, 'END:VEVENT'];
    }),
  );
}

const anyRepeated: fc.Arbitrary<Repeated> = fc.record({
  daysBefore: fc.oneof(fc.nat(10), fc.nat(4000)),
  atMinute: fc.oneof(fc.nat(1439), fc.integer({ min: 60, max: 200 })),
  minutes: fc.integer({ min: 1, max: 2000 }),
  freq: fc.constantFrom('DAILY', 'WEEKLY'),
  interval: fc.integer({ min: 1, max: 3 }),
  more: fc.subarray(weekdays, { maxLength: 3 }),
  isWholeDay: fc.boolean(),
  leftOut: fc.uniqueArray(fc.nat(8), { maxLength: 3 }),
  moved: fc.uniqueArray(fc.nat(8), { maxLength: 3 }),
});

/** Both clock changes of a year. */
const changes: [zone: string, change: string][] = [
  ['Europe/Berlin', '2026-03-29'],
  ['Europe/Berlin', '2026-10-25'],
  ['America/New_York', '2026-03-08'],
  ['America/New_York', '2026-11-01'],
  // By half an hour.
  ['Australia/Lord_Howe', '2026-04-05'],
  ['Australia/Lord_Howe', '2026-10-04'],
];

describe('recurrences across a clock change', () => {
  test.each(changes)('expands recurrences in %s on %s like a day-by-day reference', (zone, change) => {
    const start = Date.parse(`${change}T00:00Z`) - 4 * day;
    const asked = { start, end: start + 9 * day };
    fc.assert(
      fc.property(anyRepeated, (repeated) => {
        const text = written(repeated, asked, zone);
        const { external: found } = readBusyTimes([text], { within: asked, userId, timezone: zone });
        expect(shown(found)).toEqual(shown(expected(repeated, asked, zone)));
      }),
      { numRuns: 60 },
    );
  });
});

describe('an event', () => {
  const nine = '2026-11-02 09:00 to 2026-11-02 10:00';

  test('places an event by the clock of its zone', () => {
    expect(busy(event('DTSTART:20261102T090000Z', 'DTEND:20261102T100000Z'))).toEqual([nine]);
    expect(busy(event('DTSTART;TZID=America/New_York:20261102T040000', 'DURATION:PT1H'))).toEqual([nine]);
    // A time without a zone uses the owner's zone.
    expect(busy(event('DTSTART:20261102T100000', 'DTEND:20261102T110000'))).toEqual([nine]);
    expect(busy(event('DTSTART;TZID=No/Where:20261102T100000', 'DURATION:PT1H'))).toEqual([nine]);
    // From one zone to another.
    const flight = ['DTSTART;TZID=Europe/Berlin:20261102T100000', 'DTEND;TZID=America/New_York:20261102T050000'];
    expect(busy(event(...flight))).toEqual([nine]);
  });

  test('uses a zone that the event itself defines', () => {
    const half = (name: string, from: string, to: string, month: number): string[] => [
      `BEGIN:${name}`,
      `DTSTART:1970${month === 3 ? '0329T020000' : '1025T030000'}`,
      `TZOFFSETFROM:${from}`,
      `TZOFFSETTO:${to}`,
      `RRULE:FREQ=YEARLY;BYMONTH=${month};BYDAY=-1SU`,
      `END:${name}`,
    ];
    const zone = [
      'BEGIN:VTIMEZONE',
      'TZID:W. Europe Standard Time',
      ...half('STANDARD', '+0200', '+0100', 10),
      ...half('DAYLIGHT', '+0100', '+0200', 3),
      'END:VTIMEZONE',
    ];
    const weekly = ['DTSTART;TZID=W. Europe Standard Time:20260105T100000', 'DURATION:PT1H', 'RRULE:FREQ=WEEKLY'];
    const text = calendar(...zone, 'BEGIN:VEVENT', 'UID:x', ...weekly, 'END:VEVENT');
    expect(busy(text, within('2026-10-18T00:00Z', '2026-11-03T00:00Z'), 'UTC')).toEqual([
      '2026-10-19 08:00 to 2026-10-19 09:00',
      '2026-10-26 09:00 to 2026-10-26 10:00',
      nine,
    ]);
  });

  test("places whole-day events by the owner's zone", () => {
    const days = event('DTSTART;VALUE=DATE:20261024', 'DTEND;VALUE=DATE:20261027');
    const october = within('2026-10-01T00:00Z', '2026-11-10T00:00Z');
    expect(busy(days, october)).toEqual(['2026-10-23 22:00 to 2026-10-26 23:00']);
    expect(busy(days, october, 'Asia/Dubai')).toEqual(['2026-10-23 20:00 to 2026-10-26 20:00']);
    expect(busy(event('DTSTART;VALUE=DATE:20261102'))).toEqual(['2026-11-01 23:00 to 2026-11-02 23:00']);
    expect(busy(event('DTSTART;VALUE=DATE:20261102', 'DURATION:P2D'))).toEqual([
      '2026-11-01 23:00 to 2026-11-03 23:00',
    ]);
  });

  test('measures days in local time and hours exactly', () => {
    const asked = within('2026-10-20T00:00Z', '2026-10-30T00:00Z');
    const from = 'DTSTART;TZID=Europe/Berlin:20261024T120000';
    expect(busy(event(from, 'DURATION:P1D'), asked)).toEqual(['2026-10-24 10:00 to 2026-10-25 11:00']);
    expect(busy(event(from, 'DURATION:PT24H'), asked)).toEqual(['2026-10-24 10:00 to 2026-10-25 10:00']);
  });

  test.each([
    ['that is shown as free', ['DTEND:20261102T100000Z', 'TRANSP:TRANSPARENT']],
    ['that was cancelled', ['DTEND:20261102T100000Z', 'STATUS:CANCELLED']],
    ['without a length', []],
    ['that ends before it begins', ['DTEND:20261102T080000Z']],
    ['of a negative length', ['DURATION:-PT1H']],
  ])('ignores an event %s', (_, lines) => {
    expect(busy(event('DTSTART:20261102T090000Z', ...lines))).toEqual([]);
  });

  test('reports an event of this service with its booking, unless it belongs to another user', () => {
    const bookingId = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9c04';
    const readTimes = (uid: string) => {
      const text = calendar('BEGIN:VEVENT', `UID:${uid}`, 'DTSTART:20261102T090000Z', 'DURATION:PT1H', 'END:VEVENT');
      const { external, own } = readBusyTimes([text], { within: november, userId, timezone: 'UTC' });
      return { external: shown(external), own: own.map((each) => [each.bookingId, ...shown([each])]) };
    };
    expect(readTimes(`${bookingId}@${userId}`)).toEqual({ external: [], own: [[bookingId, nine]] });
    for (const uid of [
      `${bookingId}@019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d13`,
      `lunch@${userId}`,
      `x${bookingId}@${userId}`,
    ])
      expect(readTimes(uid)).toEqual({ external: [nine], own: [] });
  });

  test('cuts busy intervals to the request and merges adjacent ones', () => {
    const two = ['20261101T230000Z', '20261102T003000Z'].map((at, index) =>
      calendar('BEGIN:VEVENT', `UID:${index}`, `DTSTART:${at}`, 'DURATION:PT1H30M', 'END:VEVENT'),
    );
    const asked = { within: within('2026-11-02T00:00Z', '2026-11-03T00:00Z'), userId, timezone: 'UTC' };
    expect(shown(readBusyTimes(two, asked).external)).toEqual(['2026-11-02 00:00 to 2026-11-02 02:00']);
  });
});

describe('a recurring event', () => {
  const from = 'DTSTART;TZID=Europe/Berlin:20261102T100000';
  const starts = (...lines: string[]): string[] =>
    busy(event(from, 'DURATION:PT1H', ...lines)).map((each) => each.slice(5, 16));

  test('ends recurrences by count, time or date', () => {
    expect(starts('RRULE:FREQ=DAILY;COUNT=3')).toEqual(['11-02 09:00', '11-03 09:00', '11-04 09:00']);
    expect(starts('RRULE:FREQ=DAILY;UNTIL=20261103T090000Z')).toEqual(['11-02 09:00', '11-03 09:00']);
    expect(starts('RRULE:FREQ=DAILY;UNTIL=20261103T085959Z')).toEqual(['11-02 09:00']);
    expect(starts('RRULE:FREQ=DAILY;UNTIL=20261104')).toEqual(['11-02 09:00', '11-03 09:00', '11-04 09:00']);
  });

  test('adds and excludes dates of a recurrence', () => {
    expect(starts('RDATE:20261105T080000Z,20261106T080000Z')).toEqual(['11-02 09:00', '11-05 08:00', '11-06 08:00']);
    expect(starts('RRULE:FREQ=DAILY;COUNT=4', 'EXDATE:20261103T090000Z', 'EXDATE;VALUE=DATE:20261105')).toEqual([
      '11-02 09:00',
      '11-04 09:00',
    ]);
    // Exclusions that match no recurrence do not affect the others.
    expect(starts('RRULE:FREQ=DAILY;COUNT=3', 'EXDATE:20261102T113000Z,20261102T114500Z,20261103T090000Z')).toEqual([
      '11-02 09:00',
      '11-04 09:00',
    ]);
  });

  test.each([
    ['RRULE:FREQ=MONTHLY;BYDAY=-1FR', ['11-27 09:00']],
    ['RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1', ['11-30 09:00']],
    ['RRULE:FREQ=MONTHLY;BYMONTHDAY=1,15', ['11-15 09:00']],
    ['RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH', ['11-26 09:00']],
    ['RRULE:FREQ=YEARLY', ['11-03 09:00']],
    ['RRULE:FREQ=MONTHLY', ['11-03 09:00']],
  ])('finds a recurrence over years by %s without expanding them', (rule, expectedStarts) => {
    const text = event('DTSTART;TZID=Europe/Berlin:19701103T100000', 'DURATION:PT1H', rule);
    expect(busy(text, within('2026-11-01T23:00Z', '2026-12-01T00:00Z')).map((each) => each.slice(5, 16))).toEqual(
      expect.arrayContaining(expectedStarts),
    );
    expect(busy(text, november)).toHaveLength(rule.includes('BYMONTHDAY') ? 2 : 1);
  });

  test('replaces a recurrence by an exception, even from outside of the requested interval', () => {
    const exception = (...lines: string[]): string[] => ['BEGIN:VEVENT', 'UID:x', ...lines, 'END:VEVENT'];
    const text = calendar(
      ...exception('DTSTART:20261102T090000Z', 'DURATION:PT1H', 'RRULE:FREQ=WEEKLY;COUNT=8'),
      ...exception('RECURRENCE-ID:20261109T090000Z', 'DTSTART:20261110T120000Z', 'DURATION:PT30M'),
      ...exception('RECURRENCE-ID:20261116T090000Z', 'DTSTART:20261116T090000Z', 'STATUS:CANCELLED'),
      ...exception('RECURRENCE-ID:20261221T090000Z', 'DTSTART:20261125T090000Z', 'DURATION:PT1H'),
    );
    expect(busy(text)).toEqual([
      '2026-11-02 09:00 to 2026-11-02 10:00',
      '2026-11-10 12:00 to 2026-11-10 12:30',
      '2026-11-23 09:00 to 2026-11-23 10:00',
      '2026-11-25 09:00 to 2026-11-25 10:00',
      '2026-11-30 09:00 to 2026-11-30 10:00',
    ]);
  });
});
