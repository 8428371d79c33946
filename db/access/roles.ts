// Roles and profiles: the system's, which all companies share, and the custom ones of a company.
import type { Sql } from '../client/pool.ts';
import { isUserVisible, type UserScope } from '../client/visibility.ts';

export interface ProfileRow {
  id: string;
  /** Null for custom profiles. */
  roleId: string | null;
  name: string;
  /** Null for roles, which the catalogue describes. */
  description: string | null;
  /** False for a legacy role without a profile. */
  hasPermissions: boolean;
  /** Active users visible to the caller who have the role or the custom profile. */
  activeMemberCount: number;
}

/**
 * Returns the system profiles, then legacy roles with members, then custom profiles by name,
 * without hidden roles.
 * @param id only this one: the id of a profile or of its role
 */
export async function listProfiles(sql: Sql, { companyId, reach }: UserScope, id?: string): Promise<ProfileRow[]> {
  const members = sql`
    select count(*)::int
    from user_roles ur
    join users u on u.company_id = ur.company_id and u.id = ur.user_id
    where ur.company_id = ${companyId} and ur.role_id = r.id and u.status = 'active' and ${isUserVisible(sql, reach, 'u')}`;
  return sql<ProfileRow[]>`
    select id, role_id, name, description, has_permissions, active_member_count
    from (
      select case when r.profile_id is null then 2 else 1 end as part, r.id::text as position,
        coalesce(r.profile_id, r.id) as id, r.id as role_id, r.name, null as description, r.profile_id is not null as has_permissions,
        (${members}) as active_member_count
      from roles r
      where not r.is_hidden and (r.profile_id is not null
        or exists (select from user_roles ur where ur.company_id = ${companyId} and ur.role_id = r.id))
      union all
      select 3, lower(p.name), p.id, null, p.name, p.description, true,
        (select count(*)::int from users u
          where u.company_id = ${companyId} and u.profile_id = p.id and u.status = 'active' and ${isUserVisible(sql, reach, 'u')})
      from profiles p
      where p.company_id = ${companyId}
    ) profile
    ${id === undefined ? sql`` : sql`where ${id} in (id, role_id)`}
    order by part, position, id`;
}

/** Returns the permissions of a custom profile. */
export async function listPermissions(
  sql: Sql,
  companyId: string,
  profileId: string,
): Promise<{ module: string; actions: string[] }[]> {
  return sql<{ module: string; actions: string[] }[]>`
    select module, actions from profile_permissions
    where company_id = ${companyId} and profile_id = ${profileId}
    order by module`;
}
