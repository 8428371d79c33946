// The options of imports: their problems, and the scopes that an import needs on its object.
import { buildFieldProblem, type FieldProblem } from '../../domain/objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { ColumnMapping, type ImportOptions } from '../../domain/records/import-mapping.ts';
import { findMatchProblems } from '../../domain/records/match.ts';
import { checkRecord } from '../../domain/records/values.ts';
import { readTagNames } from '../../domain/settings/record-tags.ts';
import { type ApiError, validationFailed } from '../../runtime/errors.ts';

const actions = { create: ['create'], update: ['edit'], upsert: ['create', 'edit'] } as const;

/** Returns the scopes that an import needs on its object. */
export const listImportScopes = (object: string, mode: ImportOptions['mode']): string[] =>
  actions[mode].map((action) => `${object}:${action}`);

/** Returns the problems of the options that do not depend on the file. */
export function findOptionProblems(
  options: ImportOptions,
  object: WorkspaceObject,
  workspace: Workspace,
  now: Date,
): FieldProblem[] {
  const { mode, matchOn, defaults, tags } = options;
  const problems = findMatchProblems(object, matchOn);
  if (mode === 'create' && matchOn.length > 0)
    problems.push(buildFieldProblem('match_on', 'CONFLICTING_FIELDS', 'has no meaning if mode is create'));
  if (mode !== 'create' && matchOn.length === 0)
    problems.push(buildFieldProblem('match_on', 'REQUIRED', `is required if mode is ${mode}`));
  problems.push(...new ColumnMapping(object, options).problems());
  const checked = checkRecord(object, defaults, mode === 'update' ? 'update' : 'create', workspace, now);
  problems.push(
    ...checked.problems
      .filter(({ field, code }) => Object.hasOwn(defaults, field) && code !== 'REQUIRED')
      .map((each) => ({ ...each, field: `defaults.${each.field}` })),
  );
  if (tags.length > 0)
    problems.push(
      ...(object.tags
        ? readTagNames(object, tags).problems
        : [buildFieldProblem('tags', 'UNKNOWN_FIELD', `is not a field of ${object.object}`)]),
    );
  return problems;
}

/** Rejects options: as incomplete if only values are missing, otherwise as invalid. */
export function rejectOptions(problems: FieldProblem[]): ApiError {
  return validationFailed(problems, problems.every(({ code }) => code === 'REQUIRED') ? 400 : 422);
}
