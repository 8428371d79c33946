// Clears the references to deleted records that too many others referred to for one transaction.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findWaiting, type Waiting } from '../../db/client/waiting.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { retag } from '../../db/records/applied-tags.ts';
import {
  type ClearedReference,
  clearReferences,
  endClearing,
  type PendingClearing,
  takeClearing,
} from '../../db/records/reference-clearing.ts';
import { buildWorkspace, builtinOf, type WorkspaceObject } from '../../domain/objects/workspace.ts';
import { clearingOf } from '../../domain/records/view.ts';
import { recordsToRetag } from '../../domain/settings/tags.ts';
import type { TenantJobContext } from '../runner.ts';

/**
 * Clears everything that is pending. Each batch is a transaction of its own, so that a server that dies loses one batch, and the next run of
 * any server goes on from there. Servers may do so at the same time: each takes deleted records that no other works on.
 */
export async function clearPendingReferences(context: TenantJobContext): Promise<void> {
  let after: Waiting['end'];
  do {
    const waiting = await context.platform.use((sql) => findWaiting(sql, 'reference_clearings', after));
    for (const scope of waiting.tenants) await clearReferencesOf(context, scope);
    after = waiting.end;
  } while (after && !context.signal.aborted);
}

/** Clears what is pending of one tenant. If it fails, the next run tries again; the other tenants do not wait for it. */
async function clearReferencesOf(
  { transaction, batchSize, log, signal }: TenantJobContext,
  scope: TenantScope,
): Promise<void> {
  try {
    for (let isMore = true; isMore && !signal.aborted; )
      isMore = await transaction(scope, (sql, emit, audit) => clearBatch(sql, scope, batchSize, emit, audit));
  } catch (error) {
    const failure = { company: scope.companyId, err: { message: (error as Error).message } };
    log.warn(failure, 'failed to clear references');
  }
}

/** @returns false when nothing is left that no other server works on */
async function clearBatch(
  sql: Sql,
  scope: TenantScope,
  batchSize: number,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<boolean> {
  const pending = await takeClearing(sql, scope);
  if (!pending) return false;
  const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
  const now = new Date();
  const cleared = await clearReferences(sql, scope, pending.object, [pending.recordId], batchSize, now);
  for (const [name, changed] of Map.groupBy(cleared, ({ object }) => object)) {
    const object = builtinOf(name, workspace);
    await retag(sql, scope, recordsToRetag(object, workspace, changed, now));
    for (const each of changed) recordCleared(scope, object, each, pending, emit, audit);
  }
  if (cleared.length < batchSize) await endClearing(sql, scope, pending);
  return true;
}

/** The audit row and the event of one record, in the name of the caller that deleted the other one. */
function recordCleared(
  scope: TenantScope,
  object: WorkspaceObject,
  cleared: ClearedReference,
  { causedBy }: PendingClearing,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): void {
  const { action, changes, recordId, event } = clearingOf(object, cleared);
  const { actor, apiKeyId, keyName, requestId, ip, userAgent } = causedBy;
  const occurredAt = cleared.changedAt;
  audit({
    ...scope,
    occurredAt,
    actorKind: actor.kind,
    actorId: actor.id,
    apiKeyId,
    keyName,
    requestId,
    ip,
    userAgent,
    action,
    object: object.object,
    recordId,
    changes,
    metadata: null,
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
