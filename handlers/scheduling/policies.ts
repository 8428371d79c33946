// Scheduling policies: create, read, change and delete.
import { v7 as uuidv7 } from 'uuid';
import { toCamelKeys } from '../../db/client/row-names.ts';
import * as db from '../../db/scheduling/policies.ts';
import { buildStandardPolicy, findPolicyProblems, type PolicySettings } from '../../domain/scheduling/policies.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

export const listSchedulingPolicies: Handler<'listSchedulingPolicies'> = async (call) => {
  const policies = await db.listPolicies(call.db.sql, call.caller.companyId);
  const { rows, ...rest } = selectPage(call, ['scheduling policies'], policies, ({ id }) => id);
  return { status: 200, data: { policies: rows.map(toPolicyResponse), ...rest } };
};

export const getSchedulingPolicy: Handler<'getSchedulingPolicy'> = async (call) => {
  const policy = orNotFound(await db.findPolicy(call.db.sql, call.caller.companyId, call.request.path.id));
  return { status: 200, data: { policy: toPolicyResponse(policy) } };
};

export const createSchedulingPolicy: Handler<'createSchedulingPolicy'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  await db.lockScheduling(sql, companyId);
  const policies = await db.listPolicies(sql, companyId);
  const timezone = body.timezone ?? (await call.services.loadWorkspace()).timezone;
  const policy: db.PolicyRow = {
    ...buildStandardPolicy(timezone),
    workingHours: null,
    ...toCamelKeys(body),
    id: uuidv7(),
    name: body.name.trim(),
    createdAt: now,
    updatedAt: now,
  };
  validateSettings(policy);
  refuseTwin('A policy', policy.name, policies);
  refuseFull(policies.length, configurationLimits.schedulingPolicies, 'policy_limit_reached', 'scheduling policies');
  if (policy.isDefault) await db.clearDefault(sql, companyId);
  await db.insertPolicy(sql, companyId, policy);
  recordChange(call, 'scheduling_policy', undefined, toPolicyResponse(policy));
  return { status: 201, data: { policy: toPolicyResponse(policy) } };
};

export const updateSchedulingPolicy: Handler<'updateSchedulingPolicy'> = async (call) => {
  const { now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  await db.lockScheduling(sql, companyId);
  const policies = await db.listPolicies(sql, companyId);
  const before = orNotFound(policies.find(({ id }) => id === path.id.toLowerCase()));
  const after = {
    ...before,
    ...toCamelKeys(body),
    id: before.id,
    name: body.name?.trim() ?? before.name,
    createdAt: before.createdAt,
    updatedAt: now,
  };
  validateSettings(after);
  refuseTwin('A policy', after.name, policies, before.id);
  if (before.isDefault && !after.isDefault) throw isDefault(before.name);
  if (!recordChange(call, 'scheduling_policy', toPolicyResponse(before), toPolicyResponse(after)))
    return { status: 200, data: { policy: toPolicyResponse(before) } };
  if (after.isDefault && !before.isDefault) await db.clearDefault(sql, companyId);
  await db.updatePolicy(sql, companyId, after);
  return { status: 200, data: { policy: toPolicyResponse(after) } };
};

export const deleteSchedulingPolicy: Handler<'deleteSchedulingPolicy'> = async (call) => {
  const { path } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  await db.lockScheduling(sql, companyId);
  const policy = orNotFound(await db.findPolicy(sql, companyId, path.id));
  if (policy.isDefault) throw isDefault(policy.name);
  const pools = await db.countPoolsWithPolicy(sql, companyId, policy.id);
  if (pools > 0)
    throw conflict('in_use', `The policy ${policy.name} is used by pools. Assign another policy to them first.`, {
      references: { pools },
    });
  await db.deletePolicy(sql, companyId, policy.id);
  recordChange(call, 'scheduling_policy', toPolicyResponse(policy), undefined);
  return { status: 200, data: { id: policy.id, deleted: true } };
};

const isDefault = (name: string) =>
  conflict('default_policy', `${name} is the default policy. Make another policy the default first.`);

/** @throws ApiError 400 if settings contradict each other, or if the time zone does not exist */
function validateSettings(policy: PolicySettings): void {
  const problems = findPolicyProblems(policy);
  if (problems.length > 0) throw validationFailed(problems, 400);
}

function toPolicyResponse(row: db.PolicyRow): components['schemas']['SchedulingPolicy'] {
  return {
    id: row.id,
    name: row.name,
    is_default: row.isDefault,
    duration_minutes: row.durationMinutes,
    slot_interval_minutes: row.slotIntervalMinutes,
    buffer_before_minutes: row.bufferBeforeMinutes,
    buffer_after_minutes: row.bufferAfterMinutes,
    min_notice_minutes: row.minNoticeMinutes,
    horizon_days: row.horizonDays,
    reservation_ttl_seconds: row.reservationTtlSeconds,
    reservation_hard_cap_seconds: row.reservationHardCapSeconds,
    timezone: row.timezone,
    working_hours: row.workingHours && [...row.workingHours],
    assignment_strategy: row.assignmentStrategy,
    exposure: row.exposure,
    max_bookings_per_day: row.maxBookingsPerDay,
    meeting_location_kind: row.meetingLocationKind,
    meeting_url_template: row.meetingUrlTemplate,
    questions: row.questions.map(({ question, required }) => ({ question, required })),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
