// Assignment: exact shares at all times, and the order when not all members are eligible.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Candidate, chooseMember } from '../../domain/scheduling/assignment.ts';
import { readSeed } from '../support/seed.ts';

const seed = readSeed('ASSIGNMENT_SEED');

const pool = (...weights: number[]): Candidate[] =>
  weights.map((weight, index) => ({ userId: `${index}`, weight, assigned: 0, load: 0 }));
const everybody = (all: readonly Candidate[]): Set<string> => new Set(all.map(({ userId }) => userId));

/** Chooses and counts this many times. */
function assign(all: Candidate[], eligible: ReadonlySet<string>, times: number): string[] {
  return Array.from({ length: times }, () => {
    const chosen = all.find(({ userId }) => userId === chooseMember('round_robin', all, eligible));
    if (!chosen) throw new Error('nobody was chosen');
    chosen.assigned += 1;
    return chosen.userId;
  });
}

describe('round robin', () => {
  test(`keeps every member within one of their share after each assignment, ASSIGNMENT_SEED=${seed}`, () => {
    const weight = fc.oneof(fc.integer({ min: 1, max: 10 }), fc.constantFrom(1, 10));
    const sizes = [{ maxLength: 5 }, { maxLength: 50, size: 'max' as const }];
    const weights = fc.oneof(...sizes.map((size) => fc.array(weight, { minLength: 1, ...size })));
    fc.assert(
      fc.property(weights, (list) => {
        const all = pool(...list);
        const eligible = everybody(all);
        const sum = list.reduce((total, one) => total + one, 0);
        let furthest = 0;
        // After a full cycle each member has exactly their weight, and the rotation starts over.
        for (let count = 1; count <= sum; count += 1) {
          assign(all, eligible, 1);
          for (const { weight, assigned } of all)
            furthest = Math.max(furthest, Math.abs(assigned * sum - count * weight));
        }
        // The rule guarantees slightly more than one: 1 - 1 / (2n - 2).
        const parts = 2 * list.length - 2;
        expect(furthest * parts).toBeLessThanOrEqual(Math.max(0, parts - 1) * sum);
        expect(all.map(({ assigned }) => assigned)).toEqual(list);
      }),
      { numRuns: 150, seed },
    );
  });

  test('rotates equal members in the order of the pool', () => {
    const all = pool(1, 1, 1);
    expect(assign(all, everybody(all), 7)).toEqual(['0', '1', '2', '0', '1', '2', '0']);
  });

  test('keeps the shares of a pool after a million assignments', () => {
    const all = pool(10, 9, 1).map((candidate) => ({ ...candidate, assigned: candidate.weight * 1e9 }));
    const chosen = assign(all, everybody(all), 20);
    expect(['0', '1', '2'].map((id) => chosen.filter((other) => other === id).length)).toEqual([10, 9, 1]);
  });

  test('chooses among eligible members and lets others catch up later', () => {
    const all = pool(1, 1, 1);
    expect(assign(all, new Set(['0', '2']), 4).sort()).toEqual(['0', '0', '2', '2']);
    expect(assign(all, everybody(all), 2)).toEqual(['1', '1']);
    expect(all.map(({ assigned }) => assigned)).toEqual([2, 2, 2]);
  });

  test('chooses the only eligible member, and none if none is eligible', () => {
    expect(chooseMember('round_robin', pool(3), new Set(['0']))).toBe('0');
    expect(chooseMember('round_robin', pool(3, 2), new Set(['1']))).toBe('1');
    expect(chooseMember('round_robin', pool(3, 2), new Set())).toBeUndefined();
    expect(chooseMember('round_robin', [], new Set(['0']))).toBeUndefined();
  });
});

describe('least busy', () => {
  const choose = (...all: [load: number, assigned: number, weight: number][]): string | undefined => {
    const candidates = all.map(([load, assigned, weight], index) => ({ userId: `${index}`, load, assigned, weight }));
    return chooseMember('least_busy', candidates, everybody(candidates));
  };

  test('chooses the least busy member, then by assignments per weight, then by order', () => {
    expect(choose([2, 0, 1], [1, 9, 1], [2, 0, 9])).toBe('1');
    expect(choose([1, 3, 2], [1, 4, 3], [1, 2, 1])).toBe('1');
    expect(choose([1, 2, 2], [1, 1, 1], [1, 3, 3])).toBe('0');
  });

  test('chooses the least busy of the eligible members', () => {
    const all = pool(1, 1, 1).map((candidate, load) => ({ ...candidate, load }));
    expect(chooseMember('least_busy', all, new Set(['1', '2']))).toBe('1');
    expect(chooseMember('least_busy', all, new Set())).toBeUndefined();
  });
});

test('chooses the first eligible member by priority', () => {
  const all = pool(1, 10, 10).map((candidate) => ({ ...candidate, load: 9, assigned: 9 }));
  expect(chooseMember('priority', all, everybody(all))).toBe('0');
  expect(chooseMember('priority', all, new Set(['2', '1']))).toBe('1');
  expect(chooseMember('priority', all, new Set(['strangers']))).toBeUndefined();
});
