// P4: pages of a large workspace in every sort order, and look-ups by a value of each field.
import { openLarge } from './large.ts';
import { request, sendOne } from './load.ts';
import type { Result } from './report.ts';
import { median, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';

/**
 * Sorts and filters without an index, as documented: names of lists, ids of other records, long
 * texts.
 */
const withoutIndex = new Set([
  'source',
  'lead_status',
  'source_id',
  'lead_status_id',
  'assigned_to',
  'converted_customer_id',
  'website',
  'inquiry_details',
  'notes',
]);
const path = '/v1/objects/leads/records?limit=25';
/** Number of requests per page. */
const times = 5;

interface Page {
  status: number;
  milliseconds: number;
  cursor: string | null;
  records: Record<string, unknown>[];
}

export async function listOrders(settings: Settings): Promise<Result> {
  const database = await openLarge((text) => void process.stdout.write(`  ${text}\n`));
  try {
    const server = await startServer('ours', database.env);
    const ask = async (query: string): Promise<Page> => {
      const start = performance.now();
      const { status, body } = await sendOne(
        server.port,
        request('GET', `${path}&${query}`, { 'x-api-key': database.keys.large }),
      );
      const milliseconds = performance.now() - start;
      const { data } = JSON.parse(body) as { data?: { next_cursor: string | null; records: Page['records'] } };
      return { status, milliseconds, cursor: data?.next_cursor ?? null, records: data?.records ?? [] };
    };
    try {
      const [first] = (await ask('sort=-created_at')).records;
      if (!first) throw new Error('the large workspace has no leads');
      const pages = new Map<string, number>();
      const equal = new Map<string, number>();
      const slow: string[] = [];
      for (const [field, value] of Object.entries(first)) {
        for (const order of [field, `-${field}`]) {
          const [page, next] = await timed(ask, `sort=${order}`);
          if (withoutIndex.has(field)) slow.push(`${order} ${page === undefined ? 'query_timeout' : page.toFixed(0)}`);
          else {
            pages.set(order, page ?? Number.NaN);
            pages.set(`${order}, next page`, next ?? Number.NaN);
          }
        }
        if (value === null) continue;
        const filter = encodeURIComponent(JSON.stringify({ field, op: 'eq', value }));
        equal.set(field, (await timed(ask, `filter=${filter}`))[0] ?? Number.NaN);
      }
      process.stdout.write(`  orders without an index, ms of the first page: ${slow.join(', ')}\n`);
      const worst = (of: Map<string, number>) => [...of].sort(([, a], [, b]) => b - a)[0] as [string, number];
      const [order, orderTime] = worst(pages);
      const [field, fieldTime] = worst(equal);
      const rows = database.rows.large.toLocaleString('en');
      return {
        name: 'list-orders',
        figure: 'P4',
        what: `pages of 25 of ${rows} leads, in ${pages.size / 2} orders that have an index, and by equality of ${equal.size} fields`,
        settings: { ...settings, times, ...database.rows },
        sides: [],
        ratios: [],
        values: [
          { name: 'median of all pages in an order', value: median([...pages.values()]), unit: 'ms', target: 10 },
          { name: `slowest page, by ${order}`, value: orderTime, unit: 'ms', target: 50 },
          { name: `slowest equality, of ${field}`, value: fieldTime, unit: 'ms', target: 50 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await database.stop();
  }
}

/** Returns the median times of a page and the next one; undefined if the server times out. */
async function timed(
  ask: (query: string) => Promise<Page>,
  query: string,
): Promise<[number | undefined, number | undefined]> {
  const page: number[] = [];
  const next: number[] = [];
  for (let turn = 0; turn < times; turn += 1) {
    const answer = await ask(query);
    if (answer.status === 503) return [undefined, undefined];
    if (answer.status !== 200) throw new Error(`${query} answered ${answer.status}`);
    page.push(answer.milliseconds);
    if (answer.cursor !== null) next.push((await ask(`${query}&cursor=${answer.cursor}`)).milliseconds);
  }
  return [median(page), next.length > 0 ? median(next) : undefined];
}
