// What requests cost, in counts that need no quiet machine: those of make bench FIGURES=counted.
import { resolve } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type Counts, count } from '../../bench/counted.ts';

let counts: Counts;
beforeAll(async () => {
  counts = await count(resolve(process.env.TEST_DATA_DIR ?? '.test-data', `counted-${process.pid}`));
}, 180_000);

/** Above the writes of a request itself: now and then a commit that waited in vain for company, and what timers write. */
const beside = 0.5;

test.each([
  ['read', 2],
  ['read by a list', 2],
  ['list', 2],
  ['filtered list', 2],
  ['create', 2],
  ['update', 3],
  ['call of a tool', 2],
])('a %s takes %i writes to sockets, the answer included', (kind, writes) => {
  expect(counts.writes[kind]).toBeGreaterThanOrEqual(writes);
  expect(counts.writes[kind]).toBeLessThan(writes + beside);
});

test('a read leaves nothing in the log of the database but the counts of the month, once for many', () => {
  expect(counts.log.read).toBeLessThan(5);
});

test('a lead takes no more of the log and of the disk than it should', () => {
  expect(counts.log.create).toBeLessThan(5800);
  expect(counts.disk).toBeLessThan(2100);
});
