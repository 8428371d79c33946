// The usage of a company: calls by key and by day, and the size of its files.
import type { Sql } from '../client/pool.ts';
import { removeByCompany } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface KeyCalls {
  keyId: string;
  name: string;
  calls: number;
}

/**
 * Returns the calls of each key of the mode since a day, the busiest first.
 * @param since YYYY-MM-DD
 */
export async function countCallsByKey(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  since: string,
): Promise<KeyCalls[]> {
  return await sql<KeyCalls[]>`
    select k.id as key_id, k.name, sum(d.calls)::bigint as calls
    from api_key_days d
    join api_keys k on k.company_id = ${companyId} and k.id = d.api_key_id and k.environment = ${testMode ? 'test' : 'live'}
    where d.company_id = ${companyId} and d.day >= ${since}
    group by k.id, k.name
    order by calls desc, k.id`;
}

/**
 * Returns the calls of all keys of the mode for each day since a day, the oldest first.
 * @param since YYYY-MM-DD
 */
export async function countCallsByDay(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  since: string,
): Promise<{ day: string; calls: number }[]> {
  return await sql<{ day: string; calls: number }[]>`
    select d.day, sum(d.calls)::bigint as calls
    from api_key_days d
    join api_keys k on k.company_id = ${companyId} and k.id = d.api_key_id and k.environment = ${testMode ? 'test' : 'live'}
    where d.company_id = ${companyId} and d.day >= ${since}
    group by d.day
    order by d.day`;
}

/** Bytes of the files of the mode, with those of deleted records, which can be restored. */
export async function sumStoredBytes(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  const [row] = await sql<{ bytes: number }[]>`
    select coalesce(sum(bytes), 0)::bigint as bytes
    from (
      select size_bytes as bytes from attachments
      where company_id = ${companyId} and test_mode = ${testMode}
      union all
      select (document ->> 'size_bytes')::bigint from deleted_items
      where company_id = ${companyId} and test_mode = ${testMode} and kind = 'attachments'
    ) file`;
  return row?.bytes ?? 0;
}

/** Days for which daily counts are kept. */
const keptDays = 400;

/**
 * Removes expired counts.
 * @returns how many, at most the limit
 */
export async function sweepKeyDays(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000).toISOString().slice(0, 10);
  const due = await sql<{ companyId: string; day: string; keyId: string }[]>`
    select company_id, day, api_key_id as key_id from api_key_days
    where day < ${before} order by day limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from api_key_days
      where company_id = ${companyId} and day < ${before} and api_key_id = any(${rows.map(({ keyId }) => keyId)}::uuid[])`;
    return removed.count;
  });
}
