// P4: a page of a filtered, sorted list, in a large and a small workspace, first and last page.
import { openLarge } from './large.ts';
import { request, sendOne } from './load.ts';
import type { Result } from './report.ts';
import { measure, median, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';

const filter = JSON.stringify({ field: 'lead_status', op: 'eq', value: 'New' });
const path = `/v1/objects/leads/records?sort=-created_at&filter=${encodeURIComponent(filter)}`;

/** Few, because the latency of one page is measured. */
const connections = 2;

export async function listPage(settings: Settings): Promise<Result> {
  const database = await openLarge((text) => void process.stdout.write(`  ${text}\n`));
  try {
    const server = await startServer('ours', database.env);
    try {
      const { keys, rows } = database;
      const small = rows.small.toLocaleString('en');
      const large = rows.large.toLocaleString('en');
      const cursor = await lastCursor(server.port, keys.large);
      const pages = new Map([
        [`${small}, first`, request('GET', `${path}&limit=25`, { 'x-api-key': keys.small })],
        [`${large}, first`, request('GET', `${path}&limit=25`, { 'x-api-key': keys.large })],
        [`${large}, last`, request('GET', `${path}&limit=25&cursor=${cursor}`, { 'x-api-key': keys.large })],
      ]);
      const sides = [...pages.keys()].map((name) => ({ ...server, name }));
      const next =
        ({ name }: { name: string }) =>
        () =>
          pages.get(name) as Buffer;
      const measured = await measure(sides, next, { ...settings, connections });
      const [few, first, last] = measured.map(({ p50 }) => p50) as [number[], number[], number[]];
      const compared = (of: number[], to: number[]): number =>
        median(of.map((value, round) => value / (to[round] ?? Number.NaN)));
      return {
        name: 'list-page',
        figure: 'P4',
        what: 'a page of 25, filtered by status and sorted by age: a small and a large workspace, the first and the last page',
        settings: { ...settings, connections, ...rows },
        sides: measured,
        ratios: [],
        values: [
          { name: `median, ${large} : ${small}`, value: compared(first, few), unit: '×', target: 1.3 },
          { name: 'median, last page : first page', value: compared(last, first), unit: '×', target: 1.3 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await database.stop();
  }
}

/**
 * Walks the whole list.
 * @returns the cursor of the last full page of about 25
 */
async function lastCursor(port: number, key: string): Promise<string> {
  let cursor: string | undefined;
  for (;;) {
    const page = `${path}&limit=100${cursor === undefined ? '' : `&cursor=${cursor}`}`;
    const { status, body } = await sendOne(port, request('GET', page, { 'x-api-key': key }));
    if (status !== 200) throw new Error(`a page could not be read: ${body}`);
    const { next_cursor } = JSON.parse(body).data as { next_cursor: string | null };
    if (next_cursor === null) break;
    cursor = next_cursor;
  }
  if (cursor === undefined) throw new Error('the list has one page only');
  return cursor;
}
