// Decisions of people about message drafts. Only console pages use it, no API operation.
import * as db from '../../db/messaging/draft-decisions.ts';
import { type DraftRow, listDrafts } from '../../db/messaging/drafts.ts';
import { findOptOuts } from '../../db/messaging/opt-outs.ts';
import { findUsableSenders } from '../../db/messaging/usable-senders.ts';
import {
  buildDraftEvent,
  chooseBlockList,
  type DraftChannel,
  type DraftStatus,
  stopped,
} from '../../domain/messaging/drafts.ts';
import { findSendingObstacle } from '../../domain/messaging/senders.ts';
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
  /** Why the message would not be sent now; null: nothing prevents it. */
  obstacle: string | null;
}

/**
 * Lists drafts that need a decision of their own, newest first. Drafts of campaigns are decided per
 * run.
 * @param after time and id of the last draft on the previous page
 * @param channel undefined: drafts of every channel
 * @throws ApiError 403 if the caller is not a person, or lacks the permission
 */
export async function findDraftsToApprove(
  call: Approving,
  after: readonly [string, string] | undefined,
  limit: number,
  channel?: DraftChannel,
): Promise<DraftToApprove[]> {
  requirePerson(call, ['inbox:create']);
  const drafts = await db.listUndecided(call.db.sql, call.caller, channel, after, limit);
  return describeDrafts(call, drafts);
}

/**
 * Returns those of the drafts that exist and that the person can see, decided or not.
 * @throws ApiError 403 if the caller is not a person, or lacks the permission
 */
export async function findShownDrafts(call: Approving, ids: readonly string[]): Promise<DraftToApprove[]> {
  requirePerson(call, ['inbox:create']);
  return ids.length === 0 ? [] : describeDrafts(call, await db.findHashedDrafts(call.db.sql, call.caller, ids));
}

/**
 * Lists drafts of any status, newest first.
 * @param after time and id of the last draft on the previous page
 * @throws ApiError 403 if the caller is not a person, or lacks the permission
 */
export async function findDraftHistory(
  call: Approving,
  { status, channel }: { status: DraftStatus | undefined; channel: DraftChannel | undefined },
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<DraftRow[]> {
  requirePerson(call, ['inbox:create']);
  const filter = { status, channel, object: undefined, recordId: undefined };
  return listDrafts(call.db.sql, call.caller, filter, after, limit);
}

async function describeDrafts(call: Approving, drafts: readonly db.HashedDraft[]): Promise<DraftToApprove[]> {
  const [isOptedOut, hasSender] = await Promise.all([
    findOptOuts(call.db.sql, call.caller, drafts),
    findUsableSenders(call.db.sql, call.caller, drafts),
  ]);
  return drafts.map((draft) => {
    const found = { isInboxOn: true, isOptedOut: isOptedOut(draft), hasSender: hasSender(draft) };
    const obstacle = findSendingObstacle(draft, found);
    return { draft, isOptedOut: found.isOptedOut, obstacle: obstacle?.message ?? null };
  });
}

/** A draft, and the hash of what a person saw of it. */
export interface ShownDraft {
  id: string;
  hash: string;
}

/** Why a draft was not decided. */
type LeftReason = 'not_found' | 'not_a_draft' | 'draft_changed' | keyof typeof stopped;

export interface Decisions {
  decided: string[];
  left: { id: string; reason: LeftReason }[];
}

/**
 * Decides about several drafts, exactly as they were shown. Drafts that were decided or have changed
 * since, and for an approval those of recipients who opted out, stay as they are.
 * @param reason of a rejection, in the person's words; null: none
 * @throws ApiError 403 if the caller is not a person, or lacks the permission or the module
 */
export async function decideDrafts(
  call: Approving,
  shown: readonly ShownDraft[],
  decision: db.Decision,
  reason: string | null = null,
): Promise<Decisions> {
  requirePerson(call, ['inbox:create']);
  const hashes = new Map(shown.map(({ id, hash }) => [id, hash]));
  const locked = await db.lockHashedDrafts(call.db.sql, call.caller, [...hashes.keys()]);
  if (locked.some(({ campaignId }) => campaignId !== null)) call.authorize('campaigns:create');
  const isOptedOut = decision === 'approved' ? await findOptOuts(call.db.sql, call.caller, locked) : () => false;
  const findReason = (draft: db.HashedDraft): LeftReason | undefined => {
    if (draft.status !== 'draft') return 'not_a_draft';
    if (draft.hash !== hashes.get(draft.id)) return 'draft_changed';
    return isOptedOut(draft) ? chooseBlockList(draft.channel) : undefined;
  };
  const found = new Set(locked.map(({ id }) => id));
  const missing = [...hashes.keys()].filter((id) => !found.has(id));
  const left = missing.map((id): Decisions['left'][number] => ({ id, reason: 'not_found' }));
  const open: db.HashedDraft[] = [];
  for (const draft of locked) {
    const why = findReason(draft);
    if (why === undefined) open.push(draft);
    else left.push({ id: draft.id, reason: why });
  }
  await decide(call, open, decision, reason);
  return { decided: open.map(({ id }) => id), left };
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
  await decide(call, [draft], 'approved', null);
}

/**
 * Rejects a draft, so that it is not sent.
 * @param reason the person's words; null: none
 * @throws ApiError 403 if the caller is not a person, or lacks the permission; 404; 409 if the
 * draft is decided
 */
export async function rejectDraft(call: Approving, id: string, reason: string | null = null): Promise<void> {
  await decide(call, [await lockUndecided(call, id)], 'rejected', reason);
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
  const draft = orNotFound((await db.lockHashedDrafts(call.db.sql, call.caller, [id]))[0]);
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

/** Decides about drafts that are locked. */
async function decide(
  call: Approving,
  drafts: readonly db.HashedDraft[],
  decision: db.Decision,
  reason: string | null,
): Promise<void> {
  if (drafts.length === 0) return;
  const { caller, now } = call;
  const ids = drafts.map(({ id }) => id);
  await db.decideDrafts(call.db.sql, caller, ids, decidedBy(call, decision, reason));
  for (const draft of drafts)
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
