// The fields by which new records are compared with existing ones.
// Callers that change them have locked the configuration.
import type { Sql } from '../client/pool.ts';

export interface DuplicateCheckRow {
  object: string;
  enabled: boolean;
  fields: readonly string[];
}

export async function putDuplicateCheck(sql: Sql, companyId: string, check: DuplicateCheckRow): Promise<void> {
  const { object, enabled, fields } = check;
  await sql`
    insert into duplicate_checks (company_id, object, enabled, fields)
    values (${companyId}, ${object}, ${enabled}, ${[...fields]})
    on conflict (company_id, object) do update set enabled = excluded.enabled, fields = excluded.fields`;
}
