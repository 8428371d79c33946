// Saved views of lists of records. Callers that change them have locked the owned settings.
import { toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { type OwnedRow, type OwnedTable, type Owner, selectOwned } from '../settings/owned-settings.ts';

export interface ViewSettings {
  name: string;
  filter: Record<string, unknown> | null;
  sort: string | null;
  fields: string[] | null;
  isShared: boolean;
}

export interface ViewRow extends OwnedRow, ViewSettings {}

export const viewTable: OwnedTable<ViewRow> = { name: 'saved_views', columns: ['filter', 'sort', 'fields'] };

export async function insertView(
  sql: Sql,
  owner: Owner,
  { id, object, ...settings }: ViewSettings & { id: string; object: string },
  now: Date,
): Promise<ViewRow> {
  const by = toCreatedColumns(owner);
  const { name, filter, sort, fields, isShared } = settings;
  const [row] = await sql<ViewRow[]>`
    insert into saved_views (company_id, id, object, name, filter, sort, fields, is_shared,
      created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
    values (${owner.companyId}, ${id}, ${object}, ${name}, ${filter && sql.json(filter as never)}, ${sort}, ${fields}::text[],
      ${isShared}, ${by.createdByKind}, ${by.createdById}, ${by.createdByName}, ${by.createdByUser}::uuid, ${now}, ${now})
    returning ${selectOwned(sql, viewTable)}`;
  if (!row) throw new Error('an inserted view was not returned');
  return row;
}

/** @returns undefined if it does not exist */
export async function updateView(
  sql: Sql,
  companyId: string,
  id: string,
  { name, filter, sort, fields, isShared }: ViewSettings,
  now: Date,
): Promise<ViewRow | undefined> {
  const [row] = await sql<ViewRow[]>`
    update saved_views
    set name = ${name}, filter = ${filter && sql.json(filter as never)}, sort = ${sort}, fields = ${fields}::text[],
      is_shared = ${isShared}, updated_at = ${now}
    where company_id = ${companyId} and id = ${id}
    returning ${selectOwned(sql, viewTable)}`;
  return row;
}
