// The end of a company: its rows and files, removed step by step, and the row that says so.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** Closes a company: from now on no credential of it is good. @returns when its subscription ended */
export async function closeCompany(sql: Sql, companyId: string): Promise<Date | null> {
  const [row] = await sql<{ endedAt: Date | null }[]>`
    update companies set status = 'deleting'
    where id = ${companyId}
    returning (select ended_at from subscriptions where company_id = ${companyId}) as ended_at`;
  return row?.endedAt ?? null;
}

/** False where it is being removed, or is gone. */
export async function isCompanyOpen(sql: Sql, companyId: string): Promise<boolean> {
  const [row] = await sql`select from companies where id = ${companyId} and status = 'active'`;
  return row !== undefined;
}

/** Removes some rows; under the role of the purge. @returns how many; 0 when none are left but the files */
export async function purgeSome(sql: Sql, companyId: string, most: number): Promise<number> {
  const [row] = await sql<{ removed: number }[]>`
    select purge_some(${companyId}, ${most}) as removed from companies where id = ${companyId}`;
  return row?.removed ?? 0;
}

export interface FileOfCompany {
  companyId: string;
  testMode: boolean;
  id: string;
}

export async function findFilesOf(sql: Sql, companyId: string, limit: number): Promise<FileOfCompany[]> {
  return await sql<FileOfCompany[]>`
    select company_id, test_mode, id from stored_files
    where company_id = ${companyId} order by test_mode, id limit ${limit}`;
}

export async function forgetFiles(sql: Sql, companyId: string, ids: readonly string[]): Promise<void> {
  await sql`delete from stored_files where company_id = ${companyId} and id = any(${[...ids]}::uuid[])`;
}

/** What was removed of a company so far. */
export interface Removed {
  endedAt: Date | null;
  rows: number;
  files: number;
}

/** Notes what was removed, beside what was noted before. @param purgedAt null: there is more */
export async function noteRemoved(
  sql: Sql,
  companyId: string,
  { endedAt, rows, files }: Removed,
  purgedAt: Date | null,
): Promise<void> {
  await sql`
    insert into purged_companies (company_id, ended_at, purged_at, removed_rows, removed_files)
    values (${companyId}, ${endedAt}, ${purgedAt}, ${rows}, ${files})
    on conflict (company_id) do update
    set purged_at = excluded.purged_at, removed_rows = purged_companies.removed_rows + excluded.removed_rows,
      removed_files = purged_companies.removed_files + excluded.removed_files`;
}

/** Removes the company itself, with its subscription. */
export async function removeCompany(sql: Sql, companyId: string): Promise<void> {
  await sql`delete from companies where id = ${companyId}`;
}

/** Milliseconds after which nothing is under way any more that began before a company was removed. */
const stragglingTime = 10 * 60_000;

/** Companies that were removed, and may have been written to meanwhile. */
export async function findUnswept(
  sql: Sql,
  besides: readonly string[],
  limit: number,
  now: Date,
): Promise<TenantScope[]> {
  return await sql<TenantScope[]>`
    select company_id, false as test_mode from purged_companies
    where swept_at is null and purged_at <= ${new Date(now.getTime() - stragglingTime)} and company_id <> all(${[...besides]}::uuid[])
    order by purged_at
    limit ${limit}`;
}

/** Removes what was written to a company while it was removed. @returns how many rows; 0 when none are left, which is noted */
export async function sweepSome(sql: Sql, companyId: string, most: number, now: Date): Promise<number> {
  const [row] = await sql<{ removed: number }[]>`
    select purge_some(${companyId}, ${most}) as removed from purged_companies where company_id = ${companyId}`;
  const removed = row?.removed ?? 0;
  await sql`
    update purged_companies
    set removed_rows = removed_rows + ${removed}, swept_at = ${removed === 0 ? now : null}
    where company_id = ${companyId}`;
  return removed;
}
