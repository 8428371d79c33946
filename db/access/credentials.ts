// Lookup of credentials, under a role that sees nothing else.
// Lookups of one company share a statement, once the company is known.

import type { Fragment } from 'postgres';
import type { ApiKey, WriteMode } from '../../domain/access/api-keys.ts';
import type { Audience } from '../../domain/access/oauth-groups.ts';
import { selectKeyStamp } from '../client/key-versions.ts';
import type { Sql } from '../client/pool.ts';
import { selectClockAhead } from '../client/test-clocks.ts';
import { type Logo, selectLogo } from './logos.ts';
import { type SubscriptionRow, selectSubscriptionColumns } from './paying-subscription.ts';

export interface KeyRow extends ApiKey, SubscriptionRow {
  /** Seconds by which the clock of test mode is ahead. */
  clockAheadSeconds: number;
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  /** True if a change set of the key waits. */
  hasProposals: boolean;
}

/** Returns the columns of a key `k` of a company `c` with its subscription `s`. */
const selectKey = (sql: Sql) => sql`
  c.id as company_id, c.name as company_name, c.config_version, c.disabled_modules, ${selectSubscriptionColumns(sql)}, ${selectClockAhead(sql)},
  k.id as key_id, k.name as key_name, k.environment = 'test' as test_mode, k.scopes, k.ip_allowlist, k.reach_kind,
  k.reach_id, k.write_mode, k.expires_at, k.revoked_at, k.rate_limit_per_minute as per_minute, k.rate_limit_per_hour as per_hour,
  case k.environment
    when 'test' then exists (
      select from change_sets t
      where t.company_id = c.id and t.test_mode and t.status = 'pending' and t.created_by_id = k.id::text
    )
    else exists (
      select from change_sets t
      where t.company_id = c.id and not t.test_mode and t.status = 'pending' and t.created_by_id = k.id::text
    )
  end as has_proposals,
  ${selectKeyStamp(sql)} as stamp`;

/**
 * Finds keys of a company by their hashes in hexadecimal.
 * @returns rows by hash
 */
export async function findKeys(sql: Sql, companyId: string, hashes: readonly string[]): Promise<Map<string, KeyRow>> {
  const rows = await sql<(KeyRow & { hash: string })[]>`
    select encode(k.key_hash, 'hex') as hash, ${selectKey(sql)}
    from api_keys k
    join companies c on c.id = ${companyId} and c.status = 'active'
    left join subscriptions s on s.company_id = ${companyId}
    where k.company_id = ${companyId} and k.key_hash in (select decode(hash, 'hex') from unnest(${hashes as string[]}::text[]) asked (hash))`;
  return new Map(rows.map(({ hash, ...row }) => [hash, row]));
}

/** Finds a key of a company by its id, for work that was started with it. */
export async function findKeyById(sql: Sql, companyId: string, id: string): Promise<KeyRow | undefined> {
  const [row] = await sql<KeyRow[]>`
    select ${selectKey(sql)}
    from api_keys k
    join companies c on c.id = ${companyId} and c.status = 'active'
    left join subscriptions s on s.company_id = ${companyId}
    where k.company_id = ${companyId} and k.id = ${id}`;
  return row;
}

/** The uses of a key since they were last counted. */
export interface KeyUse {
  keyId: string;
  calls: number;
  /** Calls that were answered with an error. */
  failures: number;
  ip: string;
}

/**
 * Counts the uses of a company's keys. It locks them in the order of their ids, so that two servers
 * never deadlock.
 */
export async function countUse(sql: Sql, companyId: string, uses: readonly KeyUse[], now: Date): Promise<void> {
  const recently = new Date(now.getTime() - lastUseInterval);
  await sql`
    with used as (
      select * from unnest(${uses.map(({ keyId }) => keyId)}::uuid[], ${uses.map(({ calls }) => calls)}::int[],
          ${uses.map(({ failures }) => failures)}::int[], ${uses.map(({ ip }) => ip)}::text[])
        as used (key_id, calls, failures, ip)
    ),
    locked as (
      select u.api_key_id from api_key_usage u
      where u.company_id = ${companyId} and u.api_key_id in (select key_id from used)
      order by u.api_key_id
      for no key update
    ),
    by_day as (
      insert into api_key_days (company_id, day, api_key_id, calls, failures)
      select ${companyId}, ${now.toISOString().slice(0, 10)}::date, used.key_id, used.calls, used.failures
      from locked join used on used.key_id = locked.api_key_id
      order by used.key_id
      on conflict (company_id, day, api_key_id) do update set calls = api_key_days.calls + excluded.calls,
        failures = api_key_days.failures + excluded.failures
    )
    update api_key_usage u
    set total_requests = u.total_requests + used.calls,
      last_used_at = case when u.last_used_at > ${recently} then u.last_used_at else ${now} end,
      last_used_ip = case when u.last_used_at > ${recently} then u.last_used_ip else used.ip end
    from locked
    join used on used.key_id = locked.api_key_id
    where u.company_id = ${companyId} and u.api_key_id = locked.api_key_id`;
}

/** Milliseconds after which the time of the last use is stored again. */
const lastUseInterval = 5 * 60_000;

/** The properties of a user that decide about permissions. */
export interface UserRow {
  userId: string;
  branchId: string | null;
  teamId: string | null;
  roles: string[];
  /** Rows of the custom profile that is assigned to the user; null without one. */
  profile: { module: string; actions: string[] }[] | null;
}

export interface PersonRow extends SubscriptionRow, UserRow {
  /** Seconds by which the clock of test mode is ahead. */
  clockAheadSeconds: number;
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  fullName: string;
  mustChangePassword: boolean;
  /** IANA name of the workspace's time zone. */
  timezone: string;
  logo: Logo | null;
}

export interface SessionRow extends PersonRow {
  sessionId: string;
}

/** Returns the columns of a user `u` of a company `c` with its subscription `s`. */
const selectPerson = (sql: Sql, companyId: string) => sql`
  c.id as company_id, c.name as company_name, c.timezone, ${selectLogo(sql, companyId)} as logo, c.config_version, c.disabled_modules,
  ${selectSubscriptionColumns(sql)}, ${selectClockAhead(sql)}, u.id as user_id, u.full_name, u.branch_id, u.team_id,
  ${selectProfile(sql, companyId, sql`u.profile_id`)} as profile,
  coalesce((
    select must_change_password from sign_ins where company_id = ${companyId} and user_id = u.id
  ), false) as must_change_password,
  array(
    select r.name from user_roles ur join roles r on r.id = ur.role_id where ur.company_id = ${companyId} and ur.user_id = u.id
  ) as roles`;

/**
 * Finds sessions of a company that have not ended, of active users.
 * @returns rows by session id
 */
export async function findSessions(
  sql: Sql,
  companyId: string,
  ids: readonly string[],
): Promise<Map<string, SessionRow>> {
  const rows = await sql<SessionRow[]>`
    select i.id as session_id, ${selectPerson(sql, companyId)}
    from sessions i
    join users u on u.company_id = ${companyId} and u.id = i.user_id and u.status = 'active'
    join companies c on c.id = ${companyId} and c.status = 'active'
    left join subscriptions s on s.company_id = ${companyId}
    where i.company_id = ${companyId} and i.id = any(${ids as string[]}::uuid[]) and i.ended_at is null`;
  return new Map(rows.map((row) => [row.sessionId, row]));
}

/** Finds a user of a company, active or not. */
export async function findPerson(
  sql: Sql,
  companyId: string,
  userId: string,
): Promise<(PersonRow & { isActive: boolean }) | undefined> {
  const [row] = await sql<(PersonRow & { isActive: boolean })[]>`
    select u.status = 'active' as is_active, ${selectPerson(sql, companyId)}
    from users u
    join companies c on c.id = ${companyId} and c.status = 'active'
    left join subscriptions s on s.company_id = ${companyId}
    where u.company_id = ${companyId} and u.id = ${userId}`;
  return row;
}

/**
 * Returns an expression for the rows of a custom profile; null without one.
 * @param id the id of the profile, as a column
 */
function selectProfile(sql: Sql, companyId: string, id: Fragment): Fragment {
  return sql`
    case when ${id} is not null then (
      select coalesce(jsonb_agg(jsonb_build_object('module', module, 'actions', actions)), '[]')
      from profile_permissions where company_id = ${companyId} and profile_id = ${id}
    ) end`;
}

export interface CompanyRow extends SubscriptionRow {
  /** Seconds by which the clock of test mode is ahead. */
  clockAheadSeconds: number;
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
}

/** Returns an active company, for operations without a credential. */
export async function findCompany(sql: Sql, companyId: string): Promise<CompanyRow | undefined> {
  const [row] = await sql<CompanyRow[]>`
    select c.id as company_id, c.name as company_name, c.config_version, c.disabled_modules,
      ${selectSubscriptionColumns(sql)}, ${selectClockAhead(sql)}
    from companies c
    left join subscriptions s on s.company_id = ${companyId}
    where c.id = ${companyId} and c.status = 'active'`;
  return row;
}

export interface AskedGrant {
  userId: string;
  clientId: string;
  audience: Audience;
}

export interface GrantRow extends SubscriptionRow, UserRow {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  clientId: string;
  /** True if a change set of the app and the user waits. */
  hasProposals: boolean;
  /** The last grant of the user to the app; null if there never was one. */
  grant: {
    id: string;
    clientName: string;
    groups: string[];
    extraScopes: string[];
    writeMode: WriteMode;
    revoked: boolean;
    /** When the tokens of a consent ended, by the id of the consent's token family. */
    endedFamilies: Record<string, string>;
    /** Modules of the workspace's custom objects. */
    customObjects: string[];
  } | null;
}

/**
 * Finds active users of a company, each with the grant to an app.
 * @returns rows in the given order, undefined for unknown users
 */
export async function findGrants(
  sql: Sql,
  companyId: string,
  asked: readonly AskedGrant[],
): Promise<(GrantRow | undefined)[]> {
  const rows = await sql<(GrantRow & { place: number })[]>`
    with found as (
      select a.place, a.client_id, u.id as user_id, u.branch_id, u.team_id, u.profile_id, g.grant
      from unnest(${asked.map((each) => each.userId)}::uuid[], ${asked.map((each) => each.clientId)}::text[],
        ${asked.map((each) => each.audience)}::text[]) with ordinality as a (user_id, client_id, audience, place)
      join users u on u.company_id = ${companyId} and u.id = a.user_id and u.status = 'active'
      left join lateral (
        select jsonb_build_object('id', id, 'clientName', client_name, 'groups', groups, 'extraScopes', extra_scopes, 'writeMode', write_mode, 'revoked', revoked_at is not null,
          'endedFamilies', ended_families,
          'customObjects', array(select 'object:' || slug from custom_objects where company_id = ${companyId})) as grant
        from oauth_grants
        where company_id = ${companyId} and user_id = u.id and client_id = a.client_id and (audience = a.audience or audience is null)
        -- The active one, otherwise the one that was revoked last.
        order by revoked_at desc
        limit 1
      ) g on true
    )
    select f.place::int as place, c.id as company_id, c.name as company_name, c.config_version,
      c.disabled_modules, ${selectSubscriptionColumns(sql)},
      f.user_id, f.branch_id, f.team_id, f.client_id, f.grant,
      exists (
        select from change_sets t
        where t.company_id = ${companyId} and not t.test_mode and t.status = 'pending'
          and t.created_by_id = 'oauth_' || f.client_id and t.created_by_user = f.user_id
      ) as has_proposals,
      array(select r.name from user_roles ur join roles r on r.id = ur.role_id where ur.company_id = ${companyId} and ur.user_id = f.user_id) as roles,
      ${selectProfile(sql, companyId, sql`f.profile_id`)} as profile
    from found f
    join companies c on c.id = ${companyId} and c.status = 'active'
    left join subscriptions s on s.company_id = ${companyId}
    order by f.place`;
  const found: (GrantRow | undefined)[] = asked.map(() => undefined);
  for (const { place, ...row } of rows) found[place - 1] = row;
  return found;
}
