// SLA policies of a workspace: until when records want a response and a resolution, and who is told.
import { v7 as uuidv7 } from 'uuid';
import * as db from '../db/sla-policies.ts';
import { lockWorkspaceRows } from '../db/workspace.ts';
import { configurationLimits } from '../domain/request-limits.ts';
import { settingChanges } from '../domain/setting-changes.ts';
import { policyProblems } from '../domain/sla-policies.ts';
import { findByName, type WorkspaceRows } from '../domain/workspace.ts';
import type { components } from '../generated/api.ts';
import { alreadyExists, conflict, type FieldProblem, notFound, problem } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';

type Settings = Omit<db.SlaPolicyRow, 'id' | 'created_at' | 'updated_at'>;

export const listSlaPolicies: Handler<'listSlaPolicies'> = async ({ sql, caller }) => {
  const policies = await db.listPolicies(sql, caller.companyId);
  return { status: 200, data: { sla_policies: policies.map(toPolicy), next_cursor: null, has_more: false } };
};

export const getSlaPolicy: Handler<'getSlaPolicy'> = async ({ sql, caller, path }) => {
  const policy = await db.findPolicy(sql, caller.companyId, path.id);
  if (!policy) throw notFound();
  return { status: 200, data: { sla_policy: toPolicy(policy) } };
};

export const createSlaPolicy: Handler<'createSlaPolicy'> = async (call) => {
  const { sql, caller, now, body } = call;
  const { slaPolicies, timezone } = await lock(call);
  const settings: Settings = {
    name: body.name.trim(),
    entity_type: body.entity_type,
    priority: body.priority ?? null,
    is_active: body.is_active,
    first_response_time: body.first_response_time ?? null,
    every_response_time: body.every_response_time ?? null,
    resolution_time: body.resolution_time ?? null,
    mode: body.mode,
    business_hours_start: body.business_hours_start ?? null,
    business_hours_end: body.business_hours_end ?? null,
    business_days: body.business_days ?? null,
    timezone: body.timezone ?? timezone,
    reminders: body.reminders.map(withPlainIds),
    escalations: body.escalations.map(withPlainIds),
  };
  await refuseProblems(call, settings);
  refuseTwin(slaPolicies, settings.name);
  if (slaPolicies.length >= configurationLimits.slaPolicies)
    throw conflict('policy_limit_reached', `A workspace has ${configurationLimits.slaPolicies} SLA policies at most.`, {
      limit: configurationLimits.slaPolicies,
    });
  const policy = { id: uuidv7(), ...settings, created_at: now, updated_at: now };
  await db.insertPolicy(sql, caller.companyId, policy);
  const shown = toPolicy(policy);
  const changes = settingChanges(undefined, shown);
  call.record({ action: 'settings.sla_policy.create', recordId: policy.id, changes });
  return { status: 201, data: { sla_policy: shown } };
};

export const updateSlaPolicy: Handler<'updateSlaPolicy'> = async (call) => {
  const { sql, caller, now, body } = call;
  const { slaPolicies } = await lock(call);
  const before = await db.findPolicy(sql, caller.companyId, call.path.id);
  if (!before) throw notFound();
  const after: db.SlaPolicyRow = {
    ...before,
    ...body,
    name: body.name?.trim() ?? before.name,
    reminders: body.reminders?.map(withPlainIds) ?? before.reminders,
    escalations: body.escalations?.map(withPlainIds) ?? before.escalations,
    id: before.id,
    created_at: before.created_at,
    updated_at: now,
  };
  await refuseProblems(call, after, before);
  refuseTwin(
    slaPolicies.filter((policy) => policy.id !== before.id),
    after.name,
  );
  const changes = settingChanges(toPolicy(before), toPolicy(after));
  if (Object.keys(changes).length === 0) return { status: 200, data: { sla_policy: toPolicy(before) } };
  const isRevised = ['is_active', 'reminders', 'escalations'].some((field) => Object.hasOwn(changes, field));
  await db.updatePolicy(sql, caller.companyId, after, isRevised ? now : undefined);
  call.record({ action: 'settings.sla_policy.update', recordId: after.id, changes });
  return { status: 200, data: { sla_policy: toPolicy(after) } };
};

export const deleteSlaPolicy: Handler<'deleteSlaPolicy'> = async (call) => {
  const { sql, caller, path } = call;
  await lock(call);
  const policy = await db.findPolicy(sql, caller.companyId, path.id);
  if (!policy) throw notFound();
  const open = await db.countOpenClocks(sql, caller.companyId, policy.id);
  if (open > 0)
    throw conflict(
      'in_use',
      policy.is_active
        ? `Clocks of the policy ${policy.name} are running. Switch it off instead.`
        : `The clocks of the policy ${policy.name} are being ended. Try again in half a minute.`,
      { references: { open_clocks: open } },
    );
  await db.deletePolicy(sql, caller.companyId, policy.id);
  const changes = settingChanges(toPolicy(policy), undefined);
  call.record({ action: 'settings.sla_policy.delete', recordId: policy.id, changes });
  return { status: 200, data: { id: policy.id, deleted: true } };
};

type Write = Call<'createSlaPolicy'> | Call<'updateSlaPolicy'> | Call<'deleteSlaPolicy'>;

/** The configuration, kept from changing under this call. */
async function lock({ sql, caller }: Write): Promise<WorkspaceRows> {
  return (await lockWorkspaceRows(sql, caller.companyId)) as WorkspaceRows;
}

/** @throws ApiError 409 naming the policy that has this name already */
function refuseTwin(policies: readonly { id: string; name: string }[], name: string): void {
  const twin = findByName(policies, name);
  if (twin) throw alreadyExists(`There is an SLA policy ${twin.name} already.`, ['name'], twin.id);
}

/**
 * @param before what the policy was; its recipients may stay, whatever has become of them
 * @throws ApiError listing what is wrong with the policy as a whole
 */
async function refuseProblems(
  call: Call<'createSlaPolicy'> | Call<'updateSlaPolicy'>,
  settings: Settings,
  before?: Settings,
): Promise<void> {
  const found: FieldProblem[] = policyProblems(settings);
  const kept = new Set([...(before?.reminders ?? []), ...(before?.escalations ?? [])].flatMap(recipientsOf));
  const named = (['reminders', 'escalations'] as const).flatMap((list) =>
    settings[list].flatMap((item, index) =>
      recipientsOf(item).map((id, place) => ({ id, field: `${list}[${index}].recipient_user_ids[${place}]` })),
    ),
  );
  const asked = named.filter(({ id }) => !kept.has(id));
  if (asked.length > 0) {
    const active = await db.activeUsers(
      call.sql,
      call.caller.companyId,
      asked.map(({ id }) => id),
    );
    for (const { id, field } of asked)
      if (!active.has(id)) found.push(problem(field, 'NOT_FOUND', `${field} is not an active user`));
  }
  if (found.length > 0) throw call.refusal(found);
}

const recipientsOf = (item: { recipient_user_ids: readonly string[] }): readonly string[] => item.recipient_user_ids;

/** Ids as they are stored, each once, whatever their case. */
function withPlainIds<Item extends { recipient_user_ids: string[] }>(item: Item): Item {
  return { ...item, recipient_user_ids: [...new Set(item.recipient_user_ids.map((id) => id.toLowerCase()))] };
}

function toPolicy(row: db.SlaPolicyRow): components['schemas']['SlaPolicy'] {
  return {
    id: row.id,
    name: row.name,
    entity_type: row.entity_type,
    priority: row.priority,
    is_active: row.is_active,
    first_response_time: row.first_response_time,
    every_response_time: row.every_response_time,
    resolution_time: row.resolution_time,
    mode: row.mode,
    business_hours_start: row.business_hours_start,
    business_hours_end: row.business_hours_end,
    business_days: row.business_days,
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
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
