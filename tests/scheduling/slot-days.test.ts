// Slots by date: months of all zones, with their clock changes and skipped dates.
import fc from 'fast-check';
import { DateTime } from 'luxon';
import { expect, test } from 'vitest';
import { countByDate, findMonth } from '../../domain/scheduling/slot-days.ts';
import { readSeed } from '../support/seed.ts';

const zones = Intl.supportedValuesOf('timeZone');
const seed = readSeed('DAYS_SEED');
const hour = 3_600_000;

test(`counts slots by the dates of a zone like luxon, DAYS_SEED=${seed}`, () => {
  const searches = fc.record({
    zone: fc.constantFrom(...zones),
    year: fc.integer({ min: 2000, max: 2045 }),
    month: fc.integer({ min: 1, max: 12 }),
    starts: fc.array(fc.integer({ min: -30, max: 32 * 24 }), { maxLength: 60 }),
  });
  const property = fc.property(searches, ({ zone, year, month, starts: hours }) => {
    const name = `${year}-${String(month).padStart(2, '0')}`;
    const starts = hours.map((hours) => Date.UTC(year, month - 1) + hours * hour).toSorted((a, b) => a - b);
    const days = countByDate(findMonth(name, zone), starts);
    const own = Map.groupBy(starts, (start) => DateTime.fromMillis(start, { zone }).toISODate());
    const expected = Array.from({ length: new Date(Date.UTC(year, month, 0)).getUTCDate() }, (_, index) => {
      const date = `${name}-${String(index + 1).padStart(2, '0')}`;
      return { date, slots: own.get(date)?.length ?? 0, firstStart: own.get(date)?.[0] ?? null };
    });
    expect(days).toEqual(expected);
  });
  fc.assert(property, { numRuns: 400, seed });
});

test('lists a date that the zone skips, without slots', () => {
  // Samoa went from the 29th to the 31st of December 2011.
  const month = findMonth('2011-12', 'Pacific/Apia');
  const starts = Array.from({ length: 31 * 24 }, (_, hours) => Date.UTC(2011, 11, 1, 10) + hours * hour);
  const days = countByDate(month, starts);
  expect(days.slice(28)).toEqual([
    { date: '2011-12-29', slots: 24, firstStart: Date.UTC(2011, 11, 29, 10) },
    { date: '2011-12-30', slots: 0, firstStart: null },
    { date: '2011-12-31', slots: 24, firstStart: Date.UTC(2011, 11, 30, 10) },
  ]);
});
