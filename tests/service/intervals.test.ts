// Compares operations on intervals with the same operations on single points in time.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Interval, intersect, Occupied, subtract, unite, widen } from '../../domain/service/intervals.ts';
import { readSeed } from '../support/seed.ts';

const seed = readSeed('INTERVALS_SEED');
const last = 24;
const moments = Array.from({ length: last }, (_, moment) => moment);

/** Lists in any order, including empty and overlapping intervals. */
const list = fc.array(
  fc
    .tuple(fc.nat({ max: last }), fc.nat({ max: last }))
    .map(([a, b]) => ({ start: Math.min(a, b), end: Math.max(a, b) })),
  { maxLength: 6 },
);
const has = (intervals: readonly Interval[], moment: number): boolean =>
  intervals.some(({ start, end }) => start <= moment && moment < end);
/** Returns the intervals of the points in time that pass a test. */
const of = (isIn: (moment: number) => boolean): Interval[] =>
  moments
    .filter((moment) => isIn(moment) && !(moment > 0 && isIn(moment - 1)))
    .map((start) => ({ start, end: moments.find((moment) => moment > start && !isIn(moment)) ?? last }));

describe(`intervals compared with points in time, INTERVALS_SEED=${seed}`, () => {
  test('joins, intersects and subtracts intervals', () => {
    fc.assert(
      fc.property(list, list, (a, b) => {
        expect(unite(a)).toEqual(of((moment) => has(a, moment)));
        expect(intersect(a, b)).toEqual(of((moment) => has(a, moment) && has(b, moment)));
        expect(subtract(a, b)).toEqual(of((moment) => has(a, moment) && !has(b, moment)));
      }),
      { numRuns: 500, seed },
    );
  });

  test('finds the first overlapping interval, in any order of queries', () => {
    const questions = fc.array(fc.tuple(fc.nat({ max: last }), fc.integer({ min: 1, max: 5 })), { maxLength: 20 });
    fc.assert(
      fc.property(list, questions, (entries, asked) => {
        const occupied = new Occupied(entries);
        const inOrder = entries.filter(({ start, end }) => start < end).toSorted((a, b) => a.start - b.start);
        for (const [start, length] of asked)
          expect(occupied.firstMeeting(start, start + length)).toBe(
            inOrder.find((entry) => entry.start < start + length && start < entry.end),
          );
      }),
      { numRuns: 500, seed },
    );
  });
});

test('leaves the given lists of intervals unchanged', () => {
  const given = [
    { start: 5, end: 7 },
    { start: 1, end: 6 },
  ];
  const copy = structuredClone(given);
  unite(given);
  subtract(given, given);
  new Occupied(given);
  expect(widen(given, 1, 2)).toEqual([
    { start: 4, end: 9 },
    { start: 0, end: 8 },
  ]);
  expect(given).toEqual(copy);
});
