// Applies decisions about campaign runs, draft by draft.
import { type AuditRow, buildSystemAuditRow, type EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import * as db from '../../db/messaging/draft-decisions.ts';
import { buildDraftEvent } from '../../domain/messaging/drafts.ts';
import { runDueSteps } from '../due-steps.ts';
import type { TenantJobContext } from '../runner.ts';

/** Processes everything that is due. @returns the number of steps */
export function applyRunDecisions(context: TenantJobContext): Promise<number> {
  const { batchSize, now } = context;
  return runDueSteps(context, db.findDecidedRuns, (scope, id, ...to) => step(scope, id, batchSize, now(), ...to), {
    field: 'run',
    text: 'failed to apply a campaign run decision; will retry',
  });
}

/** Decides some drafts of a run in one transaction. @returns false if another server works on it */
async function step(
  scope: TenantScope,
  runId: string,
  batchSize: number,
  now: Date,
  sql: Sql,
  emit: (event: EventRow) => void,
  audit: (row: AuditRow) => void,
): Promise<boolean> {
  const decided = await db.takeDecision(sql, scope, runId, now);
  if (!decided) return false;
  // After a cancellation, no further recipient gets a message.
  const drafts = decided.isCancelled ? [] : await db.decideSome(sql, scope, runId, decided, batchSize, now);
  const actor = { kind: 'user', id: decided.userId, name: decided.userName };
  for (const draft of drafts) {
    const { name, data } = buildDraftEvent(draft, 'draft', decided.decision, now);
    emit({ ...scope, event: name, data, occurredAt: now, actor, requestId: null });
  }
  if (drafts.length > 0) {
    const metadata = { run_id: runId, drafts: drafts.length, decided_by: decided.userId };
    const action = decided.decision === 'approved' ? 'campaign_run.approve_drafts' : 'campaign_run.reject_drafts';
    const about = { object: 'campaigns', recordId: decided.campaignId, metadata };
    audit(buildSystemAuditRow(scope, 'run decisions', action, about, now));
  }
  await db.noteDecision(sql, scope, runId, drafts.length < batchSize ? null : now);
  return true;
}
