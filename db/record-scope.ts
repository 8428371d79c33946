// Which rows a credential sees: all of the company's, or those of the people in its branch or team.
import type { Fragment } from 'postgres';
import type { Sql } from './connect.ts';

export type Reach = { kind: 'company' } | { kind: 'branch'; id: string } | { kind: 'team'; id: string };

/** Whose rows are asked for, and for whom. */
export interface Scope {
  companyId: string;
  testMode: boolean;
  reach: Reach;
  actor: { kind: string; id: string; name: string | null };
}

/**
 * The condition `and …` for the rows of `r` that are in reach: assigned to somebody in the branch or team or, where nobody is
 * assigned, created by such a person or by the caller.
 * @param assigned whether the table has the column assigned_to
 */
export function withinReach(sql: Sql, scope: Scope, assigned: boolean): Fragment {
  const { reach, companyId, actor } = scope;
  if (reach.kind === 'company') return sql``;
  const people =
    reach.kind === 'team'
      ? sql`select u.id from users u where u.company_id = ${companyId} and u.team_id = ${reach.id}`
      : sql`select u.id from users u where u.company_id = ${companyId} and u.branch_id = ${reach.id}`;
  const created = sql`
    (r.created_by_kind = ${actor.kind} and r.created_by_id = ${actor.id}
      or r.created_by_kind = 'user' and r.created_by_id in (select p.id::text from (${people}) p))`;
  return assigned
    ? sql`and (r.assigned_to in (${people}) or r.assigned_to is null and ${created})`
    : sql`and ${created}`;
}
