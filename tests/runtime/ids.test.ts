// New ids, of requests and of rows.
import { v7 } from 'uuid';
import { afterEach, describe, expect, test, vi } from 'vitest';

afterEach(() => void vi.restoreAllMocks());

describe('Ids', () => {
  test('made one after the other are in this order, and none is made twice', () => {
    const made = Array.from({ length: 5000 }, () => v7());
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(made.length);
  });

  test('take their chance from the system for many at once', () => {
    const asked = vi.spyOn(crypto, 'getRandomValues');
    for (let count = 0; count < 1024; count += 1) v7();
    expect(asked.mock.calls.length).toBeLessThanOrEqual(5);
  });
});
