// The clock of a tenant's test mode: how far it is ahead, and which rows are due by it.
import type { Fragment } from 'postgres';
import type { Sql } from './pool.ts';
import type { TenantScope } from './tenant.ts';

/**
 * The time by which a run of a job looks for due rows. A run either handles all rows except those
 * of test mode with a clock that is ahead, or only the rows of one such clock.
 */
export interface DueTime {
  now: Date;
  /** The company whose test mode is handled; undefined: all others. */
  clockOf?: string | undefined;
}

/**
 * Returns an expression for the seconds by which the test clock of a company `c` is ahead; 0 for a
 * company without one.
 */
export const selectClockAhead = (sql: Sql): Fragment =>
  sql`coalesce((select ahead_seconds from test_clocks where company_id = c.id), 0) as clock_ahead_seconds`;

/**
 * Returns the condition that a row belongs to the run of a job.
 * @param table its name or alias in the statement
 * @param isTest the condition that a row belongs to test mode
 */
export function belongsToRun(
  sql: Sql,
  table: string,
  { clockOf }: DueTime,
  isTest = sql`${sql(table)}.test_mode`,
): Fragment {
  return clockOf === undefined
    ? sql`not (${isTest} and exists (select from test_clocks where test_clocks.company_id = ${sql(table)}.company_id))`
    : sql`${sql(table)}.company_id = ${clockOf} and ${isTest}`;
}

/** Returns the seconds by which the clock of a tenant is ahead of the real time; 0 in live mode. */
export async function findClockAhead(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  if (!testMode) return 0;
  const [clock] = await sql<{ aheadSeconds: number }[]>`
    select ahead_seconds from test_clocks where company_id = ${companyId}`;
  return clock?.aheadSeconds ?? 0;
}

/**
 * Returns the same seconds, and keeps the clock until the transaction ends. It can be advanced
 * meanwhile, but not be removed. 0 if it is being removed: nothing waits for that.
 */
export async function holdClock(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  if (!testMode) return 0;
  const [clock] = await sql<{ aheadSeconds: number }[]>`
    select ahead_seconds from test_clocks where company_id = ${companyId} for key share skip locked`;
  return clock?.aheadSeconds ?? 0;
}

/**
 * Returns the condition that a row of `api_keys` has not expired. Test keys expire by the clock of
 * test mode.
 */
export const isUnexpiredKey = (sql: Sql, companyId: string, now: Date): Fragment => sql`
  (expires_at is null or expires_at > ${now}::timestamptz + case environment when 'test' then coalesce((
    select ahead_seconds from test_clocks where test_clocks.company_id = ${companyId}
  ), 0) else 0 end * interval '1 second')`;

/** Returns the time now by the clock of a tenant. */
export async function readTenantTime(sql: Sql, scope: TenantScope): Promise<Date> {
  const ahead = await findClockAhead(sql, scope);
  return new Date(Date.now() + ahead * 1000);
}
