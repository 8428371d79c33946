// Pools: create, read, change and delete.
import { v7 as uuidv7 } from 'uuid';
import { findPolicy, lockScheduling } from '../../db/scheduling/policies.ts';
import * as db from '../../db/scheduling/pools.ts';
import { countHeld } from '../../db/scheduling/reservations.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { unknownUsers } from '../../services/scheduling/bookable-users.ts';
import { recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

type Pool = components['schemas']['SchedulingPool'];
type WritingCall = Call<'createSchedulingPool'> | Call<'updateSchedulingPool'>;
type Member = { user_id: string; weight: number };

const everybody = { kind: 'company' } as const;

export const listSchedulingPools: Handler<'listSchedulingPools'> = async (call) => {
  const pools = await db.listPools(call.db.sql, call.caller);
  const { rows, ...rest } = selectPage(call, ['scheduling pools'], pools, ({ id }) => id);
  return { status: 200, data: { pools: rows.map(toPoolResponse), ...rest } };
};

export const getSchedulingPool: Handler<'getSchedulingPool'> = async (call) => {
  const pool = orNotFound(await db.findPool(call.db.sql, call.caller, call.request.path.id));
  return { status: 200, data: { pool: toPoolResponse(pool) } };
};

export const createSchedulingPool: Handler<'createSchedulingPool'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await lockScheduling(sql, companyId);
  const pools = await db.listPools(sql, caller);
  const name = body.name.trim();
  refuseTwin('A pool', name, pools);
  refuseFull(pools.length, configurationLimits.schedulingPools, 'pool_limit_reached', 'pools');
  const members = await findRequestedMembers(call, []);
  await assertPolicyExists(call);
  const pool: db.PoolSettings = {
    id: uuidv7(),
    name,
    description: body.description ?? null,
    policyId: body.policy_id ?? null,
    assignmentStrategy: body.assignment_strategy ?? null,
    rotation: 1,
    createdAt: now,
    updatedAt: now,
  };
  await db.insertPool(sql, companyId, pool);
  await db.replaceMembers(sql, companyId, pool.id, members);
  const created = toPoolResponse(orNotFound(await db.findPool(sql, caller, pool.id)));
  recordChange(call, 'scheduling_pool', undefined, created);
  return { status: 201, data: { pool: created } };
};

export const updateSchedulingPool: Handler<'updateSchedulingPool'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await lockScheduling(sql, companyId);
  const pools = await db.listPools(sql, caller);
  const before = orNotFound(pools.find(({ id }) => id === path.id.toLowerCase()));
  const name = body.name?.trim() ?? before.name;
  refuseTwin('A pool', name, pools, before.id);
  const members = await findRequestedMembers(call, before.members);
  await assertPolicyExists(call);
  const isSame =
    JSON.stringify(members) === JSON.stringify(before.members.map(({ user_id, weight }) => ({ user_id, weight })));
  const { members: _, ...settings } = before;
  const after: db.PoolSettings = {
    ...settings,
    name,
    description: body.description === undefined ? before.description : body.description,
    policyId: body.policy_id === undefined ? before.policyId : body.policy_id,
    assignmentStrategy: body.assignment_strategy ?? before.assignmentStrategy,
    rotation: isSame ? before.rotation : before.rotation + 1,
    updatedAt: now,
  };
  const differs = (['name', 'description', 'policyId', 'assignmentStrategy'] as const).some(
    (field) => after[field] !== before[field],
  );
  if (isSame && !differs) return { status: 200, data: { pool: toPoolResponse(before) } };
  await db.updatePool(sql, companyId, after);
  if (!isSame) await db.replaceMembers(sql, companyId, before.id, members);
  const changed = orNotFound(await db.findPool(sql, caller, before.id));
  recordChange(call, 'scheduling_pool', toPoolResponse(before), toPoolResponse(changed));
  return { status: 200, data: { pool: toPoolResponse(changed) } };
};

export const deleteSchedulingPool: Handler<'deleteSchedulingPool'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { companyId } = caller;
  await lockScheduling(sql, companyId);
  const pool = orNotFound(await db.findPool(sql, caller, path.id));
  const reservations = await countHeld(sql, caller, pool.id, now);
  if (reservations > 0)
    throw conflict('in_use', `The pool ${pool.name} has active holds. Try again later.`, {
      references: { reservations },
    });
  await db.deletePool(sql, companyId, pool.id);
  recordChange(call, 'scheduling_pool', toPoolResponse(pool), undefined);
  return { status: 200, data: { id: pool.id, deleted: true } };
};

/**
 * Returns the members that the body requests, or the previous ones if it names none.
 * @throws ApiError 400 with those who are not active users; existing members may stay
 */
async function findRequestedMembers(
  { caller, request: { body }, db: { sql } }: WritingCall,
  before: readonly db.PoolMember[],
): Promise<Member[]> {
  const ids = body.member_ids?.map((id) => id.toLowerCase()) ?? before.map(({ user_id }) => user_id);
  const weights = new Map(Object.entries(body.weights ?? {}).map(([id, weight]) => [id.toLowerCase(), weight]));
  const strangers = [...weights.keys()].filter((id) => !ids.includes(id));
  if (strangers.length > 0) {
    const problems = strangers.map((id) =>
      buildProblem(`weights.${id}`, 'NOT_FOUND', `weights.${id} must be the id of a member of the pool`),
    );
    throw validationFailed(problems, 400);
  }
  const known = new Set(before.map(({ user_id }) => user_id));
  const active = await db.findActiveUsers(sql, { companyId: caller.companyId, reach: everybody }, ids);
  for (const { id } of active) known.add(id);
  const unknown = ids.filter((id) => !known.has(id));
  if (unknown.length > 0) throw unknownUsers('member_ids', unknown);
  const kept = new Map(body.weights ? [] : before.map(({ user_id, weight }) => [user_id, weight]));
  return ids.map((id) => ({ user_id: id, weight: weights.get(id) ?? kept.get(id) ?? 1 }));
}

/** @throws ApiError 422 if the policy does not exist */
async function assertPolicyExists({ caller, request: { body }, db: { sql } }: WritingCall): Promise<void> {
  const { policy_id: id } = body;
  if (!id || (await findPolicy(sql, caller.companyId, id))) return;
  throw validationFailed(
    [buildProblem('policy_id', 'NOT_FOUND', 'policy_id must be the id of a scheduling policy')],
    422,
  );
}

function toPoolResponse(row: db.PoolRow): Pool {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    member_ids: row.members.map(({ user_id }) => user_id),
    members: row.members,
    policy_id: row.policyId,
    assignment_strategy: row.assignmentStrategy,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
