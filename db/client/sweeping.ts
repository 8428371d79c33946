// Removing rows that are past their time: found by an index on their age, company by company.
import type { TenantScope } from './tenant.ts';

/** What is to be removed, and whose it is. */
export interface DueRow {
  companyId: string;
  id: string;
}

/** What is to be removed of data, which is of a mode. */
export interface DueDataRow extends DueRow {
  testMode: boolean;
}

/** As removeByCompany, for those of each company and mode, whatever is done with them. @returns how many it was done with */
export async function forEachTenant<Row extends TenantScope>(
  due: readonly Row[],
  remove: (tenant: TenantScope, rows: readonly Row[]) => Promise<number>,
): Promise<number> {
  const tenants = [...Map.groupBy(due, ({ companyId, testMode }) => `${companyId} ${testMode}`).values()];
  const removed = await Promise.all(tenants.map((rows) => remove(rows[0] as Row, rows)));
  return removed.reduce((total, count) => total + count, 0);
}

/**
 * Removes rows, those of each company in a statement of its own, all of them under way at once.
 * @param remove sends its statement at once; asks again whether the rows are due, where that can change
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
