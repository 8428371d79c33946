// The leads and deals of bookings, whose next follow-up a booking can be.

import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { selectMergeTarget } from '../records/unfinished-merges.ts';

/** A record that a booking names. */
export interface NamedRecord {
  object: string | null;
  recordId: string | null;
}

/**
 * Locks the lead or deal of a booking, or the record into which it is being merged; nothing for
 * other objects. Sends its statement immediately.
 *
 * Call it before the booking and its user are locked. A merge locks its target and then moves
 * bookings to it, so the opposite order could deadlock.
 */
export async function lockFollowedRecord(
  sql: Sql,
  scope: TenantScope,
  { object, recordId }: NamedRecord,
): Promise<void> {
  if ((object !== 'leads' && object !== 'deals') || recordId === null) return;
  const target = selectMergeTarget(sql, scope, sql`${recordId}::uuid`);
  await sql`
    select r.id from ${sql(object)} r
    where r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode} and r.id = coalesce((${target}), ${recordId}::uuid)
    for no key update`.execute();
}
