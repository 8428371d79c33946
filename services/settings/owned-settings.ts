// Steps of every change of a setting that belongs to a user or key: rights, names and limits.
import { getOwnerId, type OwnedRow } from '../../db/settings/owned-settings.ts';
import { buildFieldProblem } from '../../domain/objects/field-values.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { alreadyExists, isValidSoFar } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';
import { refuseFull } from './setting-changes.ts';

/**
 * Returns the object that the body of a new setting names.
 * @throws ApiError 422 if the workspace does not have it
 */
export function findNamedObject(
  { request }: { request: Pick<Call['request'], 'problems' | 'rejection'> },
  workspace: Workspace,
  field: string,
  name: string,
): WorkspaceObject {
  const object = workspace.objects.get(name);
  if (object) return object;
  if (!isValidSoFar(request.problems, field)) throw request.rejection([]);
  const allowed = [...workspace.objects.keys()];
  const rule = 'must be the name of an object that is enabled';
  const meant = findClosest(name, allowed);
  throw request.rejection([buildFieldProblem(field, 'INVALID_OPTION', rule, { allowed, meant })]);
}

/** @throws ApiError 403 for a setting of another owner, without settings:configure */
export function assertChangeable(call: Pick<Call, 'caller' | 'authorize'>, row: OwnedRow): void {
  if (getOwnerId(row) !== getOwnerId(call.caller)) call.authorize('settings:configure');
}

/** What the checks need to know about the settings of a kind. */
export interface OwnedKind {
  /** The kind with its article, e.g. `A view`. */
  what: string;
  /** The kind in the plural. */
  items: string;
  limit: number;
  reason: string;
  count(counted: 'shared' | { ownerId: string }): Promise<number>;
  findByName(name: string): Promise<{ id: string; name: string } | undefined>;
}

/**
 * Checks the name and the limits of a setting that is created or changed.
 * @param ownerId of the setting
 * @param before undefined if it is created
 * @throws ApiError 409 if the owner has another one with the name, or if there are too many
 */
export async function assertRoomFor(
  call: Pick<Call, 'caller'>,
  { what, items, limit, reason, count, findByName }: OwnedKind,
  ownerId: string,
  before: OwnedRow | undefined,
  after: { name: string; isShared: boolean },
): Promise<void> {
  const twin = await findByName(after.name);
  if (twin && twin.id !== before?.id) {
    const isOwn = ownerId === getOwnerId(call.caller);
    throw alreadyExists(`${what} named ${twin.name} already exists.`, ['name'], isOwn ? twin.id : null);
  }
  if (before?.isShared === after.isShared) return;
  if (after.isShared) refuseFull(await count('shared'), limit, reason, `shared ${items}`);
  else refuseFull(await count({ ownerId }), limit, reason, `${items} that are not shared`, 'An owner');
}
