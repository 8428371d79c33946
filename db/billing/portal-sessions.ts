// Sessions of the portal, where a person changes the stored card.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface PortalSession {
  id: string;
  returnUrl: string | null;
  createdAt: Date;
  expiresAt: Date;
}

export async function insertPortalSession(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, returnUrl, createdAt, expiresAt }: PortalSession,
): Promise<void> {
  await sql`
    insert into portal_sessions (company_id, test_mode, id, return_url, created_at, expires_at)
    values (${companyId}, ${testMode}, ${id}, ${returnUrl}, ${createdAt}, ${expiresAt})`;
}

export async function findPortalSession(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<PortalSession | undefined> {
  const [row] = await sql<PortalSession[]>`
    select id, return_url, created_at, expires_at from portal_sessions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return row;
}
