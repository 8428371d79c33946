// Begins reverts in calls. A call makes small plans itself, and leaves the others to the job.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import {
  countActiveReverts,
  emptyDigest,
  insertRevert,
  type NewRevert,
  type RevertApplier,
  type RevertRow,
  updateRevert,
} from '../../db/records/reverts.ts';
import { revertLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { conflict } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';
import { planChunk } from './revert-planning.ts';

/** Chunks of a plan that a call makes: one that reads operations, and one that checks their records. */
const chunksOfCall = 2;

/**
 * Plans a revert. If it is given who applies it, a job does so after the plan is made.
 * @throws ApiError 409 if too many reverts of the workspace run or wait
 */
export async function beginRevert(
  call: Pick<Call, 'caller' | 'db' | 'services' | 'now'>,
  given: Omit<NewRevert, 'id' | 'digest'>,
): Promise<RevertRow> {
  const { caller, now } = call;
  const workspace = await call.services.loadWorkspace();
  const { sql } = call.db;
  let row = await insertRevert(sql, caller, { id: uuidv7(), digest: emptyDigest, ...given }, now);
  for (let chunk = 0; chunk < chunksOfCall && row.status === 'planning'; chunk += 1)
    row = await planChunk(sql, caller, workspace, row, now);
  if (row.status === 'planned') return row;
  if (row.status === 'planning') await updateRevert(sql, caller, row.id, { dueAt: now });
  await requireRoom(call);
  return row;
}

/** Call it after the revert waits. @throws ApiError 409 if too many reverts of the workspace run or wait */
export async function requireRoom({ caller, db: { sql } }: Pick<Call, 'caller' | 'db'>): Promise<void> {
  const { running } = await countActiveReverts(sql, caller);
  if (running <= revertLimits.active) return;
  const message = `${revertLimits.active} reverts of the workspace run or wait. Try again when one has ended.`;
  throw conflict('revert_limit', message, { limit: revertLimits.active });
}

/** Returns the caller as the one who applies a revert. @param scopes those that decide what the caller sees */
export function toApplier({ caller }: Pick<Call, 'caller'>, scopes: readonly string[]): RevertApplier {
  const { actor, userId } = caller;
  const reach = caller.computeReach?.(scopes) ?? caller.reach;
  return {
    createdByKind: actor.kind,
    createdById: actor.id,
    createdByName: actor.name,
    createdByUser: userId,
    reachKind: reach.kind,
    reachId: reach.kind === 'company' ? null : reach.id,
  };
}

export function toRevert(row: RevertRow, testMode: boolean, now: Date): components['schemas']['Revert'] {
  const { source, status, expiresAt, pending, done } = row;
  const isExpired = status === 'planned' && expiresAt !== null && expiresAt <= now;
  return {
    id: row.id,
    status: isExpired ? 'expired' : status,
    source: {
      request_id: source.changeSetId === undefined ? (source.requestId ?? null) : null,
      import_id: source.importId ?? null,
      revert_id: source.revertId ?? null,
      change_set_id: source.changeSetId ?? null,
      actor_id: source.actor?.id ?? null,
      from: source.actor?.from ?? null,
      to: source.actor?.to ?? null,
    },
    objects: row.objects,
    counts: {
      records: row.records,
      operations: row.operations,
      reverted: row.reverted,
      skipped: row.skipped,
      conflicts: row.conflictCount,
    },
    conflicts: row.conflicts,
    on_conflict: row.onConflict,
    percent: status === 'completed' ? 100 : pending === 0 ? 0 : Math.min(99, Math.floor((done / pending) * 100)),
    digest: status === 'planning' ? null : row.digest,
    expires_at: expiresAt?.toISOString() ?? null,
    error: row.error,
    started_at: status === 'planning' ? null : (row.startedAt?.toISOString() ?? null),
    completed_at: row.completedAt?.toISOString() ?? null,
    created_by: toActor(row),
    test_mode: testMode,
    created_at: row.createdAt.toISOString(),
  };
}
