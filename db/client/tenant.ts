// Binding a transaction to a tenant, as row-level security wants it.
import type { Sql } from './pool.ts';

/** Whose rows, and of which mode. */
export interface TenantScope {
  companyId: string;
  testMode: boolean;
}

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/**
 * An id as it may become part of a statement's text.
 * @throws Error for what is none
 */
export function asId(text: string): string {
  if (!uuid.test(text)) throw new Error('not an id');
  return `'${text}'`;
}

/**
 * The statements that have the rest of a transaction see and write the tenant's rows alone.
 * @throws Error for what is not the id of a company
 */
export function tenantSettings({ companyId, testMode }: TenantScope): readonly string[] {
  return [`set local app.company_id = ${asId(companyId)}`, `set local app.test_mode = '${testMode}'`];
}

/** Binds a transaction that has begun; sent at once, before whatever is asked next. */
export async function enterTenant(sql: Sql, scope: TenantScope): Promise<void> {
  await Promise.all(tenantSettings(scope).map((setting) => sql.unsafe(setting).execute()));
}
