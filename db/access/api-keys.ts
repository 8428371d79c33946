// API keys as their owners see them. The key itself is never here, and its digest never leaves.
import type { WriteMode } from '../../domain/access/api-keys.ts';
import type { Sql } from '../client/pool.ts';
import { isUnexpiredKey } from '../client/test-clocks.ts';
import { lockValues } from '../client/value-locks.ts';
import { insertKeyPlace } from './places.ts';

export interface ApiKeyRow {
  id: string;
  name: string;
  description: string | null;
  environment: 'live' | 'test';
  prefix: string;
  last4: string;
  scopes: string[];
  perMinute: number;
  perHour: number;
  perDay: number | null;
  ipAllowlist: string[];
  reachKind: 'company' | 'branch' | 'team';
  reachId: string | null;
  writeMode: WriteMode;
  expiresAt: Date | null;
  createdById: string;
  createdByName: string | null;
  createdAt: Date;
  revokedAt: Date | null;
  revokedBy: string | null;
  revokeReason: string | null;
  isLegacy: boolean;
  lastUsedAt: Date | null;
  lastUsedIp: string | null;
  totalRequests: number;
}

/** The settings of a key that can be changed. */
export type ApiKeySettings = Pick<
  ApiKeyRow,
  'name' | 'description' | 'scopes' | 'perMinute' | 'perHour' | 'perDay' | 'ipAllowlist' | 'writeMode' | 'expiresAt'
>;

export type NewApiKey = ApiKeySettings &
  Pick<
    ApiKeyRow,
    'id' | 'environment' | 'prefix' | 'last4' | 'reachKind' | 'reachId' | 'createdById' | 'createdByName' | 'createdAt'
  >;

const columns = (sql: Sql) => sql`
  k.id, k.name, k.description, k.environment, k.prefix, k.last4, k.scopes, k.rate_limit_per_minute as per_minute,
  k.rate_limit_per_hour as per_hour, k.rate_limit_per_day as per_day, k.ip_allowlist, k.reach_kind,
  k.reach_id, k.write_mode, k.expires_at, k.created_by_id, k.created_by_name,
  k.created_at, k.revoked_at, k.revoked_by, k.revoke_reason,
  k.is_legacy, u.last_used_at, u.last_used_ip, coalesce(u.total_requests, 0) as total_requests`;

/**
 * Counts the active keys at a real time. Until the transaction ends, no other can add one, so the
 * count stays correct.
 */
export async function lockActiveKeyCount(sql: Sql, companyId: string, now: Date): Promise<number> {
  const locked = lockValues(sql, companyId, ['number of API keys']);
  // A separate statement: it must see what the lock's last holder committed.
  const counted = sql<{ active: number }[]>`
    select count(*)::int as active from api_keys
    where company_id = ${companyId} and revoked_at is null and ${isUnexpiredKey(sql, companyId, now)}`.execute();
  const [, [row]] = await Promise.all([locked, counted]);
  return row?.active ?? 0;
}

export async function insertApiKey(sql: Sql, companyId: string, key: NewApiKey, keyHash: Buffer): Promise<void> {
  await Promise.all([
    insertKeyPlace(sql, companyId, keyHash),
    sql`
      insert into api_keys (company_id, id, key_hash, name, description, environment, prefix, last4, scopes, rate_limit_per_minute,
        rate_limit_per_hour, rate_limit_per_day, ip_allowlist, reach_kind, reach_id, write_mode, expires_at, created_by_id, created_by_name,
        created_at, updated_at)
      values (${companyId}, ${key.id}, ${keyHash}, ${key.name}, ${key.description}, ${key.environment}, ${key.prefix}, ${key.last4},
        ${key.scopes}, ${key.perMinute}, ${key.perHour}, ${key.perDay}, ${key.ipAllowlist}, ${key.reachKind}, ${key.reachId},
        ${key.writeMode}, ${key.expiresAt}, ${key.createdById}, ${key.createdByName}, ${key.createdAt}, ${key.createdAt})`.execute(),
    sql`insert into api_key_usage (company_id, api_key_id) values (${companyId}, ${key.id})`.execute(),
  ]);
}

export async function findApiKey(sql: Sql, companyId: string, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await sql<ApiKeyRow[]>`
    select ${columns(sql)}
    from api_keys k
    left join api_key_usage u on u.company_id = k.company_id and u.api_key_id = k.id
    where k.company_id = ${companyId} and k.id = ${id}`;
  return row;
}

/** Returns a key and locks it until the transaction ends. */
export async function lockApiKey(sql: Sql, companyId: string, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await sql<ApiKeyRow[]>`
    select ${columns(sql)}
    from api_keys k
    left join api_key_usage u on u.company_id = k.company_id and u.api_key_id = k.id
    where k.company_id = ${companyId} and k.id = ${id}
    for update of k`;
  return row;
}

export interface KeyFilter {
  environment: 'live' | 'test' | undefined;
  status: 'active' | 'expired' | 'revoked' | undefined;
  /** The last row of the page before. */
  after: readonly [string, string] | undefined;
}

/** Returns a page of keys, newest first. */
export async function listApiKeys(
  sql: Sql,
  companyId: string,
  { environment, status, after }: KeyFilter,
  limit: number,
  now: { live: Date; test: Date },
): Promise<ApiKeyRow[]> {
  const ofKey = sql`case k.environment when 'test' then ${now.test}::timestamptz else ${now.live}::timestamptz end`;
  const inStatus = {
    active: sql`and k.revoked_at is null and (k.expires_at is null or k.expires_at > ${ofKey})`,
    expired: sql`and k.revoked_at is null and k.expires_at <= ${ofKey}`,
    revoked: sql`and k.revoked_at is not null`,
  };
  return sql<ApiKeyRow[]>`
    select ${columns(sql)}
    from api_keys k
    left join api_key_usage u on u.company_id = k.company_id and u.api_key_id = k.id
    where k.company_id = ${companyId}
      ${environment ? sql`and k.environment = ${environment}` : sql``}
      ${status ? inStatus[status] : sql``}
      ${after ? sql`and (k.created_at, k.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by k.created_at desc, k.id desc
    limit ${limit}`;
}

export async function updateApiKey(
  sql: Sql,
  companyId: string,
  id: string,
  settings: ApiKeySettings,
  now: Date,
): Promise<void> {
  await sql`
    update api_keys
    set name = ${settings.name}, description = ${settings.description}, scopes = ${settings.scopes},
      rate_limit_per_minute = ${settings.perMinute}, rate_limit_per_hour = ${settings.perHour}, rate_limit_per_day = ${settings.perDay},
      ip_allowlist = ${settings.ipAllowlist}, write_mode = ${settings.writeMode}, expires_at = ${settings.expiresAt},
      is_replaced = is_replaced and expires_at is not distinct from ${settings.expiresAt}::timestamptz, updated_at = ${now}
    where company_id = ${companyId} and id = ${id}`;
}

/** Lets a key that is replaced by another expire after an overlap. */
export async function endReplacedKey(
  sql: Sql,
  companyId: string,
  id: string,
  expiresAt: Date,
  now: Date,
): Promise<void> {
  await sql`
    update api_keys set expires_at = ${expiresAt}, is_replaced = true, updated_at = ${now}
    where company_id = ${companyId} and id = ${id}`;
}

/**
 * Revokes a key.
 * @returns false if it was already revoked, or does not exist
 */
export async function revokeApiKey(
  sql: Sql,
  companyId: string,
  id: string,
  by: string,
  reason: string | null,
  now: Date,
): Promise<boolean> {
  const revoked = await sql`
    update api_keys set revoked_at = ${now}, revoked_by = ${by}, revoke_reason = ${reason}, updated_at = ${now}
    where company_id = ${companyId} and id = ${id} and revoked_at is null`;
  return revoked.count === 1;
}

/**
 * Returns true if the company has this branch or team, which cannot be deleted until the transaction
 * ends.
 */
export async function lockBranchOrTeam(
  sql: Sql,
  companyId: string,
  kind: 'branch' | 'team',
  id: string,
): Promise<boolean> {
  const [row] =
    kind === 'branch'
      ? await sql`select from branches where company_id = ${companyId} and id = ${id} for key share`
      : await sql`select from teams where company_id = ${companyId} and id = ${id} for key share`;
  return row !== undefined;
}

/**
 * Returns the calls of a key for each day since a day.
 * @param since YYYY-MM-DD
 * @returns by YYYY-MM-DD, without days that had none
 */
export async function countCallsOfKey(
  sql: Sql,
  companyId: string,
  keyId: string,
  since: string,
): Promise<ReadonlyMap<string, number>> {
  const rows = await sql<{ day: string; calls: number }[]>`
    select day, calls from api_key_days
    where company_id = ${companyId} and api_key_id = ${keyId} and day >= ${since}`;
  return new Map(rows.map(({ day, calls }) => [day, calls]));
}
