// SLA policies: deadlines for responses and resolutions, and who is notified.
import { v7 as uuidv7 } from 'uuid';
import { toCamelKeys } from '../../db/client/row-names.ts';
import * as db from '../../db/settings/sla-policies.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { findPolicyProblems } from '../../domain/settings/sla-policies.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, conflict, type FieldProblem, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

type Settings = Omit<db.SlaPolicyRow, 'id' | 'createdAt' | 'updatedAt'>;

export const listSlaPolicies: Handler<'listSlaPolicies'> = async (call) => {
  const policies = await db.listPolicies(call.db.sql, call.caller.companyId);
  const { rows, ...rest } = selectPage(call, ['SLA policies'], policies, (policy) => policy.id);
  return { status: 200, data: { sla_policies: rows.map(toPolicy), ...rest } };
};

export const getSlaPolicy: Handler<'getSlaPolicy'> = async ({ caller, request: { path }, db: { sql } }) => {
  const policy = orNotFound(await db.findPolicy(sql, caller.companyId, path.id));
  return { status: 200, data: { sla_policy: toPolicy(policy) } };
};

export const createSlaPolicy: Handler<'createSlaPolicy'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { slaPolicies, timezone } = await lockSettings(call);
  const settings: Settings = {
    name: body.name.trim(),
    entityType: body.entity_type,
    priority: body.priority ?? null,
    isActive: body.is_active,
    firstResponseTime: body.first_response_time ?? null,
    everyResponseTime: body.every_response_time ?? null,
    resolutionTime: body.resolution_time ?? null,
    mode: body.mode,
    businessHoursStart: body.business_hours_start ?? null,
    businessHoursEnd: body.business_hours_end ?? null,
    businessDays: body.business_days ?? null,
    timezone: body.timezone ?? timezone,
    reminders: body.reminders.map(withPlainIds),
    escalations: body.escalations.map(withPlainIds),
  };
  await validatePolicy(call, settings);
  refuseTwin('An SLA policy', settings.name, slaPolicies);
  refuseFull(slaPolicies.length, configurationLimits.slaPolicies, 'policy_limit_reached', 'SLA policies');
  const policy = { id: uuidv7(), ...settings, createdAt: now, updatedAt: now };
  await db.insertPolicy(sql, caller.companyId, policy);
  const shown = toPolicy(policy);
  recordChange(call, 'sla_policy', undefined, shown);
  return { status: 201, data: { sla_policy: shown } };
};

export const updateSlaPolicy: Handler<'updateSlaPolicy'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { slaPolicies } = await lockSettings(call);
  const before = orNotFound(await db.findPolicy(sql, caller.companyId, call.request.path.id));
  const after: db.SlaPolicyRow = {
    ...before,
    ...toCamelKeys(body),
    name: body.name?.trim() ?? before.name,
    reminders: body.reminders?.map(withPlainIds) ?? before.reminders,
    escalations: body.escalations?.map(withPlainIds) ?? before.escalations,
    id: before.id,
    createdAt: before.createdAt,
    updatedAt: now,
  };
  await validatePolicy(call, after, before);
  refuseTwin('An SLA policy', after.name, slaPolicies, before.id);
  const [was, shown] = [toPolicy(before), toPolicy(after)];
  const changes = recordChange(call, 'sla_policy', was, shown);
  if (!changes) return { status: 200, data: { sla_policy: was } };
  const isRevised = ['is_active', 'reminders', 'escalations'].some((field) => Object.hasOwn(changes, field));
  await db.updatePolicy(sql, caller.companyId, after, isRevised ? now : undefined);
  return { status: 200, data: { sla_policy: shown } };
};

export const deleteSlaPolicy: Handler<'deleteSlaPolicy'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  await lockSettings(call);
  const policy = orNotFound(await db.findPolicy(sql, caller.companyId, path.id));
  const open = await db.countOpenClocks(sql, caller.companyId, policy.id);
  if (open > 0)
    throw conflict(
      'in_use',
      policy.isActive
        ? `The SLA policy ${policy.name} has running clocks. Disable it instead.`
        : `The clocks of the SLA policy ${policy.name} are still being ended. Try again in 30 seconds.`,
      { references: { open_clocks: open } },
    );
  await db.deletePolicy(sql, caller.companyId, policy.id);
  recordChange(call, 'sla_policy', toPolicy(policy), undefined);
  return { status: 200, data: { id: policy.id, deleted: true } };
};

/**
 * @param before the policy before the change; its recipients may stay, even if they are no longer
 * active
 * @throws ApiError with the problems of the policy as a whole
 */
async function validatePolicy(
  call: Call<'createSlaPolicy'> | Call<'updateSlaPolicy'>,
  settings: Settings,
  before?: Settings,
): Promise<void> {
  const found: FieldProblem[] = findPolicyProblems(settings, before);
  const kept = new Set([...(before?.reminders ?? []), ...(before?.escalations ?? [])].flatMap(listRecipients));
  const named = (['reminders', 'escalations'] as const).flatMap((list) =>
    settings[list].flatMap((item, index) =>
      listRecipients(item).map((id, place) => ({ id, field: `${list}[${index}].recipient_user_ids[${place}]` })),
    ),
  );
  const asked = named.filter(({ id }) => !kept.has(id));
  if (asked.length > 0) {
    const active = await db.findActiveUserIds(
      call.db.sql,
      call.caller.companyId,
      asked.map(({ id }) => id),
    );
    for (const { id, field } of asked)
      if (!active.has(id)) found.push(buildProblem(field, 'NOT_FOUND', `${field} must be the id of an active user`));
  }
  if (found.length > 0) throw call.request.rejection(found);
}

const listRecipients = (item: { recipient_user_ids: readonly string[] }): readonly string[] => item.recipient_user_ids;

/** Returns the ids in stored form, without duplicates that differ in case. */
function withPlainIds<Item extends { recipient_user_ids: string[] }>(item: Item): Item {
  return { ...item, recipient_user_ids: [...new Set(item.recipient_user_ids.map((id) => id.toLowerCase()))] };
}

function toPolicy(row: db.SlaPolicyRow): components['schemas']['SlaPolicy'] {
  return {
    id: row.id,
    name: row.name,
    entity_type: row.entityType,
    priority: row.priority,
    is_active: row.isActive,
    first_response_time: row.firstResponseTime,
    every_response_time: row.everyResponseTime,
    resolution_time: row.resolutionTime,
    mode: row.mode,
    business_hours_start: row.businessHoursStart,
    business_hours_end: row.businessHoursEnd,
    business_days: row.businessDays,
    timezone: row.timezone,
    reminders: row.reminders.map(({ type, minutes_before, recipient_user_ids }) => ({
      type,
      minutes_before,
      recipient_user_ids,
    })),
    escalations: row.escalations.map(({ level, type, minutes_after, recipient_user_ids, message_template }) => ({
      level,
      type,
      minutes_after,
      recipient_user_ids,
      message_template,
    })),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
