// Change sets: proposed, read, withdrawn, and decided by people.
import * as db from '../../db/records/change-sets.ts';
import { ApiError, conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { applyChangeSet, requireScopes } from '../../services/records/change-set-application.ts';
import { toChangeSet, toSummary } from '../../services/records/change-set-view.ts';
import {
  proposeChangeSet,
  recordChangeSet,
  requirePending,
  toPerson,
  toSkipped,
  toViewer,
} from '../../services/records/change-sets.ts';

export const listChangeSets: Handler<'listChangeSets'> = async (call) => {
  const { now, request } = call;
  const caller = toPerson(call.caller);
  const viewer = await toViewer(call, caller);
  const { status } = request.query;
  const { rows, ...rest } = await readPage(
    { request, caller, services: call.services },
    ['change-sets', status ?? null],
    (after: readonly [string, string] | undefined, limit) =>
      db.listChangeSets(call.db.sql, viewer, status, after, limit, now),
    (last: db.ChangeSetSummaryRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { change_sets: rows.map((row) => toSummary(row, caller.testMode, now)), ...rest } };
};

export const getChangeSet: Handler<'getChangeSet'> = async (call) => {
  const caller = toPerson(call.caller);
  const viewer = await toViewer(call, caller);
  const row = orNotFound(await db.findChangeSet(call.db.sql, viewer, call.request.path.id));
  return { status: 200, data: { change_set: toChangeSet(row, caller.testMode, call.now) } };
};

export const createChangeSet: Handler<'createChangeSet'> = async (call) => {
  const row = await proposeChangeSet(call);
  recordChangeSet(call, row, 'submit', 'submitted');
  return { status: 201, data: { change_set: toChangeSet(row, call.caller.testMode, call.now) } };
};

export const withdrawChangeSet: Handler<'withdrawChangeSet'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const viewer = await toViewer(call, caller, false);
  const row = orNotFound(await db.lockChangeSet(sql, viewer, call.request.path.id));
  requirePending(row, now);
  if (caller.mustPropose && !isOwn(row, caller))
    throw new ApiError('FORBIDDEN_SCOPE', 'This credential only proposes changes. It can withdraw its own ones.', {
      required_scopes: [],
      reason: 'propose_only',
    });
  const ended = { status: 'withdrawn' as const, operations: toSkipped(row) };
  await db.decideChangeSet(sql, caller, row.id, ended);
  recordChangeSet(call, row, 'withdraw');
  return { status: 200, data: { change_set: toChangeSet({ ...row, ...ended }, caller.testMode, now) } };
};

export const approveChangeSet: Handler<'approveChangeSet'> = async (call) => {
  await call.services.requireSubscription();
  const { caller, row, decision } = await openDecision(call);
  if (row.digest !== call.request.body.digest)
    throw conflict(
      'digest_mismatch',
      'The digest is not that of this change set. Read the set again before you approve it.',
    );
  requireScopes(call, caller, row);
  const outcome = await applyChangeSet(call, caller, row);
  const decided = {
    ...outcome,
    ...decision,
    requestId: caller.requestId,
  };
  await db.decideChangeSet(call.db.sql, caller, row.id, decided);
  recordChangeSet(call, row, 'approve', 'approved', outcome.status === 'applied' ? 'applied' : 'failed');
  return { status: 200, data: { change_set: toChangeSet({ ...row, ...decided }, caller.testMode, call.now) } };
};

export const rejectChangeSet: Handler<'rejectChangeSet'> = async (call) => {
  const { caller, row, decision } = await openDecision(call);
  requireScopes(call, caller, row);
  const decided = {
    status: 'rejected' as const,
    operations: toSkipped(row),
    ...decision,
    rejectionReason: call.request.body?.reason ?? null,
  };
  await db.decideChangeSet(call.db.sql, caller, row.id, decided);
  recordChangeSet(call, row, 'reject', 'rejected');
  return { status: 200, data: { change_set: toChangeSet({ ...row, ...decided }, caller.testMode, call.now) } };
};

/**
 * Locks a pending set for the decision of a person.
 * @throws ApiError 403 for other callers, 404 for a set that they cannot see, 409 if it is decided
 */
async function openDecision(call: Call<'approveChangeSet'> | Call<'rejectChangeSet'>) {
  const { now } = call;
  const caller = requireHuman(toPerson(call.caller));
  const viewer = await toViewer(call, caller);
  const row = orNotFound(await db.lockChangeSet(call.db.sql, viewer, call.request.path.id));
  requirePending(row, now);
  return { caller, row, decision: { decidedById: caller.actor.id, decidedByName: caller.actor.name, decidedAt: now } };
}

/** Returns true if the credential has proposed the set. */
const isOwn = (row: db.ChangeSetSummaryRow, { actor, userId }: Call['caller']): boolean =>
  row.createdByKind === actor.kind && row.createdById === actor.id && row.createdByUser === userId;

/** @throws ApiError 403 if the caller is not a signed-in user, even if a key acts for one */
function requireHuman(caller: ReturnType<typeof toPerson>): ReturnType<typeof toPerson> {
  if (caller.kind === 'person' && caller.actor.kind === 'user') return caller;
  throw new ApiError('FORBIDDEN_SCOPE', 'Only a person who is signed in can decide about change sets.', {
    required_scopes: [],
    reason: 'session_token_required',
  });
}
