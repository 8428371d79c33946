// The do-not-call list: numbers that receive no messages, separate for each mode.

import type { Actor, CreatedByRow } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface DncRow extends CreatedByRow {
  id: string;
  /** E.164. */
  phoneNumber: string;
  reason: string | null;
  notes: string | null;
  source: 'api' | 'app' | 'import' | 'opt_out';
  createdAt: Date;
}

const columns = [
  'id',
  'phone_number',
  'reason',
  'notes',
  'source',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
];

/**
 * Returns entries, the newest first.
 * @param patterns patterns of LIKE, at least one of which must match
 * @param after time and id of the last entry of the previous page
 */
export async function listDnc(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  patterns: readonly string[] | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<DncRow[]> {
  // Finds the page with the index alone, so that only its own rows are read.
  return sql<DncRow[]>`
    with page as materialized (
      select id from do_not_call
      where company_id = ${companyId} and test_mode = ${testMode}
        ${patterns === undefined ? sql`` : sql`and phone_number like any (${[...patterns]}::text[])`}
        ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
      order by created_at desc, id desc
      limit ${limit}
    )
    select ${sql(columns)} from do_not_call
    where company_id = ${companyId} and test_mode = ${testMode} and id in (select id from page)
    order by created_at desc, id desc`;
}

/**
 * Adds a number, unless it is on the list.
 * @returns the stored entry, and whether it is new
 */
export async function addDnc(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  entry: Omit<DncRow, keyof CreatedByRow>,
  by: Actor,
): Promise<{ entry: DncRow; isNew: boolean }> {
  const created = { createdByKind: by.kind, createdById: by.id, createdByName: by.name };
  const added = await sql`
    insert into do_not_call ${sql({ companyId, testMode, ...entry, ...created })}
    on conflict (company_id, test_mode, phone_number) do nothing`;
  if (added.count === 1) return { entry: { ...entry, ...created }, isNew: true };
  const [row] = await sql<DncRow[]>`
    select ${sql(columns)} from do_not_call
    where company_id = ${companyId} and test_mode = ${testMode} and phone_number = ${entry.phoneNumber}`;
  if (!row) throw new Error('an entry of the do-not-call list was removed, although nothing removes entries');
  return { entry: row, isNew: false };
}

/** Returns which of these numbers are on the list. */
export async function findListedNumbers(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  numbers: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ phoneNumber: string }[]>`
    select phone_number from do_not_call
    where company_id = ${companyId} and test_mode = ${testMode} and phone_number = any(${[...numbers]}::text[])`;
  return new Set(rows.map((row) => row.phoneNumber));
}
