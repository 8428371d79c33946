// Grants: what people allowed apps to do for them.
import type { WriteMode } from '../../domain/access/api-keys.ts';
import type { Audience } from '../../domain/access/oauth-groups.ts';
import { toListLiteral } from '../client/list-literal.ts';
import type { Sql } from '../client/pool.ts';

export interface OAuthGrantRow {
  id: string;
  userId: string;
  userName: string;
  clientId: string;
  clientName: string;
  /** The audience of its tokens; null: both REST and MCP. */
  audience: Audience | null;
  groups: string[];
  /** Single scopes in addition to those of the groups. */
  extraScopes: string[];
  writeMode: WriteMode;
  createdAt: Date;
  revokedAt: Date | null;
}

export type NewOAuthGrant = Omit<OAuthGrantRow, 'userName' | 'revokedAt'>;

/** The permissions of a grant before it was saved. */
export type GrantBefore = Pick<OAuthGrantRow, 'groups' | 'extraScopes' | 'writeMode'>;

const columns = (sql: Sql) => sql`
  g.id, g.user_id, u.full_name as user_name, g.client_id, g.client_name, g.audience, g.groups,
  g.extra_scopes, g.write_mode,
  g.created_at, g.revoked_at`;

/** Returns the active grant of a user to an app for an audience. */
export async function findActiveGrant(
  sql: Sql,
  companyId: string,
  userId: string,
  clientId: string,
  audience: Audience,
): Promise<OAuthGrantRow | undefined> {
  const [row] = await sql<OAuthGrantRow[]>`
    select ${columns(sql)}
    from oauth_grants g
    join users u on u.company_id = ${companyId} and u.id = g.user_id
    where g.company_id = ${companyId} and g.user_id = ${userId} and g.client_id = ${clientId}
      and (g.audience = ${audience} or g.audience is null) and g.revoked_at is null
    order by g.audience
    limit 1`;
  return row;
}

/**
 * Saves the grant of a user to an app for an audience and replaces the previous one. A grant for
 * both audiences becomes one for this audience.
 * @returns the id of the grant, and its previous permissions; null if there were none
 */
export async function saveGrant(
  sql: Sql,
  companyId: string,
  grant: NewOAuthGrant,
): Promise<{ id: string; before: GrantBefore | null }> {
  await sql`
    update oauth_grants set audience = ${grant.audience}
    where company_id = ${companyId} and user_id = ${grant.userId} and client_id = ${grant.clientId} and revoked_at is null and audience is null`;
  const [row] = await sql<{ id: string; before: GrantBefore | null }[]>`
    with known as (
      select id, groups, extra_scopes, write_mode from oauth_grants
      where company_id = ${companyId} and user_id = ${grant.userId} and client_id = ${grant.clientId} and revoked_at is null
        and audience is not distinct from ${grant.audience}
    )
    insert into oauth_grants (company_id, id, user_id, client_id, client_name, audience, groups, extra_scopes, write_mode, created_at)
    values (${companyId}, ${grant.id}, ${grant.userId}, ${grant.clientId}, ${grant.clientName}, ${grant.audience},
      ${toListLiteral(grant.groups)}::text[], ${toListLiteral(grant.extraScopes)}::text[], ${grant.writeMode}, ${grant.createdAt})
    on conflict (company_id, user_id, client_id, audience) where revoked_at is null
    do update set groups = excluded.groups, extra_scopes = excluded.extra_scopes, write_mode = excluded.write_mode, client_name = excluded.client_name
    returning id, (select jsonb_build_object('groups', groups, 'extraScopes', extra_scopes, 'writeMode', write_mode) from known) as before`;
  return row as { id: string; before: GrantBefore | null };
}

/**
 * Returns a page of grants, newest first, including revoked ones.
 * @param after time and id of the last row of the previous page
 */
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

/** @returns false if it was revoked before, or does not exist */
export async function revokeGrant(sql: Sql, companyId: string, id: string, now: Date): Promise<boolean> {
  const revoked = await sql`
    update oauth_grants set revoked_at = ${now}
    where company_id = ${companyId} and id = ${id} and revoked_at is null`;
  return revoked.count > 0;
}

/**
 * Ends all tokens of one consent, and forgets consents that ended so long ago that all their tokens
 * have expired.
 * @param since the oldest time of issue of an access token that could still be valid
 * @returns false if the grant does not exist
 */
export async function endFamily(
  sql: Sql,
  companyId: string,
  { id, family }: { id: string; family: string },
  { now, since }: { now: Date; since: Date },
): Promise<boolean> {
  const ended = await sql`
    update oauth_grants
    set ended_families = jsonb_build_object(${family}::text, ${now.toISOString()}::text) || coalesce((
      select jsonb_object_agg(key, value) from jsonb_each_text(ended_families) where value::timestamptz > ${since}
    ), '{}')
    where company_id = ${companyId} and id = ${id}`;
  return ended.count === 1;
}

/** Returns the names of administrators, for people who must ask one of them. */
export async function listAdminNames(sql: Sql, companyId: string, limit: number): Promise<string[]> {
  const rows = await sql<{ fullName: string }[]>`
    select u.full_name
    from users u
    join user_roles ur on ur.company_id = ${companyId} and ur.user_id = u.id
    join roles r on r.id = ur.role_id and r.name = 'Company_Admin'
    where u.company_id = ${companyId} and u.status = 'active'
    order by u.full_name, u.id
    limit ${limit}`;
  return rows.map(({ fullName }) => fullName);
}
