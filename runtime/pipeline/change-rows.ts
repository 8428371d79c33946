// The rows of a change: in the audit log, and its events in the outbox.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { Caller } from '../caller.ts';
import type { Change } from '../handler.ts';
import { toRealTime } from '../test-time.ts';

/** The facts about a call for audit rows and events. */
export interface ChangeContext {
  caller: Caller;
  now: Date;
  idempotencyKeyHash: Buffer | null;
}

/**
 * Returns the row of a change. The audit log is on the real time, also in test mode.
 * @param writtenAt a time after all locks, so that the rows of one record are in the order of its
 * changes
 */
export function toAuditRow(change: Change, { caller, idempotencyKeyHash }: ChangeContext, writtenAt: Date): AuditRow {
  return {
    companyId: change.companyId ?? caller.companyId,
    occurredAt: change.occurredAt ? toRealTime(change.occurredAt, caller) : writtenAt,
    actorKind: (change.actor ?? caller.actor).kind,
    actorId: (change.actor ?? caller.actor).id,
    apiKeyId: caller.kind === 'api_key' ? caller.actor.id : null,
    keyName: caller.kind === 'api_key' ? caller.actor.name : null,
    requestId: caller.requestId,
    ip: caller.ip,
    userAgent: caller.userAgent,
    action: change.action,
    object: change.object ?? null,
    recordId: change.recordId ?? null,
    changes: change.changes ?? null,
    metadata: change.metadata ?? null,
    testMode: caller.testMode,
    idempotencyKeyHash,
  };
}

export function toEventRows(change: Change, { caller, now }: ChangeContext): EventRow[] {
  if (!change.event) return [];
  return [change.event, ...(change.furtherEvents ?? [])].map((event) => ({
    companyId: change.companyId ?? caller.companyId,
    testMode: caller.testMode,
    event: event.name,
    occurredAt: change.occurredAt ?? now,
    actor: change.actor ?? caller.actor,
    requestId: caller.requestId,
    data: event.data,
    changes: event.changes,
    previousOwnership: event.previousOwnership,
  }));
}
