// Checks that a credential that was valid when its call arrived still is. For calls that waited.

import type { Actor } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';

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
export async function isStillGood(sql: Sql, { companyId, actor, userId }: Caller, clientId: string): Promise<boolean> {
  const rows =
    actor.kind === 'api_key'
      ? await sql`
          select from api_keys
          where company_id = ${companyId} and id = ${actor.id} and revoked_at is null and (expires_at is null or expires_at > now())`
      : await sql`
          select from oauth_grants g
          join users u on u.company_id = ${companyId} and u.id = g.user_id and u.status = 'active'
          where g.company_id = ${companyId} and g.user_id = ${userId} and g.client_id = ${clientId} and g.revoked_at is null`;
  return rows.length > 0;
}
