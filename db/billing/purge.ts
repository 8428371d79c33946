// The purge of a company: its rows and files are removed step by step, and one row records that.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/**
 * Closes a company: from now on, its credentials are rejected.
 * @returns when its subscription ended
 */
export async function closeCompany(sql: Sql, companyId: string): Promise<Date | null> {
  const [row] = await sql<{ endedAt: Date | null }[]>`
    update companies set status = 'deleting'
    where id = ${companyId}
    returning (select ended_at from subscriptions where company_id = ${companyId}) as ended_at`;
  return row?.endedAt ?? null;
}

/** Returns false if the company is being removed, or no longer exists. */
export async function isCompanyOpen(sql: Sql, companyId: string): Promise<boolean> {
  const [row] = await sql`select from companies where id = ${companyId} and status = 'active'`;
  return row !== undefined;
}

/**
 * Removes some rows. For the role of the purge.
 * @returns how many; 0 if nothing but files is left
 */
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

export async function listCompanyFiles(sql: Sql, companyId: string, limit: number): Promise<FileOfCompany[]> {
  return await sql<FileOfCompany[]>`
    select company_id, test_mode, id from stored_files
    where company_id = ${companyId} order by test_mode, id limit ${limit}`;
}

export async function forgetFiles(sql: Sql, companyId: string, ids: readonly string[]): Promise<void> {
  await sql`delete from stored_files where company_id = ${companyId} and id = any(${[...ids]}::uuid[])`;
}

/** The removed parts of a company so far. */
export interface Removed {
  endedAt: Date | null;
  rows: number;
  files: number;
}

/**
 * Adds to the record of what was removed.
 * @param purgedAt null: the purge continues
 */
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

/** Milliseconds after which no request that began before the removal of a company can still run. */
const longestRequest = 10 * 60_000;

/** Finds removed companies to which requests may have written during their removal. */
export async function findUnswept(
  sql: Sql,
  besides: readonly string[],
  limit: number,
  now: Date,
): Promise<TenantScope[]> {
  return await sql<TenantScope[]>`
    select company_id, false as test_mode from purged_companies
    where swept_at is null and purged_at <= ${new Date(now.getTime() - longestRequest)} and company_id <> all(${[...besides]}::uuid[])
    order by purged_at
    limit ${limit}`;
}

/**
 * Removes rows that were written to a company during its removal.
 * @returns how many; 0 if none are left, which is recorded
 */
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
