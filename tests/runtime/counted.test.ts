// The costs of requests as counts, which do not depend on load: make bench FIGURES=counted.
import { resolve } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type Counts, count } from '../../bench/counted.ts';

let counts: Counts;
beforeAll(async () => {
  counts = await count(resolve(process.env.TEST_DATA_DIR ?? '.test-data', `counted-${process.pid}`));
}, 180_000);

/**
 * Allowance for other writes: an occasional commit that waited in vain to be batched, and timers.
 */
const allowance = 0.5;

test.each([
  ['read', 2],
  ['read by a list', 2],
  ['list', 2],
  ['filtered list', 2],
  ['create', 2],
  ['update', 3],
  ['call of a tool', 2],
])('a %s takes %i socket writes, including the response', (kind, writes) => {
  expect(counts.writes[kind]).toBeGreaterThanOrEqual(writes);
  expect(counts.writes[kind]).toBeLessThan(writes + allowance);
});

test('a read writes nothing to the write-ahead log except monthly counts, shared by many reads', () => {
  expect(counts.log.read).toBeLessThan(5);
});

test('a lead stays within its budget of write-ahead log and disk', () => {
  // Measured: 5,720 to 5,840, since ids and keys split index pages at different times in each run.
  expect(counts.log.create).toBeLessThan(6000);
  // 250 of it are the indexes of who created and who last changed a record.
  expect(counts.disk).toBeLessThan(2450);
});
