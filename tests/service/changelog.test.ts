// The changelog: lists everything in the OpenAPI document once.
import { expect, test } from 'vitest';
import { changelog } from '../../domain/service/changelog.ts';
import { expectStatus } from '../support/client.ts';
import { operations } from '../support/document.ts';

test('lists each operation as added once', () => {
  const added = changelog.filter(({ kind }) => kind === 'added').flatMap((entry) => entry.operations);
  expect(added.toSorted()).toEqual(operations.map(({ id }) => id).toSorted());
});

test('lists every deprecated form with the day on which it stops working', () => {
  const deprecated = changelog.filter(({ kind }) => kind === 'deprecated');
  for (const { id, declared } of operations)
    for (const { since, sunset } of (declared['x-deprecated-use'] ?? []) as { since: string; sunset: string }[])
      expect(
        deprecated.filter(
          ({ date, text, operations: ids }) => date === since && text.includes(sunset) && ids.includes(id),
        ),
      ).toHaveLength(1);
});

test('returns the changelog without a credential, newest first and in pages', async () => {
  const dates: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: Record<string, string> = { limit: '3', ...(cursor === '' ? {} : { cursor }) };
    const { data } = (await expectStatus(200, 'GET', '/v1/changelog', { query })).body;
    dates.push(...data.changelog_entries.map(({ date }: { date: string }) => date));
    cursor = data.next_cursor;
  }
  expect(dates).toHaveLength(changelog.length);
  expect(dates).toEqual(dates.toSorted().reverse());
  expect(new Set(changelog.map(({ id }) => id)).size).toBe(changelog.length);
});
