// Settings that belong to the user or key that made them, and that others see if they are shared.
import type { Fragment } from 'postgres';
import type { Actor, CreatedByRow } from './created-by.ts';
import type { Sql } from './pool.ts';

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
}

/** Returns the ID of the owner. A user and the apps that act for the user own the same rows. */
export function getOwnerId(by: { createdByUser: string | null; createdById: string } | Owner): string {
  return 'actor' in by ? (by.userId ?? by.actor.id) : (by.createdByUser ?? by.createdById);
}

/** Returns the condition for rows of an owner. An index has the same expression. */
export function isOwnedBy(sql: Sql, ownerId: string): Fragment {
  return sql`coalesce(created_by_user::text, created_by_id) = ${ownerId}`;
}

/** Returns the condition for rows that a caller sees: its own and shared ones, of some objects. */
export function isSeenBy(sql: Sql, owner: Owner, objects: readonly string[]): Fragment {
  return sql`object = any(${[...objects]}::text[]) and (is_shared or ${isOwnedBy(sql, getOwnerId(owner))})`;
}

/** Keeps other calls from changing owned settings of the company until the transaction ends. */
export async function lockOwnedSettings(sql: Sql, companyId: string): Promise<void> {
  await sql`select from companies where id = ${companyId} for no key update`;
}
