// Whether new leads and deals are held against those that are there; they come with the configuration, so that reading them needs no statement.
import { putDuplicateCheck } from '../db/duplicate-checks.ts';
import { lockWorkspaceRows } from '../db/workspace.ts';
import { checkedFieldProblems } from '../domain/duplicates.ts';
import { settingChanges } from '../domain/setting-changes.ts';
import { buildWorkspace, type WorkspaceRows } from '../domain/workspace.ts';
import type { components } from '../generated/api.ts';
import { problem } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';

export const listDuplicateChecks: Handler<'listDuplicateChecks'> = async (call) => {
  const { duplicateChecks } = await call.workspace();
  const checks = [toCheck(duplicateChecks, 'leads'), toCheck(duplicateChecks, 'deals')];
  return { status: 200, data: { duplicate_checks: checks, next_cursor: null, has_more: false } };
};

export const updateDuplicateCheck: Handler<'updateDuplicateCheck'> = async (call) => {
  const { sql, body } = call;
  const { object } = call.path;
  const { companyId } = call.caller;
  const workspace = buildWorkspace((await lockWorkspaceRows(sql, companyId)) as WorkspaceRows);
  const isEmpty = body.enabled === true && Array.isArray(body.fields) && body.fields.length === 0;
  const empty = isEmpty
    ? [problem('fields', 'TOO_SHORT', 'fields must name at least one field while enabled is true')]
    : [];
  const found = checkedFieldProblems(object, workspace, body.fields);
  if (call.problems.length + empty.length + found.length > 0) throw call.refusal(found, empty);

  const check = { object, enabled: body.enabled, fields: body.fields };
  await putDuplicateCheck(sql, companyId, check);
  const changes = settingChanges(toCheck(workspace.duplicateChecks, object), check);
  call.record({ action: 'settings.duplicate_check.update', object, changes });
  return { status: 200, data: { duplicate_check: check } };
};

type DuplicateCheck = components['schemas']['DuplicateCheck'];

function toCheck(checks: WorkspaceRows['duplicateChecks'], object: DuplicateCheck['object']): DuplicateCheck {
  const check = checks.find((each) => each.object === object);
  return { object, enabled: check?.enabled ?? false, fields: check?.fields ?? [] };
}
