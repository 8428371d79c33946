// Statuses of leads and stages of deals. Callers that change them have locked the configuration.
import type { Sql } from '../client/pool.ts';

export interface StatusRow {
  id: string;
  object: 'leads' | 'deals';
  /** The pipeline of a stage of deals; null for a status of leads. */
  pipelineId: string | null;
  name: string;
  description: string | null;
  orderPosition: number;
  isActive: boolean;
  color: string;
  outcome: string;
  preConditionFields: string[];
  /** In the form of domain/settings/statuses.ts. */
  preConditionRules: unknown;
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  'id',
  'object',
  'pipeline_id',
  'name',
  'description',
  'order_position',
  'is_active',
  'color',
  'outcome',
  'pre_condition_fields',
  'pre_condition_rules',
  'created_at',
  'updated_at',
] as const;

/** Returns all statuses of an object in their order; stages in the order of their pipelines. */
export async function listStatuses(sql: Sql, companyId: string, object: string): Promise<StatusRow[]> {
  return await sql<StatusRow[]>`
    select ${sql(columns.map((column) => `s.${column}`))}
    from statuses s
    left join pipelines p on p.company_id = s.company_id and p.id = s.pipeline_id
    where s.company_id = ${companyId} and s.object = ${object}
    order by p.order_position, s.order_position, s.id`;
}

export async function insertStatus(sql: Sql, companyId: string, status: StatusRow): Promise<void> {
  await sql`insert into statuses ${sql({ companyId, ...toRow(sql, status) })}`;
}

export async function updateStatus(sql: Sql, companyId: string, status: StatusRow): Promise<void> {
  const { id, object, pipelineId: _pipeline, createdAt: _created, ...changed } = toRow(sql, status);
  await sql`update statuses set ${sql(changed)} where company_id = ${companyId} and object = ${object} and id = ${id}`;
}

/** Numbers the statuses from 1, in the given order. */
export async function orderStatuses(sql: Sql, companyId: string, ids: readonly string[], now: Date): Promise<void> {
  await sql`
    update statuses status
    set order_position = listed.position, updated_at = ${now}
    from unnest(${[...ids]}::uuid[]) with ordinality listed (id, position)
    where status.company_id = ${companyId} and status.id = listed.id and status.order_position <> listed.position`;
}

export async function deleteStatus(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from statuses where company_id = ${companyId} and id = ${id}`;
}

function toRow(sql: Sql, status: StatusRow) {
  return { ...status, preConditionRules: sql.json(status.preConditionRules as never) };
}
