// Saved definitions of reports. Callers that change them have locked the owned settings.
import { toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { type OwnedRow, type OwnedTable, type Owner, selectOwned } from '../settings/owned-settings.ts';

export interface SavedReportSettings {
  name: string;
  config: Record<string, unknown>;
  isShared: boolean;
}

export interface SavedReportRow extends OwnedRow, SavedReportSettings {}

export const savedReportTable: OwnedTable<SavedReportRow> = { name: 'saved_reports', columns: ['config'] };

export async function insertSavedReport(
  sql: Sql,
  owner: Owner,
  { id, object, ...settings }: SavedReportSettings & { id: string; object: string },
  now: Date,
): Promise<SavedReportRow> {
  const by = toCreatedColumns(owner);
  const { name, config, isShared } = settings;
  const [row] = await sql<SavedReportRow[]>`
    insert into saved_reports (company_id, id, object, name, config, is_shared,
      created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
    values (${owner.companyId}, ${id}, ${object}, ${name}, ${sql.json(config as never)}, ${isShared},
      ${by.createdByKind}, ${by.createdById}, ${by.createdByName}, ${by.createdByUser}::uuid, ${now}, ${now})
    returning ${selectOwned(sql, savedReportTable)}`;
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
    returning ${selectOwned(sql, savedReportTable)}`;
  return row;
}
