// The undo of imports: a revert of what an import wrote, within 30 days of its end.
import type { ImportRow } from '../../db/records/imports.ts';
import { type ApiError, conflict } from '../../runtime/errors.ts';

/** Milliseconds after its end in which an import can be undone, as long as deleted records are in the trash. */
const undoableMs = 30 * 86_400_000;

/** Returns until when an import can be undone; undefined if there is nothing to undo. */
export function undoUntil({ status, dryRun, created, updated, completedAt }: ImportRow): Date | undefined {
  const hasEnded = status === 'completed' || status === 'failed' || status === 'cancelled';
  if (!hasEnded || dryRun || created + updated === 0 || completedAt === null) return undefined;
  return new Date(completedAt.getTime() + undoableMs);
}

export function nothingToUndo(): ApiError {
  return conflict('nothing_to_undo', 'The import wrote nothing that is still to be undone.');
}

/** @throws ApiError 409 if the import can still write */
export function requireEnded({ status }: ImportRow): void {
  if (status === 'awaiting_file' || status === 'queued' || status === 'running')
    throw conflict('import_not_ended', 'The import has not ended. Cancel it, or wait for its end.', { status });
}

/** @throws ApiError 409 if the import cannot be undone */
export function requireUndoable(row: ImportRow, now: Date): void {
  if (row.dryRun) throw nothingToUndo();
  requireEnded(row);
  const until = undoUntil(row);
  if (!until) throw nothingToUndo();
  if (until <= now) throw conflict('undo_expired', 'The import ended more than 30 days ago.');
}
