// Large objects: sort orders and filters that an index serves from any position.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Column, getRecordTable } from '../../db/records/columns.ts';
import type { KeyValue, Page } from '../../db/records/pages.ts';
import { listRecords } from '../../db/records/records.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { explaining } from '../support/explained-statements.ts';
import { newCustomField } from '../support/records.ts';
import { database, newTenant, rowDatabase, type Tenant, useDatabase } from '../support/tenants.ts';

const objects = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities'];
const always = ['id', 'created_at', 'updated_at'];
/** Only the operations of activities return these, and neither sort nor filter by them. */
const isOwn = (field: string): boolean => field.startsWith('_');
const listColumns = (object: string): [string, Column][] =>
  [...getRecordTable(object).columns].filter(([field]) => !isOwn(field));
const sortable = objects.flatMap((object) =>
  listColumns(object)
    .filter(([field, { indexed }]) => indexed || always.includes(field))
    .map(([field, column]) => [object, field, column] as const),
);
const named = objects.flatMap((object) =>
  listColumns(object).map(([field, column]) => [object, field, column] as const),
);

const samples: Readonly<Record<Column['type'], KeyValue>> = {
  text: 'm',
  uuid: '01a1fd0e-6341-7632-a972-e349426ef408',
  number: 7,
  date: '2026-01-15',
  timestamp: '2026-01-15T10:00:00.000Z',
};

let tenant: Tenant;
// The rows of other test files could have given this database statistics by which two indexes of an
// empty tenant cost the same.
beforeAll(async () => {
  await useDatabase(await newDatabase());
  tenant = await newTenant();
});
afterAll(async () => {
  await useDatabase(undefined);
  await dropAllDatabases();
});

/**
 * Returns the plans of a page's statements as a tenant's request gets them. Reads no rows.
 * @param without indexes that the planner does not see, because it prefers them for small tables
 */
async function readPlans(
  object: string,
  page: Page,
  allowed: 'sorts' | 'no sorts',
  without: readonly string[] = [],
): Promise<string[]> {
  const plans: string[] = [];
  const undo = new Error('rolled back');
  const read = rowDatabase().begin(async (sql) => {
    for (const index of without) await sql`drop index ${sql(index)}`;
    await sql`select set_config('app.company_id', ${tenant.companyId}, true), set_config('app.test_mode', 'false', true)`;
    await sql`set local role crm_app`;
    // The tables are small. Without sequential scans, the planner chooses as for large ones.
    await sql`set local enable_seqscan = off`;
    await sql`set local enable_bitmapscan = off`;
    if (allowed === 'no sorts') await sql`set local enable_sort = off`;
    const scope = {
      companyId: tenant.companyId,
      testMode: false,
      reach: { kind: 'company' as const },
      actor: { kind: 'api_key' as const, id: 'test', name: null },
      userId: null,
    };
    await listRecords(explaining(sql, plans) as never, scope, object, page);
    throw undo;
  });
  await read.catch((error: unknown) => {
    if (error !== undo) throw error;
  });
  return plans;
}

/** Returns the first column of each index, after those that all rows of an object share. */
async function readLeadingColumns(table: string): Promise<(string | undefined)[]> {
  const rows = await database()<{ columns: string[] }[]>`
    select array(select attname from unnest(i.indkey::int[]) with ordinality k (number, place)
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number order by place)::text[] as columns
    from pg_index i where i.indrelid = ${table}::regclass`;
  const shared = ['company_id', 'test_mode', ...(table === 'custom_records' ? ['object'] : [])];
  return rows.map(({ columns }) => columns.find((name) => !shared.includes(name)));
}

describe('sort orders that the API documents as fast', () => {
  test.each(sortable)(
    'reads every page of %s by %s from an index, in both directions and from any position',
    async (object, field, column) => {
      for (const descending of [false, true]) {
        const own = samples[column.type];
        const starts = [
          undefined,
          field === 'id' ? [own] : [own, samples.uuid],
          ...(column.filled ? [] : [[null, samples.uuid]]),
        ];
        for (const after of starts) {
          const page = { sort: [{ field, descending }], filter: undefined, after, limit: 26 };
          const plans = await readPlans(object, page, 'no sorts');
          expect(plans.length).toBeGreaterThan(0);
          for (const plan of plans) {
            expect(plan).toContain('Index Scan');
            expect(plan).not.toContain('Sort');
          }
          // The page begins with an index condition on the cursor.
          if (after && after[0] !== null) expect(plans[0]).toMatch(/Index Cond: .*(ROW\(|id [<>]|<=|>=)/);
        }
      }
    },
  );
});

describe('filters that the API documents as fast', () => {
  test.each(named.filter(([, , column]) => !column.long || column.hashed))(
    'finds %s by %s through an index',
    async (object, field, column) => {
      const stored = column.hashed ? `${column.name}_hash` : column.name;
      expect(await readLeadingColumns(object)).toContain(stored);
      expect(field).toBeTruthy();
    },
  );

  test.each(named.filter(([, , column]) => column.caseless))('%s by the beginning of %s', async (object, field) => {
    const filter = { field, op: 'starts_with', value: 'm_%' } as const;
    const page = { sort: [{ field, descending: false }], filter, after: undefined, limit: 26 };
    const [plan] = await readPlans(object, page, 'no sorts');
    // The plan shows the change of the collation as a cast.
    const column = `\\(${field}\\)::text`;
    expect(plan).toMatch(
      new RegExp(`${object}_by_${field} [^]*Index Cond: .*${column} >= 'm_%'::text.*${column} < 'm_&'::text`),
    );
  });

  test.each([...objects, 'object:visits'])('finds %s by created_by through an index, in order', async (object) => {
    const filter = { field: 'created_by', op: 'eq', value: 'x' } as const;
    // Activities are found in the order in which they were performed.
    const sort = [{ field: object === 'activities' ? 'performed_at' : 'created_at', descending: true }];
    const [plan] = await readPlans(object, { sort, filter, after: undefined, limit: 26 }, 'no sorts');
    expect(plan).toMatch(new RegExp(`${getRecordTable(object).name}_of_creator [^]*Index Cond: .*created_by_id`));
  });

  test.each([...objects, 'object:visits'])('finds %s by updated_by through an index', async (object) => {
    expect(await readLeadingColumns(getRecordTable(object).name)).toContain('updated_by_id');
  });

  test.each(['leads', 'deals', 'customers'])('finds %s by their next SLA deadline through an index', async (object) => {
    const filter = { field: 'sla_due_at', op: 'lte', value: '2036-01-01T00:00:00Z' } as const;
    const sort = [{ field: 'created_at', descending: true }];
    const others = ['sla_clocks_open', 'sla_clocks_of_record'];
    const [plan] = await readPlans(object, { sort, filter, after: undefined, limit: 26 }, 'sorts', others);
    expect(plan).toMatch(/using sla_clocks_deadlines [\s\S]*Index Cond: .*due_at <= /);
    expect(plan).not.toContain('Seq Scan on sla_clocks');
  });

  test.each(['eq', 'neq', 'in', 'not_in'] as const)(
    'looks up the SLA deadline of a record once for %s, however many values there are',
    async (op) => {
      const values = Array.from({ length: 200 }, (_, index) => new Date(Date.UTC(2036, 0, 1, 0, index)).toISOString());
      const isList = op === 'in' || op === 'not_in';
      const filter = { field: 'sla_due_at', op, ...(isList ? { values } : { value: values[0] }) } as Page['filter'];
      const sort = [{ field: 'created_at', descending: true }];
      const [plan] = await readPlans('leads', { sort, filter, after: undefined, limit: 26 }, 'sorts');
      expect(plan?.match(/ on sla_clocks c/g)).toHaveLength(1);
    },
  );

  test.each([...objects, 'object:visits'])(
    'finds values of custom fields of %s by an index, with eq and in',
    async (object) => {
      if (objects.includes(object)) await newCustomField(tenant, object, 'external_ref');
      for (const filter of [
        { field: 'external_ref', op: 'eq', value: 'A-1' },
        { field: 'external_ref', op: 'in', values: ['A-1', 'A-2'] },
      ] as const) {
        const page = { sort: [{ field: 'created_at', descending: true }], filter, after: undefined, limit: 26 };
        const [plan] = await readPlans(object, page, 'sorts');
        expect(plan).toContain('custom_value_hashes_pkey');
      }
    },
  );
});
