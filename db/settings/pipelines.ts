// Pipelines of deals. Callers that change them have locked the configuration.
import { v7 as uuidv7 } from 'uuid';
import type { Sql } from '../client/pool.ts';

export interface PipelineRow {
  id: string;
  name: string;
  isDefault: boolean;
  orderPosition: number;
  createdAt: Date;
  updatedAt: Date;
}

const columns = ['id', 'name', 'is_default', 'order_position', 'created_at', 'updated_at'] as const;

/** Returns all pipelines in their order. */
export async function listPipelines(sql: Sql, companyId: string): Promise<PipelineRow[]> {
  return await sql<PipelineRow[]>`
    select ${sql(columns)} from pipelines where company_id = ${companyId} order by order_position, id`;
}

/** Inserts a pipeline with its stages, in their order. */
export async function insertPipeline(
  sql: Sql,
  companyId: string,
  pipeline: PipelineRow,
  stages: readonly { name: string; outcome: string }[],
): Promise<void> {
  const { id: pipelineId, createdAt, updatedAt } = pipeline;
  await sql`insert into pipelines ${sql({ companyId, ...pipeline })}`;
  const rows = stages.map(({ name, outcome }, index) => ({
    companyId,
    id: uuidv7(),
    object: 'deals',
    pipelineId,
    name,
    outcome,
    orderPosition: index + 1,
    createdAt,
    updatedAt,
  }));
  await sql`insert into statuses ${sql(rows)}`;
}

export async function updatePipeline(sql: Sql, companyId: string, pipeline: PipelineRow): Promise<void> {
  const { id, createdAt: _, ...changed } = pipeline;
  await sql`update pipelines set ${sql(changed)} where company_id = ${companyId} and id = ${id}`;
}

/** Makes room for another default pipeline. */
export async function clearDefaultPipeline(sql: Sql, companyId: string, now: Date): Promise<void> {
  await sql`
    update pipelines set is_default = false, updated_at = ${now} where company_id = ${companyId} and is_default`;
}

/** Numbers the pipelines from 1, in the given order. */
export async function orderPipelines(sql: Sql, companyId: string, ids: readonly string[], now: Date): Promise<void> {
  await sql`
    update pipelines pipeline
    set order_position = listed.position, updated_at = ${now}
    from unnest(${[...ids]}::uuid[]) with ordinality listed (id, position)
    where pipeline.company_id = ${companyId} and pipeline.id = listed.id and pipeline.order_position <> listed.position`;
}

/** Deletes a pipeline and its stages, which have no deals. */
export async function deletePipeline(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from statuses where company_id = ${companyId} and pipeline_id = ${id}`;
  await sql`delete from pipelines where company_id = ${companyId} and id = ${id}`;
}
