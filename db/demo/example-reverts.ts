// The reverts of the demo workspace, in test mode.
import type { Sql } from '../client/pool.ts';

export async function insertReverts(sql: Sql, companyId: string, rows: readonly { source: object }[]): Promise<void> {
  for (const row of rows) {
    const source = sql.json(row.source as never);
    await sql`insert into reverts ${sql({ ...row, company_id: companyId, test_mode: true, source })}`;
  }
}
