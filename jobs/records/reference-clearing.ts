// Clears references to deleted records that were too many for the deleting transaction.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { readTenantTime } from '../../db/client/test-clocks.ts';
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
import { keepClearedReferences } from '../../db/records/trash.ts';
import { buildWorkspace, getBuiltinObject, type WorkspaceObject } from '../../domain/objects/workspace.ts';
import { describeClearing } from '../../domain/records/view.ts';
import type { TagNames } from '../../domain/settings/record-tags.ts';
import { findRecordsToRetag, listRetaggedNames } from '../../domain/settings/tags.ts';
import type { TenantJobContext } from '../runner.ts';
import { noteConsequence } from './consequences.ts';

/**
 * Clears all pending references. Each batch is a separate transaction, so a crash loses one batch,
 * and the next run of any server continues. Several servers may run it at the same time: each takes
 * deleted records that no other works on.
 */
export async function clearPendingReferences(context: TenantJobContext): Promise<void> {
  let after: Waiting['end'];
  do {
    const waiting = await context.platform.use((sql) => findWaiting(sql, 'reference_clearings', after));
    for (const scope of waiting.tenants) await clearTenantReferences(context, scope);
    after = waiting.end;
  } while (after && !context.signal.aborted);
}

/**
 * Clears the pending references of one tenant. If it fails, the next run retries; other tenants are
 * not delayed.
 */
async function clearTenantReferences(
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

/** @returns false if nothing is left that no other server works on */
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
  const now = await readTenantTime(sql, scope);
  const acting = { ...scope, actor: pending.causedBy.actor };
  const cleared = await clearReferences(sql, acting, pending.object, [pending.recordId], batchSize, now);
  await keepClearedReferences(sql, scope, pending.object, cleared);
  for (const [name, changed] of Map.groupBy(cleared, ({ object }) => object)) {
    const object = getBuiltinObject(name, workspace);
    const retagged = await retag(sql, scope, findRecordsToRetag(object, workspace, changed, now));
    const tags = listRetaggedNames(object, retagged);
    for (const each of changed) recordCleared(scope, object, each, tags.get(each.id), pending, emit, audit);
  }
  if (cleared.length < batchSize) await endClearing(sql, scope, pending);
  return true;
}

/**
 * Records the audit row and the event of one record, with the caller that deleted the referenced
 * record as the actor.
 */
function recordCleared(
  scope: TenantScope,
  object: WorkspaceObject,
  cleared: ClearedReference,
  tags: TagNames | undefined,
  { causedBy }: PendingClearing,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): void {
  noteConsequence(scope, describeClearing(object, cleared, tags), cleared.changedAt, causedBy, emit, audit);
}
