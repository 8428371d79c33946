// Settings that belong to the user or key that made them, and that others see if they are shared.
import type { Fragment } from 'postgres';
import type { Actor, CreatedByRow } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';

/** A caller that can own settings. */
export interface Owner {
  companyId: string;
  actor: Actor;
  /** The user of a session, or for whom an app acts; null for keys. */
  userId: string | null;
}

export interface OwnedRow extends CreatedByRow {
  id: string;
  name: string;
  object: string;
  isShared: boolean;
  createdByUser: string | null;
  createdAt: Date;
  updatedAt: Date;
}

/** A table of owned settings. */
export interface OwnedTable<Row extends OwnedRow> {
  name: 'saved_views' | 'saved_reports';
  /** The columns of the kind, besides those of every owned setting. */
  columns: readonly string[];
  /** Never set. It tells the compiler what the rows are. */
  row?: Row;
}

/** Returns the ID of the owner. A user and the apps that act for the user own the same rows. */
export function getOwnerId(by: { createdByUser: string | null; createdById: string } | Owner): string {
  return 'actor' in by ? (by.userId ?? by.actor.id) : (by.createdByUser ?? by.createdById);
}

/** Returns the condition for rows of an owner. An index has the same expression. */
function isOwnedBy(sql: Sql, ownerId: string): Fragment {
  return sql`coalesce(created_by_user::text, created_by_id) = ${ownerId}`;
}

/** Returns the condition for rows that a caller sees: its own and shared ones, of some objects. */
function isSeenBy(sql: Sql, owner: Owner, objects: readonly string[]): Fragment {
  return sql`object = any(${[...objects]}::text[]) and (is_shared or ${isOwnedBy(sql, getOwnerId(owner))})`;
}

/** Keeps other calls from changing owned settings of the company until the transaction ends. */
export async function lockOwnedSettings(sql: Sql, companyId: string): Promise<void> {
  await sql`select from companies where id = ${companyId} for no key update`;
}

/** Returns the columns of a setting that a statement reads. */
export function selectOwned<Row extends OwnedRow>(sql: Sql, { columns }: OwnedTable<Row>) {
  return sql([
    ...['id', 'object', 'name', 'is_shared', 'created_by_kind', 'created_by_id', 'created_by_name'],
    ...['created_by_user', 'created_at', 'updated_at', ...columns],
  ]);
}

/**
 * Returns settings of these objects that are shared or belong to the caller, newest first.
 * @param after created_at and id of the last row of the previous page
 */
export async function listOwned<Row extends OwnedRow>(
  sql: Sql,
  table: OwnedTable<Row>,
  owner: Owner,
  objects: readonly string[],
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<Row[]> {
  return sql<Row[]>`
    select ${selectOwned(sql, table)}
    from ${sql(table.name)}
    where company_id = ${owner.companyId} and ${isSeenBy(sql, owner, objects)}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Returns a setting of one of these objects that is shared or belongs to the caller. */
export async function findOwned<Row extends OwnedRow>(
  sql: Sql,
  table: OwnedTable<Row>,
  owner: Owner,
  objects: readonly string[],
  id: string,
): Promise<Row | undefined> {
  const [row] = await sql<Row[]>`
    select ${selectOwned(sql, table)}
    from ${sql(table.name)}
    where company_id = ${owner.companyId} and id = ${id} and ${isSeenBy(sql, owner, objects)}`;
  return row;
}

/** Counts the shared settings of the company, or those of an owner that are not shared. */
export async function countOwned<Row extends OwnedRow>(
  sql: Sql,
  table: OwnedTable<Row>,
  companyId: string,
  counted: 'shared' | { ownerId: string },
): Promise<number> {
  const isCounted = counted === 'shared' ? sql`is_shared` : sql`not is_shared and ${isOwnedBy(sql, counted.ownerId)}`;
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from ${sql(table.name)} where company_id = ${companyId} and ${isCounted}`;
  return row?.count ?? 0;
}

/** Returns the owner's setting of an object with this name, ignoring case. */
export async function findOwnedByName<Row extends OwnedRow>(
  sql: Sql,
  table: OwnedTable<Row>,
  companyId: string,
  { object, ownerId, name }: { object: string; ownerId: string; name: string },
): Promise<{ id: string; name: string } | undefined> {
  const [row] = await sql<{ id: string; name: string }[]>`
    select id, name from ${sql(table.name)}
    where company_id = ${companyId} and object = ${object} and ${isOwnedBy(sql, ownerId)}
      and fold_name(name) = fold_name(${name})`;
  return row;
}

export async function deleteOwned<Row extends OwnedRow>(
  sql: Sql,
  table: OwnedTable<Row>,
  companyId: string,
  id: string,
): Promise<void> {
  await sql`delete from ${sql(table.name)} where company_id = ${companyId} and id = ${id}`;
}
