// Tags of leads and customers, and the conditions that apply them.
import { v7 as uuidv7 } from 'uuid';
import {
  deleteTag as deleteStored,
  findTag,
  insertTag,
  listTags as listStored,
  type TagRow,
  updateTag as updateStored,
} from '../../db/settings/tags.ts';
import type { KeptComparison } from '../../domain/objects/configuration.ts';
import { getBuiltinObject, type Workspace } from '../../domain/objects/workspace.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import { checkTagRule, type TagRule, toConditionResponse } from '../../domain/settings/tags.ts';
import type { components } from '../../generated/api.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

type Tag = components['schemas']['Tag'];

const noRule: TagRule = { fieldNames: [], conditions: [], logic: 'AND' };

export const listTags: Handler<'listTags'> = async (call) => {
  const workspace = await call.services.loadWorkspace();
  const { object } = call.request.path;
  const tags = await listStored(call.db.sql, call.caller.companyId, object);
  const { rows, ...rest } = selectPage(call, ['tags', object], tags, (tag) => tag.id);
  return { status: 200, data: { tags: rows.map((row) => toTag(row, workspace)), ...rest } };
};

export const getTag: Handler<'getTag'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await findTag(sql, caller.companyId, path.object, path.id));
  return { status: 200, data: { tag: toTag(row, await call.services.loadWorkspace()) } };
};

export const createTag: Handler<'createTag'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { object } = call.request.path;
  const { companyId } = call.caller;
  const workspace = await lockSettings(call);
  const rule = checkBody(call, workspace, noRule);
  const name = body.name.trim();
  const tags = workspace.tags.filter((tag) => tag.object === object);
  refuseTwin('A tag', name, tags);
  refuseFull(tags.length, configurationLimits.tagsOfObject, 'tag_limit_reached', `tags for ${object}`);
  assertConditionLimit(tags, rule);

  const tag: TagRow = {
    id: uuidv7(),
    object,
    name,
    description: body.description ?? null,
    color: body.color,
    priority: body.priority,
    ...toRuleColumns(object, rule),
    createdAt: now,
    updatedAt: now,
  };
  await insertTag(sql, companyId, tag);
  const shown = toTag(tag, workspace);
  recordChange(call, 'tag', undefined, shown);
  return { status: 201, data: { tag: shown } };
};

export const updateTag: Handler<'updateTag'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { object, id } = call.request.path;
  const { companyId } = call.caller;
  const workspace = await lockSettings(call);
  const before = orNotFound(await findTag(sql, companyId, object, id));
  const rule = checkBody(call, workspace, toRule(before));
  const name = body.name?.trim() ?? before.name;
  const others = workspace.tags.filter((tag) => tag.object === object && tag.id !== before.id);
  refuseTwin('A tag', name, others);
  if (rule.conditions.length > toRule(before).conditions.length) assertConditionLimit(others, rule);

  const after: TagRow = {
    ...before,
    name,
    description: body.description === undefined ? before.description : body.description,
    color: body.color ?? before.color,
    priority: body.priority ?? before.priority,
    ...toRuleColumns(object, rule),
    updatedAt: now,
  };
  const [was, shown] = [toTag(before, workspace), toTag(after, workspace)];
  if (!recordChange(call, 'tag', was, shown)) return { status: 200, data: { tag: was } };
  await updateStored(sql, companyId, after);
  return { status: 200, data: { tag: shown } };
};

export const deleteTag: Handler<'deleteTag'> = async (call) => {
  const { object, id } = call.request.path;
  const workspace = await lockSettings(call);
  const row = orNotFound(await deleteStored(call.db.sql, call.caller.companyId, object, id));
  recordChange(call, 'tag', toTag(row, workspace), undefined);
  return { status: 200, data: { id: row.id, deleted: true } };
};

/** @throws ApiError 400 or 422 with every problem, including those of the OpenAPI document */
function checkBody(call: Call<'createTag'> | Call<'updateTag'>, workspace: Workspace, before: TagRule): TagRule {
  const object = getBuiltinObject(call.request.path.object, workspace);
  const { rule, problems, contradictions } = checkTagRule(object, call.request.body, before);
  if (call.request.problems.length + problems.length + contradictions.length > 0)
    throw call.request.rejection(problems, contradictions);
  return rule;
}

/**
 * @throws ApiError 409 if all tags together have too many conditions; every write evaluates all of
 * them
 */
function assertConditionLimit(others: readonly { conditions: readonly unknown[] }[], rule: TagRule): void {
  const limit = configurationLimits.tagConditionsOfObject;
  const count = others.reduce((sum, { conditions }) => sum + conditions.length, rule.conditions.length);
  if (count <= limit) return;
  const message = `The tags of an object can have at most ${limit} conditions in total.`;
  throw conflict('tag_condition_limit_reached', message, { limit });
}

/** A lead's tag stores its conditions as fields; a customer's tag stores both. */
function toRuleColumns(object: string, rule: TagRule): Pick<TagRow, 'fields' | 'conditions' | 'conditionLogic'> {
  return object === 'leads'
    ? { fields: rule.conditions, conditions: [], conditionLogic: 'AND' }
    : { fields: rule.fieldNames, conditions: rule.conditions, conditionLogic: rule.logic };
}

function toRule(row: TagRow): TagRule {
  return row.object === 'leads'
    ? { fieldNames: [], conditions: row.fields as KeptComparison[], logic: 'AND' }
    : {
        fieldNames: row.fields as string[],
        conditions: row.conditions as KeptComparison[],
        logic: row.conditionLogic,
      };
}

function toTag(row: TagRow, workspace: Workspace): Tag {
  const object = getBuiltinObject(row.object, workspace);
  const rule = toRule(row);
  const conditions = rule.conditions.map((each) => toConditionResponse(object, each)) as NonNullable<Tag['conditions']>;
  return {
    id: row.id,
    object: row.object,
    name: row.name,
    description: row.description,
    color: row.color,
    priority: row.priority,
    ...(row.object === 'leads'
      ? { fields: conditions }
      : { fields: [...rule.fieldNames], conditions, condition_logic: rule.logic }),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
