// Prepares imports at the console: changes the options before the start, and repeats dry runs.
import { v7 as uuidv7 } from 'uuid';
import {
  findImport,
  findImportParts,
  type ImportRow,
  insertImport,
  lockImport,
  moveImportParts,
  updateImport,
} from '../../db/records/imports.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import type { ImportOptions } from '../../domain/records/import-mapping.ts';
import { type ApiError, conflict, notFound, orNotFound } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';
import { findOptionProblems, listImportScopes, rejectOptions } from './import-options.ts';

type SetupCall = Pick<Call, 'caller' | 'now' | 'authorize'> & { db: Pick<Call['db'], 'sql' | 'record'> };

export const alreadyStarted = (): ApiError => conflict('import_started', 'The import was started already.');

/** The choices that can change until the start. */
export type ImportChoices = Pick<ImportOptions, 'mode' | 'matchOn' | 'mapping' | 'checkDuplicates'>;

/**
 * Changes the options of an import that is not started.
 * @throws ApiError 409 if it is started, 403 without the scopes of the object, 422 for problems
 */
export async function changeImportOptions(
  call: SetupCall,
  id: string,
  choices: ImportChoices,
  isDryRun: boolean,
  workspace: Workspace,
): Promise<void> {
  const { caller, now, db } = call;
  call.authorize('imports:create');
  const seen = orNotFound(await findImport(db.sql, caller, id));
  const row = orNotFound(await lockImport(db.sql, caller, seen.id));
  if (row.status !== 'awaiting_file') throw alreadyStarted();
  const object = workspace.objects.get(row.object);
  if (!object) throw notFound();
  const options: ImportOptions = { ...row.options, ...choices };
  const reach = requireObject(call, row.object, options);
  const problems = findOptionProblems(options, object, workspace, now);
  if (problems.length > 0) throw rejectOptions(problems);
  const place = { reachKind: reach.kind, reachId: reach.kind === 'company' ? null : reach.id };
  await updateImport(db.sql, caller, row.id, { dryRun: isDryRun, ...place }, { options });
  db.record({ action: 'import.update', metadata: { import_id: row.id, object: row.object, mode: options.mode } });
}

/**
 * Creates an import with the options and the file of a dry run that has ended. The file moves to
 * the new import, so that it is stored once.
 * @returns the id of the new import, which is not started
 * @throws ApiError 409 if the dry run has not ended, or if it has no file anymore
 */
export async function createFromDryRun(call: SetupCall, id: string, isDryRun: boolean): Promise<string> {
  const { caller, now, db } = call;
  call.authorize('imports:create');
  const seen = orNotFound(await findImport(db.sql, caller, id));
  const row = orNotFound(await lockImport(db.sql, caller, seen.id));
  requireEndedDryRun(row);
  const parts = await findImportParts(db.sql, caller, row.id);
  if (parts.length === 0)
    throw conflict(
      'no_file',
      'The file of this dry run is not here anymore. Another import uses it, or it has expired.',
    );
  const reach = requireObject(call, row.object, row.options);
  const { object, options, fileName } = row;
  const next = await insertImport(
    db.sql,
    { ...caller, reach },
    { id: uuidv7(), object, options, dryRun: isDryRun },
    now,
  );
  await moveImportParts(db.sql, caller, row.id, next.id);
  await updateImport(db.sql, caller, next.id, { fileName });
  db.record({
    action: 'import.create',
    metadata: { import_id: next.id, object, mode: options.mode, dry_run_id: row.id },
  });
  return next.id;
}

/** Returns the visibility of the records. @throws ApiError 403 without the scopes of the object */
function requireObject({ caller, authorize }: SetupCall, object: string, { mode }: ImportOptions) {
  const scopes = listImportScopes(object, mode);
  for (const scope of scopes) authorize(scope);
  return caller.computeReach?.(scopes) ?? caller.reach;
}

function requireEndedDryRun({ dryRun, completedAt, dueAt }: ImportRow): void {
  if (!dryRun) throw conflict('not_a_dry_run', 'Only a dry run can be repeated with its file.');
  if (completedAt === null || dueAt !== null)
    throw conflict('import_not_ended', 'The dry run has not ended. Wait for its end, or cancel it.');
}
