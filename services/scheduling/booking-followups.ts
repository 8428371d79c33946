// The next follow-up of a lead or deal, which a booking about it can be.
import { findMovingMerges } from '../../db/records/unfinished-merges.ts';
import { recomputeFollowups } from '../../db/sales/activity-effects.ts';
import type { NamedRecord } from '../../db/scheduling/followed-records.ts';
import type { CallServices } from '../../runtime/handler.ts';
import type { WriteCall } from '../records/record-target.ts';
import { retagContacted, traceEntities } from '../records/record-writes.ts';
import { followMerges } from '../records/unfinished-merges.ts';

/**
 * Sets next_followup_at of a booking's lead or deal, after the booking was written. Lock the record
 * first, with lockFollowedRecord.
 */
export async function updateFollowup(
  call: WriteCall & { services: Pick<CallServices, 'loadWorkspace'> },
  { object, recordId }: NamedRecord,
): Promise<void> {
  if ((object !== 'leads' && object !== 'deals') || recordId === null) return;
  const { caller } = call;
  const { sql } = call.db;
  const now = call.currentTime();
  const named = { entityType: object === 'leads' ? 'lead' : 'deal', entityId: recordId } as const;
  const records = followMerges([named], await findMovingMerges(sql, caller, [recordId]));
  const moved = await recomputeFollowups(sql, caller, records, now);
  if (moved.length === 0) return;
  const workspace = await call.services.loadWorkspace();
  traceEntities(call, workspace, moved, await retagContacted(call, workspace, records, now));
}
