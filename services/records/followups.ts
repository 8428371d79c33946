// The next follow-up of leads and deals whose bookings may have changed.
import { type EntityChange, recomputeFollowups } from '../../db/sales/activity-effects.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { WriteCall } from './record-target.ts';
import { retagContacted, traceEntities } from './record-writes.ts';

/**
 * Sets next_followup_at of leads or deals again, and records what changed. Nothing happens to other
 * objects. Lock the records in an earlier statement.
 */
export async function updateFollowups(
  call: WriteCall,
  workspace: Workspace,
  object: string,
  ids: readonly string[],
): Promise<EntityChange[]> {
  if ((object !== 'leads' && object !== 'deals') || ids.length === 0) return [];
  const { sql } = call.db;
  const now = call.currentTime();
  const entityType = object === 'leads' ? ('lead' as const) : ('deal' as const);
  const entities = ids.map((entityId) => ({ entityType, entityId }));
  const moved = await recomputeFollowups(sql, call.caller, entities, now);
  if (moved.length > 0) traceEntities(call, workspace, moved, await retagContacted(call, workspace, entities, now));
  return moved;
}

/** Returns a record as updateFollowups left it. */
export function applyFollowup(record: StoredRecord, changes: readonly EntityChange[]): StoredRecord {
  const change = changes.find(({ entityId }) => entityId === record.id);
  if (!change) return record;
  const values = { ...record.values, next_followup_at: change.after.next_followup_at };
  return { ...record, values, version: record.version + 1, updatedAt: change.changedAt };
}
