// Objects: those that a caller can view, their schemas, and custom ones.
import { insertCustomFields } from '../../db/objects/object-fields.ts';
import { insertCustomObject, updateCustomObject } from '../../db/objects/objects.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import { customObjectName, findBuiltinObject } from '../../domain/objects/builtin.ts';
import type { WorkspaceRows } from '../../domain/objects/configuration.ts';
import { checkDefinitions, checkLabel, toFieldDescriptor } from '../../domain/objects/field-definitions.ts';
import type { FieldProblem } from '../../domain/objects/field-values.ts';
import { listConfiguredFields } from '../../domain/objects/workspace.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { alreadyExists, conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Handler, Result } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, refuseFull, refuseUniqueFields } from '../../services/settings/setting-changes.ts';

type CustomObject = Result<'updateObject'>['data']['object'];

export const listObjects: Handler<'listObjects'> = async (call) => {
  const { caller } = call;
  const { objects } = await call.services.loadWorkspace();
  const visible = [...objects.values()].filter(
    ({ module }) => caller.grants.allows(`${module}:view`) && getModuleState(module, caller.modules) === 'on',
  );
  const { rows, ...rest } = selectPage(call, ['objects'], visible, ({ object }) => object);
  const shown = rows.map(({ object, label, plural, kind, module }) => ({ object, label, plural, kind, module }));
  return { status: 200, data: { objects: shown, ...rest } };
};

export const getObjectSchema: Handler<'getObjectSchema'> = async (call) => {
  const { object, label, plural, kind, module, fields } = orNotFound(
    (await call.services.loadWorkspace()).objects.get(call.request.path.object),
  );
  const described = [...fields.values()].map(toFieldDescriptor);
  return { status: 200, data: { schema: { object, label, plural, kind, module, fields: described } } };
};

export const createObject: Handler<'createObject'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { fields, problems } = checkDefinitions(body.fields, [customObjectName]);
  const label = checkLabel(body.label, 'label', problems);
  const plural = checkLabel(body.plural, 'plural', problems);
  if (problems.length > 0) throw validationFailed(problems, 422);

  const { customObjects } = (await lockSettings(call)).rows;
  const object = `object:${body.slug}`;
  if (customObjects.some((row) => row.slug === body.slug)) {
    throw alreadyExists(`The object ${object} already exists. It may be disabled.`, ['slug'], object);
  }
  refuseFull(customObjects.length, configurationLimits.customObjects, 'object_limit_reached', 'custom objects');
  refuseUniqueFields(fields);
  await insertCustomObject(sql, companyId, { slug: body.slug, label, plural }, now);
  await insertCustomFields(sql, companyId, object, fields, now);
  call.db.record({
    action: 'object.create',
    object,
    metadata: { label, plural, fields: fields.map((field) => field.name) },
    event: { name: 'schema.changed', data: { object, occurred_at: now.toISOString() } },
  });
  const after = await loadWorkspaceRows(sql, companyId);
  return { status: 201, data: { object: toCustomObjectResponse(body.slug, after) } };
};

export const updateObject: Handler<'updateObject'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { object } = call.request.path;
  if (findBuiltinObject(object)) {
    throw conflict('builtin_object', `${object} is a built-in object, which cannot be changed.`);
  }
  const slug = object.slice('object:'.length);
  const { customObjects } = (await lockSettings(call)).rows;
  const before = orNotFound(customObjects.find((row) => row.slug === slug));
  const problems: FieldProblem[] = [];
  const change = {
    ...(body.label === undefined ? {} : { label: checkLabel(body.label, 'label', problems) }),
    ...(body.plural === undefined ? {} : { plural: checkLabel(body.plural, 'plural', problems) }),
    ...(body.enabled === undefined ? {} : { enabled: body.enabled }),
  };
  if (problems.length > 0) throw validationFailed(problems, 422);

  await updateCustomObject(sql, companyId, slug, change, now);
  const changed = Object.entries(change).filter(([key, value]) => before[key as keyof typeof before] !== value);
  call.db.record({
    action: 'object.update',
    object,
    changes: Object.fromEntries(
      changed.map(([key, to]) => [key, { from: before[key as keyof typeof before], to }] as const),
    ),
    event: { name: 'schema.changed', data: { object, occurred_at: now.toISOString() } },
  });
  const after = await loadWorkspaceRows(sql, companyId);
  return { status: 200, data: { object: toCustomObjectResponse(slug, after) } };
};

function toCustomObjectResponse(slug: string, rows: WorkspaceRows): CustomObject {
  const row = orNotFound(rows.customObjects.find((each) => each.slug === slug));
  const object = `object:${slug}`;
  return {
    object,
    label: row.label,
    plural: row.plural,
    kind: 'custom',
    module: object,
    enabled: row.enabled,
    fields: listConfiguredFields(object, rows).map(toFieldDescriptor),
  };
}
