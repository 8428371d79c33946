// Slots in all zones with their clock changes, compared with a minute-by-minute reference.
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canTake, findSlots, type Member, type SlotRules } from '../../domain/scheduling/slots.ts';
import { readSeed } from '../support/seed.ts';
import { day, findOffsetChanges, findReferenceSlots, minute, refusal } from './reference.ts';

const zones = Intl.supportedValuesOf('timeZone');

/**
 * A skipped day, half-hour changes, summer time as the standard, changes at midnight, a month of
 * other time.
 */
const oddNights: readonly (readonly [zone: string, year: number])[] = [
  ['Pacific/Apia', 2011],
  ['Pacific/Kwajalein', 1993],
  ['Australia/Lord_Howe', 2026],
  ['Europe/Dublin', 2027],
  ['America/Havana', 2026],
  ['Asia/Beirut', 2027],
  ['America/Asuncion', 2023],
  ['Africa/Cairo', 2026],
  ['Africa/Casablanca', 2026],
  ['Antarctica/Troll', 2026],
  ['Asia/Pyongyang', 2018],
  ['America/Caracas', 2007],
];

/**
 * Each zone once, with one clock change of its year. With twice as many runs, each of two changes.
 */
const runs = Number(process.env.C16_RUNS ?? oddNights.length + zones.length);
const seed = readSeed('C16_SEED');

interface Night {
  zone: string;
  moment: number;
}

/** Near a clock change of the zone, or near any time of the year if it has none. */
function generateNight(zone: string, year: number, which: number): fc.Arbitrary<Night> {
  const changes = findOffsetChanges(zone, year);
  const change = changes[which % changes.length];
  if (change !== undefined) return fc.constant({ zone, moment: change });
  return fc.integer({ min: 0, max: 365 }).map((date) => ({ zone, moment: Date.UTC(year, 0, 1) + date * day }));
}

/**
 * @param index of the search: odd nights first, then the zones in order, from one that the seed
 * chooses
 */
function nightNumber(index: number): fc.Arbitrary<Night> {
  const odd = oddNights[index];
  if (odd) return fc.nat().chain((which) => generateNight(...odd, which));
  const place = index - oddNights.length;
  const zone = zones[(seed + place) % zones.length] as string;
  const years = fc.integer({ min: 1975, max: 2045 });
  return years.chain((year) => generateNight(zone, year, seed + Math.floor(place / zones.length)));
}

const clock = (minutes: number): string =>
  `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;

const steps = fc.constantFrom(1, 5, 15, 30);
const span = fc
  .tuple(steps, fc.nat({ max: 1439 }), fc.nat({ max: 1439 }))
  .map(([step, a, b]) => [a, b].map((minutes) => minutes - (minutes % step)).sort((x, y) => x - y))
  .map(([from = 0, to = 0]) => ({ start: clock(from), end: to === from || to >= 1425 ? '24:00' : clock(to) }))
  // Every third window continues over midnight.
  .chain(({ start, end }) =>
    fc.nat({ max: 2 }).map((which) => (which === 0 && end !== '24:00' ? { start: end, end: start } : { start, end })),
  );
/** Windows that are the same every day, and windows of single days. */
const weekly = fc
  .tuple(fc.array(span, { maxLength: 2 }), fc.array(fc.tuple(fc.integer({ min: 0, max: 6 }), span), { maxLength: 6 }))
  .map(([daily, single]) => [
    ...[0, 1, 2, 3, 4, 5, 6].flatMap((weekday) => daily.map((window) => ({ weekday, ...window }))),
    ...single.map(([weekday, window]) => ({ weekday, ...window })),
  ]);

const reason = fc.constantFrom('booking', 'reservation', 'external_event', 'buffer');

/** Timestamps near a given one, some at full minutes. */
const near = (moment: number, range: number): fc.Arbitrary<number> =>
  fc
    .tuple(fc.integer({ min: -range, max: range }), fc.constantFrom(1, minute, 15 * minute))
    .map(([away, step]) => Math.floor((moment + away) / step) * step);

const generateMember = (zone: string, moment: number): fc.Arbitrary<Omit<Member, 'userId'>> => {
  const itsZone = fc.oneof({ weight: 4, arbitrary: fc.constant(zone) }, { weight: 1, arbitrary: fc.constant('UTC') });
  const date = fc.integer({ min: -2, max: 2 }).map((days) => new Date(moment + days * day).toISOString().slice(0, 10));
  return fc.record({
    hours: fc.record({
      timezone: itsZone,
      weekly,
      dates: fc.uniqueArray(fc.record({ date, windows: fc.array(span, { maxLength: 2 }) }), {
        maxLength: 2,
        selector: (each) => each.date,
      }),
    }),
    daysOff: fc.array(
      fc
        .tuple(date, date, fc.constantFrom('time_off' as const, 'holiday' as const))
        .filter(([from, to]) => from <= to)
        .map(([from, to, reason]) => ({ from, to, reason })),
      { maxLength: 2, size: '-1' },
    ),
    daysOffTimezone: itsZone,
    busy: fc.array(
      fc
        .tuple(near(moment, day), fc.nat({ max: 120 }), reason)
        .map(([start, minutes, why]) => ({ start, end: start + minutes * minute, reason: why })),
      { maxLength: 8 },
    ),
    bookedStarts: fc.array(near(moment, 2 * day), { maxLength: 5 }),
  });
};

const generateRules = (zone: string, moment: number): fc.Arbitrary<SlotRules> =>
  fc.record({
    durationMinutes: fc.constantFrom(5, 15, 30, 45, 60, 90, 480),
    intervalMinutes: fc.constantFrom(5, 7, 15, 20, 30, 60, 90),
    bufferBeforeMinutes: fc.constantFrom(0, 0, 5, 30),
    bufferAfterMinutes: fc.constantFrom(0, 0, 10, 60),
    maxPerDay: fc.option(fc.nat({ max: 3 }), { freq: 2 }),
    timezone: fc.constantFrom(zone, 'UTC'),
    within: fc
      .tuple(near(moment - 8 * 60 * minute, 12 * 60 * minute), fc.integer({ min: 1, max: 36 * 60 }))
      .map(([start, minutes]) => ({ start, end: start + minutes * minute })),
  });

const searchNear = ({ zone, moment }: Night) =>
  fc.record({
    members: fc
      .array(generateMember(zone, moment), { minLength: 1, maxLength: 3 })
      .map((members) => members.map((member, index) => ({ ...member, userId: `member ${index}` }))),
    rules: generateRules(zone, moment),
    limit: fc.nat({ max: 60 }),
    asked: fc.array(near(moment, day), { minLength: 5, maxLength: 5 }),
  });

test(`matches a minute-by-minute reference in ${runs} searches near clock changes, C16_SEED=${seed}`, {
  timeout: 30_000 + runs * 200,
}, () => {
  let offered = 0;
  for (let index = 0; index < runs; index += 1) {
    const property = fc.property(nightNumber(index).chain(searchNear), ({ members, rules, limit, asked }) => {
      const expected = findReferenceSlots(members, rules);
      expect(findSlots(members, rules, Number.POSITIVE_INFINITY)).toEqual({ slots: expected, truncated: false });
      expect(findSlots(members, rules, limit)).toEqual({
        slots: expected.slice(0, limit),
        truncated: expected.length > limit,
      });
      const named = findSlots(members, rules, Number.POSITIVE_INFINITY, undefined, 'first').slots;
      expect(named).toEqual(expected.map((slot) => ({ ...slot, userIds: slot.userIds.slice(0, 1) })));
      const able = ({ start }: { start: number }): string[] =>
        members.filter((member) => canTake(member, rules, start) === undefined).map(({ userId }) => userId);
      expect(expected.map(able)).toEqual(expected.map(({ userIds }) => userIds));
      for (const member of members)
        for (const start of asked) expect(canTake(member, rules, start)).toBe(refusal(member, rules, start));
      offered += expected.length;
    });
    fc.assert(property, { numRuns: 1, seed: seed + index });
  }
  process.stdout.write(`C16: ${runs} searches, ${offered} slots, C16_SEED=${seed}\n`);
  // Ensures that the compared results are not empty.
  expect(offered).toBeGreaterThan(runs);
});

test('gives the same slots in every time zone of the process', () => {
  const program = `
    const { findSlots, canTake } = await import(${JSON.stringify(new URL('../../domain/scheduling/slots.ts', import.meta.url).href)});
    const hours = { timezone: 'America/Havana', weekly: [0, 1, 2, 3, 4, 5, 6].map((weekday) => ({ weekday, start: '00:00', end: '24:00' })) };
    const daysOff = [{ from: '2026-11-02', to: '2026-11-02', reason: 'holiday' }];
    const member = { userId: 'one', hours, daysOff, daysOffTimezone: 'Asia/Beirut', busy: [], bookedStarts: [${Date.UTC(2026, 9, 31, 23)}] };
    const within = { start: ${Date.UTC(2026, 9, 31)}, end: ${Date.UTC(2026, 10, 4)} };
    const rules = { durationMinutes: 60, intervalMinutes: 60, bufferBeforeMinutes: 0, bufferAfterMinutes: 0, maxPerDay: 1, timezone: 'Pacific/Apia', within };
    const reasons = Array.from({ length: 90 }, (_, hour) => canTake(member, rules, within.start + hour * 3600000) ?? 'free');
    console.log(JSON.stringify({ slots: findSlots([member], rules, 500).slots, reasons }));`;
  const foundIn = (TZ: string): { slots: unknown[]; reasons: string[] } =>
    JSON.parse(
      execFileSync(process.execPath, ['--input-type=module', '--eval', program], {
        env: { ...process.env, TZ },
        encoding: 'utf8',
      }),
    );
  const [first, ...others] = ['UTC', 'America/Havana', 'Pacific/Apia', 'Australia/Lord_Howe'].map(foundIn);
  // Everything that could depend on the zone is included.
  expect(new Set(first?.reasons)).toEqual(new Set(['free', 'holiday', 'daily_maximum']));
  expect(first?.slots.length).toBeGreaterThan(20);
  for (const other of others) expect(other).toEqual(first);
});
