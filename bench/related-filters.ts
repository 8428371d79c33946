// P23: pages of a large workspace filtered through a relation, against the same filter without it.
import postgres from 'postgres';
import { request, sendOne } from './load.ts';
import type { Result, Value } from './report.ts';
import { median, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

/** Customers of the workspace: ten for each account, and half of them with a deal. */
const rows = Number(process.env.RELATED_ROWS ?? 100_000);
const statementRows = 20_000;
/** Requests of each filter in a round, after some that are not measured. */
const times = 40;
const warmUp = 10;
/** At most how many times as long as the filter without the relation. */
const ratio = 1.5;

const inCity = { field: 'city', op: 'eq', value: 'City 7' };
const withDeal = { link: 'deals', any: { field: 'priority', op: 'eq', value: 1 } };
/** Filters through a relation, with the filters that they are compared with. */
const pairs = [
  {
    what: 'one of 100 cities, and the industry of half of the accounts',
    without: inCity,
    through: { and: [inCity, { field: 'account.industry', op: 'eq', value: 'Retail' }] },
    target: ratio,
  },
  {
    what: 'the account in one of 100 cities, against the customer in one',
    without: inCity,
    through: { field: 'account.city', op: 'eq', value: 'City 7' },
    // Not the same with and without: the account of each of the newest customers is looked up.
    target: undefined,
  },
  {
    what: 'one of 100 cities, and any deal of the priority that half of the deals have',
    without: inCity,
    through: { and: [inCity, withDeal] },
    target: ratio,
  },
  {
    // Finds the same customers with and without: the difference is the relation alone.
    what: 'one of 100 cities, and any such deal, against a field of the customers that have one',
    without: { and: [inCity, { field: 'state', op: 'eq', value: 'With a deal' }] },
    through: { and: [inCity, withDeal] },
    target: ratio,
  },
] as const;

export async function measureRelatedFilters(settings: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const seconds = await fill(workspace.env.DATABASE_URL ?? '', workspace.bareEnv.COMPANY_ID ?? '');
    process.stdout.write(`  ${rows.toLocaleString('en')} customers in ${seconds.toFixed(0)} s\n`);
    const server = await startServer('ours', workspace.env);
    try {
      const ask = async (filter: object): Promise<number> => {
        const path = `/v1/objects/customers/records?limit=25&filter=${encodeURIComponent(JSON.stringify(filter))}`;
        const bytes = request('GET', path, { 'x-api-key': workspace.key });
        const start = performance.now();
        const answer = await sendOne(server.port, bytes);
        const milliseconds = performance.now() - start;
        if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${answer.body}`);
        if (JSON.parse(answer.body).data.records.length !== 25) throw new Error(`${path} found too few records`);
        return milliseconds;
      };
      const values: Value[] = [];
      for (const { what, without, through, target } of pairs) {
        const spent = { without: [] as number[], through: [] as number[] };
        for (let turn = -warmUp; turn < times * settings.rounds; turn += 1)
          // By turns, so that a busy machine is unfair to neither.
          for (const [side, filter] of Object.entries({ without, through }) as ['without' | 'through', object][]) {
            const milliseconds = await ask(filter);
            if (turn >= 0) spent[side].push(milliseconds);
          }
        const [plain, related] = [median(spent.without), median(spent.through)];
        process.stdout.write(`  ${what}: ${plain.toFixed(1)} ms without, ${related.toFixed(1)} ms through\n`);
        values.push(
          { name: `${what}: without`, value: plain, unit: 'ms' },
          { name: `${what}: through the relation`, value: related, unit: 'ms' },
          { name: `${what}: ratio`, value: related / plain, unit: 'times', ...(target ? { target } : {}) },
        );
      }
      return {
        name: 'related-filters',
        figure: 'P23',
        what: `pages of 25 of ${rows.toLocaleString('en')} customers, filtered through one relation`,
        settings: { ...settings, rows, times },
        sides: [],
        ratios: [],
        values,
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

/** Adds accounts, customers and deals. @returns the seconds that it took */
async function fill(url: string, companyId: string): Promise<number> {
  const start = performance.now();
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  const accounts = Math.ceil(rows / 10);
  const madeAt = sql`'system', 'bench', timestamptz '2025-01-01' + n * interval '1 second', timestamptz '2025-01-01' + n * interval '1 second'`;
  const made = sql`created_by_kind, created_by_id, created_at, updated_at`;
  const id = (kind: string, number: postgres.Fragment) => sql`md5(${kind} || ${number})::uuid`;
  // The customers of the deals of priority 1, as they are added below.
  const deal = sql`((n + 1) / 2)`;
  const hasDeal = sql`n = 2 * ${deal} - (${deal} / 50) % 2 and (${deal} / 100) % 2 = 0`;
  for (let from = 1; from <= accounts; from += statementRows)
    await sql`
      insert into accounts (company_id, test_mode, id, name, industry, city, ${made})
      select ${companyId}, false, ${id('account', sql`n`)}, 'Account ' || n, (array['Retail', 'Food'])[1 + (n / 100) % 2],
        'City ' || (n / 2) % 100, ${madeAt}
      from generate_series(${from}::bigint, ${Math.min(accounts, from + statementRows - 1)}::bigint) n`;
  for (let from = 1; from <= rows; from += statementRows)
    await sql`
      insert into customers (company_id, test_mode, id, first_name, city, state, account_id, ${made})
      select ${companyId}, false, ${id('customer', sql`n`)}, 'Customer', 'City ' || (n * 7919) % 100,
        case when ${hasDeal} then 'With a deal' end, ${id('account', sql`1 + n % ${accounts}::bigint`)}, ${madeAt}
      from generate_series(${from}::bigint, ${Math.min(rows, from + statementRows - 1)}::bigint) n`;
  for (let from = 1; from <= rows / 2; from += statementRows)
    await sql`
      insert into deals (company_id, test_mode, id, name, pipeline_id, stage_id, priority, customer_id, ${made})
      select ${companyId}, false, ${id('deal', sql`n`)}, 'Deal', stage.pipeline_id, stage.id, 1 + (n / 100) % 2,
        ${id('customer', sql`(2 * n - (n / 50) % 2)`)}, ${madeAt}
      from generate_series(${from}::bigint, ${Math.floor(Math.min(rows / 2, from + statementRows - 1))}::bigint) n,
        (select id, pipeline_id from statuses where company_id = ${companyId} and object = 'deals' order by order_position limit 1) stage`;
  await sql`vacuum analyze`;
  await sql.end();
  return (performance.now() - start) / 1000;
}
