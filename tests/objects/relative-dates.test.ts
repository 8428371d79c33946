// Relative dates: the days that they mean, where days begin, and comparisons with them.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isRelativeName, relativeNames, resolveRelativeDate } from '../../domain/objects/relative-dates.ts';
import { localDate } from '../support/filter-reference.ts';

const dates = (name: string, now: string, timezone = 'Europe/Berlin') =>
  Object.values(resolveRelativeDate({ relative: name, ofDates: true }, { now: new Date(now), timezone }));
const times = (name: string, now: string, timezone: string) =>
  Object.values(resolveRelativeDate({ relative: name, ofDates: false }, { now: new Date(now), timezone }));

describe('the days of a relative date', () => {
  // A Saturday.
  const now = '2026-11-28T12:00:00.000Z';
  test.each([
    ['today', '2026-11-28', '2026-11-29'],
    ['last_1_days', '2026-11-28', '2026-11-29'],
    ['next_1_days', '2026-11-28', '2026-11-29'],
    ['last_7_days', '2026-11-22', '2026-11-29'],
    ['next_30_days', '2026-11-28', '2026-12-28'],
    ['last_3650_days', '2016-12-01', '2026-11-29'],
    ['this_week', '2026-11-23', '2026-11-30'],
    ['this_month', '2026-11-01', '2026-12-01'],
    ['last_month', '2026-10-01', '2026-11-01'],
    ['this_quarter', '2026-10-01', '2027-01-01'],
    ['this_year', '2026-01-01', '2027-01-01'],
  ])('resolves %s to the dates from %s until before %s', (name, from, until) => {
    expect(dates(name, now)).toEqual([from, until]);
  });

  test.each([
    ['this_week', '2026-11-29T12:00:00Z', '2026-11-23', '2026-11-30'],
    ['this_week', '2026-11-30T12:00:00Z', '2026-11-30', '2026-12-07'],
    ['last_month', '2026-01-31T12:00:00Z', '2025-12-01', '2026-01-01'],
    ['last_month', '2026-03-31T12:00:00Z', '2026-02-01', '2026-03-01'],
    ['this_month', '2028-02-29T12:00:00Z', '2028-02-01', '2028-03-01'],
    ['this_quarter', '2026-03-31T12:00:00Z', '2026-01-01', '2026-04-01'],
    ['this_quarter', '2026-04-01T12:00:00Z', '2026-04-01', '2026-07-01'],
  ])('resolves %s at %s to the dates from %s until before %s', (name, at, from, until) => {
    expect(dates(name, at)).toEqual([from, until]);
  });

  test('takes the current date from the time zone of the workspace', () => {
    const late = '2026-11-28T23:30:00.000Z';
    expect(dates('today', late, 'America/New_York')).toEqual(['2026-11-28', '2026-11-29']);
    expect(dates('today', late, 'Europe/Berlin')).toEqual(['2026-11-29', '2026-11-30']);
    expect(dates('today', late, 'Asia/Kolkata')).toEqual(['2026-11-29', '2026-11-30']);
  });
});

describe('the instants of a relative date', () => {
  test.each([
    [
      'a day of 23 hours',
      '2026-03-29T12:00:00Z',
      'Europe/Berlin',
      '2026-03-28T23:00:00.000Z',
      '2026-03-29T22:00:00.000Z',
    ],
    [
      'a day of 25 hours',
      '2026-10-25T12:00:00Z',
      'Europe/Berlin',
      '2026-10-24T22:00:00.000Z',
      '2026-10-25T23:00:00.000Z',
    ],
    [
      'a day without a midnight',
      '2018-11-04T12:00:00Z',
      'America/Sao_Paulo',
      '2018-11-04T03:00:00.000Z',
      '2018-11-05T02:00:00.000Z',
    ],
    [
      'a day with two midnights',
      '2026-11-01T12:00:00Z',
      'America/Havana',
      '2026-11-01T04:00:00.000Z',
      '2026-11-02T05:00:00.000Z',
    ],
  ])('begins and ends days at midnight of the workspace, for %s', (_, now, timezone, from, until) => {
    expect(times('today', now, timezone)).toEqual([from, until]);
  });

  test('begins last_7_days at a midnight if the clocks changed since', () => {
    const [from, until] = times('last_7_days', '2026-03-31T10:00:00Z', 'Europe/Berlin');
    expect([from, until]).toEqual(['2026-03-24T23:00:00.000Z', '2026-03-31T22:00:00.000Z']);
  });

  test('resolves to exactly the instants of its dates in every time zone', () => {
    const zones = [
      'UTC',
      'Europe/Berlin',
      'America/Sao_Paulo',
      'Asia/Kathmandu',
      'Pacific/Apia',
      'Australia/Lord_Howe',
    ];
    const names = relativeNames.map((name) => name.replace('N', '9'));
    const instant = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2035, 0) });
    fc.assert(
      fc.property(instant, fc.constantFrom(...zones), fc.constantFrom(...names), (at, timezone, relative) => {
        const now = new Date(at);
        const [firstDate, dateAfter] = dates(relative, now.toISOString(), timezone) as [string, string];
        for (const [time, isIn] of Object.values(
          resolveRelativeDate({ relative, ofDates: false }, { now, timezone }),
        ).flatMap((bound, index) => [
          [Date.parse(bound) - 1, index === 1],
          [Date.parse(bound), index === 0],
        ]) as [number, boolean][]) {
          const date = localDate(new Date(time), timezone);
          expect(date >= firstDate && date < dateAfter).toBe(isIn);
        }
      }),
      { numRuns: 500 },
    );
  });
});

test('accepts numbers of days from 1 to 3650 in names', () => {
  for (const name of ['last_1_days', 'next_3650_days', 'last_10_days', 'today'])
    expect(isRelativeName(name)).toBe(true);
  for (const name of [
    'last_0_days',
    'last_01_days',
    'last_3651_days',
    'last_-1_days',
    'last_1.5_days',
    'last_N_days',
    'tomorrow',
    '',
  ])
    expect(isRelativeName(name)).toBe(false);
});
