// What people allow apps to do in their name.
import type { Sql } from '../connect.ts';
import { listLiteral } from '../list-literal.ts';

export interface OAuthGrantRow {
  id: string;
  userId: string;
  userName: string;
  clientId: string;
  clientName: string;
  groups: string[];
  createdAt: Date;
  revokedAt: Date | null;
}

export type NewOAuthGrant = Omit<OAuthGrantRow, 'userName' | 'revokedAt'>;

const columns = (sql: Sql) => sql`
  g.id, g.user_id as "userId", u.full_name as "userName", g.client_id as "clientId", g.client_name as "clientName", g.groups,
  g.created_at as "createdAt", g.revoked_at as "revokedAt"`;

/** What a user allows an app now; undefined where that is nothing. */
export async function findActiveGrant(
  sql: Sql,
  companyId: string,
  userId: string,
  clientId: string,
): Promise<OAuthGrantRow | undefined> {
  const [row] = await sql<OAuthGrantRow[]>`
    select ${columns(sql)}
    from oauth_grants g
    join users u on u.company_id = ${companyId} and u.id = g.user_id
    where g.company_id = ${companyId} and g.user_id = ${userId} and g.client_id = ${clientId} and g.revoked_at is null`;
  return row;
}

/**
 * Keeps what a user allows an app, in place of what was allowed before.
 * @returns the id of the grant, and the groups of before; null where there was none
 */
export async function saveGrant(
  sql: Sql,
  companyId: string,
  grant: NewOAuthGrant,
): Promise<{ id: string; before: string[] | null }> {
  const [row] = await sql<{ id: string; before: string[] | null }[]>`
    with known as (
      select id, groups from oauth_grants
      where company_id = ${companyId} and user_id = ${grant.userId} and client_id = ${grant.clientId} and revoked_at is null
    )
    insert into oauth_grants (company_id, id, user_id, client_id, client_name, groups, created_at)
    values (${companyId}, ${grant.id}, ${grant.userId}, ${grant.clientId}, ${grant.clientName}, ${listLiteral(grant.groups)}::text[], ${grant.createdAt})
    on conflict (company_id, user_id, client_id) where revoked_at is null
    do update set groups = excluded.groups, client_name = excluded.client_name
    returning id, (select groups from known) as before`;
  return row as { id: string; before: string[] | null };
}

/** The page of grants, newest first, the revoked ones included. @param after time and id of the last of the page before */
export async function listGrants(
  sql: Sql,
  companyId: string,
  after: readonly string[] | undefined,
  limit: number,
): Promise<OAuthGrantRow[]> {
  return sql<OAuthGrantRow[]>`
    select ${columns(sql)}
    from oauth_grants g
    join users u on u.company_id = ${companyId} and u.id = g.user_id
    where g.company_id = ${companyId}
      ${after ? sql`and (g.created_at, g.id) < (${after[0] as string}::timestamptz, ${after[1] as string}::uuid)` : sql``}
    order by g.created_at desc, g.id desc
    limit ${limit}`;
}

export async function findGrant(sql: Sql, companyId: string, id: string): Promise<OAuthGrantRow | undefined> {
  const [row] = await sql<OAuthGrantRow[]>`
    select ${columns(sql)}
    from oauth_grants g
    join users u on u.company_id = ${companyId} and u.id = g.user_id
    where g.company_id = ${companyId} and g.id = ${id}`;
  return row;
}

/** @returns false where it was revoked before, or there is none */
export async function revokeGrant(sql: Sql, companyId: string, id: string, now: Date): Promise<boolean> {
  const revoked = await sql`
    update oauth_grants set revoked_at = ${now}
    where company_id = ${companyId} and id = ${id} and revoked_at is null`;
  return revoked.count > 0;
}

/** Names of those who administrate a workspace, for whoever has to ask one of them. */
export async function listAdminNames(sql: Sql, companyId: string, limit: number): Promise<string[]> {
  const rows = await sql<{ fullName: string }[]>`
    select u.full_name as "fullName"
    from users u
    join user_roles ur on ur.company_id = ${companyId} and ur.user_id = u.id
    join roles r on r.id = ur.role_id and r.name = 'Company_Admin'
    where u.company_id = ${companyId} and u.status = 'active'
    order by u.full_name, u.id
    limit ${limit}`;
  return rows.map(({ fullName }) => fullName);
}
