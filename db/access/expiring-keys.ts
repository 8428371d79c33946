// API keys that expire soon: found under the platform role, marked under the tenant's.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';

export interface ExpiringKey extends TenantScope {
  id: string;
  name: string;
  expiresAt: Date;
}

/**
 * Finds keys that expire before a time and whose owners were not notified yet.
 * @param besides companies that are left out
 */
export async function findExpiringKeys(
  sql: Sql,
  due: DueTime,
  until: Date,
  besides: readonly string[],
  limit: number,
): Promise<ExpiringKey[]> {
  return sql<ExpiringKey[]>`
    select company_id, environment = 'test' as test_mode, id, name, expires_at
    from api_keys
    where expires_at > ${due.now} and expires_at <= ${until} and revoked_at is null and expiry_notified_for is distinct from expires_at
      and company_id <> all(${[...besides]}::uuid[]) and ${belongsToRun(sql, 'api_keys', due, sql`environment = 'test'`)}
    order by expires_at
    limit ${limit}`;
}

/**
 * Records that the owners were notified.
 * @returns false if another server was first, or if the key has changed
 */
export async function recordExpiryNotice(sql: Sql, { companyId, id, expiresAt }: ExpiringKey): Promise<boolean> {
  const noted = await sql`
    update api_keys set expiry_notified_for = expires_at
    where company_id = ${companyId} and id = ${id} and expires_at = ${expiresAt} and revoked_at is null
      and expiry_notified_for is distinct from expires_at`;
  return noted.count === 1;
}
