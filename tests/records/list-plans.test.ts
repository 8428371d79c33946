// A page in the order of an index reads only that index, with one generic plan for all callers.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Pool, type Sql } from '../../db/client/pool.ts';
import { Transaction } from '../../db/client/transaction.ts';
import type { Reach } from '../../db/client/visibility.ts';
import { getRecordTable } from '../../db/records/columns.ts';
import type { Page } from '../../db/records/pages.ts';
import { listRecords } from '../../db/records/records.ts';
import type { Filter } from '../../domain/objects/filter.ts';
import { tried } from '../support/noted-statements.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const objects = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'object:boats'];
const limit = 26;
const after = ['2026-01-01T00:00:00.000Z', '019a9f5e-7c1b-7cc3-8f3a-2d1c1f6f0000'];

interface Listed {
  object: string;
  page: Page;
  /** The columns of the index after the company and the mode. */
  columns: string;
}

/** Returns a first page and a later one, newest and oldest first. */
const bothWays = (object: string, columns: string, field: string, filter?: Filter): Listed[] =>
  [true, false].flatMap((descending) =>
    [undefined, after].map((from) => {
      return { object, columns, page: { sort: [{ field, descending }], filter, after: from, limit } };
    }),
  );

const isOne = (field: string): Filter => ({ field, op: 'eq', value: randomUUID() });

function listPages(object: string): Listed[] {
  const { object: own, columns } = getRecordTable(object);
  const ages = ['created_at', 'updated_at'].flatMap((field) =>
    bothWays(object, `${own === undefined ? '' : 'object, '}${field}, id`, field),
  );
  const ofOneValue = [...columns].flatMap(([field, { byAge, name }]) =>
    byAge ? bothWays(object, `${name}, created_at, id`, 'created_at', isOne(field)) : [],
  );
  return [...ages, ...ofOneValue];
}

const agedFields = objects.flatMap((object) =>
  [...getRecordTable(object).columns].flatMap(([field, { byAge }]) => (byAge ? [{ object, field }] : [])),
);

let pool: Pool;
let tenant: Tenant;
beforeAll(async () => {
  const settings = { prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
  pool = new Pool({ url: inject('databaseUrl'), role: tried('crm_app'), lanes: 1, ...settings });
  tenant = await newTenant();
});
afterAll(() => pool.close(1));

const list = async ({ object, page }: Listed, reach: Reach = { kind: 'company' }) => {
  const { companyId } = tenant;
  const transaction = await Transaction.open(pool, { companyId, testMode: false }, { reads: 'many' });
  const actor = { kind: 'api_key' as const, id: randomUUID(), name: 'Test' };
  const scope = { companyId, testMode: false, reach, actor, userId: null };
  await listRecords(transaction.sql, scope, object, page);
  transaction.endRead();
};

interface Kept {
  name: string;
  statement: string;
  /** Types of the parameters. */
  parameters: string[];
  custom: number;
  generic: number;
}

/**
 * Returns the prepared statements of the connection with the numbers of custom and generic plans.
 */
const listPrepared = (sql: Sql) => sql<Kept[]>`
  select name, statement, parameter_types::text[] as parameters, custom_plans::int as custom, generic_plans::int as generic
  from pg_prepared_statements where statement like ${'%order by%limit %'} order by prepare_time`;

/** Requests a page twice. @returns its statement, which used its generic plan both times */
async function planOnce(listed: Listed): Promise<Kept> {
  const before = new Map((await pool.use(listPrepared)).map(({ name, generic }) => [name, generic]));
  await list(listed);
  await list(listed);
  const used = (await pool.use(listPrepared)).filter(({ name, generic }) => generic - (before.get(name) ?? 0) === 2);
  expect(used).toHaveLength(1);
  return used[0] as Kept;
}

/**
 * Returns the plan of a prepared statement, and the columns of its index after the company and the
 * mode.
 */
async function explain(sql: Sql, name: string, parameters: readonly string[]) {
  const values = parameters.length > 0 ? `(${parameters.map(() => 'null').join(', ')})` : '';
  const lines = await sql.unsafe(`explain execute "${name}" ${values}`);
  const text = lines.map((line) => line['QUERY PLAN']).join('\n');
  const [index] = await sql<{ columns: string }[]>`
    select substring(indexdef from '\\(company_id, test_mode, ([^)]*)\\)') as columns from pg_indexes
    where schemaname = any(current_schemas(false)) and indexname = ${/Index Scan (?:Backward )?using (\w+)/.exec(text)?.[1] ?? ''}`;
  return { text, columns: index?.columns };
}

describe.each(objects)('pages of %s', (object) => {
  test.each(listPages(object))('reads a page of $page by the index on $columns alone', async (listed) => {
    const { name, parameters } = await planOnce(listed);
    const plan = await pool.use(async (sql) => {
      await sql`select set_config('plan_cache_mode', 'force_generic_plan', false)`;
      const read = await explain(sql, name, parameters);
      await sql`select set_config('plan_cache_mode', 'auto', false)`;
      return read;
    });
    expect(plan.columns, plan.text).toBe(listed.columns);
    expect(plan.text).not.toMatch(/Sort|Bitmap|Seq Scan|Filter: .*created_at/);
    if (listed.page.after) expect(plan.text).toMatch(/Index Cond: .*ROW\(/);
  });

  test('uses no generic plan for pages of an uncommon length', async () => {
    const before = await pool.use(listPrepared);
    for (const { page } of listPages(object)) await list({ object, page: { ...page, limit: 27 }, columns: '' });
    const kept = (await pool.use(listPrepared)).filter(({ name }) => !before.some((each) => each.name === name));
    expect(kept.every(({ generic }) => generic === 0)).toBe(true);
  });

  test('uses no generic plan for pages of one value with limited visibility', async () => {
    const before = await pool.use(listPrepared);
    for (const listed of listPages(object).filter(({ page }) => page.filter))
      await list(listed, { kind: 'team', id: randomUUID() });
    const kept = (await pool.use(listPrepared)).filter(({ name }) => !before.some((each) => each.name === name));
    expect(kept.every(({ generic }) => generic === 0)).toBe(true);
  });
});

test.each(agedFields)(
  'plans a page of uncommon length of $object with one value of $field for each value separately',
  async ({ object, field }) => {
    const page: Page = {
      sort: [{ field: 'created_at', descending: true }],
      filter: isOne(field),
      after: undefined,
      limit: 33,
    };
    const before = new Map((await pool.use(listPrepared)).map(({ name, custom }) => [name, custom]));
    for (let time = 0; time < 7; time += 1) await list({ object, page, columns: '' });
    const used = (await pool.use(listPrepared)).filter(({ name, custom }) => custom - (before.get(name) ?? 0) === 7);
    expect(used.map(({ generic }) => generic)).toEqual([0]);
  },
);

test('reads pages of one value by its index, even if an index by age is smaller because each company has one record', async () => {
  const pages = listPages('leads').filter(({ page }) => page.filter);
  const kept: Kept[] = [];
  for (const listed of pages) kept.push(await planOnce(listed));
  const undone = new Error('Undone');
  const plans: unknown[] = [];
  const looked = database().begin(async (sql) => {
    await sql`create schema many_small`;
    await sql`create table many_small.leads (like public.leads including indexes)`;
    await sql`
      insert into many_small.leads (company_id, test_mode, id, custom, version, created_by_kind, created_by_id, created_at, updated_at, lead_status_id, assigned_to)
      select gen_random_uuid(), false, gen_random_uuid(), '{}', 1, 'api_key', '', now(), now(), gen_random_uuid(), gen_random_uuid()
      from generate_series(1, 20000)`;
    await sql`analyze many_small.leads`;
    await sql`select set_config('search_path', 'many_small, public', true), set_config('enable_sort', 'off', true),
      set_config('plan_cache_mode', 'force_generic_plan', true)`;
    for (const [index, { statement, parameters }] of kept.entries()) {
      await sql.unsafe(`prepare small_${index} (${parameters.join(', ')}) as ${statement}`);
      plans.push((await explain(sql, `small_${index}`, parameters)).columns);
    }
    throw undone;
  });
  await expect(looked).rejects.toBe(undone);
  expect(plans).toEqual(pages.map(({ columns }) => columns));
});
