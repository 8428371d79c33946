// Applies change sets that a person has approved.
import type { ChangeSetFailure, ChangeSetRow, ChangeSetStatus, StoredOperation } from '../../db/records/change-sets.ts';
import { lockRecords } from '../../db/records/records.ts';
import { collectCreatedIds, replaceIds } from '../../domain/records/change-set-refs.ts';
import type { Change, NestedOutcome } from '../../runtime/handler.ts';
import {
  type Caller,
  canChangeConfiguration,
  digestResult,
  fillIn,
  findId,
  noOperation,
  type Succeeded,
  type Working,
} from './change-set-operations.ts';
import { findStale, groupByObject, stale } from './change-set-versions.ts';
import { toProposer } from './change-sets.ts';

export interface Application {
  status: Extract<ChangeSetStatus, 'applied' | 'failed'>;
  operations: StoredOperation[];
  error: ChangeSetFailure | null;
}

/**
 * Checks that a person has the scopes that the operations declare, and those that their trial needed.
 * @throws ApiError 403 with the missing scopes
 */
export function requireScopes({ services: { nested } }: Working, person: Caller, { operations }: ChangeSetRow): void {
  for (const { method, path, scopes } of operations) nested.authorize({ method, path, scopes, caller: person });
}

/**
 * Applies a set as the person who approves it. Audit rows and events of its operations name the set.
 * @throws ApiError 403 if the person lacks a scope; 409 if a target has changed since the trial
 */
export async function applyChangeSet(call: Working, approver: Caller, row: ChangeSetRow): Promise<Application> {
  const { sql } = call.db;
  call.services.nested.forget();
  await requireFresh(call, approver, row);
  await sql`savepoint application`;
  const applied = await runApproved(call, approver, row);
  if (applied.error && (row.atomic || applied.operations.every(({ status }) => status !== 'applied'))) {
    await sql`rollback to savepoint application`;
    await sql`release savepoint application`;
    call.services.nested.forget();
    const operations = applied.operations.map((each) => ({
      ...each,
      status: each.status === 'failed' ? ('failed' as const) : ('skipped' as const),
    }));
    return { status: 'failed', operations, error: applied.error };
  }
  await sql`release savepoint application`;
  for (const change of applied.changes) call.db.record(nameSet(change, row));
  for (const work of applied.callbacks) call.db.afterCommit(work);
  return { status: 'applied', operations: applied.operations, error: applied.error };
}

const nameSet = (change: Change, row: ChangeSetRow): Change => ({
  ...change,
  metadata: { ...change.metadata, change_set_id: row.id, proposed_by: toProposer(row) },
});

/** @throws ApiError 409 if a target is not the version that the trial found, or out of sight */
async function requireFresh(call: Working, approver: Caller, { operations }: ChangeSetRow): Promise<void> {
  await lockTargets(call, approver, operations);
  const passed = await findStale(call, approver, operations);
  if (passed.length > 0) throw stale(passed);
}

/** Locks the records among the targets and those that the trial changed, so that nothing changes them before the operations do. */
async function lockTargets(
  { db: { sql }, services }: Working,
  approver: Caller,
  operations: readonly StoredOperation[],
): Promise<void> {
  const scope = { ...approver, reach: { kind: 'company' } } as const;
  const { objects } = await services.loadWorkspace();
  const touched = operations.flatMap(({ target, pins }) => {
    const [, object, id] = target?.match(/^\/v1\/objects\/([^/]+)\/records\/([0-9a-f-]{36})$/i) ?? [];
    return object === undefined || id === undefined ? pins : [...pins, { object, id: id.toLowerCase() }];
  });
  for (const [object, ids] of groupByObject(touched))
    if (objects.has(object)) await lockRecords(sql, scope, object, ids);
}

/**
 * Returns an operation that was applied. Its data has real IDs in place of those of the trial, which
 * were rolled back. If it created something, `after` is its own response.
 * @param realIds by those of the trial; gets the IDs of what the operation created
 */
function toApplied(stored: StoredOperation, outcome: Succeeded, realIds: Map<string, string>): StoredOperation {
  const { before, after, triedId } = stored;
  const createdId = findId(outcome);
  if (triedId !== undefined && createdId !== undefined) realIds.set(triedId, createdId);
  collectCreatedIds(after, outcome.data, realIds);
  const isCreation = before === null && after !== null;
  return {
    ...stored,
    before: replaceIds(before, realIds) as StoredOperation['before'],
    after: (isCreation ? outcome.data : replaceIds(after, realIds)) as StoredOperation['after'],
    status: 'applied',
  };
}

interface Applied {
  operations: StoredOperation[];
  changes: Change[];
  callbacks: (() => void)[];
  /** The first failure. */
  error: ChangeSetFailure | null;
}

async function runApproved(call: Working, approver: Caller, row: ChangeSetRow): Promise<Applied> {
  const { nested } = call.services;
  const ids = new Map<string, string>();
  const realIds = new Map<string, string>();
  const touched = new Set<string>();
  const applied: Applied = { operations: [], changes: [], callbacks: [], error: null };
  for (const [index, stored] of row.operations.entries()) {
    if (applied.error && row.atomic) {
      applied.operations.push({ ...stored, status: 'skipped' });
      continue;
    }
    const made = fillIn(stored, ids);
    const outcome = 'error' in made ? made : await runOne(made.path, made.body, stored);
    if ('error' in outcome) {
      const { error } = outcome;
      if (error.code === 'FORBIDDEN_SCOPE' || error.code === 'MODULE_DISABLED') throw error;
      if (error.details?.reason === 'version_mismatch') throw stale([index]);
      const failure = { index, status: error.status, code: error.code, message: error.message };
      applied.error ??= failure;
      applied.operations.push({ ...stored, status: 'failed', error: failure });
      continue;
    }
    if (stored.result !== null && digestResult(outcome) !== stored.result) throw stale([index]);
    const createdId = findId(outcome);
    if (stored.ref !== null && createdId !== undefined) ids.set(stored.ref, createdId);
    for (const { recordId } of outcome.changes) if (recordId !== undefined) touched.add(recordId.toLowerCase());
    applied.changes.push(...outcome.changes);
    applied.callbacks.push(...outcome.callbacks);
    applied.operations.push(toApplied(stored, outcome, realIds));
  }
  return applied;

  async function runOne(
    path: string,
    body: unknown,
    { method, target, version }: StoredOperation,
  ): Promise<NestedOutcome> {
    const operation = nested.find(method, path);
    if (!operation?.isWrite) return { error: noOperation() };
    // The operation locks the record and compares. Records that the set changed have a newer version.
    const isUntouched = target !== null && !touched.has(target.slice(target.lastIndexOf('/') + 1).toLowerCase());
    const ifMatch = operation.takesIfMatch && isUntouched && version?.startsWith('"') ? version : undefined;
    return nested.run({ method, path, body, ifMatch, caller: approver, reloads: canChangeConfiguration(operation) });
  }
}
