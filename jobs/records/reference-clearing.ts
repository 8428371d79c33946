// Clears the references to deleted records that too many others referred to for one transaction.

import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
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
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

export interface ClearingPools {
  /** Finds whose references are to be cleared. */
  platform: Pool;
  /** Everything else, bound to one tenant at a time. */
  tenants: Pool;
}

const intervalMs = 1000;
/** References that are cleared in one transaction: few, since their records stay locked meanwhile. */
const batchSize = 200;
const timeoutMs = 5000;

/**
 * Starts the polling loop.
 * @returns a function that stops it, once the transaction on its way has ended or a few seconds have passed
 */
export function startReferenceClearing(pools: ClearingPools, log: Log): () => Promise<void> {
  const round = (stop: AbortSignal): Promise<void> => runClearingRound(pools, log, stop);
  return everyRound(intervalMs, round, log.child({ job: 'reference clearing' }));
}

/**
 * Clears everything that is pending. Each batch is a transaction of its own, so that a server that dies loses one batch, and the next round of
 * any server goes on from there. Servers may do so at the same time: each takes deleted records that no other works on.
 */
export async function runClearingRound(pools: ClearingPools, log: Log, stop?: AbortSignal): Promise<void> {
  let after: Waiting['end'];
  do {
    const waiting = await pools.platform.use((sql) => findWaiting(sql, 'reference_clearings', after));
    for (const scope of waiting.tenants) await clearReferencesOf(pools, scope, log, stop);
    after = waiting.end;
  } while (after && !stop?.aborted);
}

/** Clears what is pending of one tenant. What fails is tried again in the next round; the other tenants do not wait for it. */
async function clearReferencesOf(
  { tenants }: ClearingPools,
  scope: TenantScope,
  log: Log,
  stop: AbortSignal | undefined,
): Promise<void> {
  try {
    for (let isMore = true; isMore && !stop?.aborted; )
      isMore = await inTransaction(tenants, scope, timeoutMs, (sql, tell, note) => clearBatch(sql, scope, tell, note));
  } catch (error) {
    const failure = { company: scope.companyId, err: { message: (error as Error).message } };
    log.warn(failure, 'references could not be cleared');
  }
}

/** @returns false when nothing is left that no other server works on */
async function clearBatch(
  sql: Sql,
  scope: TenantScope,
  tell: (event: EventRow) => void,
  note: (audit: AuditRow) => void,
): Promise<boolean> {
  const pending = await takeClearing(sql, scope);
  if (!pending) return false;
  const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
  const now = new Date();
  const cleared = await clearReferences(sql, scope, pending.object, [pending.recordId], batchSize, now);
  for (const [name, changed] of Map.groupBy(cleared, ({ object }) => object)) {
    const object = builtinOf(name, workspace);
    await retag(sql, scope, recordsToRetag(object, workspace, changed, now));
    for (const each of changed) noteCleared(scope, object, each, pending, tell, note);
  }
  if (cleared.length < batchSize) await endClearing(sql, scope, pending);
  return true;
}

/** The audit row and the event of one record, in the name of the caller that deleted the other one. */
function noteCleared(
  scope: TenantScope,
  object: WorkspaceObject,
  cleared: ClearedReference,
  { causedBy }: PendingClearing,
  tell: (event: EventRow) => void,
  note: (audit: AuditRow) => void,
): void {
  const { action, changes, recordId, event } = clearingOf(object, cleared);
  const { actor, apiKeyId, keyName, requestId, ip, userAgent } = causedBy;
  const occurredAt = cleared.changedAt;
  note({
    ...{ ...scope, occurredAt, actorKind: actor.kind, actorId: actor.id, apiKeyId, keyName, requestId, ip, userAgent },
    ...{ action, object: object.object, recordId, changes, metadata: null, idempotencyKeyHash: null },
  });
  tell({
    ...{ ...scope, event: event.name, occurredAt, actor, requestId },
    ...{ data: event.data, changes: event.changes },
  });
}
