// Workforces: create, read and change.
import { v7 as uuidv7 } from 'uuid';
import { countOnTheirWay, resumeRuns } from '../../db/automation/workforce-runs.ts';
import * as db from '../../db/automation/workforces.ts';
import { toCamelKeys } from '../../db/client/row-names.ts';
import {
  checkPlan,
  dropRepeatedProblems,
  findShapeProblems,
  findStepScopes,
  type GivenStep,
  type Plan,
  type Step,
  toObjectName,
} from '../../domain/automation/workforces.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { resolve } from '../../services/records/preparation.ts';
import { recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

type Item = components['schemas']['WorkforceItem'];
type Workforce = components['schemas']['Workforce'];
type ChangingCall = Call<'createWorkforce'> | Call<'updateWorkforce'>;

export const listWorkforces: Handler<'listWorkforces'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await readPage(
    call,
    ['workforces', query.status],
    (after, limit) => db.listWorkforces(sql, caller.companyId, query.status, after, limit),
    (last: db.WorkforceRow) => [last.createdAt.toISOString(), last.id],
  );
  const counts = await countOnTheirWay(
    sql,
    caller,
    rows.map(({ id }) => id),
  );
  return {
    status: 200,
    data: { workforces: rows.map((row) => toWorkforceListItem(row, counts.get(row.id))), ...rest },
  };
};

export const getWorkforce: Handler<'getWorkforce'> = async (call) => {
  const row = orNotFound(await db.findWorkforce(call.db.sql, call.caller.companyId, call.request.path.id));
  return { status: 200, data: { workforce: await toWorkforceResponse(call, row) } };
};

export const createWorkforce: Handler<'createWorkforce'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  await validatePlan(call, toCamelKeys(body));
  await db.lockWorkforces(sql, caller.companyId);
  const others = await db.listWorkforceNames(sql, caller.companyId);
  const row: db.WorkforceRow = {
    id: uuidv7(),
    name: body.name.trim(),
    description: body.description ?? null,
    kind: body.kind,
    status: body.status,
    subjectTypes: body.subject_types,
    steps: body.steps,
    stopWhen: body.stop_when ?? null,
    stopWhenReplied: body.stop_when_replied,
    createdAt: now,
    updatedAt: now,
  };
  refuseTwin('A workforce', row.name, others);
  refuseFull(others.length, configurationLimits.workforces, 'workforce_limit_reached', 'workforces');
  await db.insertWorkforce(sql, caller.companyId, row);
  recordChange(call, 'workforce', undefined, pickSettings(row));
  return { status: 201, data: { workforce: await toWorkforceResponse(call, row) } };
};

export const updateWorkforce: Handler<'updateWorkforce'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  await db.lockWorkforces(sql, caller.companyId);
  const before = orNotFound(await db.findWorkforce(sql, caller.companyId, path.id));
  const { kind: _, ...changes } = body;
  const after = {
    ...before,
    ...toCamelKeys(changes),
    id: before.id,
    name: body.name?.trim() ?? before.name,
    createdAt: before.createdAt,
    updatedAt: now,
  };
  if (body.steps || body.subject_types || body.stop_when !== undefined) await validatePlan(call, after);
  refuseTwin('A workforce', after.name, await db.listWorkforceNames(sql, caller.companyId), before.id);
  if (!recordChange(call, 'workforce', pickSettings(before), pickSettings(after)))
    return { status: 200, data: { workforce: await toWorkforceResponse(call, before) } };
  await db.updateWorkforce(sql, caller.companyId, after);
  if (after.status === 'active' && before.status !== 'active') await resumeRuns(sql, caller, before.id);
  return { status: 200, data: { workforce: await toWorkforceResponse(call, after) } };
};

/**
 * @throws ApiError 403 if the caller lacks a permission that a step needs; 400 and 422 if a step is
 * invalid, as such or for a type of records
 */
async function validatePlan(
  call: ChangingCall,
  plan: { subjectTypes: Plan['subjectTypes']; steps: readonly GivenStep[]; stopWhen?: Plan['stopWhen'] | undefined },
): Promise<void> {
  const misshapen = findShapeProblems(plan.steps);
  if (misshapen.length > 0) throw call.request.rejection(misshapen);
  const steps = plan.steps as readonly Step[];
  const objects = plan.subjectTypes.map(toObjectName);
  const scopes = objects.flatMap((object) => [
    `${object}:view`,
    ...steps.flatMap((step) => findStepScopes(step, object)),
  ]);
  for (const scope of new Set(scopes)) call.authorize(scope);
  const asked = { subjectTypes: plan.subjectTypes, steps, stopWhen: plan.stopWhen ?? null };
  const { problems, toResolve } = checkPlan(asked, await call.services.loadWorkspace(), call.now);
  for (const { checked, at } of toResolve) {
    await resolve(call, checked);
    problems.push(...checked.problems.map((each) => ({ ...each, field: at(each.field) })));
  }
  if (problems.length > 0) throw call.request.rejection(dropRepeatedProblems(problems));
}

/** Returns the settings of a workforce. */
function pickSettings({
  id,
  name,
  description,
  kind,
  status,
  subjectTypes,
  steps,
  stopWhen,
  stopWhenReplied,
}: db.WorkforceRow) {
  return {
    id,
    name,
    description,
    kind,
    status,
    subject_types: subjectTypes,
    steps,
    stop_when: stopWhen,
    stop_when_replied: stopWhenReplied,
  };
}

async function toWorkforceResponse(
  { caller, db: { sql } }: Pick<Call, 'db' | 'caller'>,
  row: db.WorkforceRow,
): Promise<Workforce> {
  const counts = await countOnTheirWay(sql, caller, [row.id]);
  return {
    ...toWorkforceListItem(row, counts.get(row.id)),
    steps: row.steps as Workforce['steps'],
    stop_when: row.stopWhen as Workforce['stop_when'],
    stop_when_replied: row.stopWhenReplied,
  };
}

function toWorkforceListItem(row: db.WorkforceRow, onTheirWay = 0): Item {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    kind: row.kind,
    status: row.status,
    subject_types: [...row.subjectTypes],
    step_count: row.steps.length,
    enrolled_count: onTheirWay,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
