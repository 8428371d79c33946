// Link types: the links that are possible between records of objects.
import { v7 as uuidv7 } from 'uuid';
import {
  countLinksOfType,
  deleteLinkType as deleteStored,
  findLinkType,
  insertLinkType,
  type LinkTypeRow,
  listLinkTypes as listStored,
  updateLinkType as updateStored,
} from '../../db/settings/link-types.ts';
import { buildFieldProblem, type FieldProblem } from '../../domain/objects/field-values.ts';
import { listRelations, type SystemLinkType, systemLinkTypes } from '../../domain/objects/relations.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { alreadyExists, conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, recordChange, refuseFull } from '../../services/settings/setting-changes.ts';

type LinkType = components['schemas']['LinkType'];

export const listLinkTypes: Handler<'listLinkTypes'> = async (call) => {
  const own = await listStored(call.db.sql, call.caller.companyId);
  const all = [...systemLinkTypes.map(toSystemLinkTypeResponse), ...own.map(toLinkTypeResponse)];
  const { rows, ...rest } = selectPage(call, ['link types'], all, ({ id }) => id);
  return { status: 200, data: { link_types: rows, ...rest } };
};

export const getLinkType: Handler<'getLinkType'> = async (call) => {
  const { id } = call.request.path;
  const system = systemLinkTypes.find((type) => type.id === id);
  if (system) return { status: 200, data: { link_type: toSystemLinkTypeResponse(system) } };
  const row = orNotFound(await findLinkType(call.db.sql, call.caller.companyId, id));
  return { status: 200, data: { link_type: toLinkTypeResponse(row) } };
};

export const createLinkType: Handler<'createLinkType'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const workspace = await lockSettings(call);
  checkBody(call, workspace);
  for (const [field, object] of [
    ['name', 'from_object'],
    ['inverse_name', 'to_object'],
  ] as const)
    assertFree(body[object], field, body[field], workspace);
  refuseFull(workspace.linkTypes.length, configurationLimits.linkTypes, 'link_type_limit', 'link types');
  const linkType: LinkTypeRow = {
    id: uuidv7(),
    name: body.name,
    inverseName: body.inverse_name,
    label: body.label.trim(),
    inverseLabel: body.inverse_label.trim(),
    fromObject: body.from_object,
    toObject: body.to_object,
    cardinality: body.cardinality,
    isEnabled: true,
    createdAt: now,
    updatedAt: now,
  };
  await insertLinkType(call.db.sql, call.caller.companyId, linkType);
  const response = toLinkTypeResponse(linkType);
  recordChange(call, 'link_type', undefined, response);
  return { status: 201, data: { link_type: response } };
};

export const updateLinkType: Handler<'updateLinkType'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  await lockSettings(call);
  const before = await findOwn(call);
  const after: LinkTypeRow = {
    ...before,
    label: body.label?.trim() ?? before.label,
    inverseLabel: body.inverse_label?.trim() ?? before.inverseLabel,
    isEnabled: body.is_enabled ?? before.isEnabled,
    updatedAt: now,
  };
  const [was, response] = [toLinkTypeResponse(before), toLinkTypeResponse(after)];
  if (!recordChange(call, 'link_type', was, response)) return { status: 200, data: { link_type: was } };
  await updateStored(sql, companyId, after);
  return { status: 200, data: { link_type: response } };
};

export const deleteLinkType: Handler<'deleteLinkType'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  await lockSettings(call);
  const row = await findOwn(call);
  const { count, isCapped } = await countLinksOfType(sql, caller, row.id);
  if (count > 0)
    throw conflict('in_use', `The link type ${row.name} is used by links. Delete them first, or disable it instead.`, {
      references: { links: count },
      ...(isCapped ? { references_capped: true } : {}),
    });
  await deleteStored(sql, caller.companyId, row.id);
  recordChange(call, 'link_type', toLinkTypeResponse(row), undefined);
  return { status: 200, data: { id: row.id, deleted: true } };
};

/** @throws ApiError 404 for an unknown link type, 409 for a system link type */
async function findOwn(call: Call<'updateLinkType'> | Call<'deleteLinkType'>): Promise<LinkTypeRow> {
  const { id } = call.request.path;
  if (systemLinkTypes.some((type) => type.id === id))
    throw conflict('system_link_type', 'System link types cannot be changed or deleted.');
  return orNotFound(await findLinkType(call.db.sql, call.caller.companyId, id));
}

/**
 * @throws ApiError 400 or 422 with every problem, including those that the OpenAPI document finds
 */
function checkBody(call: Call<'createLinkType'>, workspace: Workspace): void {
  const { body } = call.request;
  const problems: FieldProblem[] = [];
  const allowed = [...workspace.objects.keys()];
  for (const field of ['from_object', 'to_object'] as const) {
    const object = body[field];
    if (typeof object !== 'string' || workspace.objects.has(object)) continue;
    const rule = 'must be the name of an object that is enabled';
    problems.push(buildFieldProblem(field, 'INVALID_OPTION', rule, { allowed, meant: findClosest(object, allowed) }));
  }
  if (body.from_object === body.to_object && body.name === body.inverse_name && typeof body.name === 'string')
    problems.push(
      buildFieldProblem('inverse_name', 'DUPLICATE', 'must differ from name if both sides are the same object'),
    );
  if (call.request.problems.length + problems.length > 0) throw call.request.rejection(problems);
}

/** @throws ApiError 409 if the object already has a relation with this name */
function assertFree(object: string, field: 'name' | 'inverse_name', name: string, workspace: Workspace): void {
  const twin = listRelations(object, workspace).find((relation) => relation.name === name);
  if (twin) throw alreadyExists(`${object} already has a link type named ${name}.`, [field], twin.type.id);
}

function toLinkTypeResponse(row: LinkTypeRow): LinkType {
  return {
    id: row.id,
    name: row.name,
    inverse_name: row.inverseName,
    label: row.label,
    inverse_label: row.inverseLabel,
    from_object: row.fromObject,
    to_object: row.toObject,
    cardinality: row.cardinality,
    is_system: false,
    is_enabled: row.isEnabled,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}

function toSystemLinkTypeResponse(type: SystemLinkType): LinkType {
  return {
    id: type.id,
    name: type.name,
    inverse_name: type.inverseName,
    label: type.label,
    inverse_label: type.inverseLabel,
    from_object: type.fromObject,
    to_object: type.toObject,
    cardinality: type.cardinality,
    is_system: true,
    is_enabled: true,
    created_at: null,
    updated_at: null,
  };
}
