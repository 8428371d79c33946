// The records and people that a credential can see, as SQL conditions.
import type { Fragment } from 'postgres';
import type { Actor } from './created-by.ts';
import type { Sql } from './pool.ts';

/** The id of `own` is the user's. */
export type Reach = { kind: 'company' } | { kind: 'branch' | 'team' | 'own'; id: string };

/** The caller, and the tenant whose records it reads. */
export interface Scope {
  companyId: string;
  testMode: boolean;
  reach: Reach;
  actor: Actor;
  /** The user for whom an app or a session acts; null for keys. */
  userId: string | null;
}

const columns = { branch: 'branch_id', team: 'team_id', own: 'id' } as const;

/** Returns a query for the ids of the users in the branch or team, or of the single user. */
export function selectVisibleUserIds(
  sql: Sql,
  companyId: string,
  reach: Exclude<Reach, { kind: 'company' }>,
): Fragment {
  return sql`
    select id from users
    where company_id = ${companyId} and ${sql(columns[reach.kind])} = ${reach.id}`;
}

/**
 * Returns a condition for visible rows. A row is visible if it is assigned to a visible user. An
 * unassigned row is visible if it was created for such a user, or by the calling key.
 * @param table without the column assigned_to, rows count as unassigned
 * @param row precedes the columns, with a dot, if several tables of the statement have them
 */
export function isVisibleTo(
  sql: Sql,
  scope: Scope,
  table: 'assigned' | 'unassigned' = 'assigned',
  row: Fragment = sql``,
): Fragment {
  const { reach, actor } = scope;
  if (reach.kind === 'company') return sql`true`;
  const users = selectVisibleUserIds(sql, scope.companyId, reach);
  const created = sql`(
    ${actor.kind === 'api_key' ? sql`${row}created_by_kind = 'api_key' and ${row}created_by_id = ${actor.id} or` : sql``}
    ${row}created_by_user in (${users})
  )`;
  return table === 'assigned'
    ? sql`(${row}assigned_to in (${users}) or ${row}assigned_to is null and ${created})`
    : created;
}

/** The company whose users are read, and which of them the caller sees. */
export interface UserScope {
  companyId: string;
  reach: Reach;
}

/**
 * Returns a condition for visible users.
 * @param alias the alias of the table users in the statement
 */
export function isUserVisible(sql: Sql, reach: Reach, alias: string): Fragment {
  switch (reach.kind) {
    case 'company':
      return sql`true`;
    case 'branch':
      return sql`${sql(alias)}.branch_id = ${reach.id}`;
    case 'team':
      return sql`${sql(alias)}.team_id = ${reach.id}`;
    case 'own':
      return sql`${sql(alias)}.id = ${reach.id}`;
  }
}
