// The cost of a call does not grow with the history of the tenant, unless it requests all of it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sampleProbes } from '../isolation/condition-coverage.ts';
import { buildAlone, serve } from '../isolation/databases.ts';
import { prolong } from '../isolation/long-histories.ts';
import { replay } from '../isolation/replay.ts';
import { dropAllDatabases, inDatabase, newDatabase } from '../support/databases.ts';
import { type StatementCost, statementCosts } from '../support/noted-statements.ts';

/** Rows in each table of the tenant. */
const rows = Number(process.env.HISTORY_ROWS ?? 5000);
/**
 * Pages of 8 KB that a statement may read, besides those of the rows that it returns or changes. An
 * update of a lead reads up to 57 pages: each of its 26 indexes gets an entry.
 */
const mostPages = 500;
const pagesOfRow = 60;

/**
 * Statements that read more because of what they request, each with its reason and its maximum. The
 * list may only shrink.
 */
const listed: readonly [RegExp, string, number?][] = [
  [/^\s*with asked as/, 'a search looks at 1,000 records of each object, and no further', 2000],
  [/sum\(bytes\)[\s\S]* from attachments/, 'GET /v1/usage returns the sum of all stored files'],
  [
    /sum\(total_minor - amount_paid_minor\)/,
    'the amount due is the sum of the open invoices, and here all of them are open',
  ],
];

let costs: StatementCost[];
let long: string[];
beforeAll(async () => {
  const { alone, tables, companyId, probes } = await buildAlone();
  const url = await newDatabase(alone);
  long = await inDatabase(url, async (sql) => {
    const made = await prolong(sql, tables, companyId, rows);
    await sql`vacuum analyze`;
    return made;
  });
  const server = await serve(url);
  try {
    await replay(server.url, sampleProbes(probes), async () => undefined);
  } finally {
    await server.stop();
  }
  costs = await statementCosts(url);
}, 600_000);
afterAll(dropAllDatabases);

const isExpensive = ({ calls, pages, rows: returned }: StatementCost): boolean =>
  pages / calls > mostPages + (pagesOfRow * returned) / calls;

test('fills most tables with a long history', () => {
  expect(long.length).toBeGreaterThan(40);
  expect(costs.length).toBeGreaterThan(400);
});

test('reads the whole history only in listed statements', () => {
  const expensive = costs.filter(isExpensive);
  const isListed = ({ text, pages, calls }: StatementCost) =>
    listed.some(([pattern, , most = Number.POSITIVE_INFINITY]) => pattern.test(text) && pages / calls <= most);
  expect(
    expensive
      .filter((cost) => !isListed(cost))
      .map((cost) => `${cost.pages} pages in ${cost.calls} calls for ${cost.rows} rows: ${cost.text}`),
  ).toEqual([]);
  expect(listed.filter(([pattern]) => !expensive.some(({ text }) => pattern.test(text)))).toEqual([]);
});
