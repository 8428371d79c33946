// Tags of leads and customers. Callers that change them have locked the configuration.
import type { Sql } from '../client/pool.ts';

export interface TagRow {
  id: string;
  object: 'leads' | 'customers';
  name: string;
  description: string | null;
  color: string;
  priority: number;
  /** Conditions of a lead tag, names of fields of a customer tag. */
  fields: unknown;
  conditions: unknown;
  conditionLogic: 'AND' | 'OR';
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  'id',
  'object',
  'name',
  'description',
  'color',
  'priority',
  'fields',
  'conditions',
  'condition_logic',
  'created_at',
  'updated_at',
] as const;

/** Returns all tags of an object in the order in which records list them. */
export async function listTags(sql: Sql, companyId: string, object: string): Promise<TagRow[]> {
  return await sql<TagRow[]>`
    select ${sql(columns)}
    from tags
    where company_id = ${companyId} and object = ${object}
    order by priority, name, id`;
}

export async function findTag(sql: Sql, companyId: string, object: string, id: string): Promise<TagRow | undefined> {
  const [row] = await sql<TagRow[]>`
    select ${sql(columns)} from tags where company_id = ${companyId} and object = ${object} and id = ${id}`;
  return row;
}

export async function insertTag(sql: Sql, companyId: string, tag: TagRow): Promise<void> {
  await sql`insert into tags ${sql({ companyId, ...toRow(sql, tag) })}`;
}

export async function updateTag(sql: Sql, companyId: string, tag: TagRow): Promise<void> {
  const { id, object, createdAt: _, ...changed } = toRow(sql, tag);
  await sql`update tags set ${sql(changed)} where company_id = ${companyId} and object = ${object} and id = ${id}`;
}

/**
 * Deletes a tag, also from all records that have it.
 * @returns the tag, or undefined if there is none
 */
export async function deleteTag(sql: Sql, companyId: string, object: string, id: string): Promise<TagRow | undefined> {
  const [row] = await sql<TagRow[]>`
    delete from tags where company_id = ${companyId} and object = ${object} and id = ${id} returning ${sql(columns)}`;
  return row;
}

function toRow(sql: Sql, tag: TagRow) {
  return { ...tag, fields: sql.json(tag.fields as never), conditions: sql.json(tag.conditions as never) };
}
