// Sources of leads, deals and customers. Callers that change them have locked the configuration.
import type { Sql } from '../client/pool.ts';

export interface SourceRow {
  id: string;
  name: string;
  description: string | null;
  isEnabled: boolean;
  createdAt: Date;
  updatedAt: Date;
}

const columns = ['id', 'name', 'description', 'is_enabled', 'created_at', 'updated_at'] as const;

/** Returns all sources by name. */
export async function listSources(sql: Sql, companyId: string): Promise<SourceRow[]> {
  return await sql<SourceRow[]>`
    select ${sql(columns)} from sources where company_id = ${companyId} order by name, id`;
}

export async function findSource(sql: Sql, companyId: string, id: string): Promise<SourceRow | undefined> {
  const [row] = await sql<SourceRow[]>`
    select ${sql(columns)} from sources where company_id = ${companyId} and id = ${id}`;
  return row;
}

export async function insertSource(sql: Sql, companyId: string, source: SourceRow): Promise<void> {
  await sql`insert into sources ${sql({ companyId, ...source })}`;
}

export async function updateSource(sql: Sql, companyId: string, source: SourceRow): Promise<void> {
  const { id, createdAt: _, ...changed } = source;
  await sql`update sources set ${sql(changed)} where company_id = ${companyId} and id = ${id}`;
}

export async function deleteSource(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from sources where company_id = ${companyId} and id = ${id}`;
}
