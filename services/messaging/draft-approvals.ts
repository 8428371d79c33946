// What people decide about message drafts, for screens: no operation of the API leads here.
import * as db from '../../db/messaging/draft-decisions.ts';
import { whoSaidStop } from '../../db/messaging/said-stop.ts';
import { draftEvent, listOf, stopped } from '../../domain/messaging/drafts.ts';
import { ApiError, conflict, found } from '../../runtime/errors.ts';
import type { Call, CallDatabase } from '../../runtime/handler.ts';

/** What is needed of a call. */
export type Approving = Pick<Call, 'caller' | 'now' | 'authorize'> & { db: Pick<CallDatabase, 'sql' | 'record'> };

/** A draft as a person is shown it before they decide. */
export interface DraftToApprove {
  /** With the hash of exactly what is shown; an approval names it. */
  draft: db.HashedDraft;
  /** The recipient is on the list of its channel: it cannot be approved. */
  saidStop: boolean;
}

/**
 * Drafts that wait for a decision of their own, the newest first; those of campaigns are decided about by run.
 * @param after time and id of the last draft of the page before
 * @throws ApiError 403 for whoever is no person, or may not decide
 */
export async function draftsToApprove(
  call: Approving,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<DraftToApprove[]> {
  requirePerson(call, ['inbox:create']);
  const drafts = await db.listUndecided(call.db.sql, call.caller, after, limit);
  const saidStop = await whoSaidStop(call.db.sql, call.caller, drafts);
  return drafts.map((draft) => ({ draft, saidStop: saidStop(draft) }));
}

/**
 * Lets a draft go: a job sends it.
 * @param hash of what the person was shown
 * @throws ApiError 403 for whoever is no person, or may not decide, and without the module; 404; 409 where it was decided about, is not what
 * was shown, or its recipient said stop
 */
export async function approveDraft(call: Approving, id: string, hash: string): Promise<void> {
  const draft = await lockUndecided(call, id);
  if (draft.hash !== hash)
    throw conflict('draft_changed', 'This message has changed since you opened it. Review it again.');
  const list = listOf(draft.channel);
  if ((await whoSaidStop(call.db.sql, call.caller, [draft]))(draft)) throw conflict(list, stopped[list]);
  await decide(call, draft, 'approved', null);
}

/**
 * Ends a draft: it is not sent.
 * @param reason in the person's words; null: none
 * @throws ApiError 403 for whoever is no person, or may not decide; 404; 409 where it was decided about
 */
export async function rejectDraft(call: Approving, id: string, reason: string | null = null): Promise<void> {
  await decide(call, await lockUndecided(call, id), 'rejected', reason);
}

/**
 * Lets all drafts of a run go that nobody decided about; a job does it in steps. Those whose recipients said stop meanwhile end as failed.
 * @param hash of what the person was shown: the run's content and how many drafts it came to, in hexadecimal
 * @throws ApiError 403 for whoever is no person, or may not decide, and without the modules; 404; 409 where it was decided about, is not what
 * was shown, is not prepared, or its campaign was cancelled
 */
export async function approveRun(call: Approving, campaignId: string, runId: string, hash: string): Promise<void> {
  const run = await lockUndecidedRun(call, campaignId, runId, hash);
  if (!run.isAsShown)
    throw conflict('run_changed', 'This campaign run has changed since you opened it. Review it again.');
  await decideAboutRun(call, campaignId, runId, 'approved', null);
}

/**
 * Ends all drafts of a run that nobody decided about; a job does it in steps.
 * @param reason in the person's words; null: none
 * @throws ApiError as approveRun, but for what was shown
 */
export async function rejectRun(
  call: Approving,
  campaignId: string,
  runId: string,
  reason: string | null = null,
): Promise<void> {
  await lockUndecidedRun(call, campaignId, runId, null);
  await decideAboutRun(call, campaignId, runId, 'rejected', reason);
}

/** Nothing that runs by itself lets messages go: neither a key nor an app in somebody's name. @throws ApiError 403 */
function requirePerson({ caller, authorize }: Approving, scopes: readonly string[]): void {
  if (caller.kind !== 'person' || caller.actor.kind !== 'user')
    throw new ApiError('FORBIDDEN_SCOPE', 'Only a person who is signed in can approve or reject messages.', {
      required_scopes: [],
      reason: 'session_token_required',
    });
  for (const scope of scopes) authorize(scope);
}

async function lockUndecided(call: Approving, id: string): Promise<db.HashedDraft> {
  requirePerson(call, ['inbox:create']);
  const draft = found(await db.lockHashedDraft(call.db.sql, call.caller, id));
  if (draft.campaignId !== null) call.authorize('campaigns:create');
  if (draft.status !== 'draft')
    throw conflict(
      'not_a_draft',
      `Only messages with the status draft can be approved or rejected. This one is ${draft.status}.`,
      {
        status: draft.status,
      },
    );
  return draft;
}

async function decide(
  call: Approving,
  draft: db.HashedDraft,
  decision: db.Decision,
  reason: string | null,
): Promise<void> {
  const { caller, now } = call;
  const { sql } = call.db;
  await db.decideDraft(sql, caller, draft.id, decidedBy(call, decision, reason));
  call.db.record({
    action: decision === 'approved' ? 'message_draft.approve' : 'message_draft.reject',
    object: 'message_drafts',
    recordId: draft.id,
    changes: { status: { from: 'draft', to: decision } },
    event: draftEvent(draft, 'draft', decision, now),
  });
}

async function lockUndecidedRun(
  call: Approving,
  campaignId: string,
  runId: string,
  hash: string | null,
): Promise<db.UndecidedRun> {
  requirePerson(call, ['inbox:create', 'campaigns:create']);
  const run = found(await db.lockRun(call.db.sql, call.caller, campaignId, runId, hash));
  if (run.isCancelled) throw conflict('campaign_cancelled', 'The campaign is cancelled.');
  if (run.decision)
    throw conflict('run_decided', `This campaign run is already ${run.decision}.`, { decision: run.decision });
  if (run.status !== 'completed')
    throw conflict(
      'run_not_prepared',
      `Only completed campaign runs can be approved or rejected. This one is ${run.status}.`,
      {
        status: run.status,
      },
    );
  return run;
}

async function decideAboutRun(
  call: Approving,
  campaignId: string,
  runId: string,
  decision: db.Decision,
  reason: string | null,
): Promise<void> {
  await db.decideRun(call.db.sql, call.caller, runId, decidedBy(call, decision, reason));
  call.db.record({
    action: decision === 'approved' ? 'campaign_run.approve' : 'campaign_run.reject',
    object: 'campaigns',
    recordId: campaignId,
    metadata: { run_id: runId },
  });
}

const decidedBy = ({ caller, now }: Approving, decision: db.Decision, reason: string | null): db.Decided => ({
  decision,
  reason,
  at: now,
  userId: caller.actor.id,
  userName: caller.actor.name,
});
