// Shrinking of results for models.
import fc from 'fast-check';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, test } from 'vitest';
import { findShorterPage, type ToolResult, toResult } from '../../mcp/results.ts';
import { loadTokenCounter, maxResultTokens } from '../../mcp/tokens.ts';
import { type Tool, tools } from '../../mcp/tools.ts';

const named = (name: string): Tool => {
  const found = tools.find((tool) => tool.name === name);
  if (!found) throw new Error(`there is no tool ${name}`);
  return found;
};
const readText = (result: ToolResult): string => result.content[0]?.text ?? '';
const plainTexts = { disallowedSpecial: new Set<string>() };
const countResultTokens = (result: ToolResult): number => countTokens(readText(result), plainTexts);
const times = <Made>(count: number, make: (index: number) => Made): Made[] =>
  Array.from({ length: count }, (_, index) => make(index));
/** Text that compresses badly: at least one token per two characters. */
const dense = (length: number): string => times(length, (index) => 'ӜՁẅқ9Ж'.charAt(index % 6)).join('');

describe('oversized data', () => {
  test.each([
    ['one text', { record: { id: 'x', notes: 'a'.repeat(100_000) } }],
    ['many texts', { record: Object.fromEntries(times(100, (index) => [`f${index}`, '客'.repeat(1000)])) }],
    ['a deep list', { schema: { fields: times(1000, () => ({ options: times(50, () => 'option') })) } }],
    ['one huge item', { records: [{ notes: dense(100_000) }], next_cursor: 'next', has_more: true }],
    ['halves of surrogate pairs', { record: { notes: '😀'.repeat(20_000) } }],
    ['texts that are dense in tokens', { record: { notes: dense(12_000) } }],
    ['control tokens of models', { record: { notes: '<|endoftext|>'.repeat(3000) } }],
    [
      'an object of objects',
      { a: Object.fromEntries(times(3000, (index) => [`f${index}`, { b: { c: 'd'.repeat(40) } }])) },
    ],
  ])('cuts %s until the result fits, and says so', async (_name, data) => {
    const result = await toResult(data, named('query_records'));
    expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
    expect(readText(result).length).toBeGreaterThan(1000);
    expect(result.structuredContent).toMatchObject({ truncated: true, hint: expect.stringContaining('cut') });
    expect(readText(result).isWellFormed()).toBe(true);
    expect(JSON.parse(readText(result))).toEqual(result.structuredContent);
    expect(Object.keys(result.structuredContent ?? {})).toEqual([...Object.keys(data), 'truncated', 'hint']);
  });

  test('keeps a cursor whole when other values are cut', async () => {
    const cursor = 'c'.repeat(2000);
    const data = { records: [{ notes: dense(50_000) }], next_cursor: cursor, has_more: true };
    const { structuredContent } = await toResult(data, named('query_records'));
    expect(structuredContent).toMatchObject({ next_cursor: cursor, has_more: true, truncated: true });
  });

  test('keeps every group of a search, and drops hits, then the records of hits', async () => {
    const hit = (index: number, notes: string) => ({
      id: `id-${index}`,
      label: `Label ${index}`,
      matched_field: 'name',
      record: { id: `id-${index}`, name: `Label ${index}`, notes },
    });
    const search = (groups: number, hits: number, notes: string) => ({
      query: 'label',
      groups: times(groups, (group) => ({
        object: `object:o${group}`,
        hits: times(hits, (index) => hit(index, notes)),
      })),
    });
    const shown = async (data: ReturnType<typeof search>) => {
      const result = await toResult(data, named('search'));
      expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
      return result.structuredContent as unknown as ReturnType<typeof search> & { hint: string };
    };
    const some = await shown(search(6, 25, 'Called twice. '.repeat(30)));
    expect(some.groups).toHaveLength(6);
    expect(some.groups.every(({ hits }) => hits.length > 2 && hits.length < 25)).toBe(true);
    expect(some.groups[5]?.hits[0]?.record.notes).toBe('Called twice. '.repeat(30));
    expect(some.hint).toMatch(/cut to \d+ entries each\. Narrow the call with objects or limit\./);
    const many = await shown(search(56, 25, 'Called twice. '.repeat(100)));
    expect(many.groups).toHaveLength(56);
    expect(many.groups.every(({ hits }) => hits.length > 0)).toBe(true);
    expect(many.groups[55]?.hits[0]).toEqual({ id: 'id-0', label: 'Label 0', matched_field: 'name' });
  });

  test('keeps every field of a schema, and drops options', async () => {
    const fields = times(110, (index) => ({
      name: `field_${index}`,
      type: 'select',
      required: false,
      options: times(50, (option) => ({ label: `Option ${option}`, value: `option_${option}` })),
    }));
    const result = await toResult({ schema: { object: 'leads', fields } }, named('describe_object'));
    const { schema } = result.structuredContent as { schema: { fields: typeof fields } };
    expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
    expect(schema.fields.map(({ name }) => name)).toEqual(fields.map(({ name }) => name));
    expect(schema.fields[109]?.options.length).toBeGreaterThan(0);
  });

  test('shows the id of every written record', async () => {
    const succeededItems = times(100, (index) => ({
      index,
      id: crypto.randomUUID(),
      record: { notes: 'n '.repeat(500) },
    }));
    const data = { object: 'leads', succeeded: succeededItems, failed: [] };
    const result = await toResult(data, named('batch_create_records'));
    expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
    expect(result.structuredContent?.succeeded).toEqual(succeededItems.map(({ id }) => ({ id })));
  });

  test('drops items from the end of a list without pages, and keeps the texts of others', async () => {
    const slots = times(100, (index) => ({ from: `2026-12-01T09:${index}`, slot_token: dense(300) }));
    const result = await toResult({ slots }, named('find_slots'));
    const { slots: shown, hint } = result.structuredContent as { slots: typeof slots; hint: string };
    expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
    expect(shown).toEqual(slots.slice(0, shown.length));
    expect(hint).toContain(`Only the first ${shown.length} of 100 fit.`);
  });

  test('leaves fitting data unchanged', async () => {
    const data = { records: [{ id: 'x' }], next_cursor: null, has_more: false };
    const { structuredContent } = await toResult(data, named('query_records'));
    expect(structuredContent).toEqual({ ...data, truncated: false });
  });

  test('keeps the truncation flag of the data', async () => {
    const { structuredContent } = await toResult({ slots: [], truncated: true }, named('find_slots'));
    expect(structuredContent).toMatchObject({ truncated: true });
  });
});

describe('a page', () => {
  test('makes a page as long as fits', async () => {
    const page = {
      records: times(50, (id) => ({ id, notes: 'word '.repeat(400) })),
      next_cursor: null,
      has_more: false,
    };
    const most = (await findShorterPage(page, named('query_records'))) ?? 50;
    expect(most).toBeGreaterThan(15);
    expect(most).toBeLessThan(20);
  });
});

describe('tokens', () => {
  test('never counts too few tokens, and rarely too many', async () => {
    const count = await loadTokenCounter();
    const part = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 400 }),
      fc.string({ maxLength: 400 }),
      fc
        .constantFrom('客户', 'a', ' ', '\n', '1', '😀', '",":{"', 'Grüße, ', 'мы ', "it's ", '<|endoftext|>')
        .chain((text) => fc.nat(600).map((length) => text.repeat(length))),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const text = JSON.stringify(parts);
        const tokens = countTokens(text, plainTexts);
        const counted = count(text, Number.MAX_SAFE_INTEGER);
        expect(counted).toBeGreaterThanOrEqual(tokens);
        expect(counted).toBeLessThanOrEqual(tokens * 1.3 + 8);
      }),
      { numRuns: 150 },
    );
  });

  test('counts tokens of text in words exactly', async () => {
    const count = await loadTokenCounter();
    const text = JSON.stringify(
      times(80, (index) => ({ id: crypto.randomUUID(), name: `Lead ${index}`, notes: 'Asks for a quote. ' })),
    );
    expect(count(text, Number.MAX_SAFE_INTEGER)).toBe(countTokens(text));
  });

  test('stops counting tokens beyond the limit', async () => {
    const count = await loadTokenCounter();
    // In one piece, 100,000 letters take 10 seconds, and this text would take days.
    expect(count('a'.repeat(20_000_000), maxResultTokens)).toBeGreaterThan(maxResultTokens);
  });
});
