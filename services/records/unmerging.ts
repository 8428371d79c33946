// Undoes a merge: the source comes back from the trash, and the target as it was.
import { type MovedIds, moveItems, type Pair } from '../../db/records/merge-moves.ts';
import { hasMoved } from '../../db/records/merge-progress.ts';
import {
  endMerge,
  findLaterMerge,
  findMerge,
  findStandingMerges,
  lockMerge,
  type MergeRow,
  type MergeUndo,
} from '../../db/records/merges.ts';
import { findRecordsBeyondReach } from '../../db/records/records.ts';
import { lockConvertedLeads, moveReferences } from '../../db/records/reference-clearing.ts';
import { holdExisting, lockDeletedRecords } from '../../db/records/trash.ts';
import { moveClocks } from '../../db/settings/sla-clocks.ts';
import type { StoredValue } from '../../domain/objects/field-values.ts';
import type { WorkspaceObject } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { revertFields } from '../../domain/records/merging.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { listOwnReferences, type RestoreWarning } from '../../domain/records/restoring.ts';
import { describeMerge, showRecord } from '../../domain/records/view.ts';
import { conflict, notFound } from '../../runtime/errors.ts';
import type { Call, CallServices } from '../../runtime/handler.ts';
import { attempt } from './attempt.ts';
import { applyFollowup, updateFollowups } from './followups.ts';
import { lockForChange } from './locked-records.ts';
import { listMovedChildren, noteMovedReferences } from './merging.ts';
import { prepareStored } from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { toCause, writeChange } from './record-writes.ts';
import { restoreLocked } from './restoring.ts';
import { requireMergesFinished } from './unfinished-merges.ts';

/** A call that may undo merges. */
export interface UndoCall extends WriteCall {
  authorize: Call['authorize'];
  services: Pick<CallServices, 'loadWorkspace'>;
}

export interface UndoneMerge {
  merge: MergeRow;
  object: WorkspaceObject;
  source: StoredRecord;
  target: StoredRecord;
  /** Fields that were written since the merge, as the API shows them. */
  conflicts: { field: string; before: StoredValue; current: StoredValue }[];
  warnings: RestoreWarning[];
}

/**
 * Undoes a merge. If a job moved its items, a job moves them back, and the merge is `running` until
 * then.
 * @throws ApiError 404 for a merge that the caller cannot see; 403 without the edit and delete scopes
 * of its object; 409 not_merged, merge_running, undo_expired, merge_superseded or
 * related_record_deleted, or if a value of a unique field is taken
 */
export async function undoMerge(call: UndoCall, mergeId: string): Promise<UndoneMerge> {
  const { caller } = call;
  const workspace = await call.services.loadWorkspace();
  const objects = [...workspace.objects.keys()].filter((name) => isVisible(name, workspace, caller));
  const merge = await findMerge(call.db.sql, caller, objects, mergeId);
  const object = merge && workspace.objects.get(merge.object);
  if (!merge || !object) throw notFound();
  for (const action of ['edit', 'delete']) call.authorize(`${object.module}:${action}`);
  const place = { workspace, object };
  return { ...(await undo(call, place, merge)), object };
}

/**
 * Undoes a merge as part of a revert, whose scopes were checked.
 * @throws ApiError as undoMerge; what it wrote is then rolled back
 */
export async function undoMergeInRevert(call: WriteCall, place: RecordTarget, mergeId: string): Promise<void> {
  const merge = await findMerge(call.db.sql, call.caller, [place.object.object], mergeId);
  if (!merge) throw notFound();
  await attempt(call, (each) => undo(each, place, merge));
}

async function undo(call: WriteCall, place: RecordTarget, merge: MergeRow): Promise<Omit<UndoneMerge, 'object'>> {
  const { caller } = call;
  const { sql } = call.db;
  const { object } = place;
  const stored = await lockMerge(sql, caller, merge.id);
  if (!stored) throw notFound();
  if (stored.undoneAt) throw conflict('not_merged', 'The merge was undone.');
  if (!stored.undo || stored.undoUntil <= call.currentTime())
    throw conflict('undo_expired', 'The merge can no longer be undone.');
  const known = stored.undo;
  const pair: Pair = { object: object.object, from: merge.targetId, to: merge.sourceId };
  // A job moves the others back, and locks them itself.
  const leads = known.references.filter(({ field }) => field === 'converted_customer_id').map(({ id }) => id);
  if (leads.length > 0) await lockConvertedLeads(sql, caller, [merge.targetId], leads);
  const gone = await findGone(call, object.object, known);
  const before = await lockTarget(call, place, merge);
  await requireMergesFinished(call, [merge.sourceId, merge.targetId]);
  const changed = [...Object.keys(known.values), ...Object.keys(known.custom)];
  const later = await findLaterMerge(sql, caller, merge, changed);
  if (later !== undefined) throw superseded(later);
  const [deleted] = await lockDeletedRecords(sql, caller, object.object, [merge.sourceId], call.currentTime());
  if (!deleted) throw notFound();

  const now = call.currentTime();
  // Before the target changes, which can end its clocks.
  await moveClocks(sql, caller, pair, { ids: known.clockIds });
  const { kept, ...reverted } = revertFields(object, before, known, gone);
  const added = new Set(known.tagIds);
  const manual = (before.tags ?? []).filter(({ isManual }) => isManual).map(({ tagId }) => tagId);
  const left = manual.filter((tagId) => !added.has(tagId));
  const change = await prepareStored(call, place, before, reverted, left.length < manual.length ? left : undefined);
  const metadata = { merge_id: merge.id, source_id: merge.sourceId };
  const written = change ? await writeChange(call, place, change, { metadata }) : before;
  const { mergeId, sourceId, targetId } = { ...merge, mergeId: merge.id };
  const items = await moveBack(call, pair, known.items, now);
  const { record: source, warnings } = await restoreLocked(call, place, deleted, (of, _id, _records, changes, at) => {
    const moved = listMovedChildren(items.activities, items.tasks);
    const metadataOf = Object.keys(changes).length > 0 ? { lost: Object.keys(changes) } : {};
    return {
      changes: {},
      ...describeMerge(of, 'unmerge', { mergeId, sourceId, targetId }, { moved, metadata: metadataOf }, at),
    };
  });
  const references = await moveReferences(sql, caller, object.object, pair, known.references, now);
  await noteMovedReferences(call, place, references, pair, merge.id, now);
  const remaining = (await hasMoved(sql, caller, merge.id)) ? { ...stored.moved, tags: 0 } : null;
  await endMerge(sql, caller, merge.id, now, remaining ? { remaining, causedBy: toCause(call) } : undefined);
  const followed = await updateFollowups(call, place.workspace, object.object, [merge.targetId]);
  const target = applyFollowup(written, followed);
  const [shown, earlier] = [
    showRecord(object, target),
    showRecord(object, { ...target, ...valuesBefore(target, known) }),
  ];
  const conflicts = kept
    .map((field) => ({ field, before: earlier[field] ?? null, current: shown[field] ?? null }))
    // A next follow-up that changed since the merge can be as before again.
    .filter(({ field, before: former, current }) => field !== 'next_followup_at' || former !== current);
  const status = remaining ? ('running' as const) : ('completed' as const);
  return { merge: { ...merge, fields: [], undoneAt: now, status, remaining }, source, target, conflicts, warnings };
}

/** Moves items back to the source, which need not be there yet. */
function moveBack({ caller, db: { sql } }: WriteCall, pair: Pair, ids: MovedIds, now: Date) {
  return moveItems(sql, caller, pair, ids, now);
}

function valuesBefore({ values, custom }: StoredRecord, known: MergeUndo): Pick<StoredRecord, 'values' | 'custom'> {
  const from = (changes: MergeUndo['values']) =>
    Object.fromEntries(Object.entries(changes).map(([name, change]) => [name, change.from]));
  return { values: { ...values, ...from(known.values) }, custom: { ...custom, ...from(known.custom) } };
}

const superseded = (by: string) =>
  conflict('merge_superseded', 'A later merge depends on this one. Undo the later merge first.', { by });

async function lockTarget(call: WriteCall, { object }: RecordTarget, { targetId }: MergeRow): Promise<StoredRecord> {
  const { caller } = call;
  const { sql } = call.db;
  const target = await lockForChange(call, object, targetId);
  if (target) return target;
  const merged = (await findStandingMerges(sql, caller, [targetId])).get(targetId);
  if (merged !== undefined) throw superseded(merged);
  if ((await findRecordsBeyondReach(sql, caller, object.object, [targetId])).length > 0) throw notFound();
  const message = 'The record that the other one was merged into was deleted. Restore it first.';
  throw conflict('related_record_deleted', message, { object: object.object, record_id: targetId });
}

/** Returns the ids of records to which the target referred before the merge, and that no longer exist. */
async function findGone(
  { caller, db: { sql } }: WriteCall,
  object: string,
  { values }: MergeUndo,
): Promise<ReadonlySet<StoredValue>> {
  const former = Object.fromEntries(Object.entries(values).map(([name, { from }]) => [name, from]));
  const references = listOwnReferences(object, { values: former } as unknown as StoredRecord);
  const keys = references.map((each) => ({ object: each.object, id: each.to }));
  const existing = await holdExisting(sql, caller, keys);
  return new Set(references.map(({ to }) => to).filter((to) => !existing.has(to)));
}
