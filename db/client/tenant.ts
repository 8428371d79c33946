// Binds a transaction to a tenant, for row-level security.
import type { Sql } from './pool.ts';

/** A company in one mode. */
export interface TenantScope {
  companyId: string;
  testMode: boolean;
}

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/**
 * Returns an id as a literal for a statement's text.
 * @throws Error if the text is not an id
 */
export function toIdLiteral(text: string): string {
  if (!uuid.test(text)) throw new Error('not an id');
  return `'${text}'`;
}

/**
 * Returns the statements that restrict the rest of a transaction to the tenant's rows.
 * @throws Error if the company id is not an id
 */
export function buildTenantSettings({ companyId, testMode }: TenantScope): readonly string[] {
  return [`set local app.company_id = ${toIdLiteral(companyId)}`, `set local app.test_mode = '${testMode}'`];
}

/** Binds a transaction that has begun. Sends its statements immediately, before any later one. */
export async function enterTenant(sql: Sql, scope: TenantScope): Promise<void> {
  await Promise.all(buildTenantSettings(scope).map((setting) => sql.unsafe(setting).execute()));
}
