// Runs of jobs: one at a time, repeated after a failure, early if woken, ended with the server.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { jobNames } from '../../jobs/index.ts';
import { type Job, type JobPools, runPeriodically, startJobs } from '../../jobs/runner.ts';
import { silentLog as log } from '../support/job-runs.ts';

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(5);
}

test('begins a run only after the previous one has ended', async () => {
  let atOnce = 0;
  let most = 0;
  let runs = 0;
  const { stop } = runPeriodically(
    { intervalMs: 5 },
    async () => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      await sleep(30);
      atOnce -= 1;
      runs += 1;
    },
    log,
  );
  await until(() => runs >= 3);
  await stop();
  expect(most).toBe(1);
});

test('begins the next run after a failed one', async () => {
  let runs = 0;
  const { stop } = runPeriodically(
    { intervalMs: 5 },
    async () => {
      runs += 1;
      throw new Error('this run fails');
    },
    log,
  );
  await until(() => runs >= 3);
  await stop();
  expect(runs).toBeGreaterThanOrEqual(3);
});

test('aborts the signal of the run when stopped, waits for it, and begins no other', async () => {
  let begun = 0;
  let ended = 0;
  const { stop } = runPeriodically(
    { intervalMs: 5 },
    async (stopped) => {
      begun += 1;
      while (!stopped.aborted) await sleep(5);
      await sleep(50);
      ended += 1;
    },
    log,
  );
  await until(() => begun === 1);
  await stop();
  expect(ended).toBe(1);
  await sleep(30);
  expect(begun).toBe(1);
});

test('runs immediately on start and when woken, if the job can be woken', async () => {
  let runs = 0;
  const work = async (): Promise<void> => {
    runs += 1;
  };
  const { wake, stop } = runPeriodically({ intervalMs: 60_000, batchDelayMs: 20 }, work, log);
  await until(() => runs === 1);
  wake();
  wake();
  await until(() => runs === 2);
  await sleep(30);
  expect(runs).toBe(2);
  await stop();
  wake();
  await sleep(30);
  expect(runs).toBe(2);
});

test('batches the wake-ups during a run into one run after a pause', async () => {
  const begun: number[] = [];
  const work = async (): Promise<void> => {
    begun.push(performance.now());
    await sleep(30);
  };
  const { wake, stop } = runPeriodically({ intervalMs: 60_000, batchDelayMs: 50 }, work, log);
  wake();
  wake();
  await until(() => begun.length === 2);
  const [first = 0, second = 0] = begun;
  expect(second - first).toBeGreaterThanOrEqual(78);
  await stop();
  expect(begun).toHaveLength(2);
});

test('pauses one job without pausing the others', async () => {
  const runs: string[] = [];
  const newJob = (name: string): Job<unknown, never> => ({
    name,
    pool: 'platform',
    intervalMs: 5,
    batchSize: 1,
    run: async () => runs.push(name),
  });
  const environment = { platform: {} as JobPools['platform'], pools: {} as Record<never, JobPools>, services: {}, log };
  const { wake, stop } = startJobs([newJob('mails'), newJob('billing')], { ...environment, paused: ['billing'] });
  wake('billing');
  await until(() => runs.length >= 3);
  await stop();
  expect(new Set(runs)).toEqual(new Set(['mails']));
});

test('describes in docs/operations.md what waits while each job is paused', () => {
  const section = readFileSync('docs/operations.md', 'utf8').split('## Pausing a job')[1]?.split('\n## ')[0] ?? '';
  const cells = [...section.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, cell = '']) => cell.split(', '));
  expect(cells.toSorted()).toEqual(jobNames.map((name) => `\`${name}\``).toSorted());
});
