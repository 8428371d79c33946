// The setting that compares new leads and deals with existing ones.
import { putDuplicateCheck } from '../../db/settings/duplicate-checks.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { findCheckedFieldProblems } from '../../domain/records/duplicates.ts';
import { diffSettings } from '../../domain/settings/setting-changes.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings } from '../../services/settings/setting-changes.ts';

export const listDuplicateChecks: Handler<'listDuplicateChecks'> = async (call) => {
  const { duplicateChecks } = await call.services.loadWorkspace();
  const checks = [toCheck(duplicateChecks, 'leads'), toCheck(duplicateChecks, 'deals')];
  const { rows, ...rest } = selectPage(call, ['duplicate checks'], checks, (check) => check.object);
  return { status: 200, data: { duplicate_checks: rows, ...rest } };
};

export const updateDuplicateCheck: Handler<'updateDuplicateCheck'> = async (call) => {
  const { body } = call.request;
  const { sql } = call.db;
  const { object } = call.request.path;
  const workspace = await lockSettings(call);
  const isEmpty = body.enabled === true && Array.isArray(body.fields) && body.fields.length === 0;
  const empty = isEmpty
    ? [buildProblem('fields', 'TOO_SHORT', 'fields must name at least one field if enabled is true')]
    : [];
  const found = findCheckedFieldProblems(object, workspace, body.fields);
  if (call.request.problems.length + empty.length + found.length > 0) throw call.request.rejection(found, empty);

  const check = { object, enabled: body.enabled, fields: body.fields };
  await putDuplicateCheck(sql, call.caller.companyId, check);
  // A PUT is recorded even if it changes nothing.
  const changes = diffSettings(toCheck(workspace.duplicateChecks, object), check);
  call.db.record({ action: 'settings.duplicate_check.update', object, changes });
  return { status: 200, data: { duplicate_check: check } };
};

type DuplicateCheck = components['schemas']['DuplicateCheck'];

function toCheck(checks: Workspace['duplicateChecks'], object: DuplicateCheck['object']): DuplicateCheck {
  const check = checks.find((each) => each.object === object);
  return { object, enabled: check?.enabled ?? false, fields: check?.fields ?? [] };
}
