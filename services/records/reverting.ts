// Applies reverts: puts records back in chunks, with the code that other writes of records use.
import { findRecords } from '../../db/records/records.ts';
import { lockConvertedLeads } from '../../db/records/reference-clearing.ts';
import type { RevertItem, RevertRow } from '../../db/records/reverts.ts';
import { findUnfinishedMerges } from '../../db/records/unfinished-merges.ts';
import { lockEntities } from '../../db/sales/activity-effects.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { type ConflictReason, decide, type RevertConflict, type RevertDecision } from '../../domain/records/reverts.ts';
import { ApiError, notFound } from '../../runtime/errors.ts';
import { lockEachForChange } from './locked-records.ts';
import { prepareReversals } from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { deleteEach, noteDeletions, writeChanges } from './record-writes.ts';
import { restoreEachFromTrash } from './restoring.ts';
import { findStates, findTargets } from './revert-planning.ts';
import { undoMergeInRevert } from './unmerging.ts';

/** The outcome of a chunk. */
export interface RevertedChunk {
  reverted: number;
  skipped: number;
  /** Conflicts that the plan does not have. */
  conflicts: RevertConflict[];
}

/**
 * Undoes what operations did to records of one object, as planned, as far as the records are still as the operations left them.
 * @param items of one step
 */
export async function revertChunk(
  call: WriteCall,
  workspace: Workspace,
  row: Pick<RevertRow, 'id' | 'source'>,
  items: readonly RevertItem[],
): Promise<RevertedChunk> {
  const [first] = items;
  const object = first && workspace.objects.get(first.object);
  const conflicts = new Map<string, RevertConflict[]>();
  const reverted = new Set<string>();
  if (object) await revertEach(call, { workspace, object }, row, items, { conflicts, reverted });
  else
    for (const { object: name, recordId } of items)
      conflicts.set(recordId, [buildConflict(name, recordId, 'not_revertible')]);
  const isPlanned = (item: RevertItem, conflict: RevertConflict): boolean =>
    item.conflicts.some(({ field, reason }) => field === conflict.field && reason === conflict.reason);
  return {
    reverted: reverted.size,
    skipped: items.filter(({ recordId }) => !reverted.has(recordId) && conflicts.has(recordId)).length,
    conflicts: items.flatMap((item) => (conflicts.get(item.recordId) ?? []).filter((each) => !isPlanned(item, each))),
  };
}

interface Outcome {
  conflicts: Map<string, RevertConflict[]>;
  reverted: Set<string>;
}

const buildConflict = (object: string, recordId: string, reason: ConflictReason): RevertConflict => ({
  object,
  record_id: recordId,
  field: null,
  reason,
  action: null,
});

async function revertEach(
  call: WriteCall,
  place: RecordTarget,
  row: Pick<RevertRow, 'id' | 'source'>,
  items: readonly RevertItem[],
  outcome: Outcome,
): Promise<void> {
  const decisions = await lockAndDecide(call, place, row, items);
  const { object } = place.object;
  const toRestore = items.filter(({ recordId }) => decisions.get(recordId)?.decision.kind === 'restore');
  const restored = await restoreEach(call, place, toRestore, outcome);
  // The operations can have changed a record before they deleted it.
  const changed = restored.filter(({ fields }) => Object.keys(fields).length > 0);
  if (changed.length > 0)
    for (const [id, decided] of await lockAndDecide(call, place, row, changed)) decisions.set(id, decided);
  for (const [id, { decision }] of decisions) addConflicts(outcome, id, decision.conflicts);

  const updates = [...decisions.values()].flatMap(({ record, decision }) =>
    decision.kind === 'update' && record ? [{ before: record, decision }] : [],
  );
  const { prepared, taken } = await prepareReversals(call, place, updates);
  for (const record of await writeChanges(call, place, prepared)) outcome.reverted.add(record.id);
  for (const id of taken) addConflicts(outcome, id, [buildConflict(object, id, 'changed_since')]);

  const created = [...decisions].flatMap(([id, { decision }]) => (decision.kind === 'trash' ? [id] : []));
  const merging = new Set(
    (created.length > 0 ? await findUnfinishedMerges(call.db.sql, call.caller, created) : []).map(
      ({ recordId }) => recordId,
    ),
  );
  for (const id of merging) addConflicts(outcome, id, [buildConflict(object, id, 'changed_since')]);
  const toTrash = created.filter((id) => !merging.has(id));
  if (toTrash.length === 0) return;
  const deletion = await deleteEach(call, place, toTrash);
  await noteDeletions(call, place, deletion);
  for (const { id } of deletion.records) outcome.reverted.add(id);
}

function addConflicts({ conflicts }: Outcome, id: string, found: readonly RevertConflict[]): void {
  if (found.length > 0) conflicts.set(id, [...(conflicts.get(id) ?? []), ...found]);
}

/** Locks records in the order of other writes, and decides about each by its state then. */
async function lockAndDecide(
  call: WriteCall,
  { object }: RecordTarget,
  row: Pick<RevertRow, 'id' | 'source'>,
  items: readonly RevertItem[],
): Promise<Map<string, { record: StoredRecord | undefined; decision: RevertDecision }>> {
  const { caller } = call;
  const { sql } = call.db;
  const ids = items.map(({ recordId }) => recordId);
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  if (object.object === 'customers') await lockConvertedLeads(sql, caller, ids);
  // The object to which a task refers is in the task itself.
  const tasks = object.object === 'tasks' ? await findRecords(sql, caller, object.object, ids) : [];
  const unlocked = new Map(tasks.map((task) => [task.id, task]));
  const hasTarget = await findTargets(sql, caller, object, items, unlocked);
  const locked = await lockEachForChange(call, object, ids);
  const records = new Map(locked.map((record) => [record.id, record]));
  const states = await findStates(sql, caller, row, object, items, records, call.currentTime());
  return new Map(
    items.map((item) => {
      const decision = decide(item, states(item), object, hasTarget);
      return [item.recordId, { record: records.get(item.recordId), decision }];
    }),
  );
}

/**
 * Restores deleted records. Records that were merged come back by undoing their merges.
 * @returns the items of the restored records; the others are conflicts
 */
async function restoreEach(
  call: WriteCall,
  place: RecordTarget,
  items: readonly RevertItem[],
  outcome: Outcome,
): Promise<RevertItem[]> {
  if (items.length === 0) return [];
  const ids = items.map(({ recordId }) => recordId);
  const outcomes = await restoreEachFromTrash(call, place, ids);
  for (const item of items) {
    const found = outcomes.get(item.recordId) ?? notFound();
    const error = found instanceof ApiError ? await undoIfMerged(call, place, found) : undefined;
    if (!error) {
      outcome.reverted.add(item.recordId);
      continue;
    }
    const isGone = error.code === 'NOT_FOUND' || error.details?.reason === 'related_record_deleted';
    const reason = isGone ? 'deleted_since' : 'changed_since';
    addConflicts(outcome, item.recordId, [buildConflict(item.object, item.recordId, reason)]);
  }
  return items.filter(({ recordId }) => outcome.reverted.has(recordId));
}

/** Undoes the merge that an error of a restoration names. @returns the error, or that of the undo */
async function undoIfMerged(call: WriteCall, place: RecordTarget, error: ApiError): Promise<ApiError | undefined> {
  const { reason, merge_id: mergeId } = error.details ?? {};
  if (reason !== 'merged' || typeof mergeId !== 'string') return error;
  try {
    await undoMergeInRevert(call, place, mergeId);
    return undefined;
  } catch (failure) {
    if (failure instanceof ApiError) return failure;
    throw failure;
  }
}
