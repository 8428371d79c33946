// Batched look-ups: each question is answered by a look-up that starts after it.
import { expect, test } from 'vitest';
import { singleFlight } from '../../runtime/limits/single-flight.ts';

test('a failed question fails no other, and the next look-up starts after all have finished', async () => {
  const lookUps: string[][] = [];
  const ask = singleFlight<string, string>((questions) => {
    lookUps.push([...questions]);
    return questions.map(async (question) => {
      if (question === 'bad') throw new Error('no answer');
      await new Promise((resolve) => setTimeout(resolve, 20));
      return `${question}!`;
    });
  }, 1);
  const [good, bad] = [ask('good'), ask('bad')];
  await expect(bad).rejects.toThrow('no answer');
  const later = ask('later');
  expect(lookUps).toEqual([['good', 'bad']]);
  expect([await good, await later]).toEqual(['good!', 'later!']);
  expect(lookUps).toEqual([['good', 'bad'], ['later']]);
});
