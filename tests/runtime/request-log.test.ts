// The queue of the request log: batches, its bound, failures, and the flush when a process stops.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LostRequests, RequestLog } from '../../runtime/telemetry/request-log.ts';

class NumberQueue {
  #numbers: number[] = [];
  get size(): number {
    return this.#numbers.length;
  }
  add(number: number): void {
    this.#numbers.push(number);
  }
  take(): number[] {
    return this.#numbers.splice(0);
  }
}

let written: number[][];
let write: (requests: readonly number[]) => Promise<void>;
let failures: number[];

beforeEach(() => {
  vi.useFakeTimers();
  written = [];
  failures = [];
  write = async (requests) => void written.push([...requests]);
});
afterEach(() => {
  vi.useRealTimers();
});

const openLog = () =>
  new RequestLog<number, number>(
    new NumberQueue(),
    (requests) => write(requests),
    (_, count) => failures.push(count),
  );

const add = (log: RequestLog<number, number>, count: number): void => {
  for (let number = 0; number < count; number += 1) log.add(number);
};

const counts = (): number[] => written.map((requests) => requests.length);

test('writes the requests of a second together', async () => {
  const log = openLog();
  add(log, 2);
  await vi.advanceTimersByTimeAsync(999);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(written).toEqual([[0, 1]]);
});

test('writes a full batch without waiting', async () => {
  const log = openLog();
  add(log, 2001);
  expect(counts()).toEqual([2000]);
  expect(counts()).toEqual([2000]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(counts()).toEqual([2000, 1]);
});

test('drops and counts requests beyond 10,000 that wait for the database, and the batch that fails', async () => {
  const log = openLog();
  let fail: (error: Error) => void = () => undefined;
  write = () => new Promise((_, reject) => (fail = reject));
  // One batch is being written, 10,000 wait.
  add(log, 2000 + 10_000);
  expect(log.dropped).toBe(0);
  add(log, 3);
  expect(log.dropped).toBe(3);
  write = async (requests) => void written.push([...requests]);
  fail(new Error('no database'));
  await vi.advanceTimersByTimeAsync(1000);
  expect(failures).toEqual([2000]);
  expect(log.dropped).toBe(2003);
  expect(written.flat()).toHaveLength(10_000);
});

test('counts only the requests that were lost if a part of a batch was written', async () => {
  const log = openLog();
  write = async () => {
    throw new LostRequests(3, new Error('one statement failed'));
  };
  add(log, 2000);
  await vi.advanceTimersByTimeAsync(0);
  expect([log.dropped, failures]).toEqual([3, [3]]);
});

test('writes everything that is queued when the process stops', async () => {
  const log = openLog();
  add(log, 1);
  await log.flush();
  expect(written).toHaveLength(1);
  let done: () => void = () => undefined;
  write = (requests) =>
    new Promise((resolve) => {
      done = () => {
        written.push([...requests]);
        resolve();
      };
    });
  add(log, 2000);
  add(log, 1);
  const flushed = log.flush();
  done();
  await vi.advanceTimersByTimeAsync(0);
  done();
  await flushed;
  expect(counts()).toEqual([1, 2000, 1]);
});
