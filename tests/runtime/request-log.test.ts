// The queue of the request log: batches, its bound, failures, and the flush when a process stops.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { RequestLog } from '../../runtime/telemetry/request-log.ts';

type Row = { company_id: string; number: number };

let written: Row[][][];
let write: (companies: readonly (readonly Row[])[]) => Promise<void>;
let failures: number[];

beforeEach(() => {
  vi.useFakeTimers();
  written = [];
  failures = [];
  write = async (companies) => void written.push(companies.map((rows) => [...rows]));
});
afterEach(() => {
  vi.useRealTimers();
});

const openLog = () =>
  new RequestLog<Row>(
    (companies) => write(companies),
    (_, rows) => failures.push(rows),
  );

const add = (log: RequestLog<Row>, count: number, company = 'one'): void => {
  for (let number = 0; number < count; number += 1) log.add({ company_id: company, number });
};

test('writes the requests of half a second together, grouped by company', async () => {
  const log = openLog();
  add(log, 2);
  add(log, 1, 'other');
  await vi.advanceTimersByTimeAsync(499);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(written.map((companies) => companies.map((rows) => rows.length))).toEqual([[2, 1]]);
});

test('writes a full batch without waiting', async () => {
  const log = openLog();
  add(log, 501);
  await vi.advanceTimersByTimeAsync(0);
  expect(written.map(([rows]) => rows?.length)).toEqual([500]);
  await vi.advanceTimersByTimeAsync(500);
  expect(written.map(([rows]) => rows?.length)).toEqual([500, 1]);
});

test('drops and counts requests beyond 10,000 that wait for the database, and the batch that fails', async () => {
  const log = openLog();
  let fail: (error: Error) => void = () => undefined;
  write = () => new Promise((_, reject) => (fail = reject));
  // One batch is being written, 10,000 wait.
  add(log, 500 + 10_000);
  expect(log.dropped).toBe(0);
  add(log, 3);
  expect(log.dropped).toBe(3);
  write = async (companies) => void written.push(companies.map((rows) => [...rows]));
  fail(new Error('no database'));
  await vi.advanceTimersByTimeAsync(500);
  expect(failures).toEqual([500]);
  expect(log.dropped).toBe(503);
  expect(written.flat().flat().length).toBe(10_000);
});

test('writes everything that is queued when the process stops', async () => {
  const log = openLog();
  add(log, 1);
  await log.flush();
  expect(written).toHaveLength(1);
  let done: () => void = () => undefined;
  write = (companies) =>
    new Promise((resolve) => {
      done = () => {
        written.push(companies.map((rows) => [...rows]));
        resolve();
      };
    });
  add(log, 500);
  add(log, 1);
  const flushed = log.flush();
  done();
  await vi.advanceTimersByTimeAsync(0);
  done();
  await flushed;
  expect(written.map(([rows]) => rows?.length)).toEqual([1, 500, 1]);
});
