// Objects: which ones a caller can view, their schemas, and the workspace's own.
import { insertCustomFields } from '../db/object-fields.ts';
import { insertCustomObject, updateCustomObject } from '../db/objects.ts';
import { loadWorkspaceRows, lockWorkspaceRows } from '../db/workspace.ts';
import { checkDefinitions, checkLabel, type FieldProblem, fieldDescriptor } from '../domain/field-definitions.ts';
import { builtinObject, customObjectName } from '../domain/objects.ts';
import { moduleState } from '../domain/plans.ts';
import { configurationLimits } from '../domain/request-limits.ts';
import { configuredFields, type WorkspaceRows } from '../domain/workspace.ts';
import { alreadyExists, conflict, notFound, validationFailed } from '../runtime/errors.ts';
import type { Handler, Result } from '../runtime/handler.ts';

type CustomObject = Result<'updateObject'>['data']['object'];

export const listObjects: Handler<'listObjects'> = async (call) => {
  const { caller } = call;
  const { objects } = await call.workspace();
  const visible = [...objects.values()].filter(
    ({ module }) => caller.grants.allows(`${module}:view`) && moduleState(module, caller.modules) === 'on',
  );
  return {
    status: 200,
    data: {
      objects: visible.map(({ object, label, plural, kind, module }) => ({ object, label, plural, kind, module })),
      next_cursor: null,
      has_more: false,
    },
  };
};

export const getObjectSchema: Handler<'getObjectSchema'> = async (call) => {
  const found = (await call.workspace()).objects.get(call.path.object);
  if (!found) throw notFound();
  const { object, label, plural, kind, module } = found;
  const fields = [...found.fields.values()].map(fieldDescriptor);
  return { status: 200, data: { schema: { object, label, plural, kind, module, fields } } };
};

export const createObject: Handler<'createObject'> = async (call) => {
  const { body, sql, now } = call;
  const { companyId } = call.caller;
  const { fields, problems } = checkDefinitions(body.fields, [customObjectName]);
  const label = checkLabel(body.label, 'label', problems);
  const plural = checkLabel(body.plural, 'plural', problems);
  if (problems.length > 0) throw validationFailed(problems, 422);

  const before = (await lockWorkspaceRows(sql, companyId)) as WorkspaceRows;
  const object = `object:${body.slug}`;
  if (before.customObjects.some((row) => row.slug === body.slug)) {
    throw alreadyExists(`This workspace has the object ${object} already, perhaps switched off.`, ['slug'], object);
  }
  if (before.customObjects.length >= configurationLimits.customObjects) {
    throw conflict('object_limit_reached', `A workspace holds ${configurationLimits.customObjects} custom objects.`, {
      limit: configurationLimits.customObjects,
    });
  }
  await insertCustomObject(sql, companyId, { slug: body.slug, label, plural }, now);
  await insertCustomFields(sql, companyId, object, fields, now);
  call.record({
    action: 'object.create',
    object,
    metadata: { label, plural, fields: fields.map((field) => field.name) },
    event: { name: 'schema.changed', data: { object, occurred_at: now.toISOString() } },
  });
  const after = (await loadWorkspaceRows(sql, companyId)) as WorkspaceRows;
  return { status: 201, data: { object: customObjectOf(body.slug, after) } };
};

export const updateObject: Handler<'updateObject'> = async (call) => {
  const { body, sql, now } = call;
  const { companyId } = call.caller;
  const { object } = call.path;
  if (builtinObject(object)) {
    throw conflict('builtin_object', `${object} is a built-in object and cannot be changed.`);
  }
  const slug = object.slice('object:'.length);
  const rows = (await lockWorkspaceRows(sql, companyId)) as WorkspaceRows;
  const before = rows.customObjects.find((row) => row.slug === slug);
  if (!before) throw notFound();
  const problems: FieldProblem[] = [];
  const change = {
    ...(body.label === undefined ? {} : { label: checkLabel(body.label, 'label', problems) }),
    ...(body.plural === undefined ? {} : { plural: checkLabel(body.plural, 'plural', problems) }),
    ...(body.enabled === undefined ? {} : { enabled: body.enabled }),
  };
  if (problems.length > 0) throw validationFailed(problems, 422);

  await updateCustomObject(sql, companyId, slug, change, now);
  const changed = Object.entries(change).filter(([key, value]) => before[key as keyof typeof before] !== value);
  call.record({
    action: 'object.update',
    object,
    changes: Object.fromEntries(
      changed.map(([key, to]) => [key, { from: before[key as keyof typeof before], to }] as const),
    ),
    event: { name: 'schema.changed', data: { object, occurred_at: now.toISOString() } },
  });
  const after = (await loadWorkspaceRows(sql, companyId)) as WorkspaceRows;
  return { status: 200, data: { object: customObjectOf(slug, after) } };
};

function customObjectOf(slug: string, rows: WorkspaceRows): CustomObject {
  const row = rows.customObjects.find((each) => each.slug === slug);
  if (!row) throw notFound();
  const object = `object:${slug}`;
  return {
    object,
    label: row.label,
    plural: row.plural,
    kind: 'custom',
    module: object,
    enabled: row.enabled,
    fields: configuredFields(object, rows).map(fieldDescriptor),
  };
}
