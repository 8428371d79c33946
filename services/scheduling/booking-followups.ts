// The next follow-up of a lead or deal, which a booking about it can be.
import { findMovingMerges } from '../../db/records/unfinished-merges.ts';
import type { NamedRecord } from '../../db/scheduling/followed-records.ts';
import type { CallServices } from '../../runtime/handler.ts';
import { updateFollowups } from '../records/followups.ts';
import type { WriteCall } from '../records/record-target.ts';
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
  const merges = await findMovingMerges(call.db.sql, call.caller, [recordId]);
  const ids = followMerges([{ entityId: recordId }], merges).map(({ entityId }) => entityId);
  await updateFollowups(call, await call.services.loadWorkspace(), object, ids);
}
