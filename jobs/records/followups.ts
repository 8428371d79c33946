// The next follow-up of leads and deals, after a job changed what determines it.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import { retag } from '../../db/records/applied-tags.ts';
import type { ClearingCause } from '../../db/records/reference-clearing.ts';
import { lockNamedEntities, recomputeFollowups } from '../../db/sales/activity-effects.ts';
import { buildWorkspace, getBuiltinObject } from '../../domain/objects/workspace.ts';
import { describeUpdate, diffRecords } from '../../domain/records/view.ts';
import { findContactedToRetag, listRetaggedNames } from '../../domain/settings/tags.ts';
import { noteConsequence } from './consequences.ts';

/** Locks leads and deals, sets their next_followup_at again, and records what changed. */
export async function updateFollowups(
  sql: Sql,
  scope: TenantScope,
  records: readonly { object: string; id: string }[],
  cause: ClearingCause,
  now: Date,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<void> {
  const entities = (['lead', 'deal'] as const).flatMap((entityType) => {
    const named = records.filter(({ object }) => object === `${entityType}s`).map(({ id }) => id);
    return [...new Set(named)].map((entityId) => ({ entityType, entityId }));
  });
  if (entities.length === 0) return;
  await lockNamedEntities(sql, scope, entities);
  const moved = await recomputeFollowups(sql, { ...scope, actor: cause.actor }, entities, now);
  if (moved.length === 0) return;
  const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
  const leads = getBuiltinObject('leads', workspace);
  const tags = listRetaggedNames(
    leads,
    await retag(sql, scope, findContactedToRetag('leads', workspace, entities, now)),
  );
  for (const { entityType, entityId, before, after, changedAt } of moved) {
    const object = getBuiltinObject(`${entityType}s`, workspace);
    const names = tags.get(entityId);
    const fields = diffRecords(object, { ...before }, { ...after });
    const change = describeUpdate(object, entityId, names ? { ...fields, tags: names } : fields, changedAt);
    noteConsequence(scope, change, changedAt, cause, emit, audit);
  }
}
