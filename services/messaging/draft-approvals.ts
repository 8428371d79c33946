// Decisions of people about message drafts. Only console pages use it, no API operation.
import * as db from '../../db/messaging/draft-decisions.ts';
import { findOptOuts } from '../../db/messaging/opt-outs.ts';
import { buildDraftEvent, chooseBlockList, stopped } from '../../domain/messaging/drafts.ts';
import { ApiError, conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, CallDatabase } from '../../runtime/handler.ts';

/** The required parts of a call. */
export type Approving = Pick<Call, 'caller' | 'now' | 'authorize'> & { db: Pick<CallDatabase, 'sql' | 'record'> };

/** A draft as shown to the person who decides. */
export interface DraftToApprove {
  /** With the hash of the displayed content, which an approval must name. */
  draft: db.HashedDraft;
  /** True if the recipient has opted out of the channel, so the draft cannot be approved. */
  isOptedOut: boolean;
}

/**
 * Lists drafts that need a decision of their own, newest first. Drafts of campaigns are decided per
 * run.
 * @param after time and id of the last draft on the previous page
 * @throws ApiError 403 if the caller is not a person, or lacks the permission
 */
export async function findDraftsToApprove(
  call: Approving,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<DraftToApprove[]> {
  requirePerson(call, ['inbox:create']);
  const drafts = await db.listUndecided(call.db.sql, call.caller, after, limit);
  const isOptedOut = await findOptOuts(call.db.sql, call.caller, drafts);
  return drafts.map((draft) => ({ draft, isOptedOut: isOptedOut(draft) }));
}

/**
 * Approves a draft. A job sends it.
 * @param hash of the displayed content
 * @throws ApiError 403 if the caller is not a person, or lacks the permission or the module; 404;
 * 409 if the draft is decided or has changed, or the recipient has opted out
 */
export async function approveDraft(call: Approving, id: string, hash: string): Promise<void> {
  const draft = await lockUndecided(call, id);
  if (draft.hash !== hash)
    throw conflict('draft_changed', 'This message has changed since you opened it. Review it again.');
  const list = chooseBlockList(draft.channel);
  if ((await findOptOuts(call.db.sql, call.caller, [draft]))(draft)) throw conflict(list, stopped[list]);
  await decide(call, draft, 'approved', null);
}

/**
 * Rejects a draft, so that it is not sent.
 * @param reason the person's words; null: none
 * @throws ApiError 403 if the caller is not a person, or lacks the permission; 404; 409 if the
 * draft is decided
 */
export async function rejectDraft(call: Approving, id: string, reason: string | null = null): Promise<void> {
  await decide(call, await lockUndecided(call, id), 'rejected', reason);
}

/**
 * Approves all undecided drafts of a run. A job applies the decision in steps. Drafts whose
 * recipients have opted out meanwhile fail.
 * @param hash of the displayed content and number of drafts, in hexadecimal
 * @throws ApiError 403 if the caller is not a person, or lacks a permission or a module; 404; 409
 * if the run is decided, has changed or is not prepared, or its campaign is cancelled
 */
export async function approveRun(call: Approving, campaignId: string, runId: string, hash: string): Promise<void> {
  const run = await lockUndecidedRun(call, campaignId, runId, hash);
  if (!run.isAsShown)
    throw conflict('run_changed', 'This campaign run has changed since you opened it. Review it again.');
  await decideAboutRun(call, campaignId, runId, 'approved', null);
}

/**
 * Rejects all undecided drafts of a run. A job applies the decision in steps.
 * @param reason the person's words; null: none
 * @throws ApiError like approveRun, except for changed content
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

/**
 * Only people can approve messages: neither API keys nor apps on their behalf.
 * @throws ApiError 403
 */
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
  const draft = orNotFound(await db.lockHashedDraft(call.db.sql, call.caller, id));
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
    event: buildDraftEvent(draft, 'draft', decision, now),
  });
}

async function lockUndecidedRun(
  call: Approving,
  campaignId: string,
  runId: string,
  hash: string | null,
): Promise<db.UndecidedRun> {
  requirePerson(call, ['inbox:create', 'campaigns:create']);
  const run = orNotFound(await db.lockRun(call.db.sql, call.caller, campaignId, runId, hash));
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
