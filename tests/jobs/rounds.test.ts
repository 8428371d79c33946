// The rounds of every job: one at a time, again after a failure, and an end with the server.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { everyRound } from '../../jobs/runner.ts';
import { openLog } from '../../runtime/telemetry/log.ts';

const { log } = openLog('silent');

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(5);
}

test('a round begins only when the one before has ended', async () => {
  let atOnce = 0;
  let most = 0;
  let rounds = 0;
  const stop = everyRound(
    5,
    async () => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      await sleep(30);
      atOnce -= 1;
      rounds += 1;
    },
    log,
  );
  await until(() => rounds >= 3);
  await stop();
  expect(most).toBe(1);
});

test('a round that fails does not keep the next from beginning', async () => {
  let rounds = 0;
  const stop = everyRound(
    5,
    async () => {
      rounds += 1;
      throw new Error('this round fails');
    },
    log,
  );
  await until(() => rounds >= 3);
  await stop();
  expect(rounds).toBeGreaterThanOrEqual(3);
});

test('stopping tells the round on its way, waits for it, and begins none', async () => {
  let begun = 0;
  let ended = 0;
  const stop = everyRound(
    5,
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
