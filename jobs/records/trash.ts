// Empties the trash, and restores references that were too many for the restoring transaction.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { readTenantTime } from '../../db/client/test-clocks.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { retag } from '../../db/records/applied-tags.ts';
import { findRestoring, restoreReferences, takeRestoring } from '../../db/records/restoration.ts';
import { findDueTrash, forgetRestored, purgeSomeExpired } from '../../db/records/trash.ts';
import { buildWorkspace, getBuiltinObject } from '../../domain/objects/workspace.ts';
import { describeFilling } from '../../domain/records/restoring.ts';
import { findRecordsToRetag, listRetaggedNames } from '../../domain/settings/tags.ts';
import { getDueTime, type TenantJobContext } from '../runner.ts';
import { noteConsequence } from './consequences.ts';

/** Records that are looked at to find out whose turn it is. */
const scanLimit = 2000;

/**
 * Removes records for good that have been in the trash long enough. Each batch is a separate transaction, so a crash loses one
 * batch. Several servers may run it at the same time: each takes records that no other works on.
 */
export async function emptyTrash(context: TenantJobContext): Promise<void> {
  const due = getDueTime(context);
  await forEachTenant(
    context,
    (sql) => findDueTrash(sql, due, scanLimit),
    (scope) => context.transaction(scope, (sql) => purgeSomeExpired(sql, scope, due.now, context.batchSize)),
    'failed to empty the trash',
  );
}

/** Restores all pending references, in the same way. */
export async function restorePendingReferences(context: TenantJobContext): Promise<void> {
  await forEachTenant(
    context,
    (sql) => findRestoring(sql, scanLimit),
    (scope) =>
      context.transaction(scope, (sql, emit, audit) => restoreBatch(sql, scope, context.batchSize, emit, audit)),
    'failed to restore references',
  );
}

/** Repeats the work of each tenant until there is no more. If it fails, the next run retries; other tenants are not delayed. */
async function forEachTenant(
  { platform, log, signal }: TenantJobContext,
  find: (sql: Sql) => Promise<TenantScope[]>,
  work: (scope: TenantScope) => Promise<boolean>,
  failureText: string,
): Promise<void> {
  for (const scope of await platform.use(find))
    try {
      for (let isMore = true; isMore && !signal.aborted; ) isMore = await work(scope);
    } catch (error) {
      log.warn({ company: scope.companyId, err: { message: (error as Error).message } }, failureText);
    }
}

/** @returns false if nothing is left that no other server works on */
async function restoreBatch(
  sql: Sql,
  scope: TenantScope,
  batchSize: number,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<boolean> {
  const pending = await takeRestoring(sql, scope);
  if (!pending) return false;
  const { recordId, restoredBy } = pending;
  const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
  const now = await readTenantTime(sql, scope);
  const acting = { ...scope, actor: restoredBy.actor };
  const { restored, unfinished } = await restoreReferences(sql, acting, [recordId], batchSize, now);
  for (const [name, changed] of Map.groupBy(restored, (each) => each.object)) {
    const object = getBuiltinObject(name, workspace);
    const tags = listRetaggedNames(
      object,
      await retag(sql, scope, findRecordsToRetag(object, workspace, changed, now)),
    );
    for (const each of changed) {
      const change = describeFilling(object, each, tags.get(each.id));
      noteConsequence(scope, change, each.changedAt, restoredBy, emit, audit);
    }
  }
  if (unfinished.length === 0) await forgetRestored(sql, scope, [recordId]);
  return true;
}
