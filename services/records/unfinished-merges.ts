// Rejects writes to records that are part of a merge, or of an undo, that a job still finishes.
import { findRecords } from '../../db/records/records.ts';
import { findUnfinishedMerges, type MovingMerge, type UnfinishedMerge } from '../../db/records/unfinished-merges.ts';
import type { WorkspaceObject } from '../../domain/objects/workspace.ts';
import { isMergeable } from '../../domain/records/merging.ts';
import { conflict } from '../../runtime/errors.ts';
import type { WriteCall } from './record-target.ts';

/** Says of a record that its merge is not finished. */
export const mergeRunningMessage =
  'The record is part of a merge that is not finished. Wait until the merge is completed.';

/** Returns the error for a record whose merge is not finished. */
export const mergeRunning = ({ id, recordId }: UnfinishedMerge) =>
  conflict('merge_running', mergeRunningMessage, { merge_id: id, record_id: recordId });

/** Returns those of the records that the caller sees and whose merge is not finished. */
export async function findMerging(
  { caller, db: { sql } }: Pick<WriteCall, 'caller' | 'db'>,
  object: WorkspaceObject,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  if (!isMergeable(object)) return new Set();
  const unfinished = await findUnfinishedMerges(sql, caller, ids);
  if (unfinished.length === 0) return new Set();
  const merging = unfinished.map(({ recordId }) => recordId);
  return new Set((await findRecords(sql, caller, object.object, merging)).map(({ id }) => id));
}

/**
 * Call it after the records are locked, so that no merge of them can begin meanwhile.
 * @throws ApiError 409 merge_running
 */
export async function requireMergesFinished(
  { caller, db: { sql } }: Pick<WriteCall, 'caller' | 'db'>,
  recordIds: readonly string[],
): Promise<void> {
  const [unfinished] = await findUnfinishedMerges(sql, caller, recordIds);
  if (unfinished) throw mergeRunning(unfinished);
}

/** Returns contacts about the target of a merge if the merge has not moved their activities yet. */
export function followMerges<T extends { entityId: string }>(
  contacts: readonly T[],
  merges: readonly MovingMerge[],
): T[] {
  const targets = new Map(merges.map(({ sourceId, targetId }) => [sourceId, targetId]));
  return contacts.map((contact) => ({ ...contact, entityId: targets.get(contact.entityId) ?? contact.entityId }));
}
