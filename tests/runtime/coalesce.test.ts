// Questions that share a look-up: each is answered by one that began after it was asked.
import { expect, test } from 'vitest';
import { coalesce } from '../../runtime/limits/single-flight.ts';

test('a question that fails takes no other with it, and the next look-up begins when all are through', async () => {
  const lookUps: string[][] = [];
  const ask = coalesce<string, string>((questions) => {
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
