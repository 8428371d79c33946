// Whether a credential that was good when its call arrived still is: for calls that waited.

import type { Actor } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';

/** Who calls. */
interface Caller {
  companyId: string;
  actor: Actor;
  /** In whose name an app acts; null for keys. */
  userId: string | null;
}

/** @param clientId of the app, where one calls */
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
