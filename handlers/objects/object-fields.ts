// Fields: adds custom ones, and changes custom and built-in ones.
import { insertCustomFields, overrideField, updateCustomField } from '../../db/objects/object-fields.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { findRepeatedValues } from '../../db/records/unique-values.ts';
import { checkChange, checkDefinition, toFieldDescriptor } from '../../domain/objects/field-definitions.ts';
import {
  type ConfiguredField,
  listBuiltinFields,
  listConfiguredFields,
  type Workspace,
  type WorkspaceObject,
} from '../../domain/objects/workspace.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { toExamples } from '../../domain/records/unique-values.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { alreadyExists, conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { lockSettings, refuseFull, refuseUniqueFields } from '../../services/settings/setting-changes.ts';

export const createField: Handler<'createField'> = async (call) => {
  const { now } = call;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { object } = call.request.path;
  const { rows } = (await lockObject(call)).workspace;
  const existing = listConfiguredFields(object, rows);
  const names = existing.map(({ name }) => name);
  const { field, problems } = checkDefinition(call.request.body, listBuiltinFields(object), names);
  if (problems.length > 0) throw validationFailed(problems, 422);
  const twin = existing.find((each) => each.name === field.name);
  if (twin) {
    const hint = twin.enabled ? '' : ' It is disabled. Set enabled to true to restore it.';
    throw alreadyExists(`${object} already has a field named ${field.name}.${hint}`, ['name'], field.name);
  }
  refuseFull(
    existing.length,
    configurationLimits.fieldsOfObject,
    'field_limit_reached',
    'fields, including disabled ones',
    'An object',
  );
  refuseUniqueFields([...existing, field]);
  await insertCustomFields(sql, companyId, object, [field], now);
  call.db.record({
    action: 'field.create',
    object,
    recordId: field.name,
    metadata: { label: field.label, type: field.type, required: field.required, unique: field.unique },
    event: { name: 'schema.changed', data: { object, occurred_at: now.toISOString() } },
  });
  return { status: 201, data: { field: toFieldResponse(await reloadField(call, object, field.name)) } };
};

export const updateField: Handler<'updateField'> = async (call) => {
  const { now } = call;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { object, field: name } = call.request.path;
  const { workspace, target } = await lockObject(call);
  const { rows } = workspace;
  const before = orNotFound(listConfiguredFields(object, rows).find((field) => field.name === name));
  const stored = rows.customFields.find((row) => row.object === object && row.name === name)?.options ?? [];
  const { change, problems } = checkChange(call.request.body, before, target, stored);
  if (problems.length > 0) throw validationFailed(problems, 422);

  if (change.unique && !before.unique) {
    refuseUniqueFields([...listConfiguredFields(object, rows), { unique: true }]);
    await refuseRepeated(call, workspace, before);
  }
  if (before.custom) await updateCustomField(sql, companyId, object, name, change, now);
  else await overrideField(sql, companyId, object, name, change, now);
  const after = await reloadField(call, object, name);
  call.db.record({
    action: 'field.update',
    object,
    recordId: name,
    changes: differences(before, after),
    event: { name: 'schema.changed', data: { object, occurred_at: now.toISOString() } },
  });
  return { status: 200, data: { field: toFieldResponse(after) } };
};

type FieldCall = Call<'createField'> | Call<'updateField'>;

/** Returns the object of the path, and locks the configuration until the transaction ends. */
async function lockObject(call: FieldCall): Promise<{ workspace: Workspace; target: WorkspaceObject }> {
  const workspace = await lockSettings(call);
  return { workspace, target: orNotFound(workspace.objects.get(call.request.path.object)) };
}

/** Repeated values of each mode in an error. */
const namedRepeats = 20;

/**
 * Blocks writes of the field until the transaction ends, if no value is repeated in either mode.
 * @throws ApiError 409 with examples of repeated values, of records that the caller can see
 */
async function refuseRepeated(
  call: Call<'updateField'>,
  workspace: Workspace,
  { name, type }: ConfiguredField,
): Promise<void> {
  const { object } = call.request.path;
  const repeated = await findRepeatedValues(call.db.sql, call.caller, object, name, namedRepeats);
  if (repeated.length === 0) return;
  const examples = isVisible(object, workspace, call.caller) ? toExamples(repeated, type) : [];
  throw conflict(
    'duplicate_values',
    `Records of ${object} have the same values in ${name}. Change these values first.`,
    { examples },
  );
}

async function reloadField(call: FieldCall, object: string, name: string): Promise<ConfiguredField> {
  const rows = await loadWorkspaceRows(call.db.sql, call.caller.companyId);
  return orNotFound(listConfiguredFields(object, rows).find((each) => each.name === name));
}

function toFieldResponse(field: ConfiguredField) {
  return { ...toFieldDescriptor(field), enabled: field.enabled };
}

function differences(before: ConfiguredField, after: ConfiguredField): Record<string, { from: unknown; to: unknown }> {
  const keys = ['label', 'required', 'enabled', 'unique', 'options'] as const;
  const changed = keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
  return Object.fromEntries(changed.map((key) => [key, { from: before[key], to: after[key] }]));
}
