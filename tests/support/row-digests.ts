// Digests of a tenant's rows, for tests of what changes nothing.
import type { Sql } from 'postgres';
import { type TenantTable, tenantTables } from '../isolation/schema.ts';
import { database, type Tenant } from './tenants.ts';

/** Tables that count calls, or log them after their responses. */
const aboutCalls = ['api_key_days', 'api_key_usage', 'api_quota', 'api_quota_blocks', 'request_log'];

/** Returns the tables with tenants' rows, except those about calls and some others. */
export async function listDigestedTables(
  except: readonly string[] = [],
  sql: Sql = database(),
): Promise<TenantTable[]> {
  const left = [...aboutCalls, ...except];
  return (await tenantTables(sql)).filter(({ name }) => !left.includes(name));
}

/**
 * Returns a digest of the tenant's rows by table.
 * @param more a query for further names and values
 * @param sql the database, if it is not the common one
 */
export async function digestRows(
  tables: readonly TenantTable[],
  { companyId }: Pick<Tenant, 'companyId'>,
  more: string,
  sql: Sql = database(),
): Promise<Map<string, string>> {
  const parts = tables.map(
    ({
      name,
      company,
    }) => `select '${name}' as name, coalesce(md5(string_agg(t::text, '' order by t::text)), '') as digest
      from ${name} t where ${company} = '${companyId}'`,
  );
  const rows = await sql.unsafe<{ name: string; digest: string }[]>([...parts, more].join(' union all '));
  return new Map(rows.map(({ name, digest }) => [name, digest]));
}
