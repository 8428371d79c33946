// The imports of the demo workspace, in test mode.
import type { Sql } from '../client/pool.ts';

interface DemoImports {
  toShow: { options: object; layout: object; errors_file_id: string };
  others: readonly { options: object; layout?: object }[];
  error: { fields: object[]; content: unknown[] };
}

/** Inserts the imports, whose file of failed rows is in the storage already. */
export async function insertImports(
  sql: Sql,
  companyId: string,
  { toShow, others, error }: DemoImports,
): Promise<void> {
  const own = { company_id: companyId, test_mode: true };
  const json = (value: unknown) => sql.json(value as never);
  await sql`insert into stored_files ${sql({ ...own, id: toShow.errors_file_id })}`;
  await sql`insert into imports ${sql({ ...own, ...toShow, options: json(toShow.options), layout: json(toShow.layout) })}`;
  for (const other of others) {
    const layout = other.layout ? { layout: json(other.layout) } : {};
    const row = { ...own, ...other, options: json(other.options), ...layout };
    await sql`insert into imports ${sql(row as never)}`;
  }
  await sql`insert into import_errors ${sql({ ...own, ...error, fields: json(error.fields), content: json(error.content) })}`;
}
