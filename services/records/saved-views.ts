// Finds the saved views that a caller can use.
import { findView, type ViewRow } from '../../db/records/views.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { ApiError, type FieldProblem, orNotFound } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** Returns the objects whose views the caller can use. */
export function listViewableObjects(workspace: Workspace, caller: Call['caller']): string[] {
  return [...workspace.objects.keys()].filter((name) => isVisible(name, workspace, caller));
}

/** @throws ApiError 404 if the view does not exist for the caller */
export async function findViewToApply(
  { caller, db: { sql } }: Pick<Call, 'caller' | 'db'>,
  workspace: Workspace,
  id: string,
): Promise<ViewRow> {
  return orNotFound(await findView(sql, caller, listViewableObjects(workspace, caller), id));
}

/** Returns 422 for a view that no longer fits its object. */
export function viewOutdated({ id, name, object }: ViewRow, problems: FieldProblem[]): ApiError {
  const details = { reason: 'view_outdated', view_id: id, fields: problems };
  const message = `The view “${name}” no longer fits ${object}. ${problems[0]?.message ?? ''}`;
  return new ApiError('VALIDATION_ERROR', message, details, { status: 422 });
}
