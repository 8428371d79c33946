// Which records a credential can see: a condition for every statement that reads them.
import type { Fragment } from 'postgres';
import type { Sql } from './connect.ts';

/** The whole company, or the members of a branch or a team, or one user. */
export type Reach = { kind: 'company' } | { kind: 'branch' | 'team' | 'own'; id: string };

/** Whose records are asked for, and by whom. */
export interface Scope {
  companyId: string;
  testMode: boolean;
  reach: Reach;
  actor: { kind: string; id: string; name: string | null };
}

/**
 * True for rows that are assigned to a user in reach or, unassigned, were created by such a user or by the caller. In the reach of one
 * user the caller is that user: a client that acts for many does not show the one what it made for another.
 * @param table without the column assigned_to, rows count as unassigned
 */
export function inReach(sql: Sql, scope: Scope, table: 'assigned' | 'unassigned' = 'assigned'): Fragment {
  const { companyId, reach, actor } = scope;
  if (reach.kind === 'company') return sql`true`;
  const members = sql`select id from users where company_id = ${companyId} and ${memberOf(sql, reach)}`;
  const byMember = sql`created_by_kind = 'user' and created_by_id in (select id::text from (${members}) member)`;
  const created =
    reach.kind === 'own'
      ? sql`(${byMember})`
      : sql`(created_by_kind = ${actor.kind} and created_by_id = ${actor.id} or ${byMember})`;
  return table === 'assigned' ? sql`(assigned_to in (${members}) or assigned_to is null and ${created})` : created;
}

/** True for users in reach. @param alias of the table users in the statement */
export function userInReach(sql: Sql, reach: Reach, alias: string): Fragment {
  if (reach.kind === 'company') return sql`true`;
  return memberOf(sql, reach, `${alias}.`);
}

function memberOf(sql: Sql, reach: Exclude<Reach, { kind: 'company' }>, prefix = ''): Fragment {
  const column = { branch: 'branch_id', team: 'team_id', own: 'id' }[reach.kind];
  return sql`${sql(prefix + column)} = ${reach.id}`;
}
