// The current access of a credential, for calls and jobs that waited since it was authenticated.

import type { Actor } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { isUnexpiredKey } from '../client/test-clocks.ts';

/** The caller. */
interface Caller {
  companyId: string;
  actor: Actor;
  /** The user for whom an app acts; null for keys. */
  userId: string | null;
}

/**
 * Returns true if the credential is still valid.
 * @param clientId the app, if an app calls
 */
export async function isCredentialValid(
  sql: Sql,
  { companyId, actor, userId }: Caller,
  clientId: string,
): Promise<boolean> {
  const rows =
    actor.kind === 'api_key'
      ? await sql`
          select from api_keys
          where company_id = ${companyId} and id = ${actor.id} and revoked_at is null and ${isUnexpiredKey(sql, companyId, new Date())}`
      : await sql`
          select from oauth_grants g
          join users u on u.company_id = ${companyId} and u.id = g.user_id and u.status = 'active'
          where g.company_id = ${companyId} and g.user_id = ${userId} and g.client_id = ${clientId} and g.revoked_at is null`;
  return rows.length > 0;
}

/** The current scopes and visibility of a key. */
export interface KeyAccess {
  scopes: string[];
  reachKind: 'company' | 'branch' | 'team';
  reachId: string | null;
}

/** @returns undefined if the key was revoked or has expired */
export async function findKeyAccess(sql: Sql, companyId: string, id: string): Promise<KeyAccess | undefined> {
  const [key] = await sql<KeyAccess[]>`
    select scopes, reach_kind, reach_id from api_keys
    where company_id = ${companyId} and id = ${id} and revoked_at is null and ${isUnexpiredKey(sql, companyId, new Date())}`;
  return key;
}

/** The current roles, profile, branch and team of a user. */
export interface UserAccess {
  branchId: string | null;
  teamId: string | null;
  roles: string[];
  /** Rows of the custom profile; null without one. */
  profile: { module: string; actions: string[] }[] | null;
}

/** @returns undefined if the user is not active */
export async function findUserAccess(sql: Sql, companyId: string, id: string): Promise<UserAccess | undefined> {
  const [user] = await sql<UserAccess[]>`
    select u.branch_id, u.team_id,
      array(select r.name from user_roles ur join roles r on r.id = ur.role_id where ur.company_id = ${companyId} and ur.user_id = u.id) as roles,
      case when u.profile_id is not null then (
        select coalesce(jsonb_agg(jsonb_build_object('module', module, 'actions', actions)), '[]')
        from profile_permissions where company_id = ${companyId} and profile_id = u.profile_id
      ) end as profile
    from users u
    where u.company_id = ${companyId} and u.id = ${id} and u.status = 'active'`;
  return user;
}
