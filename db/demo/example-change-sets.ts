// Change sets of the demo workspace: people decide in live mode, samples run with test keys.
import type { Sql } from '../client/pool.ts';
import { enterTenant } from '../client/tenant.ts';

export async function insertChangeSets(
  sql: Sql,
  companyId: string,
  rows: readonly { operations: readonly object[] }[],
): Promise<void> {
  for (const isTest of [false, true]) {
    await enterTenant(sql, { companyId, testMode: isTest });
    for (const row of rows) {
      const operations = sql.json(row.operations as never);
      await sql`insert into change_sets ${sql({ ...row, company_id: companyId, test_mode: isTest, operations })}`;
    }
  }
}
