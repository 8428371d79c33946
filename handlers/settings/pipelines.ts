// Pipelines of deals: list in their order, and change.
import { v7 as uuidv7 } from 'uuid';
import {
  clearDefaultPipeline,
  deletePipeline,
  insertPipeline,
  listPipelines,
  orderPipelines,
  type PipelineRow,
  updatePipeline,
} from '../../db/settings/pipelines.ts';
import { countReferences, referencesTo } from '../../db/settings/setting-references.ts';
import { dealStatuses } from '../../domain/onboarding/defaults.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { moveToPosition } from '../../domain/settings/positions.ts';
import type { components } from '../../generated/api.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

export const listDealPipelines: Handler<'listDealPipelines'> = async (call) => {
  const pipelines = await listPipelines(call.db.sql, call.caller.companyId);
  const { rows, ...rest } = selectPage(call, ['pipelines'], pipelines, (pipeline) => pipeline.id);
  return { status: 200, data: { pipelines: rows.map(toPipelineResponse), ...rest } };
};

export const getDealPipeline: Handler<'getDealPipeline'> = async (call) => {
  const pipelines = await listPipelines(call.db.sql, call.caller.companyId);
  return { status: 200, data: { pipeline: toPipelineResponse(findPipeline(pipelines, call.request.path.id)) } };
};

export const createDealPipeline: Handler<'createDealPipeline'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const pipelines = await lock(call);
  const name = body.name.trim();
  refuseTwin('A pipeline', name, pipelines);
  refuseFull(pipelines.length, configurationLimits.pipelines, 'pipeline_limit_reached', 'pipelines');

  const id = uuidv7();
  const order = moveToPosition(
    pipelines.map((pipeline) => pipeline.id),
    id,
    body.order_position,
  );
  const pipeline: PipelineRow = {
    id,
    name,
    isDefault: body.is_default,
    orderPosition: order.indexOf(id) + 1,
    createdAt: now,
    updatedAt: now,
  };
  if (pipeline.isDefault) await replaceDefault(call, pipelines);
  await insertPipeline(sql, companyId, pipeline, dealStatuses);
  await orderPipelines(sql, companyId, order, now);
  const shown = toPipelineResponse(pipeline);
  recordChange(call, 'pipeline', undefined, shown);
  return { status: 201, data: { pipeline: shown } };
};

export const updateDealPipeline: Handler<'updateDealPipeline'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const pipelines = await lock(call);
  const before = findPipeline(pipelines, call.request.path.id);
  const name = body.name?.trim() ?? before.name;
  refuseTwin('A pipeline', name, pipelines, before.id);
  if (before.isDefault && body.is_default === false)
    throw conflict('default_pipeline', 'One pipeline must be the default. Make another pipeline the default instead.');

  const order = moveToPosition(
    pipelines.map((pipeline) => pipeline.id),
    before.id,
    body.order_position ?? pipelines.indexOf(before) + 1,
  );
  const after: PipelineRow = {
    ...before,
    name,
    isDefault: body.is_default ?? before.isDefault,
    orderPosition: order.indexOf(before.id) + 1,
    updatedAt: now,
  };
  const [was, shown] = [toPipelineResponse(before), toPipelineResponse(after)];
  if (!recordChange(call, 'pipeline', was, shown)) return { status: 200, data: { pipeline: was } };
  if (after.isDefault && !before.isDefault) await replaceDefault(call, pipelines);
  await updatePipeline(sql, companyId, after);
  await orderPipelines(sql, companyId, order, now);
  return { status: 200, data: { pipeline: shown } };
};

export const deleteDealPipeline: Handler<'deleteDealPipeline'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const pipelines = await lock(call);
  const pipeline = findPipeline(pipelines, call.request.path.id);
  if (pipeline.isDefault)
    throw conflict(
      'default_pipeline',
      `The pipeline ${pipeline.name} is the default. Make another pipeline the default first.`,
    );
  const { counts, capped } = await countReferences(sql, caller, 'pipelines', pipeline.id, referencesTo.pipelines);
  if (Object.values(counts).some((count) => count > 0)) {
    throw conflict('in_use', `The pipeline ${pipeline.name} has deals. Move them to another pipeline first.`, {
      references: counts,
      ...(capped ? { references_capped: true } : {}),
    });
  }
  await deletePipeline(sql, caller.companyId, pipeline.id);
  const others = pipelines.filter((each) => each !== pipeline).map((each) => each.id);
  await orderPipelines(sql, caller.companyId, others, now);
  recordChange(call, 'pipeline', toPipelineResponse(pipeline), undefined);
  return { status: 200, data: { id: pipeline.id, deleted: true } };
};

type WriteCall = Call<'createDealPipeline'> | Call<'updateDealPipeline'> | Call<'deleteDealPipeline'>;

/** Returns the pipelines in their order, and locks the configuration until the transaction ends. */
async function lock(call: WriteCall): Promise<PipelineRow[]> {
  await lockSettings(call);
  return await listPipelines(call.db.sql, call.caller.companyId);
}

/** Makes the current default pipeline an ordinary one. */
async function replaceDefault(call: WriteCall, pipelines: readonly PipelineRow[]): Promise<void> {
  await clearDefaultPipeline(call.db.sql, call.caller.companyId, call.now);
  const before = pipelines.find(({ isDefault }) => isDefault);
  if (!before) throw new Error('every workspace has a default pipeline');
  recordChange(call, 'pipeline', toPipelineResponse(before), toPipelineResponse({ ...before, isDefault: false }));
}

/** @throws ApiError 404 */
function findPipeline(pipelines: readonly PipelineRow[], id: string): PipelineRow {
  return orNotFound(pipelines.find((each) => each.id === id.toLowerCase()));
}

function toPipelineResponse(row: PipelineRow): components['schemas']['DealPipeline'] {
  return {
    id: row.id,
    name: row.name,
    is_default: row.isDefault,
    order_position: row.orderPosition,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
