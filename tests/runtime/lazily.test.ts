// Values that are created on first use.
import { expect, test } from 'vitest';
import { makeLazy } from '../../runtime/lazily.ts';

test('a failed creation is retried, and a created value is kept', async () => {
  const outcomes = [new Error('no file could be opened'), 'made', 'made once more'];
  const ask = makeLazy(async () => {
    const outcome = outcomes.shift();
    if (outcome instanceof Error) throw outcome;
    return outcome;
  });
  const together = await Promise.allSettled([ask(), ask()]);
  expect(together.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect([await ask(), await ask()]).toEqual(['made', 'made']);
  expect(outcomes).toEqual(['made once more']);
});
