// SLA deadlines compared with a walk minute by minute, over time zones and years of clock changes.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { BusinessHours } from '../../domain/objects/configuration.ts';
import { computeDeadline } from '../../domain/settings/sla-clock.ts';
import { readSeed } from '../support/seed.ts';

const seed = readSeed('SLA_SEED');
const minute = 60_000;

/**
 * Zones with clock changes of an hour or half an hour, in both hemispheres, at midnight, with odd
 * offsets, or never.
 */
const zones = [
  'Europe/Berlin',
  'America/New_York',
  'America/Santiago',
  'Australia/Lord_Howe',
  'Africa/Cairo',
  'Pacific/Chatham',
  'America/Adak',
  'Pacific/Kiritimati',
  'Asia/Kolkata',
  'UTC',
];

const formats = new Map<string, Intl.DateTimeFormat>();
const weekdays = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** Returns the local day and time of a timestamp, from the platform itself. */
function wall(moment: number, timezone: string): { day: number; time: string } {
  let format = formats.get(timezone);
  if (!format) {
    const shown = { weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
    format = new Intl.DateTimeFormat('en-US', { timeZone: timezone, ...shown });
    formats.set(timezone, format);
  }
  const parts = Object.fromEntries(format.formatToParts(moment).map((part) => [part.type, part.value]));
  return { day: weekdays.indexOf(parts.weekday ?? ''), time: `${parts.hour}:${parts.minute}` };
}

/** Counts every minute within the business hours. */
function slowDeadline(started: number, minutes: number, hours: BusinessHours): number {
  let moment = started;
  for (let remaining = minutes; remaining > 0; moment += minute) {
    const { day, time } = wall(moment, hours.timezone);
    if (hours.days.includes(day) && time >= hours.start && time < hours.end) remaining -= 1;
  }
  return moment;
}

const formatTime = (minutes: number): string =>
  `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;

/** Timestamps near clock changes of the zones, and others. */
const starts = fc.oneof(
  fc
    .tuple(
      fc.constantFrom(
        '2026-03-08',
        '2026-03-29',
        '2026-04-05',
        '2026-04-24',
        '2026-09-06',
        '2026-09-27',
        '2026-10-04',
        '2026-10-25',
        '2026-10-30',
        '2026-11-01',
      ),
      fc.integer({ min: -3 * 1440, max: 2 * 1440 }),
    )
    .map(([date, offset]) => Date.parse(date) + offset * minute),
  fc.integer({ min: 0, max: 3 * 525_600 }).map((minutes) => Date.parse('2025-01-01') + minutes * minute),
);

const businessHours = fc
  .record({
    timezone: fc.constantFrom(...zones),
    times: fc.uniqueArray(fc.integer({ min: 0, max: 1439 }), { minLength: 2, maxLength: 2 }),
    days: fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 7 }),
  })
  .map(({ timezone, times, days }): BusinessHours => {
    const [start = 0, end = 0] = times.toSorted((a, b) => a - b);
    return { timezone, start: formatTime(start), end: formatTime(end), days };
  });

test('computes deadlines as a walk minute by minute does, including clock changes', () => {
  process.stdout.write(`\nsla: SLA_SEED=${seed}\n`);
  const property = fc.property(starts, businessHours, fc.integer({ min: 1, max: 2000 }), (started, hours, asked) => {
    // At most two weeks of work, so that the walk ends in time.
    const length = hours.days.length * 2 * (parseMinutes(hours.end) - parseMinutes(hours.start));
    const minutes = Math.min(asked, length);
    expect(computeDeadline(new Date(started), minutes, hours).toISOString()).toBe(
      new Date(slowDeadline(started, minutes, hours)).toISOString(),
    );
  });
  fc.assert(property, { seed, numRuns: Number(process.env.SLA_RUNS ?? 300) });
});

function parseMinutes(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
}

const office = { start: '09:00', end: '17:00', days: [1, 2, 3, 4, 5], timezone: 'Europe/Berlin' };
const night = { start: '01:00', end: '04:00', days: [0, 1, 2, 3, 4, 5, 6], timezone: 'Europe/Berlin' };

describe('a deadline', () => {
  test.each([
    ['around the clock counts every minute', '2026-03-28T12:00:30.500Z', 1440, null, '2026-03-29T12:00:30.500Z'],
    ['counts from the moment, seconds included', '2026-11-18T09:00:30.250Z', 30, office, '2026-11-18T09:30:30.250Z'],
    [
      'is at the end of the day, not at the next beginning',
      '2026-11-18T15:00:00Z',
      60,
      office,
      '2026-11-18T16:00:00.000Z',
    ],
    ['waits for the morning', '2026-11-18T20:00:00Z', 1, office, '2026-11-19T08:01:00.000Z'],
    ['goes on after the weekend', '2026-11-20T15:30:00Z', 60, office, '2026-11-23T08:30:00.000Z'],
    [
      'starts on Monday when the clock starts on a Sunday',
      '2026-11-22T11:00:00Z',
      480,
      office,
      '2026-11-23T16:00:00.000Z',
    ],
    // 01:00 to 04:00 is two hours long in the night that skips the hour from 02:00,
    ['leaves out an hour that is skipped', '2026-03-28T23:00:00Z', 121, night, '2026-03-29T23:01:00.000Z'],
    // and four hours in the night that repeats it.
    ['counts an hour that is repeated twice', '2026-10-24T22:00:00Z', 240, night, '2026-10-25T03:00:00.000Z'],
    ['of a year of work ends years later', '2026-01-05T08:00:00Z', 525_600, office, '2030-03-15T16:00:00.000Z'],
  ] as const)('%s', (_, started, minutes, hours, expected) => {
    expect(computeDeadline(new Date(started), minutes, hours).toISOString()).toBe(expected);
  });
});
