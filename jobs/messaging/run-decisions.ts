// What people decided about runs of campaigns, carried out draft by draft.

import { type AuditRow, type EventRow, ownAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import * as db from '../../db/messaging/draft-decisions.ts';
import { draftEvent } from '../../domain/messaging/drafts.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

export interface DecisionParts {
  /** Finds whose turn it is. */
  platform: Pool;
  /** Everything else, bound to one company at a time. */
  tenants: Pool;
  log: Log;
  now: () => Date;
}

/** Milliseconds between two looks. */
const every = 1000;
/** Runs that are looked up at once; each goes one step before the first goes its next. */
const found = 20;
/** Drafts of one step. */
const page = 500;
/** Milliseconds after which a transaction is given up. */
const patience = 10_000;

/** Starts the rounds. @returns a function that stops them, once the step on its way has ended or a few seconds have passed */
export function startRunDecisions(parts: DecisionParts): () => Promise<void> {
  const log = parts.log.child({ job: 'run decisions' });
  return everyRound(every, async (stop) => void (await carryOutDecisions({ ...parts, log }, stop)), log);
}

/** Goes on with everything that is due until nothing is. Servers may do so at the same time. @returns how many steps were done */
export async function carryOutDecisions(
  { platform, tenants, log, now }: DecisionParts,
  stop?: AbortSignal,
): Promise<number> {
  const failed = new Set<string>();
  let steps = 0;
  for (;;) {
    const due = await platform.use((sql) => db.findDecidedRuns(sql, found + failed.size, now()));
    let done = 0;
    for (const { id, ...scope } of due.filter((each) => !failed.has(each.id))) {
      if (stop?.aborted) return steps;
      try {
        if (await inTransaction(tenants, scope, patience, (...to) => step(scope, id, now(), ...to))) done += 1;
      } catch (error) {
        // The others do not wait for one that fails; it is due again in the next round.
        failed.add(id);
        const err = { message: (error as Error).message };
        log.warn({ company: scope.companyId, run: id, err }, 'a decision could not go on; it is tried again');
      }
    }
    steps += done;
    if (done === 0) return steps;
  }
}

/** Some drafts of a run, in one transaction. @returns false where another server has it */
async function step(
  scope: TenantScope,
  runId: string,
  now: Date,
  sql: Sql,
  tell: (event: EventRow) => void,
  note: (audit: AuditRow) => void,
): Promise<boolean> {
  const decided = await db.takeDecision(sql, scope, runId, now);
  if (!decided) return false;
  // Who cancels means that nobody else is to get it.
  const drafts = decided.isCancelled ? [] : await db.decideSome(sql, scope, runId, decided, page, now);
  const actor = { kind: 'user', id: decided.userId, name: decided.userName };
  for (const draft of drafts) {
    const { name, data } = draftEvent(draft, 'draft', decided.decision, now);
    tell({ ...scope, event: name, data, occurredAt: now, actor, requestId: null });
  }
  if (drafts.length > 0) {
    const metadata = { run_id: runId, drafts: drafts.length, decided_by: decided.userId };
    const action = decided.decision === 'approved' ? 'campaign_run.approve_drafts' : 'campaign_run.reject_drafts';
    const about = { object: 'campaigns', recordId: decided.campaignId, metadata };
    note(ownAuditRow(scope, 'run decisions', action, about, now));
  }
  await db.noteDecision(sql, scope, runId, drafts.length < page ? null : now);
  return true;
}
