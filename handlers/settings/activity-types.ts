// Activity types of a workspace. Reads use its cached configuration, without a statement.
import { v7 as uuidv7 } from 'uuid';
import {
  insertActivityType,
  orderActivityTypes,
  updateActivityType as updateStored,
} from '../../db/settings/activity-types.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { moveToPosition } from '../../domain/settings/positions.ts';
import type { components } from '../../generated/api.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

type ActivityType = Workspace['activityTypes'][number];

export const listActivityTypes: Handler<'listActivityTypes'> = async (call) => {
  const { activityTypes } = await call.services.loadWorkspace();
  const { rows, ...rest } = selectPage(call, ['activity types'], activityTypes, (type) => type.id);
  return { status: 200, data: { activity_types: rows.map(toActivityType), ...rest } };
};

export const createActivityType: Handler<'createActivityType'> = async (call) => {
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { activityTypes: types } = await lockSettings(call);
  const name = body.name.trim();
  refuseTwin('An activity type', name, types);
  refuseFull(types.length, configurationLimits.activityTypes, 'type_limit_reached', 'activity types');
  const id = uuidv7();
  const order = moveToPosition(toIds(types), id, body.order_position);
  const type = {
    id,
    name,
    icon: body.icon ?? null,
    color: body.color,
    isActive: body.is_active,
    isSystem: false,
    position: order.indexOf(id) + 1,
  };
  await insertActivityType(sql, companyId, type);
  await orderActivityTypes(sql, companyId, order);
  const shown = toActivityType(type);
  recordChange(call, 'activity_type', undefined, shown);
  return { status: 201, data: { activity_type: shown } };
};

export const updateActivityType: Handler<'updateActivityType'> = async (call) => {
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { activityTypes: types } = await lockSettings(call);
  const before = orNotFound(types.find((type) => type.id === call.request.path.id.toLowerCase()));
  const order = moveToPosition(toIds(types), before.id, body.order_position ?? before.position);
  const after: ActivityType = {
    ...before,
    name: body.name?.trim() ?? before.name,
    icon: body.icon === undefined ? before.icon : body.icon,
    color: body.color ?? before.color,
    isActive: body.is_active ?? before.isActive,
    position: order.indexOf(before.id) + 1,
  };
  if (after.name !== before.name) {
    if (before.isSystem) throw conflict('system_type', 'Built-in activity types cannot be renamed.');
    refuseTwin('An activity type', after.name, types, before.id);
  }
  if (before.isActive && !after.isActive && !types.some((type) => type !== before && type.isActive))
    throw conflict('last_active', 'At least one activity type must remain active.');
  const shown = toActivityType(after);
  if (recordChange(call, 'activity_type', toActivityType(before), shown)) {
    await updateStored(sql, companyId, after);
    await orderActivityTypes(sql, companyId, order);
  }
  return { status: 200, data: { activity_type: shown } };
};

const toIds = (types: readonly ActivityType[]): string[] => types.map(({ id }) => id);

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
