// The kinds of activity of a workspace; they come with its configuration, so that reading them needs no statement.
import { v7 as uuidv7 } from 'uuid';
import { insertActivityType, orderActivityTypes, updateActivityType as updateStored } from '../db/activity-types.ts';
import { lockWorkspaceRows } from '../db/workspace.ts';
import { configurationLimits } from '../domain/request-limits.ts';
import { findByName, type WorkspaceRows } from '../domain/workspace.ts';
import type { components } from '../generated/api.ts';
import { alreadyExists, conflict, notFound } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';

type ActivityType = WorkspaceRows['activityTypes'][number];

export const listActivityTypes: Handler<'listActivityTypes'> = async (call) => {
  const { activityTypes } = await call.workspace();
  const shown = activityTypes.map(toActivityType);
  return { status: 200, data: { activity_types: shown, next_cursor: null, has_more: false } };
};

export const createActivityType: Handler<'createActivityType'> = async (call) => {
  const { sql, body } = call;
  const { companyId } = call.caller;
  const types = await lockTypes(call);
  const type = {
    id: uuidv7(),
    name: body.name.trim(),
    icon: body.icon ?? null,
    color: body.color,
    isActive: body.is_active,
    isSystem: false,
    position: Math.min(body.order_position ?? types.length + 1, types.length + 1),
  };
  refuseTwin(types, type.name);
  if (types.length >= configurationLimits.activityTypes)
    throw conflict(
      'type_limit_reached',
      `A workspace has ${configurationLimits.activityTypes} activity types at most.`,
      { limit: configurationLimits.activityTypes },
    );
  await insertActivityType(sql, companyId, type);
  await orderActivityTypes(sql, companyId, placed(types, type));
  call.record({ action: 'settings.activity_type.create', recordId: type.id, metadata: { name: type.name } });
  return { status: 201, data: { activity_type: toActivityType(type) } };
};

export const updateActivityType: Handler<'updateActivityType'> = async (call) => {
  const { sql, body } = call;
  const { companyId } = call.caller;
  const types = await lockTypes(call);
  const before = types.find((type) => type.id === call.path.id.toLowerCase());
  if (!before) throw notFound();
  const others = types.filter((type) => type !== before);
  const after: ActivityType = {
    ...before,
    name: body.name?.trim() ?? before.name,
    icon: body.icon === undefined ? before.icon : body.icon,
    color: body.color ?? before.color,
    isActive: body.is_active ?? before.isActive,
    position: Math.min(body.order_position ?? before.position, types.length),
  };
  if (after.name !== before.name) {
    if (before.isSystem) throw conflict('system_type', 'A type that every workspace starts with keeps its name.');
    refuseTwin(others, after.name);
  }
  if (before.isActive && !after.isActive && !others.some((type) => type.isActive))
    throw conflict('last_active', 'At least one activity type must stay active.');
  const changes = differences(toActivityType(before), toActivityType(after));
  if (Object.keys(changes).length > 0) {
    await updateStored(sql, companyId, after);
    await orderActivityTypes(sql, companyId, placed(others, after));
    call.record({ action: 'settings.activity_type.update', recordId: after.id, changes });
  }
  return { status: 200, data: { activity_type: toActivityType(after) } };
};

/** The types in their order, kept from changing under this call. */
async function lockTypes(call: Call<'createActivityType'> | Call<'updateActivityType'>): Promise<ActivityType[]> {
  const { activityTypes } = (await lockWorkspaceRows(call.sql, call.caller.companyId)) as WorkspaceRows;
  return activityTypes;
}

/** @throws ApiError 409 naming the type that has this name already */
function refuseTwin(types: readonly ActivityType[], name: string): void {
  const twin = findByName(types, name);
  if (twin) throw alreadyExists(`There is an activity type ${twin.name} already.`, ['name'], twin.id);
}

/** The ids in order, with a type at its position among the others. */
function placed(others: readonly ActivityType[], type: Pick<ActivityType, 'id' | 'position'>): string[] {
  return others.map((other) => other.id).toSpliced(type.position - 1, 0, type.id);
}

function differences(
  before: components['schemas']['ActivityType'],
  after: components['schemas']['ActivityType'],
): Record<string, { from: unknown; to: unknown }> {
  const keys = ['name', 'icon', 'color', 'is_active', 'order_position'] as const;
  const changed = keys.filter((key) => before[key] !== after[key]);
  return Object.fromEntries(changed.map((key) => [key, { from: before[key], to: after[key] }]));
}

function toActivityType(type: ActivityType): components['schemas']['ActivityType'] {
  return {
    id: type.id,
    name: type.name,
    icon: type.icon,
    color: type.color,
    is_active: type.isActive,
    is_system: type.isSystem,
    order_position: type.position,
  };
}
