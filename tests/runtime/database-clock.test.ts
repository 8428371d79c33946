// The database clock, estimated without a query: never ahead of the database.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DatabaseClock } from '../../db/client/database-clock.ts';
import { database } from '../support/tenants.ts';

const isoIn = (clock: DatabaseClock, milliseconds: number) => clock.at(performance.now() + milliseconds);

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance'], now: new Date('2026-11-28T10:00:00.000Z') }));
afterEach(() => void vi.useRealTimers());

test('the database clock is unknown before the database has reported its time', () => {
  expect(isoIn(new DatabaseClock(), 0)).toBeUndefined();
});

test('the database clock continues from the reported time, regardless of the clock of this machine', () => {
  const clock = new DatabaseClock();
  clock.note(new Date('2031-01-01T00:00:00.000Z'));
  expect(isoIn(clock, 0)).toBe('2031-01-01T00:00:00.000Z');
  expect(isoIn(clock, 1900)).toBe('2031-01-01T00:00:01.900Z');
  vi.advanceTimersByTime(59_000);
  expect(isoIn(clock, 500)).toBe('2031-01-01T00:00:59.500Z');
});

test('the database clock uses the response with the shortest round trip', () => {
  const clock = new DatabaseClock();
  const answer = (took: number) => {
    const then = new Date();
    vi.advanceTimersByTime(took);
    clock.note(then);
  };
  answer(1000);
  expect(isoIn(clock, 0)).toBe('2026-11-28T10:00:00.000Z');
  answer(2);
  expect(isoIn(clock, 0)).toBe('2026-11-28T10:00:01.000Z');
  answer(1500);
  expect(isoIn(clock, 0)).toBe('2026-11-28T10:00:02.500Z');
});

test('the database clock stays known after a minute if a slower response arrived in the second half of it', () => {
  const clock = new DatabaseClock();
  clock.note(new Date());
  vi.advanceTimersByTime(59_900);
  const then = new Date();
  vi.advanceTimersByTime(90);
  clock.note(then);
  vi.advanceTimersByTime(20);
  expect(isoIn(clock, 0)).toBe(new Date(then.getTime() + 20).toISOString());
});

test('the database clock expires after a minute', () => {
  const clock = new DatabaseClock();
  clock.note(new Date());
  vi.advanceTimersByTime(60_001);
  expect(isoIn(clock, 0)).toBeUndefined();
});

test.each([-3_600_000, -25, 25, 3_600_000])(
  'the database clock is unknown after the clock of this machine jumped by %i ms',
  (jump) => {
    const clock = new DatabaseClock();
    clock.note(new Date());
    vi.setSystemTime(Date.now() + jump);
    expect(isoIn(clock, 0)).toBeUndefined();
    clock.note(new Date());
    expect(isoIn(clock, 0)).toBeDefined();
  },
);

test('the database clock is never ahead of the database', async () => {
  vi.useRealTimers();
  const clock = new DatabaseClock();
  for (let round = 0; round < 50; round += 1) {
    const [seen] = await database()<{ clock: Date }[]>`select clock_timestamp() as clock`;
    clock.note(seen?.clock as Date);
    await sleep(Math.random() * 5);
    const estimated = clock.at(performance.now()) as string;
    const [row] = await database()`select clock_timestamp() >= ${estimated}::timestamptz as passed`;
    expect(row?.passed).toBe(true);
  }
});
