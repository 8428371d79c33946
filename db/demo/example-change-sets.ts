// The change sets of the demo workspace. People decide in live mode, and keys of samples are test keys.
import type { Sql } from '../client/pool.ts';

export async function insertChangeSets(
  sql: Sql,
  companyId: string,
  rows: readonly { operations: readonly object[] }[],
): Promise<void> {
  for (const row of rows) {
    const operations = sql.json(row.operations as never);
    for (const isTest of [true, false])
      await sql`insert into change_sets ${sql({ ...row, company_id: companyId, test_mode: isTest, operations })}`;
  }
}
