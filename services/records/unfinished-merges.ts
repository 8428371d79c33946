// Rejects writes to records that are part of a merge, or of an undo, that a job still finishes.
import { findUnfinishedMerges, type UnfinishedMerge } from '../../db/records/unfinished-merges.ts';
import { conflict } from '../../runtime/errors.ts';
import type { WriteCall } from './record-target.ts';

/** Returns the error for a record whose merge is not finished. */
export const mergeRunning = ({ id, recordId }: UnfinishedMerge) =>
  conflict('merge_running', 'The record is part of a merge that is not finished. Wait until the merge is completed.', {
    merge_id: id,
    record_id: recordId,
  });

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
