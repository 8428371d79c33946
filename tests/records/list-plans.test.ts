// Pages that an index has in their order are read by it, whoever asks, and are planned once.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Pool, type Sql } from '../../db/connect.ts';
import { recordTable } from '../../db/records/columns.ts';
import { listRecords, type Page } from '../../db/records/records.ts';
import { Transaction } from '../../db/transaction.ts';
import type { Filter } from '../../domain/objects/filter.ts';
import { tried } from '../support/noted-statements.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

const objects = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'object:boats'];
const limit = 26;
const after = ['2026-01-01T00:00:00.000Z', '019a9f5e-7c1b-7cc3-8f3a-2d1c1f6f0000'];

interface Listed {
  object: string;
  page: Page;
  /** Of the index, behind the company and the mode. */
  columns: string;
}

/** A first page and one that goes on, newest and oldest first. */
const bothWays = (object: string, columns: string, field: string, filter?: Filter): Listed[] =>
  [true, false].flatMap((descending) =>
    [undefined, after].map((from) => {
      return { object, columns, page: { sort: [{ field, descending }], filter, after: from, limit } };
    }),
  );

const isOne = (field: string): Filter => ({ field, op: 'eq', value: randomUUID() });

function pagesOf(object: string): Listed[] {
  const { object: own, columns } = recordTable(object);
  const ages = ['created_at', 'updated_at'].flatMap((field) =>
    bothWays(object, `${own === undefined ? '' : 'object, '}${field}, id`, field),
  );
  const ofOneValue = [...columns].flatMap(([field, { byAge, name }]) =>
    byAge ? bothWays(object, `${name}, created_at, id`, 'created_at', isOne(field)) : [],
  );
  return [...ages, ...ofOneValue];
}

const agedFields = objects.flatMap((object) =>
  [...recordTable(object).columns].flatMap(([field, { byAge }]) => (byAge ? [{ object, field }] : [])),
);

let pool: Pool;
let tenant: Tenant;
beforeAll(async () => {
  const settings = { prepare: true, spread: false, wait: 1000, statementTimeout: 1500 };
  pool = new Pool({ url: inject('databaseUrl'), role: tried('crm_app'), lanes: 1, ...settings });
  tenant = await newTenant();
});
afterAll(() => pool.close(1));

const list = async ({ object, page }: Listed, reach: { kind: 'company' } | { kind: 'team'; id: string }) => {
  const { companyId } = tenant;
  const transaction = await Transaction.open(pool, { companyId, testMode: false }, { reads: 'many' });
  const actor = { kind: 'api_key' as const, id: randomUUID(), name: 'Test' };
  const scope = { companyId, testMode: false, reach, actor, userId: null };
  await listRecords(transaction.sql, scope, object, page);
  transaction.endRead();
};

/** Statements that the connection keeps, by their names, with how often they were planned for values and for all. */
const keptBy = (sql: Sql) => sql<{ name: string; parameters: number; custom: number; generic: number }[]>`
  select name, cardinality(parameter_types) as parameters, custom_plans::int as custom, generic_plans::int as generic
  from pg_prepared_statements where statement like ${'%order by%limit %'} order by prepare_time`;

describe.each(objects)('of %s', (object) => {
  test.each(pagesOf(object))('a page that asks for $page is read by the index on $columns alone', async (listed) => {
    const before = new Map((await pool.use(keptBy)).map(({ name, generic }) => [name, generic]));
    await list(listed, { kind: 'company' });
    await list(listed, { kind: 'company' });
    const plan = await pool.use(async (sql) => {
      const used = (await keptBy(sql)).filter(({ name, generic }) => generic - (before.get(name) ?? 0) === 2);
      expect(used).toHaveLength(1);
      const [{ name, parameters }] = used as [(typeof used)[number]];
      await sql`select set_config('plan_cache_mode', 'force_generic_plan', false)`;
      const values = parameters > 0 ? `(${Array(parameters).fill('null').join(', ')})` : '';
      const lines = await sql.unsafe(`explain execute "${name}" ${values}`);
      await sql`select set_config('plan_cache_mode', 'auto', false)`;
      const [index] = await sql<{ columns: string }[]>`
          select substring(indexdef from '\\(company_id, test_mode, ([^)]*)\\)') as columns from pg_indexes
          where indexname = ${/Index Scan (?:Backward )?using (\w+)/.exec(JSON.stringify(lines))?.[1] ?? ''}`;
      return { text: lines.map((line) => line['QUERY PLAN']).join('\n'), columns: index?.columns };
    });
    expect(plan.columns, plan.text).toBe(listed.columns);
    expect(plan.text).not.toMatch(/Sort|Bitmap|Seq Scan|Filter: .*created_at/);
    if (listed.page.after) expect(plan.text).toMatch(/Index Cond: .*ROW\(/);
  });

  test.each([
    ['another length', { limit: 27 }, { kind: 'company' as const }],
    ['less than a company in reach', {}, { kind: 'team' as const, id: randomUUID() }],
  ])('a page with %s is no such page', async (_, more, reach) => {
    const before = await pool.use(keptBy);
    const [{ page }] = pagesOf(object) as [Listed];
    await list({ object, page: { ...page, ...more }, columns: '' }, reach);
    const kept = (await pool.use(keptBy)).filter(({ name }) => !before.some((each) => each.name === name));
    expect(kept.every(({ generic }) => generic === 0)).toBe(true);
  });
});

test.each(agedFields)(
  '$object by age of one value of $field, of a length that few ask for, are planned for the value each time',
  async ({ object, field }) => {
    const page: Page = {
      sort: [{ field: 'created_at', descending: true }],
      filter: isOne(field),
      ...{ after: undefined, limit: 33 },
    };
    const before = new Map((await pool.use(keptBy)).map(({ name, custom }) => [name, custom]));
    for (let time = 0; time < 7; time += 1) await list({ object, page, columns: '' }, { kind: 'company' });
    const used = (await pool.use(keptBy)).filter(({ name, custom }) => custom - (before.get(name) ?? 0) === 7);
    expect(used.map(({ generic }) => generic)).toEqual([0]);
  },
);
