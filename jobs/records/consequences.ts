// The audit row and the event of a change that follows from what a caller did before.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import type { ClearingCause } from '../../db/records/reference-clearing.ts';
import type { describeUpdate } from '../../domain/records/view.ts';

/** Records a change with the caller that caused it as the actor. */
export function noteConsequence(
  scope: TenantScope,
  { action, object, changes, recordId, event }: ReturnType<typeof describeUpdate>,
  occurredAt: Date,
  { actor, apiKeyId, keyName, requestId, ip, userAgent }: ClearingCause,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
  metadata: Record<string, string> | null = null,
): void {
  audit({
    ...scope,
    // The audit log is on the real time, also if the clock of test mode is ahead.
    occurredAt: new Date(Math.min(occurredAt.getTime(), Date.now())),
    actorKind: actor.kind,
    actorId: actor.id,
    apiKeyId,
    keyName,
    requestId,
    ip,
    userAgent,
    action,
    object,
    recordId,
    changes,
    metadata,
    idempotencyKeyHash: null,
  });
  emit({
    ...scope,
    event: event.name,
    occurredAt,
    actor,
    requestId,
    data: event.data,
    changes: event.changes,
  });
}
