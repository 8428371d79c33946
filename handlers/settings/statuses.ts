// Statuses of leads and stages of deals: list in their order, and change.
import { v7 as uuidv7 } from 'uuid';
import { countReferences, referencesTo } from '../../db/settings/setting-references.ts';
import {
  deleteStatus as deleteStored,
  insertStatus,
  listStatuses as listStored,
  orderStatuses,
  type StatusRow,
  updateStatus as updateStored,
} from '../../db/settings/statuses.ts';
import { getBuiltinObject, type Workspace } from '../../domain/objects/workspace.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { moveToPosition } from '../../domain/settings/positions.ts';
import {
  checkRules,
  findOutcomeProblem,
  findPreConditionFieldProblems,
  type KeptRule,
  readPipelineId,
  toRuleResponse,
} from '../../domain/settings/statuses.ts';
import type { components } from '../../generated/api.ts';
import { conflict, type FieldProblem, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

type Status = components['schemas']['Status'];

export const listStatuses: Handler<'listStatuses'> = async (call) => {
  const { workspace, statuses } = await read(call);
  const { rows, ...rest } = selectPage(call, ['statuses', call.request.path.object], statuses, (status) => status.id);
  return { status: 200, data: { statuses: rows.map((row) => toStatus(row, workspace)), ...rest } };
};

export const getStatus: Handler<'getStatus'> = async (call) => {
  const { workspace, statuses } = await read(call);
  return { status: 200, data: { status: toStatus(findStatus(statuses, call.request.path.id), workspace) } };
};

export const createStatus: Handler<'createStatus'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { object } = call.request.path;
  const { companyId } = call.caller;
  const { workspace, statuses } = await lock(call);
  const { pipelineId, problem } = readPipelineId(object, body.pipeline_id, workspace);
  const rules = checkBody(call, workspace, problem ? [problem] : []);
  const list = statuses.filter((status) => status.pipelineId === pipelineId);
  const name = body.name.trim();
  refuseTwin('A status', name, list);
  const owner = pipelineId === null ? 'A workspace' : 'A pipeline';
  refuseFull(
    list.length,
    configurationLimits.statusesOfObject,
    'status_limit_reached',
    `statuses for ${object}`,
    owner,
  );

  const id = uuidv7();
  const order = moveToPosition(
    list.map((status) => status.id),
    id,
    body.order_position,
  );
  const status: StatusRow = {
    id,
    object,
    pipelineId,
    name,
    description: body.description ?? null,
    orderPosition: order.indexOf(id) + 1,
    isActive: body.is_active,
    color: body.color,
    outcome: body.outcome,
    preConditionFields: body.pre_condition_fields,
    preConditionRules: rules ?? [],
    createdAt: now,
    updatedAt: now,
  };
  await insertStatus(sql, companyId, status);
  await orderStatuses(sql, companyId, order, now);
  const shown = toStatus(status, workspace);
  recordChange(call, 'status', undefined, shown);
  return { status: 201, data: { status: shown } };
};

export const updateStatus: Handler<'updateStatus'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { workspace, statuses } = await lock(call);
  const before = findStatus(statuses, call.request.path.id);
  const list = statuses.filter((status) => status.pipelineId === before.pipelineId);
  const others = list.filter((status) => status !== before);
  const rules = checkBody(call, workspace);
  const name = body.name?.trim() ?? before.name;
  refuseTwin('A status', name, others);
  const isActive = body.is_active ?? before.isActive;
  if (before.isActive && !isActive) assertOtherActive(others);

  const order = moveToPosition(
    list.map((status) => status.id),
    before.id,
    body.order_position ?? list.indexOf(before) + 1,
  );
  const after: StatusRow = {
    ...before,
    name,
    description: body.description === undefined ? before.description : body.description,
    orderPosition: order.indexOf(before.id) + 1,
    isActive,
    color: body.color ?? before.color,
    outcome: body.outcome ?? before.outcome,
    preConditionFields: body.pre_condition_fields ?? before.preConditionFields,
    preConditionRules: rules ?? before.preConditionRules,
    updatedAt: now,
  };
  const [was, shown] = [toStatus(before, workspace), toStatus(after, workspace)];
  if (!recordChange(call, 'status', was, shown)) return { status: 200, data: { status: was } };
  await updateStored(sql, companyId, after);
  await orderStatuses(sql, companyId, order, now);
  return { status: 200, data: { status: shown } };
};

export const deleteStatus: Handler<'deleteStatus'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const { object } = call.request.path;
  const { workspace, statuses } = await lock(call);
  const status = findStatus(statuses, call.request.path.id);
  const others = statuses.filter((each) => each !== status && each.pipelineId === status.pipelineId);
  const { counts, capped } = await countReferences(sql, caller, 'statuses', status.id, referencesTo[object]);
  if (Object.values(counts).some((count) => count > 0)) {
    throw conflict(
      'in_use',
      `The status ${status.name} is used by records. Move them first, or deactivate the status instead.`,
      {
        references: counts,
        ...(capped ? { references_capped: true } : {}),
      },
    );
  }
  if (status.isActive) assertOtherActive(others);
  await deleteStored(sql, caller.companyId, status.id);
  await orderStatuses(
    sql,
    caller.companyId,
    others.map((each) => each.id),
    now,
  );
  recordChange(call, 'status', toStatus(status, workspace), undefined);
  return { status: 200, data: { id: status.id, deleted: true } };
};

type ReadCall = Call<'listStatuses'> | Call<'getStatus'>;
type WriteCall = Call<'createStatus'> | Call<'updateStatus'> | Call<'deleteStatus'>;

async function read(call: ReadCall): Promise<{ workspace: Workspace; statuses: StatusRow[] }> {
  const workspace = await call.services.loadWorkspace();
  return { workspace, statuses: await listStored(call.db.sql, call.caller.companyId, call.request.path.object) };
}

/** Returns the statuses in their order, and locks the configuration until the transaction ends. */
async function lock(call: WriteCall): Promise<{ workspace: Workspace; statuses: StatusRow[] }> {
  const workspace = await lockSettings(call);
  return { workspace, statuses: await listStored(call.db.sql, call.caller.companyId, call.request.path.object) };
}

/**
 * Checks what depends on the workspace.
 * @param others problems of fields that only this operation has
 * @returns the rules to store; undefined if the body has none
 * @throws ApiError 400 or 422 with every problem, including those of the OpenAPI document
 */
function checkBody(
  call: Call<'createStatus'> | Call<'updateStatus'>,
  workspace: Workspace,
  others: FieldProblem[] = [],
): KeptRule[] | undefined {
  const { body } = call.request;
  const object = getBuiltinObject(call.request.path.object, workspace);
  const checked = checkRules(object, workspace, body.pre_condition_rules);
  const outcome = findOutcomeProblem(call.request.path.object, body.outcome);
  const documented = [...checked.missing, ...(outcome ? [outcome] : [])];
  const found = [...others, ...findPreConditionFieldProblems(object, body.pre_condition_fields), ...checked.problems];
  if (call.request.problems.length + documented.length + found.length > 0)
    throw call.request.rejection(found, documented);
  return body.pre_condition_rules === undefined ? undefined : checked.rules;
}

/** @throws ApiError 404 */
function findStatus(statuses: readonly StatusRow[], id: string): StatusRow {
  return orNotFound(statuses.find((each) => each.id === id.toLowerCase()));
}

/** @throws ApiError 409 if no other status is active */
function assertOtherActive(others: readonly StatusRow[]): void {
  if (!others.some((status) => status.isActive))
    throw conflict('last_active', 'At least one status must remain active.');
}

function toStatus(row: StatusRow, workspace: Workspace): Status {
  const object = getBuiltinObject(row.object, workspace);
  const rules = row.preConditionRules as KeptRule[];
  return {
    id: row.id,
    object: row.object,
    pipeline_id: row.pipelineId,
    name: row.name,
    description: row.description,
    order_position: row.orderPosition,
    is_active: row.isActive,
    color: row.color,
    outcome: row.outcome as Status['outcome'],
    pre_condition_fields: row.preConditionFields,
    pre_condition_rules: rules.map((rule) => toRuleResponse(object, workspace, rule)) as Status['pre_condition_rules'],
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
