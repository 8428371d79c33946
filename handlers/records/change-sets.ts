// Change sets: proposed, read, withdrawn, and decided by people.
import { toActor } from '../../db/client/created-by.ts';
import * as db from '../../db/records/change-sets.ts';
import type { components } from '../../generated/api.ts';
import { ApiError, conflict, orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import {
  applyChangeSet,
  asPerson,
  proposeChangeSet,
  recordChangeSet,
  requirePending,
  requireScopes,
  toViewer,
} from '../../services/records/change-sets.ts';

type Summary = components['schemas']['ChangeSetSummary'];

export const listChangeSets: Handler<'listChangeSets'> = async (call) => {
  const { now, request } = call;
  const caller = asPerson(call.caller);
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
  const caller = asPerson(call.caller);
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
  const row = orNotFound(await db.findChangeSet(sql, viewer, call.request.path.id, true));
  requirePending(row, now);
  const ended = { status: 'withdrawn' as const, operations: skipAll(row) };
  await db.decideChangeSet(sql, caller, row.id, ended);
  recordChangeSet(call, row, 'withdraw');
  return { status: 200, data: { change_set: toChangeSet({ ...row, ...ended }, caller.testMode, now) } };
};

export const approveChangeSet: Handler<'approveChangeSet'> = async (call) => {
  const { now } = call;
  const caller = requireHuman(asPerson(call.caller));
  const { sql } = call.db;
  const viewer = await toViewer(call, caller);
  const row = orNotFound(await db.findChangeSet(sql, viewer, call.request.path.id, true));
  requirePending(row, now);
  if (row.digest !== call.request.body.digest)
    throw conflict(
      'digest_mismatch',
      'The digest is not that of this change set. Read the set again before you approve it.',
    );
  requireScopes(call, caller, row);
  const outcome = await applyChangeSet(call, caller, row);
  const decided = {
    ...outcome,
    decidedById: caller.actor.id,
    decidedByName: caller.actor.name,
    decidedAt: now,
    requestId: caller.requestId,
  };
  await db.decideChangeSet(sql, caller, row.id, decided);
  recordChangeSet(call, row, 'approve', 'approved', outcome.status === 'applied' ? 'applied' : 'failed');
  return { status: 200, data: { change_set: toChangeSet({ ...row, ...decided }, caller.testMode, now) } };
};

export const rejectChangeSet: Handler<'rejectChangeSet'> = async (call) => {
  const { now } = call;
  const caller = requireHuman(asPerson(call.caller));
  const { sql } = call.db;
  const viewer = await toViewer(call, caller);
  const row = orNotFound(await db.findChangeSet(sql, viewer, call.request.path.id, true));
  requirePending(row, now);
  requireScopes(call, caller, row);
  const decided = {
    status: 'rejected' as const,
    operations: skipAll(row),
    decidedById: caller.actor.id,
    decidedByName: caller.actor.name,
    decidedAt: now,
    rejectionReason: call.request.body?.reason ?? null,
  };
  await db.decideChangeSet(sql, caller, row.id, decided);
  recordChangeSet(call, row, 'reject', 'rejected');
  return { status: 200, data: { change_set: toChangeSet({ ...row, ...decided }, caller.testMode, now) } };
};

/** @throws ApiError 403 if the caller is not a signed-in user, even if a key acts for one */
function requireHuman(caller: ReturnType<typeof asPerson>): ReturnType<typeof asPerson> {
  if (caller.kind === 'person' && caller.actor.kind === 'user') return caller;
  throw new ApiError('FORBIDDEN_SCOPE', 'Only a person who is signed in can decide about change sets.', {
    required_scopes: [],
    reason: 'session_token_required',
  });
}

const skipAll = ({ operations }: db.ChangeSetRow): db.StoredOperation[] =>
  operations.map((operation) => ({ ...operation, status: 'skipped' }));

function toSummary(row: db.ChangeSetSummaryRow, testMode: boolean, now: Date): Summary {
  return {
    id: row.id,
    // Until the job expires it, a set may be pending after its time.
    status: row.status === 'pending' && row.expiresAt <= now ? 'expired' : row.status,
    title: row.title,
    reason: row.reason,
    atomic: row.atomic,
    operation_count: row.operationCount,
    proposed_by: toActor(row),
    digest: row.digest,
    decided_by: row.decidedById === null ? null : { kind: 'user', id: row.decidedById, name: row.decidedByName },
    decided_at: row.decidedAt?.toISOString() ?? null,
    rejection_reason: row.rejectionReason,
    request_id: row.requestId,
    error: row.error,
    expires_at: row.expiresAt.toISOString(),
    test_mode: testMode,
    created_at: row.createdAt.toISOString(),
  };
}

function toChangeSet(row: db.ChangeSetRow, testMode: boolean, now: Date): components['schemas']['ChangeSet'] {
  return {
    ...toSummary(row, testMode, now),
    operations: row.operations.map(({ method, path, body, ref, version, before, after, status, error }) => ({
      method,
      path,
      body,
      if_version: toVersionNumber(version),
      ref,
      before,
      after,
      status,
      error,
    })),
  };
}

/** Returns the number in an ETag; null for a version that is a digest. */
const toVersionNumber = (version: string | null): number | null => {
  const number = version?.match(/^"(\d+)"$/)?.[1];
  return number === undefined ? null : Number(number);
};
