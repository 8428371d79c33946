// Which records a credential can see: a condition for every statement that reads assignable records.
import type { Sql } from './connect.ts';

export type Reach = { kind: 'company' } | { kind: 'branch'; id: string } | { kind: 'team'; id: string };

/** True for rows that are assigned to a user of the branch or team or, unassigned, were created by one. */
export function inReach(sql: Sql, companyId: string, reach: Reach) {
  if (reach.kind === 'company') return sql`true`;
  const members = sql`
    select id from users
    where company_id = ${companyId} and ${reach.kind === 'branch' ? sql`branch_id` : sql`team_id`} = ${reach.id}`;
  return sql`(
    assigned_to in (${members})
    or (assigned_to is null and created_by_kind = 'user' and created_by_id in (select id::text from (${members}) member))
  )`;
}
