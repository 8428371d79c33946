// Working time and slots on nights with clock changes.
import { describe, expect, test } from 'vitest';
import { canTake, findSlots, type Member } from '../../domain/scheduling/slots.ts';
import { computeDaysOff, computeWorkingTime, type WorkingWindow } from '../../domain/scheduling/working-time.ts';
import { ZoneClocks } from '../../domain/service/zone-clocks.ts';

const everyDay = (...windows: [start: string, end: string][]): WorkingWindow[] =>
  [0, 1, 2, 3, 4, 5, 6].flatMap((weekday) => windows.map(([start, end]) => ({ weekday, start, end })));
const at = (text: string): number => Date.parse(text);
const shown = (list: readonly { start: number; end: number }[]): string[] =>
  list.map(({ start, end }) => `${new Date(start).toISOString()} ${(end - start) / 60_000}`);

/** Returns the working times in a stretch of UTC as start and length in minutes. */
const working = (timezone: string, window: [string, string], from: string, to: string): string[] =>
  shown(computeWorkingTime({ timezone, weekly: everyDay(window) }, { start: at(from), end: at(to) }));

describe('working time', () => {
  test.each([
    [
      'on an ordinary day',
      'Europe/Berlin',
      '09:00',
      '17:00',
      '2026-03-27T12:00Z',
      '2026-03-27T23:00Z',
      ['2026-03-27T12:00:00.000Z 240'],
    ],
    [
      'that is partly skipped, and shorter',
      'Europe/Berlin',
      '01:30',
      '03:30',
      '2026-03-28T23:00Z',
      '2026-03-29T22:00Z',
      ['2026-03-29T00:30:00.000Z 60'],
    ],
    ['that is skipped whole is none', 'Europe/Berlin', '02:00', '03:00', '2026-03-28T23:00Z', '2026-03-29T22:00Z', []],
    [
      'that is repeated as a whole, and longer',
      'Europe/Berlin',
      '02:00',
      '03:00',
      '2026-10-24T22:00Z',
      '2026-10-25T23:00Z',
      ['2026-10-25T00:00:00.000Z 120'],
    ],
    [
      'that is repeated in part, in two pieces',
      'Europe/Berlin',
      '02:30',
      '03:30',
      '2026-10-24T22:00Z',
      '2026-10-25T23:00Z',
      ['2026-10-25T00:30:00.000Z 30', '2026-10-25T01:30:00.000Z 60'],
    ],
    [
      'in a zone whose winter time is the exception',
      'Europe/Dublin',
      '01:30',
      '02:30',
      '2026-10-24T23:00Z',
      '2026-10-26T00:00Z',
      ['2026-10-25T00:30:00.000Z 30', '2026-10-25T01:30:00.000Z 60'],
    ],
    [
      'with a repeated half hour',
      'Australia/Lord_Howe',
      '01:00',
      '03:00',
      '2026-04-04T13:00Z',
      '2026-04-05T13:30Z',
      ['2026-04-04T14:00:00.000Z 150'],
    ],
    [
      'with a skipped half hour',
      'Australia/Lord_Howe',
      '01:00',
      '03:00',
      '2026-10-03T13:30Z',
      '2026-10-04T13:00Z',
      ['2026-10-03T14:30:00.000Z 90'],
    ],
    [
      'on a day that starts at one',
      'America/Havana',
      '00:00',
      '02:00',
      '2026-03-08T04:00Z',
      '2026-03-09T03:00Z',
      ['2026-03-08T05:00:00.000Z 60'],
    ],
    [
      'on a day that returns to its midnight',
      'America/Havana',
      '00:00',
      '02:00',
      '2026-11-01T03:00Z',
      '2026-11-02T04:00Z',
      ['2026-11-01T04:00:00.000Z 180'],
    ],
    [
      'on a day whose last hour is repeated',
      'Asia/Beirut',
      '23:00',
      '24:00',
      '2026-10-24T18:00Z',
      '2026-10-25T12:00Z',
      ['2026-10-24T20:00:00.000Z 120'],
    ],
    [
      'on a skipped day, which has none',
      'Pacific/Apia',
      '09:00',
      '17:00',
      '2011-12-29T10:00Z',
      '2011-12-31T10:00Z',
      ['2011-12-29T19:00:00.000Z 480', '2011-12-30T19:00:00.000Z 480'],
    ],
  ] as const)('computes working time %s', (_, timezone, start, end, from, to, expected) => {
    expect(working(timezone, [start, end], from, to)).toEqual(expected);
  });

  test('merges windows that touch or overlap, also over midnight', () => {
    const weekly = everyDay(['00:00', '03:00'], ['20:00', '22:30'], ['22:00', '23:00'], ['23:00', '24:00']);
    expect(
      shown(computeWorkingTime({ timezone: 'UTC', weekly }, { start: at('2026-01-05'), end: at('2026-01-06T12:00Z') })),
    ).toEqual(['2026-01-05T00:00:00.000Z 180', '2026-01-05T20:00:00.000Z 420']);
  });

  test('uses the local weekday', () => {
    // In Kiritimati, Monday starts on Sunday at ten UTC.
    const hours = { timezone: 'Pacific/Kiritimati', weekly: [{ weekday: 1, start: '00:00', end: '24:00' }] };
    expect(shown(computeWorkingTime(hours, { start: at('2026-01-01'), end: at('2026-01-12') }))).toEqual([
      '2026-01-04T10:00:00.000Z 1440',
      '2026-01-11T10:00:00.000Z 840',
    ]);
  });
});

test('keeps days off for the length of their dates, with their reasons', () => {
  const off = computeDaysOff(
    [
      { from: '2026-10-26', to: '2026-10-26', reason: 'holiday' },
      { from: '2026-10-24', to: '2026-10-25', reason: 'time_off' },
    ],
    'Europe/Berlin',
    { start: at('2026-10-01'), end: at('2026-11-01') },
  );
  expect(off.map(({ reason, ...interval }) => `${shown([interval])} ${reason}`)).toEqual([
    '2026-10-23T22:00:00.000Z 2940 time_off',
    '2026-10-25T23:00:00.000Z 1440 holiday',
  ]);
});

describe('slots', () => {
  const starts = (from: string, to: string, intervalMinutes: number, ...windows: [string, string][]): string[] => {
    const member = { userId: 'one', hours: { timezone: 'Europe/Berlin', weekly: everyDay(...windows) }, busy: [] };
    const rules = {
      durationMinutes: 30,
      intervalMinutes,
      bufferBeforeMinutes: 15,
      bufferAfterMinutes: 15,
      maxPerDay: null,
      timezone: 'UTC',
      within: { start: at(from), end: at(to) },
    };
    const { slots } = findSlots([{ ...member, daysOff: [], daysOffTimezone: 'UTC', bookedStarts: [] }], rules, 100);
    return slots.map(({ start }) => new Date(start).toISOString().slice(11, 16));
  };

  test('keeps slots at local times on the day of a clock change', () => {
    expect(starts('2026-03-29T00:00Z', '2026-03-30T00:00Z', 60, ['00:00', '05:00'])).toEqual([
      '00:00',
      '01:00',
      '02:00',
      '22:00',
      '23:00',
    ]);
  });

  test('offers slots twice if the night repeats local time', () => {
    expect(starts('2026-10-25T00:00Z', '2026-10-25T03:00Z', 30, ['02:30', '03:30'])).toEqual([
      '00:30',
      '01:30',
      '02:00',
    ]);
  });

  test('offers slots of two windows once, each from its own start, and lets them continue in the other', () => {
    expect(starts('2026-07-01T00:00Z', '2026-07-02T00:00Z', 30, ['09:00', '10:15'], ['10:00', '11:00'])).toEqual([
      '07:00',
      '07:30',
      '08:00',
      '08:30',
    ]);
    expect(starts('2026-07-01T00:00Z', '2026-07-02T00:00Z', 30, ['09:00', '09:45'], ['09:45', '10:15'])).toEqual([
      '07:00',
      '07:30',
      '07:45',
    ]);
  });

  test('ends slots within the searched interval', () => {
    expect(starts('2026-07-01T07:00Z', '2026-07-01T07:30Z', 30, ['09:00', '17:00'])).toEqual(['07:00']);
    expect(starts('2026-07-01T07:00Z', '2026-07-01T08:30Z', 30, ['09:00', '17:00'])).toEqual([
      '07:00',
      '07:30',
      '08:00',
    ]);
    expect(starts('2026-07-01T07:01Z', '2026-07-01T08:29Z', 30, ['09:00', '17:00'])).toEqual(['07:30']);
  });

  test('continues slots over midnight if the hours do', () => {
    expect(starts('2026-07-01T21:00Z', '2026-07-01T23:30Z', 60, ['23:15', '24:00'], ['00:00', '00:45'])).toEqual([
      '21:15',
      '22:00',
    ]);
    expect(starts('2026-07-01T21:00Z', '2026-07-01T23:30Z', 30, ['23:15', '24:00'], ['00:00', '00:45'])).toEqual([
      '21:15',
      '21:45',
      '22:00',
    ]);
  });
});

test('keeps times apart with shared clocks', () => {
  const clocks = new ZoneClocks();
  const dates = (from: string, to: string): string[] =>
    shown(clocks.days('Europe/Berlin', { start: at(from), end: at(to) }));
  const night = ['2026-10-24T12:00:00.000Z 600', '2026-10-24T22:00:00.000Z 180', '2026-10-25T01:00:00.000Z 660'];
  expect(dates('2026-10-24T12:00Z', '2026-10-25T12:00Z')).toEqual(night);
  expect(dates('2026-10-25T00:30Z', '2026-10-25T12:00Z')).toEqual(['2026-10-25T00:30:00.000Z 30', night[2]]);
  expect(dates('2026-10-25T01:00Z', '2026-10-25T12:00Z')).toEqual([night[2]]);
  expect(dates('2026-10-24T12:00Z', '2026-10-24T22:00Z')).toEqual([night[0]]);
  expect(dates('2026-03-28T12:00Z', '2026-03-29T02:00Z')).toEqual([
    '2026-03-28T12:00:00.000Z 660',
    '2026-03-28T23:00:00.000Z 120',
    '2026-03-29T01:00:00.000Z 60',
  ]);
  expect(() => clocks.days('Mars/Olympus', { start: 0, end: 1 })).toThrow(RangeError);
});

describe('the daily maximum', () => {
  const weekly = everyDay(['00:00', '24:00']);
  const takes = (timezone: string, start: string, ...booked: string[]) => {
    const member: Member = {
      userId: 'one',
      hours: { timezone, weekly },
      daysOff: [],
      daysOffTimezone: 'UTC',
      busy: [],
      bookedStarts: booked.map(at),
    };
    const demand = { durationMinutes: 15, bufferBeforeMinutes: 0, bufferAfterMinutes: 0, maxPerDay: 2, timezone };
    return canTake(member, demand, at(start));
  };

  test('counts the daily maximum from midnight to midnight, however long the day is', () => {
    const whole = ['2026-10-24T22:00Z', '2026-10-25T22:59Z'];
    expect(takes('Europe/Berlin', '2026-10-25T12:00Z', ...whole)).toBe('daily_maximum');
    expect(takes('Europe/Berlin', '2026-10-24T22:00Z', ...whole)).toBe('daily_maximum');
    expect(takes('Europe/Berlin', '2026-10-25T22:45Z', ...whole)).toBe('daily_maximum');
    expect(takes('Europe/Berlin', '2026-10-25T23:00Z', ...whole)).toBeUndefined();
    expect(takes('Europe/Berlin', '2026-10-25T12:00Z', '2026-10-24T21:59Z', '2026-10-25T23:00Z')).toBeUndefined();
  });

  test('counts a repeated hour before midnight with its own day', () => {
    // At 21:00 UTC, the clock in Beirut shows 23:00 again instead of midnight.
    const day = ['2026-10-24T12:00Z', '2026-10-24T21:00Z'];
    expect(takes('Asia/Beirut', '2026-10-24T21:30Z', ...day)).toBe('daily_maximum');
    expect(takes('Asia/Beirut', '2026-10-24T21:00Z', ...day)).toBe('daily_maximum');
    expect(takes('Asia/Beirut', '2026-10-24T09:00Z', '2026-10-24T21:00Z', '2026-10-24T21:30Z')).toBe('daily_maximum');
    expect(takes('Asia/Beirut', '2026-10-24T22:00Z', ...day)).toBeUndefined();
    expect(takes('Asia/Beirut', '2026-10-25T12:00Z', ...day)).toBeUndefined();
  });
});
