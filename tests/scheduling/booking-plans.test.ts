// Large companies: filters of bookings that an index serves from any position.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BookingFilter, listBookings } from '../../db/scheduling/bookings.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { newTenant, rowDatabase, type Tenant, useDatabase } from '../support/tenants.ts';

let tenant: Tenant;
// Rows of other test files could give the database statistics by which two indexes cost the same.
beforeAll(async () => {
  await useDatabase(await newDatabase());
  tenant = await newTenant();
});
afterAll(async () => {
  await useDatabase(undefined);
  await dropAllDatabases();
});

const nothing: BookingFilter = {
  userId: undefined,
  statuses: undefined,
  from: undefined,
  to: undefined,
  after: undefined,
  poolId: undefined,
  attendeeEmail: undefined,
  record: undefined,
  ascending: false,
};

/** Returns the plan of a later page. Without sequential scans, the planner chooses as for large tables. */
async function readPlan(filter: Partial<BookingFilter>): Promise<string> {
  let plan = '';
  await rowDatabase().begin(async (sql) => {
    await sql`select set_config('app.company_id', ${tenant.companyId}, true), set_config('app.test_mode', 'false', true)`;
    await sql`set local role crm_app`;
    await sql`set local enable_seqscan = off`;
    await sql`set local enable_bitmapscan = off`;
    await sql`set local enable_sort = off`;
    const scope = { companyId: tenant.companyId, testMode: false, reach: { kind: 'company' as const } };
    const last = ['2026-12-01T09:00:00.000Z', randomUUID()] as const;
    const explained = new Proxy(sql, {
      apply(target, self, args: [TemplateStringsArray]) {
        const query = Reflect.apply(target as never, self, args);
        // Other templates are parts of the statement.
        return Array.isArray(args[0]) && args[0].join('').includes('order by')
          ? target`explain ${query as never}`
          : query;
      },
    });
    const rows = await listBookings(explained as never, scope, { ...nothing, ...filter }, last, 26);
    plan = rows.map((row) => (row as never)['QUERY PLAN']).join('\n');
  });
  return plan;
}

const filters: [name: string, filter: Partial<BookingFilter>, index: string, condition: string][] = [
  ['attendee', { attendeeEmail: 'sara@example.com' }, 'bookings_of_attendee', 'attendee_email = '],
  ['pool', { poolId: randomUUID() }, 'bookings_of_pool', 'pool_id = '],
  ['record', { record: { object: 'leads', id: randomUUID() } }, 'bookings_of_record', 'record_id = '],
  ['user', { userId: randomUUID() }, 'bookings_of_user', 'user_id = '],
  ['start', { after: new Date('2026-11-01T09:00:00Z') }, 'bookings_listed', 'start_at > '],
];

test.each(filters.flatMap((each) => [true, false].map((ascending) => [...each, ascending] as const)))(
  'finds bookings by %s through an index, in both orders',
  async (_name, filter, index, condition, ascending) => {
    const plan = await readPlan({ ...filter, ascending });
    expect(plan).toMatch(
      new RegExp(`Index Scan ${ascending ? 'Backward ' : ''}using ${index} [^]*Index Cond: .*${condition}`),
    );
    expect(plan).toMatch(/Index Cond: .*ROW\(start_at, id\)/);
    expect(plan).not.toContain('Sort');
  },
);
