// Checks for records in a mode of a workspace.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** Returns true if the mode has a record of any object. */
export async function hasRecords(sql: Sql, { companyId, testMode }: TenantScope): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from leads where company_id = ${companyId} and test_mode = ${testMode})
      or exists (select from customers where company_id = ${companyId} and test_mode = ${testMode})
      or exists (select from accounts where company_id = ${companyId} and test_mode = ${testMode})
      or exists (select from deals where company_id = ${companyId} and test_mode = ${testMode})
      or exists (select from tasks where company_id = ${companyId} and test_mode = ${testMode})
      or exists (select from activities where company_id = ${companyId} and test_mode = ${testMode})
      or exists (select from custom_records where company_id = ${companyId} and test_mode = ${testMode}) as found`;
  return row?.found === true;
}
