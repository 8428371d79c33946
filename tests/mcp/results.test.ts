// What becomes of data that is too large for a model.
import { describe, expect, test } from 'vitest';
import { mostOfResult, succeeded } from '../../mcp/results.ts';

const bytesOf = (result: ReturnType<typeof succeeded>): number => Buffer.byteLength(result.content[0]?.text ?? '');

describe('data that is too large', () => {
  test.each([
    ['one text', { record: { id: 'x', notes: 'a'.repeat(100_000) } }],
    [
      'many texts',
      { record: Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`f${index}`, '客'.repeat(1000)])) },
    ],
    [
      'a deep list',
      {
        schema: {
          fields: Array.from({ length: 1000 }, () => ({ options: Array.from({ length: 50 }, () => 'option') })),
        },
      },
    ],
    ['one huge item', { records: [{ notes: 'a'.repeat(100_000) }], next_cursor: 'next', has_more: true }],
    ['halves of surrogate pairs', { record: { notes: '😀'.repeat(20_000) } }],
    [
      'an object of objects',
      {
        a: Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`f${index}`, { b: { c: 'd'.repeat(40) } }])),
      },
    ],
  ])('%s is cut until it fits, and says so', (_name, data) => {
    const result = succeeded(data, undefined, false);
    expect(bytesOf(result)).toBeLessThanOrEqual(mostOfResult);
    expect(bytesOf(result)).toBeGreaterThan(1000);
    expect(result.structuredContent).toMatchObject({ truncated: true, hint: expect.stringContaining('cut') });
    expect(result.content[0]?.text.isWellFormed()).toBe(true);
    expect(Object.keys(result.structuredContent ?? {})).toEqual([...Object.keys(data), 'truncated', 'hint']);
  });

  test('what fits is left alone', () => {
    const data = { records: [{ id: 'x' }], next_cursor: null, has_more: false };
    expect(succeeded(data, undefined, true).structuredContent).toEqual({ ...data, truncated: false });
  });

  test('what the data say of themselves stays said', () => {
    expect(succeeded({ slots: [], truncated: true }, undefined, false).structuredContent).toMatchObject({
      truncated: true,
    });
  });
});
