// Completes bookings whose time has passed and that were not changed.
import { randomUUID } from 'node:crypto';
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findMovingMerges } from '../../db/records/unfinished-merges.ts';
import { completeBookings, findBookedRecords, findEndedBookings } from '../../db/scheduling/bookings.ts';
import { updateFollowups } from '../records/followups.ts';
import { getDueTime, type TenantJobContext } from '../runner.ts';

/**
 * Completes all past bookings in batches. A company that fails is tried again in the next run, and
 * delays no other.
 */
export async function completePastBookings(context: TenantJobContext): Promise<void> {
  const { platform, transaction, batchSize, log, now, signal } = context;
  const failed = new Set<string>();
  for (let last = batchSize; last === batchSize && !signal.aborted; ) {
    const ended = await platform.use((sql) => findEndedBookings(sql, batchSize, getDueTime(context), [...failed]));
    last = ended.length;
    const tenants = Map.groupBy(ended, ({ companyId, testMode }) => `${companyId} ${testMode}`).values();
    for (const bookings of tenants) {
      const { companyId, testMode } = bookings[0] as TenantScope;
      const scope = { companyId, testMode };
      const ids = bookings.map(({ id }) => id);
      if (signal.aborted) return;
      try {
        await transaction(scope, (sql, emit, audit) => complete(sql, scope, ids, now(), emit, audit));
      } catch (error) {
        failed.add(companyId);
        log.warn({ company: companyId, err: { message: (error as Error).message } }, 'failed to complete bookings');
      }
    }
  }
}

/** Completes bookings of a tenant. The next follow-up of their leads and deals is a later one. */
async function complete(
  sql: Sql,
  scope: TenantScope,
  ids: readonly string[],
  now: Date,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<void> {
  const records = await findBookedRecords(sql, scope, ids);
  const merges = await findMovingMerges(
    sql,
    scope,
    records.map(({ id }) => id),
  );
  const targets = new Map(merges.map(({ sourceId, targetId }) => [sourceId, targetId]));
  const current = records.map(({ object, id }) => ({ object, id: targets.get(id) ?? id }));
  const actor = { kind: 'system', id: 'bookings', name: null } as const;
  const cause = { actor, apiKeyId: null, keyName: null, requestId: randomUUID(), ip: '', userAgent: null };
  // The event belongs to no request.
  const emitOwn = (event: EventRow) => emit({ ...event, requestId: null });
  await updateFollowups(sql, scope, current, cause, now, emitOwn, audit);
  await completeBookings(sql, scope, ids, now);
}
