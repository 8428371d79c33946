// Figures by day for the charts of the console: calls, calls that failed, and new records.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { getRecordTable } from '../records/columns.ts';
import { mostCounted } from './attention.ts';

export interface DayFigures {
  /** Calls with keys of the mode on the real day, and those of them that were answered with an error. */
  calls: number;
  failures: number;
  /** Records that were created on the day of the mode and still exist; at most `mostCounted`. */
  created: number;
}

/** A day of a chart: of calls, by real time, and of records, by the time of the mode. */
export interface ChartDay {
  /** YYYY-MM-DD. */
  calls: string;
  records: string;
}

/**
 * Returns the figures of days, in their order. Each day of an object is a range of an index, and no
 * more records than `mostCounted` are read for a day, however many exist.
 * @param objects names of built-in and custom objects whose records are counted
 */
export async function countByDay(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  days: readonly ChartDay[],
  objects: readonly string[],
): Promise<DayFigures[]> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode} and created_at >= d.from_time and created_at < d.to_time`;
  // Only the index by time of creation has this order.
  const oldestFirst = sql`order by created_at, id`;
  const builtIn = objects.filter((object) => getRecordTable(object).name !== customRecords);
  const custom = objects.filter((object) => !builtIn.includes(object));
  const parts = [
    ...builtIn.map(
      (object) =>
        sql`(select 1 from ${sql(getRecordTable(object).name)} where ${own} ${oldestFirst} limit ${mostCounted})`,
    ),
    ...custom.map(
      (object) =>
        sql`(select 1 from custom_records where ${own} and object = ${object} ${oldestFirst} limit ${mostCounted})`,
    ),
  ];
  const [first, ...rest] = parts;
  const created = first
    ? sql`(select count(*)::int from (${first} ${rest.map((part) => sql`union all ${part}`)} limit ${mostCounted}) as counted)`
    : sql`0`;
  return sql<DayFigures[]>`
    select coalesce(c.calls, 0)::bigint as calls, coalesce(c.failures, 0)::bigint as failures, ${created} as created
    from unnest(${days.map(({ calls }) => calls)}::date[],
        ${days.map(({ records }) => `${records}T00:00:00Z`)}::timestamptz[],
        ${days.map(({ records }) => addDay(records))}::timestamptz[])
      with ordinality as d (day, from_time, to_time, number)
    left join (
      select k.day, sum(k.calls) as calls, sum(k.failures) as failures
      from api_key_days k
      join api_keys a on a.company_id = ${companyId} and a.id = k.api_key_id and a.environment = ${testMode ? 'test' : 'live'}
      where k.company_id = ${companyId} and k.day >= ${days[0]?.calls ?? null}
      group by k.day
    ) c on c.day = d.day
    order by d.number`;
}

const customRecords = 'custom_records';

const addDay = (day: string): string => new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString();
