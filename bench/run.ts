// make bench: measures all figures of docs/performance.md, or those in FIGURES.
import { campaignRun } from './campaign-run.ts';
import { measureChangeSets } from './change-sets.ts';
import { measureConsole } from './console.ts';
import { measureCountedCalls } from './counted.ts';
import { createMany } from './create-many/measure.ts';
import { createOne } from './create-one/measure.ts';
import { docsPage } from './docs-page.ts';
import { measureFarDatabase } from './far.ts';
import { feedLag } from './feed-lag.ts';
import { measureHostileClients } from './hostile.ts';
import { imports } from './imports.ts';
import { listOrders } from './list-orders.ts';
import { listPage } from './list-page.ts';
import { listSome } from './list-some/measure.ts';
import { mcpCall } from './mcp-call.ts';
import { memory } from './memory.ts';
import { neighbour } from './neighbour.ts';
import { readOne } from './read-one/measure.ts';
import { measureRelatedFilters } from './related-filters.ts';
import { print, type Result, save } from './report.ts';
import { measureRequestLog } from './request-log.ts';
import type { Settings } from './rounds.ts';
import { search } from './search.ts';
import { searchOne } from './search-one.ts';
import { slotRequests } from './slot-requests.ts';
import { slotSearch } from './slot-search.ts';
import { start } from './start.ts';
import { measureTwoWorkersListing, measureTwoWorkersReading } from './two-workers.ts';
import { upsertKeys } from './upsert-keys.ts';
import { validatedPost } from './validated-post/measure.ts';
import { webhookDelivery } from './webhook-delivery.ts';
import { webhookWrites } from './webhook-writes.ts';

const figures: Record<string, (settings: Settings) => Promise<Result | string>> = {
  'validated-post': validatedPost,
  'read-one': readOne,
  'create-one': createOne,
  'create-many': createMany,
  'list-some': listSome,
  'search-one': searchOne,
  far: measureFarDatabase,
  counted: measureCountedCalls,
  'two-workers': measureTwoWorkersListing,
  'two-workers-one': measureTwoWorkersReading,
  start,
  imports,
  memory,
  neighbour,
  hostile: measureHostileClients,
  'feed-lag': feedLag,
  'webhook-writes': webhookWrites,
  'webhook-delivery': webhookDelivery,
  'slot-search': slotSearch,
  'slot-requests': slotRequests,
  'campaign-run': campaignRun,
  'mcp-call': mcpCall,
  'upsert-keys': upsertKeys,
  'related-filters': measureRelatedFilters,
  'docs-page': docsPage,
  'request-log': measureRequestLog,
  'change-sets': measureChangeSets,
  console: measureConsole,
};

const settings: Settings = {
  rounds: number('ROUNDS', 8),
  seconds: number('SECONDS', 2),
  connections: number('CONNECTIONS', 32),
};
/** Figures that need the database of make seed-large. They run only if FIGURES names them. */
const onLargeData: typeof figures = { search, 'list-page': listPage, 'list-orders': listOrders };
const wanted = process.env.FIGURES?.split(',') ?? Object.keys(figures);

for (const name of wanted) {
  const figure = figures[name] ?? onLargeData[name];
  if (!figure) {
    const names = [...Object.keys(figures), ...Object.keys(onLargeData)];
    throw new Error(`FIGURES may name ${names.join(', ')}; not ${name}`);
  }
  const result = await figure(settings);
  if (typeof result === 'string') process.stdout.write(`\n${name}: ${result}\n`);
  else {
    print(result);
    save(result);
  }
}

function number(name: string, fallback: number): number {
  const value = Number(process.env[name] ?? fallback);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0`);
  return value;
}
