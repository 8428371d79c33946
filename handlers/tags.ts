// Tags of leads and customers, and the conditions that put them on.
import { v7 as uuidv7 } from 'uuid';
import {
  deleteTag as deleteStored,
  findTag,
  insertTag,
  listTags as listStored,
  type TagRow,
  updateTag as updateStored,
} from '../db/tags.ts';
import { lockWorkspaceRows } from '../db/workspace.ts';
import type { KeptComparison } from '../domain/kept-conditions.ts';
import { configurationLimits } from '../domain/request-limits.ts';
import { settingChanges } from '../domain/setting-changes.ts';
import { checkTagRule, shownCondition, type TagRule } from '../domain/tags.ts';
import { buildWorkspace, findByName, type Workspace, type WorkspaceRows } from '../domain/workspace.ts';
import type { components } from '../generated/api.ts';
import { alreadyExists, conflict, notFound } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';

type Tag = components['schemas']['Tag'];

const noRule: TagRule = { fieldNames: [], conditions: [], logic: 'AND' };

export const listTags: Handler<'listTags'> = async (call) => {
  const workspace = await call.workspace();
  const rows = await listStored(call.sql, call.caller.companyId, call.path.object);
  const tags = rows.map((row) => toTag(row, workspace));
  return { status: 200, data: { tags, next_cursor: null, has_more: false } };
};

export const getTag: Handler<'getTag'> = async (call) => {
  const { sql, caller, path } = call;
  const row = await findTag(sql, caller.companyId, path.object, path.id);
  if (!row) throw notFound();
  return { status: 200, data: { tag: toTag(row, await call.workspace()) } };
};

export const createTag: Handler<'createTag'> = async (call) => {
  const { sql, body, now } = call;
  const { object } = call.path;
  const { companyId } = call.caller;
  const workspace = await lock(call);
  const rule = checkBody(call, workspace, noRule);
  const name = body.name.trim();
  const tags = workspace.tags.filter((tag) => tag.object === object);
  refuseTwin(tags, name);
  if (tags.length >= configurationLimits.tagsOfObject)
    throw conflict('tag_limit_reached', `${object} have ${configurationLimits.tagsOfObject} tags at most.`, {
      limit: configurationLimits.tagsOfObject,
    });
  refuseConditions(tags, rule);

  const tag: TagRow = {
    id: uuidv7(),
    object,
    name,
    description: body.description ?? null,
    color: body.color,
    priority: body.priority,
    ...ruleColumns(object, rule),
    created_at: now,
    updated_at: now,
  };
  await insertTag(sql, companyId, tag);
  const shown = toTag(tag, workspace);
  const changes = settingChanges(undefined, shown);
  call.record({ action: 'settings.tag.create', object, recordId: tag.id, changes });
  return { status: 201, data: { tag: shown } };
};

export const updateTag: Handler<'updateTag'> = async (call) => {
  const { sql, body, now } = call;
  const { object, id } = call.path;
  const { companyId } = call.caller;
  const workspace = await lock(call);
  const before = await findTag(sql, companyId, object, id);
  if (!before) throw notFound();
  const rule = checkBody(call, workspace, ruleOf(before));
  const name = body.name?.trim() ?? before.name;
  const others = workspace.tags.filter((tag) => tag.object === object && tag.id !== before.id);
  refuseTwin(others, name);
  if (rule.conditions.length > ruleOf(before).conditions.length) refuseConditions(others, rule);

  const after: TagRow = {
    ...before,
    name,
    description: body.description === undefined ? before.description : body.description,
    color: body.color ?? before.color,
    priority: body.priority ?? before.priority,
    ...ruleColumns(object, rule),
    updated_at: now,
  };
  const shown = toTag(after, workspace);
  const changes = settingChanges(toTag(before, workspace), shown);
  if (Object.keys(changes).length === 0) return { status: 200, data: { tag: toTag(before, workspace) } };
  await updateStored(sql, companyId, after);
  call.record({ action: 'settings.tag.update', object, recordId: before.id, changes });
  return { status: 200, data: { tag: shown } };
};

export const deleteTag: Handler<'deleteTag'> = async (call) => {
  const { object, id } = call.path;
  const workspace = await lock(call);
  const row = await deleteStored(call.sql, call.caller.companyId, object, id);
  if (!row) throw notFound();
  const changes = settingChanges(toTag(row, workspace), undefined);
  call.record({ action: 'settings.tag.delete', object, recordId: row.id, changes });
  return { status: 200, data: { id: row.id, deleted: true } };
};

/** The workspace, with its configuration kept from changing under this call. */
async function lock(call: Call<'createTag'> | Call<'updateTag'> | Call<'deleteTag'>): Promise<Workspace> {
  return buildWorkspace((await lockWorkspaceRows(call.sql, call.caller.companyId)) as WorkspaceRows);
}

/** @throws ApiError 400 or 422 with every problem, those that the document finds included */
function checkBody(call: Call<'createTag'> | Call<'updateTag'>, workspace: Workspace, before: TagRule): TagRule {
  const object = objectOf(workspace, call.path.object);
  const { rule, problems, contradictions } = checkTagRule(object, workspace, call.body, before);
  if (call.problems.length + problems.length + contradictions.length > 0) throw call.refusal(problems, contradictions);
  return rule;
}

function objectOf(workspace: Workspace, name: 'leads' | 'customers') {
  const object = workspace.objects.get(name);
  if (!object) throw new Error(`every workspace has ${name}`);
  return object;
}

/** @throws ApiError 409 naming the tag that has this name already */
function refuseTwin(tags: readonly { id: string; name: string }[], name: string): void {
  const twin = findByName(tags, name);
  if (twin) throw alreadyExists(`There is a tag ${twin.name} already.`, ['name'], twin.id);
}

/** @throws ApiError 409 when all tags together would have too many conditions to hold each written record against */
function refuseConditions(others: readonly { conditions: readonly unknown[] }[], rule: TagRule): void {
  const limit = configurationLimits.tagConditionsOfObject;
  const count = others.reduce((sum, { conditions }) => sum + conditions.length, rule.conditions.length);
  if (count > limit)
    throw conflict('tag_condition_limit_reached', `All tags of an object have ${limit} conditions together at most.`, {
      limit,
    });
}

/** A lead's tag keeps its conditions as fields; a customer's keeps both. */
function ruleColumns(object: string, rule: TagRule): Pick<TagRow, 'fields' | 'conditions' | 'condition_logic'> {
  return object === 'leads'
    ? { fields: rule.conditions, conditions: [], condition_logic: 'AND' }
    : { fields: rule.fieldNames, conditions: rule.conditions, condition_logic: rule.logic };
}

function ruleOf(row: TagRow): TagRule {
  return row.object === 'leads'
    ? { fieldNames: [], conditions: row.fields as KeptComparison[], logic: 'AND' }
    : {
        fieldNames: row.fields as string[],
        conditions: row.conditions as KeptComparison[],
        logic: row.condition_logic,
      };
}

function toTag(row: TagRow, workspace: Workspace): Tag {
  const object = objectOf(workspace, row.object);
  const rule = ruleOf(row);
  const conditions = rule.conditions.map((each) => shownCondition(object, workspace, each)) as Tag['conditions'];
  return {
    id: row.id,
    object: row.object,
    name: row.name,
    description: row.description,
    color: row.color,
    priority: row.priority,
    ...(row.object === 'leads'
      ? { fields: conditions ?? [] }
      : { fields: [...rule.fieldNames], conditions, condition_logic: rule.logic }),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
