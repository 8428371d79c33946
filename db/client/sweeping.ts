// Removes expired rows: an index on their age finds them, and each company's are removed together.
import type { TenantScope } from './tenant.ts';

/** A row to be removed, and its company. */
export interface DueRow {
  companyId: string;
  id: string;
}

/** The same for a table with data of both modes. */
export interface DueDataRow extends DueRow {
  testMode: boolean;
}

/**
 * As removeByCompany, but for each company and mode, and for any action.
 * @returns the sum of the returned counts
 */
export async function forEachTenant<Row extends TenantScope>(
  due: readonly Row[],
  remove: (tenant: TenantScope, rows: readonly Row[]) => Promise<number>,
): Promise<number> {
  const tenants = [...Map.groupBy(due, ({ companyId, testMode }) => `${companyId} ${testMode}`).values()];
  const removed = await Promise.all(tenants.map((rows) => remove(rows[0] as Row, rows)));
  return removed.reduce((total, count) => total + count, 0);
}

/**
 * Removes rows, with one statement for each company. All statements run at the same time.
 * @param remove sends its statement immediately; checks again that the rows are due, if that can
 * change
 * @returns how many were removed
 */
export async function removeByCompany<Row extends { companyId: string }>(
  due: readonly Row[],
  remove: (companyId: string, rows: readonly Row[]) => Promise<number>,
): Promise<number> {
  const companies = [...Map.groupBy(due, ({ companyId }) => companyId)];
  const removed = await Promise.all(companies.map(([companyId, rows]) => remove(companyId, rows)));
  return removed.reduce((total, count) => total + count, 0);
}
