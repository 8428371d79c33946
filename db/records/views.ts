// Saved views of lists of records. Callers that change them have locked the owned settings.
import { createdColumns } from '../client/created-by.ts';
import { isOwnedBy, isSeenBy, type OwnedRow, type Owner } from '../client/owners.ts';
import type { Sql } from '../client/pool.ts';

export interface ViewSettings {
  name: string;
  filter: Record<string, unknown> | null;
  sort: string | null;
  fields: string[] | null;
  isShared: boolean;
}

export interface ViewRow extends OwnedRow, ViewSettings {
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  ...['id', 'object', 'name', 'filter', 'sort', 'fields', 'is_shared', 'created_by_kind', 'created_by_id'],
  ...['created_by_name', 'created_by_user', 'created_at', 'updated_at'],
];

/**
 * Returns views of these objects that are shared or belong to the caller, newest first.
 * @param after created_at and id of the last row of the previous page
 */
export async function listViews(
  sql: Sql,
  owner: Owner,
  objects: readonly string[],
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<ViewRow[]> {
  return sql<ViewRow[]>`
    select ${sql(columns)}
    from saved_views
    where company_id = ${owner.companyId} and ${isSeenBy(sql, owner, objects)}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Returns a view of one of these objects that is shared or belongs to the caller. */
export async function findView(
  sql: Sql,
  owner: Owner,
  objects: readonly string[],
  id: string,
): Promise<ViewRow | undefined> {
  const [row] = await sql<ViewRow[]>`
    select ${sql(columns)}
    from saved_views
    where company_id = ${owner.companyId} and id = ${id} and ${isSeenBy(sql, owner, objects)}`;
  return row;
}

/** Counts the shared views of the company, or those of an owner that are not shared. */
export async function countViews(
  sql: Sql,
  companyId: string,
  counted: 'shared' | { ownerId: string },
): Promise<number> {
  const isCounted = counted === 'shared' ? sql`is_shared` : sql`not is_shared and ${isOwnedBy(sql, counted.ownerId)}`;
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from saved_views where company_id = ${companyId} and ${isCounted}`;
  return row?.count ?? 0;
}

/** Returns the owner's view of an object with this name, ignoring case. */
export async function findViewByName(
  sql: Sql,
  companyId: string,
  { object, ownerId, name }: { object: string; ownerId: string; name: string },
): Promise<{ id: string; name: string } | undefined> {
  const [row] = await sql<{ id: string; name: string }[]>`
    select id, name from saved_views
    where company_id = ${companyId} and object = ${object} and ${isOwnedBy(sql, ownerId)}
      and fold_name(name) = fold_name(${name})`;
  return row;
}

export async function insertView(
  sql: Sql,
  owner: Owner,
  { id, object, ...settings }: ViewSettings & { id: string; object: string },
  now: Date,
): Promise<ViewRow> {
  const by = createdColumns(owner);
  const { name, filter, sort, fields, isShared } = settings;
  const [row] = await sql<ViewRow[]>`
    insert into saved_views (company_id, id, object, name, filter, sort, fields, is_shared,
      created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
    values (${owner.companyId}, ${id}, ${object}, ${name}, ${filter && sql.json(filter as never)}, ${sort}, ${fields}::text[],
      ${isShared}, ${by.createdByKind}, ${by.createdById}, ${by.createdByName}, ${by.createdByUser}::uuid, ${now}, ${now})
    returning ${sql(columns)}`;
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
    returning ${sql(columns)}`;
  return row;
}

export async function deleteView(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from saved_views where company_id = ${companyId} and id = ${id}`;
}
