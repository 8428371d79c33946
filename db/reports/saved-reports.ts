// Saved definitions of reports. Callers that change them have locked the owned settings.
import { createdColumns } from '../client/created-by.ts';
import { isOwnedBy, isSeenBy, type OwnedRow, type Owner } from '../client/owners.ts';
import type { Sql } from '../client/pool.ts';

export interface SavedReportSettings {
  name: string;
  config: Record<string, unknown>;
  isShared: boolean;
}

export interface SavedReportRow extends OwnedRow, SavedReportSettings {
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  ...['id', 'object', 'name', 'config', 'is_shared', 'created_by_kind', 'created_by_id', 'created_by_name'],
  ...['created_by_user', 'created_at', 'updated_at'],
];

/**
 * Returns definitions on these objects that are shared or belong to the caller, newest first.
 * @param after created_at and id of the last row of the previous page
 */
export async function listSavedReports(
  sql: Sql,
  owner: Owner,
  objects: readonly string[],
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<SavedReportRow[]> {
  return sql<SavedReportRow[]>`
    select ${sql(columns)}
    from saved_reports
    where company_id = ${owner.companyId} and ${isSeenBy(sql, owner, objects)}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Returns a definition on one of these objects that is shared or belongs to the caller. */
export async function findSavedReport(
  sql: Sql,
  owner: Owner,
  objects: readonly string[],
  id: string,
): Promise<SavedReportRow | undefined> {
  const [row] = await sql<SavedReportRow[]>`
    select ${sql(columns)}
    from saved_reports
    where company_id = ${owner.companyId} and id = ${id} and ${isSeenBy(sql, owner, objects)}`;
  return row;
}

/** Counts the shared definitions of the company, or those of an owner that are not shared. */
export async function countSavedReports(
  sql: Sql,
  companyId: string,
  counted: 'shared' | { ownerId: string },
): Promise<number> {
  const isCounted = counted === 'shared' ? sql`is_shared` : sql`not is_shared and ${isOwnedBy(sql, counted.ownerId)}`;
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from saved_reports where company_id = ${companyId} and ${isCounted}`;
  return row?.count ?? 0;
}

/** Returns the owner's definition on an object with this name, ignoring case. */
export async function findSavedReportByName(
  sql: Sql,
  companyId: string,
  { object, ownerId, name }: { object: string; ownerId: string; name: string },
): Promise<{ id: string; name: string } | undefined> {
  const [row] = await sql<{ id: string; name: string }[]>`
    select id, name from saved_reports
    where company_id = ${companyId} and object = ${object} and ${isOwnedBy(sql, ownerId)}
      and fold_name(name) = fold_name(${name})`;
  return row;
}

export async function insertSavedReport(
  sql: Sql,
  owner: Owner,
  { id, object, ...settings }: SavedReportSettings & { id: string; object: string },
  now: Date,
): Promise<SavedReportRow> {
  const by = createdColumns(owner);
  const { name, config, isShared } = settings;
  const [row] = await sql<SavedReportRow[]>`
    insert into saved_reports (company_id, id, object, name, config, is_shared,
      created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
    values (${owner.companyId}, ${id}, ${object}, ${name}, ${sql.json(config as never)}, ${isShared},
      ${by.createdByKind}, ${by.createdById}, ${by.createdByName}, ${by.createdByUser}::uuid, ${now}, ${now})
    returning ${sql(columns)}`;
  if (!row) throw new Error('an inserted report was not returned');
  return row;
}

/** @returns undefined if it does not exist */
export async function updateSavedReport(
  sql: Sql,
  companyId: string,
  id: string,
  { name, config, isShared }: SavedReportSettings,
  now: Date,
): Promise<SavedReportRow | undefined> {
  const [row] = await sql<SavedReportRow[]>`
    update saved_reports
    set name = ${name}, config = ${sql.json(config as never)}, is_shared = ${isShared}, updated_at = ${now}
    where company_id = ${companyId} and id = ${id}
    returning ${sql(columns)}`;
  return row;
}

export async function deleteSavedReport(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from saved_reports where company_id = ${companyId} and id = ${id}`;
}
