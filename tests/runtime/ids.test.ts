// New ids of requests and rows.
import { v7 } from 'uuid';
import { describe, expect, test } from 'vitest';
import { newRequestId } from '../../runtime/http/request-ids.ts';

describe('Ids', () => {
  test('ids of rows are ordered by creation and unique', () => {
    const made = Array.from({ length: 5000 }, () => v7());
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(made.length);
  });

  test('ids of requests contain their time and are unique', () => {
    const before = Date.now();
    const made = Array.from({ length: 5000 }, newRequestId);
    const after = Date.now();
    expect(new Set(made).size).toBe(made.length);
    for (const id of made) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      const time = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
      expect(time).toBeGreaterThanOrEqual(before);
      expect(time).toBeLessThanOrEqual(after);
    }
  });
});
