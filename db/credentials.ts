// The look-up of credentials: the one place on the request path that sees all companies, under a role that sees nothing else.
import type { Sql } from './connect.ts';
import { charging, type QuotaRow, quotaColumns, type SubscriptionRow, subscriptionColumns } from './quota.ts';

export interface KeyRow extends SubscriptionRow, QuotaRow {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  keyId: string;
  keyName: string;
  testMode: boolean;
  scopes: string[];
  ipAllowlist: string[];
  reachKind: 'company' | 'branch' | 'team';
  reachId: string | null;
  expiresAt: Date | null;
  revokedAt: Date | null;
  perMinute: number;
  perHour: number;
}

export interface AskedKey {
  hash: Buffer;
  /** Calls made with the key since the last look-up. */
  calls: number;
  ip: string;
}

/**
 * Finds keys by their hashes, counts the calls of the good ones and charges those of live ones to the company's quota, in one
 * statement. All good live keys of a company tell the same of its quota: what was charged for them together.
 * @param asked each hash once, in the order of the hashes, so that two servers lock counters in the same order
 * @param callsPerMonth of each package; null: unlimited
 * @returns rows by hash in hexadecimal
 */
export async function findKeys(
  sql: Sql,
  asked: readonly AskedKey[],
  callsPerMonth: Readonly<Record<string, number | null>>,
  now: Date,
): Promise<Map<string, KeyRow>> {
  const hashes = asked.map((each) => each.hash.toString('hex'));
  const rows = await sql<(KeyRow & { hash: string })[]>`
    with asked as (
      select decode(hash, 'hex') as hash, calls, ip
      from unnest(${hashes}::text[], ${asked.map((each) => each.calls)}::int[], ${asked.map((each) => each.ip)}::text[]) as asked (hash, calls, ip)
    ),
    found as (
      select k.*, a.calls, a.ip, k.revoked_at is null and (k.expires_at is null or k.expires_at > ${now}) as good
      from asked a
      join lateral (
        select company_id, id, key_hash, name, environment, scopes, rate_limit_per_minute, rate_limit_per_hour, ip_allowlist,
          reach_kind, reach_id, expires_at, revoked_at
        from api_keys where key_hash = a.hash
      ) k on true
    ),
    -- The order of the locks is that of the hashes, whatever plan is chosen: two servers that count the same keys never wait for each other.
    locked as (
      select u.company_id, u.api_key_id, f.calls, f.ip, f.environment
      from found f
      join api_key_usage u on u.company_id = f.company_id and u.api_key_id = f.id
      where f.good
      order by f.key_hash
      for no key update of u
    ),
    counted as (
      update api_key_usage u
      set total_requests = u.total_requests + f.calls,
        last_used_at = case when u.last_used_at > ${now}::timestamptz - interval '5 minutes' then u.last_used_at else ${now} end,
        last_used_ip = case when u.last_used_at > ${now}::timestamptz - interval '5 minutes' then u.last_used_ip else f.ip end
      from locked f
      where u.company_id = f.company_id and u.api_key_id = f.api_key_id
    ),
    charges as (
      select company_id, sum(calls)::bigint as calls from locked where environment = 'live' group by company_id
    ),
    ${charging(sql, callsPerMonth, now)}
    select encode(f.key_hash, 'hex') as hash, f.company_id as "companyId", c.name as "companyName", c.config_version as "configVersion",
      c.disabled_modules as "disabledModules", ${subscriptionColumns(sql)}, ${quotaColumns(sql)}, f.id as "keyId", f.name as "keyName",
      f.environment = 'test' as "testMode", f.scopes, f.ip_allowlist as "ipAllowlist", f.reach_kind as "reachKind", f.reach_id as "reachId",
      f.expires_at as "expiresAt", f.revoked_at as "revokedAt", f.rate_limit_per_minute as "perMinute", f.rate_limit_per_hour as "perHour"
    from found f
    join companies c on c.id = f.company_id and c.status = 'active'
    left join subscriptions s on s.company_id = f.company_id
    left join quota n on n.company_id = f.company_id and f.good and f.environment = 'live'`;
  return new Map(rows.map(({ hash, ...row }) => [hash, row]));
}

export interface SessionRow extends SubscriptionRow {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  sessionId: string;
  userId: string;
  fullName: string;
  roles: string[];
}

/** Finds sessions that have not ended, of active users. @returns rows by session id */
export async function findSessions(sql: Sql, ids: readonly string[]): Promise<Map<string, SessionRow>> {
  const rows = await sql<SessionRow[]>`
    select c.id as "companyId", c.name as "companyName", c.config_version as "configVersion", c.disabled_modules as "disabledModules",
      ${subscriptionColumns(sql)}, i.id as "sessionId", u.id as "userId", u.full_name as "fullName",
      array(select r.name from user_roles ur join roles r on r.id = ur.role_id where ur.company_id = u.company_id and ur.user_id = u.id) as roles
    from sessions i
    join users u on u.company_id = i.company_id and u.id = i.user_id and u.status = 'active'
    join companies c on c.id = i.company_id and c.status = 'active'
    left join subscriptions s on s.company_id = c.id
    where i.id = any(${ids as string[]}::uuid[]) and i.ended_at is null`;
  return new Map(rows.map((row) => [row.sessionId, row]));
}

export interface AskedGrant {
  userId: string;
  clientId: string;
}

export interface GrantRow extends SubscriptionRow, QuotaRow {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  userId: string;
  branchId: string | null;
  teamId: string | null;
  roles: string[];
  clientId: string;
  /** What the user last allowed the app; null when that never happened. */
  grant: { clientName: string; groups: string[]; extraScopes: string[]; revoked: boolean } | null;
}

/**
 * Finds active users, each with what they allowed an app to do, and charges the calls of apps that are allowed something.
 * @param callsPerMonth of each package; null: unlimited
 * @returns rows in the order asked, undefined for unknown users
 */
export async function findGrants(
  sql: Sql,
  asked: readonly AskedGrant[],
  callsPerMonth: Readonly<Record<string, number | null>>,
  now: Date,
): Promise<(GrantRow | undefined)[]> {
  const rows = await sql<(GrantRow & { place: number })[]>`
    with found as (
      select a.place, a.client_id, u.company_id, u.id as user_id, u.branch_id, u.team_id, g.grant, coalesce(g.active, false) as active
      from unnest(${asked.map((each) => each.userId)}::uuid[], ${asked.map((each) => each.clientId)}::text[])
        with ordinality as a (user_id, client_id, place)
      join users u on u.id = a.user_id and u.status = 'active'
      left join lateral (
        select jsonb_build_object('clientName', client_name, 'groups', groups, 'extraScopes', extra_scopes, 'revoked', revoked_at is not null) as grant,
          revoked_at is null as active
        from oauth_grants
        where company_id = u.company_id and user_id = u.id and client_id = a.client_id
        -- The active one, else the one that was revoked last.
        order by revoked_at desc
        limit 1
      ) g on true
    ),
    charges as (
      select company_id, count(*)::bigint as calls from found where active group by company_id
    ),
    ${charging(sql, callsPerMonth, now)}
    select f.place::int as place, c.id as "companyId", c.name as "companyName", c.config_version as "configVersion",
      c.disabled_modules as "disabledModules", ${subscriptionColumns(sql)}, ${quotaColumns(sql)},
      f.user_id as "userId", f.branch_id as "branchId", f.team_id as "teamId", f.client_id as "clientId", f.grant,
      array(select r.name from user_roles ur join roles r on r.id = ur.role_id where ur.company_id = f.company_id and ur.user_id = f.user_id) as roles
    from found f
    join companies c on c.id = f.company_id and c.status = 'active'
    left join subscriptions s on s.company_id = f.company_id
    left join quota n on n.company_id = f.company_id and f.active
    order by f.place`;
  const found: (GrantRow | undefined)[] = asked.map(() => undefined);
  for (const { place, ...row } of rows) found[place - 1] = row;
  return found;
}
