// Validates a record's body for a tenant's object: problems, and values in stored form.

import { type BuiltinField, commonFields, findBuiltinObject } from '../objects/builtin.ts';
import {
  buildFieldProblem,
  checkValue,
  type FieldProblem,
  isNoValue,
  type StoredValue,
  toUuid,
} from '../objects/field-values.ts';
import { findClosest } from '../objects/suggestions.ts';
import { type Field, findByName, replaceItems, type Workspace, type WorkspaceObject } from '../objects/workspace.ts';
import { sendAtLeastOneOf, sendOnlyOneOf } from '../service/messages.ts';
import { findFirstStatus, getDefaultPipeline, listStages } from '../settings/pipelines.ts';
import { readTagNames } from '../settings/record-tags.ts';
import type { CheckedRecord, Draft } from './draft.ts';
import { checkRules } from './rules.ts';

/**
 * Checks a flat body of field values.
 * @param mode create: checks required fields and fills in defaults; update: checks only what is
 * sent
 * @param stored on update, the record's values (ids for lists, ISO 8601 for times), for rules about
 * several fields
 */
export function checkRecord(
  object: WorkspaceObject,
  body: Record<string, unknown>,
  mode: 'create' | 'update',
  workspace: Workspace,
  now: Date,
  stored: Record<string, StoredValue> = {},
): CheckedRecord {
  const sent = new Set(Object.keys(body));
  const refused = (name: string) => draft.problems.some((problem) => problem.field === name);
  const draft: Draft = {
    values: emptyValues(),
    custom: emptyValues(),
    references: [],
    problems: [],
    defaulted: new Set(),
    object,
    mode,
    workspace,
    now,
    stored,
    sent,
    extensions: new Map(),
    pipelineId: findPipelineId(object, body, stored, workspace),
    joined: (name) => (refused(name) ? undefined : name in draft.values ? draft.values[name] : (stored[name] ?? null)),
  };
  for (const [name, given] of Object.entries(body)) {
    if (name === assigneeEmail && object.fields.has('assigned_to')) checkAssigneeEmail(draft, given, body.assigned_to);
    else if (name === 'tags' && object.tags) checkTags(draft, given);
    else checkField(draft, name, given);
  }
  keepExtension(draft);
  if (mode === 'create') complete(draft);
  requireAnyField(draft);
  checkRules(draft);
  const { values, custom, references, problems, defaulted, tagIds } = draft;
  return { values, custom, references, problems, defaulted, ...(tagIds ? { tagIds } : {}) };
}

/** Returns the pipeline that a deal is in after the write; undefined if the body names an unknown one. */
function findPipelineId(
  object: WorkspaceObject,
  { pipeline: given }: Record<string, unknown>,
  stored: Record<string, StoredValue>,
  workspace: Workspace,
): string | undefined {
  if (object.object !== 'deals') return undefined;
  if (!object.fields.has('pipeline') || isNoValue(given))
    return String(stored.pipeline ?? getDefaultPipeline(workspace).id);
  return typeof given === 'string' ? findByName(workspace.pipelines, given)?.id : undefined;
}

/** Returns the field of a stage with the stages of the deal's pipeline, because names can repeat in others. */
function limitToPipeline(field: Field, { object, workspace, pipelineId }: Draft): Field {
  const isStage = object.object === 'deals' && field.name === 'stage';
  if (!isStage || pipelineId === undefined || workspace.pipelines.length === 1) return field;
  return replaceItems(field, listStages(pipelineId, workspace));
}

function checkTags(draft: Draft, given: unknown): void {
  const { tagIds, problems } = readTagNames(draft.object, given);
  draft.problems.push(...problems);
  draft.tagIds = tagIds;
}

/**
 * Checks custom fields in a separate object, on create.
 * @param prefix the path of that object in the body; problems name `<prefix>.<field>`
 */
export function checkCustomFields(
  object: WorkspaceObject,
  body: Record<string, unknown>,
  prefix: string,
): Pick<CheckedRecord, 'custom' | 'problems'> {
  const custom = emptyValues();
  const problems: FieldProblem[] = [];
  const fields = new Map([...object.fields].filter(([, field]) => field.custom));
  for (const [name, given] of Object.entries(body)) {
    const field = fields.get(name);
    if (!field) {
      problems.push(unknownField(`${prefix}.${name}`, name, fields, object));
      continue;
    }
    const checked = checkValue(field, given);
    if ('fault' in checked)
      problems.push(buildFieldProblem(`${prefix}.${name}`, checked.fault.code, checked.fault.rule, checked.fault));
    else if (checked.value !== null) custom[name] = checked.value;
  }
  for (const [name, field] of fields) {
    if (field.required && !(Object.hasOwn(body, name) && !isNoValue(body[name])))
      problems.push(buildFieldProblem(`${prefix}.${name}`, 'REQUIRED', 'is required'));
  }
  return { custom, problems };
}

/** Without a prototype, so that a custom field can have the name constructor. */
const emptyValues = (): Record<string, StoredValue> => Object.create(null) as Record<string, StoredValue>;

const assigneeEmail = 'assigned_to_email';
const commonNames = new Set(commonFields.map((field) => field.name));

function checkField(draft: Draft, name: string, given: unknown): void {
  const { object, mode, problems } = draft;
  const field = object.fields.get(name);
  if (commonNames.has(name) || field?.readOnly) {
    const hint = object.fields.get(name.replace(/_id$/, ''))?.lookup
      ? `Send ${name.replace(/_id$/, '')} with the name instead.`
      : 'Omit this field. It is set automatically.';
    problems.push(buildFieldProblem(name, 'READ_ONLY', 'is read-only', { hint }));
    return;
  }
  if (!field) {
    problems.push(unknownField(name, name, object.fields, object));
    return;
  }
  if (mode === 'update' && field.immutable) {
    problems.push(buildFieldProblem(name, 'IMMUTABLE', 'cannot be changed'));
    return;
  }
  const limited = limitToPipeline(field, draft);
  const checked = checkValue(limited, given);
  if ('fault' in checked) {
    const isElsewhere = limited !== field && !draft.sent.has('pipeline') && !('fault' in checkValue(field, given));
    const hint = isElsewhere ? { hint: 'Also send pipeline to name a stage of another pipeline.' } : {};
    problems.push(buildFieldProblem(name, checked.fault.code, checked.fault.rule, { ...checked.fault, ...hint }));
    return;
  }
  const { value, extension } = checked;
  if (extension !== undefined) draft.extensions.set(name, extension);
  if (value === null && mode === 'create') return;
  if (value === null && (field.required || findDefault(draft, field) !== null)) {
    problems.push(buildFieldProblem(name, 'REQUIRED', 'cannot be cleared'));
    return;
  }
  if (value !== null && field.reference) {
    const id = toUuid(String(value));
    const what = field.reference === 'user' ? 'a user' : 'a record';
    if (id === undefined) problems.push(buildFieldProblem(name, 'INVALID_FORMAT', `must be the id of ${what}, a UUID`));
    else {
      draft.references.push({ field: name, kind: field.reference, value: id });
      draft.values[name] = id;
    }
    return;
  }
  (field.custom ? draft.custom : draft.values)[name] = value;
}

/**
 * Stores the extension of a phone number in the record's field `extension`. If the body also sends
 * that field, or two numbers with an extension, they must not differ.
 */
function keepExtension({ extensions, values, problems }: Draft): void {
  for (const [name, extension] of extensions) {
    // An empty extension in the body is no other one.
    if ((values.extension ?? null) === null) values.extension = extension;
    if (values.extension === extension || problems.some(({ field }) => field === 'extension')) continue;
    problems.push(
      buildFieldProblem(name, 'CONFLICTING_FIELDS', 'must not have another extension than the record', {
        hint: 'A record has one extension. Send it with one number, or as the field extension.',
      }),
    );
  }
}

function checkAssigneeEmail(draft: Draft, given: unknown, assignedTo: unknown): void {
  const address: Field = { name: assigneeEmail, label: '', type: 'email', custom: false, required: false };
  const checked = checkValue(address, given);
  if ('fault' in checked) {
    draft.problems.push(buildFieldProblem(assigneeEmail, checked.fault.code, checked.fault.rule, checked.fault));
  } else if (checked.value === null) {
    if (isNoValue(assignedTo)) checkField(draft, 'assigned_to', null);
  } else if (!isNoValue(assignedTo)) {
    draft.problems.push({
      field: assigneeEmail,
      code: 'CONFLICTING_FIELDS',
      message: sendOnlyOneOf([assigneeEmail, 'assigned_to']),
    });
  } else {
    draft.references.push({ field: assigneeEmail, kind: 'user_email', value: String(checked.value) });
  }
}

/** On create: sets defaults, and adds a problem for each required field without a value. */
function complete(draft: Draft): void {
  const { object, values, custom, problems } = draft;
  // A disabled field still gets its default: the record needs its status, visible or not.
  for (const field of findBuiltinObject(object.object)?.fields ?? []) {
    if (field.name in values || problems.some((problem) => problem.field === field.name)) continue;
    const value = findDefault(draft, field);
    if (value === null) continue;
    values[field.name] = value;
    draft.defaulted.add(field.name);
  }
  const assigneeNamed = draft.references.some((reference) => reference.kind === 'user_email');
  for (const [name, field] of object.fields) {
    if (!field.required || field.readOnly || problems.some((problem) => problem.field === name)) continue;
    if (name === 'assigned_to' && (assigneeNamed || problems.some((problem) => problem.field === assigneeEmail)))
      continue;
    if (!(name in (field.custom ? custom : values))) problems.push(buildFieldProblem(name, 'REQUIRED', 'is required'));
  }
}

function findDefault(draft: Draft, field: BuiltinField): StoredValue {
  if (field.default !== undefined) return field.default;
  const { workspace } = draft;
  switch (`${draft.object.object}.${field.name}`) {
    case 'deals.pipeline':
      return draft.pipelineId ?? null;
    case 'leads.lead_status':
    case 'deals.stage':
      return findFirstStatus(draft.object.object, workspace, draft.pipelineId)?.id ?? null;
    case 'deals.currency_code':
      return workspace.currency;
    case 'activities.performed_at':
      return draft.now.toISOString();
    default:
      return null;
  }
}

function requireAnyField(draft: Draft): void {
  const names = draft.object.oneOf.filter((name) => draft.object.fields.has(name));
  const [first] = names;
  if (first === undefined || (draft.mode === 'update' && !names.some((name) => draft.sent.has(name)))) return;
  if (names.every((name) => draft.joined(name) === null))
    draft.problems.push({ field: first, code: 'REQUIRED', message: sendAtLeastOneOf(names) });
}

function unknownField(
  path: string,
  name: string,
  fields: ReadonlyMap<string, Field>,
  object: WorkspaceObject,
): FieldProblem {
  const writable = [...fields.values()].filter((field) => !field.readOnly).map((field) => field.name);
  const meant = findClosest(name, writable);
  return buildFieldProblem(path, 'UNKNOWN_FIELD', `is not a field of ${object.object}`, {
    ...(meant === undefined ? {} : { allowed: [meant], meant }),
    hint: `GET /v1/objects/${encodeURIComponent(object.object)}/schema lists the fields.`,
  });
}
