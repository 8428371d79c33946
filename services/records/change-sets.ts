// Who sees change sets, and how writes become change sets.
import { v7 as uuidv7 } from 'uuid';
import {
  type ChangeSetRow,
  type ChangeSetSummaryRow,
  type ChangeSetViewer,
  findSameProposal,
  hashJson,
  insertChangeSet,
  releaseProposal,
  type StoredOperation,
  withdrawPending,
} from '../../db/records/change-sets.ts';
import { moduleActions } from '../../domain/access/scopes.ts';
import { ApiError, conflict } from '../../runtime/errors.ts';
import type { Call, Proposal } from '../../runtime/handler.ts';
import type { Caller, Working } from './change-set-operations.ts';
import { pin, type Tried, tryOperations, tryOut } from './change-set-trials.ts';
import { findStale } from './change-set-versions.ts';

/** Returns a session token's user with the permissions of their roles, and other callers as they are. */
export function toPerson(caller: Caller): Caller {
  const { ofUser } = caller;
  if (!ofUser || caller.kind !== 'session') return caller;
  const scopes = ['change_sets:view'];
  return { ...caller, ...ofUser, kind: 'person', reach: ofUser.computeReach(scopes) };
}

/**
 * Returns the caller as a reader of change sets.
 * @param needsView false if the scope of the operation suffices
 * @throws ApiError 403 if the caller cannot view change sets
 */
export async function toViewer(
  { services }: Pick<Call, 'services'>,
  caller: Caller,
  needsView = true,
): Promise<ChangeSetViewer> {
  if (needsView && !caller.grants.allows('change_sets:view'))
    throw new ApiError('FORBIDDEN_SCOPE', 'This operation requires the scope change_sets:view.', {
      required_scopes: ['change_sets:view'],
    });
  const modules = await findModules(services);
  const { companyId, testMode, actor, userId } = caller;
  const reach = caller.computeReach?.(['change_sets:view']) ?? caller.reach;
  const viewable = [...modules].filter((module) => caller.grants.allows(`${module}:view`));
  return { companyId, testMode, reach, actor, userId, viewable };
}

/** Returns the modules of the API and of the workspace's own objects. */
async function findModules(services: Call['services']): Promise<string[]> {
  const { objects } = await services.loadWorkspace();
  return [...new Set([...Object.keys(moduleActions), ...objects.keys()])];
}

/** @throws ApiError 409 if the set is decided or has expired */
export function requirePending({ status, expiresAt }: ChangeSetSummaryRow, now: Date): void {
  if (status === 'expired' || (status === 'pending' && expiresAt <= now))
    throw conflict('expired', 'The change set has expired. Propose the changes again.');
  if (status !== 'pending') throw conflict('already_decided', `The change set is already ${status}.`, { status });
}

type EventVerb = 'submitted' | 'approved' | 'applied' | 'rejected' | 'failed';

/** Records what happened to a set, with its events. */
export function recordChangeSet(
  { db, now }: Pick<Call, 'db' | 'now'>,
  row: ChangeSetSummaryRow,
  action: 'submit' | 'approve' | 'reject' | 'withdraw',
  ...events: EventVerb[]
): void {
  const data = {
    change_set_id: row.id,
    title: row.title,
    operation_count: row.operationCount,
    occurred_at: now.toISOString(),
  };
  const [event, ...furtherEvents] = events.map((verb) => ({ name: `change_set.${verb}`, data }));
  db.record({
    action: `change_set.${action}`,
    metadata: { change_set_id: row.id, proposed_by: toProposer(row) },
    ...(event ? { event, furtherEvents } : {}),
  });
}

export const toProposer = (row: ChangeSetSummaryRow) => ({
  kind: row.createdByKind,
  id: row.createdById,
  name: row.createdByName,
});

/** Returns the operations of a set that ends without being applied. */
export const toSkipped = ({ operations }: ChangeSetRow): StoredOperation[] =>
  operations.map((operation) => ({ ...operation, status: 'skipped' }));

/**
 * Tries out the operations, and stores the set.
 * @throws ApiError 422 for operations that fail, 409 for versions that have passed
 */
export async function proposeChangeSet(call: Call<'createChangeSet'>): Promise<ChangeSetRow> {
  const { title, reason = null, atomic = true, operations, expires_in_hours: hours } = call.request.body;
  const tried = await tryOut(call, () => tryOperations(call, operations));
  const stored = await store(call, { title, reason, atomic, hours, proposalDigest: null }, tried);
  if (!stored) throw new Error('a set that was put together on purpose is always new');
  return stored;
}

interface Described {
  title: string;
  reason: string | null;
  atomic: boolean;
  /** Until it expires; 72 by default. */
  hours: number | undefined;
  proposalDigest: string | null;
}

/** @returns undefined if the credential has a pending set for the same proposal */
async function store(
  call: Working,
  { title, reason, atomic, hours = 72, proposalDigest }: Described,
  tried: Tried,
): Promise<ChangeSetRow | undefined> {
  const { caller, now } = call;
  // Leaves out objects that the set itself adds. Otherwise, no caller could see it before it is applied.
  const known = new Set(await findModules(call.services));
  const modules = tried.modules.filter((module) => known.has(module));
  const expiresAt = new Date(now.getTime() + hours * 3_600_000);
  const id = uuidv7();
  const operations = await pin(call, tried);
  const digest = hashJson([id, title, reason, atomic, operations]);
  const set = { id, title, reason, atomic, operations, modules, digest, proposalDigest, expiresAt };
  return insertChangeSet(call.db.sql, caller, set, now);
}

/**
 * Keeps a write of a caller that only proposes changes as a set of one operation.
 * @returns the set, and true if it was already pending
 * @throws ApiError the error of the write, if it fails
 */
export async function proposeWrite(call: Call, proposal: Proposal): Promise<{ row: ChangeSetRow; isPending: boolean }> {
  const { caller, now } = call;
  const { sql } = call.db;
  const { title, method, path, body, ifMatch, problems } = proposal;
  const proposalDigest = hashJson([method, path, body, ifMatch]);
  // A body with problems is tried out, so that the operation rejects it.
  const known = problems.length > 0 ? undefined : await findSameProposal(sql, caller, proposalDigest);
  const isLate = known !== undefined && known.expiresAt <= now;
  if (known && !isLate && (await findStale(call, caller, known.operations)).length === 0)
    return { row: known, isPending: true };
  const tried = await tryOut(call, () =>
    tryOperations(call, [{ method, path, body: body as StoredOperation['body'] }], { ifMatch, problems }),
  );
  // After the trial, so that it holds no lock that a change of credentials waits for.
  if (known && isLate) await releaseProposal(sql, caller, known.id);
  else if (known && (await withdrawPending(sql, caller, known.id, toSkipped(known))))
    recordChangeSet(call, known, 'withdraw');
  const row = await store(call, { title, reason: null, atomic: true, hours: undefined, proposalDigest }, tried);
  if (row) return { row, isPending: false };
  // A concurrent call has just made the same proposal.
  const other = await findSameProposal(sql, caller, proposalDigest);
  if (!other) throw conflict('already_decided', 'The same proposal was decided a moment ago. Try again.');
  return { row: other, isPending: true };
}
