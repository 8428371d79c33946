// The assignee of leads from intake.
import type { Sql } from '../client/pool.ts';
import { isUserVisible, type UserScope } from '../client/visibility.ts';

export interface Assignee {
  id: string;
  email: string;
  fullName: string;
}

/**
 * Returns the active user with this address. Without an address, the longest-standing active user
 * that the caller can see.
 */
export async function findAssignee(
  sql: Sql,
  { companyId, reach }: UserScope,
  email: string | null,
): Promise<Assignee | undefined> {
  const [user] = await sql<Assignee[]>`
    select u.id, u.email, u.full_name
    from users u
    where u.company_id = ${companyId} and u.status = 'active'
      and ${email === null ? isUserVisible(sql, reach, 'u') : sql`u.email = ${email}`}
    order by u.created_at, u.id
    limit 1`.execute();
  return user;
}
